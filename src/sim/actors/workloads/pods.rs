//! Pods as their controllers see them: whose they are, and what they are worth.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::clock::later;
use crate::sim::actors::view::{Kept, View};

/// The pods of a view by the uid of their controller.
pub(super) struct Owned<'a>(BTreeMap<&'a str, Vec<&'a Pod>>);

impl<'a> Owned<'a> {
    /// Sorts all pods by whose they are; those of nobody are left out.
    pub(super) fn of(view: &'a View) -> Self {
        let mut owned: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in view.pods.values() {
            if let Some(owner) = controller(&pod.metadata) {
                owned.entry(&owner.uid).or_default().push(pod);
            }
        }
        Self(owned)
    }

    /// The pods of this controller, by name.
    pub(super) fn by(&self, metadata: &ObjectMeta) -> &[&'a Pod] {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        self.0.get(uid).map_or(&[], Vec::as_slice)
    }
}

/// Who controls an object.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// A reference to an object as the controller of another.
pub(super) fn reference<K: Kept>(owner: &K) -> Option<OwnerReference> {
    owner.controller_owner_ref(&()).map(|reference| OwnerReference {
        block_owner_deletion: Some(true),
        ..reference
    })
}

/// A new pod of this template, controlled by `owner`, with a name that the server completes.
pub(super) fn from_template<K: Kept>(template: &PodTemplateSpec, owner: &K) -> Pod {
    let given = template.metadata.clone().unwrap_or_default();
    let metadata = owner.meta();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", metadata.name.as_deref().unwrap_or_default())),
            namespace: metadata.namespace.clone(),
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: reference(owner).map(|reference| vec![reference]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Its phase; pending while it has none.
pub(super) fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// Whether its containers have ended for good.
pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it is being deleted.
pub(super) fn is_deleting(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it counts as a replica: not finished, not being deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

/// Whether it is being deleted and not finished yet.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && is_deleting(pod)
}

/// The node that it is bound to.
pub(super) fn node(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    spec.node_name.as_deref().filter(|name| !name.is_empty())
}

fn readiness(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether it is ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    readiness(pod).is_some()
}

/// Since when it is ready.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    readiness(pod)?.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether a pod can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Availability {
    /// It is not ready.
    No,
    /// It is ready, and has been for too short a time until then.
    At(Timestamp),
    /// It has been ready for long enough.
    Yes,
}

/// Whether a pod has been ready for `min_ready_seconds`.
pub(super) fn availability(pod: &Pod, min_ready_seconds: Option<i32>, now: Timestamp) -> Availability {
    let seconds = u64::try_from(min_ready_seconds.unwrap_or(0)).unwrap_or(0);
    match (is_ready(pod), ready_since(pod)) {
        (true, _) if seconds == 0 => Availability::Yes,
        (false, _) | (true, None) => Availability::No,
        (true, Some(since)) => match later(since, Duration::from_secs(seconds)) {
            at if at <= now => Availability::Yes,
            at => Availability::At(at),
        },
    }
}

/// How many pods are ready and available, and when the next of them becomes available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) next: Option<Timestamp>,
}

impl Tally {
    /// Counts these pods.
    pub(super) fn of<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        min_ready_seconds: Option<i32>,
        now: Timestamp,
    ) -> Self {
        let mut tally = Self::default();
        for pod in pods {
            tally.ready += i32::from(is_ready(pod));
            match availability(pod, min_ready_seconds, now) {
                Availability::Yes => tally.available += 1,
                Availability::At(at) => tally.next = Some(tally.next.map_or(at, |known| known.min(at))),
                Availability::No => {}
            }
        }
        tally
    }
}

/// A number of objects, as the API counts them.
pub(super) fn count<T>(objects: impl IntoIterator<Item = T>) -> i32 {
    i32::try_from(objects.into_iter().count()).unwrap_or(i32::MAX)
}

/// A number of replicas as a number of things; none if it is negative.
pub(super) fn size(replicas: i32) -> usize {
    usize::try_from(replicas).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::trial::{at, pod, ready};
    use super::*;

    #[test]
    fn a_pod_is_available_after_it_has_been_ready_for_long_enough() {
        let pod = ready(pod("p"), 100);
        assert_eq!(availability(&pod, None, at(100)), Availability::Yes);
        assert_eq!(availability(&pod, Some(10), at(109)), Availability::At(at(110)));
        assert_eq!(availability(&pod, Some(10), at(110)), Availability::Yes);
        assert_eq!(
            availability(&super::super::trial::pod("q"), None, at(0)),
            Availability::No
        );
    }

    #[test]
    fn a_tally_knows_who_comes_next() {
        let pods = [
            ready(pod("a"), 100),
            ready(pod("b"), 95),
            ready(pod("c"), 10),
            pod("d"),
        ];
        let tally = Tally::of(&pods, Some(10), at(101));
        let expected = Tally {
            ready: 3,
            available: 1,
            next: Some(at(105)),
        };
        assert_eq!(tally, expected);
    }
}
