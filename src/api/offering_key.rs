//! What an `UnavailableOffering` withholds: its key, and the object's name that stands for it.
//!
//! Key and name are two spellings of one value, and each can be turned into the other: `spot:bxf-4x16:us-south-1` and
//! `spot.bxf-4x16.us-south-1`. Quota is regional, so there are keys for whole classes: `spot:*:*` (`spot.all`),
//! `on-demand:*:*` (`on-demand.all`), `on-demand:gpu:*` (`on-demand.gpu`). A profile and a zone have no dot, so the
//! number of parts tells the forms apart and no two keys share a name.

use std::fmt;
use std::str::FromStr;

use super::names::{CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT};
use super::pattern::{PROFILE, ZONE};

/// How a machine is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// May be preempted.
    Spot,
    /// Stays until given back.
    OnDemand,
}

impl CapacityType {
    /// The value of the capacity type label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot => CAPACITY_TYPE_SPOT,
            Self::OnDemand => CAPACITY_TYPE_ON_DEMAND,
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CapacityType {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        [Self::Spot, Self::OnDemand]
            .into_iter()
            .find(|capacity_type| capacity_type.as_str() == text)
            .ok_or_else(|| InvalidKey(text.to_owned()))
    }
}

/// What is withheld. Only keys that mean something can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingKey(Scope);

/// How much a key covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Scope {
    /// One profile in one zone, bought one way.
    One {
        capacity_type: CapacityType,
        profile: String,
        zone: String,
    },
    /// Everything that is bought one way.
    All(CapacityType),
    /// Every profile with GPUs, bought on demand.
    OnDemandGpu,
}

/// The text is no key, or no name that stands for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an offering key")]
pub struct InvalidKey(String);

impl OfferingKey {
    /// One profile in one zone, bought one way.
    pub fn one(capacity_type: CapacityType, profile: &str, zone: &str) -> Result<Self, InvalidKey> {
        if !PROFILE.matches(profile) || !ZONE.matches(zone) {
            return Err(InvalidKey(format!("{capacity_type}:{profile}:{zone}")));
        }
        Ok(Self(Scope::One {
            capacity_type,
            profile: profile.to_owned(),
            zone: zone.to_owned(),
        }))
    }

    /// Everything that is bought one way.
    pub fn all(capacity_type: CapacityType) -> Self {
        Self(Scope::All(capacity_type))
    }

    /// Every profile with GPUs, bought on demand.
    pub fn on_demand_gpu() -> Self {
        Self(Scope::OnDemandGpu)
    }

    /// How the offerings it covers are bought.
    pub fn capacity_type(&self) -> CapacityType {
        match &self.0 {
            Scope::One { capacity_type, .. } | Scope::All(capacity_type) => *capacity_type,
            Scope::OnDemandGpu => CapacityType::OnDemand,
        }
    }

    /// Profile and zone, if it covers one offering only.
    pub fn profile_and_zone(&self) -> Option<(&str, &str)> {
        match &self.0 {
            Scope::One { profile, zone, .. } => Some((profile, zone)),
            Scope::All(_) | Scope::OnDemandGpu => None,
        }
    }

    /// The keys under which an offering may be withheld, from the narrowest to the widest.
    pub fn covering(capacity_type: CapacityType, profile: &str, zone: &str, gpus: Gpus) -> Vec<Self> {
        let mut keys: Vec<Self> = Self::one(capacity_type, profile, zone).into_iter().collect();
        if capacity_type == CapacityType::OnDemand && gpus == Gpus::Present {
            keys.push(Self::on_demand_gpu());
        }
        keys.push(Self::all(capacity_type));
        keys
    }

    /// The name of the object that stands for it.
    pub fn object_name(&self) -> String {
        match &self.0 {
            Scope::One {
                capacity_type,
                profile,
                zone,
            } => format!("{capacity_type}.{profile}.{zone}"),
            Scope::All(capacity_type) => format!("{capacity_type}.all"),
            Scope::OnDemandGpu => "on-demand.gpu".to_owned(),
        }
    }

    /// The key that an object's name stands for.
    pub fn from_object_name(name: &str) -> Result<Self, InvalidKey> {
        let wrong = || InvalidKey(name.to_owned());
        let parts: Vec<&str> = name.split('.').collect();
        match parts.as_slice() {
            ["on-demand", "gpu"] => Ok(Self::on_demand_gpu()),
            [capacity_type, "all"] => capacity_type.parse().map(Self::all).map_err(|_| wrong()),
            [capacity_type, profile, zone] => capacity_type
                .parse()
                .and_then(|it| Self::one(it, profile, zone))
                .map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Whether a profile has GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// It has.
    Present,
    /// It has not.
    Absent,
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Scope::One {
                capacity_type,
                profile,
                zone,
            } => write!(f, "{capacity_type}:{profile}:{zone}"),
            Scope::All(capacity_type) => write!(f, "{capacity_type}:*:*"),
            Scope::OnDemandGpu => f.write_str("on-demand:gpu:*"),
        }
    }
}

