//! The fields that field selectors may name, and what a selector compares.

use serde_json::Value;

use super::object;

/// The name under which a field is stored: events of both groups are the same objects.
pub fn stored_name(field: &str) -> &str {
    match field {
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "reportingController" => "reportingComponent",
        other => other,
    }
}

/// The value of a field. A typed server compares a truth or a count that nobody wrote as `false` and `0`.
pub fn value(object: &Value, field: &str) -> String {
    let at = |path: &str| object::scalar(object::at(object, path));
    let or = |text: String, otherwise: &str| {
        if text.is_empty() {
            otherwise.to_owned()
        } else {
            text
        }
    };
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => or(at(field), "false"),
        "status.replicas" => or(at(field), "0"),
        "status.successful" => or(at("status.succeeded"), "0"),
        "source" => or(at("source.component"), &at("reportingComponent")),
        _ => at(field),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_selected_by_the_words_of_either_group() {
        let event = json!({"involvedObject": {"name": "p"}, "reportingComponent": "karpenter"});
        for field in ["involvedObject.name", "regarding.name"] {
            assert_eq!(value(&event, stored_name(field)), "p");
        }
        assert_eq!(value(&event, "source"), "karpenter");
    }

    #[test]
    fn what_nobody_wrote_is_false_or_zero() {
        let table = [
            ("spec.unschedulable", json!({}), "false"),
            (
                "spec.unschedulable",
                json!({"spec": {"unschedulable": true}}),
                "true",
            ),
            ("status.successful", json!({"status": {"succeeded": 2}}), "2"),
            ("status.replicas", json!({}), "0"),
            ("spec.nodeName", json!({}), ""),
        ];
        for (field, object, expected) in table {
            assert_eq!(value(&object, field), expected, "{field} of {object}");
        }
    }
}
