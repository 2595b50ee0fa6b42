//! Pod affinity and anti-affinity: pods that want each other near, and pods that do not.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::board::{Board, Site, namespace};
use super::fit::Refusal;
use super::labels;
use crate::sim::actors::view::View;

/// What an existing pod's *required* affinity to the new one adds to a node's score, as the default configuration of
/// the real scheduler has it.
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// A node label and its value.
type Domain = (String, String);

/// Whom a term means, its namespaces worked out.
struct Term {
    key: String,
    selector: Option<LabelSelector>,
    namespaces: BTreeSet<String>,
}

impl Term {
    /// A term without namespaces and without a selector of them means the pod's own.
    fn of(view: &View, pod: &Pod, term: &PodAffinityTerm) -> Self {
        let named = term.namespaces.as_deref().unwrap_or_default();
        let mut namespaces: BTreeSet<String> = named.iter().cloned().collect();
        if let Some(selector) = &term.namespace_selector {
            let selected = view
                .namespaces
                .iter()
                .filter(|(_, namespace)| labels::selects(Some(selector), labels::of(&namespace.metadata)));
            namespaces.extend(selected.map(|(name, _)| name.clone()));
        } else if named.is_empty() {
            namespaces.insert(namespace(pod).to_owned());
        }
        let keys = term.match_label_keys.as_deref().unwrap_or_default();
        let unlike = term.mismatch_label_keys.as_deref().unwrap_or_default();
        Self {
            key: term.topology_key.clone(),
            selector: labels::with_keys(
                term.label_selector.as_ref(),
                labels::of(&pod.metadata),
                keys,
                unlike,
            ),
            namespaces,
        }
    }

    fn means(&self, pod: &Pod) -> bool {
        self.namespaces.contains(namespace(pod))
            && labels::selects(self.selector.as_ref(), labels::of(&pod.metadata))
    }

    fn domain(&self, node: &Node) -> Option<Domain> {
        let value = labels::of(&node.metadata).get(&self.key)?;
        Some((self.key.clone(), value.clone()))
    }
}

/// Which of the two a term belongs to.
#[derive(Clone, Copy)]
enum Side {
    Near,
    Apart,
}

fn required(pod: &Pod, side: Side) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = affinity.and_then(|affinity| match side {
        Side::Near => affinity
            .pod_affinity
            .as_ref()?
            .required_during_scheduling_ignored_during_execution
            .as_deref(),
        Side::Apart => affinity
            .pod_anti_affinity
            .as_ref()?
            .required_during_scheduling_ignored_during_execution
            .as_deref(),
    });
    terms.unwrap_or_default()
}

fn preferred(pod: &Pod, side: Side) -> &[WeightedPodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = affinity.and_then(|affinity| match side {
        Side::Near => affinity
            .pod_affinity
            .as_ref()?
            .preferred_during_scheduling_ignored_during_execution
            .as_deref(),
        Side::Apart => affinity
            .pod_anti_affinity
            .as_ref()?
            .preferred_during_scheduling_ignored_during_execution
            .as_deref(),
    });
    terms.unwrap_or_default()
}

/// What one pod and those already placed demand of each other.
pub(super) struct Neighbors {
    near: Vec<Term>,
    apart: Vec<Term>,
    /// Domains of pods that every term of `near` means.
    wanted: BTreeSet<Domain>,
    /// Domains of pods that a term of `apart` means.
    unwanted: BTreeSet<Domain>,
    /// Domains whose pods do not want this one.
    refusing: BTreeSet<Domain>,
    /// Whether the pod itself is what it wants to be near to.
    first_of_its_kind: bool,
}

impl Neighbors {
    /// Looks around for a pod.
    pub(super) fn new(board: &Board<'_>, pod: &Pod) -> Self {
        let terms = |side| -> Vec<Term> {
            let terms = required(pod, side).iter();
            terms.map(|term| Term::of(board.view, pod, term)).collect()
        };
        let (near, apart) = (terms(Side::Near), terms(Side::Apart));
        let mut found = Self {
            first_of_its_kind: !near.is_empty() && near.iter().all(|term| term.means(pod)),
            near,
            apart,
            wanted: BTreeSet::new(),
            unwanted: BTreeSet::new(),
            refusing: BTreeSet::new(),
        };
        for (other, node) in board.placed() {
            found.meet(board.view, pod, other, node);
        }
        found
    }

