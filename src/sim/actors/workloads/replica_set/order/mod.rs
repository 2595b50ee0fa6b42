//! Which pods of a set go first when there are too many: the order of Kubernetes' own controller.
//!
//! Unassigned before assigned; pending, then unknown, then running; not ready before ready; the lower
//! `controller.kubernetes.io/pod-deletion-cost` first, where none and an unreadable one count as zero; pods on nodes
//! with more pods of the same controller first; ready for a shorter time first; more restarts first; created later
//! first.
//!
//! The real controller compares the two ages by their magnitude alone (powers of two) and then by uid, which spreads the
//! loss but is no order: three pods may each go before the next. Here ages are compared as they are, and what is still
//! equal goes by uid and name, so that the answer never depends on the order of the question.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::super::pods::{is_active, is_ready, node, phase, ready_since};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods, those that go first at the front. `related` are the pods that make a node doubled up.
pub(in crate::sim::actors::workloads) fn first_to_go<'a>(pods: &[&'a Pod], related: &[&Pod]) -> Vec<&'a Pod> {
    let mut crowds: BTreeMap<&str, usize> = BTreeMap::new();
    for name in related
        .iter()
        .filter(|pod| is_active(pod))
        .filter_map(|pod| node(pod))
    {
        *crowds.entry(name).or_default() += 1;
    }
    let crowd = |pod: &Pod| node(pod).and_then(|name| crowds.get(name)).copied().unwrap_or(0);
    let mut sorted = pods.to_vec();
    sorted.sort_by_cached_key(|pod| Standing::of(pod, crowd(pod)));
    sorted
}

/// How a pod stands in the order; the least goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    assigned: bool,
    phase: u8,
    ready: bool,
    cost: i32,
    crowd: Reverse<usize>,
    ready_since: Since,
    restarts: Reverse<(i32, i32)>,
    created: Since,
    uid: String,
    name: String,
}

impl Standing {
    fn of(pod: &Pod, crowd: usize) -> Self {
        let metadata = &pod.metadata;
        Self {
            assigned: node(pod).is_some(),
            phase: match phase(pod) {
                "Pending" => 0,
                "Unknown" => 1,
                _ => 2,
            },
            ready: is_ready(pod),
            cost: cost(pod),
            crowd: Reverse(crowd),
            ready_since: Since(ready_since(pod)),
            restarts: Reverse(restarts(pod)),
            created: Since(metadata.creation_timestamp.as_ref().map(|time| time.0)),
            uid: metadata.uid.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// The later goes first, and what has no time goes before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since(Option<Timestamp>);

impl Ord for Since {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Some(one), Some(other)) => other.cmp(&one),
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }
}

impl PartialOrd for Since {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What deleting the pod costs. Kubernetes takes no plus sign and no leading zeros.
fn cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|annotations| annotations.get(DELETION_COST)) else {
        return 0;
    };
    let plain = text == "0" || text.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    text.parse().ok().filter(|_| plain).unwrap_or(0)
}

/// The most restarts of one of its containers, and of one of its sidecars.
fn restarts(pod: &Pod) -> (i32, i32) {
    let most = |list: Option<&Vec<ContainerStatus>>, counts: &dyn Fn(&str) -> bool| {
        let list = list.into_iter().flatten().filter(|status| counts(&status.name));
        list.map(|status| status.restart_count).max().unwrap_or(0)
    };
    let sidecar = |name: &str| {
        let inits = pod.spec.iter().filter_map(|spec| spec.init_containers.as_ref());
        inits
            .flatten()
            .any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let status = pod.status.as_ref();
    (
        most(status.and_then(|s| s.container_statuses.as_ref()), &|_| true),
        most(status.and_then(|s| s.init_container_statuses.as_ref()), &sidecar),
    )
}

#[cfg(test)]
mod tests;
