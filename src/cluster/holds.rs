//! Which pods a claim is on its way for.
//!
//! A claim that is made for pods names them, in the write that makes it, so no crash lies between: whoever plans next, in
//! this life of the process or another, leaves these pods to it. They stay with it until its node has been ready for work
//! for a while. A pod that is not taken by the node that was made for it is given longer the more such nodes there are, and
//! after the fourth it is given up: a plan that is wrong about a node must not buy one after another. It is planned for
//! again when those nodes go, or when they drift, since then its pool or class is not what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::store::Store;
use crate::api::{NodeClaim, names};
use crate::clock::later;
use crate::lifecycle::facts::Facts;

/// How long a node that is ready for work keeps the pods that it was made for: the scheduler looks at a pod that found
/// no place after at most ten seconds again, and once a node is there at once.
const FIRST: Duration = Duration::from_secs(30);
/// Claims that have drifted are as many as they are: a pod that they were made for is left to one of them for so long.
const LAST: Duration = Duration::from_hours(1);
/// So many nodes that are ready for work and were not taken by the pod that they were made for are enough: whatever is wrong
/// with them will be wrong with the next.
pub const IN_VAIN_MAX: u32 = 4;

/// The pods that claims were made for.
#[derive(Debug, Default)]
pub(super) struct Holds<'a> {
    /// Claims that stay, the oldest first, with the pods that each names.
    claims: Vec<(&'a NodeClaim, Vec<&'a str>)>,
    /// How many claims name a pod.
    counts: BTreeMap<&'a str, u32>,
    /// How many of them are ready for work, and are as they would be made now.
    ready: BTreeMap<&'a str, u32>,
}

impl<'a> Holds<'a> {
    /// Those of all claims that stay.
    pub(super) fn of(claims: &'a Store<NodeClaim>) -> Self {
        let staying = claims
            .iter()
            .filter(|(_, claim)| !claim.is_deleting() && claim.end().is_none());
        let mut all: Vec<(&NodeClaim, Vec<&str>)> = staying
            .map(|(_, claim)| (claim, named(claim)))
            .filter(|(_, pods)| !pods.is_empty())
            .collect();
        all.sort_by_key(|(claim, _)| (claim.creation_timestamp(), claim.name_any()));
        let (mut counts, mut ready) = (BTreeMap::new(), BTreeMap::new());
        for (claim, pods) in &all {
            let is_ready =
                claim.since(names::NODE_INITIALIZED).is_some() && claim.since(names::DRIFTED).is_none();
            for pod in pods {
                *counts.entry(*pod).or_default() += 1;
                *ready.entry(*pod).or_default() += u32::from(is_ready);
            }
        }
        Self {
            claims: all,
            counts,
            ready,
        }
    }

    /// How many nodes that are ready for work were made for a pod.
    pub(super) fn made_ready(&self, pod: &str) -> u32 {
        self.ready.get(pod).copied().unwrap_or_default()
    }

    /// Whether so many nodes were made for a pod that no other is.
    pub(super) fn is_given_up(&self, pod: &str) -> bool {
        self.made_ready(pod) >= IN_VAIN_MAX
    }

    /// For each pod that is held at `now` the claim that holds it: the youngest that names it.
    pub(super) fn at(&self, now: Timestamp) -> BTreeMap<&'a str, &'a NodeClaim> {
        let mut held = BTreeMap::new();
        for (claim, pods) in &self.claims {
            let ready = claim.since(names::NODE_INITIALIZED);
            for pod in pods {
                let count = self.counts.get(pod).copied().unwrap_or(1);
                if ready.is_none_or(|ready| now < later(ready, patience(count))) {
                    held.insert(*pod, *claim);
                }
            }
        }
        held
    }
}

/// The uids of the claims, going ones too, that were made for any of these pods.
pub(super) fn made_for(claims: &Store<NodeClaim>, pods: &[&str]) -> Vec<String> {
    let wanted: BTreeSet<&str> = pods.iter().copied().collect();
    let made = claims
        .iter()
        .filter(|(_, claim)| named(claim).iter().any(|uid| wanted.contains(uid)));
    let mut uids: Vec<String> = made.filter_map(|(_, claim)| claim.uid()).collect();
    uids.sort_unstable();
    uids
}

