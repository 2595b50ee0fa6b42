use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ibm::prices::body::Meter;

fn profile(name: &str, meters: &[(&str, f64)]) -> Profile {
    let meters = meters.iter().map(|(unit, quantity)| Meter {
        unit: (*unit).to_owned(),
        quantity: *quantity,
    });
    Profile {
        name: name.to_owned(),
        plan: "plan".to_owned(),
        meters: meters.collect(),
    }
}

fn usd_amount(price: impl Into<Value>) -> Value {
    json!({"country": "USA", "currency": "USD", "prices": [{"quantity_tier": 1, "price": price.into()}]})
}

fn metric(unit: &str, id: &str, price: impl Into<Value>) -> Value {
    metric_of(unit, id, &[usd_amount(price)])
}

fn metric_of(unit: &str, id: &str, amounts: &[Value]) -> Value {
    json!({
        "part_ref": "", "metric_id": id, "charge_unit_name": unit, "charge_unit": "Instance-Hour",
        "charge_unit_quantity": 1, "tier_model": "Linear Tier", "amounts": amounts,
    })
}

fn pricing(region: &str, metrics: &[Value]) -> Pricing {
    Pricing::from(json!({"deployment_location": region, "deployment_region": region, "metrics": metrics}))
}

fn price(dollars: f64) -> Option<Price> {
    let price = Price::from_usd(dollars);
    assert!(price.is_some(), "{dollars} is no price");
    price
}

fn flex(metrics: &[Value]) -> Published {
    select(
        &pricing("br-sao", metrics),
        &profile("bxf-4x16", &[]),
        "br-sao",
        Form::Whole,
    )
}

fn on_demand(price: impl Into<Value>) -> Value {
    metric(
        "INSTANCE_HOURS_MULTI_TENANT",
        "part-is.instance-hours-bxf-4x16",
        price,
    )
}

fn spot(price: impl Into<Value>) -> Value {
    metric("INSTANCE_MULTI_TENANT_SPOT", "part-is.spot-bxf-4x16", price)
}

/// The metrics that surround the two we want.
fn noise() -> Vec<Value> {
    vec![
        metric(
            "INSTANCE_HOURS_DEDICATED_HOST",
            "part-is.instance-hours-dh-bxf-4x16",
            0,
        ),
        metric(
            "INSTANCE_HOURS_RESERVATION",
            "part-is.instance-hours-reservation",
            0,
        ),
        metric(
            "INSTANCE_MULTI_TENANT_50_PERCENT",
            "part-is.burstable50-bxf-4x16",
            0.18092,
        ),
        metric("WINDOWS_VCPU_HOURS", "part-is.windowsOS", 0.046),
        metric("MSSQL_CORE_HOURS", "part-is.mssql", 0.017),
        metric("REDHAT_VCPU_HOURS", "part-is.redhatOS", 0.015),
        metric("SUSE_VCPU_HOURS", "part-is.suseOS-byol", 0),
        json!({"metric_id": "part-is.suseOS"}),
        Value::Null,
    ]
}

#[test]
fn a_flex_profile_has_an_on_demand_and_a_spot_price() {
    let found = flex(&[noise(), vec![on_demand(0.266), spot(0.06647)]].concat());
    assert_eq!(
        found,
        Published {
            on_demand: price(0.266),
            spot: price(0.06647)
        }
    );
}

#[test]
fn a_profile_without_a_spot_metric_has_no_spot_price() {
    assert_eq!(
        flex(&[on_demand(0.266)]),
        Published {
            on_demand: price(0.266),
            spot: None
        }
    );
}

#[test]
fn null_metrics_are_unknown_and_not_free() {
    let body = Pricing::from(json!({"deployment_region": "br-sao", "metrics": null}));
    assert_eq!(
        select(&body, &profile("bxf-4x16", &[]), "br-sao", Form::Whole),
        Published::default()
    );
}

