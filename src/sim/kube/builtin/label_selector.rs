//! Label selectors inside objects (`matchLabels`, `matchExpressions`), as the text that queries use.

use serde_json::Value;

use super::fields::{each, text};
use crate::sim::kube::object;
use crate::sim::kube::selector::LabelSelector;

/// The selector as text, its terms in the order of their keys: `a=b,c in (d,e),!f`.
pub fn as_text(selector: &Value) -> String {
    let labels = object::texts(&selector["matchLabels"]);
    let mut terms: Vec<(String, String)> = labels
        .into_iter()
        .map(|(key, value)| (key.clone(), format!("{key}={value}")))
        .collect();
    for expression in each(selector, "matchExpressions") {
        let key = text(expression, "key");
        let mut values: Vec<&str> = each(expression, "values").filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort_by(|one, other| one.0.cmp(&other.0));
    let texts: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    texts.join(",")
}

/// Whether a selector selects an object with these labels. No selector selects nothing, an empty one everything.
pub fn selects(selector: &Value, labels: &std::collections::BTreeMap<String, String>) -> bool {
    selector.is_object()
        && LabelSelector::parse(&as_text(selector)).is_ok_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_reads_as_kubectl_writes_it() {
        let selector = json!({"matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [
            {"key": "m", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "Exists"}]});
        assert_eq!(as_text(&selector), "a=2,!b,c,m in (x,y),z=1");
    }

    #[test]
    fn no_selector_selects_nothing_and_an_empty_one_everything() {
        let labels = [("a".to_owned(), "1".to_owned())].into();
        assert!(!selects(&Value::Null, &labels));
        assert!(selects(&json!({}), &labels));
        assert!(selects(&json!({"matchLabels": {"a": "1"}}), &labels));
        assert!(!selects(&json!({"matchLabels": {"a": "2"}}), &labels));
    }
}
