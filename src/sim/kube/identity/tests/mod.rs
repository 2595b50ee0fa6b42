//! Identity as its users see it: requests to a cluster, in process.

mod accounts;
mod kubelets;
mod people;
mod reviews;
mod roles;

use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Keys, User};
use crate::clock::Clock;
use crate::sim::kube::{ApiServer, Options};

pub(in crate::sim::kube) const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
pub(in crate::sim::kube) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(in crate::sim::kube) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub(in crate::sim::kube) const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A server and what one says to it.
pub(in crate::sim::kube) struct Cluster {
    pub(in crate::sim::kube) server: ApiServer,
}

/// A status and a body.
pub(in crate::sim::kube) type Answer = (u16, Value);

impl Cluster {
    pub(in crate::sim::kube) fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        });
        Self { server }
    }

    pub(in crate::sim::kube) async fn send(&self, mut request: Request<Body>) -> Answer {
        request
            .headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        let response = self.server.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(in crate::sim::kube) async fn ask(
        &self,
        user: &User,
        method: &str,
        path: &str,
        body: Value,
    ) -> Answer {
        self.send(request(method, path, &body, |request| {
            request.extension(user.clone())
        }))
        .await
    }

    /// Asks as the administrator, and expects a yes.
    pub(in crate::sim::kube) async fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(&User::admin(), method, path, body).await;
        assert!(status < 300, "{method} {path}: {answer}");
        answer
    }

    pub(in crate::sim::kube) async fn with_token(&self, token: &str, method: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.send(request(method, path, &Value::Null, |request| {
            request.header("authorization", bearer)
        }))
        .await
    }

    /// A token of the account `default`.
    pub(in crate::sim::kube) async fn token(&self, spec: Value) -> String {
        let answer = self
            .admin("POST", &format!("{ACCOUNTS}/default/token"), token_request(&spec))
            .await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Gives a user a ClusterRole of that name with one rule.
    pub(in crate::sim::kube) async fn allow(&self, user: &str, name: &str, rule: Value) {
        self.admin("POST", ROLES, role(name, &json!([rule]))).await;
        self.admin("POST", BINDINGS, binding(name, name, user)).await;
    }
}

pub(in crate::sim::kube) fn request(
    method: &str,
    path: &str,
    body: &Value,
    with: impl FnOnce(http::request::Builder) -> http::request::Builder,
) -> Request<Body> {
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    with(Request::builder().method(method).uri(path))
        .body(Body::from(text))
        .unwrap()
}

pub(in crate::sim::kube) fn token_request(spec: &Value) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

pub(in crate::sim::kube) fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

pub(in crate::sim::kube) fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
           "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
           "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
}

pub(in crate::sim::kube) fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"nodeName": node, "serviceAccountName": "default",
                    "containers": [{"name": "main", "image": "app", "env": [
                        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "mentioned", "key": "k"}}}]}],
                    "volumes": [{"name": "config", "configMap": {"name": "mentioned"}},
                                {"name": "data", "persistentVolumeClaim": {"claimName": "mentioned"}},
                                {"name": "token", "projected": {"sources": [
                                    {"serviceAccountToken": {"path": "token", "audience": "vault"}}]}}]}})
}

pub(in crate::sim::kube) fn somebody() -> User {
    User::named("jane", &["system:authenticated"])
}
