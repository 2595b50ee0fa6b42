//! Prices in the catalogue, with all that makes them hard to read.
//!
//! The metric that counts stands among surcharges for operating systems, in an order that differs per deployment;
//! dollars stand among other currencies, and among other countries' dollars; plans and profiles answer 200 with
//! nothing in it.

use fastrand::Rng;
use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::catalog::{self, Deployment, Entry, Priced};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::ids;
use super::state::State;
use crate::ibm::builtin::{self, Certainty, Profile};

/// Spot divided by on-demand, as measured on every profile whose body was recorded.
pub(super) const SPOT_SHARE: f64 = 0.25;
/// What a second-generation vCPU and a GiB cost in us-south; fitted on the measured bx2-4x16.
const GEN2_VCPU_USD: f64 = 0.027_75;
const GEN2_GIB_USD: f64 = 0.005_625;
/// How the part of the vCPUs relates to the whole in a bx2-4x16, for profiles that do not follow the formula.
const GEN2_VCPU_SHARE: f64 = 0.111 / 0.201;

/// How certain a price is: as certain as the worse of the us-south price and the region's factor.
pub(super) fn certainty(profile: &Profile, region: &str) -> Certainty {
    let factor = builtin::find_region(region).map_or(Certainty::Low, |region| region.factor_certainty);
    profile.certainty.max(factor)
}

/// `GET /api/v1/{id}/pricing`
pub(super) fn pricing(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (id, entry) = catalog::find(state, ask.param("id"))?;
    let body = match entry {
        Entry::Deployment(deployment) => deployment_body(state, ask, id, deployment),
        // A plan answers with metrics that cost nothing, a profile with none: both are traps, and real ones.
        Entry::Plan(_) => json!({
            "origin": "pricing_catalog", "type": "Paid", "starting_price": {},
            "metrics": [metric("part-is.instance-hours", "INSTANCE_HOURS_MULTI_TENANT", 0.0, &mut Rng::with_seed(1))],
        }),
        Entry::Service | Entry::Profile(_) => {
            json!({ "type": "Paid", "starting_price": {}, "metrics": null })
        }
    };
    Ok(Answer::ok(body))
}

/// `GET /api/v1/{id}/pricing/deployment`: all regions of a plan at once.
pub(super) fn pricing_deployments(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (plan, entry) = catalog::find(state, ask.param("id"))?;
    if !matches!(entry, Entry::Plan(_)) {
        return Err(Refusal::not_found("plan", plan));
    }
    let mut resources = Vec::new();
    for (id, entry) in catalog::tree() {
        if let Entry::Deployment(deployment) = entry
            && id.split_once(':').is_some_and(|(own, _)| own == plan)
        {
            resources.push(deployment_body(state, ask, id, deployment));
        }
    }
    let missing = builtin::REGIONS.iter().filter(|region| {
        !resources
            .iter()
            .any(|resource| resource["deployment_region"] == region.name)
    });
    let missing: Vec<Value> = missing
        .map(|region| {
            json!({
                "deployment_location": region.name, "deployment_region": region.name, "metrics": null,
                "deployment_location_no_price_available": true,
            })
        })
        .collect();
    resources.extend(missing);
    Ok(Answer::ok(json!({ "resources": resources })))
}

fn deployment_body(state: &mut State, ask: &Ask, id: &str, deployment: &Deployment) -> Value {
    let region = deployment.region.name;
    let is_missing = state.faults.hits(FaultKind::PriceMissing, ask.operation);
    let lie = lie(state, ask);
    let withdrawn = match deployment.of {
        Priced::Profile(profile) | Priced::Composite(profile) => state.removed_prices.contains(profile.name),
        Priced::Generic => false,
    };
    let metrics = (!is_missing && !withdrawn).then(|| metrics(id, deployment, lie.as_ref()));
    let certainty = match deployment.of {
        Priced::Profile(profile) | Priced::Composite(profile) => certainty(profile, region).as_str(),
        Priced::Generic => Certainty::Low.as_str(),
    };
    json!({
        "deployment_id": id, "deployment_location": region, "deployment_region": region,
        "origin": "pricing_catalog", "type": "Paid", "starting_price": {},
        "effective_from": "2026-08-01T00:00:00Z", "effective_until": "9999-12-31T00:00:00Z",
        // Not in the real body: how the simulator knows the figure.
        "simulator_price_certainty": certainty,
        "metrics": metrics,
    })
}

