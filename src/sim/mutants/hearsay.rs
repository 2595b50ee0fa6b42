//! A client of the Kubernetes API that mishears what it is told, or says it once too often.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::clock::Clock;

/// The address that every Node is taken to have.
pub(super) const ANYWHERE: &str = "0.0.0.0";

/// Pools are read without their limits.
pub(super) fn without_limits(inner: Client) -> Client {
    heard(
        inner,
        |path| path.ends_with("/nodepools"),
        |list| {
            for pool in list["items"].as_array_mut().into_iter().flatten() {
                if let Some(spec) = pool["spec"].as_object_mut() {
                    spec.remove("limits");
                }
            }
        },
    )
}

/// Lists of claims show what is held only of machines that were seen to run.
pub(super) fn without_what_is_in_flight(inner: Client) -> Client {
    heard(
        inner,
        |path| path.ends_with("/nodeclaims"),
        |list| {
            for claim in list["items"].as_array_mut().into_iter().flatten() {
                let runs = claim["status"]["providerID"].is_string();
                let status = claim.get_mut("status").and_then(Value::as_object_mut);
                if let Some(status) = status.filter(|_| !runs) {
                    status.remove("allocation");
                }
            }
        },
    )
}

/// Every Node is read with the same address.
pub(super) fn with_any_address(inner: Client) -> Client {
    heard(
        inner,
        |path| path.starts_with("/api/v1/nodes/"),
        |node| {
            if node["status"]["addresses"].is_array() {
                node["status"]["addresses"] = json!([{"type": "InternalIP", "address": ANYWHERE}]);
            }
        },
    )
}

/// A client whose reads of some paths are changed.
pub(super) fn heard(
    inner: Client,
    on: impl Fn(&str) -> bool + Clone + Send + Sync + 'static,
    change: fn(&mut Value),
) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, on) = (inner.clone(), on.clone());
        async move {
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
            let reads = request.method() == Method::GET && on(request.uri().path()) && !watches;
            let answer = inner.send(request).await?;
            if !reads || !answer.status().is_success() {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let body = body.collect_bytes().await?;
            let body = changed(&body, change);
            Ok::<_, BoxError>(Response::from_parts(head, Body::from(body)))
        }
    });
    Client::new(service, namespace)
}

pub(super) fn changed(body: &Bytes, change: fn(&mut Value)) -> Bytes {
    let Ok(mut value) = serde_json::from_slice(body) else {
        return body.clone();
    };
    change(&mut value);
    value.to_string().into()
}

fn tells(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    request.method() == Method::PATCH && path.contains("/nodeclaims/") && path.ends_with("/status")
}

/// Each status of a claim is written twice.
pub(super) fn with_repeated_writes(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if !tells(&request) {
                return inner.send(request).await.map_err(BoxError::from);
            }
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let once = Request::from_parts(head.clone(), Body::from(body.clone()));
            let answer = inner.send(once).await?;
            if answer.status().is_success() {
                // Without the version, which has just become old.
                let body = changed(&body, |object| {
                    if let Some(metadata) = object["metadata"].as_object_mut() {
                        metadata.remove("resourceVersion");
                    }
                });
                return inner
                    .send(Request::from_parts(head, Body::from(body)))
                    .await
                    .map_err(BoxError::from);
            }
            Ok(answer)
        }
    });
    Client::new(service, namespace)
}

/// Each condition of a claim is said to hold since it was last written.
pub(super) fn with_restless_times(inner: Client, clock: Clock) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let clock = Arc::new(clock);
    let service = service_fn(move |request: Request<Body>| {
        let (inner, clock) = (inner.clone(), Arc::clone(&clock));
        async move {
            if !tells(&request) {
                return inner.send(request).await.map_err(BoxError::from);
            }
            let (head, body) = request.into_parts();
            let body = dated(&body.collect_bytes().await?, &clock);
            let request = Request::from_parts(head, Body::from(body));
            inner.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

fn dated(body: &Bytes, clock: &Clock) -> Bytes {
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else {
        return body.clone();
    };
    let now = jiff::Timestamp::from_second(clock.now().as_second()).unwrap_or_default();
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        condition["lastTransitionTime"] = json!(now.to_string());
    }
    object.to_string().into()
}
