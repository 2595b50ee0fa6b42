//! What was promised to claims and is not yet in the cloud's own figures.
//!
//! Computed anew from the allocations of all claims whenever it is needed; there is no counter that could go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use super::limits::{OverLimit, PoolLimits};
use super::{Choice, SubnetFacts};
use crate::api::NodeClaim;
use crate::model::InstanceType;

/// What is promised: addresses, and what the limits of a pool count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By subnet, addresses that the cloud still counts as free.
    addresses: BTreeMap<String, u64>,
    limits: Option<PoolLimits>,
}

/// More addresses of a subnet were promised than are free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promised} addresses of subnet {subnet} are promised, but {free} are free")]
pub struct Overdrawn {
    /// Its id.
    pub subnet: String,
    /// How many were promised.
    pub promised: u64,
    /// How many are free.
    pub free: u64,
}

impl Ledger {
    /// What these claims were promised. `counted` are the ids of the machines that existed before the cloud was asked
    /// for free addresses: those of them are in its answer already. Whoever chooses for a claim leaves that claim out;
    /// whoever checks an intent leaves it in.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>, counted: &BTreeSet<String>) -> Self {
        let mut ledger = Self::default();
        for claim in claims {
            let Some(held) = claim
                .status
                .as_ref()
                .and_then(|status| status.allocation.as_ref())
            else {
                continue;
            };
            if held.instance_id.as_ref().is_none_or(|id| !counted.contains(id)) {
                ledger.promise_address(&held.subnet);
            }
        }
        ledger
    }

    /// The same where the pool that is bought for has these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Option<PoolLimits>) -> Self {
        self.limits = limits;
        self
    }

    /// Which limit of the pool a machine of this type would exceed, if any.
    pub fn over_limit(&self, instance_type: &InstanceType) -> Option<OverLimit> {
        let limits = self.limits.as_ref()?;
        limits.check_another(&instance_type.capacity).err()
    }

    /// Promises what was chosen.
    pub fn promise(&mut self, choice: &Choice) {
        self.promise_address(&choice.subnet);
    }

    fn promise_address(&mut self, subnet: &str) {
        *self.addresses.entry(subnet.to_owned()).or_default() += 1;
    }

    /// How many addresses are left in a subnet, if any is.
    pub fn left_in(&self, subnet: &SubnetFacts) -> Option<NonZeroU64> {
        let promised = self.addresses.get(&subnet.id).copied().unwrap_or_default();
        NonZeroU64::new(subnet.free.saturating_sub(promised))
    }

    /// Whether everything that is promised is there. A subnet that is not listed promises nothing.
    pub fn check(&self, subnets: &[SubnetFacts]) -> Result<(), Overdrawn> {
        for subnet in subnets {
            let promised = self.addresses.get(&subnet.id).copied().unwrap_or_default();
            if promised > subnet.free {
                let (subnet, free) = (subnet.id.clone(), subnet.free);
                return Err(Overdrawn {
                    subnet,
                    promised,
                    free,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(capacity_type: &str, subnet: &str, instance: Option<&str>) -> NodeClaim {
        let mut allocation = json!({
            "profile": "bxf-4x16", "zone": "us-south-1", "capacityType": capacity_type, "subnet": subnet,
            "instanceName": "kib", "attempt": 1, "since": "2026-11-16T00:00:00Z",
        });
        if let Some(id) = instance {
            allocation["instanceID"] = json!(id);
        }
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": allocation},
        }))
        .unwrap()
    }

    fn subnet(id: &str, free: u64) -> SubnetFacts {
        SubnetFacts {
            id: id.to_owned(),
            zone: "us-south-1".to_owned(),
            free,
        }
    }

    #[test]
    fn an_address_is_promised_until_the_cloud_counts_the_machine_itself() {
        let claims = [
            claim("spot", "one", None),
            claim("spot", "one", Some("new")),
            claim("on-demand", "one", Some("old")),
            claim("on-demand", "two", None),
        ];
        let ledger = Ledger::of(&claims, &["old".to_owned()].into());
        assert_eq!(ledger.left_in(&subnet("one", 5)).map(NonZeroU64::get), Some(3));
        assert_eq!(ledger.left_in(&subnet("one", 2)), None);
        assert_eq!(ledger.left_in(&subnet("three", 2)).map(NonZeroU64::get), Some(2));
    }

    #[test]
    fn what_is_overdrawn_is_named() {
        let ledger = Ledger::of(&[claim("spot", "one", None)], &BTreeSet::new());
        assert_eq!(ledger.check(&[subnet("one", 1)]), Ok(()));
        let overdrawn = ledger.check(&[subnet("one", 0)]).unwrap_err();
        assert_eq!(
            overdrawn.to_string(),
            "1 addresses of subnet one are promised, but 0 are free"
        );
    }
}
