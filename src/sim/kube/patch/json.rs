//! JSON patches: RFC 6902 with the leniencies of a real API server.
//!
//! It takes `replace` and `copy` of an entry that an object does not have (as if it were null), counts negative
//! indices from the end, passes a `test` of a missing entry against null (clients add the first finalizer that way),
//! and ignores what stands before the first slash of a path.

use bytes::Bytes;
use serde_json::Value;

use crate::sim::kube::refusal::Refusal;

/// The most operations that a patch may have, as on a real server.
const OPERATIONS_MAX: usize = 10_000;

/// What an operation may say.
const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// A JSON patch that was read, and the members of its operations that mean nothing.
#[derive(Debug)]
pub struct JsonPatch {
    operations: Vec<Value>,
    /// `json patch unknown field "[0].extra"`
    pub complaints: Vec<String>,
}

/// Why an operation cannot be carried out.
#[derive(Debug, thiserror::Error)]
enum OperationError {
    #[error("unknown operation {0:?}")]
    Unknown(String),
    #[error("{0} is missing")]
    Incomplete(&'static str),
    #[error("there is nothing at {0:?}")]
    Missing(String),
    #[error("the value at {0:?} is another one")]
    TestFailed(String),
    #[error("the whole object can only be replaced by an object or an array")]
    NotAnObject,
}

impl JsonPatch {
    /// Reads a patch.
    pub fn parse(body: &Bytes) -> Result<Self, Refusal> {
        let operations: Option<Vec<Value>> = serde_json::from_slice(body)
            .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
        let operations = operations.unwrap_or_default();
        if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
            return Err(Refusal::bad_request(format!(
                "error decoding patch: {other} is no operation"
            )));
        }
        if operations.len() > OPERATIONS_MAX {
            return Err(Refusal::too_large(format!(
                "the allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                operations.len()
            )));
        }
        let complaints = operations.iter().enumerate().flat_map(|(index, operation)| {
            let members = operation
                .as_object()
                .into_iter()
                .flat_map(|members| members.keys());
            members
                .filter(|member| !MEMBERS.contains(&member.as_str()))
                .map(move |member| format!("json patch unknown field \"[{index}].{member}\""))
        });
        Ok(Self {
            complaints: complaints.collect(),
            operations,
        })
    }

    /// What the patch makes of an object.
    pub fn apply(&self, live: &Value) -> Result<Value, Refusal> {
        let mut object = live.clone();
        for operation in &self.operations {
            carry_out(operation, &mut object)
                .map_err(|error| Refusal::unprocessable(format!("the JSON patch does not apply: {error}")))?;
        }
        Ok(object)
    }
}

fn carry_out(operation: &Value, object: &mut Value) -> Result<(), OperationError> {
    let text = |name: &'static str| operation[name].as_str().ok_or(OperationError::Incomplete(name));
    let value = || operation["value"].clone();
    let path = text("path")?;
    match text("op")? {
        "add" => add(object, path, value()),
        "remove" => remove(object, path).map(drop),
        "replace" if path.is_empty() => match value() {
            whole @ (Value::Object(_) | Value::Array(_)) => {
                *object = whole;
                Ok(())
            }
            _ => Err(OperationError::NotAnObject),
        },
        "replace" => replace(object, path, value()),
        "move" => {
            let moved = remove(object, text("from")?)?;
            add(object, path, moved)
        }
        "copy" => {
            let copied = get(object, text("from")?)?;
            add(object, path, copied)
        }
        "test" if path.is_empty() && *object == operation["value"] => Ok(()),
        "test" if !path.is_empty() && get(object, path)? == operation["value"] => Ok(()),
        "test" => Err(OperationError::TestFailed(path.to_owned())),
        other => Err(OperationError::Unknown(other.to_owned())),
    }
}

