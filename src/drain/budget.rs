//! What disruption budgets allow, as they were read. The API server has the last word; this only spares it questions
//! whose answer is known.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::model::Selector;

/// What the budgets say about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be tried.
    Allowed,
    /// This one has nothing left.
    Exhausted(String),
    /// More than one selects it: the API server refuses each eviction, for ever.
    Several(Vec<String>),
}

/// Budgets, and what is left of each.
pub(super) struct Budgets<'a> {
    all: Vec<Budget<'a>>,
}

struct Budget<'a> {
    namespace: &'a str,
    name: &'a str,
    selector: Selector,
    left: i32,
}

impl<'a> Budgets<'a> {
    pub(super) fn new(budgets: &'a [PodDisruptionBudget]) -> Self {
        let all = budgets.iter().map(|budget| Budget {
            namespace: budget.metadata.namespace.as_deref().unwrap_or_default(),
            name: budget.metadata.name.as_deref().unwrap_or_default(),
            selector: Selector::from_api(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref())),
            left: budget
                .status
                .as_ref()
                .and_then(|status| status.disruptions_allowed)
                .unwrap_or_default(),
        });
        Self { all: all.collect() }
    }

    /// Whether a pod may be tried now; what it takes is taken.
    pub(super) fn ask(&mut self, pod: &Pod) -> Verdict {
        static UNLABELED: BTreeMap<String, String> = BTreeMap::new();
        // Budgets protect only what runs.
        if !is_running(pod) {
            return Verdict::Allowed;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&UNLABELED);
        let selects = |budget: &Budget<'_>| budget.namespace == namespace && budget.selector.matches(labels);
        let mut selecting: Vec<&mut Budget<'_>> = self.all.iter_mut().filter(|it| selects(it)).collect();
        match selecting.as_mut_slice() {
            [] => Verdict::Allowed,
            // Whether one that is not ready is protected hangs on how many others are: the server knows.
            [_] if !is_ready(pod) => Verdict::Allowed,
            [budget] if budget.left > 0 => {
                budget.left -= 1;
                Verdict::Allowed
            }
            [budget] => Verdict::Exhausted(budget.name.to_owned()),
            several => Verdict::Several(several.iter().map(|budget| budget.name.to_owned()).collect()),
        }
    }
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions).flatten();
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
