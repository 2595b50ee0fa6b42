//! StatefulSets: pods with names and volumes of their own, one after the other.
//!
//! In order (the default), a pod is made when all before it are ready and available, and the last one goes first, one at
//! a time; in parallel nobody waits for anybody. An update replaces pods from the last to the first, down to the
//! partition, each when those after it are healthy. There are no ControllerRevision objects, so a pod that has to be
//! made again always gets the new template, also below the partition; claims are never deleted when a set shrinks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};

use super::pods::{
    Availability, Owned, Tally, availability, count, from_template, is_deleting, is_finished, phase,
    reference,
};
use super::revision::{REVISION_HASH, hash};
use super::status::{corrected, some};
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::scheduler::labels;
use crate::sim::actors::view::{Key, Kind, View};

/// The controller.
pub(super) const ACTOR: Actor = Actor {
    name: "statefulset-controller",
    reads: &[Kind::StatefulSet, Kind::Pod],
    glances: &[Kind::Claim],
    next,
};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// What all stateful sets of the view need.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let owned = Owned::of(view);
    let mut next = Next::default();
    for set in view.stateful_sets.values() {
        next.join(Pass::new(view, set, owned.by(&set.metadata), now).run());
    }
    next
}

/// One look at one set.
struct Pass<'a> {
    view: &'a View,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    name: &'a str,
    revision: String,
    pods: BTreeMap<i32, &'a Pod>,
    now: Timestamp,
    next: Next,
}

/// Whether there is more to be done in the same pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Wait,
}

impl<'a> Pass<'a> {
    fn new(view: &'a View, set: &'a StatefulSet, pods: &[&'a Pod], now: Timestamp) -> Self {
        let spec = &set.spec;
        let name = set.metadata.name.as_deref().unwrap_or_default();
        Self {
            view,
            set,
            spec,
            name,
            revision: format!("{name}-{}", hash(&spec.template, 0)),
            pods: pods
                .iter()
                .filter_map(|pod| Some((ordinal(name, pod)?, *pod)))
                .collect(),
            now,
            next: Next::default(),
        }
    }

    fn run(mut self) -> Next {
        if self.set.metadata.deletion_timestamp.is_none()
            && self.fill() == Then::GoOn
            && self.shrink() == Then::GoOn
        {
            self.update();
        }
        self.report();
        self.next
    }

    fn ordinals(&self) -> std::ops::Range<i32> {
        let start = self
            .spec
            .ordinals
            .as_ref()
            .and_then(|ordinals| ordinals.start)
            .unwrap_or(0);
        start..start.saturating_add(self.spec.replicas.unwrap_or(1))
    }

    /// What follows from something that has to be waited for: in order everything, in parallel nothing.
    fn pause(&self) -> Then {
        if self.spec.pod_management_policy.as_deref() == Some("Parallel") {
            Then::GoOn
        } else {
            Then::Wait
        }
    }

    /// Makes the pods that are missing.
    fn fill(&mut self) -> Then {
        for ordinal in self.ordinals() {
            let healthy = match self.pods.get(&ordinal).copied() {
                None => {
                    self.make(ordinal);
                    false
                }
                Some(pod) if is_finished(pod) => {
                    self.delete(pod);
                    false
                }
                Some(pod) => self.is_healthy(pod),
            };
            if !healthy && self.pause() == Then::Wait {
                return Then::Wait;
            }
        }
        Then::GoOn
    }

    /// Deletes the pods that are too many, the last one first.
    fn shrink(&mut self) -> Then {
        let wanted = self.ordinals();
        let spare: Vec<&Pod> = self
            .pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| !wanted.contains(ordinal))
            .map(|(_, pod)| *pod)
            .collect();
        for pod in spare {
            self.delete(pod);
            if self.pause() == Then::Wait {
                return Then::Wait;
            }
        }
        Then::GoOn
    }

