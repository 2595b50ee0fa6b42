//! From client-side apply to server-side apply.
//!
//! `kubectl apply` without `--server-side` keeps what it applied in an annotation. When kubectl (the manager of that
//! name, nobody else) applies on the server afterwards, fields that are still as that annotation says are its own,
//! whoever the record names; and the annotation follows, so that it can go back.

use serde_json::{Map, Value};

use super::compare::{compare, fields};
use super::fieldset::FieldSet;
use super::shape::Shape;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;

/// Who may take fields over.
pub const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of an object that are as they were applied on the client's side.
pub fn still_applied(kind: &Kind, live: &Value) -> FieldSet {
    let shape = Shape::of(kind);
    let applied: Option<Value> = annotation(live).and_then(|text| serde_json::from_str(text).ok());
    let Some(applied) = applied.filter(|applied| applied["apiVersion"] == kind.api_version()) else {
        return FieldSet::default();
    };
    if shape
        .unownable(&applied)
        .or_else(|| shape.mistyped(&applied))
        .is_some()
    {
        return FieldSet::default();
    }
    let changes = compare(&applied, live, shape);
    [&changes.modified, &changes.added, &changes.removed]
        .into_iter()
        .fold(fields(&applied, shape), |left, changed| left.difference(changed))
}

/// Writes what was applied on the server into the annotation, if there is one.
pub fn follow(configuration: &Value, object: &mut Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = configuration.clone();
    if let Some(annotations) = applied
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    let metadata = object::metadata_mut(object);
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), as_go_writes(&applied).into());
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations: &Map<String, Value> = object["metadata"]["annotations"].as_object()?;
    annotations
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// JSON as Go's encoder has it: safe within HTML, with a line end.
fn as_go_writes(value: &Value) -> String {
    let text = value.to_string();
    let text = text
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sim::kube::registry::Registry;

    fn live(applied: &Value, data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
               "metadata": {"name": "a", "annotations": {ANNOTATION: applied.to_string()}}})
    }

    #[test]
    fn what_is_no_longer_as_it_was_applied_is_not_kubectls() {
        let kind = Registry::default().find("", "v1", "configmaps").unwrap();
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1", "l": "1"}});
        let still = still_applied(&kind, &live(&applied, &json!({"k": "1", "l": "2", "m": "3"})));
        let field = |name: &str| FieldSet::of_fields(&["data", name]);
        assert!(!still.intersection(&field("k")).is_empty());
        assert!(still.intersection(&field("l")).is_empty());
        assert!(still.intersection(&field("m")).is_empty());
        let other = json!({"apiVersion": "v2", "kind": "ConfigMap", "data": {"k": "1"}});
        assert!(still_applied(&kind, &live(&other, &json!({"k": "1"}))).is_empty());
    }

    #[test]
    fn the_annotation_follows_where_there_is_one() {
        let configuration = json!({"kind": "ConfigMap", "data": {"k": "<1>"}});
        let mut with = live(&json!({}), &json!({}));
        follow(&configuration, &mut with);
        assert_eq!(
            with["metadata"]["annotations"][ANNOTATION],
            "{\"data\":{\"k\":\"\\u003c1\\u003e\"},\"kind\":\"ConfigMap\"}\n"
        );
        let mut without = json!({"metadata": {"name": "a"}});
        follow(&configuration, &mut without);
        assert_eq!(without, json!({"metadata": {"name": "a"}}));
    }
}
