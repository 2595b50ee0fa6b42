//! Node selectors: which nodes a pod or a volume accepts, and which a pod prefers.

use k8s_openapi::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
};

use super::labels::{self, Labels};

/// Whether the pod's node selector and required node affinity accept a node.
pub(in crate::sim::actors) fn accepts(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let on = labels::of(&node.metadata);
    let chosen = spec.node_selector.iter().flatten();
    let required = affinity(pod).and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    chosen.into_iter().all(|(key, value)| on.get(key) == Some(value))
        && required.is_none_or(|selector| selects(selector, node))
}

/// Whether any term of a node selector accepts a node.
pub(in crate::sim::actors) fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector
        .node_selector_terms
        .iter()
        .any(|term| term_holds(term, node))
}

/// The sum of the weights of the preferences that a node meets.
pub(super) fn preference(pod: &Pod, node: &Node) -> i64 {
    let preferred = affinity(pod).and_then(|affinity| {
        affinity
            .preferred_during_scheduling_ignored_during_execution
            .as_deref()
    });
    let met = preferred
        .unwrap_or_default()
        .iter()
        .filter(|one| term_holds(&one.preference, node));
    met.map(|one| i64::from(one.weight)).sum()
}

fn affinity(pod: &Pod) -> Option<&NodeAffinity> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
    affinity.node_affinity.as_ref()
}

/// A term without any requirement accepts nothing.
fn term_holds(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let on = labels::of(&node.metadata);
    let name = node.metadata.name.as_deref();
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| label_holds(one, on))
        && fields.iter().all(|one| field_holds(one, name))
}

fn label_holds(requirement: &NodeSelectorRequirement, on: &Labels) -> bool {
    value_holds(requirement, on.get(&requirement.key).map(String::as_str))
}

/// The only field that Kubernetes knows is the name.
fn field_holds(requirement: &NodeSelectorRequirement, name: Option<&str>) -> bool {
    requirement.key == "metadata.name" && value_holds(requirement, name)
}

fn value_holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers = || {
        let bound = values.first()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        let labels = json!({"zone": "a", "cores": "8", "size": "big"});
        serde_json::from_value(json!({"metadata": {"name": "n1", "labels": labels}})).unwrap()
    }

    fn pod(spec: Value) -> Pod {
        let mut pod = json!({});
        pod["spec"] = spec;
        pod["spec"]["containers"] = json!([]);
        serde_json::from_value(pod).unwrap()
    }

    fn requiring(terms: &Value) -> Pod {
        pod(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}))
    }

    #[test]
    fn every_operator_means_what_kubernetes_means() {
        let table = [
            ("zone", "In", json!(["a", "b"]), true),
            ("zone", "In", json!(["b"]), false),
            ("none", "In", json!(["b"]), false),
            ("zone", "NotIn", json!(["a"]), false),
            ("none", "NotIn", json!(["a"]), true),
            ("zone", "Exists", json!([]), true),
            ("none", "Exists", json!([]), false),
            ("none", "DoesNotExist", json!([]), true),
            ("zone", "DoesNotExist", json!([]), false),
            ("cores", "Gt", json!(["7"]), true),
            ("cores", "Gt", json!(["8"]), false),
            ("cores", "Lt", json!(["9"]), true),
            ("size", "Lt", json!(["9"]), false),
            ("none", "Gt", json!(["1"]), false),
        ];
        for (key, operator, values, accepted) in table {
            let terms = json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
            assert_eq!(accepts(&requiring(&terms), &node()), accepted, "{terms}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_their_parts_are_not() {
        let is = |value: &str| json!({"key": "zone", "operator": "In", "values": [value]});
        let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
        let table = [
            (
                json!([{"matchExpressions": [is("b")]}, {"matchExpressions": [is("a")]}]),
                true,
            ),
            (json!([{"matchExpressions": [is("a"), is("b")]}]), false),
            (json!([{"matchFields": [named("n1")]}]), true),
            (json!([{"matchFields": [named("n2")]}]), false),
            (
                json!([{"matchFields": [named("n1")], "matchExpressions": [is("b")]}]),
                false,
            ),
            (json!([{}]), false),
            (json!([]), false),
        ];
        for (terms, accepted) in table {
            assert_eq!(accepts(&requiring(&terms), &node()), accepted, "{terms}");
        }
    }

    #[test]
    fn the_node_selector_and_the_affinity_must_both_accept() {
        assert!(accepts(&pod(json!({"nodeSelector": {"zone": "a"}})), &node()));
        assert!(!accepts(&pod(json!({"nodeSelector": {"zone": "b"}})), &node()));
        assert!(accepts(&pod(json!({})), &node()));
    }

    #[test]
    fn preferences_add_up() {
        let prefers = |weight: i32, value: &str| {
            json!({"weight": weight, "preference": {"matchExpressions": [
                {"key": "zone", "operator": "In", "values": [value]}]}})
        };
        let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [prefers(10, "a"), prefers(5, "b"), prefers(1, "a")]}});
        assert_eq!(preference(&pod(json!({"affinity": affinity})), &node()), 11);
    }
}
