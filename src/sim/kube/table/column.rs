//! A column of a table, and how the cells of built-in kinds are read from their objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration;
use crate::sim::kube::builtin::label_selector;
use crate::sim::kube::object::{at, name, texts};

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    name: String,
    type_name: String,
    format: String,
    description: String,
    priority: i64,
}

impl Column {
    /// A column of a built-in kind, from `Name/name`, `Ready`, `Desired:integer`, `Node*`: a type after a colon, a
    /// format after a slash, a star for one that only the wide form shows.
    pub(super) fn built_in(text: &str) -> Self {
        let (text, priority) = text.strip_suffix('*').map_or((text, 0), |text| (text, 1));
        let (text, format) = text.split_once('/').unwrap_or((text, ""));
        let (name, type_name) = text.split_once(':').unwrap_or((text, "string"));
        Self {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            format: format.to_owned(),
            description: String::new(),
            priority,
        }
    }

    /// A column that a CustomResourceDefinition describes.
    pub(super) fn custom(definition: &Value) -> Self {
        let text = |field: &str| definition[field].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            type_name: text("type"),
            format: text("format"),
            description: text("description"),
            priority: definition["priority"].as_i64().unwrap_or(0),
        }
    }

    /// As a `Table` writes it.
    pub(super) fn json(&self) -> Value {
        json!({"name": self.name, "type": self.type_name, "format": self.format,
               "description": self.description, "priority": self.priority})
    }

    /// `string`, `integer`, `date`, …
    pub(super) fn type_name(&self) -> &str {
        &self.type_name
    }
}

/// The cells of an object, at a time.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// How a built-in kind is shown: its columns, and a cell for each.
#[derive(Clone, Copy)]
pub(super) struct Printer {
    /// As [`Column::built_in`] reads them, separated by ` | `.
    pub(super) columns: &'static str,
    /// The cells of an object, at a time.
    pub(super) cells: Cells,
}

impl Printer {
    /// Its columns.
    pub(super) fn columns(&self) -> Vec<Column> {
        self.columns.split(" | ").map(Column::built_in).collect()
    }
}

/// The name, as the first cell.
pub(super) fn named(object: &Value) -> Value {
    name(object).into()
}

/// How long ago the object was made.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    duration::since(at(object, "metadata.creationTimestamp"), now).into()
}

/// A text at a path, empty if there is none.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

/// A text at a path, or what is said instead.
pub(super) fn text_or<'a>(object: &'a Value, path: &str, otherwise: &'a str) -> &'a str {
    match text(object, path) {
        "" => otherwise,
        text => text,
    }
}

/// A number at a path, 0 if there is none.
pub(super) fn number(object: &Value, path: &str) -> i64 {
    at(object, path).as_i64().unwrap_or(0)
}

/// The elements of a list at a path.
pub(super) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).as_array().map_or(&[], Vec::as_slice)
}

/// How many entries a list or a map at a path has.
pub(super) fn count(object: &Value, path: &str) -> usize {
    match at(object, path) {
        Value::Array(elements) => elements.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// The status of a condition, if it has one of this type.
pub(super) fn condition<'a>(object: &'a Value, type_name: &str) -> Option<&'a str> {
    list(object, "status.conditions")
        .iter()
        .find(|condition| condition["type"] == type_name)
        .map(|condition| condition["status"].as_str().unwrap_or_default())
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(object: &Value, path: &str) -> String {
    let pairs: Vec<String> = texts(at(object, path))
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    or_none(pairs.join(","))
}

/// A label selector as `a=b,c in (d,e),!f`, by key.
pub(super) fn selector(object: &Value, path: &str) -> String {
    label_selector::as_text(at(object, path))
}

/// `<none>` for nothing.
pub(super) fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

/// The first few of a list, and how many more there are.
pub(super) fn first_few(items: &[String], most: usize, separator: &str) -> String {
    let shown = items[..items.len().min(most)].join(separator);
    if items.len() > most {
        format!("{shown} + {} more...", items.len() - most)
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_from_their_short_form() {
        let column = |text: &str| {
            let c = Column::built_in(text);
            (c.name, c.type_name, c.format, c.priority)
        };
        let own = |name: &str, type_name: &str, format: &str, priority| {
            (name.to_owned(), type_name.to_owned(), format.to_owned(), priority)
        };
        assert_eq!(column("Name/name"), own("Name", "string", "name", 0));
        assert_eq!(column("Desired:integer"), own("Desired", "integer", "", 0));
        assert_eq!(column("Nominated Node*"), own("Nominated Node", "string", "", 1));
        assert_eq!(column("Name/name*"), own("Name", "string", "name", 1));
    }

    #[test]
    fn selectors_are_written_by_key() {
        let object = json!({"s": {"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["y", "x"]}, {"key": "a", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"}]}});
        assert_eq!(selector(&object, "s"), "a,b=1,c notin (x,y),!d");
        assert_eq!(selector(&object, "none"), "");
    }
}
