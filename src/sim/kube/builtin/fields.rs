//! Looking into objects, and filling in what nobody said.

use serde_json::Value;

/// Whether something was said: an empty text says nothing.
pub fn is_set(object: &Value, field: &str) -> bool {
    !matches!(object.get(field), None | Some(Value::Null)) && object[field] != ""
}

/// A text, empty if there is none.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Sets a field where nothing was said.
pub fn fill(object: &mut Value, field: &str, default: impl Into<Value>) {
    if is_set(object, field) {
        return;
    }
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), default.into());
    }
}

/// The elements of a list, none if there is no list.
pub fn each<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object[field].as_array().into_iter().flatten()
}

/// The elements of a list, to be changed.
pub fn each_mut<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// A structure, to be changed, if it is there.
pub fn inside<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter()
        .try_fold(object, |object, field| object.get_mut(*field))
        .filter(|value| value.is_object())
}
