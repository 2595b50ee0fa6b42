//! What can be bought for a class: every kind of machine as the class would have it, with one offering for each zone and
//! way to buy.
//!
//! Pure: from what the cloud sells, what the class says, what is withheld and which factors the user set. Capacity is
//! what a node will report, or less where that is not known for certain, never more: a plan that rests on it holds.

mod capacity;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::discount::{DiscountFactors, Factor};
use super::instance_type::{Availability, InstanceType, Offering, Unsold};
use super::kind::{Kind, PriceSource, Priced};
use super::requirements::Requirements;
use super::reservation::Reservation;
use super::values::Values;
use super::withheld::Withheld;
use crate::api::{CapacityType, KubeletSettings, names};
use crate::resources::Resources;

pub use capacity::{LEARNT, capacity, credible};

const MIB: i64 = 1 << 20;

/// What offerings need to know of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFacts {
    /// The region of its nodes.
    pub region: String,
    /// The subnets that its nodes may stand in.
    pub subnets: Vec<SubnetFacts>,
    /// On whose hardware its nodes run.
    pub placement: Placement,
    /// The only profiles that this hardware takes; all if it is not known.
    pub profiles: Option<BTreeSet<String>>,
    /// What it says about the kubelet.
    pub kubelet: KubeletSettings,
    /// The size of the volume that its nodes boot from.
    pub boot_volume_bytes: i64,
    /// What nodes of it were seen to have, by profile.
    pub observed: BTreeMap<String, Resources>,
    /// The architecture of its image.
    pub arch: String,
    /// The operating system of its image, in the words of Kubernetes: `linux`.
    pub os: String,
}

/// A subnet that nodes may stand in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetFacts {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// How many addresses were free when the cloud was asked.
    pub free: u64,
}

/// On whose hardware nodes run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On that of everybody.
    #[default]
    Shared,
    /// On that of everybody, spread over hosts.
    PlacementGroup,
    /// On a dedicated host or a group of them.
    Dedicated,
}

/// Every kind of machine that nodes of the class can be, in the order of `kinds`. Kinds that its image cannot run on,
/// or its dedicated hardware does not take, are left out.
pub fn types_for(
    class: &ClassFacts,
    kinds: &[Kind],
    withheld: &Withheld,
    factors: &DiscountFactors,
    now: Timestamp,
) -> Vec<InstanceType> {
    let zones = free_by_zone(&class.subnets);
    let possible = |kind: &&Kind| {
        let taken = class
            .profiles
            .as_ref()
            .is_none_or(|only| only.contains(&kind.name));
        kind.arch == class.arch && taken
    };
    let instance_type = |kind: &Kind| {
        let capacity = capacity(kind, class);
        let allocatable = Reservation::of(&capacity, &class.kubelet).allocatable(&capacity);
        let offering = |zone: &String, capacity_type| Offering {
            zone: zone.clone(),
            capacity_type,
            price: price(kind, capacity_type, factors).map(|priced| priced.price),
            availability: availability(kind, capacity_type, zone, class, &zones, withheld, now),
        };
        let ways = [CapacityType::Spot, CapacityType::OnDemand].map(|way| (way, kind.is_sold(way)));
        let ways = ways.into_iter().filter_map(|(way, sold)| sold.then_some(way));
        let offerings = kind.zones.iter();
        let offerings = offerings.flat_map(|zone| ways.clone().map(move |way| (zone, way)));
        InstanceType {
            name: kind.name.clone(),
            requirements: labels(kind, class),
            capacity,
            allocatable,
            volume_limits: [(names::BLOCK_DRIVER.to_owned(), volumes_max(kind))].into(),
            offerings: offerings.map(|(zone, way)| offering(zone, way)).collect(),
        }
    };
    kinds.iter().filter(possible).map(instance_type).collect()
}

/// How many block volumes a machine can attach besides the one it boots from. The VPC block driver reports the same for
/// its node: 12 from four processors on, else 4.
fn volumes_max(kind: &Kind) -> u32 {
    if kind.vcpu >= 4 { 12 } else { 4 }
}

/// What a kind of machine costs an hour when bought that way. A spot price is the user's factor of the price on demand,
/// else the published one, else the usual factor.
pub fn price(kind: &Kind, capacity_type: CapacityType, factors: &DiscountFactors) -> Option<Priced> {
    if capacity_type == CapacityType::OnDemand {
        return kind.on_demand_price;
    }
    let share = |factor: Factor, source: PriceSource| {
        let price = factor.of(kind.on_demand_price?.price)?;
        Some(Priced { price, source })
    };
    let set = factors.of(&kind.family);
    set.and_then(|factor| share(factor, PriceSource::SetFactor(factor)))
        .or(kind.spot_price)
        .or_else(|| share(Factor::USUAL, PriceSource::UsualFactor(Factor::USUAL)))
}

/// What the labels of its nodes are, besides zone and capacity type. What a node cannot have is said to be absent, so
/// that whoever asks for it is refused.
fn labels(kind: &Kind, class: &ClassFacts) -> Requirements {
    let cards = kind.gpus.as_ref();
    let labels = [
        (names::INSTANCE_TYPE, Some(kind.name.clone())),
        (names::ARCH, Some(kind.arch.clone())),
        (names::OS, Some(class.os.clone())),
        (names::REGION, Some(class.region.clone())),
        (names::WINDOWS_BUILD, None),
        (names::INSTANCE_FAMILY, Some(kind.family.clone())),
        (names::INSTANCE_SIZE, Some(kind.size.clone())),
        (names::INSTANCE_CPU, Some(kind.vcpu.to_string())),
        (
            names::INSTANCE_MEMORY,
            Some((kind.memory_bytes / MIB).to_string()),
        ),
        (names::INSTANCE_GPU_NAME, cards.map(|cards| cards.name.clone())),
        (
            names::INSTANCE_GPU_COUNT,
            cards.map(|cards| cards.count.to_string()),
        ),
        (
            names::INSTANCE_NETWORK_BANDWIDTH,
            kind.bandwidth_mbps.map(|mbps| mbps.to_string()),
        ),
    ];
    let mut requirements = Requirements::new();
    for (label, value) in labels {
        let value = value.filter(|value| !value.is_empty());
        requirements.narrow(
            label,
            &value.map_or_else(Values::absent, |value| Values::one_of([value])),
        );
    }
    requirements
}

fn availability(
    kind: &Kind,
    capacity_type: CapacityType,
    zone: &str,
    class: &ClassFacts,
    zones: &BTreeMap<&str, u64>,
    withheld: &Withheld,
    now: Timestamp,
) -> Availability {
    if capacity_type == CapacityType::Spot && class.placement == Placement::Dedicated {
        return Availability::Unsold(Unsold::DedicatedPlacement);
    }
    match zones.get(zone) {
        None => return Availability::Unsold(Unsold::NoSubnet),
        Some(0) => return Availability::Unsold(Unsold::NoAddress),
        Some(_) => {}
    }
    let hold = withheld.hold(capacity_type, &kind.name, zone, kind.has_gpus(), now);
    hold.map_or(Availability::Available, |hold| Availability::Withheld {
        until: hold.until,
        reason: hold.reason.clone(),
    })
}

fn free_by_zone(subnets: &[SubnetFacts]) -> BTreeMap<&str, u64> {
    let mut zones: BTreeMap<&str, u64> = BTreeMap::new();
    for subnet in subnets {
        let free = zones.entry(&subnet.zone).or_default();
        *free = free.saturating_add(subnet.free);
    }
    zones
}

#[cfg(test)]
mod tests;
