//! What a controller manager does for workloads: pods for those who ask for them, budgets that are true, and no pods
//! that nobody runs.
//!
//! Each is a function from the view and the time to writes. They adopt nothing: an object belongs to a controller only
//! if its controller reference says so, which is how it is for everything that these controllers make. What is left
//! behind by a deleted owner goes with the API server's own collector, at once.
//!
//! Not here: ControllerRevision objects (so `kubectl rollout history` and `undo` work for deployments only), cron jobs,
//! replication controllers, autoscalers, proportional scaling of a deployment in the middle of a rollout (the new set
//! grows and the old ones shrink as if the number had always been that), `maxSurge` of daemon sets.

mod budgets;
mod daemon_set;
mod deployment;
mod job;
mod pod_garbage;
mod pods;
mod replica_set;
mod revision;
mod scaled;
mod stateful_set;
mod status;
#[cfg(test)]
mod trial;

use super::control_plane::Actor;

/// All of them, in the order in which they are asked: those who decide how many, those who make pods, those who count.
pub const ACTORS: [Actor; 7] = [
    deployment::ACTOR,
    replica_set::ACTOR,
    stateful_set::ACTOR,
    daemon_set::ACTOR,
    job::ACTOR,
    pod_garbage::ACTOR,
    budgets::ACTOR,
];