impl FromStr for OfferingKey {
    type Err = InvalidKey;

    fn from_str(key: &str) -> Result<Self, InvalidKey> {
        let wrong = || InvalidKey(key.to_owned());
        let parts: Vec<&str> = key.split(':').collect();
        match parts.as_slice() {
            ["on-demand", "gpu", "*"] => Ok(Self::on_demand_gpu()),
            [capacity_type, "*", "*"] => capacity_type.parse().map(Self::all).map_err(|_| wrong()),
            [capacity_type, profile, zone] => capacity_type
                .parse()
                .and_then(|it| Self::one(it, profile, zone))
                .map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::pattern::OFFERING_KEY;

    #[test]
    fn keys_and_names_are_two_spellings_of_one_value() {
        for (key, name) in [
            ("spot:bxf-4x16:us-south-1", "spot.bxf-4x16.us-south-1"),
            (
                "on-demand:gx3-16x80x1l4:eu-de-2",
                "on-demand.gx3-16x80x1l4.eu-de-2",
            ),
            ("spot:*:*", "spot.all"),
            ("on-demand:*:*", "on-demand.all"),
            ("on-demand:gpu:*", "on-demand.gpu"),
        ] {
            let parsed: OfferingKey = key.parse().unwrap();
            assert_eq!(parsed.object_name(), name);
            assert_eq!(parsed.to_string(), key);
            assert_eq!(OfferingKey::from_object_name(name), Ok(parsed));
        }
    }

    #[test]
    fn what_means_nothing_is_no_key() {
        for wrong in [
            "",
            "spot",
            "spot:bxf-4x16",
            "spot:gpu:*",
            "spot:*:us-south-1",
            "spot:bxf-4x16:*",
            "reserved:*:*",
            "spot:bxf-4x16:us-south",
            "spot:Bxf:us-south-1",
            "spot:bxf-4x16:us-south-1:x",
            "on-demand:*:*:*",
        ] {
            assert!(wrong.parse::<OfferingKey>().is_err(), "{wrong}");
            assert!(
                OfferingKey::from_object_name(&wrong.replace(':', ".")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_offering_is_covered_from_narrow_to_wide() {
        let keys = |gpus| {
            OfferingKey::covering(CapacityType::OnDemand, "bxf-4x16", "us-south-1", gpus)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            keys(Gpus::Absent),
            ["on-demand:bxf-4x16:us-south-1", "on-demand:*:*"]
        );
        assert_eq!(
            keys(Gpus::Present),
            [
                "on-demand:bxf-4x16:us-south-1",
                "on-demand:gpu:*",
                "on-demand:*:*"
            ]
        );
    }

    fn key() -> impl Strategy<Value = OfferingKey> {
        let capacity_type = prop_oneof![Just(CapacityType::Spot), Just(CapacityType::OnDemand)];
        let profile = "(all|gpu|[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,8}){0,2})";
        prop_oneof![
            8 => (capacity_type.clone(), profile, "[a-z]{2}-[a-z]{1,8}-[0-9]{1,2}")
                .prop_map(|(capacity_type, profile, zone)| OfferingKey::one(capacity_type, &profile, &zone).unwrap()),
            1 => capacity_type.prop_map(OfferingKey::all),
            1 => Just(OfferingKey::on_demand_gpu()),
        ]
    }

    proptest! {
        #[test]
        fn every_key_survives_both_spellings(key in key()) {
            prop_assert_eq!(key.to_string().parse(), Ok(key.clone()));
            prop_assert_eq!(OfferingKey::from_object_name(&key.object_name()), Ok(key.clone()));
            prop_assert!(OFFERING_KEY.matches(&key.to_string()));
        }

        #[test]
        fn different_keys_have_different_names(one in key(), other in key()) {
            prop_assert_eq!(one == other, one.object_name() == other.object_name());
        }

        #[test]
        fn the_schema_takes_exactly_what_parses(text in "(spot|on-demand|reserved)?:?(\\*|gpu|bxf-[0-9]x[0-9]|[a-z-]{0,3}):(\\*|us-south-[0-9]|us-south)") {
            prop_assert_eq!(OFFERING_KEY.matches(&text), text.parse::<OfferingKey>().is_ok());
        }
    }
}
