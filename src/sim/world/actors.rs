//! The rest of the cluster, started.

use std::sync::Arc;

use super::audit::CONTROL_PLANE;
use super::cluster::{Cluster, URL};
use crate::sim::actors::control_plane::{self, Actor};
use crate::sim::actors::kubelet::behavior::Oddities;
use crate::sim::actors::machines::{self, MachineOptions};
use crate::sim::actors::network::InProcess;
use crate::sim::actors::{node_lifecycle, scheduler, volumes, workloads};
use crate::sim::kube::identity::{Keys, User};

/// The controllers of the cluster, in the order in which they are asked.
fn controllers() -> Vec<Actor> {
    let rest = [scheduler::ACTOR, node_lifecycle::ACTOR, volumes::ACTOR];
    workloads::ACTORS.into_iter().chain(rest).collect()
}

/// Starts everybody; they end with the runtime. What is odd about machines is turned on and off from outside.
pub fn start(cluster: &Cluster, seed: u64, oddities: Oddities) {
    let client = |name: &str| {
        let user = User::named(name, &["system:masters", "system:authenticated"]);
        cluster.server.slim_client_as(user)
    };
    let (plane, clock) = (client(CONTROL_PLANE), cluster.clock.clone());
    tokio::spawn(async move { control_plane::run(plane, clock, &controllers()).await });
    let network = Arc::new(InProcess::new(cluster.server.clone(), URL));
    tokio::spawn(machines::run(
        cluster.cloud.clone(),
        network,
        cluster.clock.clone(),
        MachineOptions {
            oddities,
            ..MachineOptions::new(seed, Keys::Fixed)
        },
    ));
}
