//! CEL rules, each at its node with the old value that belongs to it.
//!
//! Rules are evaluated by kube's CEL. What it does not do is find the old value: it pairs list elements by position,
//! while an API server pairs those of a list-map by key and those of other lists not at all. So the walk is ours.
//! Where a rule cannot be evaluated (a key that is not there, a text that is no number), the wording is that CEL's.

use kube::core::cel::{CompiledSchema, ErrorKind, ValidationError, validate_compiled};
use serde_json::Value;

use super::cause::Cause;
use super::compile::{ListType, Node};
use super::keywords::{below_path, key_of};

/// Runs the rules of a node and of everything below it.
pub(super) fn validate(value: &Value, old: Option<&Value>, schema: &Node, at: &str, causes: &mut Vec<Cause>) {
    // What was stored stays, even if it breaks a rule that is newer than it: an API server calls this ratcheting.
    if old == Some(value) && !schema.judges_changes {
        return;
    }
    if let Some(rules) = &schema.rules
        && let Err(failures) = validate_compiled(rules, value, old)
    {
        causes.extend(failures.iter().map(|failure| cause(failure, rules, value, at)));
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(below) = schema.field(name) {
                    let old = old.and_then(|old| old.get(name));
                    validate(value, old, below, &below_path(at, name, schema), causes);
                }
            }
        }
        Value::Array(elements) => {
            let Some(items) = &schema.items else { return };
            for (index, element) in elements.iter().enumerate() {
                let old = old.and_then(|old| counterpart(element, old, &schema.list_type));
                validate(element, old, items, &format!("{at}[{index}]"), causes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The element of the old list that this one is an update of.
fn counterpart<'a>(element: &Value, old: &'a Value, list_type: &ListType) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else {
        return None;
    };
    old.as_array()?
        .iter()
        .find(|candidate| key_of(candidate, keys) == key_of(element, keys))
}

fn cause(failure: &ValidationError, rules: &CompiledSchema, value: &Value, at: &str) -> Cause {
    let field = match failure.field_path.trim_start_matches('.') {
        "" => at.to_owned(),
        relative if at.is_empty() => relative.to_owned(),
        relative => format!("{at}.{relative}"),
    };
    let compound = value.is_object() || value.is_array();
    if failure.kind != ErrorKind::ValidationFailure {
        let type_name = Value::from(if value.is_array() { "array" } else { "object" });
        let shown = if compound { &type_name } else { value };
        let problem = failure.message.trim_start_matches("rule evaluation error: ");
        let rule = name_of(&failure.rule, rules);
        return Cause::invalid(&field, shown, format_args!("{problem} evaluating rule: {rule}"));
    }
    match failure.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(&field, &failure.message),
        Some("FieldValueRequired") => Cause::required(&field, &failure.message),
        Some("FieldValueDuplicate") => Cause::duplicate(&field, value),
        _ if compound => Cause::invalid_unshown(&field, &failure.message),
        _ => Cause::invalid(&field, value, &failure.message),
    }
}

/// How a rule is called when it cannot be evaluated: by its message, where it has one.
fn name_of<'a>(rule: &'a str, rules: &'a CompiledSchema) -> &'a str {
    let compiled = rules
        .validations
        .iter()
        .flatten()
        .find(|compiled| compiled.rule.rule == rule);
    compiled
        .and_then(|compiled| compiled.rule.message.as_deref())
        .unwrap_or(rule)
}
