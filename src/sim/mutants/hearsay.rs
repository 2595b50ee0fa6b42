//! A client of the Kubernetes API that mishears what it is told, or says it once too often.

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
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

/// Claims are read without how long they may live, alone and in lists. Watches tell of it, but nobody asks them.
pub(super) fn without_expiry(inner: Client) -> Client {
    heard(
        inner,
        |path| path.ends_with("/nodeclaims") || path.contains("/nodeclaims/"),
        |read| {
            let claims = read.get_mut("items").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                may_live_for_ever(claim);
            }
            may_live_for_ever(read);
        },
    )
}

fn may_live_for_ever(claim: &mut Value) {
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("expireAfter");
    }
}

/// Lists of claims show what is held only of machines that were seen to run, and of the last that one is to be bought for:
/// whoever asks has just written that, and buys nothing if it is not there.
pub(super) fn without_what_is_in_flight(inner: Client) -> Client {
    heard(
        inner,
        |path| path.ends_with("/nodeclaims"),
        |list| {
            let claims = list["items"].as_array_mut();
            let mut claims: Vec<&mut Value> = claims
                .into_iter()
                .flatten()
                .filter(|claim| !claim["status"]["providerID"].is_string())
                .collect();
            let since = |claim: &Value| claim["status"]["allocation"]["since"].as_str().map(str::to_owned);
            let last = claims.iter().filter_map(|claim| since(claim)).max();
            for claim in claims.iter_mut().filter(|claim| since(claim) != last) {
                if let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) {
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

/// A client whose requests take `way`, which is given the client that they would have gone by.
pub(super) fn through<A>(inner: Client, way: impl Fn(Client, Request<Body>) -> A + Send + 'static) -> Client
where
    A: Future<Output = Result<Response<Body>, BoxError>> + Send + 'static,
{
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request| way(inner.clone(), request));
    Client::new(service, namespace)
}

/// A client whose reads of some paths are changed.
pub(super) fn heard(
    inner: Client,
    on: impl Fn(&str) -> bool + Clone + Send + Sync + 'static,
    change: fn(&mut Value),
) -> Client {
    through(inner, move |inner, request| {
        let on = on.clone();
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
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
}

/// A client whose requests are changed before they are sent.
pub(super) fn said(
    inner: Client,
    change: impl Fn(&mut http::request::Parts, Bytes) -> Bytes + Clone + Send + Sync + 'static,
) -> Client {
    through(inner, move |inner, request| {
        let change = change.clone();
        async move {
            let (mut head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = change(&mut head, body);
            inner
                .send(Request::from_parts(head, Body::from(body)))
                .await
                .map_err(BoxError::from)
        }
    })
}

pub(super) fn changed(body: &Bytes, change: fn(&mut Value)) -> Bytes {
    let Ok(mut value) = serde_json::from_slice(body) else {
        return body.clone();
    };
    change(&mut value);
    value.to_string().into()
}

/// Whether a request writes the status of a claim.
fn tells(method: &Method, uri: &Uri) -> bool {
    method == Method::PATCH && uri.path().contains("/nodeclaims/") && uri.path().ends_with("/status")
}

/// Each status of a claim is written twice.
pub(super) fn with_repeated_writes(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        if !tells(request.method(), request.uri()) {
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
    })
}

/// Each condition of a claim is said to hold since it was last written.
pub(super) fn with_restless_times(inner: Client, clock: Clock) -> Client {
    said(inner, move |head, body| {
        if tells(&head.method, &head.uri) {
            dated(&body, &clock)
        } else {
            body
        }
    })
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
