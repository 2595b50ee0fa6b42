//! Which pods a claim is on its way for.
//!
//! A claim that is made for pods names them, in the write that makes it, so no crash lies between: whoever plans next, in
//! this life of the process or another, leaves these pods to it. They stay with it until its node has been ready for work
//! for a while. A pod that is not taken by the node that was made for it is given longer the more such nodes there are, and
//! after the fourth it is given up: a plan that is wrong about a node must not buy one after another. It is planned for
//! again when those nodes go, or when they drift, since then its pool or class is not what it was. A node that others are
//! on was not made in vain: they may have come while the scheduler did not look at the pod. It gives nobody up, but the
//! pod is left as long without another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::index::Index;
use super::pods::Keeper;
use super::store::Store;
use crate::api::{NodeClaim, names};
use crate::clock::later;
use crate::lifecycle::facts::Facts;

/// How long a node that is ready for work keeps the pods that it was made for: the scheduler looks at a pod that found
/// no place after at most ten seconds again, and once a node is there at once.
const FIRST: Duration = Duration::from_secs(30);
/// Claims that have drifted, or that others are on, are as many as they are: a pod that they were made for is left to one
/// of them for so long.
const LAST: Duration = Duration::from_hours(1);
/// So many nodes that are ready for work and were not taken by the pod that they were made for are enough: whatever is wrong
/// with them will be wrong with the next.
pub const IN_VAIN_MAX: u32 = 4;

/// A pod that needs a place and that no node is bought for, since it runs on none of those that were made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The nodes that were made for it and are ready for work, those made first before the others.
    pub nodes: Vec<String>,
    /// When it is planned for again, where others are on some of them. The others must go or drift before.
    pub until: Option<Timestamp>,
}

/// The pods that claims were made for.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Claims that stay and name pods, the oldest first.
    claims: Vec<Staying>,
    /// Those that name a pod, by their place, for each pod.
    by_pod: BTreeMap<String, Vec<usize>>,
}

/// A claim that stays, as far as it matters for the pods that it was made for.
#[derive(Debug)]
struct Staying {
    name: String,
    /// Since when its node is ready for work.
    ready: Option<Timestamp>,
    has_drifted: bool,
}

impl Holds {
    /// Those of all claims that stay.
    pub(super) fn of(claims: &Store<NodeClaim>) -> Self {
        let mut staying: Vec<&NodeClaim> = claims
            .iter()
            .map(|(_, claim)| claim)
            .filter(|claim| !claim.is_deleting() && claim.end().is_none() && !named(claim).is_empty())
            .collect();
        staying.sort_by_key(|claim| (claim.creation_timestamp(), claim.name_any()));
        let mut by_pod: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, claim) in staying.iter().enumerate() {
            for pod in named(claim) {
                by_pod.entry(pod.to_owned()).or_default().push(at);
            }
        }
        let kept = |claim: &NodeClaim| Staying {
            name: claim.name_any(),
            ready: claim.since(names::NODE_INITIALIZED),
            has_drifted: claim.since(names::DRIFTED).is_some(),
        };
        Self {
            claims: staying.into_iter().map(kept).collect(),
            by_pod,
        }
    }

    /// The nodes that were made for a pod, are ready for work and are as they would be made now.
    fn ready(&self, pod: &str) -> impl Iterator<Item = &str> {
        let ready = self
            .naming(pod)
            .filter(|it| it.ready.is_some() && !it.has_drifted);
        ready.map(|it| it.name.as_str())
    }

    /// The claim that holds a pod at `now`: the youngest that names it.
    pub(super) fn holder(&self, pod: &str, now: Timestamp) -> Option<&str> {
        let patience = self.patience(pod);
        let holds = |it: &&Staying| it.ready.is_none_or(|ready| now < later(ready, patience));
        self.naming(pod).rfind(holds).map(|it| it.name.as_str())
    }

    /// For each pod that is held at `now` the claim that holds it.
    pub(super) fn at(&self, now: Timestamp) -> impl Iterator<Item = (&str, &str)> {
        let pods = self.by_pod.keys();
        pods.filter_map(move |pod| Some((pod.as_str(), self.holder(pod, now)?)))
    }

    /// When the node that became ready last has kept a pod for long enough.
    fn rests_until(&self, pod: &str) -> Option<Timestamp> {
        let last = self.naming(pod).filter_map(|it| it.ready).max()?;
        Some(later(last, self.patience(pod)))
    }

    /// How long a node that is ready keeps a pod.
    fn patience(&self, pod: &str) -> Duration {
        patience(self.naming(pod).len())
    }

    /// The claims that name a pod, the oldest first.
    fn naming(&self, pod: &str) -> impl DoubleEndedIterator<Item = &Staying> + ExactSizeIterator {
        let places = self.by_pod.get(pod).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|at| &self.claims[*at])
    }
}