/// What the catalogue says in place of a price, if it does not say the truth.
fn lie(state: &mut State, ask: &Ask) -> Option<Value> {
    // What no number is in JSON, as programs write it that have one.
    const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "on request"];
    let mut hits = |kind| state.faults.hits(kind, ask.operation);
    let (is_zero, is_negative) = (hits(FaultKind::PriceZero), hits(FaultKind::PriceNegative));
    if hits(FaultKind::PriceNotANumber) {
        let word = NO_NUMBERS.get(state.faults.pick(NO_NUMBERS.len() + 1));
        return Some(word.map_or(Value::Null, |word| json!(word)));
    }
    match (is_zero, is_negative) {
        (true, _) => Some(json!(0.0)),
        (_, true) => Some(json!(-1.0)),
        _ => None,
    }
}

/// All metrics of a deployment, in this deployment's own order.
fn metrics(id: &str, deployment: &Deployment, lie: Option<&Value>) -> Vec<Value> {
    let mut rng = Rng::with_seed(ids::fingerprint(id));
    let factor = deployment.region.price_factor;
    let mut priced = match deployment.of {
        Priced::Profile(profile) => whole(profile, factor),
        Priced::Composite(profile) => parts(profile, factor),
        // 63 vCPUs and as many GiB, whatever they may stand for.
        Priced::Generic => vec![
            (
                "part-is.vcpu".into(),
                "VCPU_HOURS".into(),
                63.0 * GEN2_VCPU_USD * factor,
            ),
            (
                "part-is.memory".into(),
                "MEMORY_HOURS".into(),
                63.0 * GEN2_GIB_USD * factor,
            ),
        ],
    };
    let mut surcharges: Vec<(String, String, f64)> = vec![
        ("part-is.windowsOS".into(), "WINDOWS_VCPU_HOURS".into(), 0.046),
        ("part-is.redhatOS".into(), "REDHAT_VCPU_HOURS".into(), 0.052),
        ("part-is.suseOS".into(), "SUSE_INSTANCE_HOURS".into(), 0.11),
        ("part-is.mssql".into(), "MSSQL_CORE_HOURS".into(), 0.017),
        (
            "part-is.windowsOS-byol".into(),
            "WINDOWS_BYOL_VCPU_HOURS".into(),
            0.0,
        ),
    ];
    let lies: Vec<String> = match lie {
        Some(_) => priced.iter().map(|(id, _, _)| id.clone()).collect(),
        None => Vec::new(),
    };
    rng.shuffle(&mut priced);
    rng.shuffle(&mut surcharges);
    let all: Vec<_> = match deployment.of {
        // In the second generation the surcharges come first.
        Priced::Composite(_) | Priced::Generic => surcharges.into_iter().chain(priced).collect(),
        Priced::Profile(_) => {
            let mut all: Vec<_> = priced.into_iter().chain(surcharges).collect();
            rng.shuffle(&mut all);
            all
        }
    };
    let told = all.iter().map(|(id, unit, price)| {
        let mut metric = metric(id, unit, *price, &mut rng);
        if let Some(lie) = lie.filter(|_| lies.contains(id)) {
            say(&mut metric, lie);
        }
        metric
    });
    told.collect()
}

/// Makes a metric say something else than its price, in every currency.
fn say(metric: &mut Value, instead: &Value) {
    let amounts = metric["amounts"].as_array_mut().into_iter().flatten();
    for amount in amounts {
        let tiers = amount["prices"].as_array_mut().into_iter().flatten();
        for tier in tiers {
            tier["price"] = instead.clone();
        }
    }
}

