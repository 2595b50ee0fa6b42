//! Runs one seed of the simulated world: `simulate --seed 7`.
//!
//! The process's entropy is the seed: what std, tokio, ring, kube's stores and back-offs would draw from the operating
//! system comes from a generator that starts with it. So a seed needs a process of its own, and this program is for
//! developers only: it is in no image, chart or release.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use karpenter_ibm::sim::faults::{Plan, Shape};
use karpenter_ibm::sim::history::Keep;
use karpenter_ibm::sim::scenario::Scenario;
use karpenter_ibm::sim::world::churn::{self, Demand};
use karpenter_ibm::sim::world::recorder::Observer;
use karpenter_ibm::sim::world::story::Teller;
use karpenter_ibm::sim::world::{self, Setup, product};

/// Two, as the chart has it: one leads.
const REPLICAS: usize = 2;

/// Plays a simulated world from its seed, always the same way.
#[derive(Debug, Parser)]
struct Args {
    /// Where all chance comes from.
    #[arg(long)]
    seed: u64,
    /// What people do; drawn from the seed when there is none.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// How long people do anything, when it is drawn from the seed.
    #[arg(long, value_name = "N", default_value_t = 40, conflicts_with = "scenario")]
    minutes: u64,
    /// Let nothing go wrong.
    #[arg(long)]
    calm: bool,
    /// Print every entry of the history.
    #[arg(long, conflicts_with = "story")]
    trace: bool,
    /// Tell what happens, in sentences.
    #[arg(long)]
    story: bool,
}

/// What stands for the operating system's entropy.
static ENTROPY: AtomicU64 = AtomicU64::new(0);

/// splitmix64: every state gives a different number, and the next state is one addition away.
fn draw() -> u64 {
    let mut z = ENTROPY
        .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Stands in front of the C library's: what asks the operating system for entropy in this process asks here.
///
/// # Safety
/// `buffer` must be valid for `length` writes, as the C library's contract says too.
#[expect(unsafe_code, reason = "the symbol that std and the getrandom crate call")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&draw().to_ne_bytes()[..chunk.len()]);
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// Gives each hasher of ahash, which kube's stores use, keys from the seed.
struct Seeded;

impl ahash::random_state::RandomSource for Seeded {
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    fn gen_hasher_seed(&self) -> usize {
        draw() as usize
    }
}

/// Replaces every source of chance by the seed. Nothing may have drawn from them before.
fn seed(seed: u64) {
    ENTROPY.store(seed, Ordering::Relaxed);
    // It refuses only when it was set before, and this runs once.
    let _ = ahash::random_state::set_random_source(Seeded);
    fastrand::seed(draw());
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    seed(args.seed);
    let outcome = world::run(setup(&args)?)?;
    for violation in &outcome.violations {
        writeln!(
            std::io::stderr(),
            "{} at {:.3} s: {}",
            violation.id,
            violation.at.as_secs_f64(),
            violation.message
        )?;
    }
    writeln!(
        std::io::stdout(),
        "seed {} {:?} trace {:016x} requests {} events {} effects {} simulated {} s",
        args.seed,
        outcome.verdict,
        outcome.trace,
        outcome.requests,
        outcome.events,
        outcome.effects,
        outcome.simulated.as_secs()
    )?;
    Ok(())
}

fn setup(args: &Args) -> anyhow::Result<Setup> {
    let scenario = match &args.scenario {
        Some(path) => Scenario::load(path)?,
        None => {
            let lasts = Duration::from_mins(args.minutes);
            churn::draw(
                args.seed,
                &Demand {
                    lasts,
                    ..Demand::USUAL
                },
            )
        }
    };
    let plan = if args.calm {
        Plan::none()
    } else {
        Plan::draw(args.seed, &Shape { replicas: REPLICAS }, scenario.lasts)
    };
    let mut observers: Vec<Observer> = Vec::new();
    if args.trace {
        observers.push(Box::new(|entry| {
            // A reader that went away has seen enough.
            let _ = writeln!(std::io::stdout(), "{entry}");
        }));
    }
    if args.story {
        let mut teller = Teller::default();
        observers.push(Box::new(move |entry| {
            if let Some(line) = teller.line(entry) {
                let _ = writeln!(std::io::stdout(), "{line}");
            }
        }));
    }
    Ok(Setup {
        seed: args.seed,
        scenario,
        plan,
        product: product::product(),
        replicas: REPLICAS,
        keep: Keep::Last(50),
        observers,
    })
}
