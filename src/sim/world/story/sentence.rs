//! What a request does, in words.

use http::Method;
use serde_json::Value;

use crate::sim::history::{Answer, Edge, Request, Who};
use crate::sim::world::effects::{Verb, effect, kube_parts};

/// The sentence about a request, without its subject; none for what nobody asks about.
pub(super) fn of(who: &Who, request: &Request, answer: &Answer) -> Option<String> {
    match (who, request.edge) {
        // People's steps and meddlings are told in words of their own.
        (Who::User | Who::World, _) => None,
        (_, Edge::Cloud) => cloud(request, answer),
        (Who::Replica { .. }, Edge::Kube) => kube(request),
        (Who::Actor(_), Edge::Kube) => actor(request),
    }
}

fn cloud(request: &Request, answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or("?").to_owned();
    let id = request.path.rsplit('/').next().unwrap_or_default();
    match (&request.method, request.path.as_str()) {
        (&Method::POST, "/v1/instances") => Some(format!(
            "orders machine {}: {} in {}",
            text("/name"),
            text("/profile/name"),
            text("/zone/name")
        )),
        (&Method::DELETE, path) if path.starts_with("/v1/instances/") => {
            Some(format!("gives machine {id} back"))
        }
        (&Method::PATCH, path) if path.starts_with("/v1/instances/") => {
            Some(format!("renames machine {id} to {}", text("/name")))
        }
        (&Method::GET, "/v1/instances") => found(request, answer),
        _ => {
            let deed = effect(Edge::Cloud, &request.method, &request.path)?;
            Some(format!("{}s {} at IBM", deed.verb.as_str(), deed.kind))
        }
    }
}

/// A look-up by name that found its machine: the way in which one that may have been bought is adopted.
fn found(request: &Request, answer: &Answer) -> Option<String> {
    let name = form_urlencoded::parse(request.query.as_bytes())
        .find(|(key, _)| key == "name")
        .map(|(_, name)| name.into_owned())?;
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let machine = body.pointer("/instances/0")?;
    let (id, status) = (machine["id"].as_str()?, machine["status"].as_str()?);
    Some(format!("finds machine {name} by its name: {id}, {status}"))
}

fn kube(request: &Request) -> Option<String> {
    let deed = effect(Edge::Kube, &request.method, &request.path)?;
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let (kind, name, subresource) = kube_parts(&request.path)?;
    let object = match name {
        Some(name) => format!("{kind}/{name}"),
        None => format!("{kind}/{}", named(&body)),
    };
    if kind == "nodeclaims" && deed.verb == Verb::Update {
        return Some(claim(&object, &body));
    }
    Some(match (deed.verb, subresource) {
        (Verb::Create, Some("eviction")) => format!("evicts {object}"),
        (Verb::Create, Some(subresource)) => format!("creates {subresource} of {object}"),
        (Verb::Create, None) => format!("creates {object}"),
        (Verb::Update, _) => format!("changes {object}"),
        (Verb::Delete, _) => format!("deletes {object}"),
    })
}

/// What a change of a NodeClaim means.
fn claim(object: &str, body: &Value) -> String {
    let status = &body["status"];
    let allocation = &status["allocation"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(provider_id) = text(&status["providerID"]) {
        return format!(
            "says that {object} is launched as {provider_id}{}",
            conditions(status)
        );
    }
    if let Some(id) = text(&allocation["instanceID"]) {
        return format!(
            "writes down that {object} holds machine {id}{}",
            conditions(status)
        );
    }
    if let (Some(profile), Some(zone)) = (text(&allocation["profile"]), text(&allocation["zone"])) {
        return format!("means to buy {profile} in {zone} for {object}");
    }
    if status.is_object() {
        return format!("writes the status of {object}{}", conditions(status));
    }
    match finalizers(body) {
        Some(Finalizers::Kept) => format!("takes {object} into its care"),
        Some(Finalizers::Dropped) => format!("lets {object} go"),
        None => format!("changes {object}"),
    }
}

enum Finalizers {
    Kept,
    Dropped,
}

/// Whether a merge or JSON patch leaves a finalizer on the object, if it is about that.
fn finalizers(body: &Value) -> Option<Finalizers> {
    if let Some(operations) = body.as_array() {
        let about = |operation: &&Value| {
            let path = operation["path"].as_str().unwrap_or_default();
            path.starts_with("/metadata/finalizers") && operation["op"] != "test"
        };
        return operations.iter().find(about).map(|operation| {
            if operation["op"] == "remove" {
                Finalizers::Dropped
            } else {
                Finalizers::Kept
            }
        });
    }
    let finalizers = body.pointer("/metadata/finalizers")?;
    let some = finalizers.as_array().is_some_and(|list| !list.is_empty());
    Some(if some {
        Finalizers::Kept
    } else {
        Finalizers::Dropped
    })
}

/// The conditions that a status sets, as `: Launched, Registered`.
fn conditions(status: &Value) -> String {
    let conditions = status["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let said: Vec<String> = conditions
        .iter()
        .filter_map(|condition| {
            let kind = condition["type"].as_str()?;
            Some(match condition["status"].as_str() {
                Some("True") => kind.to_owned(),
                _ => format!("not {kind}"),
            })
        })
        .collect();
    if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", said.join(", "))
    }
}

/// Of what the rest of the cluster does: nodes that join, pods that are placed, certificates, deletions.
fn actor(request: &Request) -> Option<String> {
    let (kind, name, subresource) = kube_parts(&request.path)?;
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match (&request.method, kind, name, subresource) {
        (&Method::POST, "nodes", None, None) => Some(format!("registers node {}", named(&body))),
        (&Method::POST, "pods", Some(pod), Some("binding")) => {
            let node = body.pointer("/target/name").and_then(Value::as_str);
            Some(format!("puts pod {pod} on node {}", node.unwrap_or("?")))
        }
        (&Method::POST, "certificatesigningrequests", None, None) => {
            Some("asks for a certificate".to_owned())
        }
        (_, "certificatesigningrequests", Some(name), Some("approval")) => {
            Some(format!("approves certificate request {name}"))
        }
        (&Method::DELETE, kind, Some(name), None) if kind != "leases" => {
            Some(format!("deletes {kind}/{name}"))
        }
        _ => None,
    }
}

fn named(body: &Value) -> String {
    let text = |at: &str| body.pointer(at).and_then(Value::as_str);
    text("/metadata/name")
        .or_else(|| text("/metadata/generateName"))
        .unwrap_or("?")
        .to_owned()
}
