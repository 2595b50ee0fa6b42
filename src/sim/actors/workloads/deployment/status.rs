//! What a deployment says of itself, as `kubectl rollout status` reads it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::status::{corrected, moment, some};
use super::rollout::Strategy;
use super::sets::{Sets, replicas};
use crate::clock::later;
use crate::sim::actors::control_plane::Next;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const DONE: &str = "NewReplicaSetAvailable";
const LATE: &str = "ProgressDeadlineExceeded";

/// Whether a new version begins in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// No.
    No,
    /// The set of this name is made.
    Created(String),
    /// The set could not be made: another one has its name.
    Collision,
}

/// The status that a deployment should have, if it is another, and when it might change by time alone.
pub(super) fn report(
    deployment: &Deployment,
    sets: &Sets<'_>,
    strategy: &Strategy,
    beginning: Beginning,
    now: Timestamp,
) -> Next {
    let old = deployment.status.clone().unwrap_or_default();
    let mut new = counted(deployment, sets, &old);
    if beginning == Beginning::Collision {
        new.collision_count = Some(old.collision_count.unwrap_or(0) + 1);
    }
    let available = new.available_replicas.unwrap_or(0);
    let enough = available >= strategy.desired() - strategy.unavailable();
    let mut conditions = old.conditions.clone().unwrap_or_default();
    set(&mut conditions, availability(enough), now);
    let deadline = deployment.spec.progress_deadline_seconds;
    match deadline.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) if seconds < i32::MAX as u64 => {
            let progress = Progress {
                deployment,
                sets,
                old: &old,
                new: &new,
                deadline: Duration::from_secs(seconds),
                now,
            };
            if let Some(condition) = progress.condition(beginning) {
                set(&mut conditions, condition, now);
            }
        }
        _ => conditions.retain(|condition| condition.type_.as_deref() != Some(PROGRESSING)),
    }
    new.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    let mut next = Next {
        again_at: timeout(&new, deadline),
        acts: Vec::new(),
    };
    next.acts
        .extend(corrected(deployment, deployment.status.as_ref(), &new));
    next
}

/// Whether the deployment itself says that everything is as it should be.
pub(super) fn is_complete(deployment: &Deployment) -> bool {
    deployment
        .status
        .as_ref()
        .is_some_and(|status| has_all(deployment, status))
}

fn has_all(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let all = |count: Option<i32>| count.unwrap_or(0) == desired;
    all(status.updated_replicas)
        && all(status.replicas)
        && all(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

fn counted(deployment: &Deployment, sets: &Sets<'_>, old: &DeploymentStatus) -> DeploymentStatus {
    let all = sets.all();
    let sum = |field: &dyn Fn(&ReplicaSetStatus) -> i32| {
        all.iter()
            .filter_map(|set| set.status.as_ref().map(field))
            .sum::<i32>()
    };
    let updated = sets
        .new
        .and_then(|set| set.status.as_ref())
        .map_or(0, |s| s.replicas);
    let available = sum(&|status| status.available_replicas.unwrap_or(0));
    let asked: i32 = all.iter().map(|set| replicas(set)).sum();
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(&|status| status.replicas)),
        updated_replicas: some(updated),
        ready_replicas: some(sum(&|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: some(available),
        unavailable_replicas: some((asked - available).max(0)),
        terminating_replicas: Some(sum(&|status| status.terminating_replicas.unwrap_or(0))),
        collision_count: old.collision_count,
        conditions: None,
    }
}

fn availability(enough: bool) -> DeploymentCondition {
    if enough {
        condition(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        let message = "Deployment does not have minimum availability.";
        condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message)
    }
}

/// Whether a rollout gets on.
struct Progress<'a> {
    deployment: &'a Deployment,
    sets: &'a Sets<'a>,
    old: &'a DeploymentStatus,
    new: &'a DeploymentStatus,
    deadline: Duration,
    now: Timestamp,
}

impl Progress<'_> {
    /// What is to be said about it, if it is something new.
    fn condition(&self, beginning: Beginning) -> Option<DeploymentCondition> {
        let yes = |reason: &str, message: String| Some(condition(PROGRESSING, "True", reason, &message));
        if let Beginning::Created(name) = beginning {
            return yes(
                "NewReplicaSetCreated",
                format!("Created new replica set \"{name}\""),
            );
        }
        let subject = self.subject();
        let known = known(self.old, PROGRESSING);
        let is_done = known.is_some_and(|known| known.reason.as_deref() == Some(DONE));
        if is_done && self.new.replicas == self.new.updated_replicas {
            return None;
        }
        if has_all(self.deployment, self.new) {
            return yes(DONE, format!("{subject} has successfully progressed."));
        }
        if self.has_moved() {
            return yes("ReplicaSetUpdated", format!("{subject} is progressing."));
        }
        match known {
            None => self
                .sets
                .new
                .and_then(|set| set.metadata.name.as_deref())
                .and_then(|name| yes("FoundNewReplicaSet", format!("Found new replica set \"{name}\""))),
            Some(_) if timeout(self.old, Some(seconds(self.deadline))).is_some_and(|at| at <= self.now) => {
                let message = format!("{subject} has timed out progressing.");
                Some(condition(PROGRESSING, "False", LATE, &message))
            }
            Some(_) => None,
        }
    }

    fn subject(&self) -> String {
        let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
        if let Some(set) = self.sets.new {
            format!("ReplicaSet \"{}\"", name(&set.metadata))
        } else {
            format!("Deployment \"{}\"", name(&self.deployment.metadata))
        }
    }

    fn has_moved(&self) -> bool {
        let grew = |field: fn(&DeploymentStatus) -> Option<i32>| {
            field(self.new).unwrap_or(0) > field(self.old).unwrap_or(0)
        };
        let left =
            |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
        grew(|s| s.updated_replicas)
            || grew(|s| s.ready_replicas)
            || grew(|s| s.available_replicas)
            || left(self.new) < left(self.old)
    }
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

/// When a rollout that does not get on is late.
fn timeout(status: &DeploymentStatus, deadline: Option<i32>) -> Option<Timestamp> {
    let deadline = Duration::from_secs(u64::try_from(deadline?).ok()?);
    let known = known(status, PROGRESSING)?;
    let waits = !matches!(known.reason.as_deref(), Some(DONE | LATE));
    let since = known.last_update_time.as_ref().filter(|_| waits)?;
    Some(later(since.0, deadline))
}

fn known<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_.as_deref() == Some(type_))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(type_.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: None,
        last_transition_time: None,
    }
}

/// Puts a condition among the others. A rollout that gets on is told again each time, since its deadline begins anew;
/// availability is told when it changes.
fn set(conditions: &mut Vec<DeploymentCondition>, mut new: DeploymentCondition, now: Timestamp) {
    let place = conditions.iter().position(|known| known.type_ == new.type_);
    let known = place.map(|place| conditions[place].clone());
    let same = |known: &DeploymentCondition| (known.status == new.status, known.reason == new.reason);
    if new.type_.as_deref() == Some(AVAILABLE) && known.as_ref().map(same) == Some((true, true)) {
        return;
    }
    new.last_update_time = Some(moment(now));
    new.last_transition_time = known
        .filter(|known| known.status == new.status)
        .map_or(Some(moment(now)), |known| known.last_transition_time);
    match place {
        Some(place) => conditions[place] = new,
        None => conditions.push(new),
    }
}
