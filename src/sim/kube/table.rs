//! Rows for people: what `kubectl get` prints.

use serde_json::{Value, json};

use super::kind::Kind;
use crate::clock::Clock;

/// A `Table` of objects.
pub fn of_objects(_kind: &Kind, objects: &[Value], _resource_version: &str, _clock: &Clock) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| json!({"cells": [object["metadata"]["name"]], "object": super::read::partial(object)}))
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
           "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}],
           "rows": rows})
}