    /// Deletes the last pod of an older version, if all after it are healthy.
    fn update(&mut self) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let partition = strategy
            .and_then(|strategy| strategy.rolling_update.as_ref()?.partition)
            .unwrap_or(0);
        let first = self.ordinals().start + partition.max(0);
        for ordinal in (first..self.ordinals().end).rev() {
            let Some(pod) = self.pods.get(&ordinal).copied() else {
                return;
            };
            if !self.is_current(pod) && !is_deleting(pod) {
                return self.delete(pod);
            }
            if !self.is_healthy(pod) {
                return;
            }
        }
    }

    fn is_current(&self, pod: &Pod) -> bool {
        labels::of(&pod.metadata).get(REVISION_HASH) == Some(&self.revision)
    }

    /// Whether a pod runs, is ready, has been for long enough, and stays.
    fn is_healthy(&mut self, pod: &Pod) -> bool {
        if is_deleting(pod) || phase(pod) != "Running" {
            return false;
        }
        match availability(pod, self.spec.min_ready_seconds, self.now) {
            Availability::Yes => true,
            Availability::No => false,
            Availability::At(at) => {
                self.next.again(at);
                false
            }
        }
    }

    fn delete(&mut self, pod: &Pod) {
        if !is_deleting(pod) {
            self.next.act(Act::delete(pod));
        }
    }

    /// Makes a pod, and before it the claims that it needs.
    fn make(&mut self, ordinal: i32) {
        let claims = self.claims(ordinal);
        for claim in &claims {
            let key = Key::new(
                claim.metadata.namespace.clone().unwrap_or_default(),
                claim.metadata.name.clone().unwrap_or_default(),
            );
            if !self.view.claims.contains_key(&key) {
                self.next.act(Act::make(claim));
            }
        }
        let pod = self.pod(ordinal, &claims);
        self.next.act(Act::make(&pod));
    }

    fn claims(&self, ordinal: i32) -> Vec<PersistentVolumeClaim> {
        let policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let leaves_with_set = policy.and_then(|policy| policy.when_deleted.as_deref()) == Some("Delete");
        let templates = self.spec.volume_claim_templates.iter().flatten();
        templates
            .map(|template| {
                let mut claim = template.clone();
                let short = template.metadata.name.as_deref().unwrap_or_default();
                claim.metadata.name = Some(format!("{short}-{}-{ordinal}", self.name));
                claim.metadata.namespace.clone_from(&self.set.metadata.namespace);
                let labels = claim.metadata.labels.get_or_insert_default();
                labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
                if leaves_with_set {
                    claim.metadata.owner_references = reference(self.set).map(|reference| vec![reference]);
                }
                claim.status = None;
                claim
            })
            .collect()
    }

    fn pod(&self, ordinal: i32, claims: &[PersistentVolumeClaim]) -> Pod {
        let name = format!("{}-{ordinal}", self.name);
        let mut pod = from_template(&self.spec.template, self.set);
        pod.metadata.generate_name = None;
        pod.metadata.name = Some(name.clone());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(POD_NAME.to_owned(), name.clone());
        labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
        labels.insert(REVISION_HASH.to_owned(), self.revision.clone());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(name);
        spec.subdomain = self.spec.service_name.clone().filter(|name| !name.is_empty());
        let volumes = spec.volumes.get_or_insert_default();
        let templates = self.spec.volume_claim_templates.iter().flatten();
        for (template, claim) in templates.zip(claims) {
            let name = template.metadata.name.clone().unwrap_or_default();
            volumes.retain(|volume| volume.name != name);
            volumes.push(Volume {
                name,
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim.metadata.name.clone().unwrap_or_default(),
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
        pod
    }

    fn report(&mut self) {
        let old = self.set.status.as_ref();
        let there = || self.pods.values().copied();
        let standing = || there().filter(|pod| !is_deleting(pod));
        let tally = Tally::of(
            there().filter(|pod| phase(pod) == "Running"),
            self.spec.min_ready_seconds,
            self.now,
        );
        let updated = count(standing().filter(|pod| self.is_current(pod)));
        let known = old.and_then(|status| status.current_revision.clone());
        let mut current = known.unwrap_or_else(|| self.revision.clone());
        let replicas = count(there());
        if updated == replicas && tally.ready == replicas {
            current.clone_from(&self.revision);
        }
        let of_current = |pod: &&Pod| labels::of(&pod.metadata).get(REVISION_HASH) == Some(&current);
        let status = StatefulSetStatus {
            replicas,
            ready_replicas: some(tally.ready),
            available_replicas: Some(tally.available),
            current_replicas: some(count(standing().filter(of_current))),
            updated_replicas: some(updated),
            update_revision: Some(self.revision.clone()),
            observed_generation: self.set.metadata.generation,
            collision_count: Some(0),
            conditions: old.and_then(|status| status.conditions.clone()),
            current_revision: Some(current),
        };
        self.next.acts.extend(corrected(self.set, old, &status));
        if let Some(at) = tally.next {
            self.next.again(at);
        }
    }
}

/// The number at the end of a pod's name, if it is a pod of that set.
fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    name.strip_prefix(set)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::trial::{
        at, deeds, deleting, in_phase, labeled, named, owned, pod, ready, status, with,
    };
    use super::*;

    fn set(replicas: i32, more: &Value) -> StatefulSet {
        let mut value = json!({"spec": {"replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}});
        json_patch::merge(&mut value["spec"], more);
        named("db", value)
    }

    /// A healthy pod of the set's current template.
    fn own(ordinal: i32) -> Pod {
        let template = set(1, &json!({})).spec.template;
        let revision = format!("db-{}", hash(&template, 0));
        let pod = owned(ready(pod(&format!("db-{ordinal}")), 10), "StatefulSet", "db");
        labeled(pod, REVISION_HASH, &revision)
    }

    fn seen(set: StatefulSet, pods: Vec<Pod>) -> Next {
        next(&with(with(View::default(), [set]), pods), at(100))
    }

    #[test]
    fn pods_come_one_after_the_other_each_with_its_claim() {
        let wanted = seen(set(3, &json!({})), vec![own(0)]);
        assert_eq!(deeds(&wanted), ["create Claim data-db-1", "create Pod db-1"]);
        let Act::Create { object, .. } = &wanted.acts[1] else {
            panic!("{wanted:?}")
        };
        assert_eq!(object["metadata"]["labels"][POD_NAME], "db-1");
        assert_eq!(object["metadata"]["labels"][POD_INDEX], "1");
        assert_eq!(object["spec"]["hostname"], "db-1");
        assert_eq!(object["spec"]["subdomain"], "db");
        assert_eq!(
            object["spec"]["volumes"],
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}])
        );
        let unready = owned(pod("db-1"), "StatefulSet", "db");
        assert_eq!(
            deeds(&seen(set(3, &json!({})), vec![own(0), unready])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_claim_that_is_there_is_used_again() {
        let claim: PersistentVolumeClaim = named("data-db-0", json!({"spec": {}}));
        let view = with(with(View::default(), [set(1, &json!({}))]), [claim]);
        assert_eq!(deeds(&next(&view, at(0))), ["create Pod db-0"]);
    }

    #[test]
    fn in_parallel_nobody_waits() {
        let parallel = set(
            3,
            &json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": null}),
        );
        assert_eq!(
            deeds(&seen(parallel, vec![])),
            ["create Pod db-0", "create Pod db-1", "create Pod db-2"]
        );
    }

    #[test]
    fn the_last_goes_first_and_alone() {
        let pods = vec![own(0), own(1), own(2)];
        assert_eq!(deeds(&seen(set(1, &json!({})), pods)), ["delete db-2"]);
        let pods = vec![own(0), own(1), deleting(own(2))];
        assert_eq!(deeds(&seen(set(1, &json!({})), pods)), Vec::<String>::new());
    }

    #[test]
    fn a_finished_pod_is_made_anew() {
        let pods = vec![in_phase(own(0), "Failed"), own(1)];
        assert_eq!(deeds(&seen(set(2, &json!({})), pods)), ["delete db-0"]);
    }

    #[test]
    fn an_update_goes_from_the_last_to_the_partition() {
        let old = |ordinal| labeled(own(ordinal), REVISION_HASH, "db-old");
        let pods = || vec![old(0), old(1), own(2)];
        assert_eq!(deeds(&seen(set(3, &json!({})), pods())), ["delete db-1"]);
        let held = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        assert_eq!(deeds(&seen(set(3, &held), pods())), Vec::<String>::new());
        let by_hand = json!({"updateStrategy": {"type": "OnDelete"}});
        assert_eq!(deeds(&seen(set(3, &by_hand), pods())), Vec::<String>::new());
    }

    #[test]
    fn the_status_of_a_complete_update_has_one_revision() {
        let wanted = seen(set(2, &json!({})), vec![own(0), own(1)]);
        let status = status(&wanted, "db");
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(
            (&status["readyReplicas"], &status["currentReplicas"]),
            (&json!(2), &json!(2))
        );
        let mut settled = set(2, &json!({}));
        settled.status = serde_json::from_value(status).unwrap();
        assert_eq!(seen(settled, vec![own(0), own(1)]), Next::default());
    }
}
