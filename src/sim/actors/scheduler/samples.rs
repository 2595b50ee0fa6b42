//! Small clusters for tests.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::sim::actors::control_plane::{Act, Next, Target};
use crate::sim::actors::view::{Kept, Key, Kind, View};

/// A ready node with 4 CPUs, 16 GiB and room for 10 pods.
pub(in crate::sim::actors) fn node(name: &str, labels: &Value) -> Node {
    let mut labels = labels.clone();
    labels["kubernetes.io/hostname"] = name.into();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "uid": name, "resourceVersion": "1"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
    .unwrap()
}

/// A node in a zone.
pub(in crate::sim::actors) fn zoned(name: &str, zone: &str) -> Node {
    node(name, &json!({"topology.kubernetes.io/zone": zone}))
}

/// A pod in `default` with one container; the fields of `spec` replace its own.
pub(in crate::sim::actors) fn pod(name: &str, labels: &Value, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels, "uid": name, "resourceVersion": "1"},
        "spec": {"containers": [{"name": "c"}]},
    });
    if let Value::Object(fields) = spec {
        for (field, value) in fields {
            pod["spec"][field] = value;
        }
    }
    serde_json::from_value(pod).unwrap()
}

/// A pod that is on a node.
pub(in crate::sim::actors) fn on(node: &str, mut pod: Pod) -> Pod {
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

/// The spec of a pod that asks for CPU.
pub(in crate::sim::actors) fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A view of some nodes and pods.
pub(in crate::sim::actors) fn view(nodes: &[Node], pods: &[Pod]) -> View {
    let mut view = View::default();
    for node in nodes {
        view.apply(node.clone());
    }
    for pod in pods {
        view.apply(pod.clone());
    }
    view
}

/// Adds an object as it stands in a manifest.
pub(in crate::sim::actors) fn add<K: Kept>(view: &mut View, object: Value) {
    view.apply::<K>(serde_json::from_value(object).unwrap());
}

/// Which pod goes where.
pub(in crate::sim::actors) fn bindings(next: &Next) -> Vec<(&str, &str)> {
    let bound = next.acts.iter().filter_map(|act| match act {
        Act::Bind { target, node, .. } => Some((target.name.as_str(), node.as_str())),
        _ => None,
    });
    bound.collect()
}

/// Carries out what an actor wants as an API server would: deletions are graceful for pods on nodes and wait for
/// finalizers.
pub(in crate::sim::actors) fn carry_out(view: &mut View, next: &Next, now: Timestamp) {
    for act in &next.acts {
        match act {
            Act::Create { kind, object, .. } => {
                let mut object = object.clone();
                object["metadata"]["creationTimestamp"] = json!(now.to_string());
                object["metadata"]["uid"] = object["metadata"]["name"].clone();
                object["metadata"]["resourceVersion"] = json!("1");
                view.accept(*kind, object).unwrap();
            }
            Act::Patch { target, patch } | Act::PatchStatus { target, patch } => {
                let mut patch = patch.clone();
                patch["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("resourceVersion");
                write(view, target, &patch);
            }
            Act::Bind { target, node, .. } => {
                let bound =
                    json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now.to_string()});
                let patch = json!({"spec": {"nodeName": node}, "status": {"conditions": [bound], "nominatedNodeName": null}});
                write(view, target, &patch);
            }
            Act::Delete { target, .. } | Act::Evict { target, .. } => {
                let patch = json!({"metadata": {"deletionTimestamp": now.to_string()}});
                write(view, target, &patch);
            }
        }
    }
}

fn write(view: &mut View, target: &Target, patch: &Value) {
    let mut object = current(view, target);
    json_patch::merge(&mut object, patch);
    let version: u64 = object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    let meta = &object["metadata"];
    let held = meta["finalizers"].as_array().is_some_and(|all| !all.is_empty())
        || target.kind == Kind::Pod && object["spec"]["nodeName"].is_string();
    if meta["deletionTimestamp"].is_string() && !held {
        view.bury(target.kind, meta["uid"].as_str().unwrap());
    } else {
        view.accept(target.kind, object).unwrap();
    }
}

fn current(view: &View, target: &Target) -> Value {
    let key = Key::new(&target.namespace, &target.name);
    let object = match target.kind {
        Kind::Pod => serde_json::to_value(&*view.pods[&key]),
        Kind::Node => serde_json::to_value(&*view.nodes[&target.name]),
        Kind::Claim => serde_json::to_value(&*view.claims[&key]),
        Kind::Volume => serde_json::to_value(&*view.volumes[&target.name]),
        Kind::Job => serde_json::to_value(&*view.jobs[&key]),
        Kind::Attachment => serde_json::to_value(&*view.attachments[&target.name]),
        kind => panic!("no actor here writes {kind:?}"),
    };
    object.unwrap()
}
