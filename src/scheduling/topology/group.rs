//! The questions that pods ask about where other pods are, each once.

use std::collections::BTreeMap;

use super::super::space::{ReqId, Space};
use crate::api::names::HOSTNAME;
use crate::model::Pod;
use crate::model::pod::{Inclusion, Namespaces, Spread, Term};
use crate::model::selector::Selector;

/// The number of a group.
pub(in crate::scheduling) type GroupId = usize;

/// One question.
#[derive(Clone, Debug)]
pub(in crate::scheduling) struct Group {
    /// What is asked.
    pub(in crate::scheduling) kind: Kind,
    /// Over what is counted.
    pub(in crate::scheduling) over: Over,
    /// Which pods are counted: those that all of these mean.
    pub(in crate::scheduling) whom: Vec<Whom>,
    /// On which nodes.
    pub(in crate::scheduling) filter: Filter,
    /// Of a spread over a label: the values over which pods are to be spread.
    pub(in crate::scheduling) eligible: Vec<u64>,
}

/// Pods with these labels in these namespaces.
type Whom = (Selector, Namespaces);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheduling) enum Kind {
    /// To be spread evenly.
    Spread {
        /// By how much the fullest may exceed the emptiest.
        max_skew: i64,
        /// With fewer values than this, the emptiest counts as empty.
        min_domains: Option<u32>,
    },
    /// To be near.
    Near,
    /// To be far.
    Far,
}

/// Over what pods are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheduling) enum Over {
    /// Over nodes.
    Hosts,
    /// Over the values of a label, by its column.
    Label(usize),
}

/// On which nodes pods are counted: those that meet one of these requirements and whose taints are tolerated.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheduling) struct Filter {
    /// Any node if there is none.
    pub(in crate::scheduling) requirements: Vec<ReqId>,
    /// The number of a list of tolerations; any node if absent.
    pub(in crate::scheduling) tolerations: Option<u32>,
}

type Key = (Kind, Over, Vec<Whom>, Filter);

/// All questions.
#[derive(Debug, Default)]
pub(in crate::scheduling) struct Groups {
    /// The questions.
    pub(in crate::scheduling) all: Vec<Group>,
    ids: BTreeMap<Key, GroupId>,
}

/// One question that a pod asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::scheduling) struct Ask {
    /// Which.
    pub(in crate::scheduling) group: GroupId,
    /// Whether the pod itself is among those counted, as 0 or 1.
    pub(in crate::scheduling) itself: i64,
}

/// All questions that a pod asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::scheduling) struct Asks {
    /// To be spread.
    pub(in crate::scheduling) spreads: Vec<Ask>,
    /// To be near.
    pub(in crate::scheduling) near: Vec<Ask>,
    /// So many of those to be near, the first ones, belong together; each of the others is a wish of its own.
    pub(in crate::scheduling) near_firm: usize,
    /// To be far.
    pub(in crate::scheduling) far: Vec<Ask>,
}

/// On which nodes the spreads of a pod count others, as far as each of them honors that.
#[derive(Clone, Debug)]
pub(in crate::scheduling) struct CountedOn {
    /// Those that meet one of the pod's node terms.
    pub(in crate::scheduling) terms: Vec<ReqId>,
    /// Those that have certain labels, which every spread honors.
    pub(in crate::scheduling) labelled: Option<ReqId>,
    /// Those whose taints it tolerates, by the number of its tolerations.
    pub(in crate::scheduling) tolerations: u32,
}

impl CountedOn {
    /// One of these must be met; any node counts if there is none.
    fn requirements(&self, space: &mut Space, terms: Inclusion) -> Vec<ReqId> {
        let terms = match terms {
            Inclusion::Honor => &self.terms[..],
            Inclusion::Ignore => &[],
        };
        let Some(labelled) = self.labelled else {
            return terms.to_vec();
        };
        let both: Vec<ReqId> = terms
            .iter()
            .filter_map(|term| space.and(labelled, *term))
            .collect();
        // A pod whose terms rule its own labels out has no place, whatever is counted.
        if both.is_empty() { vec![labelled] } else { both }
    }
}

impl Asks {
    /// Whether nothing is asked.
    pub(in crate::scheduling) fn is_empty(&self) -> bool {
        self.spreads.is_empty() && self.near.is_empty() && self.far.is_empty()
    }

    /// Whether the answer may become better as more pods are placed.
    pub(in crate::scheduling) fn may_improve(&self) -> bool {
        !self.spreads.is_empty() || !self.near.is_empty()
    }
}

