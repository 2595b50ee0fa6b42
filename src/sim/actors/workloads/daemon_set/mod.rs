//! DaemonSets: one pod on every node that it is meant for.
//!
//! Each pod is pinned to its node by a node affinity on the node's name, as the real controller does, so that it is the
//! scheduler who binds it. Daemons tolerate what a node suffers from by itself. An update replaces pods as
//! `maxUnavailable` allows; pods that are not available anyway go at once.

mod pinned;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use self::pinned::{daemon, pin, target};
use super::pods::{Availability, Owned, availability, count, is_deleting, is_finished, is_ready, node, size};
use super::revision::{REVISION_HASH, hash};
use super::scaled::{Rounding, scaled};
use super::status::{corrected, some};
use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::scheduler::{labels, node_affinity, taints};
use crate::sim::actors::view::{Kind, View};

/// The controller.
pub(super) const ACTOR: Actor = Actor {
    name: "daemonset-controller",
    reads: &[Kind::DaemonSet, Kind::Node, Kind::Pod],
    glances: &[],
    next,
};

/// How old a pod that failed must be before it is replaced: one that fails at once must not be made without end.
const FAILED_AFTER: Duration = Duration::from_secs(1);

/// What all daemon sets of the view need.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let owned = Owned::of(view);
    let mut next = Next::default();
    for set in view.daemon_sets.values() {
        next.join(Pass::new(view, set, owned.by(&set.metadata), now).run());
    }
    next
}

/// What a set has to do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A pod is to be there.
    Wanted,
    /// None is to be made, but one that is there may stay.
    Tolerated,
    /// None may be there.
    Refused,
}

/// One look at one set.
struct Pass<'a> {
    set: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    /// A pod of the set, on no node yet.
    sample: Pod,
    revision: String,
    places: BTreeMap<&'a str, Place>,
    /// The pods by the node that they are on or meant for, the oldest first.
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    now: Timestamp,
    next: Next,
}

impl<'a> Pass<'a> {
    fn new(view: &'a View, set: &'a DaemonSet, own: &[&'a Pod], now: Timestamp) -> Self {
        let spec = &set.spec;
        let revision = hash(&spec.template, 0);
        let sample = daemon(&spec.template, set, &revision);
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        let counts = |pod: &&Pod| !(is_finished(pod) && is_deleting(pod));
        for pod in own.iter().copied().filter(counts) {
            pods.entry(target(pod).unwrap_or_default()).or_default().push(pod);
        }
        for list in pods.values_mut() {
            list.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
        }
        let places = view
            .nodes
            .iter()
            .map(|(name, node)| (name.as_str(), place(&sample, node)))
            .collect();
        let next = Next::default();
        Self {
            set,
            spec,
            sample,
            revision,
            places,
            pods,
            now,
            next,
        }
    }

    fn run(mut self) -> Next {
        if self.set.metadata.deletion_timestamp.is_none() {
            self.manage();
            if self.next.acts.is_empty() {
                self.update();
            }
        }
        self.report();
        self.next
    }

    fn on(&self, node: &str) -> Vec<&'a Pod> {
        self.pods.get(node).cloned().unwrap_or_default()
    }

    /// One pod on each node that wants one, none where none may be.
    fn manage(&mut self) {
        for (name, place) in self.places.clone() {
            let pods = self.on(name);
            match place {
                Place::Wanted if pods.is_empty() => {
                    let pod = pin(self.sample.clone(), name);
                    self.next.act(Act::make(&pod));
                }
                Place::Wanted | Place::Tolerated => self.keep_one(&pods),
                Place::Refused => self.delete_all(&pods),
            }
        }
        let lost = self
            .pods
            .iter()
            .filter(|(name, _)| !self.places.contains_key(*name));
        let unplaced = |pod: &&Pod| node(pod).is_none();
        let lost: Vec<&Pod> = lost
            .flat_map(|(_, pods)| pods.iter().copied().filter(unplaced))
            .collect();
        self.delete_all(&lost);
    }

