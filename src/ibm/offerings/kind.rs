//! A profile in the words of every cloud.
//!
//! Lenient where nothing hangs on it and strict where it does: a profile whose size, architecture or zones are not
//! certain is not offered, since whoever plans with it would be wrong.

use std::collections::BTreeSet;

use crate::api::{CapacityType, OfferingKey};
use crate::ibm::prices::{Known, Quote, Source};
use crate::ibm::vpc::types::{AvailabilityClass, Capability, InstanceProfile, ProfileDisk};
use crate::model::{Cards, Kind, LocalDisk, Priced, Sold};

const GIB: i64 = 1 << 30;
/// Disks are sold in decimal units, memory in binary ones.
const GB: i64 = 1_000_000_000;

/// The kind that a profile is; `None` if it cannot be sized or no order for it could be recorded.
pub(super) fn of(profile: &InstanceProfile, quote: Quote) -> Option<Kind> {
    let vcpu = amount(profile.vcpu_count.as_ref(), 1)?;
    let memory_bytes = amount(profile.memory.as_ref(), GIB)?;
    let (family, size) = Kind::family_and_size(&profile.name);
    let zones = zones(profile);
    let (spot, on_demand) = sold(profile.availability_class.as_ref());
    if vcpu == 0 || memory_bytes == 0 || zones.is_empty() {
        return None;
    }
    Some(Kind {
        name: profile.name.clone(),
        family: family.to_owned(),
        size: size.to_owned(),
        arch: profile.vcpu_architecture.as_ref()?.usual()?.clone(),
        vcpu,
        memory_bytes,
        gpus: cards(profile).ok()?,
        bandwidth_mbps: amount(profile.bandwidth.as_ref(), 1),
        local_disks: profile.disks.iter().filter_map(local_disk).collect(),
        zones,
        spot,
        on_demand,
        spot_price: quote.spot.and_then(published),
        on_demand_price: quote.on_demand.map(Priced::from),
    })
}

/// What one gets of something without asking for more or less, in units.
fn amount(capability: Option<&Capability<u64>>, unit: i64) -> Option<i64> {
    let usual = *capability?.usual()?;
    i64::try_from(usual).ok()?.checked_mul(unit)
}

/// The zones of its hardware that an allocation could name.
fn zones(profile: &InstanceProfile) -> BTreeSet<String> {
    let names = profile.zones.iter().filter_map(|zone| zone.name.clone());
    names
        .filter(|zone| OfferingKey::one(CapacityType::OnDemand, &profile.name, zone).is_ok())
        .collect()
}

/// Whether it is sold as spot, and on demand. Profiles recorded before there was spot do not say, and enums without
/// values occur: both are sold as they always were.
fn sold(class: Option<&Capability<AvailabilityClass>>) -> (Sold, Sold) {
    let silent = match class {
        None => true,
        Some(Capability::Enum { values, default }) => values.is_empty() && default.is_none(),
        Some(_) => false,
    };
    let sold = |wanted: AvailabilityClass| {
        let said = class.is_some_and(|class| class.permits(&wanted) || class.usual() == Some(&wanted));
        if said || (silent && wanted == AvailabilityClass::Standard) {
            Sold::Yes
        } else {
            Sold::No
        }
    };
    (sold(AvailabilityClass::Spot), sold(AvailabilityClass::Standard))
}

/// It has cards, but how many cannot be told.
struct Uncertain;

fn cards(profile: &InstanceProfile) -> Result<Option<Cards>, Uncertain> {
    let Some(count) = &profile.gpu_count else {
        return Ok(None);
    };
    let count = amount(Some(count), 1).ok_or(Uncertain)?;
    if count == 0 {
        return Ok(None);
    }
    let word = |capability: Option<&Capability<String>>| Some(label_value(capability?.usual()?));
    let maker = word(profile.gpu_manufacturer.as_ref()).ok_or(Uncertain)?;
    Ok(Some(Cards {
        name: word(profile.gpu_model.as_ref()).unwrap_or_else(|| maker.clone()),
        maker,
        count,
        memory_bytes: amount(profile.gpu_memory.as_ref(), GIB),
    }))
}

/// `Tesla V100` as a label can say it: `tesla-v100`.
fn label_value(text: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let value: String = text.to_lowercase().chars().map(legal).take(63).collect();
    value.trim_matches(['-', '.']).to_owned()
}

fn local_disk(disk: &ProfileDisk) -> Option<LocalDisk> {
    Some(LocalDisk {
        count: amount(disk.quantity.as_ref(), 1)?,
        bytes: amount(disk.size.as_ref(), GB)?,
    })
}

