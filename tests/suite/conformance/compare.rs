//! When two answers are equal: in status, reason, cause fields and object, but for what no two clusters share.
//!
//! Uids and resource versions are paired up as they are met: what one cluster calls `7` the other must go on calling
//! `123`. So two answers agree only if they name the *same* objects and versions, and a write that changes nothing must
//! keep its version on both.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::cluster::Answer;

/// Fields that each cluster fills from a stock of its own.
const OWN: [&str; 10] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "healthCheckNodePort",
    "token",
    "certificate",
    "caBundle",
    "selfLink",
    "continue",
    "ca.crt",
];

/// Uids and versions.
static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("<version [0-9]+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap());
static MICRO_TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$").unwrap());
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[smhdy])+( ago)?$").unwrap());
static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new("-[b-df-hj-np-tv-xz24-9]{5}$").unwrap());
static VOLUME: LazyLock<Regex> = LazyLock::new(|| Regex::new("^kube-api-access-[a-z0-9]{5}$").unwrap());

/// Which names of one cluster mean the same as which of the other.
#[derive(Debug, Default)]
pub(super) struct Pairs(BTreeMap<String, String>, BTreeMap<String, String>);

impl Pairs {
    /// Whether two names can mean the same; from now on they do.
    fn agree(&mut self, embedded: &str, real: &str) -> bool {
        let known = self.0.insert(embedded.to_owned(), real.to_owned());
        let known_back = self.1.insert(real.to_owned(), embedded.to_owned());
        known.is_none_or(|known| known == real) && known_back.is_none_or(|known| known == embedded)
    }
}

/// What is compared beside what always is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Also {
    /// The record of who owns which field.
    pub(super) ownership: bool,
    /// How many warnings came along. A real server also warns of what is merely unusual.
    pub(super) warnings: bool,
}

/// What is compared of an answer.
pub(super) fn essence(answer: &Answer, also: Also) -> Value {
    let mut essence = Map::new();
    essence.insert("status".to_owned(), answer.status.as_u16().into());
    if also.warnings {
        let warnings = answer.headers.get_all(http::header::WARNING).iter().count();
        essence.insert("warnings".to_owned(), warnings.into());
    }
    let body = match serde_json::from_slice::<Value>(&answer.body) {
        // A single event is a whole JSON value, too.
        Ok(body) if body["type"].is_string() && body["object"].is_object() => json!([event(body, also)]),
        Ok(body) => object(body, also),
        Err(_) => lines(&answer.body, also),
    };
    essence.insert("body".to_owned(), body);
    Value::Object(essence)
}

/// A stream of watch events; any other text counts as text.
fn lines(body: &[u8], also: Also) -> Value {
    let text = String::from_utf8_lossy(body);
    let events: Option<Vec<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    match events {
        Some(events) => events
            .into_iter()
            .filter(|event| !is_progress(event))
            .map(|it| event(it, also))
            .collect(),
        None => "<text>".into(),
    }
}

/// A bookmark that only says how far the stream is: those come when a server sees fit.
fn is_progress(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null()
}

fn event(mut event: Value, also: Also) -> Value {
    let mut object_of = event["object"].take();
    // A bookmark says how far the stream is, which is no object's version; the rest of it is an empty object's.
    if event["type"] == "BOOKMARK" {
        let fields = object_of.as_object_mut().unwrap();
        fields.retain(|name, _| matches!(name.as_str(), "kind" | "apiVersion" | "metadata"));
        object_of["metadata"]["resourceVersion"] = "<current>".into();
    }
    event["object"] = object(object_of, also);
    event
}

fn object(mut object: Value, also: Also) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if kind == "Status" && object["apiVersion"] == "v1" {
        reduce_status(&mut object);
    }
    let is_list = object["items"].is_array() || object["rows"].is_array();
    if is_list && object["metadata"]["resourceVersion"].is_string() {
        object["metadata"]["resourceVersion"] = "<current>".into();
    }
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        let of = kind.trim_end_matches("List");
        for item in items {
            leave_to_controllers(of, item);
        }
    }
    // Columns are described in a paragraph of documentation each.
    let columns = object.get_mut("columnDefinitions").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        column.as_object_mut().unwrap().remove("description");
    }
    if let Some(status) = object.get_mut("status").filter(|_| kind.ends_with("Review")) {
        explain_less(status);
    }
    leave_to_controllers(&kind, &mut object);
    value(object, also)
}

