//! Static pools: as many claims as `replicas` says, whether pods need them or not. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;

use crate::api::{NodeClaim, NodePool, names};
use crate::cluster::{Ending, Index, Keeper, Place, Seen};
use crate::controllers::provisioning::claim::name_for;
use crate::lifecycle::facts::Facts;

/// Claims that are made or deleted in one pass, so that a slip of the pen can be taken back.
const AT_ONCE_MAX: usize = 50;

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The names of claims to make.
    pub(super) make: Vec<String>,
    /// The names of claims to delete.
    pub(super) delete: Vec<String>,
}

/// What a node carries that would have to leave with it, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Burden {
    /// Nothing but what belongs to the node itself.
    Nothing,
    /// Pods that may be moved.
    Movable,
    /// A pod that asks not to be disturbed.
    Protected,
}

/// What the node of a claim carries at `now`. A pod that goes already is no burden any more.
pub(super) fn burden(index: &Index, claim: &NodeClaim, now: Timestamp) -> Burden {
    let name = claim.name_any();
    let pods = index.pods.on(&name);
    let burdens = pods.map(|(_, pod)| burden_of(pod, now));
    burdens.max().unwrap_or(Burden::Nothing)
}

/// A daemon that asks not to be disturbed holds up a drain like any other pod; a static pod never leaves.
fn burden_of(pod: &Seen, now: Timestamp) -> Burden {
    let is_ending = matches!(
        pod.place,
        Place::On {
            ending: Ending::Yes,
            ..
        }
    );
    if is_ending || pod.keeper == Keeper::Node {
        return Burden::Nothing;
    }
    if pod.protection.holds(now) {
        return Burden::Protected;
    }
    match &pod.keeper {
        Keeper::DaemonSet(_) | Keeper::Node => Burden::Nothing,
        Keeper::Controller | Keeper::StatefulSet | Keeper::Nobody => Burden::Movable,
    }
}

/// What brings a static pool nearer to what it asks for. Claims that go already count against its limit, and not as its
/// replicas. Of those that are too many go first those that are no use yet, then those whose nodes carry least, then the
/// youngest.
pub(super) fn change(
    pool: &NodePool,
    claims: &[&NodeClaim],
    burden: impl Fn(&NodeClaim) -> Burden,
) -> Change {
    let Some(replicas) = pool.spec.replicas else {
        return Change::default();
    };
    let replicas = usize::try_from(replicas).unwrap_or_default();
    let mut staying: Vec<&NodeClaim> = claims
        .iter()
        .copied()
        .filter(|claim| !claim.is_deleting())
        .collect();
    if staying.len() > replicas {
        staying.sort_by_cached_key(|claim| {
            let is_ready = claim.is(names::NODE_INITIALIZED);
            (
                is_ready,
                burden(claim),
                Reverse(claim.creation_timestamp()),
                claim.name_any(),
            )
        });
        let surplus = staying.len() - replicas;
        let names = staying.iter().take(surplus.min(AT_ONCE_MAX));
        return Change {
            delete: names.map(|claim| claim.name_any()).collect(),
            ..Change::default()
        };
    }
    let room = nodes_limit(pool).map_or(usize::MAX, |limit| limit.saturating_sub(claims.len()));
    let missing = (replicas - staying.len()).min(room).min(AT_ONCE_MAX);
    Change {
        make: free_names(pool, claims, missing),
        ..Change::default()
    }
}

fn nodes_limit(pool: &NodePool) -> Option<usize> {
    let limit = pool.spec.limits.as_ref()?.get("nodes")?;
    let limit = limit.parse().map_or(0, crate::quantity::Quantity::units_ceil);
    Some(usize::try_from(limit).unwrap_or_default())
}