/// A spot price only if somebody published it: what is computed from the price on demand is left to whoever knows the
/// user's factors.
fn published(known: Known) -> Option<Priced> {
    matches!(known.source, Source::Catalogue { .. }).then(|| known.into())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::ibm::builtin::Certainty;
    use crate::model::PriceSource;
    use crate::money::Price;

    /// A profile as the API shows it, with these fields changed or, where `null`, taken away.
    fn profile(changes: &Value) -> InstanceProfile {
        let mut body = json!({
            "name": "bxf-4x16", "family": "balanced", "status": "current",
            "vcpu_count": {"type": "fixed", "value": 4}, "vcpu_architecture": {"type": "fixed", "value": "amd64"},
            "memory": {"type": "fixed", "value": 16}, "bandwidth": {"type": "fixed", "value": 8000}, "disks": [],
            "availability_class": {"type": "enum", "default": "standard", "values": ["standard", "spot"]},
            "zones": [{"name": "us-south-1"}, {"name": "us-south-3"}],
        });
        for (key, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
                value => body[key] = value.clone(),
            }
        }
        serde_json::from_value(body).unwrap()
    }

    fn kind(changes: &Value) -> Option<Kind> {
        of(&profile(changes), Quote::default())
    }

    #[test]
    fn a_profile_is_a_kind_in_the_words_of_every_cloud() {
        let kind = kind(&json!({})).unwrap();
        assert_eq!((kind.family.as_str(), kind.size.as_str()), ("bxf", "4x16"));
        assert_eq!((kind.vcpu, kind.memory_bytes), (4, 16 * GIB));
        assert_eq!(kind.zones, ["us-south-1", "us-south-3"].map(str::to_owned).into());
        assert_eq!(kind.bandwidth_mbps, Some(8000));
        assert_eq!(kind.gpus, None);
    }

    #[test]
    fn the_availability_class_says_how_it_is_sold_in_every_shape() {
        let ways = |class: Value| {
            let kind = kind(&json!({ "availability_class": class })).unwrap();
            (kind.spot, kind.on_demand)
        };
        let fixed = |value: &str| json!({"type": "fixed", "value": value});
        assert_eq!(ways(fixed("standard")), (Sold::No, Sold::Yes));
        assert_eq!(ways(fixed("spot")), (Sold::Yes, Sold::No));
        let of_values = |values: &[&str]| json!({"type": "enum", "values": values});
        assert_eq!(ways(of_values(&["standard", "spot"])), (Sold::Yes, Sold::Yes));
        assert_eq!(ways(of_values(&["standard"])), (Sold::No, Sold::Yes));
        assert_eq!(ways(of_values(&["spot"])), (Sold::Yes, Sold::No));
        assert_eq!(ways(of_values(&[])), (Sold::No, Sold::Yes));
        assert_eq!(ways(Value::Null), (Sold::No, Sold::Yes));
        assert_eq!(ways(json!({"type": "dependent"})), (Sold::No, Sold::No));
        assert_eq!(ways(fixed("reserved")), (Sold::No, Sold::No));
    }

    #[test]
    fn an_enum_of_sizes_counts_with_its_default() {
        let enums = json!({"vcpu_count": {"type": "enum", "default": 8, "values": [4, 8]}});
        assert_eq!(kind(&enums).unwrap().vcpu, 8);
    }

    #[test]
    fn what_cannot_be_sized_or_placed_is_not_offered() {
        for wrong in [
            json!({"vcpu_count": null}),
            json!({"vcpu_count": {"type": "fixed", "value": 0}}),
            json!({"memory": {"type": "dependent"}}),
            json!({"memory": {"type": "fixed", "value": u64::MAX}}),
            json!({"vcpu_architecture": null}),
            json!({"zones": []}),
            json!({"zones": [{"name": "Not A Zone"}]}),
            json!({"name": "Not A Profile"}),
            json!({"gpu_count": {"type": "dependent"}}),
            json!({"gpu_count": {"type": "fixed", "value": 1}}),
        ] {
            assert_eq!(kind(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cards_have_a_name_that_a_label_can_have() {
        let cards = |model: &str, maker: &str| {
            let gpu = json!({
                "gpu_count": {"type": "fixed", "value": 2}, "gpu_memory": {"type": "fixed", "value": 32},
                "gpu_manufacturer": {"type": "enum", "values": [maker]},
                "gpu_model": {"type": "enum", "values": [model]},
            });
            kind(&gpu).unwrap().gpus.unwrap()
        };
        let volta = cards("Tesla V100", "nvidia");
        assert_eq!((volta.name.as_str(), volta.count), ("tesla-v100", 2));
        assert_eq!(volta.memory_bytes, Some(32 * GIB));
        assert_eq!(cards("Gaudi3", "Intel").resource(), "habana.ai/gaudi");
    }

    #[test]
    fn a_computed_spot_price_is_left_to_the_factors() {
        let known = |source| {
            Some(Known {
                price: Price::from_usd(0.1).unwrap(),
                source,
            })
        };
        let built_in = known(Source::BuiltIn {
            certainty: Certainty::Derived,
        });
        let read = known(Source::Catalogue {
            at: Timestamp::UNIX_EPOCH,
        });
        let with = |spot| {
            let quote = Quote {
                on_demand: built_in,
                spot,
            };
            of(&profile(&json!({})), quote).unwrap()
        };
        assert_eq!(with(built_in).spot_price, None);
        assert_eq!(
            with(built_in).on_demand_price.unwrap().source,
            PriceSource::BuiltIn { certainty: "derived" }
        );
        assert!(with(read).spot_price.is_some());
    }
}
