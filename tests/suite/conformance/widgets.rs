//! The suite's own custom kind: one with every trait that the product's kinds have.

use serde_json::{Value, json};

/// The definition. Its schema has a bound, a pattern, an enumeration, a default, lists of each type, rules, and a place
/// where anything goes.
pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.conformance.example.com"},
        "spec": {
            "group": "conformance.example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget",
                      "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                              "labelSelectorPath": ".status.selector"},
                },
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": {"spec": spec(), "status": status()},
                }},
            }],
        },
    })
}

fn spec() -> Value {
    json!({
        "type": "object", "required": ["size"],
        "x-kubernetes-validations": [
            {"rule": "!has(self.color) || self.color != 'red' || self.size < 50", "message": "too large to be red"},
            {"rule": "!has(oldSelf.origin) || has(self.origin)", "message": "origin stays", "fieldPath": ".origin"},
        ],
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100},
            "color": {"type": "string", "enum": ["red", "green", "blue"]},
            "replicas": {"type": "integer", "format": "int32", "minimum": 0},
            "shape": {"type": "string", "default": "round"},
            "note": {"type": "string", "maxLength": 10, "pattern": "^[a-z ]*$"},
            "origin": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            "since": {"type": "string", "format": "date-time"},
            "ratio": {"type": "number", "exclusiveMinimum": true, "minimum": 0},
            "limits": {"type": "object", "maxProperties": 2,
                       "additionalProperties": {"x-kubernetes-int-or-string": true,
                                                "anyOf": [{"type": "integer"}, {"type": "string"}]}},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                      "maxItems": 4,
                      "items": {"type": "object", "required": ["name"],
                                "properties": {"name": {"type": "string"},
                                               "count": {"type": "integer", "default": 1}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "steps": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
            "nested": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 3}}},
            "maybe": {"type": "string", "nullable": true},
            "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn status() -> Value {
    json!({
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "selector": {"type": "string"},
            "phase": {"type": "string", "enum": ["New", "Old"]},
            "conditions": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type", "status"],
                          "properties": {"type": {"type": "string"}, "status": {"type": "string"},
                                         "reason": {"type": "string"}}},
            },
        },
    })
}

/// An object of the kind with little in it.
pub(super) fn widget(name: &str) -> Value {
    json!({"apiVersion": "conformance.example.com/v1", "kind": "Widget", "metadata": {"name": name},
           "spec": {"size": 1}})
}
