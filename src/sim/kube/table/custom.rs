//! Custom kinds: the columns that a definition names, each read by a JSONPath.
//!
//! Of JSONPath, what definitions use: fields (with `\.` for a dot), `['field']`, indexes (from the end when negative),
//! `*`, and filters such as `[?(@.type=="Ready")]`. A path beyond that leaves its cells empty.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::column::{Column, named};
use super::duration;

/// A column and where its cells come from.
#[derive(Debug)]
pub(super) struct Path {
    column: Column,
    steps: Option<Vec<Step>>,
}

/// The columns of a definition; the age where it names none.
pub(super) fn paths(definitions: &[Value]) -> Vec<Path> {
    let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
    let definitions = if definitions.is_empty() { &age } else { definitions };
    definitions
        .iter()
        .map(|definition| Path {
            column: Column::custom(definition),
            steps: parse(definition["jsonPath"].as_str().unwrap_or_default()),
        })
        .collect()
}

/// The columns, after the name.
pub(super) fn columns(paths: &[Path]) -> Vec<Column> {
    let name = Column::built_in("Name/name");
    std::iter::once(name)
        .chain(paths.iter().map(|path| path.column.clone()))
        .collect()
}

/// The cells of an object.
pub(super) fn cells(paths: &[Path], object: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |path: &Path| {
        let found = path.steps.as_ref().and_then(|steps| first(object, steps));
        found.map_or(Value::Null, |value| cell(value, path.column.type_name(), now))
    };
    std::iter::once(named(object))
        .chain(paths.iter().map(cell))
        .collect()
}

/// A value as a cell of a type; nothing if it is of another.
fn cell(value: &Value, type_name: &str, now: Timestamp) -> Value {
    match (type_name, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("date", Value::String(_)) if duration::parse(value).is_none() => "<invalid>".into(),
        ("date", Value::String(_)) => duration::since(value, now).into(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an integer column shows the whole part"
        )]
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(broken)) => (broken as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        _ => Value::Null,
    }
}

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter {
        field: Vec<Self>,
        equal: bool,
        to: Value,
    },
}

/// Takes a path apart; `None` if it is not one of the supported form.
fn parse(path: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(bracket) => {
                let end = closing(bracket)?;
                (inside_brackets(&bracket[..end])?, &bracket[end + 1..])
            }
            None => field(rest.strip_prefix('.')?)?,
        };
        steps.push(step);
    }
    Some(steps)
}

/// Where the bracket closes, past quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn inside_brackets(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (field, equal, to) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((field, to)), _) => (field, true, to),
            (None, Some((field, to))) => (field, false, to),
            (None, None) => return None,
        };
        let field = parse(field.trim().strip_prefix('@')?)?;
        let to = to.trim();
        let to = quoted(to).map_or_else(|| serde_json::from_str(to).ok(), |text| Some(text.into()))?;
        return Some(Step::Filter { field, equal, to });
    }
    match quoted(text) {
        Some(name) => Some(Step::Field(name.to_owned())),
        None => text.parse().ok().map(Step::Index),
    }
}

fn quoted(text: &str) -> Option<&str> {
    let strip = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    strip('\'').or_else(|| strip('"'))
}

/// A field name up to the next unescaped dot or bracket.
fn field(text: &str) -> Option<(Step, &str)> {
    let (mut name, mut escaped, mut end) = (String::new(), false, text.len());
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => {
                name.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    let step = match name.as_str() {
        "" => return None,
        "*" => Step::All,
        _ => Step::Field(name),
    };
    Some((step, &text[end..]))
}

/// The first value that a path leads to.
fn first<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => first(value.get(name)?, rest),
        Step::Index(index) => {
            let elements = value.as_array()?;
            let from_end = i64::try_from(elements.len()).ok()? + index;
            let index = usize::try_from(if *index < 0 { from_end } else { *index }).ok()?;
            first(elements.get(index)?, rest)
        }
        Step::All => match value {
            Value::Array(elements) => elements.iter().find_map(|element| first(element, rest)),
            Value::Object(fields) => fields.values().find_map(|field| first(field, rest)),
            _ => None,
        },
        Step::Filter { field, equal, to } => value
            .as_array()?
            .iter()
            .filter(|element| first(element, field).is_some_and(|found| (found == to) == *equal))
            .find_map(|element| first(element, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_a_real_server_follows_them() {
        let object = json!({
            "metadata": {"labels": {"example.com/owner": "me"}},
            "spec": {"tags": ["x", "y"], "size": "large"},
            "status": {"conditions": [{"type": "Idle", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let table = [
            (".spec.size", json!("large")),
            (".spec['size']", json!("large")),
            (r".metadata.labels.example\.com/owner", json!("me")),
            (".metadata.labels['example.com/owner']", json!("me")),
            (".spec.tags[0]", json!("x")),
            (".spec.tags[-1]", json!("y")),
            (".spec.tags[*]", json!("x")),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (
                r#".status.conditions[?(@.type != "Ready")].status"#,
                json!("False"),
            ),
            (".spec.tags[7]", Value::Null),
            (".spec.none.deeper", Value::Null),
            ("spec.size", Value::Null),
            (".spec.tags[0:1]", Value::Null),
        ];
        for (path, expected) in table {
            let steps = parse(path);
            let found = steps.as_ref().and_then(|steps| first(&object, steps)).cloned();
            assert_eq!(found.unwrap_or_default(), expected, "{path}");
        }
    }

    #[test]
    fn cells_have_the_type_of_their_column_or_are_empty() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let table = [
            ("string", json!("a"), json!("a")),
            ("string", json!(true), json!("true")),
            ("string", json!({"b": 1}), json!(r#"{"b":1}"#)),
            ("string", json!(["x"]), json!(r#"["x"]"#)),
            ("integer", json!(3), json!(3)),
            ("integer", json!(2.7), json!(2)),
            ("integer", json!("3"), Value::Null),
            ("number", json!(1.5), json!(1.5)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("true"), Value::Null),
            ("date", json!("2026-11-16T09:59:00Z"), json!("60s")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(5), Value::Null),
            ("string", Value::Null, Value::Null),
        ];
        for (type_name, value, expected) in table {
            assert_eq!(cell(&value, type_name, now), expected, "{type_name} {value}");
        }
    }
}
