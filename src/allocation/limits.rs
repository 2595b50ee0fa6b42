//! What all machines of a NodePool may have together, and how much of that is held.
//!
//! Computed anew from the claims of the pool whenever something is bought, intents included; there is no counter. Every
//! resource counts that the pool names, also one that no machine has, and `nodes` counts the machines themselves.

use kube::ResourceExt;

use crate::api::{NodeClaim, NodePool, names};
use crate::model::node::{amounts, limits};
use crate::resources::{Resources, quantity_of};

/// The limit that counts machines.
const NODES: &str = "nodes";

/// The limits of one pool, and what its claims hold of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolLimits {
    pool: String,
    allowed: Resources,
    held: Resources,
}

/// A pool would have more of a resource than it may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "NodePool {pool} would have {} of {resource}, and its limit is {}",
    quantity_of(resource, *amount),
    quantity_of(resource, *limit)
)]
pub struct OverLimit {
    /// The pool.
    pub pool: String,
    /// The resource.
    pub resource: String,
    /// How much there would be.
    pub amount: i64,
    /// How much there may be.
    pub limit: i64,
}

impl PoolLimits {
    /// The limits of the pool that a claim is of; `None` if it is of none, or of one without limits.
    pub fn of(claim: &NodeClaim, pools: &[NodePool]) -> Option<Self> {
        let name = claim.labels().get(names::NODE_POOL)?;
        let pool = pools.iter().find(|pool| pool.name_any() == *name)?;
        Some(Self {
            pool: name.clone(),
            allowed: limits(pool).filter(|limits| !limits.is_empty())?,
            held: Resources::new(),
        })
    }

    /// With what these claims hold, each that is of the pool and has an allocation. `capacity` says what a machine of a
    /// profile has; what the claim itself says of its machine counts first.
    #[must_use]
    pub fn holding<'a>(
        mut self,
        claims: impl IntoIterator<Item = &'a NodeClaim>,
        capacity: impl Fn(&str) -> Option<Resources>,
    ) -> Self {
        for claim in claims {
            let Some(status) = claim.status.as_ref().filter(|_| self.is_of(claim)) else {
                continue;
            };
            let Some(allocation) = &status.allocation else {
                continue;
            };
            let said = status.capacity.as_ref().map(|written| amounts(Some(written)));
            let has = said.or_else(|| capacity(&allocation.profile)).unwrap_or_default();
            let counted = self.count(&has);
            self.held.add(&counted);
        }
        self
    }

    /// Whether what is held is more than allowed.
    pub fn check(&self) -> Result<(), OverLimit> {
        self.check_with(&Resources::new())
    }

    /// Whether one more machine with this capacity would be too much.
    pub fn check_another(&self, capacity: &Resources) -> Result<(), OverLimit> {
        self.check_with(&self.count(capacity))
    }

    fn check_with(&self, more: &Resources) -> Result<(), OverLimit> {
        for (resource, limit) in &self.allowed {
            let amount = self.held.get(resource).saturating_add(more.get(resource));
            if amount > *limit {
                return Err(OverLimit {
                    pool: self.pool.clone(),
                    resource: resource.clone(),
                    amount,
                    limit: *limit,
                });
            }
        }
        Ok(())
    }

    fn is_of(&self, claim: &NodeClaim) -> bool {
        claim.labels().get(names::NODE_POOL) == Some(&self.pool)
    }

    /// What of a machine counts.
    fn count(&self, capacity: &Resources) -> Resources {
        let mut counted = Resources::new();
        for (resource, _) in &self.allowed {
            let amount = if resource == NODES {
                1
            } else {
                capacity.get(resource)
            };
            counted.set(resource, amount);
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::CPU;

    fn claim(pool: &str, held: Option<(&str, Value)>) -> NodeClaim {
        let status = held.map_or(json!({}), |(profile, capacity)| {
            json!({
                "capacity": capacity,
                "allocation": {
                    "profile": profile, "zone": "us-south-1", "capacityType": "spot", "subnet": "s", "attempt": 1,
                    "instanceName": "kib", "since": "2026-11-16T10:00:00Z",
                },
            })
        });
        serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": {names::NODE_POOL: pool}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": status,
        }))
        .unwrap()
    }

    fn pool(limits: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "default"},
            "spec": {"limits": limits, "template": {"spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            }}},
        }))
        .unwrap()
    }

    fn four(profile: &str) -> Option<Resources> {
        (profile == "bxf-4x16").then(|| Resources::new().with(CPU, 4000))
    }

    fn held_by(limits: &Value, claims: &[NodeClaim]) -> PoolLimits {
        let limits = PoolLimits::of(&claim("default", None), &[pool(limits)]).unwrap();
        limits.holding(claims, four)
    }

    #[test]
    fn intents_and_machines_of_the_pool_count_and_nothing_else_does() {
        let claims = [
            claim("default", Some(("bxf-4x16", Value::Null))),
            claim("default", Some(("gone", json!({"cpu": "2"})))),
            claim("default", None),
            claim("other", Some(("bxf-4x16", Value::Null))),
        ];
        let limits = held_by(&json!({"cpu": "10", "nodes": "3"}), &claims);
        assert_eq!(limits.check(), Ok(()));
        let with = |cpu| limits.check_another(&Resources::new().with(CPU, cpu));
        assert_eq!(with(4000), Ok(()));
        let over = with(4001).unwrap_err();
        assert_eq!(
            over.to_string(),
            "NodePool default would have 10001m of cpu, and its limit is 10"
        );
        let full = held_by(&json!({"nodes": 2}), &claims);
        assert_eq!(full.check(), Ok(()));
        assert_eq!(full.check_another(&Resources::new()).unwrap_err().resource, NODES);
        assert_eq!(
            held_by(&json!({"nodes": 1}), &claims).check().unwrap_err().amount,
            2
        );
    }

    #[test]
    fn a_limit_that_is_no_amount_closes_the_pool_and_one_that_no_machine_has_does_not() {
        let another = |limits: &Value| {
            let limits = held_by(limits, &[]);
            limits.check_another(&Resources::new().with(CPU, 1)).is_ok()
        };
        assert!(!another(&json!({"cpu": "much"})));
        assert!(!another(&json!({"cpu": 0})));
        assert!(!another(&json!({"nodes": "-1"})));
        assert!(another(&json!({"example.com/fpga": 0})));
    }

    #[test]
    fn a_claim_without_a_pool_or_of_a_pool_without_limits_has_none() {
        let pools = [pool(&json!({}))];
        assert_eq!(PoolLimits::of(&claim("default", None), &pools), None);
        assert_eq!(PoolLimits::of(&claim("none", None), &pools), None);
    }
}
