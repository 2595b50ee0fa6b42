//! How fast a world runs: an hour with ten machines and fifty pods under faults, and requests per minute of real time; then
//! one seed that goes on for so long that its beginning hardly counts, which is what can be sustained.
//!
//! `--small` plays one short seed, to see that it runs.

#![expect(
    clippy::cast_precision_loss,
    reason = "counts far below 2^52, for people to read"
)]

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::faults::{Plan, Shape};
use karpenter_ibm::sim::history::Keep;
use karpenter_ibm::sim::world::churn::{self, Demand};
use karpenter_ibm::sim::world::{self, Outcome, Setup, product};

/// The same allocator as in the binary `simulate`, which asks it for an alignment only where one is asked for and is a
/// little faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REPLICAS: usize = 2;

fn main() -> Result<()> {
    let small = std::env::args().any(|argument| argument == "--small");
    let (seeds, minutes) = if small { (1, 2) } else { (5, 40) };
    let hours = (0..seeds).map(|seed| (seed, minutes));
    let sustained = (!small).then_some((3, 24 * 60));
    let clock = Clock::system();
    for (seed, minutes) in hours.chain(sustained) {
        let before = clock.instant();
        let outcome = play(seed, Duration::from_mins(minutes))?;
        let took = clock.instant() - before;
        let per_minute = outcome.requests as f64 / took.as_secs_f64() * 60.0;
        writeln!(
            std::io::stdout(),
            "seed {seed}: {} s simulated in {:.2} s; {} requests, {per_minute:.0} a minute (aim: 1,000,000)",
            outcome.simulated.as_secs(),
            took.as_secs_f64(),
            outcome.requests,
        )?;
    }
    Ok(())
}

fn play(seed: u64, lasts: Duration) -> Result<Outcome> {
    let demand = Demand {
        lasts,
        ..Demand::USUAL
    };
    let scenario = churn::draw(seed, &demand);
    let shape = Shape {
        replicas: REPLICAS,
        moments: scenario.steps.iter().map(|step| step.at).collect(),
        departures: Vec::new(),
    };
    let outcome = world::run(Setup {
        seed,
        scenario,
        plan: Plan::draw(seed, &shape, lasts),
        product: product::product(),
        replicas: REPLICAS,
        machines_max: None,
        quiet: world::QUIET,
        keep: Keep::Last(50),
        observers: Vec::new(),
    })?;
    Ok(outcome)
}
