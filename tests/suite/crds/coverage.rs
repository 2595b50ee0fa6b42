//! Every rule of every schema is shown by a manifest: without the rule, the verdict on some invalid one changes.

use karpenter_ibm::sim::kube::schema::{Cause, Schema};
use serde_json::Value;

use super::bounds::bounds;
use super::corpus::cases;
use super::{KINDS, Kind, admit};

/// Keywords that forbid something, and so must be shown to do so.
const KEYWORDS: [&str; 12] = [
    "pattern",
    "enum",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "maxProperties",
    "required",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
];

/// One rule of a schema: where it is, and which of several at that place.
#[derive(Debug)]
struct Rule {
    pointer: String,
    keyword: &'static str,
    index: Option<usize>,
}

fn rules(schema: &Value, pointer: &str, found: &mut Vec<Rule>) {
    for keyword in KEYWORDS {
        let rule = |index| Rule {
            pointer: pointer.to_owned(),
            keyword,
            index,
        };
        match &schema[keyword] {
            Value::Null => {}
            Value::Array(entries) if keyword != "enum" => {
                found.extend((0..entries.len()).map(|index| rule(Some(index))));
            }
            // Sizes of integers are for documentation: an API server does not check them.
            Value::String(format) if format.starts_with("int") => {}
            Value::String(list_type) if list_type == "atomic" => {}
            _ => found.push(rule(None)),
        }
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        rules(below, &format!("{pointer}/properties/{name}"), found);
    }
    for keyword in ["items", "additionalProperties"] {
        if schema[keyword].is_object() {
            rules(&schema[keyword], &format!("{pointer}/{keyword}"), found);
        }
    }
}

fn without(schema: &Value, rule: &Rule) -> Value {
    let mut schema = schema.clone();
    let node = schema
        .pointer_mut(&rule.pointer)
        .unwrap()
        .as_object_mut()
        .unwrap();
    match rule.index {
        None => {
            node.remove(rule.keyword);
        }
        Some(index) => {
            node[rule.keyword].as_array_mut().unwrap().remove(index);
        }
    }
    schema
}

/// A path without indexes, for comparing places in manifests with places in schemas.
fn place(pointer: &str) -> String {
    pointer
        .replace("/properties/", ".")
        .replace("/items", "")
        .trim_start_matches('.')
        .to_owned()
}

#[test]
fn without_any_rule_some_invalid_manifest_is_judged_otherwise() {
    for kind in KINDS {
        let schema = kind.schema();
        let compiled = Schema::compile(&schema).unwrap();
        let invalid = invalid_manifests(kind, &compiled);
        let mut found = Vec::new();
        rules(&schema, "", &mut found);
        // Some are not shown because another forbids the same more strictly; each is named with that other.
        found.retain(|rule| !is_shadowed(kind, rule));
        for rule in found {
            let weaker = Schema::compile(&without(&schema, &rule)).unwrap();
            let place = place(&rule.pointer);
            // Manifests about this place first: mostly the first of them settles it.
            let (near, far): (Vec<_>, Vec<_>) = invalid.iter().partition(|it| it.place.starts_with(&place));
            let shown = near
                .iter()
                .chain(&far)
                .any(|it| admit(&weaker, &it.object, it.old.as_ref()) != it.causes);
            assert!(shown, "{kind:?}: no manifest shows {rule:?}");
        }
    }
}

struct Invalid {
    place: String,
    object: Value,
    old: Option<Value>,
    causes: Vec<Cause>,
}

fn invalid_manifests(kind: Kind, schema: &Schema) -> Vec<Invalid> {
    let corpus = cases(kind)
        .into_iter()
        .filter_map(|case| Some((case.blames?, case.object, case.old)));
    let bounds = bounds(kind).into_iter().map(|it| {
        (
            it.pointer.trim_start_matches('/').replace('/', "."),
            it.outside(),
            None,
        )
    });
    let manifests = corpus.chain(bounds);
    manifests
        .map(|(place, object, old)| {
            let causes = admit(schema, &object, old.as_ref());
            let place = place
                .split('[')
                .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest))
                .collect();
            Invalid {
                place,
                object,
                old,
                causes,
            }
        })
        .collect()
}

/// Rules that can never decide alone.
fn is_shadowed(kind: Kind, rule: &Rule) -> bool {
    let field = rule.pointer.rsplit('/').next().unwrap_or_default();
    match (kind, field, rule.keyword) {
        // `nodes` has a default, so it is never missing.
        (Kind::NodePool, "items", "required") => rule.pointer.ends_with("budgets/items"),
        _ => false,
    }
}