    fn meet(&mut self, view: &View, pod: &Pod, other: &Pod, node: &Node) {
        // Only who is meant by *all* terms is company, as the real scheduler has it.
        if !self.near.is_empty() && self.near.iter().all(|term| term.means(other)) {
            self.wanted
                .extend(self.near.iter().filter_map(|term| term.domain(node)));
        }
        let disliked = self.apart.iter().filter(|term| term.means(other));
        self.unwanted
            .extend(disliked.filter_map(|term| term.domain(node)));
        for term in required(other, Side::Apart) {
            let term = Term::of(view, other, term);
            if term.means(pod) {
                self.refusing.extend(term.domain(node));
            }
        }
    }

    /// Whether the pod may go to a node.
    pub(super) fn check(&self, node: &Node) -> Result<(), Refusal> {
        if !self.has_company(node) {
            return Err(Refusal::lasting("node(s) didn't match pod affinity rules"));
        }
        let disliked = self.apart.iter().filter_map(|term| term.domain(node));
        if disliked.into_iter().any(|domain| self.unwanted.contains(&domain)) {
            return Err(Refusal::passing("node(s) didn't match pod anti-affinity rules"));
        }
        let mut here = labels::of(&node.metadata).iter();
        if here.any(|(key, value)| self.refusing.contains(&(key.clone(), value.clone()))) {
            return Err(Refusal::passing(
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }

    /// Every topology label must be there, and somebody in each domain; the first pod of a group that wants to be
    /// together needs nobody.
    fn has_company(&self, node: &Node) -> bool {
        let domains: Option<Vec<Domain>> = self.near.iter().map(|term| term.domain(node)).collect();
        domains.is_some_and(|domains| {
            domains.iter().all(|domain| self.wanted.contains(domain))
                || self.wanted.is_empty() && self.first_of_its_kind
        })
    }
}

/// For each of the nodes that fit, how much the pod and those around it like it; `None` if nobody cares.
pub(super) fn liking(board: &Board<'_>, pod: &Pod, fitting: &[&Site<'_>]) -> Option<Vec<i64>> {
    let own = |side| -> Vec<(Term, i64)> {
        let terms = preferred(pod, side).iter();
        terms
            .map(|one| {
                (
                    Term::of(board.view, pod, &one.pod_affinity_term),
                    i64::from(one.weight),
                )
            })
            .collect()
    };
    let (near, apart) = (own(Side::Near), own(Side::Apart));
    let mut liked: BTreeMap<Domain, i64> = BTreeMap::new();
    for (other, node) in board.placed() {
        let mine = near.iter().map(|(term, weight)| (term, *weight));
        let mine = mine.chain(apart.iter().map(|(term, weight)| (term, -weight)));
        let mine = mine.filter(|(term, _)| term.means(other));
        let theirs = wishes(board.view, other);
        let theirs = theirs.iter().map(|(term, weight)| (term, *weight));
        let theirs = theirs.filter(|(term, _)| term.means(pod));
        for (term, weight) in mine.chain(theirs) {
            if let Some(domain) = term.domain(node) {
                *liked.entry(domain).or_default() += weight;
            }
        }
    }
    let score = |site: &&Site<'_>| {
        let here = labels::of(&site.node.metadata).iter();
        let liked = here.filter_map(|(key, value)| liked.get(&(key.clone(), value.clone())));
        liked.sum()
    };
    (!liked.is_empty()).then(|| fitting.iter().map(score).collect())
}

/// What a placed pod wishes of others, with its weight.
fn wishes(view: &View, pod: &Pod) -> Vec<(Term, i64)> {
    let hard = required(pod, Side::Near)
        .iter()
        .map(|term| (term, HARD_AFFINITY_WEIGHT));
    let near = preferred(pod, Side::Near).iter();
    let near = near.map(|one| (&one.pod_affinity_term, i64::from(one.weight)));
    let apart = preferred(pod, Side::Apart).iter();
    let apart = apart.map(|one| (&one.pod_affinity_term, -i64::from(one.weight)));
    let all = hard.chain(near).chain(apart);
    all.map(|(term, weight)| (Term::of(view, pod, term), weight))
        .collect()
}

#[cfg(test)]
mod tests;
