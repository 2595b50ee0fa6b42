//! A client of the Kubernetes API that says less than it was told to, or shows the past.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

use super::hearsay::{said, through};

const NODES: &str = "/api/v1/nodes";

/// Writes, deletions and evictions without resourceVersions. Leases are left alone: whoever cannot renew the one that it holds by
/// cannot lead, and does no harm at all.
pub(super) fn without_resource_versions(inner: Client) -> Client {
    said(inner, |head, body| {
        let is_lease = head.uri.path().contains("/leases/");
        let evicts = head.uri.path().ends_with("/eviction");
        match head.method {
            Method::PATCH | Method::PUT | Method::DELETE if !is_lease => unconditional(&body),
            Method::POST if evicts => unconditional(&body),
            _ => body,
        }
    })
}

/// A body without the version that a write rests on. Which object is meant it still says.
fn unconditional(body: &Bytes) -> Bytes {
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else {
        return body.clone();
    };
    let mut whole = Value::Object(object);
    for part in ["/preconditions", "/deleteOptions/preconditions", "/metadata"] {
        if let Some(part) = whole.pointer_mut(part).and_then(Value::as_object_mut) {
            part.remove("resourceVersion");
        }
    }
    whole.to_string().into()
}

/// What sweeps have read.
#[derive(Default)]
struct Past {
    /// The first list of each kind.
    first: BTreeMap<String, Bytes>,
    /// Whether the last list was one of Nodes: the next is the sweep's.
    follows_nodes: bool,
}

/// The lists that follow one of Nodes, as those of sweeps do, show what the first of them showed. Others do not: whoever
/// finds no intent of its own in a list buys nothing, and does no harm at all.
pub(super) fn with_stale_sweeps(inner: Client) -> Client {
    let past: Arc<Mutex<Past>> = Arc::default();
    through(inner, move |inner, request| {
        let past = Arc::clone(&past);
        async move {
            let Some(collection) = consistent_list(&request) else {
                return inner.send(request).await.map_err(BoxError::from);
            };
            let is_sweep = {
                let mut past = past.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut past.follows_nodes, collection == NODES)
            };
            if !is_sweep {
                return inner.send(request).await.map_err(BoxError::from);
            }
            let known = |past: &Mutex<Past>| {
                let past = past.lock().unwrap_or_else(PoisonError::into_inner);
                past.first.get(&collection).cloned()
            };
            if let Some(body) = known(&past) {
                return Ok(Response::new(Body::from(body)));
            }
            let (head, body) = inner.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            if head.status.is_success() {
                let mut past = past.lock().unwrap_or_else(PoisonError::into_inner);
                past.first.insert(collection, body.clone());
            }
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
}

/// The path of a list that asks for the latest state and all of it at once.
fn consistent_list(request: &Request<Body>) -> Option<String> {
    let path = request.uri().path();
    // `/api/v1/nodes`, `/apis/karpenter.sh/v1/nodeclaims`: a name would be one segment more.
    let segments = path.split('/').count();
    let is_collection =
        (path.starts_with("/api/") && segments == 4) || (path.starts_with("/apis/") && segments == 5);
    let query = request.uri().query().unwrap_or_default();
    let conditional = ["watch=", "limit=", "resourceVersion="];
    let whole = !conditional.iter().any(|option| query.contains(option));
    (request.method() == Method::GET && is_collection && whole).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::{ApiServer, Options};

    fn server() -> ApiServer {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_version_no_longer_hinders_a_write_or_a_deletion() {
        let server = server();
        let configs: Api<ConfigMap> = Api::default_namespaced(without_resource_versions(server.admin()));
        let mut config = ConfigMap::default();
        config.metadata.name = Some("a".to_owned());
        configs.create(&PostParams::default(), &config).await.unwrap();
        let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}});
        let patched = configs
            .patch("a", &PatchParams::default(), &Patch::Merge(&stale))
            .await;
        assert_eq!(patched.unwrap().data.unwrap()["k"], "v");
        let that = |uid: Option<&str>| {
            DeleteParams::default().preconditions(Preconditions {
                uid: uid.map(str::to_owned),
                resource_version: Some("1".to_owned()),
            })
        };
        let another = configs.delete("a", &that(Some("another"))).await;
        assert!(another.is_err(), "it is not the one that is meant");
        configs.delete("a", &that(None)).await.unwrap();
    }

    #[test]
    fn an_eviction_says_which_pod_and_not_as_it_was_when() {
        let that =
            |preconditions: Value| json!({"deleteOptions": {"preconditions": preconditions}}).to_string();
        let said = that(json!({"uid": "u", "resourceVersion": "1"})).into();
        assert_eq!(unconditional(&said), that(json!({"uid": "u"})));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_as_it_was_read() {
        let server = server();
        let leases: Api<Lease> = Api::default_namespaced(without_resource_versions(server.admin()));
        let mut lease = Lease::default();
        lease.metadata.name = Some("leader".to_owned());
        let made = leases.create(&PostParams::default(), &lease).await.unwrap();
        let mut taken = made;
        taken.spec = Some(LeaseSpec {
            holder_identity: Some("one".to_owned()),
            ..LeaseSpec::default()
        });
        let params = PostParams::default();
        assert!(leases.replace("leader", &params, &taken).await.is_ok());
        taken.spec.get_or_insert_default().holder_identity = Some("two".to_owned());
        let late = leases.replace("leader", &params, &taken).await;
        assert!(late.is_err(), "it rests on what was read before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sweep_shows_the_past_and_no_other_list_does() {
        let server = server();
        let client = with_stale_sweeps(server.admin());
        let (nodes, configs) = (
            Api::<Node>::all(client.clone()),
            Api::<ConfigMap>::all(client.clone()),
        );
        let sweep = async || {
            nodes.list(&ListParams::default()).await.unwrap();
            configs.list(&ListParams::default()).await.unwrap().items.len()
        };
        let before = sweep().await;
        let mut config = ConfigMap::default();
        config.metadata.name = Some("a".to_owned());
        let own: Api<ConfigMap> = Api::default_namespaced(client.clone());
        own.create(&PostParams::default(), &config).await.unwrap();
        assert_eq!(sweep().await, before);
        let listed = configs.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), before + 1);
        assert_eq!(sweep().await, before);
    }
}
