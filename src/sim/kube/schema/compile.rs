//! A schema as read from JSON: keywords looked up, patterns and rules compiled, once.

use std::collections::BTreeMap;

use kube::core::cel::{CompiledSchema, compile_schema};
use regex::Regex;
use serde_json::Value;

use super::go_regex;

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A node is not a JSON object.
    #[error("{path}: not a schema")]
    NotASchema {
        /// Where in the schema.
        path: String,
    },
    /// A pattern is not a regular expression.
    #[error("{path}: pattern {pattern:?} does not compile")]
    Pattern {
        /// Where in the schema.
        path: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A CEL rule does not compile.
    #[error("{path}: {problem}")]
    Rule {
        /// Where in the schema.
        path: String,
        /// The rule and what is wrong with it.
        problem: String,
    },
}

/// One node of a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The allowed JSON types; any if empty.
    pub(super) types: Vec<String>,
    pub(super) nullable: bool,
    pub(super) format: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) length: Bounds,
    pub(super) items_count: Bounds,
    pub(super) properties_count: Bounds,
    pub(super) minimum: Option<Limit>,
    pub(super) maximum: Option<Limit>,
    pub(super) multiple_of: Option<f64>,
    pub(super) required: Vec<String>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Self>>,
    pub(super) all_of: Vec<Self>,
    pub(super) any_of: Vec<Self>,
    pub(super) one_of: Vec<Self>,
    pub(super) not: Option<Box<Self>>,
    pub(super) list_type: ListType,
    pub(super) preserve_unknown_fields: bool,
    pub(super) embedded_resource: bool,
    /// The rules of this node alone; rules further down belong to their own nodes.
    pub(super) rules: Option<CompiledSchema>,
    /// Whether a rule here or further down is about how a value changes.
    pub(super) judges_changes: bool,
}

/// At least and at most so many.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
}

/// A limit of a number.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) value: f64,
    /// Whether the limit itself is allowed.
    pub(super) exclusive: bool,
}

/// Fields that are not among the properties.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// The schema says nothing: they are unknown.
    #[default]
    Unknown,
    /// Anything goes.
    Any,
    /// They follow a schema: the node is a map.
    Schema(Box<Node>),
}

/// How the elements of a list are told apart.
#[derive(Debug, Default)]
pub(super) enum ListType {
    /// They are not.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

impl Node {
    pub(super) fn compile(schema: &Value, path: &str) -> Result<Self, SchemaError> {
        if !schema.is_object() {
            return Err(SchemaError::NotASchema {
                path: path.to_owned(),
            });
        }
        let at = Keywords { schema, path };
        let mut node = Self {
            types: at.types(),
            nullable: at.flag("nullable"),
            format: at.text("format").map(str::to_owned),
            default: schema
                .get("default")
                .filter(|default| !default.is_null())
                .cloned(),
            allowed: schema
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            pattern: at
                .text("pattern")
                .map(|pattern| compile_pattern(pattern, path))
                .transpose()?,
            length: at.bounds("minLength", "maxLength"),
            items_count: at.bounds("minItems", "maxItems"),
            properties_count: at.bounds("minProperties", "maxProperties"),
            minimum: at.limit("minimum", "exclusiveMinimum"),
            maximum: at.limit("maximum", "exclusiveMaximum"),
            multiple_of: at.number("multipleOf"),
            required: at.texts("required"),
            properties: properties(schema.get("properties"), path)?,
            additional: additional(schema.get("additionalProperties"), path)?,
            items: boxed(schema.get("items"), &format!("{path}[]"))?,
            all_of: at.branches("allOf")?,
            any_of: at.branches("anyOf")?,
            one_of: at.branches("oneOf")?,
            not: boxed(schema.get("not"), &format!("{path}.not"))?,
            list_type: match at.text("x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(at.texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            preserve_unknown_fields: at.flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: at.flag("x-kubernetes-embedded-resource"),
            rules: compile_rules(schema, path)?,
            judges_changes: false,
        };
        node.judges_changes = node.has_rules_of_changes();
        Ok(node)
    }

    fn has_rules_of_changes(&self) -> bool {
        let own = self
            .rules
            .iter()
            .flat_map(|rules| rules.validations.iter().flatten());
        let below = match &self.additional {
            Additional::Schema(values) => Some(values),
            Additional::Unknown | Additional::Any => None,
        };
        let below = below.into_iter().chain(&self.items).map(|node| &**node);
        own.into_iter().any(|rule| rule.is_transition_rule)
            || below
                .chain(self.properties.values())
                .any(|node| node.judges_changes)
    }

    /// The schema of a field: a property, or a value of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Unknown | Additional::Any => None,
        })
    }
}

