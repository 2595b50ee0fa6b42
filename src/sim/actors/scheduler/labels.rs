//! Label selectors inside objects, as the scheduler reads them.
//!
//! No selector selects nothing and an empty one everything, as `metav1.LabelSelectorAsSelector` has it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

/// The labels of an object.
pub(in crate::sim::actors) type Labels = BTreeMap<String, String>;

static NONE: Labels = Labels::new();

/// The labels of an object, empty where it has none.
pub(in crate::sim::actors) fn of(meta: &ObjectMeta) -> &Labels {
    meta.labels.as_ref().unwrap_or(&NONE)
}

/// Whether an object with these labels is selected.
pub(in crate::sim::actors) fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    equal
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
        && expressions
            .into_iter()
            .all(|expression| holds(expression, labels))
}

/// Whether a selector has no term at all, and so selects everything.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

fn holds(expression: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&expression.key);
    let listed = value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
    match expression.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// What `matchLabelKeys` and `mismatchLabelKeys` make of a selector: the pod's own values of the former are demanded,
/// those of the latter refused. A real API server writes this into the pod, so doing it again changes nothing.
pub(super) fn with_keys(
    selector: Option<&LabelSelector>,
    own: &Labels,
    matching: &[String],
    mismatching: &[String],
) -> Option<LabelSelector> {
    let mut selector = selector?.clone();
    let demanded = matching.iter().map(|key| (key, "In"));
    let refused = mismatching.iter().map(|key| (key, "NotIn"));
    for (key, operator) in demanded.chain(refused) {
        if let Some(value) = own.get(key) {
            let expressions = selector.match_expressions.get_or_insert_default();
            expressions.push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
    Some(selector)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels(value: Value) -> Labels {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn selectors_select_as_kubernetes_does() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        let table = [
            (json!({}), json!({}), true),
            (
                json!({"matchLabels": {"a": "1"}}),
                json!({"a": "1", "b": "2"}),
                true,
            ),
            (json!({"matchLabels": {"a": "1"}}), json!({"a": "2"}), false),
            (expression("In", &["1", "2"]), json!({"a": "2"}), true),
            (expression("In", &["1"]), json!({}), false),
            (expression("NotIn", &["1"]), json!({}), true),
            (expression("NotIn", &["1"]), json!({"a": "1"}), false),
            (expression("Exists", &[]), json!({"a": ""}), true),
            (expression("DoesNotExist", &[]), json!({"a": ""}), false),
            (expression("Near", &[]), json!({"a": ""}), false),
        ];
        for (wanted, on, selected) in table {
            let told = format!("{wanted} on {on}");
            assert_eq!(selects(Some(&selector(wanted)), &labels(on)), selected, "{told}");
        }
        assert!(!selects(None, &labels(json!({}))));
    }

    #[test]
    fn keys_demand_and_refuse_the_values_of_the_pod_itself() {
        let own = labels(json!({"app": "web", "hash": "1"}));
        let base = selector(json!({"matchLabels": {"app": "web"}}));
        let same = with_keys(Some(&base), &own, &["hash".to_owned(), "none".to_owned()], &[]);
        assert!(selects(same.as_ref(), &own));
        assert!(!selects(
            same.as_ref(),
            &labels(json!({"app": "web", "hash": "2"}))
        ));
        let other = with_keys(Some(&base), &own, &[], &["hash".to_owned()]);
        assert!(!selects(other.as_ref(), &own));
        assert_eq!(with_keys(None, &own, &["hash".to_owned()], &[]), None);
    }
}
