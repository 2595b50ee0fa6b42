//! Volumes, claims, classes, drivers and attachments.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::{Findings, amount};
use super::{each, is_set, placement, text, words};
use crate::quantity::Quantity;

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn access_modes(found: &mut Findings, at: &str, spec: &Value) {
    let path = format!("{at}.accessModes");
    for mode in each(spec, "accessModes") {
        found.one_of(&path, mode, &MODES);
    }
    let alone = each(spec, "accessModes").any(|mode| mode == "ReadWriteOncePod");
    if alone && each(spec, "accessModes").count() > 1 {
        found.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn class_and_mode(found: &mut Findings, at: &str, spec: &Value) {
    if is_set(spec, "storageClassName") {
        let path = format!("{at}.storageClassName");
        found.word(&path, &spec["storageClassName"], words::subdomain);
    }
    found.optional_one_of(
        &format!("{at}.volumeMode"),
        &spec["volumeMode"],
        &["Block", "Filesystem"],
    );
}

/// A claim's specification, wherever it stands.
pub(super) fn claim(found: &mut Findings, at: &str, spec: &Value) {
    if each(spec, "accessModes").next().is_none() {
        found.required(&format!("{at}.accessModes"), "at least 1 access mode is required");
    }
    if spec["selector"].is_object() {
        found.selector(&format!("{at}.selector"), &spec["selector"]);
    }
    access_modes(found, at, spec);
    let storage = &spec["resources"]["requests"]["storage"];
    let path = format!("{at}.resources[storage]");
    if storage.is_null() {
        found.required(&path, "");
    } else if amount(storage) <= Quantity::ZERO {
        found.invalid(&path, storage, "must be greater than zero");
    }
    class_and_mode(found, at, spec);
}

/// The fields of a volume's specification that are not its source.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// What a volume is made of: every source that is given.
pub(super) fn sources(spec: &Value) -> Vec<(&String, &Value)> {
    let fields = spec.as_object().into_iter().flatten();
    fields
        .filter(|(field, value)| !NOT_SOURCES.contains(&field.as_str()) && !value.is_null())
        .collect()
}

pub(super) fn volume(found: &mut Findings, spec: &Value) {
    if each(spec, "accessModes").next().is_none() {
        found.required("spec.accessModes", "");
    }
    access_modes(found, "spec", spec);
    let capacity = &spec["capacity"];
    let count = capacity.as_object().map_or(0, serde_json::Map::len);
    if count == 0 {
        found.required("spec.capacity", "");
    }
    if count != 1 || capacity.get("storage").is_none() {
        found.one_of("spec.capacity", capacity, &["storage"]);
    }
    for (resource, value) in capacity.as_object().into_iter().flatten() {
        if amount(value) <= Quantity::ZERO {
            found.invalid(
                &format!("spec.capacity[{resource}]"),
                value,
                "must be greater than zero",
            );
        }
    }
    found.one_of(
        "spec.persistentVolumeReclaimPolicy",
        &spec["persistentVolumeReclaimPolicy"],
        &["Delete", "Recycle", "Retain"],
    );
    if spec["nodeAffinity"].is_object() {
        if spec["nodeAffinity"]["required"].is_object() {
            placement::node_selector(
                found,
                "spec.nodeAffinity.required",
                &spec["nodeAffinity"]["required"],
            );
        } else {
            found.required(
                "spec.nodeAffinity.required",
                "must specify required node constraints",
            );
        }
    }
    source(found, spec);
    class_and_mode(found, "spec", spec);
}

fn source(found: &mut Findings, spec: &Value) {
    let given = sources(spec);
    for (extra, _) in given.iter().skip(1) {
        found.forbidden(
            &format!("spec.{extra}"),
            "may not specify more than 1 volume type",
        );
    }
    let Some((kind, source)) = given.first() else {
        found.required("spec", "must specify a volume type");
        return;
    };
    let mut required = |fields: &[&str]| {
        for field in fields.iter().filter(|field| text(source, field).is_empty()) {
            found.required(&format!("spec.{kind}.{field}"), "");
        }
    };
    match kind.as_str() {
        "csi" => required(&["driver", "volumeHandle"]),
        "hostPath" => required(&["path"]),
        "nfs" => required(&["server", "path"]),
        "local" => {
            required(&["path"]);
            if !spec["nodeAffinity"].is_object() {
                found.required("spec.nodeAffinity", "Local volume requires node affinity");
            }
        }
        _ => {}
    }
}

pub(super) fn class(found: &mut Findings, class: &Value) {
    match text(class, "provisioner") {
        "" => found.required("provisioner", ""),
        name => {
            let lower = json!(name.to_lowercase());
            found.word("provisioner", &lower, words::qualified_name);
        }
    }
    if class["parameters"].get("").is_some() {
        found.invalid("parameters", &json!(""), "field can not be empty.");
    }
    found.one_of("reclaimPolicy", &class["reclaimPolicy"], &["Delete", "Retain"]);
    found.one_of(
        "volumeBindingMode",
        &class["volumeBindingMode"],
        &["Immediate", "WaitForFirstConsumer"],
    );
    for (index, term) in each(class, "allowedTopologies").enumerate() {
        for (inner, expression) in each(term, "matchLabelExpressions").enumerate() {
            let at = format!("allowedTopologies[{index}].matchLabelExpressions[{inner}]");
            if each(expression, "values").next().is_none() {
                found.required(&format!("{at}.values"), "");
            }
            found.word(&format!("{at}.key"), &expression["key"], words::qualified_name);
        }
    }
}

pub(super) fn node(found: &mut Findings, spec: &Value) {
    const ID_MAX: usize = 192;
    let mut names = BTreeSet::new();
    for (index, driver) in each(spec, "drivers").enumerate() {
        let at = format!("spec.drivers[{index}]");
        driver_name(found, &format!("{at}.name"), &driver["name"]);
        match text(driver, "nodeID") {
            "" => found.required(&format!("{at}.nodeID"), ""),
            id if id.len() > ID_MAX => {
                let detail = format!("must be {ID_MAX} characters or less");
                found.invalid(&format!("{at}.nodeID"), &driver["nodeID"], detail);
            }
            _ => {}
        }
        found.at_least(
            &format!("{at}.allocatable.count"),
            &driver["allocatable"]["count"],
            0,
        );
        let mut keys = BTreeSet::new();
        for key in each(driver, "topologyKeys") {
            if !keys.insert(key.as_str()) {
                found.duplicate(&at, key);
            }
            found.word(&at, key, words::qualified_name);
        }
        if !names.insert(text(driver, "name")) {
            found.duplicate(&format!("{at}.name"), &driver["name"]);
        }
    }
}

fn driver_name(found: &mut Findings, at: &str, name: &Value) {
    match name.as_str().unwrap_or_default() {
        "" => found.required(at, ""),
        text => {
            if text.len() > 63 {
                found.0.push(crate::sim::kube::schema::Cause::too_long(at, 63));
            }
            found.word(at, &json!(text.to_lowercase()), words::subdomain);
        }
    }
}

pub(super) fn driver(found: &mut Findings, spec: &Value) {
    found.one_of(
        "spec.fsGroupPolicy",
        &spec["fsGroupPolicy"],
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    for mode in each(spec, "volumeLifecycleModes") {
        found.one_of("spec.volumeLifecycleModes", mode, &["Ephemeral", "Persistent"]);
    }
}

pub(super) fn attachment(found: &mut Findings, spec: &Value) {
    if text(spec, "attacher").is_empty() {
        found.required("spec.attacher", "");
    }
    driver_name(found, "spec.attacher", &spec["attacher"]);
    let source = &spec["source"];
    let volume = &source["persistentVolumeName"];
    if volume.is_null() && !source["inlineVolumeSpec"].is_object() {
        found.required(
            "spec.source",
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        );
    } else if !volume.is_null() {
        let at = "spec.source.persistentVolumeName";
        if *volume == "" {
            found.required(at, "must specify non empty persistentVolumeName");
        }
        found.word(at, volume, words::subdomain);
    }
    found.word("spec.nodeName", &spec["nodeName"], words::subdomain);
}
