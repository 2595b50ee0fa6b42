//! Discovery as clients see it, through the router.

use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::clock::Clock;
use crate::sim::kube::identity::{Keys, User};
use crate::sim::kube::{ApiServer, Options};

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn server() -> ApiServer {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    ApiServer::new(Options {
        clock,
        seed: 1,
        keys: Keys::Fixed,
    })
}

/// Status, content type and body of an answer.
async fn get(server: &ApiServer, path: &str, accept: &str) -> (u16, String, String) {
    let request = Request::get(path)
        .header("accept", accept)
        .extension(User::admin())
        .body(Body::empty())
        .unwrap();
    let response = server.router().oneshot(request).await.unwrap();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (code, content_type, String::from_utf8(body.to_vec()).unwrap())
}

async fn json_at(server: &ApiServer, path: &str, accept: &str) -> Value {
    serde_json::from_str(&get(server, path, accept).await.2).unwrap()
}

fn entry<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[field] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

fn define_widgets(server: &ApiServer) {
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["toys"]},
        "versions": [{"name": "v1", "served": true,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "description": "A thing.",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}}}],
    }});
    server.state().registry.define(&crd).unwrap();
}

#[tokio::test]
async fn the_version_is_that_of_the_release_it_behaves_like() {
    assert_eq!(json_at(&server(), "/version", "").await["gitVersion"], "v1.35.4");
}

#[tokio::test]
async fn health_is_ok_in_every_word_for_it() {
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(
            get(&server(), path, "").await,
            (200, "text/plain; charset=utf-8".to_owned(), "ok".to_owned())
        );
    }
}

#[tokio::test]
async fn paths_that_nobody_owns_are_a_plain_404_and_unknown_versions_a_status() {
    let server = server();
    for path in ["/nosuch", "/apis/nosuch", "/apis/nosuch/v1"] {
        assert_eq!(get(&server, path, "").await.2, "404 page not found\n", "{path}");
    }
    for path in ["/api/v2", "/apis/apps/v9"] {
        assert_eq!(json_at(&server, path, "").await["reason"], "NotFound", "{path}");
    }
}

#[tokio::test]
async fn aggregated_discovery_has_its_own_content_type_and_everything_at_once() {
    let server = server();
    let (code, content_type, body) = get(&server, "/api", AGGREGATED).await;
    assert_eq!(code, 200);
    assert_eq!(
        content_type,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let list: Value = serde_json::from_str(&body).unwrap();
    let pods = entry(&list["items"][0]["versions"][0]["resources"], "resource", "pods");
    assert_eq!(
        pods["responseKind"],
        json!({"group": "", "version": "", "kind": "Pod"})
    );
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(
        entry(&pods["subresources"], "subresource", "eviction"),
        &json!({"subresource": "eviction", "verbs": ["create"],
                "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}})
    );
}

#[tokio::test]
async fn plain_discovery_lists_groups_and_their_resources() {
    let server = server();
    let groups = json_at(&server, "/apis", "application/json").await;
    let apps = entry(&groups["groups"], "name", "apps");
    assert_eq!(
        apps["preferredVersion"],
        json!({"groupVersion": "apps/v1", "version": "v1"})
    );
    let list = json_at(&server, "/apis/apps/v1", "").await;
    assert_eq!(
        entry(&list["resources"], "name", "deployments/scale"),
        &json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]})
    );
    let core = json_at(&server, "/api/v1", "").await;
    let token = entry(&core["resources"], "name", "serviceaccounts/token");
    assert_eq!(
        (token["kind"].as_str(), token["group"].as_str()),
        (Some("TokenRequest"), Some("authentication.k8s.io"))
    );
    let namespaces = entry(&core["resources"], "name", "namespaces");
    assert!(
        !namespaces["verbs"]
            .as_array()
            .unwrap()
            .contains(&json!("deletecollection"))
    );
}

#[tokio::test]
async fn a_custom_kind_is_discoverable_as_soon_as_it_is_defined() {
    let server = server();
    define_widgets(&server);
    let list = json_at(&server, "/apis", AGGREGATED).await;
    let group = list["items"].as_array().unwrap().last().unwrap();
    assert_eq!(group["metadata"]["name"], "example.com");
    let widgets = entry(&group["versions"][0]["resources"], "resource", "widgets");
    assert_eq!(
        widgets["responseKind"],
        json!({"group": "example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(widgets["categories"], json!(["toys"]));
    assert_eq!(
        entry(&widgets["subresources"], "subresource", "scale")["responseKind"]["kind"],
        "Scale"
    );
}

#[tokio::test]
async fn the_open_api_index_leads_to_a_document_for_every_group_version() {
    let server = server();
    define_widgets(&server);
    let index = json_at(&server, "/openapi/v3", "").await;
    for (at, place) in index["paths"].as_object().unwrap() {
        let (code, _, _) = get(&server, place["serverRelativeURL"].as_str().unwrap(), "").await;
        assert_eq!(code, 200, "{at}");
    }
    assert_eq!(get(&server, "/openapi/v3/apis/nosuch/v1", "").await.0, 404);
}

#[tokio::test]
async fn every_kind_that_can_be_patched_says_that_it_takes_field_validation() {
    let server = server();
    define_widgets(&server);
    let kinds: Vec<_> = server.state().registry.all().cloned().collect();
    for kind in kinds
        .iter()
        .filter(|kind| kind.verbs == crate::sim::kube::kind::Verbs::All)
    {
        let root = if kind.group.is_empty() { "api" } else { "apis" };
        let document = json_at(&server, &format!("/openapi/v3/{root}/{}", kind.api_version()), "").await;
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let patches = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .map(|path| &path["patch"]);
        let patch = patches
            .into_iter()
            .find(|patch| patch["x-kubernetes-group-version-kind"] == gvk)
            .unwrap();
        entry(&patch["parameters"], "name", "fieldValidation");
    }
}

#[tokio::test]
async fn the_schema_of_a_custom_kind_is_its_definitions() {
    let server = server();
    define_widgets(&server);
    let document = json_at(&server, "/openapi/v3/apis/example.com/v1", "").await;
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["description"], "A thing.");
    assert_eq!(
        schema["properties"]["spec"]["properties"]["size"]["type"],
        "string"
    );
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
    );
}

#[tokio::test]
async fn the_address_of_a_document_changes_with_its_definitions() {
    let server = server();
    let before = json_at(&server, "/openapi/v3", "").await;
    define_widgets(&server);
    let first = json_at(&server, "/openapi/v3", "").await;
    assert_eq!(before["paths"]["api/v1"], first["paths"]["api/v1"]);
    let crd = json!({"spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    server.state().registry.define(&crd).unwrap();
    let second = json_at(&server, "/openapi/v3", "").await;
    assert_ne!(
        first["paths"]["apis/example.com/v1"],
        second["paths"]["apis/example.com/v1"]
    );
}
