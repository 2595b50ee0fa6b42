//! What can be bought for a class, as far as that is known without asking the cloud: built-in machines and prices.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::api::IBMNodeClass;
use crate::controllers::node_class::Resolved;
use crate::ibm::builtin::{self, Profile};
use crate::ibm::prices::PriceTable;
use crate::model::offerings::types_for;
use crate::model::{
    Cards, DiscountFactors, InstanceType, Kind, LocalDisk, Priced, Sold, SubnetFacts, Withheld,
};

const GIB: i64 = 1 << 30;
/// Disks are sold in decimal units, memory in binary ones.
const GB: i64 = 1_000_000_000;
/// Every region has as many zones.
const ZONES: u8 = 3;

/// What is sold in a region, as far as it is built in; nothing if the region is not known.
pub(in crate::cli) fn kinds(region: &str) -> Option<Vec<Kind>> {
    builtin::find_region(region)?;
    let prices = PriceTable::built_in(region);
    let mut all: Vec<Kind> = builtin::profiles()
        .iter()
        .map(|profile| kind(profile, region, &prices))
        .collect();
    all.sort_by(|one, two| one.name.cmp(&two.name));
    Some(all)
}

/// The zones of a region.
fn zones(region: &str) -> BTreeSet<String> {
    (1..=ZONES).map(|zone| format!("{region}-{zone}")).collect()
}

fn kind(profile: &Profile, region: &str, prices: &PriceTable) -> Kind {
    let (family, size) = Kind::family_and_size(profile.name);
    let cards = profile.gpu.as_ref().map(|gpu| Cards {
        name: gpu.model.to_lowercase().replace(' ', "-"),
        maker: gpu.manufacturer.to_lowercase(),
        count: i64::from(gpu.count),
        memory_bytes: Some(i64::from(gpu.memory_gib) * GIB),
    });
    let disks = profile.disks.iter().map(|(count, gb)| LocalDisk {
        count: i64::from(*count),
        bytes: i64::from(*gb) * GB,
    });
    Kind {
        name: profile.name.to_owned(),
        family: family.to_owned(),
        size: size.to_owned(),
        arch: "amd64".to_owned(),
        vcpu: i64::from(profile.vcpu),
        memory_bytes: i64::from(profile.memory_gib) * GIB,
        gpus: cards,
        bandwidth_mbps: Some(i64::from(profile.bandwidth_mbps)),
        local_disks: disks.collect(),
        zones: zones(region),
        spot: if profile.spot { Sold::Yes } else { Sold::No },
        on_demand: Sold::Yes,
        spot_price: None,
        on_demand_price: prices.quote(profile.name).on_demand.map(Priced::from),
    }
}

/// The types that nodes of a class can be of. Where the class was not resolved, its image is what its selector says and
/// it has a subnet in each of its zones; how many addresses are free is not known either way, and taken as enough.
pub(in crate::cli) fn types(
    class: &IBMNodeClass,
    withheld: &Withheld,
    factors: &DiscountFactors,
    now: Timestamp,
) -> Result<Vec<InstanceType>, String> {
    let region = &class.spec.region;
    let kinds = kinds(region).ok_or_else(|| {
        let known: Vec<&str> = builtin::REGIONS.iter().map(|region| region.name).collect();
        format!(
            "nothing is known of region {region}; known are {}",
            known.join(", ")
        )
    })?;
    let resolved = class
        .resolution()
        .and_then(|status| status.resolved_subnets.clone());
    let in_zones: BTreeMap<String, String> = if let Some(subnets) = resolved {
        let zonal = subnets.into_iter().map(|subnet| (subnet.id, subnet.zone));
        zonal.collect()
    } else {
        let only = class.spec.zone.as_ref().map(|zone| [zone.clone()].into());
        let zones: BTreeSet<String> = only.unwrap_or_else(|| zones(region));
        zones.into_iter().map(|zone| (zone.clone(), zone)).collect()
    };
    let subnets = in_zones.into_iter().map(|(id, zone)| SubnetFacts {
        id,
        zone,
        free: u64::MAX,
    });
    let known = Resolved {
        class: class.clone(),
        image: None,
        resource_group: None,
        refusal: None,
    };
    let mut facts = known.facts(subnets.collect());
    if class.resolution().is_none()
        && let Some(selector) = &class.spec.image_selector
    {
        selector.architecture().clone_into(&mut facts.arch);
    }
    Ok(types_for(&facts, &kinds, withheld, factors, now))
}
