//! Transcripts: what is told while a scenario is played in a world without faults of its own, line by line with the
//! simulated time. They are compared with files, so they are tests and documentation at once.

use super::player::{Failure, Line, play};
use super::{Scenario, stage};
use crate::sim::world::Product;
use crate::sim::world::cluster::{Cluster, InstallError};

/// Why there is no transcript.
#[derive(Debug, thiserror::Error)]
pub enum NoTranscript {
    /// There is no runtime.
    #[error("starting the runtime")]
    Runtime(#[from] std::io::Error),
    /// The stage cannot be set.
    #[error("setting the stage")]
    Install(#[from] InstallError),
    /// A step did not happen; what was told until then.
    #[error("{failure}\n\n{so_far}")]
    Failed {
        /// Which, and why.
        failure: Box<Failure>,
        /// The lines before it.
        so_far: String,
    },
}

/// Plays a scenario as fast as it goes, and gives what was told.
pub fn transcript(scenario: &Scenario, seed: u64, product: &Product) -> Result<String, NoTranscript> {
    // kube draws the jitter of its back-offs from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let mut told = String::new();
    runtime.block_on(async {
        let cluster = Cluster::new(seed, &scenario.region);
        let hands = stage::open(&cluster, &scenario.region, seed, product).await?;
        let mut listen = |line: Line| {
            told.push_str(&line.to_string());
            told.push('\n');
        };
        let played = play(scenario, &hands, &mut listen).await;
        played.map_err(|failure| NoTranscript::Failed {
            failure: Box::new(failure),
            so_far: told.clone(),
        })
    })?;
    Ok(told)
}