#[test]
fn an_answer_of_the_plan_itself_says_nothing() {
    let body = Pricing::from(json!({"metrics": [on_demand(0.266), spot(0.06647)]}));
    assert_eq!(
        select(&body, &profile("bxf-4x16", &[]), "br-sao", Form::Whole),
        Published::default()
    );
}

#[test]
fn an_answer_for_another_region_says_nothing() {
    let body = pricing("eu-de", &[on_demand(0.266)]);
    assert_eq!(
        select(&body, &profile("bxf-4x16", &[]), "br-sao", Form::Whole),
        Published::default()
    );
}

#[test]
fn a_deployment_declared_without_price_has_none() {
    let body = Pricing::from(json!({
        "deployment_region": "br-sao", "deployment_location_no_price_available": true,
        "metrics": [on_demand(0.266)],
    }));
    assert_eq!(
        select(&body, &profile("bxf-4x16", &[]), "br-sao", Form::Whole),
        Published::default()
    );
}

#[test]
fn the_metric_of_another_profile_is_not_ours() {
    let other = metric(
        "INSTANCE_HOURS_MULTI_TENANT",
        "part-is.instance-hours-bxf-8x32",
        0.532,
    );
    assert_eq!(flex(std::slice::from_ref(&other)).on_demand, None);
    assert_eq!(flex(&[other, on_demand(0.266)]).on_demand, price(0.266));
}

#[test]
fn an_id_in_an_unknown_form_will_do_when_it_is_the_only_one() {
    let renamed = |price: f64| metric("INSTANCE_HOURS_MULTI_TENANT", "is.vsi.hours", price);
    assert_eq!(flex(&[renamed(0.266)]).on_demand, price(0.266));
    assert_eq!(flex(&[renamed(0.3), on_demand(0.266)]).on_demand, price(0.266));
    assert_eq!(flex(&[renamed(0.3), renamed(0.266)]).on_demand, None);
}

#[test]
fn two_metrics_that_contradict_each_other_are_unknown() {
    assert_eq!(flex(&[on_demand(0.266), on_demand(0.267)]).on_demand, None);
    assert_eq!(
        flex(&[on_demand(0.266), on_demand(0.266)]).on_demand,
        price(0.266)
    );
    assert_eq!(flex(&[on_demand(0.266), on_demand(0)]).on_demand, None);
}

#[test]
fn dollars_of_other_countries_are_not_american_ones() {
    let foreign =
        json!({"country": "ARG", "currency": "USD", "prices": [{"quantity_tier": 1, "price": 0.5}]});
    let unit = "INSTANCE_HOURS_MULTI_TENANT";
    assert_eq!(
        flex(&[metric_of(unit, "", std::slice::from_ref(&foreign))]).on_demand,
        None
    );
    assert_eq!(
        flex(&[metric_of(unit, "", &[foreign, usd_amount(0.266)])]).on_demand,
        price(0.266)
    );
}

#[test]
fn a_price_for_another_unit_of_time_or_number_is_not_read() {
    for (field, value) in [
        ("charge_unit", json!("Instance-Month")),
        ("charge_unit_quantity", json!(1000)),
    ] {
        let mut odd = on_demand(0.266);
        odd[field] = value;
        assert_eq!(flex(&[odd]).on_demand, None, "{field}");
    }
}

fn tiered(model: &str, tiers: &[(f64, f64)]) -> Option<Price> {
    let tiers: Vec<Value> = tiers
        .iter()
        .map(|(q, p)| json!({"quantity_tier": q, "price": p}))
        .collect();
    let mut metric = on_demand(0);
    metric["tier_model"] = json!(model);
    metric["amounts"] = json!([{"country": "USA", "currency": "USD", "prices": tiers}]);
    flex(&[metric]).on_demand
}

