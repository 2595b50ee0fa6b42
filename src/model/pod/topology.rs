//! What a pod asks of where other pods are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};

use crate::api::names::current_label;
use crate::model::selector::{Condition, Selector};

/// Pods like those selected are to be spread evenly over the values of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread {
    /// The label of nodes.
    pub key: String,
    /// By how much the fullest may exceed the emptiest.
    pub max_skew: i64,
    /// With fewer values than this, the emptiest counts as empty.
    pub min_domains: Option<u32>,
    /// Whether the pod would rather not be placed than be placed unevenly.
    pub firmness: Firmness,
    /// The pods, in the namespace of the pod.
    pub selector: Selector,
    /// Whether nodes that the pod's node affinity excludes are left out of the count.
    pub node_affinity: Inclusion,
    /// Whether nodes with taints that the pod does not tolerate are left out of the count.
    pub node_taints: Inclusion,
}

/// Whether a wish may be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Firmness {
    /// Rather no place than a wrong one.
    Required,
    /// Rather a wrong place than none.
    Preferred,
}

/// Which nodes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inclusion {
    /// Only those that the pod could be on.
    Honor,
    /// All.
    Ignore,
}

/// Near to, or far from, pods like those selected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The label of nodes that says what is near.
    pub key: String,
    /// The pods.
    pub selector: Selector,
    /// Where they are looked for.
    pub namespaces: Namespaces,
}

/// A set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespaces {
    /// By name.
    pub names: BTreeSet<String>,
    /// And those with such labels.
    pub selector: Selector,
}

impl Namespaces {
    /// One namespace.
    pub fn one(name: &str) -> Self {
        Self {
            names: [name.to_owned()].into(),
            selector: Selector::Nothing,
        }
    }

    /// Whether a namespace is among them, given the labels of all.
    pub fn include(&self, name: &str, labels: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.names.contains(name) || self.selector.matches(labels.get(name).unwrap_or(&NONE))
    }
}

impl Spread {
    /// What a constraint of the API means for a pod with these labels.
    pub fn from_api(constraint: &TopologySpreadConstraint, labels: &BTreeMap<String, String>) -> Self {
        let mut selector = Selector::from_api(constraint.label_selector.as_ref());
        for key in constraint.match_label_keys.iter().flatten() {
            // A label that the pod does not have is not looked at.
            if let Some(value) = labels.get(key) {
                selector = selector.and(Condition::In(key.clone(), [value.clone()].into()));
            }
        }
        let inclusion = |policy: &Option<String>, default: Inclusion| match policy.as_deref() {
            Some("Honor") => Inclusion::Honor,
            Some("Ignore") => Inclusion::Ignore,
            _ => default,
        };
        Self {
            key: current_label(&constraint.topology_key).to_owned(),
            max_skew: i64::from(constraint.max_skew.max(1)),
            min_domains: constraint
                .min_domains
                .and_then(|domains| u32::try_from(domains).ok()),
            firmness: if constraint.when_unsatisfiable == "ScheduleAnyway" {
                Firmness::Preferred
            } else {
                Firmness::Required
            },
            selector,
            node_affinity: inclusion(&constraint.node_affinity_policy, Inclusion::Honor),
            node_taints: inclusion(&constraint.node_taints_policy, Inclusion::Ignore),
        }
    }
}

impl Term {
    /// What a term of the API means for a pod in this namespace with these labels.
    pub fn from_api(term: &PodAffinityTerm, namespace: &str, labels: &BTreeMap<String, String>) -> Self {
        let mut selector = Selector::from_api(term.label_selector.as_ref());
        for key in term.match_label_keys.iter().flatten() {
            if let Some(value) = labels.get(key) {
                selector = selector.and(Condition::In(key.clone(), [value.clone()].into()));
            }
        }
        for key in term.mismatch_label_keys.iter().flatten() {
            if let Some(value) = labels.get(key) {
                selector = selector.and(Condition::NotIn(key.clone(), [value.clone()].into()));
            }
        }
        let mut namespaces = Namespaces {
            names: term.namespaces.iter().flatten().cloned().collect(),
            selector: Selector::from_api(term.namespace_selector.as_ref()),
        };
        if namespaces.names.is_empty() && term.namespace_selector.is_none() {
            namespaces = Namespaces::one(namespace);
        }
        Self {
            key: current_label(&term.topology_key).to_owned(),
            selector,
            namespaces,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_label_named_by_key_joins_the_selector_with_the_pods_own_value() {
        let constraint = serde_json::from_value(json!({
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["revision", "unknown"],
        }))
        .unwrap();
        let spread = Spread::from_api(&constraint, &labels(&[("app", "web"), ("revision", "2")]));
        assert!(
            spread
                .selector
                .matches(&labels(&[("app", "web"), ("revision", "2")]))
        );
        assert!(
            !spread
                .selector
                .matches(&labels(&[("app", "web"), ("revision", "1")]))
        );
        assert_eq!(
            (spread.node_affinity, spread.node_taints),
            (Inclusion::Honor, Inclusion::Ignore)
        );
    }

    #[test]
    fn a_mismatched_label_keeps_pods_of_the_same_value_out_of_the_selection() {
        let term = serde_json::from_value(json!({
            "topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["tenant"],
        }))
        .unwrap();
        let term = Term::from_api(&term, "default", &labels(&[("tenant", "a")]));
        assert!(!term.selector.matches(&labels(&[("tenant", "a")])));
        assert!(term.selector.matches(&labels(&[("tenant", "b")])));
    }

    #[test]
    fn without_namespaces_the_pods_own_counts_and_an_empty_selector_means_all() {
        let own = serde_json::from_value(json!({"topologyKey": "zone", "labelSelector": {}})).unwrap();
        let own = Term::from_api(&own, "default", &labels(&[])).namespaces;
        let known = [("other".to_owned(), labels(&[]))].into();
        assert!(own.include("default", &known) && !own.include("other", &known));
        let all = serde_json::from_value(
            json!({"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}),
        )
        .unwrap();
        assert!(
            Term::from_api(&all, "default", &labels(&[]))
                .namespaces
                .include("other", &known)
        );
    }
}
