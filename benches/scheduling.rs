//! How long the scheduler takes, from typed objects in memory to the plan, and what the plan costs.
//!
//! `cargo bench --bench scheduling` prints a table; `-- --pods 1000` one line of it. `--kind` is `diverse`, `preferences`,
//! `ignored` (the same pods, whose preferences are not looked at), `ibm`, `existing` (diverse pods beside 1,000 nodes with
//! 10,000 pods on them, which no other scheduler is given), or one of those where no two pods are alike, to see what memory
//! they take: `kinds`, `teams`, `hopeless`, `jobs`. `--write FILE` writes the workload as JSON instead, so that another
//! scheduler can be measured with it; `--peer PROGRAM` lets that program solve it too and compares: see `hack/bench-peer`.
//! Without a peer, `--require 30` makes the exit status 1 unless every plan is made within a second and 100 MB, and the
//! largest workload takes at most 30 times as long as the smallest of its kind. Every plan is audited.
#![expect(clippy::print_stdout, reason = "a table is what this is for")]
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use karpenter_ibm::audit;
use karpenter_ibm::model::{PodSet, Snapshot};
use karpenter_ibm::money::Price;
use karpenter_ibm::scheduling::{Hands, Options, Plan, Preferences, solve};

#[path = "scheduling/race.rs"]
mod race;
#[path = "scheduling/workload.rs"]
mod workload;

use workload::Workload;

/// How often each is measured; the best counts.
const ROUNDS: usize = 3;
const SIZES: [usize; 9] = [1, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000];
const PREFERENCE_PODS: usize = 4000;
/// What is measured where bars are to hold and nothing else is asked for: the largest first, as the memory of the first
/// workload alone is exact.
const REQUIRED: [usize; 2] = [20_000, 1000];
/// What a plan for 20,000 pods may take, and any smaller one.
const SECONDS_MAX: f64 = 1.0;
const MEGABYTES_MAX: f64 = 100.0;

/// What pods are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Diverse,
    Preferences,
    Ignored,
    Ibm,
    Existing,
    Kinds,
    Teams,
    Hopeless,
    Jobs,
}

impl Kind {
    const ALL: [(&str, Self); 9] = [
        ("diverse", Self::Diverse),
        ("preferences", Self::Preferences),
        ("ignored", Self::Ignored),
        ("ibm", Self::Ibm),
        ("existing", Self::Existing),
        ("kinds", Self::Kinds),
        ("teams", Self::Teams),
        ("hopeless", Self::Hopeless),
        ("jobs", Self::Jobs),
    ];

    fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, kind)| *kind)
            .ok_or_else(|| format!("there is no kind {name}"))
    }

    fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    fn build(self, pods: usize) -> Workload {
        match self {
            Self::Diverse => workload::diverse(pods),
            Self::Preferences | Self::Ignored => workload::preferences(pods),
            Self::Ibm => workload::ibm(pods),
            Self::Existing => workload::existing(pods),
            Self::Kinds => workload::kinds(pods),
            Self::Teams => workload::teams(pods),
            Self::Hopeless => workload::hopeless(pods),
            Self::Jobs => workload::jobs(pods),
        }
    }

    fn options(self) -> Options {
        Options {
            preferences: if self == Self::Ignored {
                Preferences::Ignore
            } else {
                Preferences::Respect
            },
            // As the operator has it, and upstream's own workers.
            hands: Hands::Two,
            ..Options::default()
        }
    }
}

