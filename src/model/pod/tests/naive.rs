//! What a pod asks of nodes once it is read, against its spec read by somebody who combines nothing.
//!
//! Everybody gets pods as they are read here, the audit of plans among them, so a mistake here would be in what is planned
//! and in what is judged alike.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod as ApiPod, PodSpec,
};
use proptest::prelude::*;

use crate::api::names::ARCH;
use crate::model::Node;
use crate::model::pod::{NODE_NAME, Pod, Reading};

/// An older name of a label: kubelets see to it that a node has both or none.
const OLD_ARCH: &str = "beta.kubernetes.io/arch";
const ON_NODES: [&str; 3] = ["team", "size", ARCH];
const ASKED_ABOUT: [&str; 4] = ["team", "size", ARCH, OLD_ARCH];
/// Each in one spelling: requirements take `7` and `07` for the same where they count what their bounds leave.
const NUMBERS: [&str; 5] = ["0", "1", "2", "3", "10"];
const VALUES: [&str; 7] = ["0", "1", "2", "3", "10", "a", "b"];
const NAMES: [&str; 2] = ["one", "two"];

type Labels = BTreeMap<String, String>;

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

fn requirement(key: String, operator: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key,
        operator: operator.to_owned(),
        values: Some(values),
    }
}

fn expression() -> impl Strategy<Value = NodeSelectorRequirement> {
    let several = || prop::collection::vec(one_of(&VALUES), 1..4);
    let number = || one_of(&NUMBERS).prop_map(|number| vec![number]);
    let meaning = prop_oneof![
        several().prop_map(|values| ("In", values)),
        several().prop_map(|values| ("NotIn", values)),
        number().prop_map(|values| ("Gt", values)),
        number().prop_map(|values| ("Lt", values)),
        Just(("Exists", Vec::new())),
        Just(("DoesNotExist", Vec::new())),
    ];
    (one_of(&ASKED_ABOUT), meaning).prop_map(|(key, (operator, values))| requirement(key, operator, values))
}

/// The name is all that can be asked about, and one name at a time.
fn field() -> impl Strategy<Value = NodeSelectorRequirement> {
    let operator = prop_oneof![Just("In"), Just("NotIn")];
    (operator, one_of(&NAMES))
        .prop_map(|(operator, name)| requirement(NODE_NAME.to_owned(), operator, vec![name]))
}

fn term() -> impl Strategy<Value = NodeSelectorTerm> {
    let expressions = prop::collection::vec(expression(), 0..4);
    let fields = prop::collection::vec(field(), 0..2);
    (expressions, fields).prop_map(|(expressions, fields)| NodeSelectorTerm {
        match_expressions: Some(expressions),
        match_fields: Some(fields),
    })
}

fn pod() -> impl Strategy<Value = ApiPod> {
    let selected = prop::collection::btree_map(one_of(&ASKED_ABOUT), one_of(&VALUES), 0..3);
    let terms = prop::option::of(prop::collection::vec(term(), 0..4));
    (prop::option::of(selected), terms).prop_map(|(node_selector, terms)| {
        let node_affinity = NodeAffinity {
            required_during_scheduling_ignored_during_execution: terms
                .map(|node_selector_terms| NodeSelector { node_selector_terms }),
            ..NodeAffinity::default()
        };
        let affinity = Affinity {
            node_affinity: Some(node_affinity),
            ..Affinity::default()
        };
        let spec = PodSpec {
            node_selector,
            affinity: Some(affinity),
            ..PodSpec::default()
        };
        ApiPod {
            spec: Some(spec),
            ..ApiPod::default()
        }
    })
}

fn node() -> impl Strategy<Value = Node> {
    let labels = prop::collection::btree_map(one_of(&ON_NODES), one_of(&VALUES), 0..4);
    (one_of(&NAMES), labels).prop_map(|(name, mut labels)| {
        let arch = labels.get(ARCH).cloned();
        labels.extend(arch.map(|arch| (OLD_ARCH.to_owned(), arch)));
        Node {
            name,
            labels,
            ..Node::default()
        }
    })
}

/// Whether the kube-scheduler lets a pod onto a node, as far as labels and the name decide (`GetRequiredNodeAffinity` of
/// component-helpers): every label that is selected, and one of the terms, if there are any. A term that says nothing is
/// met nowhere.
fn lets_in(spec: &PodSpec, node: &Node) -> bool {
    let mut selected = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let fields = Labels::from([(NODE_NAME.to_owned(), node.name.clone())]);
    let met = |term: &NodeSelectorTerm| {
        let of_labels = term.match_expressions.as_deref().unwrap_or_default();
        let of_fields = term.match_fields.as_deref().unwrap_or_default();
        of_labels.len() + of_fields.len() > 0
            && of_labels.iter().all(|it| holds(it, &node.labels))
            && of_fields.iter().all(|it| holds(it, &fields))
    };
    selected.all(|(key, value)| node.labels.get(key) == Some(value))
        && required.is_none_or(|required| required.node_selector_terms.iter().any(met))
}

/// What an expression means (`Requirement.Matches` of apimachinery's labels).
fn holds(expression: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let state = labels.get(&expression.key);
    let values = expression.values.as_deref().unwrap_or_default();
    let compared = || {
        let number: i64 = state?.parse().ok()?;
        let other: i64 = values.first()?.parse().ok()?;
        Some(number.cmp(&other))
    };
    match expression.operator.as_str() {
        "In" => state.is_some_and(|value| values.contains(value)),
        "NotIn" => state.is_none_or(|value| !values.contains(value)),
        "Exists" => state.is_some(),
        "DoesNotExist" => state.is_none(),
        "Gt" => compared() == Some(Ordering::Greater),
        "Lt" => compared() == Some(Ordering::Less),
        other => panic!("there is no operator {other}"),
    }
}

proptest! {
    #[test]
    fn a_pod_accepts_the_nodes_that_the_kube_scheduler_lets_it_onto(
        pod in pod(),
        nodes in prop::collection::vec(node(), 1..32),
    ) {
        let read = Pod::read(&pod, Reading::Plain).unwrap();
        for node in nodes {
            let states = node.label_states();
            let accepted = read.node_terms.iter().any(|term| term.unmet_by(&states).is_none());
            prop_assert_eq!(accepted, lets_in(pod.spec.as_ref().unwrap(), &node), "{} {:?}", node.name, node.labels);
        }
    }
}
