//! The keywords of a schema, and the uniqueness that list types promise.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::cause::Cause;
use super::compile::{Limit, ListType, Node};
use super::format;
use super::shape::join;

/// Judges a value by the keywords of its schema.
pub(super) fn validate(value: &Value, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    if !has_type(value, schema) {
        causes.push(wrong_type(value, schema, at));
    }
    branches(value, schema, at, causes);
    match value {
        Value::String(text) => string(text, schema, at, causes),
        Value::Number(number) => numeric(number, value, schema, at, causes),
        Value::Array(elements) => array(elements, schema, at, causes),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    let allowed_null = value.is_null() && schema.nullable;
    if !(schema.allowed.is_empty() || schema.allowed.contains(value) || allowed_null) {
        causes.push(Cause::not_supported(at, value, &schema.allowed));
    }
    if let Value::Object(fields) = value {
        object(fields, schema, at, causes);
    }
}

fn has_type(value: &Value, schema: &Node) -> bool {
    let allows = |name: &str| schema.types.iter().any(|allowed| allowed == name);
    schema.types.is_empty()
        || match value {
            Value::Null => schema.nullable,
            Value::Number(number) => (is_integer(number) && allows("integer")) || allows("number"),
            _ => allows(type_name(value)),
        }
}

fn wrong_type(value: &Value, schema: &Node, at: &str) -> Cause {
    match schema
        .format
        .as_deref()
        .filter(|format| format::is_checked(format) && !value.is_null())
    {
        None => Cause::wrong_type(at, type_name(value), &schema.types.join(",")),
        // Where a text has a format, an API server compares formats instead, and only numbers have one.
        Some(format) => {
            let actual = match type_name(value) {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            Cause::wrong_type(at, actual, format)
        }
    }
}

/// The name of a value's type. Numbers that do not fit 64 bits signed are read as floats, as in Go.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A float counts as an integer up to 2^53-1, beyond which floats skip some.
fn is_integer(number: &Number) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    number.is_i64()
        || number
            .as_f64()
            .is_some_and(|float| float.fract() == 0.0 && float.abs() <= MAX)
}

fn string(text: &str, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    let value = || Value::String(text.to_owned());
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    // The first of these mistakes is reported only.
    if let Some(max) = schema.length.max.filter(|max| length > *max) {
        causes.push(Cause::too_long(at, max));
    } else if let Some(min) = schema.length.min.filter(|min| length < *min) {
        causes.push(Cause::invalid(
            at,
            &value(),
            format_args!("{at} in body should be at least {min} chars long"),
        ));
    } else if let Some((pattern, _)) = schema.pattern.as_ref().filter(|(_, regex)| !regex.is_match(text)) {
        causes.push(Cause::invalid(
            at,
            &value(),
            format_args!("{at} in body should match '{pattern}'"),
        ));
    }
    if let Some(name) = schema.format.as_deref().filter(|name| !format::holds(name, text)) {
        causes.push(Cause::wrong_type(at, text, name));
    }
}

fn numeric(number: &Number, value: &Value, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    let Some(float) = number.as_f64() else { return };
    if let Some(factor) = schema
        .multiple_of
        .filter(|factor| (float / factor).fract() != 0.0)
    {
        causes.push(Cause::invalid(
            at,
            value,
            format_args!("{at} in body should be a multiple of {factor}"),
        ));
    }
    if let Some(Limit {
        value: min,
        exclusive,
    }) = &schema.minimum
        && (float < *min || (*exclusive && float <= *min))
    {
        let or_equal = if *exclusive { "" } else { " or equal to" };
        causes.push(Cause::invalid(
            at,
            value,
            format_args!("{at} in body should be greater than{or_equal} {min}"),
        ));
    }
    if let Some(Limit {
        value: max,
        exclusive,
    }) = &schema.maximum
        && (float > *max || (*exclusive && float >= *max))
    {
        let or_equal = if *exclusive { "" } else { " or equal to" };
        causes.push(Cause::invalid(
            at,
            value,
            format_args!("{at} in body should be less than{or_equal} {max}"),
        ));
    }
}

fn array(elements: &[Value], schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    if let Some(items) = &schema.items {
        for (index, element) in elements.iter().enumerate() {
            validate(element, items, &format!("{at}[{index}]"), causes);
        }
    }
    let count = elements.len();
    if let Some(max) = schema.items_count.max.filter(|max| is_more(count, *max)) {
        causes.push(Cause::too_many(at, count, max));
    }
    if let Some(min) = schema.items_count.min.filter(|min| is_less(count, *min)) {
        let detail = format!("{at} in body should have at least {min} items");
        causes.push(Cause::invalid(at, &Value::from(count), detail));
    }
}

fn object(fields: &Map<String, Value>, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    let count = fields.len();
    if let Some(max) = schema.properties_count.max.filter(|max| is_more(count, *max)) {
        causes.push(Cause::too_many(at, count, max));
    }
    if let Some(min) = schema.properties_count.min.filter(|min| is_less(count, *min)) {
        let detail = format!("{at} in body should have at least {min} properties");
        causes.push(Cause::invalid(at, &Value::from(count), detail));
    }
    for (name, value) in fields {
        if let Some(below) = schema.field(name) {
            validate(value, below, &join(at, name), causes);
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        causes.push(Cause::required(&join(at, name), ""));
    }
}

fn is_more(count: usize, than: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count > than)
}

fn is_less(count: usize, than: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count < than)
}

