//! Runs one seed of the simulated world: `simulate --seed 7`.
//!
//! The process's entropy is the seed: what std, tokio, ring, kube's stores and back-offs would draw from the operating
//! system comes from a generator that starts with it. So a seed needs a process of its own, and this program is for
//! developers only: it is in no image, chart or release.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_ibm::sim::faults::{Plan, Shape};
use karpenter_ibm::sim::history::Keep;
use karpenter_ibm::sim::scenario::Scenario;
use karpenter_ibm::sim::world::{self, Edges, Factory, Setup};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher;

/// Plays a simulated world from its seed, always the same way.
#[derive(Debug, Parser)]
struct Args {
    /// Where all chance comes from.
    #[arg(long)]
    seed: u64,
    /// Print every entry of the history.
    #[arg(long)]
    trace: bool,
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
    let mut observers: Vec<world::recorder::Observer> = Vec::new();
    if args.trace {
        observers.push(Box::new(|entry| {
            // A reader that went away has seen enough.
            let _ = writeln!(std::io::stdout(), "{entry}");
        }));
    }
    let outcome = world::run(Setup {
        seed: args.seed,
        scenario: scenario(),
        plan: Plan::draw(args.seed, &Shape { replicas: 2 }, Duration::from_mins(10)),
        replicas: vec![maker(), maker()],
        keep: Keep::Last(50),
        observers,
    })?;
    writeln!(
        std::io::stdout(),
        "seed {} trace {:016x} requests {} events {} effects {}",
        args.seed,
        outcome.trace,
        outcome.requests,
        outcome.events,
        outcome.effects
    )?;
    Ok(())
}

fn scenario() -> Scenario {
    Scenario {
        name: "nothing".to_owned(),
        about: "Nobody does anything.".to_owned(),
        region: "us-south".to_owned(),
        objects: Vec::new(),
        steps: Vec::new(),
        lasts: Duration::from_mins(10),
    }
}

/// An operator that makes config maps, and copies what they say from one to the next.
fn maker() -> Factory {
    Arc::new(|edges: Edges| {
        Box::pin(async move {
            let maps: Api<ConfigMap> = Api::default_namespaced(edges.kube.clone());
            for name in 0..8 {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(format!("map-{name}"));
                let _exists = maps.create(&PostParams::default(), &map).await;
            }
            let rounds = Controller::new(maps.clone(), watcher::Config::default()).run(
                |map: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>| async move {
                    let name = map.metadata.name.clone().unwrap_or_default();
                    let round = map.data.as_ref().and_then(|data| data.get("round"));
                    let round: u64 = round.and_then(|round| round.parse().ok()).unwrap_or_default();
                    let change = serde_json::json!({"data": {"round": (round + 1).to_string()}});
                    let params = PatchParams::default();
                    if round < 100 {
                        maps.patch(&name, &params, &Patch::Merge(change)).await?;
                    }
                    Ok::<_, kube::Error>(Action::requeue(Duration::from_secs(5)))
                },
                |_, _, _| Action::requeue(Duration::from_secs(1)),
                Arc::new(maps),
            );
            rounds.for_each(|_| std::future::ready(())).await;
        })
    })
}
