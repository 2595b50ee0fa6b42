//! Disruption budgets, as far as they say who can never be evicted.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::selector::Selector;

/// A disruption budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    namespace: String,
    selector: Selector,
    /// Whether it allows no eviction, however many pods there are.
    forbids: bool,
}

impl Budget {
    /// One of the API. How many evictions it allows now changes all the time, and is not looked at.
    pub fn from_api(budget: &PodDisruptionBudget) -> Self {
        let spec = budget.spec.as_ref();
        let is_zero = |amount: &IntOrString| match amount {
            IntOrString::Int(count) => *count == 0,
            IntOrString::String(text) => percent(text) == Some(0),
        };
        let is_all = |amount: &IntOrString| match amount {
            IntOrString::Int(_) => false,
            IntOrString::String(text) => percent(text) == Some(100),
        };
        let none_may_miss = spec
            .and_then(|spec| spec.max_unavailable.as_ref())
            .is_some_and(is_zero);
        let all_must_be = spec
            .and_then(|spec| spec.min_available.as_ref())
            .is_some_and(is_all);
        Self {
            namespace: budget.metadata.namespace.clone().unwrap_or_default(),
            selector: Selector::from_api(spec.and_then(|spec| spec.selector.as_ref())),
            forbids: none_may_miss || all_must_be,
        }
    }

    fn selects(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespace == namespace && self.selector.matches(labels)
    }
}

fn percent(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse().ok()
}

/// Whether budgets forbid for good that a pod that runs and is well is evicted: one that allows none ever, or two, which
/// the API server refuses to weigh. Others of their pods may still go.
pub fn forbid<'b>(
    budgets: impl Iterator<Item = &'b Budget>,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let mut selecting = budgets.filter(|budget| budget.selects(namespace, labels));
    match (selecting.next(), selecting.next()) {
        (Some(one), None) => one.forbids,
        (one, _) => one.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn budget(namespace: &str, spec: &Value) -> Budget {
        let mut all = json!({"metadata": {"name": "b", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        json_patch::merge(&mut all["spec"], spec);
        Budget::from_api(&serde_json::from_value(all).unwrap())
    }

    fn forbidden(budgets: &[Budget]) -> bool {
        let labels = [("app".to_owned(), "web".to_owned())].into();
        forbid(budgets.iter(), "default", &labels)
    }

    #[test]
    fn a_budget_that_allows_none_ever_or_two_of_them_forbid_an_eviction_for_good() {
        for (spec, forbids) in [
            (json!({"maxUnavailable": 0}), true),
            (json!({"maxUnavailable": "0%"}), true),
            (json!({"minAvailable": "100%"}), true),
            (json!({"maxUnavailable": 1}), false),
            (json!({"maxUnavailable": "10%"}), false),
            (json!({"minAvailable": "99%"}), false),
            (json!({"minAvailable": 5}), false),
        ] {
            assert_eq!(forbidden(&[budget("default", &spec)]), forbids, "{spec}");
            assert!(!forbidden(&[budget("other", &spec)]), "of another namespace");
        }
        let one = || budget("default", &json!({"maxUnavailable": 1}));
        assert!(forbidden(&[one(), one()]), "the API server refuses each eviction");
        assert!(!forbidden(&[
            one(),
            budget("other", &json!({"maxUnavailable": 0}))
        ]));
        assert!(!forbidden(&[budget(
            "default",
            &json!({"maxUnavailable": 0, "selector": null})
        )]));
    }
}
