//! A client that vanishes in the middle of a request never undoes or halves what it asked for.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use axum::body::Body;
use axum::routing::post;
use axum::{Json, Router};
use http::{HeaderValue, Method, Request, header};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use karpenter_ibm::sim::kube::ApiServer;
use karpenter_ibm::sim::kube::identity::User;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::server;

/// Polls a request so many times, letting everybody else go on in between, and then drops it; whether it was answered.
async fn vanish_after<T>(polls: usize, request: impl Future<Output = T>) -> bool {
    let mut request = pin!(request);
    for _ in 0..polls {
        let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": "1"}})).unwrap()
}

/// What is there a while later: names and values.
async fn there(server: &ApiServer) -> Vec<(String, String)> {
    tokio::time::sleep(Duration::from_mins(1)).await;
    let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
    let list = configs.list(&ListParams::default()).await.unwrap();
    let seen = |object: &ConfigMap| {
        let data = object.data.clone().unwrap_or_default();
        (object.metadata.name.clone().unwrap(), data["value"].clone())
    };
    list.items.iter().map(seen).collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A request as the server gets it.
fn request(method: Method, name: &str, kind: &str, body: &Value) -> Request<Body> {
    let mut request = Request::new(Body::from(body.to_string()));
    let path = format!("/api/v1/namespaces/default/configmaps{name}");
    *request.uri_mut() = path.parse().unwrap();
    *request.method_mut() = method;
    let kind = HeaderValue::from_str(kind).unwrap();
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    request.extensions_mut().insert(User::admin());
    request
}

#[tokio::test(start_paused = true)]
async fn what_the_server_was_sent_is_carried_out_whole_whenever_the_client_vanishes() {
    let (json, merge) = ("application/json", "application/merge-patch+json");
    for polls in 1.. {
        let server = server();
        let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
        configs
            .create(&PostParams::default(), &config("old"))
            .await
            .unwrap();
        configs
            .create(&PostParams::default(), &config("gone"))
            .await
            .unwrap();
        let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"value": "1"}});
        let patch = json!({"data": {"value": "2"}});
        let requests = [
            request(Method::POST, "", json, &new),
            request(Method::PATCH, "/old", merge, &patch),
            request(Method::DELETE, "/gone", json, &json!({})),
        ];
        let mut answered = true;
        for request in requests {
            answered &= vanish_after(polls, server.router().oneshot(request)).await;
        }
        assert_eq!(
            there(&server).await,
            [pair("new", "1"), pair("old", "2")],
            "after {polls} polls"
        );
        if answered {
            assert!(polls > 1, "nobody ever vanished");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_gives_up_is_done_whole_or_not_at_all() {
    for polls in 0.. {
        let server = server();
        let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
        let answered = vanish_after(polls, configs.create(&PostParams::default(), &config("new"))).await;
        let there = there(&server).await;
        assert!(
            there.is_empty() || there == [pair("new", "1")],
            "after {polls} polls: {there:?}"
        );
        if answered {
            assert_eq!(there.len(), 1);
            return;
        }
    }
}

/// A webhook that thinks for five seconds and then allows everything.
fn slow() -> Router {
    let answer = async |Json(review): Json<Value>| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let uid = &review["request"]["uid"];
        Json(
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, "allowed": true}}),
        )
    };
    Router::new().route("/slow", post(answer))
}

async fn ask_slow_webhook(server: &ApiServer) {
    let services: Api<Service> = Api::default_namespaced(server.admin());
    let service = json!({"metadata": {"name": "judge"}, "spec": {"ports": [{"port": 443}]}});
    let service = serde_json::from_value(service).unwrap();
    services.create(&PostParams::default(), &service).await.unwrap();
    server.webhooks().serve_service("default", "judge", slow());
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(server.admin());
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]});
    let hook = json!({
        "name": "judge.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
        "clientConfig": {"service": {"namespace": "default", "name": "judge", "path": "/slow"}},
    });
    let configuration = json!({"metadata": {"name": "judge"}, "webhooks": [hook]});
    let configuration = serde_json::from_value(configuration).unwrap();
    hooks
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_webhook_is_waited_for_although_the_client_is_gone() {
    let server = server();
    ask_slow_webhook(&server).await;
    let configs: Api<ConfigMap> = Api::default_namespaced(server.admin());
    let create = async { configs.create(&PostParams::default(), &config("new")).await };
    let given_up = tokio::time::timeout(Duration::from_secs(1), create).await;
    assert!(given_up.is_err(), "the webhook takes longer than that");
    assert!(configs.get_opt("new").await.unwrap().is_none());
    assert_eq!(there(&server).await, [pair("new", "1")]);
}
