//! An object as JSON, and the parts of its metadata that the server itself looks at.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A text inside the metadata, empty if it is not there.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`
pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

/// `metadata.uid`
pub fn uid(object: &Value) -> &str {
    meta(object, "uid")
}

/// `metadata.labels`
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    texts(&object["metadata"]["labels"])
}

/// `metadata.finalizers`
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether somebody has asked for its deletion.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// `metadata.generation`, 0 if it has none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// A map of texts, whatever else stands in it left out.
pub fn texts(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The metadata, made if it is not there.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(&mut object["metadata"])
}

/// The value as an object, made one if it is not.
pub fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// The value at a dotted path such as `spec.nodeName`; null where there is none.
pub fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .filter(|part| !part.is_empty())
        .fold(object, |value, part| &value[part])
}

/// A scalar as a field selector compares it.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => String::new(),
    }
}
