//! Structural schemas: what a schema must say so that objects can be pruned and defaulted by it.

use serde_json::{Value, json};

use super::{each, text};
use crate::sim::kube::object;
use crate::sim::kube::schema::{Cause, Schema, SchemaError};

/// Where a schema stands, which decides what it must say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Field,
    Item,
}

/// A structural schema: every value has a type, every list its items.
pub(super) fn structure(causes: &mut Vec<Cause>, at: &str, schema: &Value, place: Place) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    if schema["$ref"].is_string() {
        causes.push(Cause::forbidden(&format!("{at}.$ref"), "$ref is not supported"));
        return;
    }
    let kind = text(schema, "type");
    let free = schema["x-kubernetes-int-or-string"] == true
        || (schema["x-kubernetes-preserve-unknown-fields"] == true && place != Place::Root);
    if kind.is_empty() && !free {
        let detail = match place {
            Place::Root => "must not be empty at the root",
            Place::Field => "must not be empty for specified object fields",
            Place::Item => "must not be empty for specified array items",
        };
        causes.push(Cause::required(&format!("{at}.type"), detail));
    } else if !kind.is_empty() && !TYPES.contains(&kind) {
        let allowed = TYPES.map(Value::from);
        causes.push(Cause::not_supported(
            &format!("{at}.type"),
            &schema["type"],
            &allowed,
        ));
    } else if place == Place::Root && kind != "object" {
        let detail = "must be object at the root";
        causes.push(Cause::invalid(&format!("{at}.type"), &schema["type"], detail));
    }
    if kind == "array" && !schema["items"].is_object() {
        causes.push(Cause::required(&format!("{at}.items"), "must be specified"));
    }
    for (applies, field, detail) in [
        (
            schema["properties"].is_object() && schema["additionalProperties"].is_object(),
            "additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        ),
        (
            schema["uniqueItems"] == true,
            "uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            place == Place::Root && schema["nullable"] == true,
            "nullable",
            "nullable cannot be true at the root",
        ),
        (
            place == Place::Root && describes_metadata(&schema["properties"]["metadata"]),
            "properties[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
    ] {
        if applies {
            causes.push(Cause::forbidden(&format!("{at}.{field}"), detail));
        }
    }
    values(causes, at, schema);
    list_type(causes, at, schema);
    branches(causes, at, schema, schema["x-kubernetes-int-or-string"] == true);
    below(causes, at, schema, place);
}

fn below(causes: &mut Vec<Cause>, at: &str, schema: &Value, place: Place) {
    if schema["items"].is_object() {
        structure(causes, &format!("{at}.items"), &schema["items"], Place::Item);
    }
    if schema["additionalProperties"].is_object() {
        let below = format!("{at}.additionalProperties");
        structure(causes, &below, &schema["additionalProperties"], Place::Field);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        // The metadata of the object itself says nothing about its type that counts.
        if place != Place::Root || name != "metadata" {
            structure(causes, &format!("{at}.properties[{name}]"), below, Place::Field);
        }
    }
}

/// Whether a schema says more of an object's metadata than how it is named.
fn describes_metadata(metadata: &Value) -> bool {
    let fields = metadata["properties"].as_object().into_iter().flatten();
    fields
        .into_iter()
        .any(|(field, _)| field != "name" && field != "generateName")
}

/// Patterns and defaults.
fn values(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let pattern = json!({"pattern": schema["pattern"]});
    if let Err(SchemaError::Pattern { source, .. }) = Schema::compile(&pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {source}");
        causes.push(Cause::invalid(
            &format!("{at}.pattern"),
            &schema["pattern"],
            detail,
        ));
    }
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else {
        return;
    };
    // Rules are for whole objects; the default is judged by everything else.
    let mut alone = schema.clone();
    object::object_mut(&mut alone).remove("x-kubernetes-validations");
    if let Ok(compiled) = Schema::compile(&alone) {
        let found = compiled.validate(default, None);
        causes.extend(
            found
                .into_iter()
                .filter(|cause| !cause.is_remark())
                .map(|mut cause| {
                    let inner = std::mem::take(&mut cause.field);
                    let dot = if inner.is_empty() { "" } else { "." };
                    cause.field = format!("{at}.default{dot}{inner}");
                    cause
                }),
        );
    }
}

/// Alternatives only narrow what the structure says: they name no types of their own.
fn branches(causes: &mut Vec<Cause>, at: &str, schema: &Value, may_type: bool) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in each(schema, keyword).enumerate() {
            narrowing(causes, &format!("{at}.{keyword}[{index}]"), branch, may_type);
        }
    }
    if schema["not"].is_object() {
        narrowing(causes, &format!("{at}.not"), &schema["not"], may_type);
    }
}

fn narrowing(causes: &mut Vec<Cause>, at: &str, branch: &Value, may_type: bool) {
    for field in ["type", "default", "nullable", "additionalProperties"] {
        let given = branch
            .get(field)
            .is_some_and(|value| !value.is_null() && *value != false);
        if given && !(field == "type" && may_type) {
            causes.push(Cause::forbidden(
                &format!("{at}.{field}"),
                "must be empty to be structural",
            ));
        }
    }
    branches(causes, at, branch, may_type);
    for (name, below) in branch["properties"].as_object().into_iter().flatten() {
        narrowing(causes, &format!("{at}.properties[{name}]"), below, false);
    }
    if branch["items"].is_object() {
        narrowing(causes, &format!("{at}.items"), &branch["items"], false);
    }
}

fn list_type(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let keys: Vec<&str> = each(schema, "x-kubernetes-list-map-keys")
        .filter_map(Value::as_str)
        .collect();
    let kind = text(schema, "x-kubernetes-list-type");
    if kind != "map" {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        causes.push(Cause::required(
            &format!("{at}.x-kubernetes-list-map-keys"),
            detail,
        ));
    }
    let items = &schema["items"];
    for key in &keys {
        if items["properties"].get(*key).is_none() {
            let detail = "entries must all be names of item properties";
            let at = format!("{at}.x-kubernetes-list-map-keys");
            causes.push(Cause::invalid(&at, &schema["x-kubernetes-list-map-keys"], detail));
            continue;
        }
        let required = each(items, "required").any(|name| name == key);
        if !required && items["properties"][*key].get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(
                &format!("{at}.items.properties[{key}].default"),
                detail,
            ));
        }
    }
}
