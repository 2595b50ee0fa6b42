//! Volumes, claims and the classes and drivers behind them.

use jiff::Timestamp;
use serde_json::Value;

use super::column::{Cells, Printer, age, count, list, named, text, text_or};
use crate::sim::kube::object;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    let (columns, cells): (&'static str, Cells) = match (group, plural) {
        ("", "persistentvolumes") => (
            "Name/name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass \
             | Reason | Age | VolumeMode*",
            volume,
        ),
        ("", "persistentvolumeclaims") => (
            "Name/name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age \
             | VolumeMode*",
            claim,
        ),
        ("storage.k8s.io", "storageclasses") => (
            "Name/name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
            class,
        ),
        ("storage.k8s.io", "csinodes") => ("Name/name | Drivers:integer | Age", csi_node),
        ("storage.k8s.io", "csidrivers") => (
            "Name/name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests \
             | RequiresRepublish:boolean | Modes | Age",
            csi_driver,
        ),
        ("storage.k8s.io", "volumeattachments") => (
            "Name/name | Attacher/name | PV | Node | Attached:boolean | Age",
            attachment,
        ),
        _ => return None,
    };
    Some(Printer { columns, cells })
}

/// The class of a volume or a claim: an old annotation wins over the field.
fn class_of(object: &Value) -> &str {
    let old = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    old.unwrap_or_else(|| text(object, "spec.storageClassName"))
}

/// Short names of access modes, in a fixed order.
fn modes(modes: &[Value]) -> String {
    let names = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |long: &str| modes.iter().any(|mode| mode == long);
    let short: Vec<&str> = names
        .into_iter()
        .filter(|(long, _)| has(long))
        .map(|(_, short)| short)
        .collect();
    short.join(",")
}

fn phase(object: &Value) -> &str {
    if object::is_deleting(object) {
        "Terminating"
    } else {
        text(object, "status.phase")
    }
}

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = &object["spec"]["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
    } else {
        String::new()
    };
    vec![
        named(object),
        text_or(object, "spec.capacity.storage", "0").into(),
        modes(list(object, "spec.accessModes")).into(),
        text(object, "spec.persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class_of(object).into(),
        text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        text(object, "status.reason").into(),
        age(object, now),
        text_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    // What it got is known once it is bound.
    let (capacity, modes) = match text(object, "spec.volumeName") {
        "" => ("", String::new()),
        _ => (
            text_or(object, "status.capacity.storage", "0"),
            modes(list(object, "status.accessModes")),
        ),
    };
    vec![
        named(object),
        phase(object).into(),
        text(object, "spec.volumeName").into(),
        capacity.into(),
        modes.into(),
        class_of(object).into(),
        text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        age(object, now),
        text_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

fn class(object: &Value, now: Timestamp) -> Vec<Value> {
    const DEFAULT: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let annotations = &object["metadata"]["annotations"];
    let mark = if DEFAULT.iter().any(|key| annotations[key] == "true") {
        " (default)"
    } else {
        ""
    };
    vec![
        format!("{}{mark}", object::name(object)).into(),
        text(object, "provisioner").into(),
        text_or(object, "reclaimPolicy", "Delete").into(),
        text_or(object, "volumeBindingMode", "Immediate").into(),
        (object["allowVolumeExpansion"] == true).into(),
        age(object, now),
    ]
}

fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        named(object),
        count(object, "spec.drivers").into(),
        age(object, now),
    ]
}

fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let joined = |items: &[Value], field: Option<&str>| -> String {
        let texts = items.iter().map(|item| field.map_or(item, |field| &item[field]));
        texts.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    let tokens = match &spec["tokenRequests"] {
        Value::Array(requests) => joined(requests, Some("audience")),
        _ => "<unset>".to_owned(),
    };
    let modes = super::column::or_none(joined(list(spec, "volumeLifecycleModes"), None));
    vec![
        named(object),
        (spec["attachRequired"] != false).into(),
        (spec["podInfoOnMount"] == true).into(),
        (spec["storageCapacity"] == true).into(),
        tokens.into(),
        (spec["requiresRepublish"] == true).into(),
        modes.into(),
        age(object, now),
    ]
}

fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        named(object),
        text(object, "spec.attacher").into(),
        text(object, "spec.source.persistentVolumeName").into(),
        text(object, "spec.nodeName").into(),
        (object["status"]["attached"] == true).into(),
        age(object, now),
    ]
}
