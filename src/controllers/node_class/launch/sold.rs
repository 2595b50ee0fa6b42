//! What can be bought for a class: its own facts, in the words of offerings.

use std::collections::BTreeSet;

use super::Resolved;
use crate::api::{IBMNodeClassStatus, PlacementKind};
use crate::cloud::{Subnet, Usable};
use crate::model::{ClassFacts, Placement, SubnetFacts};

/// The volume that a machine boots from when nothing else is said: IBM's own default.
const BOOT_VOLUME_GB: i64 = 100;
const GB: i64 = 1_000_000_000;

impl Resolved {
    /// The subnets of the class that have room for another machine, of all those of its network. Those in `avoided`
    /// count as full.
    pub fn subnets(&self, all: &[Subnet], avoided: &BTreeSet<String>) -> Vec<SubnetFacts> {
        let resolution = self.permitted();
        let chosen: BTreeSet<&str> = resolution
            .into_iter()
            .flat_map(|status| status.resolved_subnets.iter().flatten())
            .map(|subnet| subnet.id.as_str())
            .collect();
        let needed = self.class.spec.minimum_free_addresses();
        let usable = all
            .iter()
            .filter(|subnet| chosen.contains(subnet.id.as_str()) && subnet.state == Usable::Yes);
        let facts = |subnet: &Subnet| {
            let is_full = avoided.contains(&subnet.id) || subnet.free < needed;
            SubnetFacts {
                id: subnet.id.clone(),
                zone: subnet.zone.clone(),
                free: if is_full { 0 } else { subnet.free },
            }
        };
        usable.map(facts).collect()
    }

    /// What offerings need to know of the class.
    pub fn facts(&self, subnets: Vec<SubnetFacts>) -> ClassFacts {
        let (spec, status) = (&self.class.spec, self.class.resolution());
        let image = status.and_then(|status| status.resolved_image.as_ref());
        let arch = image.and_then(|image| image.architecture.clone());
        let boot_volume = spec
            .root_volume()
            .and_then(|volume| volume.volume_spec.as_ref()?.capacity);
        ClassFacts {
            region: spec.region.clone(),
            subnets,
            placement: placement(status.and_then(IBMNodeClassStatus::placement)),
            profiles: None,
            kubelet: spec.kubelet.clone().unwrap_or_default(),
            boot_volume_bytes: boot_volume.unwrap_or(BOOT_VOLUME_GB).saturating_mul(GB),
            observed: status.map(|_| self.class.observed()).unwrap_or_default(),
            arch: arch.unwrap_or_else(|| "amd64".to_owned()),
            os: "linux".to_owned(),
        }
    }
}

fn placement(kind: Option<PlacementKind>) -> Placement {
    match kind {
        None => Placement::Shared,
        Some(PlacementKind::PlacementGroup) => Placement::PlacementGroup,
        Some(PlacementKind::DedicatedHost | PlacementKind::DedicatedHostGroup) => Placement::Dedicated,
    }
}
