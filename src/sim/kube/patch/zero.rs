//! What an object of a built-in kind holds before anybody wrote to it: its structures, empty.
//!
//! A structure that every object of the kind has is nobody's, only the fields in it are. Which those are the schema
//! tells by a default of `{}`; a list that must be there is null at first.

use serde_json::{Map, Value};

use super::shape::Shape;

/// The empty object of a shape.
pub fn zero(shape: Shape<'_>) -> Value {
    let mut fields = Map::new();
    let declared = shape.keyword("properties").and_then(Value::as_object);
    let required = shape.keyword("required").and_then(Value::as_array);
    for name in declared.into_iter().flat_map(Map::keys) {
        let field = shape.field(name);
        let is_structure = field
            .keyword("default")
            .and_then(Value::as_object)
            .is_some_and(Map::is_empty);
        let is_list = field.keyword("type").is_some_and(|kind| kind == "array");
        if is_structure {
            fields.insert(name.clone(), zero(field));
        } else if is_list && required.is_some_and(|names| names.iter().any(|known| known == name)) {
            fields.insert(name.clone(), Value::Null);
        }
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sim::kube::registry::Registry;

    #[test]
    fn a_new_deployment_has_a_template_with_nothing_in_it() {
        let kind = Registry::default().find("apps", "v1", "deployments").unwrap();
        let empty = zero(Shape::of(&kind));
        assert_eq!(
            empty["spec"],
            json!({"strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}})
        );
    }
}
