//! Objects to patch, for properties, and schemas shaped like the real ones.

use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3_i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ]
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c~/]{1,2}", inner, 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

/// Any object without nulls.
pub(super) fn object() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            fields(inner),
        ]
    });
    fields(value)
}

/// Any object without lists, in which a null may stand.
pub(super) fn object_without_lists() -> impl Strategy<Value = Value> {
    let value = prop_oneof![leaf(), Just(json!(null))].prop_recursive(3, 24, 4, fields);
    fields(value)
}

/// The parts of a Pod that merge in different ways.
pub(super) fn pod() -> Value {
    let text = json!({"type": "string"});
    let keyed = |items: Value, keys: &[&str], merge_key: &str| {
        json!({"type": "array", "items": {"default": {}, "allOf": [items]},
               "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
               "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": merge_key})
    };
    let port = json!({"type": "object", "properties": {
        "containerPort": {"type": "integer"}, "name": text,
        "protocol": {"type": "string", "default": "TCP"}}});
    let env = json!({"type": "object", "properties": {"name": text, "value": text}});
    let container = json!({"type": "object", "properties": {
        "name": text, "image": text, "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
        "ports": keyed(port, &["containerPort", "protocol"], "containerPort"),
        "env": keyed(env, &["name"], "name")}});
    let mut volumes = keyed(
        json!({"type": "object", "properties": {"name": text,
            "emptyDir": {"type": "object", "properties": {"medium": text}},
            "hostPath": {"type": "object", "properties": {"path": text}}}}),
        &["name"],
        "name",
    );
    volumes["x-kubernetes-patch-strategy"] = "merge,retainKeys".into();
    let condition = json!({"type": "object", "properties": {"type": text, "status": text}});
    json!({"type": "object", "properties": {
        "spec": {"default": {}, "allOf": [{"type": "object", "properties": {
            "containers": keyed(container, &["name"], "name"),
            "volumes": volumes,
            "nodeName": text,
            "priority": {"type": "integer"},
            "nodeSelector": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
            "tolerations": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
            "podCIDRs": {"type": "array", "items": text, "x-kubernetes-list-type": "set",
                         "x-kubernetes-patch-strategy": "merge"},
        }}]},
        "status": {"type": "object", "properties": {
            "phase": text, "conditions": keyed(condition, &["type"], "type")}},
    }})
}

/// A schema with lists and maps of all types, as a custom kind can have it.
pub(super) fn plain_pod() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": text, "m": {"type": "object", "additionalProperties": text},
        "at": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "l": {"type": "array", "items": text},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "lm": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
               "items": {"type": "object", "properties": {"name": text, "v": text}}},
    }}}})
}

/// What somebody may apply to an object of that schema.
pub(super) fn configuration() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::btree_set("[a-c]", 1..3);
    let map = prop::collection::btree_map("[a-c]", "[x-y]", 1..3);
    let keyed = prop::collection::btree_map("[a-c]", of("[x-y]"), 1..3).prop_map(|items| {
        let item = |(name, v): (String, Option<String>)| match v {
            Some(v) => json!({"name": name, "v": v}),
            None => json!({"name": name}),
        };
        items.into_iter().map(item).collect::<Vec<_>>()
    });
    let parts = (
        of("[x-y]"),
        of(map.clone()),
        of(map),
        of(texts()),
        of(texts()),
        of(keyed),
    );
    parts.prop_map(|(a, m, at, l, s, lm)| {
        let mut spec = json!({"a": a, "m": m, "at": at, "l": l, "s": s, "lm": lm});
        super::merge::discard_nulls(&mut spec);
        // An empty structure is owned as one value, and then its contents cannot go.
        if spec == json!({}) {
            spec = Value::Null;
        }
        let mut configuration = json!({"apiVersion": "v1", "kind": "Shape", "spec": spec});
        super::merge::discard_nulls(&mut configuration);
        configuration
    })
}