fn value(of: Value, also: Also) -> Value {
    match of {
        Value::Object(of) => fields(of, also),
        Value::Array(items) => items.into_iter().map(|item| value(item, also)).collect(),
        Value::String(of) => text(of).into(),
        other => other,
    }
}

fn fields(mut fields: Map<String, Value>, also: Also) -> Value {
    if !also.ownership {
        fields.remove("managedFields");
    }
    if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
        entries.retain(|entry| entry["manager"] != "kube-controller-manager");
        // They stand in the order of their times, by the second, and a second may pass between two requests to one server
        // and not between the same to the other.
        let key =
            |entry: &Value| ["manager", "operation", "subresource"].map(|field| entry[field].to_string());
        entries.sort_by_key(key);
    }
    if let Some(Value::String(prefix)) = fields.get("generateName")
        && let Some(Value::String(name)) = fields.get("name")
        && name.len() == prefix.len() + 5
        && name.starts_with(prefix)
    {
        fields.insert("name".to_owned(), format!("{prefix}<suffix>").into());
    }
    if let Some(Value::Array(cells)) = fields.get_mut("cells") {
        cells.iter_mut().for_each(mask_age);
    }
    fields
        .into_iter()
        .map(|(name, it)| {
            let it = match (name.as_str(), it) {
                ("resourceVersion", Value::String(version)) if is_version(&version) => {
                    format!("<version {version}>").into()
                }
                (own, it) if OWN.contains(&own) && !is_empty(&it) => "<own>".into(),
                (_, it) => value(it, also),
            };
            (name, it)
        })
        .collect()
}

fn is_version(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|version| version > 0)
}

fn text(text: String) -> String {
    if TIME.is_match(&text) {
        return "<time>".to_owned();
    }
    if MICRO_TIME.is_match(&text) {
        return "<time with microseconds>".to_owned();
    }
    if VOLUME.is_match(&text) {
        return "kube-api-access-<suffix>".to_owned();
    }
    text
}

/// Reviews say in words why, and name the one of several roles that they happened to look at first.
fn explain_less(status: &mut Value) {
    for words in ["reason", "error"] {
        if let Some(said) = status.get_mut(words) {
            *said = "<words>".into();
        }
    }
}

