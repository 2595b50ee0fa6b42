//! ConfigMaps, Secrets and limits of namespaces.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::findings::{Findings, amount};
use super::{each, is_set, text, words};
use crate::quantity::Quantity;
use crate::sim::kube::schema::Cause;

/// What etcd takes, less some room.
const BYTES_MAX: usize = 1 << 20;

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}

fn bytes(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    STANDARD.decode(text).map_or(0, |bytes| bytes.len())
}

pub(super) fn config_map(found: &mut Findings, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(&object["data"]) {
        found.word(&format!("data[{key}]"), &json!(key), words::config_key);
        if object["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            found.invalid(&format!("data[{key}]"), &json!(key), detail);
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in entries(&object["binaryData"]) {
        found.word(&format!("binaryData[{key}]"), &json!(key), words::config_key);
        size += bytes(value);
    }
    if size > BYTES_MAX {
        // A real server has no field to blame, and says so.
        found.0.push(Cause::too_long("[]", BYTES_MAX as u64));
    }
}

pub(super) fn secret(found: &mut Findings, object: &Value) {
    let data = &object["data"];
    let mut size = 0;
    for (key, value) in entries(data) {
        found.word(&format!("data[{key}]"), &json!(key), words::config_key);
        size += bytes(value);
    }
    if size > BYTES_MAX {
        found.0.push(Cause::too_long("data", BYTES_MAX as u64));
    }
    let mut needs = |keys: &[&str]| {
        for key in keys.iter().filter(|key| data.get(**key).is_none()) {
            found.required(&format!("data[{key}]"), "");
        }
    };
    match text(object, "type") {
        "kubernetes.io/tls" => needs(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => needs(&["ssh-privatekey"]),
        "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
            needs(&["username", "password"]);
        }
        "kubernetes.io/dockerconfigjson" => {
            needs(&[".dockerconfigjson"]);
            is_json(found, ".dockerconfigjson", data);
        }
        "kubernetes.io/dockercfg" => {
            needs(&[".dockercfg"]);
            is_json(found, ".dockercfg", data);
        }
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            if !is_set(&object["metadata"]["annotations"], NAME) {
                found.required(&format!("metadata.annotations[{NAME}]"), "");
            }
        }
        _ => {}
    }
}

fn is_json(found: &mut Findings, key: &str, data: &Value) {
    let Some(encoded) = data[key].as_str() else { return };
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if serde_json::from_slice::<Value>(&decoded).is_err() {
        let hidden = json!("<secret contents redacted>");
        found.invalid(&format!("data[{key}]"), &hidden, "is not JSON");
    }
}

/// What is counted is counted in whole numbers.
pub(super) fn quota(found: &mut Findings, spec: &Value) {
    const COUNTED: [&str; 9] = [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    for (resource, value) in entries(&spec["hard"]) {
        let at = format!("spec.hard[{resource}]");
        if amount(value) < Quantity::ZERO {
            found.invalid(&at, value, "must be greater than or equal to 0");
        }
        if COUNTED.contains(&resource.as_str()) && amount(value).nanos() % 1_000_000_000 != 0 {
            found.invalid(&at, value, "must be an integer");
        }
    }
}

/// What limits can be for, besides what has a domain.
const LIMITED: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

pub(super) fn limit_range(found: &mut Findings, spec: &Value) {
    let mut kinds = std::collections::BTreeSet::new();
    for (index, item) in each(spec, "limits").enumerate() {
        let at = format!("spec.limits[{index}]");
        let path = format!("{at}.type");
        let before = found.0.len();
        found.word(&path, &item["type"], words::qualified_name);
        let kind = text(item, "type");
        if found.0.len() == before && !kind.contains('/') && !LIMITED.contains(&kind) {
            let detail = "must be a standard limit type or fully qualified";
            found.invalid(&path, &item["type"], detail);
        }
        if !kinds.insert(text(item, "type")) {
            found.duplicate(&format!("{at}.type"), &item["type"]);
        }
        for (smaller, greater) in [
            ("min", "max"),
            ("defaultRequest", "max"),
            ("min", "defaultRequest"),
            ("min", "default"),
            ("default", "max"),
            ("defaultRequest", "default"),
        ] {
            for (resource, least) in entries(&item[smaller]) {
                let Some(most) = item[greater]
                    .get(resource)
                    .filter(|most| amount(least) > amount(most))
                else {
                    continue;
                };
                // The minimum is blamed against the maximum, and otherwise what is compared with it.
                let (blamed, value) = if greater == "max" || smaller != "min" {
                    (smaller, least)
                } else {
                    (greater, most)
                };
                let detail = format!(
                    "{smaller} value {} is greater than {greater} value {}",
                    amount(least),
                    amount(most)
                );
                found.invalid(&format!("{at}.{blamed}[{resource}]"), value, detail);
            }
        }
    }
}