/// The object or array that holds the last part of a path, and that part.
fn holder<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), OperationError> {
    let missing = || OperationError::Missing(path.to_owned());
    let (_, path_below) = path.split_once('/').ok_or_else(missing)?;
    let parts: Vec<String> = path_below
        .split('/')
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect();
    let (last, parents) = parts.split_last().ok_or_else(missing)?;
    let mut holder = object;
    for part in parents {
        holder = match holder {
            Value::Object(fields) => fields.get_mut(part),
            Value::Array(items) => index(part, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if holder.is_object() || holder.is_array() {
        Ok((holder, last.clone()))
    } else {
        Err(missing())
    }
}

/// The place that an index names among `length`; one below zero counts from the end.
fn index(part: &str, length: usize) -> Option<usize> {
    let number: isize = part.parse().ok()?;
    let place = if number < 0 {
        length.checked_sub(number.unsigned_abs())?
    } else {
        number.unsigned_abs()
    };
    (place < length).then_some(place)
}

fn get(object: &mut Value, path: &str) -> Result<Value, OperationError> {
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => Ok(fields.get(&last).cloned().unwrap_or_default()),
        Value::Array(items) => {
            let found = index(&last, items.len()).and_then(|index| items.get(index));
            found
                .cloned()
                .ok_or_else(|| OperationError::Missing(path.to_owned()))
        }
        _ => Err(OperationError::Missing(path.to_owned())),
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), OperationError> {
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let place = index(&last, items.len() + 1);
            items.insert(
                place.ok_or_else(|| OperationError::Missing(path.to_owned()))?,
                value,
            );
        }
        _ => return Err(OperationError::Missing(path.to_owned())),
    }
    Ok(())
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), OperationError> {
    let (holder, last) = holder(object, path)?;
    let place = match holder {
        Value::Object(fields) => Some(fields.entry(last).or_insert(Value::Null)),
        Value::Array(items) => index(&last, items.len()).and_then(|index| items.get_mut(index)),
        _ => None,
    };
    *place.ok_or_else(|| OperationError::Missing(path.to_owned()))? = value;
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, OperationError> {
    let (holder, last) = holder(object, path)?;
    let removed = match holder {
        Value::Object(fields) => fields.remove(&last),
        Value::Array(items) => index(&last, items.len()).map(|index| items.remove(index)),
        _ => None,
    };
    removed.ok_or_else(|| OperationError::Missing(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::sim::kube::patch::samples;

    fn patched(live: &Value, patch: &Value) -> Result<Value, Refusal> {
        JsonPatch::parse(&patch.to_string().into())?.apply(live)
    }

    #[test]
    fn operations_change_what_they_name() {
        let live = json!({"a": {"b": 1}, "l": [1, 2]});
        let table = [
            (
                json!([{"op": "add", "path": "/a/c", "value": 2}]),
                json!({"a": {"b": 1, "c": 2}, "l": [1, 2]}),
            ),
            (
                json!([{"op": "add", "path": "/l/-", "value": 3}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "add", "path": "/l/0", "value": 3}]),
                json!({"a": {"b": 1}, "l": [3, 1, 2]}),
            ),
            (
                json!([{"op": "add", "path": "/l/2", "value": 3}]),
                json!({"a": {"b": 1}, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "remove", "path": "/l/-1"}]),
                json!({"a": {"b": 1}, "l": [1]}),
            ),
            (json!([{"op": "remove", "path": "/a"}]), json!({"l": [1, 2]})),
            (
                json!([{"op": "replace", "path": "/l/1", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 9]}),
            ),
            (
                json!([{"op": "replace", "path": "/z", "value": 9}]),
                json!({"a": {"b": 1}, "l": [1, 2], "z": 9}),
            ),
            (
                json!([{"op": "move", "from": "/a/b", "path": "/z"}]),
                json!({"a": {}, "l": [1, 2], "z": 1}),
            ),
            (
                json!([{"op": "copy", "from": "/a", "path": "/l/0"}]),
                json!({"a": {"b": 1}, "l": [{"b": 1}, 1, 2]}),
            ),
            (
                json!([{"op": "add", "path": "/x~1y~0z", "value": 1}]),
                json!({"a": {"b": 1}, "l": [1, 2], "x/y~z": 1}),
            ),
            (
                json!([{"op": "add", "path": "ignored/z", "value": 1}]),
                json!({"a": {"b": 1}, "l": [1, 2], "z": 1}),
            ),
            (
                json!([{"op": "replace", "path": "", "value": {"q": 1}}]),
                json!({"q": 1}),
            ),
            (json!([{"op": "test", "path": "/a/b", "value": 1}]), live.clone()),
            (
                json!([{"op": "test", "path": "/nope", "value": null}]),
                live.clone(),
            ),
            (json!([]), live.clone()),
        ];
        for (patch, expected) in table {
            assert_eq!(patched(&live, &patch).unwrap(), expected, "{patch}");
        }
    }

    #[test]
    fn an_operation_that_does_not_apply_is_422_invalid() {
        let table = [
            json!({"op": "test", "path": "/a/b", "value": 2}),
            json!({"op": "test", "path": "/nope", "value": 1}),
            json!({"op": "test", "path": "/nope/0", "value": null}),
            json!({"op": "remove", "path": "/nope"}),
            json!({"op": "remove", "path": ""}),
            json!({"op": "remove", "path": "/l/2"}),
            json!({"op": "add", "path": "/nope/a", "value": 1}),
            json!({"op": "add", "path": "/l/3", "value": 1}),
            json!({"op": "add", "path": "/a/b/c", "value": 1}),
            json!({"op": "replace", "path": "/l/2", "value": 1}),
            json!({"op": "replace", "path": "", "value": 1}),
            json!({"op": "move", "from": "/nope", "path": "/x"}),
            json!({"op": "move", "path": "/x"}),
            json!({"op": "add", "value": 1}),
            json!({"op": "frob", "path": "/a"}),
            json!({"path": "/a"}),
        ];
        for operation in table {
            let refusal = patched(&json!({"a": {"b": 1}, "l": [1, 2]}), &json!([operation])).unwrap_err();
            assert_eq!(
                (refusal.code(), refusal.reason()),
                (422, "Invalid"),
                "{operation}"
            );
            assert_eq!(refusal.status()["details"], json!({}));
        }
    }

    #[test]
    fn what_is_no_patch_is_400_and_what_is_too_long_413() {
        for body in ["", "nonsense", "{}", "[1]"] {
            let refusal = JsonPatch::parse(&Bytes::from_static(body.as_bytes())).unwrap_err();
            assert_eq!((refusal.code(), refusal.reason()), (400, "BadRequest"), "{body}");
        }
        let long =
            |count: usize| Value::from(vec![json!({"op": "test", "path": "/a", "value": null}); count]);
        assert!(patched(&json!({}), &long(10_000)).is_ok());
        assert_eq!(patched(&json!({}), &long(10_001)).unwrap_err().code(), 413);
    }

    #[test]
    fn members_that_mean_nothing_are_complained_about() {
        let patch =
            json!([{"op": "test", "path": "/a", "value": null}, {"op": "test", "path": "/a", "x": 1}]);
        let patch = JsonPatch::parse(&patch.to_string().into()).unwrap();
        assert_eq!(patch.complaints, ["json patch unknown field \"[1].x\""]);
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_one_object_to_the_other(from in samples::object(), to in samples::object()) {
            let diff = serde_json::to_value(json_patch::diff(&from, &to)).unwrap();
            prop_assert_eq!(patched(&from, &diff).unwrap(), to);
        }
    }
}
