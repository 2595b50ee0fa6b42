//! Merge patches: RFC 7396, and like a real API server without the nulls inside lists of objects.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::sim::kube::refusal::Refusal;

/// Reads a patch: an object, whatever is in it.
pub fn parse(body: &Bytes) -> Result<Value, Refusal> {
    let patch: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    Ok(patch.into())
}

/// What the patch makes of an object.
pub fn apply(live: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        let mut replaced = patch.clone();
        discard_nulls(&mut replaced);
        return replaced;
    };
    let mut merged = live.as_object().cloned().unwrap_or_default();
    for (name, change) in changes {
        if change.is_null() {
            merged.remove(name);
        } else {
            let old = merged.get(name).unwrap_or(&Value::Null);
            let new = apply(old, change);
            merged.insert(name.clone(), new);
        }
    }
    merged.into()
}

/// Takes away the entries of objects that are null, however deep; null elements of lists stay.
pub fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::samples;

    #[test]
    fn the_examples_of_the_standard_hold() {
        let table = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (
                json!({}),
                json!({"a": [{"b": null, "c": 1}, null]}),
                json!({"a": [{"c": 1}, null]}),
            ),
        ];
        for (live, patch, expected) in table {
            assert_eq!(apply(&live, &patch), expected, "{live} + {patch}");
        }
    }

    #[test]
    fn only_an_object_is_a_patch() {
        for body in ["", "x", "[]", "1", "null"] {
            let refusal = parse(&Bytes::from_static(body.as_bytes())).unwrap_err();
            assert_eq!(refusal.code(), 400, "{body}");
        }
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(live in samples::object(), patch in samples::object()) {
            let once = apply(&live, &patch);
            prop_assert_eq!(apply(&once, &patch), once);
        }

        #[test]
        fn an_object_merges_into_nothing_as_itself(object in samples::object()) {
            prop_assert_eq!(apply(&json!({}), &object), object.clone());
            prop_assert_eq!(apply(&object, &json!({})), object);
        }
    }
}
