//! Bodies of the Global Catalog, read so that no part of them can spoil the rest.
//!
//! `metrics` may be null, entries come with fields that nobody announced, and numbers may be strings. Reading never
//! fails: what is not as expected is left out, and whoever needs it finds it missing.

use serde::Deserialize;
use serde_json::Value;

/// The answer to "what does this deployment cost".
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub struct Pricing {
    /// `br-sao`; empty on answers that are not about a deployment.
    pub location: String,
    /// The same in another field.
    pub region: String,
    /// The catalogue says itself that there is no price here.
    pub no_price: bool,
    /// What is charged for, in no particular order.
    pub metrics: Vec<Metric>,
}

/// One thing that is charged for: the machine, its license, its storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    /// `part-is.instance-hours-bxf-4x16`
    pub id: String,
    /// `INSTANCE_HOURS_MULTI_TENANT`
    pub charge_unit_name: String,
    /// `Instance-Hour`
    pub charge_unit: String,
    /// How many units the price is for; 1 where it does not say.
    pub charge_unit_quantity: f64,
    /// `Linear Tier` or `linear_tier`
    pub tier_model: String,
    /// One per country.
    pub amounts: Vec<Amount>,
}

/// The price in one country's currency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amount {
    /// `USA`
    pub country: String,
    /// `USD`; other countries quote it too.
    pub currency: String,
    /// By quantity.
    pub tiers: Vec<Tier>,
}

/// The price of each unit up to a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// The upper bound of this tier.
    pub quantity: f64,
    /// Not a number where it could not be read.
    pub price: f64,
}

impl From<Value> for Pricing {
    fn from(body: Value) -> Self {
        Self {
            location: text(&body, "deployment_location"),
            region: text(&body, "deployment_region"),
            no_price: body
                .get("deployment_location_no_price_available")
                .and_then(Value::as_bool)
                == Some(true),
            metrics: list(&body, "metrics").iter().map(metric).collect(),
        }
    }
}

fn metric(value: &Value) -> Metric {
    Metric {
        id: text(value, "metric_id"),
        charge_unit_name: text(value, "charge_unit_name"),
        charge_unit: text(value, "charge_unit"),
        charge_unit_quantity: value.get("charge_unit_quantity").map_or(1.0, number),
        tier_model: text(value, "tier_model"),
        amounts: list(value, "amounts").iter().map(amount).collect(),
    }
}

fn amount(value: &Value) -> Amount {
    let tier = |tier: &Value| Tier {
        quantity: tier.get("quantity_tier").map_or(f64::NAN, number),
        price: tier.get("price").map_or(f64::NAN, number),
    };
    Amount {
        country: text(value, "country"),
        currency: text(value, "currency"),
        tiers: list(value, "prices").iter().map(tier).collect(),
    }
}

/// An entry of the catalogue's tree: a profile or a deployment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Entry(Value);

/// A profile as the catalogue has it: which plan sells it, and what it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// `bx2-4x16`
    pub name: String,
    /// The id of the plan under which its deployments are. A path with the plan's *name* is answered with 404.
    pub plan: String,
    /// What a composite price must consist of.
    pub meters: Vec<Meter>,
}

/// How much of something a profile has.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// `VCPU`, `MEMORY`, `IS_STORAGE`, `GPU`, and more that have no price of their own.
    pub unit: String,
    pub quantity: f64,
}

impl Entry {
    /// Its id; empty if it has none.
    pub fn id(&self) -> &str {
        self.string("/id")
    }

    /// Its name: a profile's is its id, a composite deployment's is `<profile>-<region>`.
    pub fn name(&self) -> &str {
        self.string("/name")
    }

    /// The region of a deployment.
    pub fn location(&self) -> &str {
        self.string("/metadata/deployment/location")
    }

    /// Whether it is the deployment of one gen2 profile, with amounts already multiplied by the profile's size.
    pub fn is_composite(&self) -> bool {
        list(&self.0, "tags").iter().any(|tag| tag == "is.composite")
    }

