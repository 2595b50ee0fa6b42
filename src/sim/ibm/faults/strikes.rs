//! A strike is told where something came of it, and nowhere else.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::{Fault, FaultKind};
use crate::ibm::http::Exchange;
use crate::sim::invariants::stage::Stage;

async fn with(kind: FaultKind) -> Stage {
    let stage = Stage::new().await;
    stage.cloud.faults().start(Fault::new(kind));
    stage
}

fn struck(stage: &Stage) -> Vec<FaultKind> {
    let strikes = stage.cloud.faults().take_strikes();
    strikes.into_iter().map(|strike| strike.kind).collect()
}

const NOTHING: [FaultKind; 0] = [];

/// The status of what a person with a token of their own asks for.
async fn status(stage: &Stage, method: Method, path: &str, body: &str) -> u16 {
    let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=demo-api-key";
    let request = http::Request::post("https://iam/identity/token");
    let request = request.body(Bytes::from_static(form.as_bytes())).unwrap();
    let answer = stage.cloud.exchange().exchange(request).await.unwrap();
    let token: Value = serde_json::from_slice(answer.body()).unwrap();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("https://vpc{path}?version=2026-06-30&generation=2"))
        .header("content-type", "application/json")
        .header(
            "authorization",
            format!("Bearer {}", token["access_token"].as_str().unwrap()),
        )
        .body(Bytes::from(body.to_owned()))
        .unwrap();
    let answer = stage.cloud.exchange().exchange(request).await.unwrap();
    answer.status().as_u16()
}

/// A spot machine that began to run less than a second ago.
async fn just_running(stage: &mut Stage) -> String {
    let id = stage.spot_machine("a").await;
    while stage.cloud.instance(&id).unwrap().status != "running" {
        stage.pass(1).await;
    }
    id
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_taken_back_or_loses_its_host_when_it_is_and_not_when_that_is_drawn() {
    for kind in [
        FaultKind::Preemption,
        FaultKind::PreemptionDeletes,
        FaultKind::HostFailure,
    ] {
        for given_back in [true, false] {
            let mut stage = with(kind).await;
            let id = just_running(&mut stage).await;
            assert_eq!(struck(&stage), NOTHING, "{kind:?}");
            stage.cloud.faults().clear();
            if given_back {
                stage.delete_machine(&id).await;
            }
            stage.pass(3_601).await;
            let expected = if given_back { vec![] } else { vec![kind] };
            assert_eq!(struck(&stage), expected, "{kind:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_a_conflict_only_where_it_would_have_been_none() {
    let mut stage = with(FaultKind::DeleteConflict).await;
    let id = stage.machine("a").await;
    let path = format!("/v1/instances/{id}");
    assert_eq!(status(&stage, Method::DELETE, &path, "").await, 409);
    assert_eq!(struck(&stage), [FaultKind::DeleteConflict]);
    stage.pass(300).await;
    assert_eq!(status(&stage, Method::DELETE, &path, "").await, 204);
    // It is being deleted now, which is a conflict without any fault.
    assert_eq!(status(&stage, Method::DELETE, &path, "").await, 409);
    assert_eq!(struck(&stage), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_read_lags_only_where_it_shows_another_state() {
    let mut stage = with(FaultKind::ReadLag).await;
    stage.cloud_says(Method::GET, "/v1/instances", "").await;
    assert_eq!(struck(&stage), NOTHING);
    let id = stage.machine("a").await;
    let path = format!("/v1/instances/{id}");
    stage.cloud_says(Method::GET, "/v1/instances", "").await;
    assert_eq!(status(&stage, Method::GET, &path, "").await, 404);
    assert_eq!(struck(&stage), [FaultKind::ReadLag; 2]);
    stage.pass(60).await;
    stage.cloud_says(Method::GET, "/v1/instances", "").await;
    stage.cloud_says(Method::GET, &path, "").await;
    assert_eq!(struck(&stage), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn a_page_is_small_only_where_something_is_left_for_the_next() {
    let mut stage = with(FaultKind::SmallPages).await;
    for _ in 0..20 {
        stage.cloud_says(Method::GET, "/v1/instances", "").await;
    }
    assert_eq!(struck(&stage), NOTHING, "there is nothing to list");
    for name in ["a", "b", "c"] {
        stage.machine(name).await;
    }
    let mut small = 0;
    for _ in 0..50 {
        let page = stage.cloud_says(Method::GET, "/v1/instances", "").await;
        small += usize::from(page["instances"].as_array().unwrap().len() < 3);
    }
    assert!(small > 0);
    assert_eq!(struck(&stage).len(), small);
}

#[tokio::test(start_paused = true)]
async fn an_error_after_a_write_is_one_only_where_the_write_was_carried_out() {
    let mut stage = with(FaultKind::ServerErrorAfter).await;
    let refused = status(&stage, Method::POST, "/v1/instances", "{}").await;
    assert_eq!((refused / 100, struck(&stage)), (4, vec![]));
    stage.cloud.faults().clear();
    let id = stage.machine("a").await;
    let fault = Fault::new(FaultKind::ServerErrorAfter);
    stage.cloud.faults().start(fault);
    let path = format!("/v1/instances/{id}");
    let broken = status(&stage, Method::DELETE, &path, "").await;
    assert_eq!(
        (broken / 100, struck(&stage)),
        (5, vec![FaultKind::ServerErrorAfter])
    );
}

#[tokio::test(start_paused = true)]
async fn search_lags_only_where_it_is_asked_for_what_it_does_not_know() {
    let mut stage = with(FaultKind::SearchLag).await;
    let subnet = stage.cloud.account().subnets[0].clone();
    stage.cloud.tag_subnet(&subnet, "team:web");
    assert_eq!(struck(&stage), NOTHING, "nobody has searched");
    let search = |tag: &str| json!({"query": format!("type:subnet AND tags:\"{tag}\"")}).to_string();
    let (own, other) = (search("team:web"), search("team:api"));
    let path = "/v3/resources/search";
    stage.cloud_says(Method::POST, path, &other).await;
    assert_eq!(struck(&stage), NOTHING, "it is right about that");
    stage.cloud_says(Method::POST, path, &own).await;
    assert_eq!(struck(&stage), [FaultKind::SearchLag]);
    stage.pass(601).await;
    let found = stage.cloud_says(Method::POST, path, &own).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(struck(&stage), NOTHING);
}
