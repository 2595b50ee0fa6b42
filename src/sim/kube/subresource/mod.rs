//! Paths below an object that are not just a view of it: scale, eviction, binding, approval, token.

mod binding;
mod eviction;
mod scale;

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::builtin;
use super::decode;
use super::identity::{User, node_restriction, token_request};
use super::kind::Kind;
use super::read::key;
use super::refusal::Refusal;
use super::request::{Ask, Verb};
use super::server::{ApiServer, json_response};

/// Paths at which the object itself is read and written, in part.
const VIEWS: [&str; 5] = ["status", "finalize", "approval", "ephemeralcontainers", "resize"];

/// Answers a request to such a path; `None` if it is for the ordinary verbs (no subresource, or a view of the object).
pub async fn answer(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Option<Response>, Refusal> {
    if ask.target.subresource.as_deref() == Some("eviction") {
        let key = key(ask);
        node_restriction::check_eviction(&server.state(), user, &key.namespace, &key.name)?;
    }
    match (ask.target.subresource.as_deref(), ask.verb) {
        (None, _) => Ok(None),
        (Some(view), Verb::Get | Verb::Update | Verb::Patch) if VIEWS.contains(&view) => Ok(None),
        (Some("token"), _) => token_request::answer(server, user, ask, body).map(Some),
        (Some("scale"), _) => scale::answer(server, user, kind, ask, body).await.map(Some),
        (Some("eviction"), Verb::Create) => eviction::evict(server, user, kind, ask, body).await.map(Some),
        (Some("binding"), Verb::Create) => binding::bind(server, user, kind, ask, body).await.map(Some),
        (Some("eviction" | "binding"), _) => Err(Refusal::method_not_allowed()),
        (Some(view), _) if VIEWS.contains(&view) => Err(Refusal::method_not_allowed()),
        (Some(_), _) => Err(Refusal::no_such_path()),
    }
}

/// Decodes what is sent to such a path: an object of another kind, about the object in the path. What does not say its
/// kind is taken for one of the right kind; kube's own client sends evictions so.
fn sent(ask: &Ask, body: &Bytes, api_version: &str, kind: &str) -> Result<Value, Refusal> {
    let mut object = decode::any(&ask.content_type, body)?;
    // The one that clients from before 1.22 send; the rest of it is the same.
    if object["apiVersion"] == "policy/v1beta1" && kind == "Eviction" {
        object["apiVersion"] = api_version.into();
    }
    for (field, expected) in [("apiVersion", api_version), ("kind", kind)] {
        if object[field].as_str().unwrap_or_default().is_empty() {
            object[field] = expected.into();
        }
    }
    let said = |field: &str| object[field].as_str().unwrap_or_default();
    if said("apiVersion") != api_version || said("kind") != kind {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({}, Kind={}) does not match the expected API version ({api_version}, Kind={kind})",
            said("apiVersion"),
            said("kind")
        )));
    }
    builtin::conform(api_version, kind, &mut object)
        .map_err(|mismatch| Refusal::bad_request(format!("{kind} cannot be handled: {mismatch}")))?;
    Ok(object)
}

/// 201: it was done.
fn done() -> Response {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    json_response(StatusCode::CREATED, &status)
}

/// Sets a pod's condition; what is true already stays as it is.
fn set_condition(pod: &mut Value, mut condition: Value, now: &str) {
    let fields = super::object::object_mut(&mut pod["status"]);
    let list = fields.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = now.into();
    match list.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}
