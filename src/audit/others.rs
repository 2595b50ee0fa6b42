//! What pods ask of where others are, and others of where they are.
//!
//! Who is meant by a term is worked out once for every class of pods; where they are is looked up place by place, every
//! time anew.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::labels::Position;
use super::meaning::{names, repelled, selects};
use super::place::Place;
use super::{Broken, Rule};
use crate::api::names::HOSTNAME;
use crate::model::pod::{Firmness, Inclusion, Namespaces, Spread, Term};
use crate::model::{Pod, PodSet, Requirements, Selector, Snapshot, Toleration};

/// A set of pods that somebody asks about: those that each of these means.
type Group = BTreeSet<(Selector, Namespaces)>;
/// Whose nodes a spread counts: these terms and tolerations, as far as its policies honor them, and those that have all
/// labels over which the pod must be spread.
type Scope = (
    Option<Vec<Requirements>>,
    Option<Vec<Toleration>>,
    BTreeSet<String>,
);

/// Who is where, as pods are placed.
pub(super) struct Census<'a> {
    snapshot: &'a Snapshot,
    /// By label: where each place is, as a number that only the same value of the same label shares.
    positions: BTreeMap<String, Vec<At>>,
    /// For every group, whether each class of pending pods belongs to it.
    members: BTreeMap<Group, Vec<bool>>,
    /// For every group, how many of it are at each place.
    there: BTreeMap<Group, Vec<usize>>,
    /// For every term of somebody who must be far from others: how many who say so are at each place.
    keepers: BTreeMap<Term, Vec<usize>>,
    /// For every scope, whether each place counts.
    scopes: BTreeMap<Scope, Vec<bool>>,
}

/// Where a place is by one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Value(usize),
    Nowhere,
    Open,
}

