//! How long the scheduler takes, from typed objects in memory to the plan, and what the plan costs.
//!
//! `cargo bench --bench scheduling` prints a table; `-- --pods 1000` one line of it; `-- --pods 1000 --write FILE` writes
//! that workload as JSON instead, so that another scheduler can be measured with it. `--kind` is `diverse`, `preferences`
//! (with `--preferences ignored` they are not looked at) or `ibm`.
#![expect(clippy::print_stdout, reason = "a table is what this is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::time::Instant;

use karpenter_ibm::model::{PodSet, Snapshot};
use karpenter_ibm::money::Price;
use karpenter_ibm::scheduling::{Options, Plan, Preferences, solve};

#[path = "scheduling/workload.rs"]
mod workload;

use workload::Workload;

/// How often each is measured; the best counts.
const ROUNDS: usize = 3;
const SIZES: [usize; 9] = [1, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000];

#[derive(Debug, Default)]
struct Arguments {
    pods: Option<usize>,
    kind: Option<String>,
    ignore_preferences: bool,
    write: Option<String>,
}

fn arguments() -> Arguments {
    let mut read = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--pods" => read.pods = given.next().and_then(|pods| pods.parse().ok()),
            "--kind" => read.kind = given.next(),
            "--preferences" => read.ignore_preferences = given.next().as_deref() == Some("ignored"),
            "--write" => read.write = given.next(),
            _ => {}
        }
    }
    read
}

fn main() -> std::io::Result<()> {
    let arguments = arguments();
    let kind = arguments.kind.as_deref().unwrap_or("diverse");
    let build = |pods: usize| match kind {
        "preferences" => workload::preferences(pods),
        "ibm" => workload::ibm(pods),
        _ => workload::diverse(pods),
    };
    let options = Options {
        preferences: if arguments.ignore_preferences {
            Preferences::Ignore
        } else {
            Preferences::Respect
        },
        ..Options::default()
    };
    if let (Some(file), Some(pods)) = (&arguments.write, arguments.pods) {
        return std::fs::write(file, workload::to_json(&build(pods)).to_string());
    }
    println!(
        "{:<14} {:>7} {:>10} {:>8} {:>7} {:>12} {:>8} {:>7}",
        "workload", "pods", "ms", "classes", "nodes", "dollars/h", "left out", "MB"
    );
    if let Some(pods) = arguments.pods {
        measure(kind, &build(pods), options);
        return Ok(());
    }
    for pods in SIZES {
        measure("diverse", &workload::diverse(pods), Options::default());
    }
    let ignored = Options {
        preferences: Preferences::Ignore,
        ..Options::default()
    };
    measure("respected", &workload::preferences(4000), Options::default());
    measure("ignored", &workload::preferences(4000), ignored);
    for pods in [1000, 20_000] {
        measure("ibm", &workload::ibm(pods), Options::default());
    }
    Ok(())
}

/// A figure of this process in MB, where the kernel tells it.
fn memory(figure: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(figure))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// What a solve needs at most beyond what was there before, in MB. Memory that was freed before is used again, so this is
/// exact only for the first workload of a process.
fn peak(snapshot: &Snapshot, options: Options) -> Option<f64> {
    let before = memory("VmRSS")?;
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    solve(snapshot, options, &mut || true);
    Some((memory("VmHWM")? - before).max(0.0))
}

fn snapshot(workload: &Workload) -> Snapshot {
    Snapshot {
        pools: vec![workload.pool.clone()],
        pending: PodSet::of(&workload.pods),
        ..Snapshot::default()
    }
}

fn measure(name: &str, workload: &Workload, options: Options) {
    let mut best: Option<(f64, usize, Plan)> = None;
    let peak = peak(&snapshot(workload), options).unwrap_or_default();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let snapshot = snapshot(workload);
        let plan = solve(&snapshot, options, &mut || true);
        let took = begin.elapsed().as_secs_f64() * 1e3;
        if best.as_ref().is_none_or(|(known, _, _)| took < *known) {
            best = Some((took, snapshot.pending.classes.len(), plan));
        }
    }
    let Some((took, classes, plan)) = best else {
        return;
    };
    let dollars = Price::from_nanos(plan.price_nanos()).map_or(0.0, Price::usd);
    println!(
        "{name:<14} {:>7} {took:>10.2} {classes:>8} {:>7} {dollars:>12.4} {:>8} {peak:>7.1}",
        workload.pods.len(),
        plan.claims.len(),
        plan.pods_left_out(),
    );
}
