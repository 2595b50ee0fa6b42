//! `scale`: the replica count of anything that has one, as an `autoscaling/v1` Scale.
//!
//! It is written as any object is, in every format and with field ownership; what comes of it is carried over to the
//! object behind it.

mod ownership;

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::sim::kube::builtin::{self, label_selector};
use crate::sim::kube::decode;
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::{Kind, Nature, ScalePaths, Verbs};
use crate::sim::kube::object;
use crate::sim::kube::patch::managers::Managers;
use crate::sim::kube::patch::{self, Format, managed};
use crate::sim::kube::read;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::request::{Ask, Verb};
use crate::sim::kube::schema::Cause;
use crate::sim::kube::server::{ApiServer, about, json_response};
use crate::sim::kube::write;

/// The replicas of a custom resource that says none, while its scale is written.
const NONE: i32 = i32::MIN;

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
            let scales = scales(kind);
            let decoded = decode::object(&scales, ask, body)?;
            let mut sent = decoded.object;
            write::place(&scales, ask, &mut sent)?;
            if object::name(&sent) != key.name {
                return Err(Refusal::bad_request(format!(
                    "the name of the object ({}) does not match the name on the URL ({})",
                    object::name(&sent),
                    key.name
                )));
            }
            change(server, user, kind, ask, &|_| Ok(sent.clone())).await
        }
        Verb::Patch => {
            let scales = scales(kind);
            let format = Format::of(kind, &ask.content_type).map_err(|refusal| match kind.custom() {
                Some(_) => Refusal::unsupported_media_type(refusal.message()),
                None => refusal,
            })?;
            patch::check_options(format, ask)?;
            let now = server.timestamp();
            let patched = |live: &Value| {
                if format == Format::Apply && kind.custom().is_some() {
                    let (applied, _) = patch::applied(&scales, ask, body, &now, live)?;
                    check_application(live, &applied)?;
                }
                patch::outcome(&scales, ask, format, body, &now, live).map(|patched| patched.object)
            };
            change(server, user, kind, ask, &patched).await
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

/// A real server means to convert the scale of a custom resource that was applied to as if it were the resource itself,
/// and fails. Nothing of it is needed if nothing changes.
fn check_application(live: &Value, applied: &Value) -> Result<(), Refusal> {
    if managed::same(live, applied) {
        return Ok(());
    }
    Err(Refusal::failure(
        "failed to convert new object to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
    ))
}

/// The kind of the scales of a kind.
fn scales(kind: &Kind) -> Kind {
    Kind {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        verbs: Verbs::All,
        nature: Nature::BuiltIn,
        subresources: Vec::new(),
        ..kind.clone()
    }
}

/// Makes a new scale from the old one, and the object from that.
async fn change(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    to: &(dyn Fn(&Value) -> Result<Value, Refusal> + Send + Sync),
) -> Result<Response, Refusal> {
    let scales = scales(kind);
    let path = custom_paths(kind).map_or(".spec.replicas", |paths| &paths.spec);
    let replicas = ownership::replicas(path);
    let changed = |old: &Value| {
        let managers = Managers::parse(&old["metadata"]["managedFields"]).unwrap_or_default();
        let mut live = of(kind, old);
        if custom_paths(kind).is_some() && object::at(old, path).is_null() {
            live["spec"] = json!({"replicas": NONE});
        }
        managed::write(&ownership::of_scale(&managers, &replicas), &mut live);
        let mut scale = to(&live)?;
        let record = scale["metadata"].get("managedFields").cloned();
        // What has the right types already keeps them.
        let _ = builtin::conform("autoscaling/v1", "Scale", &mut scale);
        managed::updated(&scales, ask, server, &live, record, &mut scale);
        let count = count(kind, path, old, &scale)?;
        if ask.verb == Verb::Patch {
            check_uid(kind, old, &mut scale)?;
        }
        let mut object = old.clone();
        put_preconditions(&scale, &mut object);
        set(&mut object, path, count.into());
        let owners = Managers::parse(&scale["metadata"]["managedFields"]).unwrap_or_default();
        let owners = ownership::of_object(kind, &managers, &owners, &replicas);
        managed::write(&owners, &mut object);
        Ok(object)
    };
    let written = write::change(server, user, kind, ask, &changed).await?;
    Ok(json_response(StatusCode::OK, &of(kind, &written.object)))
}

/// The count that a scale asks for, if it can be one.
fn count(kind: &Kind, path: &str, old: &Value, scale: &Value) -> Result<i64, Refusal> {
    let count = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if kind.custom().is_some() {
        if count == i64::from(NONE) {
            let problem = format!("the spec replicas field \"{path}\" cannot be empty");
            return Err(Refusal::bad_request(problem));
        }
        // The kind's own rules have a say about the rest.
        return Ok(count);
    }
    if count >= 0 {
        return Ok(count);
    }
    let cause = Cause::invalid(
        "spec.replicas",
        &json!(count),
        "must be greater than or equal to 0",
    );
    let about = About {
        group: "autoscaling",
        kind: "Scale",
        name: object::name(old),
    };
    Err(Refusal::invalid(about, vec![cause]))
}

/// A patched scale is of the object whose uid it has; of a custom resource nobody looks.
fn check_uid(kind: &Kind, old: &Value, scale: &mut Value) -> Result<(), Refusal> {
    let uid = object::metadata_mut(scale).remove("uid").unwrap_or_default();
    let (uid, actual) = (uid.as_str().unwrap_or_default(), object::uid(old));
    if uid.is_empty() || uid == actual || kind.custom().is_some() {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
    let about = About {
        group: &kind.group,
        kind: &format!("{}/scale", kind.plural),
        name: object::name(old),
    };
    Err(Refusal::conflict(about, why))
}

/// The object that a scale is of must be the one that it says, in the version that it says.
fn put_preconditions(scale: &Value, object: &mut Value) {
    for precondition in ["resourceVersion", "uid"] {
        let value = object::meta(scale, precondition).to_owned();
        let metadata = object::metadata_mut(object);
        match value.as_str() {
            "" => metadata.remove(precondition),
            value => metadata.insert(precondition.to_owned(), value.into()),
        };
    }
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