impl<'a> Census<'a> {
    /// The pods that are there before anything is placed.
    pub(super) fn new(snapshot: &'a Snapshot, places: &[Place<'_>]) -> Self {
        let mut census = Self {
            snapshot,
            positions: BTreeMap::new(),
            members: BTreeMap::new(),
            there: BTreeMap::new(),
            keepers: BTreeMap::new(),
            scopes: BTreeMap::new(),
        };
        for pod in pods(&snapshot.pending).chain(pods(&snapshot.bound)) {
            census.meet(pod, places);
        }
        let nodes: BTreeMap<&str, usize> = snapshot
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.name.as_str(), at))
            .collect();
        for member in &snapshot.bound.members {
            let at = member.node.as_deref().and_then(|node| nodes.get(node));
            if let (Some(at), Ok(pod)) = (at, &snapshot.bound.classes[member.class]) {
                census.count_by(*at, pod, |group| belongs(snapshot, group, pod));
            }
        }
        census
    }

    /// Prepares for everything that a pod asks.
    fn meet(&mut self, pod: &Pod, places: &[Place<'_>]) {
        let near = pod.affinity.iter().map(|term| (&term.key, company(pod)));
        let far = pod.anti_affinity.iter().map(|term| (&term.key, meant(term)));
        let spreads = required(pod).map(|spread| (&spread.key, group_of(pod, spread)));
        for (key, group) in near.chain(far).chain(spreads) {
            self.positions
                .entry(key.clone())
                .or_insert_with(|| positions(places, key));
            if !self.there.contains_key(&group) {
                let all = self.snapshot.pending.classes.iter();
                let members = all.map(|class| {
                    class
                        .as_ref()
                        .is_ok_and(|class| belongs(self.snapshot, &group, class))
                });
                self.members.insert(group.clone(), members.collect());
                self.there.insert(group, vec![0; places.len()]);
            }
        }
        for term in &pod.anti_affinity {
            let nobody = || vec![0; places.len()];
            self.keepers.entry(term.clone()).or_insert_with(nobody);
        }
        for spread in required(pod) {
            let scope = scope_of(pod, spread);
            if let Entry::Vacant(entry) = self.scopes.entry(scope) {
                let counted = places.iter().map(|place| counts(place, entry.key())).collect();
                entry.insert(counted);
            }
        }
    }

    /// Counts a pod of a class that was placed.
    pub(super) fn count(&mut self, at: usize, pod: &Pod, class: usize) {
        let members = std::mem::take(&mut self.members);
        self.count_by(at, pod, |group| members.get(group).is_some_and(|all| all[class]));
        self.members = members;
    }

    fn count_by(&mut self, at: usize, pod: &Pod, belongs: impl Fn(&Group) -> bool) {
        for (group, there) in &mut self.there {
            there[at] += usize::from(belongs(group));
        }
        for term in pod.anti_affinity.iter().collect::<BTreeSet<_>>() {
            if let Some(there) = self.keepers.get_mut(term) {
                there[at] += 1;
            }
        }
    }

    /// What is broken if a pod goes to a place now.
    pub(super) fn look(&self, at: usize, pod: &Pod) -> Vec<Broken> {
        let mut broken = self.look_far(at, pod);
        broken.extend(self.look_near(at, pod));
        broken.extend(required(pod).filter_map(|spread| self.look_spread(at, pod, spread)));
        broken
    }

    /// How many of `there` are at the same value of a label as a place; nothing comes back if that is not certain.
    fn together(&self, key: &str, at: usize, there: &[usize]) -> Option<usize> {
        let positions = &self.positions[key];
        match positions[at] {
            At::Nowhere => Some(0),
            // Wherever it comes up, nobody is there.
            At::Open => there.iter().all(|there| *there == 0).then_some(0),
            At::Value(value) => {
                let mut sum = 0;
                for (position, there) in positions.iter().zip(there) {
                    match position {
                        At::Value(other) if *other == value => sum += there,
                        At::Open if *there > 0 => return None,
                        _ => {}
                    }
                }
                Some(sum)
            }
        }
    }

    fn look_far(&self, at: usize, pod: &Pod) -> Vec<Broken> {
        let mut broken = Vec::new();
        for term in &pod.anti_affinity {
            if self.together(&term.key, at, &self.there[&meant(term)]) != Some(0) {
                broken.push((
                    Rule::Far,
                    format!("by {} near to one it must be far from", term.key),
                ));
            }
        }
        for (term, there) in &self.keepers {
            let meant = selects(&term.selector, &pod.labels)
                && names(&term.namespaces, &pod.namespace, &self.snapshot.namespaces);
            if meant && self.together(&term.key, at, there) != Some(0) {
                broken.push((
                    Rule::Far,
                    format!("by {} near to one that must be far from it", term.key),
                ));
            }
        }
        broken
    }

    /// Only whom all terms mean is company, by the label of each. Whoever they mean itself is the first where there is
    /// nobody yet by any of the labels.
    fn look_near(&self, at: usize, pod: &Pod) -> Vec<Broken> {
        if pod.affinity.is_empty() {
            return Vec::new();
        }
        let group = company(pod);
        let there = &self.there[&group];
        let anywhere = |term: &Term| {
            let mut there = self.positions[&term.key].iter().zip(there);
            there.any(|(position, there)| *position != At::Nowhere && *there > 0)
        };
        let first = belongs(self.snapshot, &group, pod) && !pod.affinity.iter().any(anywhere);
        let mut broken = Vec::new();
        for term in &pod.affinity {
            let somewhere = matches!(self.positions[&term.key][at], At::Value(_));
            let company = self.together(&term.key, at, there);
            if !somewhere || (!first && company.is_none_or(|others| others == 0)) {
                broken.push((
                    Rule::Near,
                    format!("by {} near to nobody it must be near", term.key),
                ));
            }
        }
        broken
    }

    fn look_spread(&self, at: usize, pod: &Pod, spread: &Spread) -> Option<Broken> {
        let group = group_of(pod, spread);
        let counted = &self.scopes[&scope_of(pod, spread)];
        let mut by_value: BTreeMap<usize, usize> = BTreeMap::new();
        let places = self.positions[&spread.key].iter().zip(counted);
        for ((position, _), there) in places
            .zip(&self.there[&group])
            .filter(|((_, counted), _)| **counted)
        {
            match position {
                At::Value(value) => *by_value.entry(*value).or_default() += there,
                At::Open if *there > 0 => {
                    let found = format!("somebody who counts is at no certain {}", spread.key);
                    return Some((Rule::Spread, found));
                }
                _ => {}
            }
        }
        let At::Value(here) = self.positions[&spread.key][at] else {
            return Some((Rule::Spread, format!("it is at no certain {}", spread.key)));
        };
        let too_few = spread
            .min_domains
            .is_some_and(|least| by_value.len() < least as usize);
        // A node that nobody is on can always be bought.
        let least = if spread.key == HOSTNAME || too_few {
            0
        } else {
            by_value.values().copied().min().unwrap_or(0)
        };
        let itself = usize::from(selects(&spread.selector, &pod.labels));
        let here = by_value.get(&here).copied().unwrap_or(0) + itself;
        let skew = i64::try_from(here - least.min(here)).unwrap_or(i64::MAX);
        (skew > spread.max_skew).then(|| {
            let found = format!("{here} by {} where {least} is the least", spread.key);
            (Rule::Spread, found)
        })
    }
}

