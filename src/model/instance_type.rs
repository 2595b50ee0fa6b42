//! Machines that can be bought: what they are, where and how they are sold, and for how much.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::requirements::Requirements;
use crate::api::CapacityType;
use crate::money::Price;
use crate::resources::Resources;

/// One kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// The profile's name, like `bxf-4x16`.
    pub name: String,
    /// What the labels of its nodes can be, besides zone and capacity type, which are its offerings'.
    pub requirements: Requirements,
    /// What its nodes report as capacity.
    pub capacity: Resources,
    /// What is left of that for pods.
    pub allocatable: Resources,
    /// How many volumes of each driver its nodes can attach; no limit where a driver is not named.
    pub volume_limits: BTreeMap<String, u32>,
    /// Where and how it is sold.
    pub offerings: Vec<Offering>,
}

/// One way to buy a kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Where.
    pub zone: String,
    /// How.
    pub capacity_type: CapacityType,
    /// For how much an hour. One without a known price is never the cheapest.
    pub price: Option<Price>,
    /// Whether it can be bought now.
    pub availability: Availability,
}

/// Whether an offering can be bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It is withheld: it was preempted, short or over quota.
    Withheld {
        /// Until when.
        until: Timestamp,
        /// The reason of the `UnavailableOffering`.
        reason: String,
    },
    /// It is not sold as things are, and why.
    Unsold(Unsold),
}

/// Why an offering is not sold as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsold {
    /// Machines on dedicated hosts are never spot.
    DedicatedPlacement,
    /// The class has no usable subnet in the zone.
    NoSubnet,
    /// The class has usable subnets in the zone, and none has a free address.
    NoAddress,
}

impl Offering {
    /// Whether it can be bought now.
    pub fn is_available(&self) -> bool {
        self.availability == Availability::Available
    }
}

impl InstanceType {
    /// The offerings that can be bought now.
    pub fn available(&self) -> impl Iterator<Item = &Offering> {
        self.offerings.iter().filter(|offering| offering.is_available())
    }
}

impl fmt::Display for Unsold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DedicatedPlacement => "machines on dedicated hosts are never spot",
            Self::NoSubnet => "the node class has no usable subnet in the zone",
            Self::NoAddress => "no subnet of the node class in the zone has a free address",
        })
    }
}