/// Takes out what the controllers of a real cluster write whenever they come to it.
fn leave_to_controllers(kind: &str, object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "PodDisruptionBudget" | "Namespace" => {
            object.remove("status");
        }
        // A view of what may be a deployment, and what a controller counts.
        "Scale" | "ResourceQuota" => {}
        // Those that taint nodes by their condition, and tell kubelets how long to keep what they read.
        "Node" => {
            let its = |text: &str| {
                text.starts_with("node.kubernetes.io/") || text.starts_with("node.alpha.kubernetes.io/")
            };
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                && let Some(Value::Array(taints)) = spec.get_mut("taints")
            {
                taints.retain(|taint| !taint["key"].as_str().is_some_and(its));
                if taints.is_empty() {
                    spec.remove("taints");
                }
            }
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
                && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
            {
                annotations.retain(|key, _| !its(key));
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
        _ => return,
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.contains_key("resourceVersion")
    {
        metadata.insert("resourceVersion".to_owned(), "<any>".into());
    }
}

/// Only `code`, `reason` and the fields of the causes are promised; texts may differ.
fn reduce_status(status: &mut Value) {
    let fields = status.as_object_mut().unwrap();
    fields.remove("message");
    if let Some(Value::String(name)) = status.pointer_mut("/details/name") {
        *name = GENERATED.replace(name, "-<suffix>").into_owned();
    }
    let Some(causes) = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for cause in causes.iter_mut() {
        cause.as_object_mut().unwrap().remove("message");
    }
    // A real server walks maps in whatever order, and finds some mistakes twice.
    causes.sort_by_key(Value::to_string);
    causes.dedup();
}

fn mask_age(cell: &mut Value) {
    if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
        *cell = "<age>".into();
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Null) || value == "" || value == "None"
}

/// Where two essences differ, one line each.
pub(super) fn differences(pairs: &mut Pairs, embedded: &Value, real: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(pairs, "", Some(embedded), Some(real), &mut found);
    found
}

fn walk(
    pairs: &mut Pairs,
    path: &str,
    embedded: Option<&Value>,
    real: Option<&Value>,
    found: &mut Vec<String>,
) {
    match (embedded, real) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (name, ours) in ours {
                walk(
                    pairs,
                    &format!("{path}/{name}"),
                    Some(ours),
                    theirs.get(name),
                    found,
                );
            }
            for (name, theirs) in theirs.iter().filter(|(name, _)| !ours.contains_key(*name)) {
                walk(pairs, &format!("{path}/{name}"), None, Some(theirs), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            for index in 0..ours.len().max(theirs.len()) {
                let path = format!("{path}/{index}");
                walk(pairs, &path, ours.get(index), theirs.get(index), found);
            }
        }
        (Some(Value::String(ours)), Some(Value::String(theirs))) if mean_the_same(pairs, ours, theirs) => {}
        (ours, theirs) if ours == theirs && !matches!(ours, Some(Value::String(_))) => {}
        (ours, theirs) => {
            let show = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            found.push(format!("{path}: embedded {}, real {}", show(ours), show(theirs)));
        }
    }
}

/// Whether two texts are equal but for the names in them, which must be each other's.
fn mean_the_same(pairs: &mut Pairs, embedded: &str, real: &str) -> bool {
    let names = |text| {
        NAMES
            .find_iter(text)
            .map(|name| name.as_str())
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (names(embedded), names(real));
    NAMES.replace_all(embedded, "") == NAMES.replace_all(real, "")
        && ours.len() == theirs.len()
        && ours
            .into_iter()
            .zip(theirs)
            .fold(true, |all, (ours, theirs)| pairs.agree(ours, theirs) && all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(body: &Value) -> Value {
        let answer = Answer {
            status: http::StatusCode::OK,
            headers: http::HeaderMap::new(),
            body: body.to_string().into_bytes(),
        };
        essence(&answer, Also::default())
    }

    fn equal(pairs: &mut Pairs, embedded: &Value, real: &Value) -> bool {
        differences(pairs, &seen(embedded), &seen(real)).is_empty()
    }

    #[test]
    fn the_same_object_is_recognized_by_any_uid_and_another_is_not() {
        let (one, two) = (
            "0b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11",
            "1b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11",
        );
        let owned = |uid: &str, owner: &str| json!({"metadata": {"owner": owner, "uid": uid}});
        let mut pairs = Pairs::default();
        assert!(equal(&mut pairs, &owned(one, one), &owned(two, two)));
        assert!(!equal(&mut pairs, &owned(one, one), &owned(two, one)));
    }

    #[test]
    fn a_write_that_changes_nothing_must_keep_its_version_on_both() {
        let at = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let mut pairs = Pairs::default();
        assert!(equal(&mut pairs, &at("7"), &at("123")));
        assert!(!equal(&mut pairs, &at("7"), &at("124")));
        assert!(!equal(&mut pairs, &at("8"), &at("124")));
        assert!(equal(&mut pairs, &at("9"), &at("125")));
    }

    #[test]
    fn texts_of_refusals_may_differ_and_reasons_may_not() {
        let refusal = |reason: &str, message: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message,
                   "details": {"causes": [{"field": "a", "reason": reason, "message": message}]}})
        };
        let mut pairs = Pairs::default();
        assert!(equal(
            &mut pairs,
            &refusal("Invalid", "x"),
            &refusal("Invalid", "y")
        ));
        assert!(!equal(
            &mut pairs,
            &refusal("Invalid", "x"),
            &refusal("Conflict", "x")
        ));
    }

    #[test]
    fn a_difference_is_told_by_its_place() {
        let (ours, theirs) = (json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3, "c": 4}]}));
        assert_eq!(
            differences(&mut Pairs::default(), &ours, &theirs),
            ["/a/1/b: embedded 2, real 3", "/a/1/c: embedded absent, real 4"]
        );
    }
}
