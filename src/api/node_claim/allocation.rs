//! What a claim holds: the single source of truth for the machine bought, or about to be bought, for it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::condition::at_most;
use crate::api::names::{CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT};
use crate::api::pattern::{INSTANCE_ID, PRICE, PROFILE, RESOURCE_NAME, ZONAL_ID, ZONE};
use crate::api::time::Time;
use crate::api::violation::{Field, Violations};
use crate::api::{schema, wire};
use crate::money::Price;

const CAPACITY_TYPES: [&str; 2] = [CAPACITY_TYPE_SPOT, CAPACITY_TYPE_ON_DEMAND];
/// Longest name of a VPC resource.
const NAME_LENGTH_MAX: usize = 63;
/// Token ids are UUIDs; the bound leaves room for another scheme.
const TOKEN_ID_LENGTH_MAX: usize = 128;

/// The machine a claim holds, or is about to buy. Written before anything is bought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// Machine profile, like `bxf-4x16`.
    #[schemars(extend("pattern" = PROFILE.text))]
    pub profile: String,
    /// Zone, like `us-south-1`.
    #[schemars(extend("pattern" = ZONE.text))]
    pub zone: String,
    /// How it is bought: `spot` or `on-demand`.
    #[schemars(extend("enum" = CAPACITY_TYPES))]
    pub capacity_type: String,
    /// Id of the subnet it gets its address from.
    #[schemars(extend("pattern" = ZONAL_ID.text))]
    pub subnet: String,
    /// Dollars per hour at the time of the decision, as exact decimal digits. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("pattern" = PRICE.text))]
    pub price: Option<WrittenPrice>,
    /// Name of the instance in the VPC, which is also how it is found again.
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = RESOURCE_NAME.text))]
    pub instance_name: String,
    /// Id of the instance, once the cloud has given it one.
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = INSTANCE_ID.text))]
    pub instance_id: Option<String>,
    /// How often a machine was chosen for this claim, counting from 1.
    #[serde(deserialize_with = "wire::required_integer")]
    #[schemars(extend("minimum" = 1))]
    pub attempt: i64,
    /// The credentials that were made for machines of this claim to join with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["jti"]))]
    pub credentials: Option<Vec<Credential>>,
    /// Since when this attempt has been going on.
    #[schemars(schema_with = "schema::time")]
    pub since: Time,
}

/// A credential that one attempt's machine joins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Credential {
    /// The attempt it was made for.
    #[serde(deserialize_with = "wire::required_integer")]
    #[schemars(extend("minimum" = 1))]
    pub attempt: i64,
    /// Id of the token, never the token itself.
    #[schemars(extend("minLength" = 1, "maxLength" = TOKEN_ID_LENGTH_MAX))]
    pub jti: String,
}

impl Allocation {
    pub(super) fn validate(&self, at: Field<'_>, found: &mut Violations) {
        PROFILE.check(&self.profile, at.at("profile"), found);
        ZONE.check(&self.zone, at.at("zone"), found);
        if !CAPACITY_TYPES.contains(&self.capacity_type.as_str()) {
            let message = format!(
                "{:?} is none of {}",
                self.capacity_type,
                CAPACITY_TYPES.join(", ")
            );
            found.blame(at.at("capacityType"), message);
        }
        ZONAL_ID.check(&self.subnet, at.at("subnet"), found);
        RESOURCE_NAME.check(&self.instance_name, at.at("instanceName"), found);
        at_most(NAME_LENGTH_MAX, &self.instance_name, at.at("instanceName"), found);
        if let Some(id) = &self.instance_id {
            INSTANCE_ID.check(id, at.at("instanceID"), found);
        }
        found.require(self.attempt >= 1, at.at("attempt"), "is less than 1");
        self.validate_credentials(at.at("credentials"), found);
    }

    fn validate_credentials(&self, at: Field<'_>, found: &mut Violations) {
        let credentials = self.credentials.as_deref().unwrap_or_default();
        for (index, credential) in credentials.iter().enumerate() {
            let at = at.nth(index);
            found.require(credential.attempt >= 1, at.at("attempt"), "is less than 1");
            found.require(!credential.jti.is_empty(), at.at("jti"), "is empty");
            at_most(TOKEN_ID_LENGTH_MAX, &credential.jti, at.at("jti"), found);
            let earlier = credentials[..index]
                .iter()
                .any(|earlier| earlier.jti == credential.jti);
            found.require(!earlier, at, "occurs twice");
        }
    }
}

/// A price as decimal digits: exact, where a JSON number would pass through floating point on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenPrice(pub Price);

/// The text is not a price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a price in dollars per hour")]
pub struct NotAPrice(String);

const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

impl fmt::Display for WrittenPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten digits of dollars are what the grammar holds, and more than any machine costs.
        let nanos = self.0.nanos().min(10_000_000_000 * NANOS_PER_DOLLAR - 1);
        let text = format!("{}.{:09}", nanos / NANOS_PER_DOLLAR, nanos % NANOS_PER_DOLLAR);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for WrittenPrice {
    type Err = NotAPrice;

    fn from_str(text: &str) -> Result<Self, NotAPrice> {
        let wrong = || NotAPrice(text.to_owned());
        if !PRICE.matches(text) {
            return Err(wrong());
        }
        let (dollars, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number = |digits: &str| digits.parse::<u64>().ok();
        let nanos = number(dollars)
            .zip(number(&format!("{fraction:0<9}")))
            .and_then(|(dollars, nanos)| dollars.checked_mul(NANOS_PER_DOLLAR)?.checked_add(nanos));
        nanos.and_then(Price::from_nanos).map(Self).ok_or_else(wrong)
    }
}

impl Serialize for WrittenPrice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WrittenPrice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
