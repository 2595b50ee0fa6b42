//! The `extra-fields` fault: what an API that "may expand" looks like after it did.

use serde_json::{Value, json};

use super::faults::Faults;

/// Whether instances have a status that no client knows yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statuses {
    /// The documented ones.
    Known,
    /// One that came with something new.
    Unknown,
}

impl Statuses {
    /// In every second answer: where no status can be read, nobody gets as far as to any other word.
    pub(super) fn draw(faults: &mut Faults) -> Self {
        match faults.pick(2) {
            0 => Self::Known,
            _ => Self::Unknown,
        }
    }
}

/// The status of instances that no client knows yet.
const UNKNOWN_STATUS: &str = "hibernating";

/// Words that no client knows yet, for fields whose set of words is documented as open. `class` and `code` stay, and the
/// `status` of anything but instances: a cloud that lies about those is another fault.
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
pub(super) fn add(value: &mut Value, statuses: Statuses) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add(item, statuses)),
        Value::Object(map) => {
            map.values_mut().for_each(|field| add(field, statuses));
            // Nothing else says why it is as it is, and on what processors it runs.
            let is_instance = map.contains_key("status_reasons") && map.contains_key("vcpu");
            if is_instance && statuses == Statuses::Unknown {
                map.insert("status".into(), json!(UNKNOWN_STATUS));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_have_a_status_of_tomorrow() {
        let instance = json!({"status": "running", "status_reasons": [], "vcpu": {"count": 4}});
        let mut body = json!({"instances": [instance], "images": [{"status": "available"}]});
        add(&mut body, Statuses::Known);
        assert_eq!(body["instances"][0]["status"], "running");
        add(&mut body, Statuses::Unknown);
        assert_eq!(body["instances"][0]["status"], UNKNOWN_STATUS);
        assert_eq!(body["images"][0]["status"], "available");
    }
}
