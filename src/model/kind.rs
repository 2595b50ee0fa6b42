//! A kind of machine as a cloud sells it in a region, before any class, hold or discount has a say.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::discount::Factor;
use crate::api::{self, CapacityType};
use crate::money::Price;

/// One kind of machine that is sold in a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The profile's name, like `bxf-4x16`.
    pub name: String,
    /// Its series: what the name has before the first dash, like `bxf`.
    pub family: String,
    /// Its size: what the name has after it, like `4x16`.
    pub size: String,
    /// The processor's architecture in the words of Kubernetes: `amd64`, `s390x`.
    pub arch: String,
    /// Virtual processors.
    pub vcpu: i64,
    /// Memory as it is sold. A guest sees less.
    pub memory_bytes: i64,
    /// Its cards, if it has any.
    pub gpus: Option<Cards>,
    /// Mb/s, network and volumes together.
    pub bandwidth_mbps: Option<i64>,
    /// Disks that live and die with the machine.
    pub local_disks: Vec<LocalDisk>,
    /// Where its hardware stands. That says nothing about capacity.
    pub zones: BTreeSet<String>,
    /// Whether it is sold as spot.
    pub spot: Sold,
    /// Whether it is sold on demand.
    pub on_demand: Sold,
    /// The published price of a spot machine; `None` where it has to be computed from the one on demand.
    pub spot_price: Option<Priced>,
    /// The price on demand. The same in all zones.
    pub on_demand_price: Option<Priced>,
}

/// The graphics or other accelerator cards of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cards {
    /// The model as a label's value: `l40s`, `tesla-v100`.
    pub name: String,
    /// Who makes them: `nvidia`, `amd`, `intel`.
    pub maker: String,
    /// How many.
    pub count: i64,
    /// The memory of all together.
    pub memory_bytes: Option<i64>,
}

/// Disks of one size that live and die with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDisk {
    /// How many.
    pub count: i64,
    /// The size of each.
    pub bytes: i64,
}

/// Whether something is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sold {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// A price and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced {
    /// Dollars per hour.
    pub price: Price,
    /// Where it comes from.
    pub source: PriceSource,
}

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// The catalogue, read at that time.
    Catalogue {
        /// When it was read.
        at: Timestamp,
    },
    /// A table that is part of this program.
    BuiltIn {
        /// How the figure is known, in a word: `measured`, `estimate`.
        certainty: &'static str,
    },
    /// The price on demand times a factor that the user set.
    SetFactor(Factor),
    /// The price on demand times the usual factor, for want of a published price.
    UsualFactor(Factor),
}

impl Kind {
    /// Whether it is sold that way.
    pub fn is_sold(&self, capacity_type: CapacityType) -> bool {
        let sold = match capacity_type {
            CapacityType::Spot => self.spot,
            CapacityType::OnDemand => self.on_demand,
        };
        sold == Sold::Yes
    }

    /// Whether it has cards, in the words of offering keys.
    pub fn has_gpus(&self) -> api::Gpus {
        match self.gpus {
            Some(_) => api::Gpus::Present,
            None => api::Gpus::Absent,
        }
    }

    /// Series and size of a profile's name.
    pub fn family_and_size(name: &str) -> (&str, &str) {
        name.split_once('-').unwrap_or((name, ""))
    }
}

impl Cards {
    /// The name of the resource that the maker's device plugin reports. A card of a maker nobody knows is named after
    /// it in the same way.
    pub fn resource(&self) -> String {
        match self.maker.as_str() {
            // Intel's cards in IBM Cloud are Gaudi, whose plugin still has its first owner's name.
            "intel" => "habana.ai/gaudi".to_owned(),
            maker => format!("{maker}.com/gpu"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_series_and_a_size() {
        assert_eq!(Kind::family_and_size("bxf-4x16"), ("bxf", "4x16"));
        assert_eq!(
            Kind::family_and_size("gx3d-160x1792x8h100"),
            ("gx3d", "160x1792x8h100")
        );
        assert_eq!(Kind::family_and_size("odd"), ("odd", ""));
    }

    #[test]
    fn each_maker_has_its_own_resource() {
        let made_by = |maker: &str| {
            let cards = Cards {
                name: "x".to_owned(),
                maker: maker.to_owned(),
                count: 1,
                memory_bytes: None,
            };
            cards.resource()
        };
        assert_eq!(made_by("nvidia"), "nvidia.com/gpu");
        assert_eq!(made_by("amd"), "amd.com/gpu");
        assert_eq!(made_by("intel"), "habana.ai/gaudi");
    }
}
