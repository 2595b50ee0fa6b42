//! Plans for pods that are made too late, carried out twice, or wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::hearsay::{changed, said, through};
use crate::api::names::NODE_INITIALIZED;
use crate::operator::Context;
use crate::sim::invariants::is_true;

/// Pods are gathered until none has come for an hour.
pub(super) fn dawdling(mut context: Context) -> Context {
    let mut settings = (*context.settings).clone();
    settings.batch.idle = Duration::from_hours(1);
    settings.batch.max = Duration::from_hours(2);
    context.settings = Arc::new(settings);
    context
}

/// Every pod is put where the first one is.
pub(super) fn crowding(mut context: Context) -> Context {
    context.compute = context.compute.then(|_, mut plan| {
        if let Some(first) = plan.placements.first().map(|placement| placement.on) {
            for placement in &mut plan.placements {
                placement.on = first;
            }
        }
        plan
    });
    context
}

/// Each claim that is made for pods is made twice, under two names.
pub(super) fn doubled(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        let makes = request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims");
        if !makes {
            return inner.send(request).await.map_err(BoxError::from);
        }
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let once = Request::from_parts(head.clone(), Body::from(body.clone()));
        let answer = inner.send(once).await?;
        let mut twin: Value = serde_json::from_slice(&body)?;
        let name = twin["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        twin["metadata"]["name"] = json!(format!("{name}-2"));
        let twice = Request::from_parts(head, Body::from(twin.to_string().into_bytes()));
        inner.send(twice).await?;
        Ok(answer)
    })
}

/// Claims are made with a taint that no plan knew of, so that nobody can go where a place was bought for him.
pub(super) fn for_nobody(inner: Client) -> Client {
    said(inner, |head, body| {
        if head.method != Method::POST || !head.uri.path().ends_with("/nodeclaims") {
            return body;
        }
        changed(&body, |claim| {
            let mut taints = claim["spec"]["taints"].as_array().cloned().unwrap_or_default();
            taints.push(json!({"key": "example.com/nobody", "effect": "NoSchedule"}));
            claim["spec"]["taints"] = json!(taints);
        })
    })
}

/// The first claim of a life that takes pods is deleted at once.
pub(super) fn discontent(inner: Client) -> Client {
    giving_up(inner, |claim| is_true(claim, NODE_INITIALIZED))
}

/// The first claim of a life that a machine is to be bought for is deleted at once.
pub(super) fn fickle(inner: Client) -> Client {
    giving_up(inner, |claim| {
        let allocation = &claim["status"]["allocation"];
        allocation.is_object() && allocation["instanceID"].is_null()
    })
}

/// The first claim of a life that is found to be so when its status was written is deleted at once.
fn giving_up(inner: Client, is_so: fn(&Value) -> bool) -> Client {
    let content = Arc::new(AtomicBool::new(false));
    through(inner, move |inner, request| {
        let content = Arc::clone(&content);
        async move {
            let path = request.uri().path().to_owned();
            let claim = path
                .strip_suffix("/status")
                .filter(|it| it.contains("/nodeclaims/"));
            let Some(claim) = claim.filter(|_| request.method() == Method::PATCH) else {
                return inner.send(request).await.map_err(BoxError::from);
            };
            let (head, body) = inner.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            let told: Value = serde_json::from_slice(&body).unwrap_or_default();
            if is_so(&told) && !content.swap(true, Ordering::Relaxed) {
                inner.send(Request::delete(claim).body(Body::empty())?).await?;
            }
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
}