#[derive(Debug, Default)]
struct Arguments {
    /// What is measured; the whole table if empty.
    what: Vec<(Kind, usize)>,
    write: Option<String>,
    peer: Option<PathBuf>,
    json: bool,
    /// How many times faster than a peer; or without one, how many times longer the largest may take than the smallest.
    require: Option<f64>,
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments::default();
    let (mut kind, mut pods, mut preferences) = (Kind::default(), Vec::new(), false);
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            // What cargo itself says.
            "--bench" => {}
            "--pods" => {
                for number in value()?.split(',') {
                    pods.push(
                        number
                            .parse()
                            .map_err(|_| format!("{number} is no number of pods"))?,
                    );
                }
            }
            "--kind" => kind = Kind::parse(&value()?)?,
            "--preferences" => preferences = true,
            "--write" => read.write = Some(value()?),
            "--peer" => read.peer = Some(value()?.into()),
            "--json" => read.json = true,
            "--require" => {
                let ratio = value()?;
                read.require = Some(ratio.parse().map_err(|_| format!("{ratio} is no ratio"))?);
            }
            _ => return Err(format!("{argument} is not understood")),
        }
    }
    read.what = pods.into_iter().map(|pods| (kind, pods)).collect();
    if preferences {
        read.what.push((Kind::Preferences, PREFERENCE_PODS));
        read.what.push((Kind::Ignored, PREFERENCE_PODS));
    }
    Ok(read)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let arguments = arguments()?;
    let is_for_another = arguments.write.is_some() || arguments.peer.is_some();
    if is_for_another && arguments.what.iter().any(|(kind, _)| *kind == Kind::Existing) {
        return Err("existing nodes are not written down for another scheduler".to_owned());
    }
    if let (Some(file), Some((kind, pods))) = (&arguments.write, arguments.what.first()) {
        let json = workload::to_json(&kind.build(*pods)).to_string();
        std::fs::write(file, json).map_err(|error| format!("{file}: {error}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(peer) = &arguments.peer {
        return race::run(peer, &arguments);
    }
    println!(
        "{:<14} {:>7} {:>10} {:>8} {:>7} {:>12} {:>8} {:>7} {:>7}",
        "workload", "pods", "ms", "classes", "nodes", "dollars/h", "left out", "MB", "illegal"
    );
    let sizes: &[usize] = if arguments.require.is_some() {
        &REQUIRED
    } else {
        &SIZES
    };
    let diverse = sizes.iter().map(|pods| (Kind::Diverse, *pods));
    let preferences = [Kind::Preferences, Kind::Ignored].map(|kind| (kind, PREFERENCE_PODS));
    let ibm = [1000, 20_000].map(|pods| (Kind::Ibm, pods));
    let existing = [(Kind::Existing, 1000)];
    let all = diverse.chain(preferences).chain(ibm).chain(existing).collect();
    let what: Vec<(Kind, usize)> = if arguments.what.is_empty() {
        all
    } else {
        arguments.what
    };
    let rows: Vec<Row> = what.into_iter().map(|(kind, pods)| measure(kind, pods)).collect();
    let broken = arguments
        .require
        .map_or_else(Vec::new, |growth| broken(&rows, growth));
    for broken in &broken {
        println!("not held: {broken}");
    }
    let is_illegal = rows.iter().any(|row| row.illegal > 0);
    Ok(ExitCode::from(u8::from(is_illegal || !broken.is_empty())))
}

/// A line of the table.
struct Row {
    kind: Kind,
    pods: usize,
    seconds: f64,
    /// In MB, where the kernel tells it.
    memory: Option<f64>,
    illegal: usize,
}

/// What does not hold: time and memory of every plan, and how time grows from the smallest workload of a kind to the
/// largest.
fn broken(rows: &[Row], growth: f64) -> Vec<String> {
    let mut broken = Vec::new();
    for row in rows {
        let mut say = |what: String| broken.push(format!("{} {}: {what}", row.kind.name(), row.pods));
        if row.seconds >= SECONDS_MAX {
            say(format!("{:.2} s, not under {SECONDS_MAX}", row.seconds));
        }
        match row.memory {
            Some(memory) if memory < MEGABYTES_MAX => {}
            Some(memory) => say(format!("{memory:.0} MB, not under {MEGABYTES_MAX}")),
            None => say("nobody tells how much memory it needs".to_owned()),
        }
        let alike = || rows.iter().filter(|other| other.kind == row.kind);
        let (least, most) = (
            alike().min_by_key(|row| row.pods),
            alike().map(|row| row.pods).max(),
        );
        if let Some(least) = least.filter(|_| most == Some(row.pods)) {
            let times = row.seconds / least.seconds;
            if times > growth {
                say(format!(
                    "{times:.1} times as long as {}, not {growth}",
                    least.pods
                ));
            }
        }
    }
    broken
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
    solve(snapshot, options, &|| true);
    Some((memory("VmHWM")? - before).max(0.0))
}

fn snapshot(workload: &Workload) -> Snapshot {
    Snapshot {
        pools: [&workload.pool]
            .into_iter()
            .chain(&workload.others)
            .cloned()
            .collect(),
        nodes: workload.nodes.clone(),
        pending: PodSet::of(&workload.pods),
        bound: PodSet::of(&workload.bound),
        daemons: workload.daemons.clone(),
        ..Snapshot::default()
    }
}

/// The fastest of some rounds.
struct Best {
    seconds: f64,
    solve_seconds: f64,
    snapshot: Snapshot,
    plan: Plan,
}

/// Solves a workload so many times.
fn fastest(workload: &Workload, options: Options, rounds: usize) -> Best {
    let round = || {
        let begin = Instant::now();
        let snapshot = snapshot(workload);
        let solving = Instant::now();
        let plan = solve(&snapshot, options, &|| true);
        Best {
            seconds: begin.elapsed().as_secs_f64(),
            solve_seconds: solving.elapsed().as_secs_f64(),
            snapshot,
            plan,
        }
    };
    let mut best = round();
    for _ in 1..rounds {
        let next = round();
        if next.seconds < best.seconds {
            best = next;
        }
    }
    best
}

fn dollars(nanos: u64) -> f64 {
    Price::from_nanos(nanos).map_or(0.0, Price::usd)
}

/// Prints a line of the table.
fn measure(kind: Kind, pods: usize) -> Row {
    let (workload, options) = (kind.build(pods), kind.options());
    let memory = peak(&snapshot(&workload), options);
    let best = fastest(&workload, options, ROUNDS);
    let findings = audit::plan_under(options.min_values, &best.snapshot, &best.plan);
    println!(
        "{:<14} {pods:>7} {:>10.2} {:>8} {:>7} {:>12.4} {:>8} {:>7.1} {:>7}",
        kind.name(),
        best.seconds * 1e3,
        best.snapshot.pending.classes.len(),
        best.plan.claims.len(),
        dollars(best.plan.price_nanos()),
        best.plan.pods_left_out(),
        memory.unwrap_or_default(),
        findings.len(),
    );
    for finding in findings.iter().take(5) {
        println!("    {finding}");
    }
    Row {
        kind,
        pods,
        seconds: best.seconds,
        memory,
        illegal: findings.len(),
    }
}
