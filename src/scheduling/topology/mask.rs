//! Where a pod may be, given where the others are.

use super::super::bits;
use super::super::space::Space;
use super::count::Counts;
use super::group::{Ask, Asks, Group, GroupId, Kind, Over};

/// The question that leaves no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) enum Obstacle {
    /// One that the pod asks itself.
    Own(GroupId),
    /// One that pods ask which must be far from this one.
    Others(GroupId),
}

/// What is asked about the node itself, to be looked up for each node.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduling) struct Hosts {
    /// At most so many selected pods.
    at_most: Vec<(GroupId, i64)>,
    /// Some selected pod.
    some: Vec<GroupId>,
    /// Nobody who must be far from this pod.
    unowned: Vec<GroupId>,
}

impl Hosts {
    /// Whether a node cannot be taken, and never will be: counts only grow.
    pub(in crate::scheduling) fn refuse(&self, counts: &Counts, host: usize) -> Option<Obstacle> {
        let crowded = self
            .at_most
            .iter()
            .find(|(group, most)| counts.matched(*group, host) > *most)
            .map(|(group, _)| Obstacle::Own(*group));
        crowded.or_else(|| {
            self.unowned
                .iter()
                .find(|group| counts.owned(**group, host) > 0)
                .map(|group| Obstacle::Others(*group))
        })
    }

    /// Which of 64 nodes cannot be taken, and never will be, as far as that can be told of all at once.
    pub(in crate::scheduling) fn refused_of(&self, counts: &Counts, block: usize) -> u64 {
        let empty_only = self.at_most.iter().filter(|(_, most)| *most <= 0);
        let crowded = empty_only.fold(0, |set, (group, _)| set | counts.matched_at(*group, block));
        let unowned = self.unowned.iter();
        unowned.fold(crowded, |set, group| set | counts.owned_at(*group, block))
    }

    /// Whether a node lacks pods that this one must be near. That may change.
    pub(in crate::scheduling) fn lonely(&self, counts: &Counts, host: usize) -> Option<Obstacle> {
        self.some
            .iter()
            .find(|group| counts.matched(**group, host) == 0)
            .map(|group| Obstacle::Own(*group))
    }

    /// The pods that a node without any lacks.
    pub(in crate::scheduling) fn wants_company(&self) -> Option<Obstacle> {
        self.some.first().map(|group| Obstacle::Own(*group))
    }

    /// Whether a node without pods can be taken.
    pub(in crate::scheduling) fn empty_will_do(&self) -> bool {
        self.some.is_empty()
    }
}

/// What a pod asks of where others are.
pub(in crate::scheduling) struct Question<'a> {
    /// What it asks.
    pub(in crate::scheduling) asks: &'a Asks,
    /// The groups by which others must be far from it.
    pub(in crate::scheduling) feared: &'a [GroupId],
}

impl Question<'_> {
    /// Narrows `set` to the labels that are allowed now, and collects what is asked about nodes themselves.
    pub(in crate::scheduling) fn answer(
        &self,
        space: &Space,
        groups: &[Group],
        counts: &Counts,
        set: &mut [u64],
    ) -> Result<Hosts, Obstacle> {
        let mut hosts = Hosts::default();
        for ask in &self.asks.spreads {
            let Kind::Spread {
                max_skew,
                min_domains,
            } = groups[ask.group].kind
            else {
                continue;
            };
            match groups[ask.group].over {
                // A new node is always possible, so the emptiest has none.
                Over::Hosts => hosts.at_most.push((ask.group, max_skew - ask.itself)),
                Over::Label(column) => {
                    let emptiest = emptiest(&groups[ask.group], ask.group, counts, min_domains);
                    let most = emptiest + max_skew - ask.itself;
                    let valid = |state: &usize| counts.matched(ask.group, *state) <= most;
                    let eligible = bits::iter(&groups[ask.group].eligible).filter(valid);
                    narrow(space, set, column, eligible).ok_or(Obstacle::Own(ask.group))?;
                }
            }
        }
        self.answer_near(space, groups, counts, set, &mut hosts)?;
        for ask in &self.asks.far {
            match groups[ask.group].over {
                Over::Hosts => hosts.at_most.push((ask.group, 0)),
                Over::Label(column) => {
                    let free = |state: &usize| counts.matched(ask.group, *state) == 0;
                    narrow(space, set, column, states(space, column).filter(free))
                        .ok_or(Obstacle::Own(ask.group))?;
                }
            }
        }
        for group in self.feared {
            match groups[*group].over {
                Over::Hosts => hosts.unowned.push(*group),
                Over::Label(column) => {
                    let free = |state: &usize| counts.owned(*group, *state) == 0;
                    narrow(space, set, column, states(space, column).filter(free))
                        .ok_or(Obstacle::Others(*group))?;
                }
            }
        }
        Ok(hosts)
    }

    /// The first of its kind may be anywhere: if a pod is selected itself, and nobody is there by any of the labels. That is
    /// said once of all that it must be near to, and of each that it merely wishes for.
    fn answer_near(
        &self,
        space: &Space,
        groups: &[Group],
        counts: &Counts,
        set: &mut [u64],
        hosts: &mut Hosts,
    ) -> Result<(), Obstacle> {
        let nobody = |ask: &Ask| ask.itself == 1 && counts.total(ask.group) == 0;
        let near = &self.asks.near;
        let (firm, _) = near.split_at(self.asks.near_firm);
        let first_of_all = firm.iter().all(nobody);
        for (at, ask) in near.iter().enumerate() {
            let first = if at < firm.len() {
                first_of_all
            } else {
                nobody(ask)
            };
            match groups[ask.group].over {
                Over::Hosts if first => {}
                Over::Hosts => hosts.some.push(ask.group),
                Over::Label(column) => {
                    let values = space.columns()[column].values.len();
                    let there = |state: &usize| first || counts.matched(ask.group, *state) > 0;
                    narrow(space, set, column, (0..values).filter(there)).ok_or(Obstacle::Own(ask.group))?;
                }
            }
        }
        Ok(())
    }
}

/// How many selected pods the emptiest value has.
fn emptiest(group: &Group, id: GroupId, counts: &Counts, min_domains: Option<u32>) -> i64 {
    if min_domains.is_some_and(|least| bits::count(&group.eligible) < least) {
        return 0;
    }
    let counted = bits::iter(&group.eligible).map(|state| counts.matched(id, state));
    counted.min().unwrap_or(0)
}

/// Every state of a label but that of values which nobody tells apart: no node of ours would have one.
fn states(space: &Space, column: usize) -> impl Iterator<Item = usize> + use<> {
    let column = &space.columns()[column];
    (0..column.values.len()).chain([column.absent()])
}

fn narrow(space: &Space, set: &mut [u64], column: usize, allowed: impl Iterator<Item = usize>) -> Option<()> {
    let mut states = space.no_states(column);
    allowed.for_each(|state| bits::put(&mut states, state));
    space.restrict(set, column, &states);
    (!bits::is_empty(space.part(set, column))).then_some(())
}
