//! The deterministic world: real controllers, an embedded cluster and cloud, faults on demand; a seed in, a history out.
//!
//! One current-thread runtime with paused time: it jumps to the next timer when everybody waits, so an hour takes as
//! long as what happens in it. Given the same seed, and a process whose entropy is that seed (`simulate`), two runs
//! have the same history byte for byte.

pub mod audit;
pub mod cluster;
pub mod edges;
pub mod effects;
pub mod life;
pub mod recorder;
pub mod replica;

use std::sync::Arc;
use std::time::Duration;

use crate::sim::history::{History, Keep, Who};
use cluster::{Cluster, InstallError};
use edges::KubeEdge;
use recorder::{Observer, Recorder, Tally};
use replica::{Outside, Replica};

pub use replica::{Edges, Factory};

/// More requests than any run has: one that goes round in circles without time passing would never end.
const REQUESTS_MAX: u64 = 5_000_000;

/// What a run is made of.
pub struct Setup {
    /// Where all chance comes from.
    pub seed: u64,
    /// What the operator is.
    pub factory: Factory,
    /// How many replicas of it there are.
    pub replicas: usize,
    /// How long it goes on.
    pub lasts: Duration,
    /// How much of the history is remembered.
    pub keep: Keep,
    /// Who else sees each entry.
    pub observers: Vec<Observer>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was counted.
    pub tally: Tally,
    /// How long it was.
    pub simulated: Duration,
    /// Of the whole history: the same for the same seed.
    pub trace: u64,
    /// What is remembered.
    pub history: History,
}

/// Runs a world from its beginning to its end.
pub fn run(setup: Setup) -> Result<Outcome, InstallError> {
    #[expect(
        clippy::expect_used,
        reason = "a runtime without I/O asks the system for nothing that it could refuse"
    )]
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime that only keeps time can be built");
    runtime.block_on(live(setup))
}

async fn live(setup: Setup) -> Result<Outcome, InstallError> {
    let cluster = Cluster::new(setup.seed, "us-south");
    let recorder = Recorder::new(&cluster.clock, setup.keep, REQUESTS_MAX);
    for observer in setup.observers {
        recorder.show(observer);
    }
    cluster.audit(&recorder);
    cluster.install().await?;
    let outside = Outside {
        factory: setup.factory,
        kube: Arc::new(KubeEdge {
            server: cluster.server.clone(),
            user: Cluster::operator(),
            faults: Arc::new(|way| way),
            recorder: recorder.clone(),
        }),
        cloud: cluster.cloud.clone(),
        clock: cluster.operator_clock.clone(),
        recorder: recorder.clone(),
        seed: setup.seed,
    };
    let _replicas: Vec<Replica> = (0..setup.replicas)
        .map(|number| Replica::start(number, outside.clone()))
        .collect();
    cluster.clock.sleep(setup.lasts).await;
    recorder.turn(Who::World, "ended");
    let history = recorder.history();
    Ok(Outcome {
        tally: recorder.tally(),
        simulated: recorder.elapsed(),
        trace: history.hash(),
        history,
    })
}