/// `allOf`, `anyOf`, `oneOf` and `not`. Where no branch holds, the first says why.
fn branches(value: &Value, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    let judge = |branch: &Node| {
        let mut causes = Vec::new();
        validate(value, branch, at, &mut causes);
        causes
    };
    let holds = |branch: &&Node| judge(branch).is_empty();
    // A real server loses the field on the way and has it in the words alone.
    let blame = |detail: &str| Cause::invalid("", &"".into(), format_args!("\"{at}\" {detail}"));
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(|branch| holds(&branch)) {
        causes.push(blame("must validate at least one schema (anyOf)"));
        causes.extend(judge(&schema.any_of[0]));
    }
    let valid = schema.one_of.iter().filter(holds).count();
    if !schema.one_of.is_empty() && valid != 1 {
        causes.push(blame("must validate one and only one schema (oneOf)"));
        if valid == 0 {
            causes.extend(judge(&schema.one_of[0]));
        }
    }
    if schema.not.as_ref().is_some_and(|branch| judge(branch).is_empty()) {
        causes.push(blame("must not validate the schema (not)"));
    }
    let failed: Vec<Cause> = schema.all_of.iter().flat_map(judge).collect();
    if !failed.is_empty() {
        causes.extend(failed);
        causes.push(blame("must validate all the schemas (allOf)"));
    }
}

/// Judges the uniqueness of the elements of lists that are sets or maps.
pub(super) fn validate_list_types(value: &Value, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Array(elements) => {
            unique(elements, &schema.list_type, at, causes);
            if let Some(items) = &schema.items {
                for (index, element) in elements.iter().enumerate() {
                    validate_list_types(element, items, &format!("{at}[{index}]"), causes);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(below) = schema.field(name) {
                    validate_list_types(value, below, &below_path(at, name, schema), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A path in causes that do not come from keywords: keys of maps are in brackets there.
pub(super) fn below_path(at: &str, name: &str, schema: &Node) -> String {
    if schema.properties.contains_key(name) {
        join(at, name)
    } else {
        format!("{at}[{name}]")
    }
}

fn unique(elements: &[Value], list_type: &ListType, at: &str, causes: &mut Vec<Cause>) {
    let identity = |element: &Value| match list_type {
        ListType::Atomic => None,
        ListType::Set => Some(element.clone()),
        ListType::Map(keys) => Some(key_of(element, keys)),
    };
    let stranger = |element: &Value| !element.is_object() && !element.is_null();
    if matches!(list_type, ListType::Map(_))
        && let Some(index) = elements.iter().position(stranger)
    {
        let detail = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(
            &format!("{at}[{index}]"),
            &elements[index],
            detail,
        ));
        return;
    }
    // A value that occurs often is reported at its second occurrence only.
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (index, element) in elements.iter().enumerate() {
        let Some(identity) = identity(element) else { return };
        let seen = times.entry(identity.to_string()).or_default();
        *seen += 1;
        if *seen == 2 {
            causes.push(Cause::duplicate(&format!("{at}[{index}]"), &identity));
        }
    }
}

/// The fields of an element that tell it from others.
pub(super) fn key_of(element: &Value, keys: &[String]) -> Value {
    let present = keys
        .iter()
        .filter_map(|key| Some((key.clone(), element.get(key)?.clone())));
    Value::Object(present.collect())
}