/// The keywords of a node that is being compiled.
struct Keywords<'a> {
    schema: &'a Value,
    path: &'a str,
}

impl<'a> Keywords<'a> {
    fn text(&self, keyword: &str) -> Option<&'a str> {
        self.schema.get(keyword).and_then(Value::as_str)
    }

    fn texts(&self, keyword: &str) -> Vec<String> {
        let list = self
            .schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn flag(&self, keyword: &str) -> bool {
        self.schema
            .get(keyword)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    fn number(&self, keyword: &str) -> Option<f64> {
        self.schema.get(keyword).and_then(Value::as_f64)
    }

    fn types(&self) -> Vec<String> {
        if self.flag("x-kubernetes-int-or-string") {
            return vec!["integer".to_owned(), "string".to_owned()];
        }
        self.text("type").map(str::to_owned).into_iter().collect()
    }

    fn bounds(&self, min: &str, max: &str) -> Bounds {
        let count = |keyword: &str| self.schema.get(keyword).and_then(Value::as_u64);
        Bounds {
            min: count(min),
            max: count(max),
        }
    }

    fn limit(&self, keyword: &str, exclusive: &str) -> Option<Limit> {
        self.number(keyword).map(|value| Limit {
            value,
            exclusive: self.flag(exclusive),
        })
    }

    fn branches(&self, keyword: &str) -> Result<Vec<Node>, SchemaError> {
        let branches = self
            .schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        branches
            .map(|branch| Node::compile(branch, &format!("{}.{keyword}", self.path)))
            .collect()
    }
}

fn boxed(schema: Option<&Value>, path: &str) -> Result<Option<Box<Node>>, SchemaError> {
    Ok(schema
        .map(|schema| Node::compile(schema, path))
        .transpose()?
        .map(Box::new))
}

fn properties(schemas: Option<&Value>, path: &str) -> Result<BTreeMap<String, Node>, SchemaError> {
    let schemas = schemas.and_then(Value::as_object).into_iter().flatten();
    schemas
        .map(|(name, schema)| Ok((name.clone(), Node::compile(schema, &format!("{path}.{name}"))?)))
        .collect()
}

fn additional(schema: Option<&Value>, path: &str) -> Result<Additional, SchemaError> {
    match schema {
        None | Some(Value::Bool(false)) => Ok(Additional::Unknown),
        Some(Value::Bool(true)) => Ok(Additional::Any),
        Some(schema) => Ok(Additional::Schema(Box::new(Node::compile(
            schema,
            &format!("{path}[*]"),
        )?))),
    }
}

fn compile_pattern(pattern: &str, path: &str) -> Result<(String, Regex), SchemaError> {
    let regex = go_regex::compile(pattern).map_err(|source| SchemaError::Pattern {
        path: path.to_owned(),
        pattern: pattern.to_owned(),
        source: Box::new(source),
    })?;
    Ok((pattern.to_owned(), regex))
}

/// The node's own rules. They are compiled with the schema below them, which says how values become CEL values, but
/// without the rules further down: those run at their own nodes, with the old values that belong to them.
fn compile_rules(schema: &Value, path: &str) -> Result<Option<CompiledSchema>, SchemaError> {
    let Some(rules) = schema.get("x-kubernetes-validations") else {
        return Ok(None);
    };
    let mut alone = schema.clone();
    strip(&mut alone);
    alone["x-kubernetes-validations"] = rules.clone();
    let compiled = compile_schema(&alone);
    match compiled.compilation_errors().first() {
        Some(error) => Err(SchemaError::Rule {
            path: path.to_owned(),
            problem: error.to_string(),
        }),
        None => Ok(Some(compiled)),
    }
}

/// Takes rules and defaults off a schema; defaults have been filled in before any rule runs.
fn strip(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    keywords.remove("x-kubernetes-validations");
    keywords.remove("default");
    for keyword in ["items", "additionalProperties", "not"] {
        keywords.get_mut(keyword).into_iter().for_each(strip);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        keywords
            .get_mut(keyword)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .for_each(strip);
    }
    if let Some(properties) = keywords.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(strip);
    }
}
