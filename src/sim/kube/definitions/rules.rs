//! CEL rules of a definition: each is read, and its types are checked against the schema that it stands in.

use kube::core::cel::cel::Program;
use serde_json::{Value, json};

use super::types::Type;
use super::typing::{Scope, check};
use super::{each, text};
use crate::sim::kube::schema::{Cause, Schema, SchemaError};

/// Whether a value can be found again in the old object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Correlation {
    Known,
    /// Below a list whose elements have no names.
    Lost,
}

/// Everything that is wrong with the rules of a schema, from its root on.
pub(super) fn problems(causes: &mut Vec<Cause>, at: &str, schema: &Value) {
    let root = schema["type"]
        .as_str()
        .filter(|kind| *kind == "object")
        .map(|_| Type::Resource(schema));
    judge(causes, at, schema, root.as_ref(), Correlation::Known);
    below(causes, at, schema, Correlation::Known);
}

fn walk(causes: &mut Vec<Cause>, at: &str, schema: &Value, correlation: Correlation) {
    judge(causes, at, schema, Type::of(schema).as_ref(), correlation);
    below(causes, at, schema, correlation);
}

fn below(causes: &mut Vec<Cause>, at: &str, schema: &Value, correlation: Correlation) {
    if schema["items"].is_object() {
        let known = correlation == Correlation::Known && text(schema, "x-kubernetes-list-type") == "map";
        let correlation = if known {
            Correlation::Known
        } else {
            Correlation::Lost
        };
        walk(causes, &format!("{at}.items"), &schema["items"], correlation);
    }
    if schema["additionalProperties"].is_object() {
        let at = format!("{at}.additionalProperties");
        walk(causes, &at, &schema["additionalProperties"], correlation);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(causes, &format!("{at}.properties[{name}]"), below, correlation);
    }
}

fn judge(
    causes: &mut Vec<Cause>,
    at: &str,
    schema: &Value,
    itself: Option<&Type<'_>>,
    correlation: Correlation,
) {
    for (index, rule) in each(schema, "x-kubernetes-validations").enumerate() {
        let at = format!("{at}.x-kubernetes-validations[{index}]");
        if text(rule, "rule").trim().is_empty() {
            causes.push(Cause::required(&format!("{at}.rule"), "rule is not specified"));
            continue;
        }
        let before = causes.len();
        let alone = json!({"x-kubernetes-validations": [{"rule": rule["rule"]}], "type": schema["type"]});
        if let Err(SchemaError::Rule { problem, .. }) = Schema::compile(&alone) {
            let detail = format_args!("compilation failed: {problem}");
            causes.push(Cause::invalid(&format!("{at}.rule"), &rule["rule"], detail));
        }
        let Some(itself) = itself.filter(|_| causes.len() == before) else {
            continue;
        };
        for (field, wanted) in [("rule", Type::Bool), ("messageExpression", Type::Text)] {
            let at = format!("{at}.{field}");
            if let Err(problem) = expression(text(rule, field), itself, &wanted, correlation) {
                causes.push(Cause::invalid(&at, &rule[field], problem));
            }
        }
    }
}

/// Checks an expression that is to give a value of a type; none at all is fine.
fn expression(
    source: &str,
    itself: &Type<'_>,
    wanted: &Type<'_>,
    correlation: Correlation,
) -> Result<(), String> {
    if source.is_empty() {
        return Ok(());
    }
    let program = Program::compile(source).map_err(|error| format!("compilation failed: {error}"))?;
    let variables = ["self", "oldSelf"].map(|name| (name.to_owned(), itself.clone()));
    let found = check(program.expression(), &Scope::of(variables.to_vec()))
        .map_err(|problem| format!("compilation failed: ERROR: <input>: {problem}"))?;
    if !found.agrees_with(wanted) {
        let name = wanted.name();
        return Err(format!(
            "compilation failed: cel expression must evaluate to a {name}"
        ));
    }
    let looks_back = program.references().has_variable("oldSelf");
    if looks_back && correlation == Correlation::Lost {
        return Err("oldSelf cannot be used on the uncorrelatable portion of the schema".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(rule: &str) -> Value {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
            "size": {"type": "integer"}, "name": {"type": "string"}, "any": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}},
        }})
    }

    fn is_refused(rule: &str) -> bool {
        let mut causes = Vec::new();
        problems(&mut causes, "", &schema(rule));
        !causes.is_empty()
    }

    #[test]
    fn sound_rules_pass() {
        for rule in [
            "self.size < 5 && self.name.startsWith('a')",
            "!has(self.name) || self.name.size() > 1",
            "self.tags.all(tag, tag.matches('^a')) && self.tags.exists_one(tag, tag == 'x')",
            "self.parts.map(part, part.count).sum() < 5",
            "self.parts.filter(part, part.count > 1).size() == 1",
            "self.labels.all(key, self.labels[key] != '') && 'x' in self.labels",
            "self.any == 5 || self.any == '5'",
            "self.metadata.name == 'x' && self.kind == 'Y'",
            "type(self.any) == int ? self.any < 5 : self.any == 'max'",
            "self.size == oldSelf.size",
            "self.size > 1.5",
            "quantity(self.name).isLessThan(quantity('1Gi'))",
            "isIP(self.name) && ip(self.name).family() == 4",
        ] {
            assert!(!is_refused(rule), "{rule}");
        }
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        for rule in [
            "self.missing == 1",
            "other == 1",
            "frobnicate(self)",
            "self.size",
            "self.size == 'x'",
            "self.size + self.name == 1",
            "self.size && true",
            "!self.name",
            "self.tags.all(tag, tag > 1)",
            "self.tags[0].count == 1",
            "self.size.startsWith('x')",
            "self.name in [1, 2]",
            "self.size.all(x, x > 1)",
            "true ? self.size : self.name",
            "self.parts.map(part, part.missing).size() == 0",
        ] {
            assert!(is_refused(rule), "{rule}");
        }
    }
}