impl Groups {
    /// The question behind a spread of a pod.
    pub(in crate::scheduling) fn spread(
        &mut self,
        space: &mut Space,
        pod: &Pod,
        spread: &Spread,
        on: &CountedOn,
    ) -> Ask {
        let filter = Filter {
            requirements: on.requirements(space, spread.node_affinity),
            tolerations: (spread.node_taints == Inclusion::Honor).then_some(on.tolerations),
        };
        let kind = Kind::Spread {
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
        };
        let key = (
            kind,
            over(space, &spread.key),
            vec![(spread.selector.clone(), Namespaces::one(&pod.namespace))],
            filter,
        );
        Ask {
            group: self.intern(key),
            itself: i64::from(spread.selector.matches(&pod.labels)),
        }
    }

    /// The questions behind all affinities that a pod must have, one for each label. The kube-scheduler counts only pods
    /// that every one of them means.
    pub(in crate::scheduling) fn near(
        &mut self,
        space: &Space,
        pod: &Pod,
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Vec<Ask> {
        let terms = pod.affinity.iter();
        let mut whom: Vec<Whom> = terms
            .map(|term| (term.selector.clone(), term.namespaces.clone()))
            .collect();
        whom.sort();
        whom.dedup();
        let itself = i64::from(means(&whom, pod, namespaces));
        let mut asks = Vec::with_capacity(1);
        for term in &pod.affinity {
            let over = over(space, &term.key);
            let group = self.intern((Kind::Near, over, whom.clone(), Filter::default()));
            let ask = Ask { group, itself };
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
        asks
    }

    /// The question behind an anti-affinity of a pod, or behind an affinity that it merely wishes for.
    pub(in crate::scheduling) fn term(
        &mut self,
        space: &Space,
        pod: &Pod,
        term: &Term,
        kind: Kind,
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Ask {
        let whom = vec![(term.selector.clone(), term.namespaces.clone())];
        let itself = i64::from(means(&whom, pod, namespaces));
        let key = (kind, over(space, &term.key), whom, Filter::default());
        Ask {
            group: self.intern(key),
            itself,
        }
    }

    fn intern(&mut self, key: Key) -> GroupId {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = self.all.len();
        let (kind, over, whom, filter) = key.clone();
        self.all.push(Group {
            kind,
            over,
            whom,
            filter,
            eligible: Vec::new(),
        });
        self.ids.insert(key, id);
        id
    }

    /// For each of these pods the groups that count it, found by way of one label that all selected pods have.
    pub(in crate::scheduling) fn counting(
        &self,
        pods: &[&Pod],
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Vec<Vec<GroupId>> {
        let mut by_label: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate() {
            for (key, value) in &pod.labels {
                by_label.entry((key, value)).or_default().push(at);
            }
        }
        let everyone: Vec<usize> = (0..pods.len()).collect();
        let mut counting = vec![Vec::new(); pods.len()];
        for (id, group) in self.all.iter().enumerate() {
            let mut certain = group
                .whom
                .iter()
                .filter_map(|(selector, _)| selector.certain_label());
            let candidates = match certain.next() {
                Some(label) => by_label.get(&label).map_or(&[][..], Vec::as_slice),
                None => &everyone,
            };
            for at in candidates {
                #[cfg(test)]
                matches::count();
                if means(&group.whom, pods[*at], namespaces) {
                    counting[*at].push(id);
                }
            }
        }
        counting
    }
}

/// Whether all of these mean a pod.
fn means(whom: &[Whom], pod: &Pod, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
    let mut whom = whom.iter();
    whom.all(|(selector, within)| selector.matches(&pod.labels) && within.include(&pod.namespace, namespaces))
}

fn over(space: &Space, key: &str) -> Over {
    if key == HOSTNAME {
        return Over::Hosts;
    }
    // Every key that a pod asks about has a column, so the default is never taken.
    Over::Label(space.column(key).unwrap_or_default())
}

/// How often a class of pods was held against a group on this thread: what finding out who counts where grows with.
#[cfg(test)]
pub(in crate::scheduling) mod matches {
    use std::cell::Cell;

    thread_local! {
        static MATCHES: Cell<usize> = const { Cell::new(0) };
    }

    /// One more.
    pub(super) fn count() {
        MATCHES.set(MATCHES.get() + 1);
    }

    /// How many there were since this was asked last.
    pub(in crate::scheduling) fn take() -> usize {
        MATCHES.take()
    }
}