/// A profile that is sold by the hour: metric id, unit, dollars.
fn whole(profile: &Profile, factor: f64) -> Vec<(String, String, f64)> {
    let (name, price) = (profile.name, dollars(profile, factor));
    let mut metrics = vec![
        (
            format!("part-is.instance-hours-{name}"),
            "INSTANCE_HOURS_MULTI_TENANT".to_owned(),
            price,
        ),
        (
            format!("part-is.instance-hours-dh-{name}"),
            "INSTANCE_HOURS_DEDICATED_HOST".to_owned(),
            0.0,
        ),
        (
            "part-is.instance-hours-reservation".to_owned(),
            "INSTANCE_HOURS_RESERVATION".to_owned(),
            0.0,
        ),
    ];
    metrics.extend(spot(profile, price));
    for share in profile.vcpu_percentages.iter().filter(|&&share| share < 100) {
        // 50 % of a vCPU costs 68 % of the whole, by the one recorded figure; other shares in between.
        let part = 0.36 + 0.64 * f64::from(*share) / 100.0;
        metrics.push((
            format!("part-is.burstable{share}-{name}"),
            format!("INSTANCE_MULTI_TENANT_{share}_PERCENT"),
            round(price * part),
        ));
    }
    metrics
}

/// A second-generation profile: the parts add up to its price exactly.
fn parts(profile: &Profile, factor: f64) -> Vec<(String, String, f64)> {
    let total = dollars(profile, factor);
    let vcpu = GEN2_VCPU_USD * f64::from(profile.vcpu) * factor;
    let memory = GEN2_GIB_USD * f64::from(profile.memory_gib) * factor;
    let third = if profile.gpu.is_some() {
        Some(("part-is.v100", "V100_HOURS"))
    } else {
        profile
            .disks
            .map(|_| ("part-is.storage", "IS_STORAGE_GIGABYTE_HOURS"))
    };
    let vcpu = round(if third.is_some() {
        vcpu
    } else {
        total * GEN2_VCPU_SHARE * share_of_cpu(profile)
    });
    let memory = round(if third.is_some() { memory } else { total - vcpu });
    let mut metrics = vec![
        ("part-is.vcpu".to_owned(), "VCPU_HOURS".to_owned(), vcpu),
        ("part-is.memory".to_owned(), "MEMORY_HOURS".to_owned(), memory),
    ];
    metrics.extend(third.map(|(id, unit)| (id.to_owned(), unit.to_owned(), round(total - vcpu - memory))));
    metrics.extend(spot(profile, total));
    metrics
}

/// How this profile's mix of vCPU and memory differs from that of a bx2-4x16.
fn share_of_cpu(profile: &Profile) -> f64 {
    let vcpu = GEN2_VCPU_USD * f64::from(profile.vcpu);
    let share = vcpu / (vcpu + GEN2_GIB_USD * f64::from(profile.memory_gib));
    share / GEN2_VCPU_SHARE
}

fn spot(profile: &Profile, price: f64) -> Option<(String, String, f64)> {
    let id = format!("part-is.spot-{}", profile.name);
    profile.spot.then(|| {
        (
            id,
            "INSTANCE_MULTI_TENANT_SPOT".to_owned(),
            round(price * SPOT_SHARE),
        )
    })
}

fn dollars(profile: &Profile, factor: f64) -> f64 {
    profile
        .on_demand
        .times(factor)
        .map_or(0.0, crate::money::Price::usd)
}

/// To the nano-dollar.
fn round(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}

