//! What is sold no more, or to nobody any more, as its victim sees it.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::{Value, json};

use super::{Api, api};

async fn with(fault: Fault) -> Api {
    let api = api().await;
    api.cloud.faults().start(fault);
    api
}

async fn refused(api: &Api, prototype: Value) -> (StatusCode, String) {
    let said = api.post("/v1/instances", prototype).await;
    assert!(said.status.is_client_error(), "{}", said.body);
    assert!(api.cloud.instances().iter().all(|one| one.name != "b"));
    (said.status, said.code().to_owned())
}

fn struck(api: &Api) -> Vec<FaultKind> {
    let strikes = api.cloud.faults().take_strikes();
    strikes.into_iter().map(|strike| strike.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_is_withdrawn_is_neither_listed_nor_sold_and_its_instances_live_on() {
    let api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    api.cloud
        .faults()
        .start(Fault::new(FaultKind::ProfileWithdrawn).of("bxf-2x8"));
    let said = api.get("/v1/instance/profiles/bxf-2x8").await;
    assert_eq!(said.status, StatusCode::NOT_FOUND);
    let listed = api.get("/v1/instance/profiles?limit=100").await.body.to_string();
    assert!(!listed.contains(r#""name":"bxf-2x8""#) && listed.contains(r#""name":"bxf-4x16""#));
    assert_eq!(refused(&api, api.prototype("b")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(struck(&api), [FaultKind::ProfileWithdrawn; 3]);
    assert_eq!(api.wait_for(&id, "running").await["profile"]["name"], "bxf-2x8");
    api.cloud.faults().stop(FaultKind::ProfileWithdrawn);
    api.create(api.prototype("b")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sold_in_a_zone_that_is_withdrawn() {
    let api = with(Fault::new(FaultKind::ZoneWithdrawn).of("us-south-1")).await;
    let profile = api.get("/v1/instance/profiles/bxf-2x8").await.body;
    let zones: Vec<&Value> = profile["zones"].as_array().unwrap().iter().collect();
    assert!(zones.iter().all(|zone| zone["name"] != "us-south-1"));
    assert_eq!(zones.len(), 2);
    let zone = api.get("/v1/regions/us-south/zones/us-south-1").await.body;
    assert_eq!(zone["status"], "unavailable");
    assert_eq!(refused(&api, api.prototype("b")).await.1, "bad_field");
    assert_eq!(struck(&api), [FaultKind::ZoneWithdrawn; 2]);
}

#[tokio::test(start_paused = true)]
async fn an_image_is_deprecated_before_it_is_gone() {
    let api = with(Fault::new(FaultKind::ImageDeprecated)).await;
    let path = format!("/v1/images/{}", api.cloud.account().image);
    assert_eq!(api.get(&path).await.body["status"], "deprecated");
    let id = api.create_running(api.prototype("a")).await;
    api.cloud.faults().start(Fault::new(FaultKind::ImageDeleted));
    assert_eq!(api.get(&path).await.status, StatusCode::NOT_FOUND);
    let image = api.cloud.account().image;
    let listed = api.get("/v1/images").await.body;
    let listed = listed["images"].as_array().unwrap();
    assert!(!listed.is_empty() && listed.iter().all(|it| it["id"] != image.as_str()));
    assert_eq!(refused(&api, api.prototype("b")).await.0, StatusCode::NOT_FOUND);
    api.wait_for(&id, "running").await;
}

#[tokio::test(start_paused = true)]
async fn an_order_may_be_refused_for_quota_or_addresses_that_others_have_used_up() {
    let api = with(Fault::new(FaultKind::QuotaRefused)).await;
    for (prototype, what) in [(api.prototype("b"), "vCPUs"), (api.spot("b"), "spot instances")] {
        let said = api.post("/v1/instances", prototype).await;
        assert_eq!(
            (said.status, said.code()),
            (StatusCode::BAD_REQUEST, "over_quota")
        );
        assert!(said.body.to_string().contains(what), "{}", said.body);
    }
    let api = with(Fault::new(FaultKind::NoAddresses)).await;
    assert_eq!(
        refused(&api, api.prototype("b")).await.1,
        "subnet_out_of_ip_addresses"
    );
    assert_eq!(api.cloud.orphans(), [""; 0], "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn a_preempted_instance_may_vanish_whatever_was_asked_for() {
    let api = with(Fault::new(FaultKind::PreemptionDeletes)).await;
    let id = api.create_running(api.spot("a")).await;
    let policy = &api.get(&format!("/v1/instances/{id}")).await.body["availability_policy"];
    assert_eq!(
        *policy,
        json!({"host_failure": "restart", "preemption": "delete"})
    );
    let other = api.create_running(api.prototype("b")).await;
    for _ in 0..3700 / 50 {
        api.pass(50).await;
    }
    assert!(api.cloud.instance(&id).is_none());
    assert_eq!(api.cloud.instance(&other).unwrap().status, "running");
}
