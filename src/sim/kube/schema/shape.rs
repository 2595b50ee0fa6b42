//! Pruning, `null`s and defaults: the object's shape before it is validated.

use serde_json::Value;

use super::compile::{Additional, Node};

/// Known to every object, whatever its schema says.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes what the schema does not know and records where it was.
pub(super) fn prune(object: &mut Value, root: &Node, unknown: &mut Vec<String>) {
    prune_node(
        object,
        Some(root),
        Place {
            path: "",
            is_object: true,
        },
        unknown,
    );
}

#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    /// Whether a whole object starts here, which has metadata.
    is_object: bool,
}

fn prune_node(value: &mut Value, schema: Option<&Node>, at: Place<'_>, unknown: &mut Vec<String>) {
    let preserve = schema.is_some_and(|schema| schema.preserve_unknown_fields);
    match value {
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                if at.is_object && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                let path = join(at.path, &name);
                let below = schema.and_then(|schema| schema.field(&name));
                let any = schema.is_some_and(|schema| matches!(schema.additional, Additional::Any));
                match (below, fields.get_mut(&name)) {
                    (Some(below), Some(value)) => {
                        let at = Place {
                            path: &path,
                            is_object: below.embedded_resource,
                        };
                        prune_node(value, Some(below), at, unknown);
                    }
                    // Below `additionalProperties: true` nothing is known, so objects there lose their fields.
                    (None, Some(value)) if any && !preserve => {
                        prune_node(
                            value,
                            None,
                            Place {
                                path: &path,
                                is_object: false,
                            },
                            unknown,
                        );
                    }
                    _ if preserve => {}
                    _ => {
                        fields.remove(&name);
                        unknown.push(path);
                    }
                }
            }
        }
        Value::Array(elements) => {
            let items = schema.and_then(|schema| schema.items.as_deref());
            if preserve && items.is_none() {
                return;
            }
            for (index, element) in elements.iter_mut().enumerate() {
                let path = format!("{}[{index}]", at.path);
                let is_object = items.is_some_and(|items| items.embedded_resource);
                prune_node(
                    element,
                    items,
                    Place {
                        path: &path,
                        is_object,
                    },
                    unknown,
                );
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes fields that are `null` although their schema does not allow it and has no default to put there.
pub(super) fn drop_nulls(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let absent = |below: &Node| value.is_null() && !below.nullable && below.default.is_none();
                !schema.field(name).is_some_and(absent)
            });
            for (name, value) in fields {
                if let Some(below) = schema.field(name) {
                    drop_nulls(value, below);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &schema.items {
                for element in elements {
                    drop_nulls(element, items);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fills in defaults where a field is absent, or `null` although its schema does not allow it.
pub(super) fn default(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(fields) => {
            for (name, below) in &schema.properties {
                let Some(default) = &below.default else { continue };
                let stays = fields
                    .get(name)
                    .is_some_and(|value| !value.is_null() || below.nullable);
                if !stays {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(below) = schema.field(name) {
                    fill_null(value, below);
                    self::default(value, below);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &schema.items {
                for element in elements {
                    fill_null(element, items);
                    self::default(element, items);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fill_null(value: &mut Value, schema: &Node) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

/// A field below a path.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