    /// Finished pods make room for new ones; of several that run, the oldest stays.
    fn keep_one(&mut self, pods: &[&Pod]) {
        let standing: Vec<&Pod> = pods.iter().copied().filter(|pod| !is_deleting(pod)).collect();
        let (finished, running): (Vec<&Pod>, Vec<&Pod>) =
            standing.into_iter().partition(|pod| is_finished(pod));
        for pod in finished {
            let created = pod
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(self.now, |time| time.0);
            match later(created, FAILED_AFTER) {
                at if at > self.now => self.next.again(at),
                _ => self.next.act(Act::delete(pod)),
            }
        }
        self.delete_all(running.get(1..).unwrap_or_default());
    }

    fn delete_all(&mut self, pods: &[&Pod]) {
        let standing = pods.iter().copied().filter(|pod| !is_deleting(pod));
        self.next.acts.extend(standing.map(Act::delete));
    }

    fn is_current(&self, pod: &Pod) -> bool {
        labels::of(&pod.metadata).get(REVISION_HASH) == Some(&self.revision)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        availability(pod, self.spec.min_ready_seconds, self.now) == Availability::Yes
    }

    fn wanted(&self) -> Vec<&'a str> {
        let wanted = self.places.iter().filter(|(_, place)| **place == Place::Wanted);
        wanted.map(|(name, _)| *name).collect()
    }

    /// Replaces pods of an older version.
    fn update(&mut self) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let wanted = self.wanted();
        let limit = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_unavailable.as_ref());
        let limit = scaled(
            limit.unwrap_or(&IntOrString::Int(1)),
            count(&wanted),
            Rounding::Up,
        );
        let (mut missing, mut broken, mut sound) = (0, Vec::new(), Vec::new());
        for pod in wanted.iter().map(|name| self.on(name).first().copied()) {
            match pod {
                Some(pod) if !is_deleting(pod) && self.is_available(pod) => {
                    sound.extend((!self.is_current(pod)).then_some(pod));
                }
                other => {
                    missing += 1;
                    broken.extend(other.filter(|pod| !self.is_current(pod)));
                }
            }
        }
        self.delete_all(&broken);
        sound.truncate(size(limit - missing));
        self.delete_all(&sound);
    }

    fn report(&mut self) {
        let wanted = self.wanted();
        let first: Vec<&Pod> = wanted
            .iter()
            .filter_map(|name| self.on(name).first().copied())
            .collect();
        let available = count(first.iter().filter(|pod| self.is_available(pod)));
        let misplaced =
            |(name, place): &(&&str, &Place)| **place != Place::Wanted && !self.on(name).is_empty();
        let old = self.set.status.as_ref();
        let status = DaemonSetStatus {
            desired_number_scheduled: count(&wanted),
            current_number_scheduled: count(&first),
            number_misscheduled: count(self.places.iter().filter(misplaced)),
            number_ready: count(first.iter().filter(|pod| is_ready(pod))),
            number_available: some(available),
            number_unavailable: some(count(&wanted) - available),
            updated_number_scheduled: some(count(first.iter().filter(|pod| self.is_current(pod)))),
            observed_generation: self.set.metadata.generation,
            collision_count: old.and_then(|status| status.collision_count),
            conditions: old.and_then(|status| status.conditions.clone()),
        };
        let correction = corrected(self.set, old, &status);
        self.next.acts.extend(correction);
        for pod in first {
            if let Availability::At(at) = availability(pod, self.spec.min_ready_seconds, self.now) {
                self.next.again(at);
            }
        }
    }
}

fn place(sample: &Pod, node: &Node) -> Place {
    let named = sample.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let elsewhere = named.is_some_and(|named| Some(named) != node.metadata.name.as_ref());
    if elsewhere || !node_affinity::accepts(sample, node) {
        return Place::Refused;
    }
    let expels = |taint: &&k8s_openapi::api::core::v1::Taint| {
        let tolerations = taints::tolerations(sample);
        taint.effect == taints::NO_EXECUTE && !tolerations.iter().any(|one| taints::tolerates(one, taint))
    };
    if taints::allow(sample, node) {
        Place::Wanted
    } else if taints::of(node).iter().any(|taint| expels(&taint)) {
        Place::Refused
    } else {
        Place::Tolerated
    }
}
