//! A client of the Kubernetes API that sees less of what a Node must wait for, or does not ask before it acts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::hearsay::{changed, heard, said, through};
use crate::api::names::REASON_SPOT_PREEMPTION;

/// Pods are deleted where they should be evicted, and no disruption budget is looked at.
pub(super) fn with_raw_deletes(inner: Client) -> Client {
    let inner = heard(inner, is_list_of("/poddisruptionbudgets"), |list| {
        list["items"] = json!([]);
    });
    said(inner, |head, body| {
        let pod = head.uri.path().strip_suffix("/eviction").map(str::to_owned);
        let Some(uri) = pod.and_then(|pod| pod.parse::<Uri>().ok()) else {
            return body;
        };
        (head.method, head.uri) = (Method::DELETE, uri);
        json!({"kind": "DeleteOptions", "apiVersion": "v1"})
            .to_string()
            .into()
    })
}

/// Evictions do not say which pod is meant but by its name.
pub(super) fn with_careless_evictions(inner: Client) -> Client {
    said(inner, |head, body| {
        if !head.uri.path().ends_with("/eviction") {
            return body;
        }
        changed(&body, |eviction| {
            if let Some(options) = eviction.get_mut("deleteOptions").and_then(Value::as_object_mut) {
                options.remove("preconditions");
            }
        })
    })
}

/// What pods wish is not read.
pub(super) fn without_wishes(inner: Client) -> Client {
    heard(inner, is_list_of("/pods"), |list| {
        for pod in list["items"].as_array_mut().into_iter().flatten() {
            if let Some(metadata) = pod["metadata"].as_object_mut() {
                metadata.remove("annotations");
            }
        }
    })
}

/// Nodes look empty.
pub(super) fn without_pods(inner: Client) -> Client {
    heard(inner, is_list_of("/pods"), |list| list["items"] = json!([]))
}

/// Nothing looks attached.
pub(super) fn without_attachments(inner: Client) -> Client {
    heard(inner, is_list_of("/volumeattachments"), |list| {
        list["items"] = json!([]);
    })
}

fn is_list_of(kind: &'static str) -> impl Fn(&str) -> bool + Clone + Send + Sync {
    move |path| path.ends_with(kind)
}

/// Whatever is withheld is withheld for a hundred years.
pub(super) fn with_endless_holds(inner: Client) -> Client {
    said(inner, |head, body| {
        if !head.uri.path().contains("/unavailableofferings") {
            return body;
        }
        changed(&body, |object| {
            if object["spec"]["until"].is_string() {
                object["spec"]["until"] = json!("2126-01-01T00:00:00Z");
            }
        })
    })
}

/// Nothing more is heard of what is withheld, and what was written is taken for something else.
pub(super) fn forgetful(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        let query = request.uri().query().unwrap_or_default();
        let concerns = request.uri().path().contains("/unavailableofferings");
        if concerns && query.contains("watch=") {
            std::future::pending::<()>().await;
        }
        let writes = concerns && request.method() != Method::GET;
        let answer = inner.send(request).await?;
        if !writes || !answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = changed(&body.collect_bytes().await?, |hold| {
            if hold["spec"]["key"].is_string() {
                hold["spec"]["key"] = json!("spot:bxf-2x8:us-south-9");
            }
        });
        Ok(Response::from_parts(head, Body::from(body)))
    })
}

/// Each time claims are listed, the first of them is told how often that was: a change each time.
pub(super) fn with_a_diary(inner: Client) -> Client {
    let looked = Arc::new(AtomicU64::new(0));
    through(inner, move |inner, request| {
        let looked = Arc::clone(&looked);
        async move {
            let query = request.uri().query().unwrap_or_default();
            let lists = request.method() == Method::GET
                && request.uri().path().ends_with("/nodeclaims")
                && !query.contains("watch=");
            let path = request.uri().path().to_owned();
            let answer = inner.send(request).await?;
            if !lists {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let body = body.collect_bytes().await?;
            let list: Value = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(name) = list.pointer("/items/0/metadata/name").and_then(Value::as_str) {
                let times = looked.fetch_add(1, Ordering::Relaxed).to_string();
                let seen = json!({"metadata": {"annotations": {"karpenter-ibm.sh/seen": times}}});
                let note = Request::patch(format!("{path}/{name}"))
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(seen.to_string().into_bytes()))?;
                inner.send(note).await?;
            }
            Ok(Response::from_parts(head, Body::from(body)))
        }
    })
}

/// A list with one object that is no good is refused as a whole: here, claims of a class that nobody knows.
pub(super) fn poisoned_by_one(inner: Client) -> Client {
    heard(inner, is_list_of("/nodeclaims"), |list| {
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stray = |claim: &Value| claim["spec"]["nodeClassRef"]["name"] != "default";
        if items.iter().any(stray) {
            *list = json!("the whole list is unreadable");
        }
    })
}

/// Watches of claims begin, and then nothing more is heard.
pub(super) fn deaf(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=") && request.uri().path().ends_with("/nodeclaims") {
            std::future::pending::<()>().await;
        }
        inner.send(request).await.map_err(BoxError::from)
    })
}

/// Whoever tells that a machine was taken back hears that it was told before.
pub(super) fn hushed(inner: Client) -> Client {
    through(inner, |inner, request| async move {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let event: Value = serde_json::from_slice(&body).unwrap_or_default();
        if head.method == Method::POST && event["reason"] == REASON_SPOT_PREEMPTION {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "AlreadyExists",
            });
            let answer = Response::builder().status(StatusCode::CONFLICT);
            return Ok(answer.body(Body::from(status.to_string().into_bytes()))?);
        }
        let request = Request::from_parts(head, Body::from(body));
        inner.send(request).await.map_err(BoxError::from)
    })
}

/// The last IAM token that was seen, shared between both edges.
pub(super) type Overheard = Arc<Mutex<Option<String>>>;

/// Every write of a claim carries the IAM token, for whoever looks into a problem.
pub(super) fn with_the_token(inner: Client, overheard: Overheard) -> Client {
    said(inner, move |head, body| {
        let token = overheard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let plain = !head.uri.path().ends_with("/status") && head.method == Method::PATCH;
        let Some(token) = token.filter(|_| plain && head.uri.path().contains("/nodeclaims/")) else {
            return body;
        };
        let Ok(mut object) = serde_json::from_slice::<Value>(&body) else {
            return body;
        };
        if object.is_object() {
            object["metadata"]["annotations"]["karpenter-ibm.sh/token"] = json!(token);
        }
        object.to_string().into()
    })
}