#[test]
fn one_machine_is_in_the_tier_with_the_least_upper_bound() {
    for model in ["Linear Tier", "linear_tier", "LINEAR-TIER"] {
        assert_eq!(
            tiered(model, &[(10_000.0, 0.1), (8.0, 0.3), (127.0, 0.2)]),
            price(0.3),
            "{model}"
        );
    }
    assert_eq!(tiered("Simple Tier", &[(1.0, 0.3)]), price(0.3));
}

#[test]
fn a_first_tier_that_is_free_and_a_price_by_the_block_are_unknown() {
    assert_eq!(tiered("Linear Tier", &[(8.0, 0.0), (127.0, 0.2)]), None);
    assert_eq!(tiered("Block Tier", &[(8.0, 0.3)]), None);
    assert_eq!(tiered("Simple Tier", &[(8.0, 0.3), (127.0, 0.2)]), None);
    assert_eq!(tiered("Linear Tier", &[]), None);
}

fn gen2(name: &str, meters: &[(&str, f64)], metrics: &[Value]) -> Option<Price> {
    select(
        &pricing("us-south", metrics),
        &profile(name, meters),
        "us-south",
        Form::Composite,
    )
    .on_demand
}

const BX2: &[(&str, f64)] = &[("VCPU", 4.0), ("MEMORY", 16.0), ("INSTANCE", 1.0)];
const BX2D: &[(&str, f64)] = &[("VCPU", 4.0), ("MEMORY", 16.0), ("IS_STORAGE", 150.0)];

fn parts(vcpu: f64, memory: f64) -> Vec<Value> {
    vec![
        metric("VCPU_HOURS", "part-is.vcpu", vcpu),
        metric("MEMORY_HOURS", "part-is.memory", memory),
    ]
}

#[test]
fn a_gen2_profile_costs_the_sum_of_its_parts() {
    assert_eq!(gen2("bx2-4x16", BX2, &parts(0.111, 0.090)), price(0.201));
    assert_eq!(
        gen2("bx2-4x16", BX2, &[noise(), parts(0.111, 0.090)].concat()),
        price(0.201)
    );
    let with_disk = [
        parts(0.111, 0.090),
        vec![metric("IS_STORAGE_GIGABYTE_HOURS", "", 0.012)],
    ]
    .concat();
    assert_eq!(gen2("bx2d-4x16", BX2D, &with_disk), price(0.213));
    let with_card = [parts(0.222, 0.36), vec![metric("V100_HOURS", "", 1.9)]].concat();
    let meters = &[("VCPU", 8.0), ("MEMORY", 64.0), ("GPU", 1.0)];
    assert_eq!(gen2("gx2-8x64x1v100", meters, &with_card), price(2.482));
}

#[test]
fn a_sum_with_a_part_missing_is_unknown_and_not_cheap() {
    assert_eq!(gen2("bx2-4x16", BX2, &parts(0.111, 0.0)), None);
    assert_eq!(gen2("bx2-4x16", BX2, &parts(0.111, 0.090)[..1]), None);
    assert_eq!(gen2("bx2d-4x16", BX2D, &parts(0.111, 0.090)), None);
    assert_eq!(
        gen2("bx2d-4x16", &[("IS_STORAGE", f64::NAN)], &parts(0.111, 0.090)),
        None
    );
}

#[test]
fn a_part_that_the_profile_has_not_must_cost_nothing() {
    let storage = |price: f64| metric("IS_STORAGE_GIGABYTE_HOURS", "", price);
    assert_eq!(
        gen2(
            "bx2-4x16",
            BX2,
            &[parts(0.111, 0.09), vec![storage(0.0)]].concat()
        ),
        price(0.201)
    );
    assert_eq!(
        gen2(
            "bx2-4x16",
            BX2,
            &[parts(0.111, 0.09), vec![storage(0.1)]].concat()
        ),
        None
    );
}

#[test]
fn parts_count_only_in_a_composite_deployment() {
    assert_eq!(flex(&parts(1.75, 0.35)).on_demand, None);
}