/// Names that no claim has: the first numbers that are free, so that whoever looks at the same claims makes the same.
fn free_names(pool: &NodePool, claims: &[&NodeClaim], count: usize) -> Vec<String> {
    let taken: BTreeSet<String> = claims.iter().map(|claim| claim.name_any()).collect();
    let names = (0_u32..).map(|number| name_for(pool, &format!("replica {number}")));
    names.filter(|name| !taken.contains(name)).take(count).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(replicas: i64, limits: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"replicas": replicas, "limits": limits, "template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}},
        }))
        .unwrap()
    }

    fn claim(name: &str, minute: u32) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-11-16T10:{minute:02}:00Z")},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap()
    }

    fn initialized(mut claim: NodeClaim) -> NodeClaim {
        let status = json!({"conditions": [{
            "type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}]});
        claim.status = serde_json::from_value(status).unwrap();
        claim
    }

    fn idle(_: &NodeClaim) -> Burden {
        Burden::Nothing
    }

    #[test]
    fn missing_claims_are_made_under_names_that_follow_from_what_is_there() {
        let pool = pool(3, &json!({}));
        let first = change(&pool, &[], idle);
        assert_eq!(first.make.len(), 3);
        assert_eq!(
            change(&pool, &[], idle),
            first,
            "two who look at the same make the same"
        );
        let there = claim(&first.make[1], 0);
        assert_eq!(
            change(&pool, &[&there], idle).make,
            [first.make[0].clone(), first.make[2].clone()]
        );
    }

    #[test]
    fn the_limit_counts_claims_that_go_still() {
        let pool = pool(3, &json!({"nodes": "2"}));
        let mut going = claim("a", 0);
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        assert_eq!(change(&pool, &[&going], idle).make.len(), 1);
    }

    #[test]
    fn surplus_goes_beginning_with_what_is_no_use_yet() {
        let all = [
            initialized(claim("old", 1)),
            initialized(claim("young", 2)),
            claim("raw", 0),
        ];
        let all: Vec<&NodeClaim> = all.iter().collect();
        assert_eq!(change(&pool(1, &json!({})), &all, idle).delete, ["raw", "young"]);
        assert_eq!(change(&pool(3, &json!({})), &all, idle), Change::default());
    }

    #[test]
    fn of_those_that_work_the_one_goes_whose_node_carries_least_and_only_then_the_youngest() {
        let all = [
            initialized(claim("empty", 1)),
            initialized(claim("busy-old", 2)),
            initialized(claim("busy-young", 3)),
            initialized(claim("guarded", 4)),
            claim("raw", 0),
        ];
        let all: Vec<&NodeClaim> = all.iter().collect();
        let burden = |claim: &NodeClaim| match claim.name_any().as_str() {
            "empty" => Burden::Nothing,
            "guarded" | "raw" => Burden::Protected,
            _ => Burden::Movable,
        };
        let order = ["raw", "empty", "busy-young", "busy-old", "guarded"];
        for replicas in 0..5 {
            let surplus = usize::try_from(5 - replicas).unwrap();
            let deleted = change(&pool(replicas, &json!({})), &all, burden).delete;
            assert_eq!(deleted, order[..surplus], "{replicas}");
        }
    }

    /// A pod on the node `a`.
    fn pod(name: &str, metadata: &Value) -> k8s_openapi::api::core::v1::Pod {
        let mut all = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "startTime": "2026-11-16T10:00:00Z"},
        });
        json_patch::merge(&mut all["metadata"], metadata);
        serde_json::from_value(all).unwrap()
    }

    fn owned_by(version: &str, kind: &str) -> Value {
        json!({"ownerReferences": [
            {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": true}]})
    }

    #[test]
    fn a_node_carries_what_would_have_to_leave_and_neither_its_daemons_nor_what_leaves_already() {
        let mut index = Index::default();
        let claim = claim("a", 0);
        let carried = |index: &Index, now: &str| burden(index, &claim, now.parse().unwrap());
        let early = "2026-11-16T10:30:00Z";
        index.apply_pod(&pod("agent", &owned_by("apps/v1", "DaemonSet")));
        index.apply_pod(&pod("proxy", &owned_by("v1", "Node")));
        let leaving = json!({"deletionTimestamp": early, "annotations": {names::DO_NOT_DISRUPT: "true"}});
        index.apply_pod(&pod("leaving", &leaving));
        assert_eq!(carried(&index, early), Burden::Nothing);
        index.apply_pod(&pod("web", &owned_by("apps/v1", "ReplicaSet")));
        assert_eq!(carried(&index, early), Burden::Movable);
        index.apply_pod(&pod(
            "job",
            &json!({"annotations": {names::DO_NOT_DISRUPT: "1h"}}),
        ));
        assert_eq!(carried(&index, early), Burden::Protected);
        assert_eq!(
            carried(&index, "2026-11-16T11:00:00Z"),
            Burden::Movable,
            "its hour is over"
        );
    }
}
