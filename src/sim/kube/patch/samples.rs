//! Objects to patch, for properties.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3_i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ]
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c~/]{1,2}", inner, 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

/// Any object without nulls.
pub(super) fn object() -> impl Strategy<Value = Value> {
    let value = leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            fields(inner),
        ]
    });
    fields(value)
}

/// Any object without lists, in which a null may stand.
pub(super) fn object_without_lists() -> impl Strategy<Value = Value> {
    let value = prop_oneof![leaf(), Just(json!(null))].prop_recursive(3, 24, 4, fields);
    fields(value)
}
