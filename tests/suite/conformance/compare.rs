//! When two answers are equal: in status, reason, cause fields and object, but for what no two clusters share.
//!
//! Uids and resource versions are numbered in the order in which a cluster first showed them, so that two answers agree
//! only if they name the *same* objects and versions: a write that changes nothing must keep its version on both.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

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

static UID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap());
static MICRO_TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$").unwrap());
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[smhdy])+( ago)?$").unwrap());
static VOLUME: LazyLock<Regex> = LazyLock::new(|| Regex::new("^kube-api-access-[a-z0-9]{5}$").unwrap());

/// The names that one cluster gave, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Given {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
}

/// Whether the record of who owns which field is compared too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    Ignored,
    Compared,
}

impl Given {
    /// What is compared of an answer.
    pub(super) fn essence(&mut self, answer: &Answer, ownership: Ownership) -> Value {
        let mut essence = Map::new();
        essence.insert("status".to_owned(), answer.status.as_u16().into());
        let warnings = answer.headers.get_all(http::header::WARNING).iter().count();
        essence.insert("warnings".to_owned(), warnings.into());
        let body = match serde_json::from_slice::<Value>(&answer.body) {
            Ok(body) => self.object(body, ownership),
            Err(_) => self.lines(&answer.body, ownership),
        };
        essence.insert("body".to_owned(), body);
        Value::Object(essence)
    }

    /// A stream of watch events; any other text stays as it is.
    fn lines(&mut self, body: &[u8], ownership: Ownership) -> Value {
        let text = String::from_utf8_lossy(body);
        let events: Option<Vec<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
        match events {
            Some(events) => events
                .into_iter()
                .map(|event| self.event(event, ownership))
                .collect(),
            None => "<text>".into(),
        }
    }

    fn event(&mut self, mut event: Value, ownership: Ownership) -> Value {
        let mut object = event["object"].take();
        // A bookmark says how far the stream is, which is no object's version.
        if event["type"] == "BOOKMARK" {
            object["metadata"]["resourceVersion"] = "<current>".into();
        }
        event["object"] = self.object(object, ownership);
        event
    }

    fn object(&mut self, mut object: Value, ownership: Ownership) -> Value {
        if object["kind"] == "Status" && object["apiVersion"] == "v1" {
            reduce_status(&mut object);
        }
        let is_list = object["items"].is_array() || object["rows"].is_array();
        if is_list && object["metadata"]["resourceVersion"].is_string() {
            object["metadata"]["resourceVersion"] = "<current>".into();
        }
        self.value(object, ownership)
    }

    fn value(&mut self, value: Value, ownership: Ownership) -> Value {
        match value {
            Value::Object(fields) => self.fields(fields, ownership),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(item, ownership))
                .collect(),
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    fn fields(&mut self, mut fields: Map<String, Value>, ownership: Ownership) -> Value {
        if ownership == Ownership::Ignored {
            fields.remove("managedFields");
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
            .map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("resourceVersion", Value::String(version)) => self.version(version).into(),
                    (own, value) if OWN.contains(&own) && !is_empty(&value) => "<own>".into(),
                    (_, value) => self.value(value, ownership),
                };
                (name, value)
            })
            .collect()
    }

    fn version(&mut self, version: String) -> String {
        if version.parse::<u64>().is_err() || version == "0" {
            return version;
        }
        let next = self.versions.len() + 1;
        format!("<version {}>", self.versions.entry(version).or_insert(next))
    }

    fn text(&mut self, text: &str) -> String {
        if TIME.is_match(text) {
            return "<time>".to_owned();
        }
        if MICRO_TIME.is_match(text) {
            return "<time with microseconds>".to_owned();
        }
        if VOLUME.is_match(text) {
            return "kube-api-access-<suffix>".to_owned();
        }
        UID.replace_all(text, |found: &regex::Captures<'_>| {
            let next = self.uids.len() + 1;
            format!("<uid {}>", self.uids.entry(found[0].to_owned()).or_insert(next))
        })
        .into_owned()
    }
}

/// Only `code`, `reason` and the fields of the causes are promised; texts may differ.
fn reduce_status(status: &mut Value) {
    let fields = status.as_object_mut().unwrap();
    fields.remove("message");
    let Some(causes) = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    for cause in causes.iter_mut() {
        cause.as_object_mut().unwrap().remove("message");
    }
    // A real server walks maps in whatever order.
    causes.sort_by_key(Value::to_string);
}

fn mask_age(cell: &mut Value) {
    if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
        *cell = "<age>".into();
    }
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Null) || value == "" || value == "None"
}

/// Where two values differ, one line each.
pub(super) fn differences(embedded: &Value, real: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", Some(embedded), Some(real), &mut found);
    found
}

fn walk(path: &str, embedded: Option<&Value>, real: Option<&Value>, found: &mut Vec<String>) {
    match (embedded, real) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (name, ours) in ours {
                walk(&format!("{path}/{name}"), Some(ours), theirs.get(name), found);
            }
            for (name, theirs) in theirs.iter().filter(|(name, _)| !ours.contains_key(*name)) {
                walk(&format!("{path}/{name}"), None, Some(theirs), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            for index in 0..ours.len().max(theirs.len()) {
                walk(
                    &format!("{path}/{index}"),
                    ours.get(index),
                    theirs.get(index),
                    found,
                );
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => {
            let show = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
            found.push(format!("{path}: embedded {}, real {}", show(ours), show(theirs)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn essence(given: &mut Given, body: &Value) -> Value {
        let answer = Answer {
            status: http::StatusCode::OK,
            headers: http::HeaderMap::new(),
            body: body.to_string().into_bytes(),
        };
        given.essence(&answer, Ownership::Ignored)["body"].clone()
    }

    #[test]
    fn the_same_object_is_recognized_by_any_uid_and_another_is_not() {
        let (one, two) = (
            "0b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11",
            "1b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11",
        );
        let owned = |uid: &str, owner: &str| json!({"metadata": {"owner": owner, "uid": uid}});
        let (mut here, mut there) = (Given::default(), Given::default());
        assert_eq!(
            essence(&mut here, &owned(one, one)),
            essence(&mut there, &owned(two, two))
        );
        assert_ne!(
            essence(&mut here, &owned(one, one)),
            essence(&mut there, &owned(one, two))
        );
    }

    #[test]
    fn a_write_that_changes_nothing_must_keep_its_version_on_both() {
        let at = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let (mut here, mut there) = (Given::default(), Given::default());
        assert_eq!(essence(&mut here, &at("7")), essence(&mut there, &at("123")));
        assert_ne!(essence(&mut here, &at("7")), essence(&mut there, &at("124")));
    }

    #[test]
    fn texts_of_refusals_may_differ_and_reasons_may_not() {
        let refusal = |reason: &str, message: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message,
                   "details": {"causes": [{"field": "a", "reason": reason, "message": message}]}})
        };
        let mut given = Given::default();
        let one = essence(&mut given, &refusal("Invalid", "x"));
        assert_eq!(one, essence(&mut given, &refusal("Invalid", "y")));
        assert_ne!(one, essence(&mut given, &refusal("Conflict", "x")));
    }

    #[test]
    fn a_difference_is_told_by_its_place() {
        let told = differences(&json!({"a": [1, {"b": 2}]}), &json!({"a": [1, {"b": 3, "c": 4}]}));
        assert_eq!(
            told,
            ["/a/1/b: embedded 2, real 3", "/a/1/c: embedded absent, real 4"]
        );
    }
}