fn pods(set: &PodSet) -> impl Iterator<Item = &Pod> {
    set.classes.iter().filter_map(|class| class.as_ref().ok())
}

fn required(pod: &Pod) -> impl Iterator<Item = &Spread> {
    pod.spreads
        .iter()
        .filter(|spread| spread.firmness == Firmness::Required)
}

fn group_of(pod: &Pod, spread: &Spread) -> Group {
    let own = Namespaces {
        names: [pod.namespace.clone()].into(),
        selector: Selector::Nothing,
    };
    [(spread.selector.clone(), own)].into()
}

/// Whom a term means.
fn meant(term: &Term) -> Group {
    [(term.selector.clone(), term.namespaces.clone())].into()
}

/// Whom a pod must be near to.
fn company(pod: &Pod) -> Group {
    pod.affinity.iter().flat_map(meant).collect()
}

fn scope_of(pod: &Pod, spread: &Spread) -> Scope {
    let honored = |policy: Inclusion| policy == Inclusion::Honor;
    (
        honored(spread.node_affinity).then(|| pod.node_terms.clone()),
        honored(spread.node_taints).then(|| pod.tolerations.clone()),
        required(pod).map(|spread| spread.key.clone()).collect(),
    )
}

fn counts(place: &Place<'_>, (terms, tolerations, keys): &Scope) -> bool {
    let met = |terms: &Vec<Requirements>| terms.iter().any(|term| place.labels.may_meet(term, &[]));
    let tolerated = |tolerations: &Vec<Toleration>| repelled(place.taints, tolerations).is_none();
    let mut keys = keys.iter();
    terms.as_ref().is_none_or(met)
        && tolerations.as_ref().is_none_or(tolerated)
        && keys.all(|key| place.labels.position(key) != Position::Nowhere)
}

fn belongs(snapshot: &Snapshot, group: &Group, pod: &Pod) -> bool {
    let mut all = group.iter();
    all.all(|(selector, namespaces)| {
        selects(selector, &pod.labels) && names(namespaces, &pod.namespace, &snapshot.namespaces)
    })
}

fn positions(places: &[Place<'_>], key: &str) -> Vec<At> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut number = |place: &Place<'_>| match place.labels.position(key) {
        Position::At(value) => {
            let next = numbers.len();
            At::Value(*numbers.entry(value).or_insert(next))
        }
        Position::Nowhere => At::Nowhere,
        Position::Open => At::Open,
    };
    places.iter().map(&mut number).collect()
}
