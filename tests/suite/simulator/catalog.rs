//! Prices as the catalogue hides them.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::Value;

use super::{Api, api};

async fn plan(api: &Api, profile: &str) -> String {
    let entry = api.get(&format!("/api/v1/{profile}?include=%2A")).await.body;
    let deployments = entry["metadata"]["other"]["profile"]["measures"][0]["deployments"]
        .as_array()
        .unwrap()
        .clone();
    let shared = deployments
        .iter()
        .find(|one| one["type"] == "multi-tenant")
        .unwrap();
    shared["plan"].as_str().unwrap().to_owned()
}

async fn deployments(api: &Api, plan: &str, region: &str) -> Vec<Value> {
    let path = format!("/api/v1/{plan}/deployment?q={region}&include=%2A&_limit=200");
    api.get(&path).await.body["resources"].as_array().unwrap().clone()
}

async fn pricing(api: &Api, profile: &str, region: &str) -> Value {
    let found = deployments(api, &plan(api, profile).await, region).await;
    let id = found.last().unwrap()["id"].as_str().unwrap().replace(':', "%3A");
    api.get(&format!("/api/v1/{id}/pricing")).await.body
}

fn dollars(pricing: &Value, unit: &str) -> Option<f64> {
    let metric = pricing["metrics"]
        .as_array()?
        .iter()
        .find(|metric| metric["charge_unit_name"] == unit)?;
    let amounts = metric["amounts"].as_array()?;
    let usa = amounts
        .iter()
        .find(|amount| amount["country"] == "USA" && amount["currency"] == "USD")?;
    usa["prices"][0]["price"].as_f64()
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_is_public_and_lists_profiles_by_kind() {
    let mut api = api().await;
    api.token = String::new();
    let page = api
        .get("/api/v1/?q=kind:instance.profile&include=metadata.other&_offset=200&_limit=200")
        .await
        .body;
    assert_eq!(
        (&page["offset"], &page["count"], &page["resource_count"]),
        (&200.into(), &208.into(), &8.into())
    );
    assert_eq!(page.get("next"), None);
    assert_eq!(page["resources"][0]["kind"], "instance.profile");
    let wrong = api.get("/api/v1/?q=kind:vpc-instance-profile").await.body;
    assert_eq!(wrong["count"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_flex_profile_has_an_hourly_and_a_spot_price() {
    let api = api().await;
    let body = pricing(&api, "bxf-4x16", "us-south").await;
    assert_eq!(dollars(&body, "INSTANCE_HOURS_MULTI_TENANT"), Some(0.193));
    assert_eq!(dollars(&body, "INSTANCE_MULTI_TENANT_SPOT"), Some(0.04825));
    assert_eq!(body["simulator_price_certainty"], "captured");
    let sydney = pricing(&api, "bxf-4x16", "au-syd").await;
    assert_eq!(dollars(&sydney, "INSTANCE_HOURS_MULTI_TENANT"), Some(0.23546));
}

#[tokio::test(start_paused = true)]
async fn a_second_generation_profile_is_priced_by_its_composite() {
    let api = api().await;
    let found = deployments(&api, &plan(&api, "bx2-4x16").await, "us-south").await;
    let composite = found
        .iter()
        .find(|one| one["name"] == "bx2-4x16-us-south")
        .unwrap();
    assert_eq!(composite["tags"][0], "is.composite");
    assert_eq!(
        found
            .iter()
            .filter(|one| one["name"] == "bx2-2x8-us-south")
            .count(),
        2,
        "some come twice"
    );
    let id = composite["id"].as_str().unwrap();
    let body = api.get(&format!("/api/v1/{id}/pricing")).await.body;
    assert_eq!(
        (dollars(&body, "VCPU_HOURS"), dollars(&body, "MEMORY_HOURS")),
        (Some(0.111), Some(0.09))
    );
    assert_eq!(dollars(&body, "INSTANCE_HOURS_MULTI_TENANT"), None);
    let first = body["metrics"][0]["charge_unit_name"].as_str().unwrap();
    assert!(
        !["VCPU_HOURS", "MEMORY_HOURS"].contains(&first),
        "surcharges come first: {first}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_traps_of_the_real_catalogue_are_there() {
    let api = api().await;
    let plan = plan(&api, "bxf-4x16").await;
    let zero = api.get(&format!("/api/v1/{plan}/pricing")).await.body;
    assert_eq!(dollars(&zero, "INSTANCE_HOURS_MULTI_TENANT"), Some(0.0));
    assert_eq!(
        api.get("/api/v1/bxf-4x16/pricing").await.body["metrics"],
        Value::Null
    );
    assert_eq!(
        api.get("/api/v1/bxf-4x16/deployment").await.status,
        StatusCode::NOT_FOUND
    );
    assert!(
        deployments(&api, &self::plan(&api, "bx4-4x16").await, "eu-de")
            .await
            .is_empty()
    );
    let missing = self::plan(&api, "gx3d-24x120x1a100p").await;
    let all = api
        .get(&format!("/api/v1/{missing}/pricing/deployment"))
        .await
        .body;
    let here = all["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["deployment_region"] == "us-south")
        .unwrap();
    assert_eq!(here["deployment_location_no_price_available"], true);

    let (mut orders, mut euro_first, mut models) = (Vec::new(), 0, Vec::new());
    for profile in [
        "bxf-2x8", "bxf-4x16", "bxf-8x32", "cxf-2x4", "cxf-4x8", "mxf-2x16",
    ] {
        let body = pricing(&api, profile, "us-south").await;
        let units = body["metrics"].as_array().unwrap();
        orders.push(
            units
                .iter()
                .position(|one| one["charge_unit_name"] == "INSTANCE_HOURS_MULTI_TENANT")
                .unwrap(),
        );
        euro_first += units
            .iter()
            .filter(|one| one["amounts"][0]["currency"] != "USD")
            .count();
        models.extend(
            units
                .iter()
                .map(|one| one["tier_model"].as_str().unwrap().to_owned()),
        );
    }
    orders.dedup();
    assert!(orders.len() > 1 && euro_first > 0);
    assert!(models.contains(&"linear_tier".into()) && models.contains(&"Linear Tier".into()));
}

#[tokio::test(start_paused = true)]
async fn prices_vanish_or_lie_on_command() {
    let api = api().await;
    let on_demand = async || {
        let body = pricing(&api, "bxf-2x8", "us-south").await;
        dollars(&body, "INSTANCE_HOURS_MULTI_TENANT")
    };
    for (kind, price) in [
        (FaultKind::PriceMissing, None),
        (FaultKind::PriceZero, Some(0.0)),
        (FaultKind::PriceNegative, Some(-1.0)),
    ] {
        api.cloud.faults().start(Fault::new(kind));
        assert_eq!(on_demand().await, price);
        api.cloud.faults().clear();
    }
    api.cloud.faults().start(Fault::new(FaultKind::PriceNotANumber));
    let body = pricing(&api, "bxf-2x8", "us-south").await;
    assert_eq!(dollars(&body, "INSTANCE_HOURS_MULTI_TENANT"), None);
    assert!(body["metrics"].is_array(), "{body}");
    api.cloud.faults().clear();
    assert_eq!(on_demand().await, Some(0.096));
    api.cloud.remove_price("bxf-2x8").unwrap();
    assert_eq!(on_demand().await, None);
    api.cloud.remove_profile("bxf-2x8").unwrap();
    assert_eq!(
        api.get("/v1/instance/profiles/bxf-2x8").await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(api.get("/api/v1/bxf-2x8").await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        api.post("/v1/instances", api.prototype("a")).await.status,
        StatusCode::NOT_FOUND
    );
}
