//! A client of the Kubernetes API that says of a taint that it is there seconds before it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::hearsay::{changed, through};
use crate::api::names::DISRUPTED_TAINT;
use crate::clock::Clock;

/// How late: whoever then waits five seconds has waited less than two.
const LATE: Duration = Duration::from_secs(4);

/// The changes that Nodes are said to have had, by path.
type Pretended = Arc<Mutex<BTreeMap<String, Value>>>;

/// Nodes that are given up are tainted late, and read as if they were tainted already.
pub(super) fn with_late_taints(inner: Client, clock: Clock) -> Client {
    let pretended = Pretended::default();
    through(inner, move |inner, request| {
        let (clock, pretended) = (clock.clone(), pretended.clone());
        async move {
            let path = request.uri().path().to_owned();
            if !path.starts_with("/api/v1/nodes/") {
                return inner.send(request).await.map_err(BoxError::from);
            }
            if request.method() == Method::GET {
                let answer = inner.send(request).await?;
                return pretend(answer, pretended_of(&pretended, &path)).await;
            }
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let Some(change) = tainting(&body).filter(|_| head.method == Method::PATCH) else {
                let request = Request::from_parts(head, Body::from(body));
                return inner.send(request).await.map_err(BoxError::from);
            };
            let read = Request::get(&path).body(Body::empty())?;
            let node = inner.send(read).await?;
            lock(&pretended).insert(path.clone(), change.clone());
            let (later, patch) = (inner.clone(), without_version(&body));
            let forget = (pretended, path);
            tokio::spawn(async move {
                clock.sleep(LATE).await;
                // What comes of it is for those who look.
                let _ = later.send(Request::from_parts(head, Body::from(patch))).await;
                lock(&forget.0).remove(&forget.1);
            });
            pretend(node, Some(change)).await
        }
    })
}

/// A Node as it is said to be: with the labels and taints that were asked for.
async fn pretend(answer: Response<Body>, change: Option<Value>) -> Result<Response<Body>, BoxError> {
    let Some(change) = change.filter(|_| answer.status().is_success()) else {
        return Ok(answer);
    };
    let (head, body) = answer.into_parts();
    let mut node: Value = serde_json::from_slice(&body.collect_bytes().await?)?;
    node["spec"]["taints"] = change["spec"]["taints"].clone();
    for (name, value) in change["metadata"]["labels"].as_object().into_iter().flatten() {
        node["metadata"]["labels"][name] = value.clone();
    }
    Ok(Response::from_parts(
        head,
        Body::from(node.to_string().into_bytes()),
    ))
}

/// A change that gives a Node the taint of one that goes.
fn tainting(body: &Bytes) -> Option<Value> {
    let patch: Value = serde_json::from_slice(body).ok()?;
    let taints = patch["spec"]["taints"].as_array()?;
    let goes = taints.iter().any(|taint| taint["key"] == DISRUPTED_TAINT);
    goes.then_some(patch)
}

/// The version will have become old.
fn without_version(body: &Bytes) -> Bytes {
    changed(body, |patch| {
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    })
}

fn pretended_of(pretended: &Pretended, path: &str) -> Option<Value> {
    lock(pretended).get(path).cloned()
}

fn lock(pretended: &Pretended) -> std::sync::MutexGuard<'_, BTreeMap<String, Value>> {
    pretended.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    #[tokio::test(start_paused = true)]
    async fn a_taint_is_there_four_seconds_after_it_is_said_to_be() {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock: clock.clone(),
            seed: 1,
            keys: Keys::Fixed,
        });
        let (truth, told): (Api<Node>, Api<Node>) = (
            Api::all(server.admin()),
            Api::all(with_late_taints(server.admin(), clock.clone())),
        );
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        truth.create(&PostParams::default(), &node).await.unwrap();
        let tainted = |node: Node| {
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            taints.iter().any(|taint| taint.key == DISRUPTED_TAINT)
        };
        let patch = json!({"spec": {"taints": [{"key": DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
        let answer = told
            .patch("a", &PatchParams::default(), &Patch::Merge(patch))
            .await;
        assert!(tainted(answer.unwrap()));
        assert!(tainted(told.get("a").await.unwrap()));
        assert!(!tainted(truth.get("a").await.unwrap()));
        clock.sleep(LATE * 2).await;
        assert!(tainted(truth.get("a").await.unwrap()));
    }
}
