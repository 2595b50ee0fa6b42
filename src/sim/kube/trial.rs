//! A server on trial: requests and answers as plain values, for tests of what the server does with them.

use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::identity::User;
use super::{ApiServer, Options};
use crate::clock::Clock;

/// A cluster, and an administrator who asks.
pub(super) struct Trial {
    server: ApiServer,
}

impl Trial {
    pub(super) fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        Self {
            server: ApiServer::new(Options {
                clock,
                seed: 1,
                keys: crate::sim::kube::identity::Keys::Fixed,
            }),
        }
    }

    /// Sends a request; the status and the body of the answer.
    pub(super) async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let content_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .extension(User::admin());
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let answer = self
            .server
            .router()
            .oneshot(request.body(body).unwrap())
            .await
            .unwrap();
        let code = answer.status().as_u16();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Value::Null).await
    }

    pub(super) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, Value::Null).await
    }

    /// Makes an object that must be accepted; what was stored.
    pub(super) async fn create(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.send("POST", path, object).await;
        assert_eq!(code, 201, "{answer}");
        answer
    }

    /// Changes an object; must be accepted.
    pub(super) async fn put(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.send("PUT", path, object).await;
        assert_eq!(code, 200, "{answer}");
        answer
    }
}

/// A pod with one container.
pub(super) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

/// The reason of a refusal, and the reasons of its causes.
pub(super) fn why(answer: &Value) -> (String, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    (
        text(&answer["reason"]),
        causes.map(|cause| text(&cause["reason"])).collect(),
    )
}
