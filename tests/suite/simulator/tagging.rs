//! Tags and search: folded, checked one by one, found late.

use http::StatusCode;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};
use serde_json::{Value, json};

use super::{Api, api};

async fn tagged(api: &Api, crn: &str) -> Vec<String> {
    let said = api
        .get(&format!(
            "/v3/tags?attached_to={}&tag_type=user",
            crn.replace(':', "%3A").replace('/', "%2F")
        ))
        .await;
    said.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn attach(api: &Api, query: &str, crns: &[&str], tags: &[&str]) -> Vec<bool> {
    let resources: Vec<Value> = crns.iter().map(|crn| json!({ "resource_id": crn })).collect();
    let said = api
        .post(
            &format!("/v3/tags/attach?tag_type=user{query}"),
            json!({ "tag_names": tags, "resources": resources }),
        )
        .await;
    assert_eq!(said.status, StatusCode::OK);
    said.body["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["is_error"].as_bool().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn tags_are_folded_and_a_slash_is_an_error_inside_a_200() {
    let api = api().await;
    api.create(api.prototype("a")).await;
    let crn = api.cloud.instance("a").unwrap().crn;
    assert_eq!(
        attach(&api, "", &[&crn], &["karpenter.sh/nodepool:default"]).await,
        [true]
    );
    assert_eq!(
        attach(&api, "", &[&crn, "crn:of:nobody"], &["NodePool:Default,Team A"]).await,
        [false, true]
    );
    assert_eq!(tagged(&api, &crn).await, ["nodepool:default", "team a"]);
}

#[tokio::test(start_paused = true)]
async fn update_replaces_the_value_of_a_key_and_replace_replaces_all() {
    let api = api().await;
    api.create(api.prototype("a")).await;
    let crn = api.cloud.instance("a").unwrap().crn;
    attach(&api, "", &[&crn], &["pool:one", "other"]).await;
    attach(&api, "&update=true", &[&crn], &["pool:two"]).await;
    assert_eq!(tagged(&api, &crn).await, ["other", "pool:two"]);
    attach(&api, "&replace=true", &[&crn], &["only"]).await;
    assert_eq!(tagged(&api, &crn).await, ["only"]);
    api.post(
        "/v3/tags/detach",
        json!({ "tag_names": ["only"], "resources": [{ "resource_id": crn }] }),
    )
    .await;
    assert!(tagged(&api, &crn).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_tag_call_may_fail_for_each_resource() {
    let api = api().await;
    api.create(api.prototype("a")).await;
    let crn = api.cloud.instance("a").unwrap().crn;
    api.cloud.faults().start(Fault::new(FaultKind::TagFails).times(1));
    assert_eq!(attach(&api, "", &[&crn], &["x"]).await, [true]);
    assert_eq!(attach(&api, "", &[&crn], &["x"]).await, [false]);
}

async fn found(api: &Api, query: &str) -> Vec<String> {
    let said = api
        .post(
            "/v3/resources/search?limit=100",
            json!({ "query": query, "fields": ["crn", "name"] }),
        )
        .await;
    said.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn search_finds_what_was_tagged_after_a_while() {
    let api = api().await;
    api.create(api.prototype("a")).await;
    let crn = api.cloud.instance("a").unwrap().crn;
    attach(&api, "", &[&crn], &["pool:one"]).await;
    let query = "tags:\"pool:one\" AND type:instance AND service_name:is";
    assert!(found(&api, query).await.is_empty());
    api.pass(61).await;
    assert_eq!(found(&api, query).await, ["a"]);
    assert!(
        found(&api, "tags:\"pool:two\" AND type:instance")
            .await
            .is_empty()
    );
    assert_eq!(found(&api, "tags:pool* OR name:zzz").await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn search_may_lag_for_minutes_and_goes_on_after_a_cursor() {
    let api = api().await;
    api.cloud.faults().start(Fault::new(FaultKind::SearchLag));
    for name in ["a", "b", "c"] {
        api.create(api.prototype(name)).await;
    }
    api.pass(599).await;
    assert!(found(&api, "type:instance").await.is_empty());
    api.pass(1).await;
    let (mut names, mut cursor) = (0, Value::Null);
    for _ in 0..2 {
        let mut body = json!({ "query": "type:instance" });
        if cursor.is_string() {
            body["search_cursor"] = cursor.clone();
        }
        let said = api.post("/v3/resources/search?limit=2", body).await.body;
        names += said["items"].as_array().unwrap().len();
        cursor = said["search_cursor"].clone();
    }
    assert_eq!((names, cursor), (3, Value::Null));
}
