//! The deterministic world: real controllers, an embedded cluster and cloud, faults on demand; a seed in, a history out.
//!
//! One current-thread runtime with paused time: it jumps to the next timer when everybody waits, so an hour takes as
//! long as what happens in it. Given the same seed, and a process whose entropy is that seed (`simulate`), two runs
//! have the same history byte for byte.

pub mod actors;
pub mod audit;
mod bench;
pub mod chart;
pub mod churn;
pub mod cluster;
pub mod compare;
mod course;
pub mod edges;
pub mod effects;
pub mod life;
mod logs;
pub mod product;
pub mod recorder;
pub mod replica;
mod steps;
pub mod story;
mod subnets;
pub mod timeline;
pub mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::sim::faults::Plan;
use crate::sim::history::{History, Keep};
use crate::sim::invariants::Violation;
use crate::sim::probes::Probes;
use crate::sim::scenario::Scenario;
use cluster::InstallError;
use effects::Counts;
use recorder::Observer;

pub use compare::compare;
pub use product::{Product, Surroundings};

/// How long nothing may happen when everything is as it should be. Sweeps and resyncs come round in this time, and what
/// classes name is read anew. Where a machine moves meanwhile it is longer: for as long as this a move explains what is done.
pub const QUIET: Duration = Duration::from_mins(15);
/// The same, in one seed of [`LONG_EVERY`]: longer than what comes round every hour, as the reading of all profiles and
/// the tokens of the cloud.
const LONG_QUIET: Duration = Duration::from_mins(65);
const LONG_EVERY: u64 = 10;
/// Which of them: not 0, under which every story is played that is not drawn.
const LONG_AT: u64 = 7;

/// How long nothing may happen in the end of a seed.
pub fn quiet(seed: u64) -> Duration {
    if seed % LONG_EVERY == LONG_AT {
        LONG_QUIET
    } else {
        QUIET
    }
}

/// What a run is made of.
pub struct Setup {
    /// Where all chance comes from.
    pub seed: u64,
    /// What is there, and what people do.
    pub scenario: Scenario,
    /// What goes wrong.
    pub plan: Plan,
    /// What runs.
    pub product: Product,
    /// How many replicas of it there are.
    pub replicas: usize,
    /// How many machines they are told there may be in all.
    pub machines_max: Option<u64>,
    /// How long nothing may happen in the end: usually as [`quiet`] has it.
    pub quiet: Duration,
    /// How much of the history is remembered.
    pub keep: Keep,
    /// Who else sees each entry.
    pub observers: Vec<Observer>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In a word.
    pub verdict: Verdict,
    /// What must not have happened and did, in order.
    pub violations: Vec<Violation>,
    /// Steps of the scenario that did not happen: under faults this is no fault of itself.
    pub unmet: Vec<String>,
    /// What rare things were seen.
    pub probes: Probes,
    /// How often each fault struck, by its name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Requests, of everybody.
    pub requests: u64,
    /// Effects of replicas.
    pub effects: u64,
    /// Watch events that replicas were given.
    pub events: u64,
    /// How long it was.
    pub simulated: Duration,
    /// Of the whole history: the same for the same seed.
    pub trace: u64,
    /// Effects of replicas, by what they did.
    pub counts: Counts,
    /// Claims that joined and to which nothing happened, by name.
    pub sound: BTreeSet<String>,
    /// How often each claim lost something for which it is bought or given back for again, by name.
    pub losses: BTreeMap<String, u64>,
    /// What is remembered.
    pub history: History,
}

/// What is to be said of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Passed,
    /// Something happened that must not, or did not happen that must; this is the first.
    Violated(&'static str),
    /// A step of the scenario did not happen although nothing went wrong.
    Unmet,
    /// The scenario took longer than it said.
    Unfinished,
    /// It made more requests than any run has.
    Overrun,
}

impl Verdict {
    /// In a word, what the story lacks although nothing was violated.
    pub fn lack(self) -> Option<&'static str> {
        match self {
            Self::Passed | Self::Violated(_) => None,
            Self::Unmet => Some("unmet"),
            Self::Unfinished => Some("unfinished"),
            Self::Overrun => Some("overrun"),
        }
    }
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
    let ear = logs::Ear::default();
    // One thread does it all, so what it logs is this world's.
    let _listens = ear.listen();
    runtime.block_on(course::live(setup, ear))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_of_ten_is_watched_for_longer_than_an_hour() {
        let long = (0..1000).filter(|seed| quiet(*seed) > Duration::from_hours(1));
        assert_eq!(long.count(), 100);
        assert_eq!(quiet(0), QUIET);
    }
}
