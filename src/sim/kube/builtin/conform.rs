//! Reading and writing as a typed server does: what is unknown goes, what has the wrong type is refused, what is zero
//! is left out or written as the type says, and amounts and times take their canonical form.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::settled::{is_known, is_settled};
use super::shapes::{self, Field, Shape, Zero};
use crate::quantity::Quantity;

/// A value that the type of its field cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go struct field {path} of type {expected}")]
pub struct Mismatch {
    path: String,
    found: String,
    expected: String,
}

/// Makes an object what a server would write after reading it; returns the paths of what it did not know.
pub fn conform(api_version: &str, kind: &str, object: &mut Value) -> Result<Vec<String>, Mismatch> {
    match shapes::of(api_version, kind) {
        Some(shape) if !is_settled(object, &shape) => read_whole(object, &shape),
        _ => Ok(Vec::new()),
    }
}

/// The paths of what a server would not know in an object, which stays as it is.
pub fn unknown(api_version: &str, kind: &str, object: &Value) -> Result<Vec<String>, Mismatch> {
    match shapes::of(api_version, kind) {
        Some(shape) if !is_known(object, &shape) => read_whole(&mut object.clone(), &shape),
        _ => Ok(Vec::new()),
    }
}

/// Reads an object, settled or not.
pub(super) fn read_whole(object: &mut Value, shape: &Shape) -> Result<Vec<String>, Mismatch> {
    let mut unknown = Vec::new();
    read(object, shape, At::Top, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

/// Where a value stands. It is read through for every field of every object that is written, so it is put into words
/// only when there is something to say about the field.
#[derive(Clone, Copy)]
enum At<'a> {
    Top,
    Field(&'a Self, &'a str),
    Element(&'a Self, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Field(Self::Top, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

fn read(value: &mut Value, shape: &Shape, at: At<'_>, unknown: &mut Vec<String>) -> Result<(), Mismatch> {
    let mismatch = |value: &Value, expected: &str| {
        Err(Mismatch {
            path: at.to_string(),
            found: described(value),
            expected: expected.to_owned(),
        })
    };
    match (shape, &mut *value) {
        (_, Value::Null) => *value = zero(shape),
        (Shape::Any, _)
        | (Shape::Text | Shape::IntOrString, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Float, Value::Number(_))
        | (Shape::AnyObject, Value::Object(_))
        | (Shape::SchemaOr, Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
        (Shape::Bytes, Value::String(text)) if STANDARD.decode(text.as_str()).is_ok() => {}
        (Shape::Int64, Value::Number(number)) if number.is_i64() => {}
        (Shape::Int32 | Shape::IntOrString, Value::Number(number))
            if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
        (Shape::Quantity, Value::String(_) | Value::Number(_)) => match quantity(value) {
            Some(canonical) => *value = canonical,
            None => return mismatch(value, "resource.Quantity"),
        },
        (Shape::Time, Value::String(text)) => match time(text) {
            Some(canonical) => *value = canonical,
            None => return mismatch(value, "time.Time"),
        },
        (Shape::MicroTime, Value::String(text)) => match micro_time(text) {
            Some(canonical) => *value = canonical,
            None => return mismatch(value, "time.Time"),
        },
        (Shape::List(items), Value::Array(elements)) => {
            for (index, element) in elements.iter_mut().enumerate() {
                read(element, items, At::Element(&at, index), unknown)?;
            }
        }
        (Shape::Map(values), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                read(entry, values, At::Field(&at, key), unknown)?;
                if **values == Shape::Quantity {
                    round_up(entry);
                }
            }
        }
        (Shape::Struct(id), Value::Object(given)) => {
            read_struct(given, &shapes::structure_of(*id).fields, at, unknown)?;
        }
        (Shape::SchemaOr, Value::Object(_)) => read(value, &shapes::schema(), at, unknown)?,
        (Shape::SchemaOr, Value::Array(elements)) => {
            for (index, element) in elements.iter_mut().enumerate() {
                read(element, &Shape::SchemaOr, At::Element(&at, index), unknown)?;
            }
        }
        (shape, value) => return mismatch(value, go_type(shape)),
    }
    Ok(())
}

fn read_struct(
    given: &mut Map<String, Value>,
    fields: &shapes::Fields,
    at: At<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), Mismatch> {
    let mut outcome = Ok(());
    given.retain(|name, value| {
        let at = At::Field(&at, name);
        let Some(field) = fields.get(name) else {
            unknown.push(at.to_string());
            return false;
        };
        if value.is_null() || outcome.is_err() {
            return false;
        }
        outcome = read(value, &field.shape, at, unknown);
        !is_lost(field, value)
    });
    outcome?;
    for (name, field) in fields {
        if !field.is_always_written() || given.contains_key(name) {
            continue;
        }
        match (&field.default, field.zero) {
            (Some(default), _) => given.insert(name.clone(), default.clone()),
            (None, Zero::Written) => given.insert(name.clone(), zero(&field.shape)),
            (None, Zero::Null) => given.insert(name.clone(), Value::Null),
            (None, Zero::Kept | Zero::Omitted) => None,
        };
    }
    Ok(())
}

/// Whether a value is not told apart from absence. A list or map that is empty comes back from the store as none at all.
pub(super) fn is_lost(field: &Field, value: &Value) -> bool {
    match (field.zero, &field.shape) {
        (Zero::Omitted, _) => is_zero(value),
        (Zero::Null, Shape::List(_) | Shape::Map(_)) => {
            (value.is_array() || value.is_object()) && is_zero(value)
        }
        _ => false,
    }
}

/// What a server writes where nothing was given.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Text | Shape::Bytes => json!(""),
        Shape::Bool => json!(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Float => json!(0),
        Shape::Quantity => json!("0"),
        Shape::Struct(id) => {
            let mut fields = Map::new();
            let structure = shapes::structure_of(*id);
            // An empty structure has nothing unknown and nothing of a wrong type.
            let _ = read_struct(&mut fields, &structure.fields, At::Top, &mut Vec::new());
            fields.into()
        }
        _ => Value::Null,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn quantity(value: &Value) -> Option<Value> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    Some(text.parse::<Quantity>().ok()?.to_string().into())
}

/// Amounts of resources are counted in thousandths at the finest; a server rounds up what is finer.
fn round_up(amount: &mut Value) {
    const MILLI: i128 = 1_000_000;
    let Some(quantity) = amount.as_str().and_then(|text| text.parse::<Quantity>().ok()) else {
        return;
    };
    let rest = quantity.nanos().rem_euclid(MILLI);
    if rest != 0 {
        let rounded = Quantity::from_nanos(quantity.nanos() - rest + MILLI, quantity.notation());
        *amount = rounded.to_string().into();
    }
}

/// Whole seconds, in UTC.
fn time(text: &str) -> Option<Value> {
    let time: Timestamp = text.parse().ok()?;
    Some(Timestamp::from_second(time.as_second()).ok()?.to_string().into())
}

/// Six digits behind the seconds, no more and no less: Go's layout for it asks for exactly so many.
fn micro_time(text: &str) -> Option<Value> {
    let time: Timestamp = text.parse().ok()?;
    let (_, fraction) = text.split_once('.')?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    (digits == 6).then(|| format!("{time:.6}").into())
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn go_type(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text => "string",
        Shape::Bytes => "[]uint8",
        Shape::Time | Shape::MicroTime => "time.Time",
        Shape::Quantity => "resource.Quantity",
        Shape::IntOrString => "intstr.IntOrString",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float => "float64",
        Shape::Bool => "bool",
        Shape::List(_) => "slice",
        Shape::Map(_) | Shape::AnyObject => "map",
        Shape::Struct(id) => &shapes::structure_of(*id).name,
        Shape::SchemaOr | Shape::Any => "any",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn unknown_fields_go_and_are_named_by_their_paths() {
        let mut object = pod(&json!({"containers": [{"name": "c", "imagee": "x"}], "foo": 1}));
        object["metadata"]["bar"] = json!(1);
        let unknown = conform("v1", "Pod", &mut object).unwrap();
        assert_eq!(unknown, ["metadata.bar", "spec.containers[0].imagee", "spec.foo"]);
        assert!(object["spec"].get("foo").is_none());
    }

    #[test]
    fn zeros_are_forgotten_kept_or_written_as_their_type_says() {
        let mut object = pod(&json!({
            "hostNetwork": false, "automountServiceAccountToken": false, "nodeSelector": {},
            "containers": [{"name": "c", "image": "", "ports": [{"containerPort": 80, "hostPort": 0}]}],
        }));
        conform("v1", "Pod", &mut object).unwrap();
        assert_eq!(
            object["spec"],
            json!({
                "automountServiceAccountToken": false,
                "containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}}],
            })
        );
        assert_eq!(object["status"], json!({}));
        let mut role = json!({"metadata": {}});
        conform("rbac.authorization.k8s.io/v1", "Role", &mut role).unwrap();
        assert_eq!(role, json!({"metadata": {}, "rules": null}));
    }

    #[test]
    fn amounts_and_times_take_their_canonical_form() {
        let resources = json!({"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"cpu": "999999u"}});
        let mut object = pod(&json!({"containers": [{"name": "c", "resources": resources}]}));
        object["metadata"]["creationTimestamp"] = json!("2026-11-16T11:00:00.5+01:00");
        conform("v1", "Pod", &mut object).unwrap();
        assert_eq!(
            object["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}})
        );
        assert_eq!(object["metadata"]["creationTimestamp"], "2026-11-16T10:00:00Z");
        let lease = |time: &str| {
            let mut lease = json!({"metadata": {}, "spec": {"renewTime": time}});
            conform("coordination.k8s.io/v1", "Lease", &mut lease).map(|_| lease["spec"]["renewTime"].clone())
        };
        assert_eq!(
            lease("2026-11-16T10:00:00.120000Z").unwrap(),
            "2026-11-16T10:00:00.120000Z"
        );
        assert!(lease("2026-11-16T10:00:00Z").is_err());
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named() {
        for (spec, found) in [
            (json!({"terminationGracePeriodSeconds": "30"}), "string"),
            (json!({"priority": 3_000_000_000_i64}), "number 3000000000"),
            (json!({"containers": {}}), "object"),
            (json!({"hostNetwork": "yes"}), "string"),
            (json!({"nodeSelector": {"a": 1}}), "number 1"),
            (json!({"overhead": {"cpu": "1 core"}}), "string"),
        ] {
            let mismatch = conform("v1", "Pod", &mut pod(&spec)).unwrap_err();
            assert_eq!(mismatch.found, found);
        }
    }

    #[test]
    fn schemas_inside_definitions_are_read_at_every_depth() {
        let schema = json!({"type": "object", "properties": {"a": {"typo": 1, "items": {"typo": 2}}},
                            "additionalProperties": true});
        let mut crd =
            json!({"metadata": {}, "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        let unknown = conform("apiextensions.k8s.io/v1", "CustomResourceDefinition", &mut crd).unwrap();
        let path = "spec.versions[0].schema.openAPIV3Schema.properties.a";
        assert_eq!(unknown, [format!("{path}.items.typo"), format!("{path}.typo")]);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2_i64..3).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("(name|image|ports|env|value|resources)", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_conforms_already_stays_as_it_is(container in json_value(), status in json_value()) {
            let mut object = pod(&json!({"containers": [container]}));
            object["status"] = status;
            let shape = shapes::of("v1", "Pod").unwrap();
            let settled = is_settled(&object, &shape).then(|| object.clone());
            let known = is_known(&object, &shape);
            let read = read_whole(&mut object, &shape);
            prop_assert!(!known || read.as_ref().is_ok_and(Vec::is_empty));
            if read.is_ok() {
                let mut again = object.clone();
                prop_assert_eq!(read_whole(&mut again, &shape).unwrap(), Vec::<String>::new());
                prop_assert_eq!(&again, &object);
                prop_assert!(settled.is_none_or(|settled| settled == object));
            } else {
                prop_assert!(settled.is_none());
            }
        }
    }
}
