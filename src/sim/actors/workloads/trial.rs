//! Objects for tests of the controllers, and what a controller wants in few words.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::view::{Kept, View};

/// A second of the trial's time.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An object from JSON.
pub(super) fn object<K: Kept>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// An object in the default namespace; its uid is `uid-<name>` and its version 1 unless it says otherwise.
pub(super) fn named<K: Kept>(name: &str, mut value: Value) -> K {
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1",
                          "generation": 1, "creationTimestamp": at(0).to_string()});
    for (key, field) in metadata.as_object().unwrap() {
        if value["metadata"].get(key).is_none() {
            value["metadata"][key] = field.clone();
        }
    }
    object(value)
}

/// A pending pod of nobody.
pub(super) fn pod(name: &str) -> Pod {
    named(
        name,
        json!({"spec": {"containers": []}, "status": {"phase": "Pending"}}),
    )
}

/// The pod under a controller.
pub(super) fn owned(mut pod: Pod, kind: &str, owner: &str) -> Pod {
    let reference = json!({"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": format!("uid-{owner}"),
                           "controller": true});
    pod.metadata.owner_references = Some(vec![serde_json::from_value(reference).unwrap()]);
    pod
}

/// The pod on a node.
pub(super) fn on(mut pod: Pod, node: &str) -> Pod {
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

/// The pod in a phase.
pub(super) fn in_phase(mut pod: Pod, phase: &str) -> Pod {
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
    pod
}

/// The pod running and ready since a second.
pub(super) fn ready(pod: Pod, since: i64) -> Pod {
    let mut pod = in_phase(pod, "Running");
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(since).to_string()});
    pod.status.as_mut().unwrap().conditions = Some(vec![serde_json::from_value(condition).unwrap()]);
    pod
}

/// The pod with a label.
pub(super) fn labeled(mut pod: Pod, key: &str, value: &str) -> Pod {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
    pod
}

/// The pod being deleted.
pub(super) fn deleting(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(at(1).into());
    pod
}

/// A view with these objects of one kind.
pub(super) fn with<K: Kept>(mut view: View, objects: impl IntoIterator<Item = K>) -> View {
    for object in objects {
        view.apply(object);
    }
    view
}

/// What is wanted, one line each: `create default/x-`, `delete p`, `patch x {..}`, `status x {..}`.
pub(super) fn told(next: &Next) -> Vec<String> {
    next.acts.iter().map(tell).collect()
}

fn tell(act: &Act) -> String {
    let without_version = |patch: &Value| {
        let mut patch = patch.clone();
        let metadata = patch["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        if metadata.is_empty() {
            patch.as_object_mut().unwrap().remove("metadata");
        }
        patch
    };
    match act {
        Act::Create { kind, object, .. } => {
            let name = &object["metadata"]["name"];
            let name = name
                .as_str()
                .or(object["metadata"]["generateName"].as_str())
                .unwrap();
            format!("create {kind:?} {name}")
        }
        Act::Patch { target, patch } => format!("patch {} {}", target.name, without_version(patch)),
        Act::PatchStatus { target, patch } => format!("status {} {}", target.name, patch["status"]),
        Act::Delete {
            target,
            grace: Some(0),
            ..
        } => format!("delete {} now", target.name),
        Act::Delete { target, .. } => format!("delete {}", target.name),
        Act::Evict { target, .. } => format!("evict {}", target.name),
        Act::Bind { target, node, .. } => format!("bind {} {node}", target.name),
    }
}

/// What is wanted apart from statuses.
pub(super) fn deeds(next: &Next) -> Vec<String> {
    let mut told = told(next);
    told.retain(|line| !line.starts_with("status "));
    told
}

/// The status that is wanted for an object, if it is to change.
pub(super) fn status(next: &Next, name: &str) -> Value {
    let mut statuses = next.acts.iter().filter_map(|act| match act {
        Act::PatchStatus { target, patch } if target.name == name => Some(patch["status"].clone()),
        _ => None,
    });
    statuses.next_back().unwrap_or_default()
}

/// A node with more to it.
pub(super) fn node(name: &str, value: Value) -> k8s_openapi::api::core::v1::Node {
    let mut node: k8s_openapi::api::core::v1::Node = named(name, value);
    node.metadata.namespace = None;
    node
}