/// What was worked out of the claims last. Every wake asks, and claims change seldom.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Option<(u64, Arc<Holds>)>>);

impl Memo {
    /// Which pods the claims are on their way for.
    pub(super) fn of(&self, claims: &Store<NodeClaim>) -> Arc<Holds> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((changes, holds)) = &*known
            && *changes == claims.changes()
        {
            return holds.clone();
        }
        let holds = Arc::new(Holds::of(claims));
        *known = Some((claims.changes(), holds.clone()));
        holds
    }
}

impl Index {
    /// Which pods the claims are on their way for.
    pub(super) fn holds(&self) -> Arc<Holds> {
        self.memo.of(&self.claims)
    }

    /// How many nodes were made in vain for a pod: they are ready for work, and nobody is on them.
    pub(super) fn made_in_vain(&self, holds: &Holds, pod: &str) -> u32 {
        let empty = holds.ready(pod).filter(|node| !self.has_guests(node));
        u32::try_from(empty.count()).unwrap_or(u32::MAX)
    }

    /// Whether a pod runs on none of so many nodes that were made for it that no other is made, for good or for a while.
    pub(super) fn gives_up(&self, holds: &Holds, pod: &str, now: Timestamp) -> Option<GivenUp> {
        let ready: Vec<String> = holds.ready(pod).map(str::to_owned).collect();
        if ready.len() < IN_VAIN_MAX as usize {
            return None;
        }
        if self.made_in_vain(holds, pod) >= IN_VAIN_MAX {
            let nodes = ready.into_iter().filter(|node| !self.has_guests(node));
            return Some(GivenUp {
                nodes: nodes.collect(),
                until: None,
            });
        }
        let until = holds.rests_until(pod).filter(|until| now < *until)?;
        Some(GivenUp {
            nodes: ready,
            until: Some(until),
        })
    }

    /// Whether pods are on a node that do not belong to it.
    fn has_guests(&self, node: &str) -> bool {
        let belongs = |keeper: &Keeper| matches!(keeper, Keeper::DaemonSet(_) | Keeper::Node);
        self.pods.on(node).any(|(_, seen)| !belongs(&seen.keeper))
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
fn patience(claims: usize) -> Duration {
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
        let held = holds.at(now);
        held.map(|(pod, claim)| (pod.to_owned(), claim.to_owned()))
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
            let mut index = Index::default();
            for claim in claims {
                index.apply(claim);
            }
            let much_later = later(READY.parse().unwrap(), LAST);
            index.gives_up(&index.holds(), "p", much_later).is_some()
        };
        assert!(is_given_up(&claims(0)));
        assert!(!is_given_up(&claims(1)));
        assert!(!is_given_up(&claims(0)[1..]));
        let mut on_its_way = claims(0);
        on_its_way[0] = claim("x", "p", &json!({}));
        assert!(!is_given_up(&on_its_way), "it may yet be taken");
    }

    #[test]
    fn what_claims_hold_is_worked_out_once_until_one_of_them_changes() {
        let mut index = Index::default();
        index.apply(&claim("a", "p", &json!({})));
        let before = index.holds();
        index.apply(&claim("a", "p", &json!({})));
        assert!(Arc::ptr_eq(&before, &index.holds()), "nothing is different");
        index.apply(&claim("a", "p", &ready()));
        let after = index.holds();
        assert!(!Arc::ptr_eq(&before, &after));
        assert_eq!(after.ready("p").collect::<Vec<_>>(), ["a"]);
        index.remove(&claim("a", "p", &ready()));
        assert_eq!(index.holds().ready("p").count(), 0);
    }
}
