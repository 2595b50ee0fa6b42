//! The whole stage: both servers, the rest of the cluster, machines that boot, and one replica of the product.

use std::sync::Arc;

use super::player::Hands;
use super::{Configuration, Crash};
use crate::sim::actors::kubelet::behavior::Oddities;
use crate::sim::faults::{Desk, Parts};
use crate::sim::history::{Keep, Who};
use crate::sim::world::audit::strangers;
use crate::sim::world::cluster::{API_KEY, Cluster, InstallError};
use crate::sim::world::edges::KubeEdge;
use crate::sim::world::product::Findings;
use crate::sim::world::recorder::Recorder;
use crate::sim::world::replica::{Outside, Replica};
use crate::sim::world::{Product, actors};

/// What a story is played with.
pub struct Stage {
    /// What the player works with.
    pub hands: Hands,
    /// The one replica of the operator.
    pub replica: Replica,
}

/// Raises the curtain: installs the product in an empty cluster and starts everybody. They end with the runtime.
pub async fn open(
    cluster: &Cluster,
    region: &str,
    seed: u64,
    product: &Product,
) -> Result<Stage, InstallError> {
    // Nobody asks for the history of a story; only the last entry of it is kept.
    let recorder = Recorder::new(&cluster.clock, Keep::Last(1), u64::MAX);
    let configuration = Configuration::new()?;
    let findings = Findings::default();
    let mut surroundings = cluster.install(region, findings.alarm()).await?;
    surroundings.config_file = Some(configuration.path().to_owned());
    actors::start(cluster, seed, Oddities::default());
    let desk = desk(cluster, &recorder);
    let outside = Outside {
        kube: Arc::new(KubeEdge {
            server: cluster.server.clone(),
            user: Cluster::operator(),
            faults: Arc::new(|way| way),
            recorder: recorder.clone(),
            desk: desk.clone(),
        }),
        cloud: cluster.cloud.clone(),
        clock: cluster.clock.another(),
        desk,
        recorder,
        seed,
    };
    let replica = Replica::start(0, product(&surroundings, 0)?, outside);
    let crashing = replica.clone();
    let hands = Hands {
        client: cluster.server.admin(),
        cloud: cluster.cloud.clone(),
        clock: cluster.clock.clone(),
        crash: Arc::new(move |crash: Crash| {
            // There is one replica, whichever is meant.
            crashing.crash_after(crash.after_effects);
        }),
        configuration: Some(configuration),
        findings,
    };
    Ok(Stage { hands, replica })
}

fn desk(cluster: &Cluster, recorder: &Recorder) -> Desk {
    let told = recorder.clone();
    Desk::new(Parts {
        server: cluster.server.clone(),
        cloud: cluster.cloud.clone(),
        operator: Cluster::operator().name,
        clocks: Vec::new(),
        oddities: Oddities::default(),
        api_key: API_KEY.to_owned(),
        key_file: None,
        sink: Arc::new(move |what| told.add(Who::World, what)),
        witness: strangers(recorder),
    })
}
