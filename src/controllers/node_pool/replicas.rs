//! Static pools: as many claims as `replicas` says, whether pods need them or not. Pure.

use std::collections::BTreeSet;

use kube::ResourceExt;

use crate::api::{NodeClaim, NodePool, names};
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

/// What brings a static pool nearer to what it asks for. Claims that go already count against its limit, and not as its
/// replicas.
pub(super) fn change(pool: &NodePool, claims: &[&NodeClaim]) -> Change {
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
        // Those that are no use yet first, then the youngest.
        staying.sort_by_key(|claim| {
            let is_ready = claim.is(names::NODE_INITIALIZED);
            (
                is_ready,
                std::cmp::Reverse(claim.creation_timestamp()),
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

    #[test]
    fn missing_claims_are_made_under_names_that_follow_from_what_is_there() {
        let pool = pool(3, &json!({}));
        let first = change(&pool, &[]);
        assert_eq!(first.make.len(), 3);
        assert_eq!(
            change(&pool, &[]),
            first,
            "two who look at the same make the same"
        );
        let there = claim(&first.make[1], 0);
        assert_eq!(
            change(&pool, &[&there]).make,
            [first.make[0].clone(), first.make[2].clone()]
        );
    }

    #[test]
    fn the_limit_counts_claims_that_go_still() {
        let pool = pool(3, &json!({"nodes": "2"}));
        let mut going = claim("a", 0);
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        assert_eq!(change(&pool, &[&going]).make.len(), 1);
    }

    #[test]
    fn surplus_goes_beginning_with_what_is_no_use_yet() {
        let all = [
            initialized(claim("old", 1)),
            initialized(claim("young", 2)),
            claim("raw", 0),
        ];
        let all: Vec<&NodeClaim> = all.iter().collect();
        assert_eq!(change(&pool(1, &json!({})), &all).delete, ["raw", "young"]);
        assert_eq!(change(&pool(3, &json!({})), &all), Change::default());
    }
}