#[test]
fn deployments_of_one_profile_must_agree() {
    let said = |dollars: f64| Published {
        on_demand: price(dollars),
        spot: None,
    };
    assert_eq!(agree(&[said(0.201), said(0.201)]), said(0.201));
    assert_eq!(agree(&[said(0.201), Published::default()]), said(0.201));
    assert_eq!(agree(&[said(0.201), said(0.232)]), Published::default());
    assert_eq!(agree(&[]), Published::default());
}

/// Anything but a positive number of dollars, as JSON can carry it.
fn not_a_price() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(0)),
        Just(json!(0.0)),
        Just(json!(-0.0)),
        Just(json!("NaN")),
        Just(json!("inf")),
        Just(json!("free")),
        Just(Value::Null),
        Just(json!({})),
        (-1e9..-1e-9).prop_map(|price| json!(price)),
        (1.1e6..1e12).prop_map(|price| json!(price)),
    ]
}

/// A wanted amount among those of other countries, in any order.
fn among_currencies(price: Value) -> impl Strategy<Value = Vec<Value>> {
    let other = (prop::sample::select(vec![("EURO", "EUR"), ("BRA", "BRL"), ("ARG", "USD"), ("CAN", "CAD")]), 0.0..9.0)
        .prop_map(|((country, currency), price)| {
            json!({"country": country, "currency": currency, "prices": [{"quantity_tier": 1, "price": price}]})
        });
    prop::collection::vec(other, 0..4).prop_flat_map(move |mut amounts| {
        amounts.push(usd_amount(price.clone()));
        Just(amounts).prop_shuffle()
    })
}

/// The metrics of a flex profile with these two prices, among all the others, in any order.
fn shuffled(on_demand: Value, spot: Option<Value>) -> impl Strategy<Value = Vec<Value>> {
    let spot = match spot {
        Some(price) => among_currencies(price).prop_map(Some).boxed(),
        None => Just(None).boxed(),
    };
    (among_currencies(on_demand), spot).prop_flat_map(|(on_demand, spot)| {
        let unit = "INSTANCE_HOURS_MULTI_TENANT";
        let mut metrics = noise();
        metrics.push(metric_of(unit, "part-is.instance-hours-bxf-4x16", &on_demand));
        metrics.extend(spot.map(|a| metric_of("INSTANCE_MULTI_TENANT_SPOT", "part-is.spot-bxf-4x16", &a)));
        Just(metrics).prop_shuffle()
    })
}

fn dollars() -> impl Strategy<Value = f64> {
    (1u64..1_000_000_000_000).prop_map(|nanos| Price::from_nanos(nanos).unwrap().usd())
}

proptest! {
    #[test]
    fn the_right_prices_are_found_in_any_order_and_among_any_currencies(
        (on_demand, spot, metrics) in (dollars(), prop::option::of(dollars())).prop_flat_map(|(on_demand, spot)| {
            (Just(on_demand), Just(spot), shuffled(json!(on_demand), spot.map(|price| json!(price))))
        }),
    ) {
        let expected = Published { on_demand: price(on_demand), spot: spot.and_then(price) };
        prop_assert_eq!(flex(&metrics), expected);
    }

    #[test]
    fn what_is_not_a_price_is_never_picked_nor_replaced_by_another_metric(
        (metrics, spot) in (not_a_price(), dollars()).prop_flat_map(|(bad, spot)| {
            (shuffled(bad, Some(json!(spot))), Just(spot))
        }),
    ) {
        prop_assert_eq!(flex(&metrics), Published { on_demand: None, spot: price(spot) });
    }

    #[test]
    fn a_part_that_is_not_a_price_spoils_the_sum(bad in not_a_price(), good in dollars()) {
        let metrics = [metric("VCPU_HOURS", "", good), metric("MEMORY_HOURS", "", bad)];
        prop_assert_eq!(gen2("bx2-4x16", BX2, &metrics), None);
    }
}