    /// The profile that this entry describes, as sold to tenants of shared hosts.
    pub fn profile(&self) -> Option<Profile> {
        if self.string("/kind") != "instance.profile" {
            return None;
        }
        let profile = self.0.pointer("/metadata/other/profile")?;
        let instance = list(profile, "measures")
            .iter()
            .find(|m| text(m, "component") == "instance")?;
        let sold = list(instance, "deployments")
            .iter()
            .find(|d| text(d, "type") == "multi-tenant")?;
        let plan = text(sold, "plan");
        let meter = |m: &Value| Meter {
            unit: text(m, "unit"),
            quantity: m.get("quantity").map_or(f64::NAN, number),
        };
        let meters = list(sold, "meters").iter().map(meter).collect();
        (!plan.is_empty()).then(|| Profile {
            name: self.name().to_owned(),
            plan,
            meters,
        })
    }

    fn string(&self, pointer: &str) -> &str {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// One page of entries.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub struct Entries {
    /// How many there are on all pages together.
    pub total: Option<u64>,
    /// Those on this page.
    pub entries: Vec<Entry>,
}

impl From<Value> for Entries {
    fn from(body: Value) -> Self {
        Self {
            total: body.get("count").and_then(Value::as_u64),
            entries: list(&body, "resources").iter().cloned().map(Entry).collect(),
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A number, or one in a string (meters have those); not a number where it is neither.
fn number(value: &Value) -> f64 {
    let written = || value.as_str().and_then(|text| text.trim().parse().ok());
    value.as_f64().or_else(written).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn null_metrics_are_no_metrics() {
        let body: Pricing =
            serde_json::from_value(json!({"deployment_region": "eu-de", "metrics": null})).unwrap();
        assert_eq!((body.region.as_str(), body.metrics.len()), ("eu-de", 0));
    }

    #[test]
    fn one_misshapen_metric_does_not_hide_its_neighbors() {
        let body = json!({"metrics": [7, {"metric_id": 3, "amounts": "none"}, {"metric_id": "good"}]});
        let ids: Vec<String> = Pricing::from(body)
            .metrics
            .into_iter()
            .map(|metric| metric.id)
            .collect();
        assert_eq!(ids, ["", "", "good"]);
    }

    #[test]
    fn a_profile_names_the_plan_that_sells_it_to_shared_hosts() {
        let entry = Entry(json!({
            "id": "bx2-4x16", "name": "bx2-4x16", "kind": "instance.profile",
            "metadata": {"other": {"profile": {"measures": [
                {"component": "volume", "deployments": [{"type": "multi-tenant", "plan": "wrong"}]},
                {"component": "instance", "deployments": [
                    {"type": "dedicated-host", "plan": "wrong"},
                    {"type": "multi-tenant", "plan": "right", "meters": [{"unit": "VCPU", "quantity": "4"}]},
                ]},
            ]}}},
        }));
        let meters = vec![Meter {
            unit: "VCPU".to_owned(),
            quantity: 4.0,
        }];
        let profile = Profile {
            name: "bx2-4x16".to_owned(),
            plan: "right".to_owned(),
            meters,
        };
        assert_eq!(entry.profile(), Some(profile));
    }

    #[test]
    fn an_entry_of_another_kind_is_no_profile() {
        assert_eq!(Entry(json!({"id": "x", "kind": "plan"})).profile(), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let keys = [
            "metrics",
            "amounts",
            "prices",
            "price",
            "resources",
            "metadata",
            "tags",
            "count",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            let object =
                prop::collection::btree_map(prop::sample::select(keys.to_vec()), inner.clone(), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(Value::from),
                object.prop_map(|map| map
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_can_be_read(body in any_json()) {
            let _ = Pricing::from(body.clone());
            for entry in Entries::from(body).entries {
                let _ = (entry.id(), entry.location(), entry.is_composite(), entry.profile());
            }
        }
    }
}
