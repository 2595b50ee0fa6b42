//! A client of the Kubernetes API of somebody who is too quick with nodes, and too slow to forget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::hearsay::through;

/// With each pod that is evicted, one of another node is.
pub(super) fn contagious(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        let path = request.uri().path().to_owned();
        if let Some((pods, name)) = evicted(&path).filter(|_| request.method() == Method::POST) {
            let read = Request::get(pods).body(Body::empty())?;
            let list = inner.send(read).await?.into_body().collect_bytes().await?;
            let list: Value = serde_json::from_slice(&list).unwrap_or_default();
            if let Some(other) = elsewhere(&list, name) {
                let other_name = other["metadata"]["name"].as_str().unwrap_or_default();
                let too = Request::post(format!("{pods}/{other_name}/eviction"))
                    .header("content-type", "application/json")
                    .body(Body::from(eviction(other).to_string().into_bytes()))?;
                // Whether it may leave is for those who look.
                let _ = inner.send(too).await;
            }
        }
        inner.send(request).await.map_err(BoxError::from)
    })
}

/// The collection and the name of a pod that is to be evicted.
fn evicted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("/eviction")?.rsplit_once('/')
}

/// The first pod of a list that runs on another node than the one of that name, and that no DaemonSet puts there again.
fn elsewhere<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    let pods = list["items"].as_array()?;
    let own = pods.iter().find(|pod| pod["metadata"]["name"] == name)?;
    let node = |pod: &'a Value| pod["spec"]["nodeName"].as_str();
    pods.iter().find(|pod| {
        let is_there = node(pod).is_some() && node(pod) != node(own);
        is_there && pod["metadata"]["deletionTimestamp"].is_null() && !is_daemon(pod)
    })
}

fn is_daemon(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["kind"] == "DaemonSet")
}

fn eviction(pod: &Value) -> Value {
    let named = &pod["metadata"];
    json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": named["name"], "namespace": named["namespace"]},
        "deleteOptions": {
            "preconditions": {"uid": named["uid"], "resourceVersion": named["resourceVersion"]},
        },
    })
}

/// The first list of a node's pods with nobody on it but daemons is shown ever after.
pub(super) fn hasty(inner: Client) -> Client {
    let empty: Arc<Mutex<BTreeMap<String, Bytes>>> = Arc::default();
    through(inner, move |inner, request| {
        let empty = Arc::clone(&empty);
        async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let asks = request.method() == Method::GET
                && request.uri().path() == "/api/v1/pods"
                && query.contains("spec.nodeName")
                && !query.contains("watch=");
            if !asks {
                return inner.send(request).await.map_err(BoxError::from);
            }
            let lock = || empty.lock().unwrap_or_else(PoisonError::into_inner);
            let known = lock().get(&query).cloned();
            if let Some(body) = known {
                return Ok(Response::new(Body::from(body)));
            }
            let (head, body) = inner.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            let pods = list["items"].as_array();
            if pods.is_some_and(|pods| pods.iter().all(is_daemon)) {
                lock().insert(query, body.clone());
            }
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams};

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options, write};

    fn server() -> ApiServer {
        ApiServer::new(Options {
            clock: Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap()),
            seed: 1,
            keys: Keys::Fixed,
        })
    }

    fn pod(name: &str, node: &str, owner: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o"},
            ]},
            "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a"}]},
        })
    }

    #[test]
    fn whoever_is_evicted_takes_one_of_another_node_along() {
        let path = "/api/v1/namespaces/default/pods/a/eviction";
        assert_eq!(evicted(path), Some(("/api/v1/namespaces/default/pods", "a")));
        assert_eq!(evicted("/api/v1/namespaces/default/pods/a"), None);
        let list = json!({"items": [
            pod("a", "n", "ReplicaSet"), pod("b", "n", "ReplicaSet"),
            pod("c", "o", "DaemonSet"), pod("d", "o", "ReplicaSet"),
        ]});
        let other = elsewhere(&list, "a").map(|pod| &pod["metadata"]["name"]);
        assert_eq!(other, Some(&json!("d")));
        assert_eq!(elsewhere(&json!({"items": [pod("a", "n", "x")]}), "a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_nobody_was_on_stays_empty() {
        let server = server();
        let pods: Api<Pod> = Api::all(hasty(server.admin()));
        let on = |node: &str| ListParams::default().fields(&format!("spec.nodeName={node}"));
        // Without owners, or they would be collected.
        let add = |name: &str, node: &str| {
            let mut pod = pod(name, node, "");
            pod["metadata"]["ownerReferences"] = json!([]);
            write::insert(&server, pod);
        };
        let count = async |node: &str| pods.list(&on(node)).await.unwrap().items.len();
        add("d", "b");
        assert_eq!((count("a").await, count("b").await), (0, 1));
        add("e", "a");
        add("f", "b");
        assert_eq!((count("a").await, count("b").await), (0, 2));
    }
}
