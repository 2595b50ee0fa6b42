//! `scale`: the replica count of anything that has one, as an `autoscaling/v1` Scale.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::sent;
use crate::sim::kube::builtin::{self, label_selector};
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::{Kind, ScalePaths};
use crate::sim::kube::object;
use crate::sim::kube::read;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::{Ask, Verb};
use crate::sim::kube::schema::Cause;
use crate::sim::kube::server::{ApiServer, about, json_response};
use crate::sim::kube::write;

/// Reads or changes the scale of an object.
pub(super) async fn answer(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let key = read::key(ask);
    match ask.verb {
        Verb::Get => {
            let stored = server.state().store.get(&kind.table(), &key).cloned();
            let stored = stored.ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?;
            let object = stored.value();
            if let Some(paths) = custom_paths(kind)
                && object::at(&object, &paths.spec).is_null()
            {
                let problem = format!("the spec replicas field \"{}\" does not exist", paths.spec);
                return Err(Refusal::internal_error(&problem));
            }
            Ok(json_response(StatusCode::OK, &of(kind, &object)))
        }
        Verb::Update => {
            let scale = sent(ask, body, "autoscaling/v1", "Scale")?;
            if object::name(&scale) != key.name {
                return Err(Refusal::bad_request(format!(
                    "the name of the object ({}) does not match the name on the URL ({})",
                    object::name(&scale),
                    key.name
                )));
            }
            change(server, user, kind, ask, &|_| Ok(scale.clone())).await
        }
        Verb::Patch => change(server, user, kind, ask, &|old| patched(ask, body, old)).await,
        _ => Err(Refusal::method_not_allowed()),
    }
}

/// Makes a new scale from the old one, and the object from that.
async fn change(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    to: &(dyn Fn(Value) -> Result<Value, Refusal> + Send + Sync),
) -> Result<Response, Refusal> {
    let changed = |old: &Value| {
        let scale = to(of(kind, old))?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        // Of a custom kind its own rules have a say, too.
        if replicas < 0 && kind.custom().is_none() {
            let detail = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &json!(replicas), detail);
            let about = About {
                group: "autoscaling",
                kind: "Scale",
                name: object::name(old),
            };
            return Err(Refusal::invalid(about, vec![cause]));
        }
        let mut object = old.clone();
        for precondition in ["resourceVersion", "uid"] {
            let value = object::meta(&scale, precondition).to_owned();
            let metadata = object::metadata_mut(&mut object);
            match value.as_str() {
                "" => metadata.remove(precondition),
                value => metadata.insert(precondition.to_owned(), value.into()),
            };
        }
        let path = custom_paths(kind).map_or(".spec.replicas", |paths| &paths.spec);
        set(&mut object, path, replicas.into());
        Ok(object)
    };
    let written = write::change(server, user, kind, ask, &changed).await?;
    Ok(json_response(StatusCode::OK, &of(kind, &written.object)))
}

/// The scale after a patch. It has no lists, so that a strategic merge is a merge.
fn patched(ask: &Ask, body: &Bytes, mut scale: Value) -> Result<Value, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::bad_request(error.to_string());
    match ask.content_type.as_str() {
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let patch: Value = serde_json::from_slice(body).map_err(|error| bad(&error))?;
            json_patch::merge(&mut scale, &patch);
        }
        "application/json-patch+json" => {
            let patch: json_patch::Patch = serde_json::from_slice(body).map_err(|error| bad(&error))?;
            json_patch::patch(&mut scale, &patch).map_err(|error| bad(&error))?;
        }
        other => {
            return Err(Refusal::unsupported_media_type(format!(
                "the body of the request was in an unknown format ({other})"
            )));
        }
    }
    builtin::conform("autoscaling/v1", "Scale", &mut scale).map_err(|mismatch| bad(&mismatch))?;
    Ok(scale)
}

fn custom_paths(kind: &Kind) -> Option<&ScalePaths> {
    kind.custom()?.scale.as_ref()
}

/// The scale of an object.
fn of(kind: &Kind, object: &Value) -> Value {
    let (spec, status, selector) = match custom_paths(kind) {
        Some(paths) => {
            let selector = paths.selector.as_deref().map(|path| object::at(object, path));
            let selector = selector.and_then(Value::as_str).unwrap_or_default().to_owned();
            (paths.spec.as_str(), paths.status.as_str(), selector)
        }
        None => (".spec.replicas", ".status.replicas", built_in_selector(object)),
    };
    let number = |path: &str| object::at(object, path).as_i64().unwrap_or_default();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[field] = object["metadata"][field].clone();
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(spec)},
        "status": {"replicas": number(status), "selector": selector},
    });
    // What is made here has the right types.
    let _ = builtin::conform("autoscaling/v1", "Scale", &mut scale);
    scale
}

/// Replication controllers select by a plain map.
fn built_in_selector(object: &Value) -> String {
    let selector = &object["spec"]["selector"];
    if object["kind"] == "ReplicationController" {
        label_selector::as_text(&json!({"matchLabels": selector}))
    } else {
        label_selector::as_text(selector)
    }
}

/// Sets the value at a dotted path, making what is missing on the way.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        place = object::object_mut(place).entry(part).or_insert(Value::Null);
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;
    use crate::sim::kube::trial::Trial;

    #[test]
    fn a_scale_shows_counts_and_selector() {
        let deployments = Registry::default().find("apps", "v1", "deployments").unwrap();
        let object = json!({
            "kind": "Deployment", "metadata": {"name": "d", "namespace": "n", "uid": "u", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}}, "status": {"replicas": 2},
        });
        assert_eq!(
            of(&deployments, &object),
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d", "namespace": "n", "uid": "u"},
                   "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn scaling_changes_the_replicas_and_nothing_else() {
        let trial = Trial::new();
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let made = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                          "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
        let made = trial.create(deployments, made).await;
        let scale = |replicas: i64, version: &Value| {
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas},
                   "metadata": {"name": "d", "resourceVersion": version}})
        };
        let path = format!("{deployments}/d/scale");
        let version = &made["metadata"]["resourceVersion"];
        let scaled = trial.put(&path, scale(3, version)).await;
        assert_eq!(scaled["spec"]["replicas"], 3);
        assert_eq!(trial.send("PUT", &path, scale(4, version)).await.0, 409);
        assert_eq!(trial.send("PUT", &path, scale(-1, &json!(""))).await.0, 422);
        let patch = json!({"spec": {"replicas": 0}});
        assert_eq!(trial.send("PATCH", &path, patch).await.0, 200);
        let (_, now) = trial.get(&format!("{deployments}/d")).await;
        assert_eq!(
            (&now["spec"]["replicas"], &now["metadata"]["generation"]),
            (&json!(0), &json!(3))
        );
        assert_eq!(now["spec"]["template"], made["spec"]["template"]);
    }

    #[test]
    fn a_path_is_made_where_it_is_missing() {
        let mut object = json!({"metadata": {}});
        set(&mut object, ".spec.size.replicas", json!(2));
        assert_eq!(object["spec"]["size"]["replicas"], 2);
    }
}
