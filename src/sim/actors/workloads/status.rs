//! Writing a status: only what changed, and nothing if nothing did.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::sim::actors::control_plane::Act;
use crate::sim::actors::view::Kept;

/// Makes the status of an object what it should be, if it is not.
pub(super) fn corrected<K: Kept, S: Serialize + PartialEq>(
    object: &K,
    old: Option<&S>,
    new: &S,
) -> Option<Act> {
    if old == Some(new) {
        return None;
    }
    let value = |status| serde_json::to_value(status).unwrap_or_default();
    let change = difference(&old.map(value).unwrap_or_default(), &value(new));
    change.map(|change| Act::patch_status(object, change))
}

/// The merge patch from one value to another; `None` where they are the same.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        if let Some(change) = difference(before.get(key).unwrap_or(&Value::Null), value) {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// A count as the API writes it: zero is left out.
pub(super) fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// Now, as the API writes times: whole seconds.
pub(super) fn moment(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_says_what_is_new_and_what_is_gone() {
        let old = json!({"same": 1, "gone": 2, "map": {"a": 1, "b": 2}, "list": [1]});
        let new = json!({"same": 1, "new": 3, "map": {"b": 2, "c": 3}, "list": [1, 2]});
        let patch = json!({"gone": null, "new": 3, "map": {"a": null, "c": 3}, "list": [1, 2]});
        assert_eq!(difference(&old, &new), Some(patch));
        assert_eq!(difference(&old, &old), None);
    }
}
