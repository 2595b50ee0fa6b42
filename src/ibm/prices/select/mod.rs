//! Picks a profile's prices out of a pricing body.
//!
//! A body holds up to a dozen metrics in any order, in 14 currencies: the machine, its spot and burstable variants,
//! dedicated hosts and reservations at price 0, and a surcharge per operating system. Only what is named exactly is
//! taken; on any doubt the price is unknown, because a wrong one buys the wrong machine a thousand times.

use crate::ibm::prices::body::{Metric, Pricing, Profile};
use crate::money::Price;

/// What the catalogue says a machine costs; `None` where it does not say so for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub on_demand: Option<Price>,
    pub spot: Option<Price>,
}

/// How the plan of a profile is priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// By the hour of the whole machine: gen3 and later, flex, and most GPU profiles.
    Whole,
    /// By the hour of each part: gen2, whose composite deployments have amounts already multiplied by the profile's
    /// size. Deployments of that plan that are not composite have other amounts and must not be read so.
    Composite,
}

/// A kind of metric: its charge unit, and how its id begins before the profile's name.
struct Sold {
    charge_unit: &'static str,
    id_prefix: &'static str,
}

const ON_DEMAND: Sold = Sold {
    charge_unit: "INSTANCE_HOURS_MULTI_TENANT",
    id_prefix: "part-is.instance-hours-",
};
const SPOT: Sold = Sold {
    charge_unit: "INSTANCE_MULTI_TENANT_SPOT",
    id_prefix: "part-is.spot-",
};

/// A part of a gen2 machine: the charge unit of its metric, and the units of the meters that say a profile has it.
struct Part {
    charge_unit: &'static str,
    meters: &'static [&'static str],
    always: bool,
}

const PARTS: [Part; 4] = [
    Part {
        charge_unit: "VCPU_HOURS",
        meters: &["VCPU"],
        always: true,
    },
    Part {
        charge_unit: "MEMORY_HOURS",
        meters: &["MEMORY"],
        always: true,
    },
    Part {
        charge_unit: "IS_STORAGE_GIGABYTE_HOURS",
        meters: &["IS_STORAGE"],
        always: false,
    },
    Part {
        charge_unit: "V100_HOURS",
        meters: &["GPU", "GPU_CARD"],
        always: false,
    },
];

/// The prices of `profile` in `region` according to `body`, the pricing of one of its deployments.
///
/// A body that does not say that it is about `region` says nothing: a plan's own pricing has no region, and zeros.
pub fn select(body: &Pricing, profile: &Profile, region: &str, form: Form) -> Published {
    let here = [&body.location, &body.region];
    let elsewhere = here.iter().any(|place| !place.is_empty() && *place != region);
    if body.no_price || elsewhere || here.iter().all(|place| place.is_empty()) {
        return Published::default();
    }
    let on_demand = match form {
        Form::Whole => whole(body, &profile.name, &ON_DEMAND),
        Form::Composite => composite(body, profile),
    };
    Published {
        on_demand,
        spot: whole(body, &profile.name, &SPOT),
    }
}

/// What several deployments of one profile say together: known prices must agree.
pub fn agree(said: &[Published]) -> Published {
    Published {
        on_demand: only(said.iter().filter_map(|published| published.on_demand)),
        spot: only(said.iter().filter_map(|published| published.spot)),
    }
}

/// The price of the metric for `sold`. The charge unit must match. An id that names the profile beats one in a form
/// we do not know; one that names another profile counts for nothing.
fn whole(body: &Pricing, profile: &str, sold: &Sold) -> Option<Price> {
    let of_unit = || {
        body.metrics
            .iter()
            .filter(|metric| metric.charge_unit_name == sold.charge_unit)
    };
    let named = |metric: &&Metric| metric.id.strip_prefix(sold.id_prefix) == Some(profile);
    let unnamed = |metric: &&Metric| !metric.id.starts_with(sold.id_prefix);
    if of_unit().any(|metric| named(&metric)) {
        one_price(of_unit().filter(named))
    } else {
        one_price(of_unit().filter(unnamed))
    }
}

/// The sum of the parts. A part that the profile has must have a price, else the sum would be too cheap; a part that
/// it has not must have none, else we do not understand what is charged for.
fn composite(body: &Pricing, profile: &Profile) -> Option<Price> {
    let mut sum: Option<Price> = None;
    for part in &PARTS {
        let metrics = || {
            body.metrics
                .iter()
                .filter(|metric| metric.charge_unit_name == part.charge_unit)
        };
        if part.is_in(profile) {
            let price = one_price(metrics())?;
            sum = Some(sum.map_or(price, |sum| sum.plus(price)));
        } else if metrics().any(|metric| usd(metric) != Some(0.0)) {
            return None;
        }
    }
    sum
}

impl Part {
    fn is_in(&self, profile: &Profile) -> bool {
        // A quantity that cannot be read is not a number, which is not zero: the part is then taken to be there.
        self.always
            || profile
                .meters
                .iter()
                .any(|m| self.meters.contains(&m.unit.as_str()) && m.quantity != 0.0)
    }
}

/// The one price that all of `metrics` state; `None` if there is none, if one is unreadable, or if two differ.
fn one_price<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Option<Price> {
    let prices: Option<Vec<Price>> = metrics
        .map(|metric| usd(metric).and_then(Price::from_usd))
        .collect();
    only(prices?.into_iter())
}

fn only(mut prices: impl Iterator<Item = Price>) -> Option<Price> {
    let first = prices.next()?;
    prices.all(|price| price == first).then_some(first)
}

/// Dollars per hour for one unit, zero included; `None` where the metric is not plainly that.
fn usd(metric: &Metric) -> Option<f64> {
    let hourly = metric.charge_unit.is_empty() || metric.charge_unit.to_lowercase().contains("hour");
    #[expect(
        clippy::float_cmp,
        reason = "exactly one unit is what the catalogue writes; anything else is not read"
    )]
    let single = metric.charge_unit_quantity == 1.0;
    if !(hourly && single) {
        return None;
    }
    // Several countries quote in USD, at prices of their own.
    let mut dollars = metric
        .amounts
        .iter()
        .filter(|a| a.country == "USA" && a.currency == "USD");
    let amount = dollars.next()?;
    if dollars.any(|other| other != amount) {
        return None;
    }
    match (amount.tiers.as_slice(), tier_model(&metric.tier_model).as_str()) {
        ([], _) => None,
        ([tier], "linear_tier" | "simple_tier" | "granular_tier" | "") => Some(tier.price),
        // A tier's quantity is its upper bound, so one machine is in the tier with the least.
        (tiers, "linear_tier") if tiers.iter().all(|tier| tier.quantity.is_finite()) => tiers
            .iter()
            .min_by(|a, b| a.quantity.total_cmp(&b.quantity))
            .map(|tier| tier.price),
        // In the other models the price of a unit depends on the month's total.
        _ => None,
    }
}

/// `Linear Tier` and `linear_tier` are the same.
fn tier_model(written: &str) -> String {
    written.trim().to_lowercase().replace([' ', '-'], "_")
}

#[cfg(test)]
mod tests;
