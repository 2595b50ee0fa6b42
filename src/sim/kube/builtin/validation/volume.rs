//! The volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::{inner_path, no_way_up};
use super::findings::{Findings, amount};
use super::{each, is_set, storage, text, words};
use crate::quantity::Quantity;

/// The volumes of a pod; their names.
pub(super) fn list<'a>(found: &mut Findings, at: &str, spec: &'a Value) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in each(spec, "volumes").enumerate() {
        let at = format!("{at}[{index}]");
        source(found, &at, volume);
        let name = text(volume, "name");
        let path = format!("{at}.name");
        if name.is_empty() {
            found.required(&path, "");
            continue;
        }
        let before = found.0.len();
        found.word(&path, &volume["name"], words::label);
        if found.0.len() == before && !names.insert(name) {
            found.duplicate(&path, &volume["name"]);
        }
    }
    names
}

/// The order in which a server looks at sources; the first is taken for the one that is meant.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "configMap",
    "persistentVolumeClaim",
    "rbd",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "azureFile",
    "cinder",
    "azureDisk",
    "portworxVolume",
    "vsphereVolume",
    "photonPersistentDisk",
    "scaleIO",
    "storageos",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

fn source(found: &mut Findings, at: &str, volume: &Value) {
    let given: Vec<&str> = SOURCES
        .into_iter()
        .filter(|source| is_set(volume, source))
        .collect();
    for extra in given.iter().skip(1) {
        found.forbidden(
            &format!("{at}.{extra}"),
            "may not specify more than 1 volume type",
        );
    }
    let Some(kind) = given.first() else {
        found.required(at, "must specify a volume type");
        return;
    };
    let (at, source) = (format!("{at}.{kind}"), &volume[*kind]);
    let mut required = |field: &str| {
        if text(source, field).is_empty() {
            found.required(&format!("{at}.{field}"), "");
        }
    };
    match *kind {
        "secret" => required("secretName"),
        "configMap" => required("name"),
        "persistentVolumeClaim" => required("claimName"),
        "csi" => required("driver"),
        "hostPath" => {
            required("path");
            no_way_up(found, &format!("{at}.path"), &source["path"]);
        }
        "nfs" => {
            required("server");
            required("path");
        }
        "emptyDir" if amount(&source["sizeLimit"]) < Quantity::ZERO => {
            let detail = "SizeLimit field must be a valid resource quantity";
            found.forbidden(&format!("{at}.sizeLimit"), detail);
        }
        "ephemeral" => {
            let template = &source["volumeClaimTemplate"];
            if template.is_object() {
                storage::claim(
                    found,
                    &format!("{at}.volumeClaimTemplate.spec"),
                    &template["spec"],
                );
            } else {
                found.required(&format!("{at}.volumeClaimTemplate"), "");
            }
        }
        _ => {}
    }
    mode(found, &format!("{at}.defaultMode"), &source["defaultMode"]);
    items(found, &at, source);
    for (index, projection) in each(source, "sources").enumerate() {
        let at = format!("{at}.sources[{index}]");
        for kind in ["secret", "configMap"]
            .iter()
            .filter(|kind| is_set(projection, kind))
        {
            let at = format!("{at}.{kind}");
            if text(&projection[*kind], "name").is_empty() {
                found.required(&format!("{at}.name"), "");
            }
            items(found, &at, &projection[*kind]);
        }
    }
}

fn items(found: &mut Findings, at: &str, source: &Value) {
    for (index, item) in each(source, "items").enumerate() {
        let at = format!("{at}.items[{index}]");
        let keyed = source.get("secretName").is_some() || source.get("name").is_some();
        if keyed && text(item, "key").is_empty() {
            found.required(&format!("{at}.key"), "");
        }
        match text(item, "path") {
            "" => found.required(&format!("{at}.path"), ""),
            _ => inner_path(found, &format!("{at}.path"), &item["path"]),
        }
        mode(found, &format!("{at}.mode"), &item["mode"]);
    }
}

fn mode(found: &mut Findings, at: &str, value: &Value) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        found.invalid(at, value, detail);
    }
}