/// The uids that a claim names.
fn named(claim: &NodeClaim) -> Vec<&str> {
    let written = claim.annotations().get(names::NOMINATED_PODS);
    let pods = written.map(|text| text.split(',').filter(|uid| !uid.is_empty()));
    pods.into_iter().flatten().collect()
}

/// How long a ready node keeps a pod that so many claims were made for.
fn patience(claims: u32) -> Duration {
    let doublings = claims.saturating_sub(1).min(10);
    FIRST.saturating_mul(1 << doublings).min(LAST)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::store::Revision;

    const READY: &str = "2026-11-16T10:00:00Z";

    fn claim(name: &str, pods: &str, status: &Value) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "annotations": {names::NOMINATED_PODS: pods},
                "creationTimestamp": format!("2026-11-16T09:00:0{}Z", name.len()),
            },
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": status,
        }))
        .unwrap()
    }

    fn ready() -> Value {
        json!({"conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": READY}]})
    }

    fn held(claims: &[NodeClaim], after: u64) -> Vec<(String, String)> {
        let mut store = Store::default();
        for claim in claims {
            store.apply(&claim.name_any(), Revision::default(), claim.clone());
        }
        let now = later(READY.parse().unwrap(), Duration::from_secs(after));
        let holds = Holds::of(&store);
        let held = holds.at(now).into_iter();
        held.map(|(pod, claim)| (pod.to_owned(), claim.name_any()))
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(pod, claim): &(&str, &str)| ((*pod).to_owned(), (*claim).to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn a_claim_on_its_way_holds_its_pods_however_long_it_takes() {
        let on_its_way = claim("a", "p,q", &json!({}));
        assert_eq!(held(&[on_its_way], 100_000), pairs(&[("p", "a"), ("q", "a")]));
    }

    #[test]
    fn a_claim_that_goes_or_has_failed_holds_nobody() {
        let mut going = claim("a", "p", &json!({}));
        going.metadata.deletion_timestamp = Some(going.metadata.creation_timestamp.clone().unwrap());
        let launched = |status: &str, reason: &str| {
            json!({"conditions": [{
                "type": "Launched", "status": status, "reason": reason, "lastTransitionTime": READY,
            }]})
        };
        let short = launched("False", names::REASON_INSUFFICIENT_CAPACITY);
        let refused = launched("False", names::REASON_LAUNCH_REFUSED);
        assert_eq!(
            held(&[going, claim("b", "q", &short), claim("c", "r", &refused)], 0),
            []
        );
        let stands = launched("Unknown", names::REASON_LAUNCH_REFUSED);
        assert_eq!(
            held(&[claim("a", "p", &stands)], 0),
            pairs(&[("p", "a")]),
            "it would be refused again"
        );
    }

    #[test]
    fn a_ready_node_keeps_its_pods_for_a_while_and_longer_the_more_were_made_for_them() {
        let first = || claim("a", "p", &ready());
        assert_eq!(held(&[first()], 29), pairs(&[("p", "a")]));
        assert_eq!(held(&[first()], 30), []);
        let two = [first(), claim("bb", "p", &ready())];
        assert_eq!(held(&two, 59), pairs(&[("p", "bb")]));
        assert_eq!(held(&two, 60), []);
        assert_eq!(patience(40), LAST);
    }

    #[test]
    fn a_pod_is_given_up_after_four_nodes_until_they_go_or_drift() {
        let claims = |drifted: usize| -> Vec<NodeClaim> {
            let status = |at: usize| {
                let mut status = ready();
                if at < drifted {
                    let drift = json!({"type": "Drifted", "status": "True", "lastTransitionTime": READY});
                    status["conditions"].as_array_mut().unwrap().push(drift);
                }
                status
            };
            (0..4)
                .map(|at| claim(&"x".repeat(at + 1), "p", &status(at)))
                .collect()
        };
        let is_given_up = |claims: &[NodeClaim]| {
            let mut store = Store::default();
            for claim in claims {
                store.apply(&claim.name_any(), Revision::default(), claim.clone());
            }
            Holds::of(&store).is_given_up("p")
        };
        assert!(is_given_up(&claims(0)));
        assert!(!is_given_up(&claims(1)));
        assert!(!is_given_up(&claims(0)[1..]));
        let mut on_its_way = claims(0);
        on_its_way[0] = claim("x", "p", &json!({}));
        assert!(!is_given_up(&on_its_way), "it may yet be taken");
    }
}