fn metric(id: &str, unit: &str, price: f64, rng: &mut Rng) -> Value {
    // Another country that quotes dollars, but not the same ones.
    let mut amounts: Vec<Value> = [
        ("USA", "USD", 1.0),
        ("EURO", "EUR", 0.8765),
        ("BRA", "BRL", 5.55),
        ("JPN", "JPY", 150.0),
        ("GBR", "GBP", 0.78),
        ("IND", "USD", 1.08),
    ]
    .iter()
    .map(|(country, currency, rate)| {
        json!({ "country": country, "currency": currency, "prices": tiers(unit, round(price * rate)) })
    })
    .collect();
    if rng.bool() {
        rng.shuffle(&mut amounts);
    }
    let tier_model = match (unit, rng.bool()) {
        ("REDHAT_VCPU_HOURS", _) => "Simple Tier",
        (_, true) => "Linear Tier",
        (_, false) => "linear_tier",
    };
    json!({
        "part_ref": "", "metric_id": id, "tier_model": tier_model, "resource_display_name": unit,
        "charge_unit_display_name": unit, "charge_unit_name": unit, "charge_unit": "Instance-Hour",
        "charge_unit_quantity": 1, "amounts": amounts, "usage_cap_qty": 0, "display_cap": 0,
        "effective_from": "2026-08-01T00:00:00Z", "effective_until": "9999-12-31T00:00:00Z",
        "additional_properties": { "included_quantities": { "account": 0, "instance": 0 } },
    })
}

/// One tier, except where a license is cheaper by the dozen; `quantity_tier` is the upper bound.
fn tiers(unit: &str, price: f64) -> Value {
    if unit == "REDHAT_VCPU_HOURS" {
        return json!([
            { "quantity_tier": 8, "price": price },
            { "quantity_tier": 127, "price": round(price * 0.8) },
            { "quantity_tier": 10_000, "price": round(price * 0.5) },
        ]);
    }
    json!([{ "quantity_tier": 1, "price": price }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Price;

    fn usd(metrics: &[(String, String, f64)], unit: &str) -> Option<f64> {
        metrics
            .iter()
            .find(|(_, own, _)| own == unit)
            .map(|(_, _, price)| *price)
    }

    #[test]
    fn the_parts_of_a_second_generation_profile_add_up_to_its_price() {
        let second = builtin::profiles()
            .iter()
            .filter(|profile| catalog::is_gen2(profile));
        for (profile, region) in
            second.flat_map(|profile| builtin::REGIONS.iter().map(move |region| (profile, region)))
        {
            let parts = parts(profile, region.price_factor);
            let sum = parts
                .iter()
                .filter(|(_, unit, _)| unit != "INSTANCE_MULTI_TENANT_SPOT")
                .filter_map(|(_, _, price)| Price::from_usd(*price))
                .reduce(Price::plus);
            assert_eq!(
                sum,
                profile.on_demand.times(region.price_factor),
                "{} {}",
                profile.name,
                region.name
            );
        }
    }

    #[test]
    fn the_measured_composite_is_reproduced() {
        let parts = parts(builtin::find_profile("bx2-4x16").unwrap(), 1.0);
        assert_eq!(
            (usd(&parts, "VCPU_HOURS"), usd(&parts, "MEMORY_HOURS")),
            (Some(0.111), Some(0.09))
        );
    }

    #[test]
    fn spot_is_priced_for_spot_profiles_only() {
        let flex = whole(builtin::find_profile("bxf-4x16").unwrap(), 1.0);
        assert_eq!(usd(&flex, "INSTANCE_HOURS_MULTI_TENANT"), Some(0.193));
        assert_eq!(usd(&flex, "INSTANCE_MULTI_TENANT_SPOT"), Some(0.04825));
        let standard = whole(builtin::find_profile("bx3d-2x10").unwrap(), 1.0);
        assert_eq!(usd(&standard, "INSTANCE_MULTI_TENANT_SPOT"), None);
    }

    #[test]
    fn the_worse_certainty_wins() {
        let profile = builtin::find_profile("cxf-2x4").unwrap();
        assert_eq!(certainty(profile, "us-south"), Certainty::Measured);
        assert_eq!(certainty(profile, "ca-tor"), Certainty::Low);
    }
}
