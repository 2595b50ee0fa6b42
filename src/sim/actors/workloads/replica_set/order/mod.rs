//! Which pods of a set go first when there are too many: the order of Kubernetes' own controller.
//!
//! Unassigned before assigned; pending, then unknown, then running; not ready before ready; the lower
//! `controller.kubernetes.io/pod-deletion-cost` first, where none and an unreadable one count as zero; pods on nodes
//! with more pods of the same controller first; ready for a shorter time first; more restarts first; created later
//! first.
//!
//! For ReplicaSets the two ages are compared by their magnitude alone, in powers of two of a nanosecond; of two pods whose
//! ages differ and have the same magnitude the one with the lower uid goes first, which spreads the loss. That is no
//! order: of three pods each may go before the next. So pods are taken by uid and name, and each is put behind the last
//! that it does not go before, which is what the real controller's sort does with a dozen pods. The answer never depends
//! on the order of the question.
//!
//! Jobs know neither costs nor crowds, and compare ages as they are.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::super::pods::{is_active, is_ready, node, phase, ready_since};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// By which order pods go.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim::actors::workloads) enum Order<'r> {
    /// That of jobs: without costs and crowds, ages as they are.
    Plain,
    /// That of replica sets.
    Replicas {
        /// The pods that make a node doubled up.
        related: &'r [&'r Pod],
        /// When ages are compared.
        now: Timestamp,
    },
}

/// How ages are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ages {
    /// As they are.
    Exact,
    /// By their magnitude at this time.
    Magnitude(Timestamp),
}

/// The pods, those that go first at the front.
pub(in crate::sim::actors::workloads) fn first_to_go<'a>(pods: &[&'a Pod], order: Order<'_>) -> Vec<&'a Pod> {
    let (related, ages) = match order {
        Order::Plain => (None, Ages::Exact),
        Order::Replicas { related, now } => (Some(related), Ages::Magnitude(now)),
    };
    let crowds = related.map(crowds);
    let weight = |pod: &Pod| match &crowds {
        None => Weight::default(),
        Some(crowds) => Weight {
            cost: cost(pod),
            crowd: Reverse(node(pod).and_then(|name| crowds.get(name)).copied().unwrap_or(0)),
        },
    };
    let mut standings: Vec<(Standing, &Pod)> = pods
        .iter()
        .map(|pod| (Standing::of(pod, weight(pod)), *pod))
        .collect();
    standings.sort_by(|(one, _), (other, _)| (&one.uid, &one.name).cmp(&(&other.uid, &other.name)));
    let mut sorted: Vec<(Standing, &Pod)> = Vec::with_capacity(standings.len());
    for entry in standings {
        let goes_first = |earlier: &(Standing, &Pod)| entry.0.goes_before(&earlier.0, ages);
        let place = sorted.iter().rposition(|earlier| !goes_first(earlier));
        sorted.insert(place.map_or(0, |last| last + 1), entry);
    }
    sorted.into_iter().map(|(_, pod)| pod).collect()
}

/// How many active pods each node has.
fn crowds<'r>(related: &[&'r Pod]) -> BTreeMap<&'r str, usize> {
    let mut crowds: BTreeMap<&str, usize> = BTreeMap::new();
    let active = related.iter().filter(|pod| is_active(pod));
    for name in active.filter_map(|pod| node(pod)) {
        *crowds.entry(name).or_default() += 1;
    }
    crowds
}

/// What speaks for a pod of a replica set; the least goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    cost: i32,
    crowd: Reverse<usize>,
}

/// How a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    /// What is compared before ages; the least goes first.
    rank: (bool, u8, bool, Weight),
    ready_since: Option<Timestamp>,
    restarts: Reverse<(i32, i32)>,
    created: Option<Timestamp>,
    uid: String,
    name: String,
}

impl Standing {
    fn of(pod: &Pod, weight: Weight) -> Self {
        let metadata = &pod.metadata;
        let phase = match phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let is_assigned = node(pod).is_some();
        Self {
            rank: (is_assigned, phase, is_ready(pod), weight),
            ready_since: ready_since(pod).filter(|_| is_ready(pod)),
            restarts: Reverse(restarts(pod)),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            uid: metadata.uid.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Whether this pod goes before another.
    fn goes_before(&self, other: &Self, ages: Ages) -> bool {
        let by_age = |one: Option<Timestamp>, two: Option<Timestamp>| match (one, two) {
            (Some(one), Some(two)) if one == two => Ordering::Equal,
            (Some(one), Some(two)) => ages.compare(one, two).then_with(|| self.uid.cmp(&other.uid)),
            // What has no time goes before all.
            (one, two) => one.is_some().cmp(&two.is_some()),
        };
        let order = self.rank.cmp(&other.rank);
        let order = order.then_with(|| by_age(self.ready_since, other.ready_since));
        let order = order.then_with(|| self.restarts.cmp(&other.restarts));
        order.then_with(|| by_age(self.created, other.created)).is_lt()
    }
}

impl Ages {
    /// The later goes first.
    fn compare(self, one: Timestamp, other: Timestamp) -> Ordering {
        match self {
            Self::Exact => other.cmp(&one),
            Self::Magnitude(now) => magnitude(one, now).cmp(&magnitude(other, now)),
        }
    }
}

/// The magnitude of an age: the power of two that its nanoseconds reach, and none of what is not past.
fn magnitude(since: Timestamp, now: Timestamp) -> Option<u32> {
    let age = now.as_nanosecond() - since.as_nanosecond();
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
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
