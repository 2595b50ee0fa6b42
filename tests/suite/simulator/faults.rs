//! Each kind of fault, as its victim sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use karpenter_ibm::clock::later;
use karpenter_ibm::ibm::http::ExchangeError;
use karpenter_ibm::sim::ibm::{Fault, FaultKind, RetryAfter};
use serde_json::{Value, json};

use super::{Api, api};

async fn with(kind: FaultKind) -> Api {
    let api = api().await;
    api.cloud.faults().start(Fault::new(kind));
    api
}

#[tokio::test(start_paused = true)]
async fn a_late_create_happens_within_a_minute_though_nobody_waits() {
    let api = with(FaultKind::LateCreate).await;
    let call = api.try_call("POST", "/v1/instances", Some(api.prototype("a")));
    assert!(
        tokio::time::timeout(Duration::from_millis(500), call)
            .await
            .is_err()
    );
    assert!(api.cloud.instance("a").is_none());
    api.pass(60).await;
    assert!(api.cloud.instance("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_comes_with_every_kind_of_retry_after() {
    let api = api().await;
    for (form, expected) in [
        (RetryAfter::Absurd, Some("1000000000")),
        (RetryAfter::Missing, None),
    ] {
        api.cloud
            .faults()
            .start(Fault::new(FaultKind::RateLimit).times(1).retry_after(form));
        let said = api.get("/v1/instances").await;
        assert_eq!(
            (said.status, said.code()),
            (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
        );
        assert_eq!(
            said.headers
                .get("retry-after")
                .map(|value| value.to_str().unwrap()),
            expected
        );
    }
    api.cloud.faults().start(
        Fault::new(FaultKind::RateLimit)
            .times(1)
            .retry_after(RetryAfter::Date),
    );
    let said = api.get("/v1/instances").await;
    assert!(said.headers["retry-after"].to_str().unwrap().ends_with("GMT"));
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_server_error_does_nothing_or_everything() {
    let api = with(FaultKind::ServerError).await;
    assert!(
        api.post("/v1/instances", api.prototype("a"))
            .await
            .status
            .is_server_error()
    );
    assert!(api.cloud.instance("a").is_none());
    api.cloud.faults().clear();
    api.cloud.faults().start(Fault::new(FaultKind::ServerErrorAfter));
    assert!(
        api.post("/v1/instances", api.prototype("a"))
            .await
            .status
            .is_server_error()
    );
    assert!(api.cloud.instance("a").is_some());
    assert_eq!(
        api.get("/v1/instances").await.status,
        StatusCode::OK,
        "reads have no effect to lose"
    );
    let again = api.post("/v1/instances", api.prototype("a")).await;
    assert_eq!(
        again.code(),
        "validation_unique_failed",
        "a refusal stays what it is"
    );
}

#[tokio::test(start_paused = true)]
async fn answers_may_be_html_truncated_or_empty() {
    let api = with(FaultKind::HtmlError).await;
    let said = api.get("/v1/instances").await;
    assert_eq!(
        (said.status, said.headers["content-type"].to_str().unwrap()),
        (StatusCode::BAD_GATEWAY, "text/html")
    );
    for kind in [FaultKind::TruncatedJson, FaultKind::EmptyBody] {
        api.cloud.faults().clear();
        api.cloud.faults().start(Fault::new(kind));
        let said = api.get("/v1/instances").await;
        assert_eq!(said.status, StatusCode::OK);
        assert!(said.body.is_string(), "not JSON: {}", said.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_a_whole_one() {
    let api = with(FaultKind::Slow).await;
    let begun = api.clock.instant();
    assert_eq!(
        api.post("/v1/instances", api.prototype("a")).await.status,
        StatusCode::CREATED
    );
    assert!(api.clock.instant() - begun > Duration::from_mins(2));
}

#[tokio::test(start_paused = true)]
async fn reads_lag_behind_births_and_lists_behind_deaths() {
    let api = with(FaultKind::ReadLag).await;
    let id = api.create(api.prototype("a")).await;
    let path = format!("/v1/instances/{id}");
    let listed = async || api.get("/v1/instances?name=a").await.body["total_count"].clone();
    assert_eq!(
        (api.get(&path).await.status, listed().await),
        (StatusCode::NOT_FOUND, json!(0))
    );
    api.pass(10).await;
    assert_eq!(
        (api.get(&path).await.status, listed().await),
        (StatusCode::OK, json!(1))
    );
    api.delete(&path).await;
    api.wait_until_gone(&id).await;
    assert_eq!(listed().await, 1, "the list still shows it");
    api.pass(10).await;
    assert_eq!(listed().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_spurious_404_hides_what_lives() {
    let api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    api.cloud.faults().start(Fault::new(FaultKind::Spurious404));
    assert_eq!(api.get(&format!("/v1/instances/{id}")).await.code(), "not_found");
    assert_eq!(
        api.delete(&format!("/v1/instances/{id}")).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(api.cloud.instance("a").unwrap().status, "running");
}

async fn page_through(api: &Api) -> Result<Vec<String>, (StatusCode, String)> {
    let (mut names, mut start) = (Vec::new(), String::new());
    loop {
        let said = api.get(&format!("/v1/instances?limit=2{start}")).await;
        if said.status != StatusCode::OK {
            return Err((said.status, said.code().to_owned()));
        }
        names.extend(
            said.body["instances"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = said.body["next"]["href"].as_str() else {
            return Ok(names);
        };
        start = format!("&start={}", next.split("start=").nth(1).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn pages_fail_expire_miss_repeat_and_shrink_only_when_asked() {
    let api = api().await;
    for name in ["a", "b", "c", "d", "e"] {
        api.create(api.prototype(name)).await;
    }
    assert_eq!(page_through(&api).await.unwrap(), ["a", "b", "c", "d", "e"]);
    let under = async |kind| {
        api.cloud.faults().clear();
        api.cloud.faults().start(Fault::new(kind));
        page_through(&api).await
    };
    assert_eq!(
        under(FaultKind::PageTokenExpired).await,
        Err((StatusCode::BAD_REQUEST, "bad_field".into()))
    );
    assert_eq!(
        under(FaultKind::PageFails).await,
        Err((StatusCode::INTERNAL_SERVER_ERROR, "internal_error".into()))
    );
    assert_eq!(under(FaultKind::PageMisses).await.unwrap(), ["a", "b", "d", "e"]);
    assert_eq!(
        under(FaultKind::PageRepeats).await.unwrap(),
        ["a", "b", "b", "c", "d", "d", "e"]
    );
    assert_eq!(
        under(FaultKind::SmallPages).await.unwrap(),
        ["a", "b", "c", "d", "e"]
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_expire_and_rights_are_lost_per_operation() {
    let api = with(FaultKind::TokenExpired).await;
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::UNAUTHORIZED);
    api.cloud.faults().clear();
    api.cloud
        .faults()
        .start(Fault::new(FaultKind::Forbidden).on("instances.create"));
    let said = api.post("/v1/instances", api.prototype("a")).await;
    assert_eq!(
        (said.status, said.code()),
        (StatusCode::FORBIDDEN, "not_authorized")
    );
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn iam_may_be_down_and_keys_may_be_rotated() {
    let mut api = with(FaultKind::IamDown).await;
    let said = api
        .token("grant_type=urn:ibm:params:oauth:grant-type:apikey&apikey=demo-api-key")
        .await;
    assert!(said.status.is_server_error() || said.status == StatusCode::TOO_MANY_REQUESTS);
    assert!(said.body["errorCode"].is_string());
    assert_eq!(
        api.get("/v1/instances").await.status,
        StatusCode::OK,
        "the token that is out still works"
    );
    api.cloud.faults().clear();
    api.cloud.set_api_keys(&["rotated"]);
    api.cloud.revoke_tokens();
    assert_eq!(api.get("/v1/instances").await.status, StatusCode::UNAUTHORIZED);
    api.log_in().await;
    assert_eq!(api.token, "");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_stuck_as_long_as_the_fault_lasts() {
    let mut api = api().await;
    let id = api.create_running(api.prototype("a")).await;
    let end = later(api.clock.now(), Duration::from_hours(2));
    api.cloud
        .faults()
        .start(Fault::new(FaultKind::DeleteStuck).until(end));
    api.delete(&format!("/v1/instances/{id}")).await;
    api.pass(7000).await;
    assert_eq!(api.cloud.instance("a").unwrap().status, "deleting");
    api.pass(300).await;
    api.log_in().await;
    assert!(api.cloud.instance("a").is_none());
}

#[tokio::test(start_paused = true)]
async fn deleting_what_is_under_way_may_be_a_conflict() {
    let api = with(FaultKind::DeleteConflict).await;
    let id = api.create(api.prototype("a")).await;
    let path = format!("/v1/instances/{id}");
    assert_eq!(api.delete(&path).await.code(), "instance_delete_conflict");
    api.wait_for(&id, "running").await;
    assert_eq!(api.delete(&path).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(start_paused = true)]
async fn a_right_answer_may_be_mislabeled() {
    let api = with(FaultKind::WrongContentType).await;
    let mut types = BTreeSet::new();
    for _ in 0..30 {
        let said = api.get("/v1/instances").await;
        assert_eq!(said.status, StatusCode::OK);
        assert!(said.body["instances"].is_array(), "{}", said.body);
        let content_type = said.headers.get("content-type");
        types.insert(content_type.map(|it| it.to_str().unwrap().to_owned()));
    }
    assert_eq!(types.len(), 3);
    assert!(types.iter().flatten().all(|it| !it.contains("json")), "{types:?}");
}

#[tokio::test(start_paused = true)]
async fn deleting_may_fail_for_an_hour_and_nothing_else_does() {
    let mut api = api().await;
    let id = api.create(api.prototype("a")).await;
    let end = later(api.clock.now(), Duration::from_hours(1));
    api.cloud
        .faults()
        .start(Fault::new(FaultKind::DeleteFails).until(end));
    let path = format!("/v1/instances/{id}");
    for _ in 0..10 {
        assert!(api.delete(&path).await.status.is_server_error());
        assert_eq!(api.get(&path).await.status, StatusCode::OK);
        api.pass(300).await;
    }
    api.pass(700).await;
    api.log_in().await;
    assert_eq!(api.delete(&path).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(start_paused = true)]
async fn an_instance_may_come_up_as_something_else() {
    let mut seen = BTreeSet::new();
    for seed in 0..8 {
        let api = Api::to(super::options(seed)).await;
        api.cloud.faults().start(Fault::new(FaultKind::WrongProfile));
        api.create(api.prototype("a")).await;
        let made = api.cloud.instance("a").unwrap();
        seen.insert((made.profile != "bxf-2x8", made.zone != "us-south-1"));
    }
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true)]));
}

#[tokio::test(start_paused = true)]
async fn a_create_may_leave_half_of_itself_behind() {
    let api = with(FaultKind::PartialCreate).await;
    assert!(
        api.post("/v1/instances", api.prototype("a"))
            .await
            .status
            .is_server_error()
    );
    assert!(api.cloud.instances().is_empty());
    assert_eq!(api.cloud.orphans().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn auto_delete_may_be_forgotten() {
    let api = with(FaultKind::AutoDeleteIgnored).await;
    let id = api.create_running(api.prototype("a")).await;
    api.delete(&format!("/v1/instances/{id}")).await;
    api.wait_until_gone(&id).await;
    assert_eq!(api.cloud.orphans().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn capacity_may_be_refused_at_once() {
    let api = with(FaultKind::CapacityRefused).await;
    let said = api.post("/v1/instances", api.prototype("a")).await;
    assert_eq!(
        (said.status, api.cloud.instances().len()),
        (StatusCode::BAD_REQUEST, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn starts_fail_for_any_reason_or_a_given_one() {
    let api = api().await;
    api.cloud.faults().start(
        Fault::new(FaultKind::StartFails)
            .reason("cannot_start_network")
            .times(1),
    );
    api.create(api.prototype("a")).await;
    api.pass(20).await;
    assert_eq!(
        api.cloud.instance("a").unwrap().reason.as_deref(),
        Some("cannot_start_network")
    );
    api.cloud.faults().start(Fault::new(FaultKind::StartFails));
    for number in 0..20 {
        api.create(api.prototype(&format!("i{number}"))).await;
    }
    api.pass(20).await;
    let reasons: BTreeSet<String> = api
        .cloud
        .instances()
        .into_iter()
        .filter_map(|one| one.reason)
        .collect();
    assert!(reasons.len() > 4, "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn preemptions_and_host_failures_come_by_chance_within_the_hour() {
    let mut api = with(FaultKind::Preemption).await;
    api.create_running(api.spot("a")).await;
    api.create_running(api.prototype("b")).await;
    api.pass(3600 + 31).await;
    api.log_in().await;
    assert_eq!(
        api.cloud.instance("a").unwrap().reason.as_deref(),
        Some("stopped_by_preemption")
    );
    assert_eq!(api.cloud.instance("b").unwrap().status, "running");
    api.cloud.faults().clear();
    api.cloud.faults().start(Fault::new(FaultKind::HostFailure));
    let mut stops = api.prototype("c");
    stops["availability_policy"] = json!({ "host_failure": "stop" });
    api.create_running(stops).await;
    api.pass(3600).await;
    assert_eq!(
        api.cloud.instance("c").unwrap().reason.as_deref(),
        Some("stopped_by_host_failure")
    );
}

#[tokio::test(start_paused = true)]
async fn objects_may_hold_more_than_anybody_knows() {
    fn every_object_is_extended(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().all(every_object_is_extended),
            Value::Object(map) => {
                map.contains_key("zz_added_later")
                    && map
                        .iter()
                        .filter(|(key, _)| *key != "zz_added_later" && *key != "vcpu_burst_limit")
                        .all(|(_, v)| every_object_is_extended(v))
            }
            _ => true,
        }
    }
    let api = with(FaultKind::ExtraFields).await;
    api.create(api.prototype("a")).await;
    let body = api.get("/v1/instances").await.body;
    assert!(every_object_is_extended(&body));
    assert_eq!(body["instances"][0]["health_state"], "recuperating");
    let mut statuses = BTreeSet::new();
    for _ in 0..20 {
        let body = api.get("/v1/instances").await.body;
        statuses.insert(body["instances"][0]["status"].to_string());
    }
    assert!(statuses.contains("\"hibernating\""), "{statuses:?}");
    assert!(statuses.len() > 1, "some words are those of today: {statuses:?}");
    assert!(every_object_is_extended(
        &api.get("/v1/instance/profiles").await.body
    ));
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_is_off_does_nothing() {
    let api = api().await;
    for &kind in FaultKind::ALL {
        api.cloud.faults().start(Fault::new(kind));
        api.cloud.faults().stop(kind);
    }
    assert!(api.cloud.faults().active().is_empty());
    let lost: Result<_, ExchangeError> = api
        .try_call("POST", "/v1/instances", Some(api.prototype("a")))
        .await;
    assert_eq!(lost.unwrap().status, StatusCode::CREATED);
}
