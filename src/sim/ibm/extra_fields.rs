//! The `extra-fields` fault: what an API that "may expand" looks like after it did.

use serde_json::{Value, json};

/// Words that no client knows yet, for fields whose set of words is documented as open. `status`, `class` and `code`
/// stay: a cloud that lies about those is another fault.
const UNKNOWN_WORDS: [(&str, &str); 8] = [
    ("health_state", "recuperating"),
    ("lifecycle_state", "hibernating"),
    ("confidential_compute_mode", "cca"),
    ("volume_bandwidth_qos_mode", "burst"),
    ("protocol", "http3"),
    ("host_failure", "migrate"),
    ("resource_type", "novelty"),
    ("family", "quantum"),
];

/// Adds an unknown field to every object, unknown words where words may come, an unknown kind of value to profiles.
pub(super) fn add(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add),
        Value::Object(map) => {
            map.values_mut().for_each(add);
            for (key, word) in UNKNOWN_WORDS {
                if map.get(key).is_some_and(Value::is_string) {
                    map.insert(key.into(), json!(word));
                }
            }
            if map.contains_key("vcpu_burst_limit") {
                map.insert(
                    "vcpu_burst_limit".into(),
                    json!({ "type": "curve", "points": [1, 2, 3] }),
                );
            }
            map.insert("zz_added_later".into(), json!({ "nested": [1, null, "three"] }));
        }
        _ => {}
    }
}
