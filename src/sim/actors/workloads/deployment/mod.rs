//! Deployments: one replica set for each version of the template, and the way from the old ones to the new one.
//!
//! One write for each object in a pass: what follows from it is decided when its answer is in the view.

mod rollout;
mod sets;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::json;

use self::rollout::Strategy;
use self::sets::{REVISION, Sets, replicas, revision};
use self::status::Beginning;
use super::pods::{Owned, is_finished};
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::view::{Kind, View};

/// The controller. Pods do not wake it: the status of their sets does, also when the last one that was going is gone.
pub(super) const ACTOR: Actor = Actor {
    name: "deployment-controller",
    reads: &[Kind::Deployment, Kind::ReplicaSet],
    glances: &[Kind::Pod],
    next,
};

/// What all deployments of the view need.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    for deployment in view.deployments.values() {
        let sets = Sets::of(view, deployment);
        next.join(Pass::new(view, deployment, sets, now).run());
    }
    next
}

/// One look at one deployment.
struct Pass<'a> {
    view: &'a View,
    deployment: &'a Deployment,
    sets: Sets<'a>,
    now: Timestamp,
    next: Next,
}

impl<'a> Pass<'a> {
    fn new(view: &'a View, deployment: &'a Deployment, sets: Sets<'a>, now: Timestamp) -> Self {
        let next = Next::default();
        Self {
            view,
            deployment,
            sets,
            now,
            next,
        }
    }

    fn run(mut self) -> Next {
        let spec = &self.deployment.spec;
        let strategy = Strategy::of(spec);
        let beginning = if self.deployment.metadata.deletion_timestamp.is_some() {
            Beginning::No
        } else if spec.paused == Some(true) {
            self.scale_paused(strategy.desired());
            Beginning::No
        } else {
            self.roll(&strategy)
        };
        self.report(&strategy, beginning);
        self.next
    }

    /// A paused deployment changes nothing but the number of pods of the version that it has.
    fn scale_paused(&mut self, desired: i32) {
        let latest = self
            .sets
            .new
            .or_else(|| self.sets.old.iter().copied().rfind(|set| replicas(set) > 0));
        if let Some(set) = latest {
            self.resize(set, desired);
        }
    }

    fn roll(&mut self, strategy: &Strategy) -> Beginning {
        let Some(new) = self.sets.new else {
            return self.begin(strategy);
        };
        let plan = match strategy {
            Strategy::Recreate { desired } => self.recreate(new, *desired),
            Strategy::Rolling(rolling) => rolling.steps(new, &self.sets.old),
        };
        let revision = self.sets.next_revision().max(revision(new));
        for set in self.sets.all() {
            let number = plan.get(&sets::key(set)).copied().unwrap_or(replicas(set));
            if std::ptr::eq(set, new) {
                self.correct(set, number, revision);
            } else {
                self.resize(set, number);
            }
        }
        self.forget_old_sets();
        Beginning::No
    }

    fn recreate(&self, new: &ReplicaSet, desired: i32) -> rollout::Sizes {
        let mut plan: rollout::Sizes = self.sets.old.iter().map(|set| (sets::key(set), 0)).collect();
        if self.is_old_gone() {
            plan.insert(sets::key(new), desired);
        }
        plan
    }

    /// Whether no pod of an older version runs any more; one that is still going counts as running.
    fn is_old_gone(&self) -> bool {
        let owned = Owned::of(self.view);
        self.sets.old.iter().all(|set| {
            let left = owned.by(&set.metadata).iter().any(|pod| !is_finished(pod));
            replicas(set) == 0 && !left
        })
    }

    /// The first set of a new version.
    fn begin(&mut self, strategy: &Strategy) -> Beginning {
        let first = match strategy {
            Strategy::Rolling(rolling) => rolling.first(&self.sets.old),
            Strategy::Recreate { desired } if self.is_old_gone() => *desired,
            Strategy::Recreate { .. } => {
                for set in self.sets.old.clone() {
                    self.resize(set, 0);
                }
                return Beginning::No;
            }
        };
        let set = self.sets.make(self.deployment, first);
        let name = set.metadata.name.clone().unwrap_or_default();
        // Another set has the name: the hash must become another.
        if self.view.replica_sets.contains_key(&sets::key(&set)) {
            return Beginning::Collision;
        }
        self.next.act(Act::make(&set));
        Beginning::Created(name)
    }

    /// Gives a set its number of replicas.
    fn resize(&mut self, set: &ReplicaSet, number: i32) {
        if replicas(set) != number {
            self.next
                .act(Act::patch(set, json!({"spec": {"replicas": number}})));
        }
    }

    /// Gives the new set its number of replicas, its revision, and the patience of its deployment.
    fn correct(&mut self, set: &ReplicaSet, number: i32, revision: i64) {
        let patience = |seconds: Option<i32>| seconds.unwrap_or(0);
        let wanted = patience(self.deployment.spec.min_ready_seconds);
        let has = patience(set.spec.min_ready_seconds);
        let mut patch = json!({});
        if replicas(set) != number {
            patch["spec"]["replicas"] = number.into();
        }
        if wanted != has {
            patch["spec"]["minReadySeconds"] = wanted.into();
        }
        if sets::revision(set) != revision {
            patch["metadata"]["annotations"][REVISION] = revision.to_string().into();
        }
        if patch != json!({}) {
            self.next.act(Act::patch(set, patch));
        }
    }

    /// Deletes the oldest sets that are kept for a way back, beyond the limit, once the rollout is complete.
    fn forget_old_sets(&mut self) {
        let limit = self.deployment.spec.revision_history_limit.unwrap_or(10);
        if !status::is_complete(self.deployment) {
            return;
        }
        let mut empty: Vec<&ReplicaSet> = self
            .sets
            .old
            .iter()
            .copied()
            .filter(|set| sets::is_empty(set))
            .collect();
        empty.sort_by_key(|set| (revision(set), sets::key(set)));
        let spare = empty.len().saturating_sub(super::pods::size(limit));
        self.next
            .acts
            .extend(empty.into_iter().take(spare).map(Act::delete));
    }

    /// The deployment's own revision, or else its status: both are writes to the same object.
    fn report(&mut self, strategy: &Strategy, beginning: Beginning) {
        if let Some(new) = self.sets.new {
            let revision = revision(new).max(self.sets.next_revision()).to_string();
            let annotations = self.deployment.metadata.annotations.as_ref();
            let deleting = self.deployment.metadata.deletion_timestamp.is_some();
            if !deleting && annotations.and_then(|known| known.get(REVISION)) != Some(&revision) {
                let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
                self.next.act(Act::patch(self.deployment, patch));
                return;
            }
        }
        let report = status::report(self.deployment, &self.sets, strategy, beginning, self.now);
        self.next.join(report);
    }
}
