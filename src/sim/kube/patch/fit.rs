//! What does not fit a schema: values of another type, fields that cannot be owned, nulls that cannot stay.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fieldset::Element;
use super::shape::Shape;

/// A value that does not fit. Its path is put together on the way back, so that what fits costs none.
struct Misfit {
    path: String,
    problem: String,
}

impl Misfit {
    fn here(problem: String) -> Self {
        Self {
            path: String::new(),
            problem,
        }
    }

    fn in_field(mut self, name: &str) -> Self {
        self.path = format!(".{name}{}", self.path);
        self
    }

    fn in_element(mut self, index: usize) -> Self {
        self.path = format!("[{index}]{}", self.path);
        self
    }

    fn told(self) -> String {
        format!("{}: {}", self.path, self.problem)
    }
}

impl<'a> Shape<'a> {
    /// The first value of another JSON type than the schema's, as the path to it and what was expected.
    pub fn mistyped(self, value: &Value) -> Option<String> {
        self.mistyped_at(value).map(Misfit::told)
    }

    fn mistyped_at(self, value: &Value) -> Option<Misfit> {
        let expected = self.expected();
        let fits = match (expected, value) {
            (None, _) | (_, Value::Null) => true,
            (Some("string"), value) => value.is_string(),
            (Some("boolean"), value) => value.is_boolean(),
            (Some("integer" | "number"), value) => value.is_number(),
            (Some("array"), value) => value.is_array(),
            (Some("object"), value) => value.is_object(),
            (Some(_), _) => true,
        };
        if !fits {
            let expected = expected.unwrap_or_default();
            return Some(Misfit::here(format!("expected {expected}, got {value}")));
        }
        match value {
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let misfit = self.field(name).mistyped_at(value);
                misfit.map(|misfit| misfit.in_field(name))
            }),
            Value::Array(items) => items.iter().enumerate().find_map(|(index, value)| {
                let misfit = self.items().mistyped_at(value);
                misfit.map(|misfit| misfit.in_element(index))
            }),
            _ => None,
        }
    }

    fn expected(self) -> Option<&'a str> {
        if self.is("x-kubernetes-int-or-string") {
            return None;
        }
        self.keyword("type").and_then(Value::as_str)
    }

    /// The first field that the schema does not declare, or list element that is there twice or has none of its
    /// keys: what cannot be owned.
    pub fn unownable(self, value: &Value) -> Option<String> {
        self.unownable_at(value).map(Misfit::told)
    }

    fn unownable_at(self, value: &Value) -> Option<Misfit> {
        match value {
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let misfit = if self.is_closed() && !self.declares(name) {
                    Some(Misfit::here("field not declared in schema".to_owned()))
                } else {
                    self.field(name).unownable_at(value)
                };
                misfit.map(|misfit| misfit.in_field(name))
            }),
            Value::Array(items) => self.indistinct(items).map(Misfit::here).or_else(|| {
                items.iter().enumerate().find_map(|(index, item)| {
                    let misfit = self.items().unownable_at(item);
                    misfit.map(|misfit| misfit.in_element(index))
                })
            }),
            _ => None,
        }
    }

    /// Whether fields that the schema does not name cannot be there.
    fn is_closed(self) -> bool {
        self.keyword("properties")
            .and_then(Value::as_object)
            .is_some_and(|fields| !fields.is_empty())
            && self.keyword("additionalProperties").is_none()
            && !self.is("x-kubernetes-preserve-unknown-fields")
    }

    fn indistinct(self, items: &[Value]) -> Option<String> {
        let mut seen = BTreeSet::new();
        let elements = self.elements(items)?;
        elements.into_iter().enumerate().find_map(|(index, element)| {
            if matches!(element, Element::Index(_)) {
                return Some(format!("element {index}: it has none of its keys"));
            }
            let text = element.to_string();
            (!seen.insert(element)).then(|| format!("duplicate entries for key {text}"))
        })
    }

    /// The first field that is `null` although its schema neither allows that nor has a default to put there. In
    /// metadata null is absence.
    pub fn null_field(self, value: &Value) -> Option<String> {
        self.null_field_at(value, "")
    }

    fn null_field_at(self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                if self.is_object && name == "metadata" {
                    return None;
                }
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                self.field(name).null_field_at(value, &path)
            }),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, item)| self.items().null_field_at(item, &format!("{path}[{index}]"))),
            Value::Null => {
                let stays =
                    self.is("nullable") || self.keyword("default").is_some() || self.expected().is_none();
                (!stays).then(|| path.to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::samples;

    #[test]
    fn what_does_not_fit_is_found() {
        let schema = samples::pod();
        let shape = Shape::of_object(Some(&schema));
        let fits = json!({"apiVersion": "v1", "metadata": {"labels": {"a": "1"}}, "spec": {"priority": 1, "nodeName": null}});
        assert_eq!((shape.mistyped(&fits), shape.unownable(&fits)), (None, None));
        let mistyped = |object: Value| shape.mistyped(&object).is_some();
        let ports = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": "x"}]}]}});
        let told = ".spec.containers[0].ports[0].containerPort: expected integer, got \"x\"";
        assert_eq!(shape.mistyped(&ports).as_deref(), Some(told));
        assert!(mistyped(json!({"spec": {"nodeName": 1}})));
        assert!(mistyped(json!({"metadata": {"labels": {"a": 1}}})));
        assert!(mistyped(json!({"spec": {"containers": {}}})));
        let unownable = |object: Value| shape.unownable(&object).is_some();
        assert!(unownable(json!({"spec": {"nope": 1}})));
        assert!(unownable(json!({"metadata": {"nope": 1}})));
        assert!(unownable(json!({"metadata": {"finalizers": ["a", "a"]}})));
        assert!(unownable(json!({"spec": {"containers": [{"image": "i"}]}})));
        assert!(unownable(
            json!({"spec": {"containers": [{"name": "c"}, {"name": "c"}]}})
        ));
    }
}
