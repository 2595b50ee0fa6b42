//! The rest of the cluster, started.

use crate::sim::actors::control_plane::{self, Actor};
use crate::sim::actors::{approver, node_lifecycle, scheduler, volumes};
use crate::sim::kube::identity::User;

use super::audit::{APPROVER, CONTROL_PLANE};
use super::cluster::Cluster;

/// The controllers of the cluster, in the order in which they are asked.
const ACTORS: &[Actor] = &[scheduler::ACTOR, node_lifecycle::ACTOR, volumes::ACTOR];

/// Starts everybody; they end with the runtime.
pub fn start(cluster: &Cluster) {
    let client = |name: &str| {
        let user = User::named(name, &["system:masters", "system:authenticated"]);
        cluster.server.client_as(user)
    };
    let (plane, clock) = (client(CONTROL_PLANE), cluster.clock.clone());
    tokio::spawn(async move { control_plane::run(plane, clock, ACTORS).await });
    tokio::spawn(approver::run(client(APPROVER), cluster.clock.clone()));
}
