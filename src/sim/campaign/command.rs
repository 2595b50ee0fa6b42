//! `simulate`: carrying out what is asked for on its command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;

pub use super::args::Args;
use super::child::{Child, Trial};
use super::crashes::crash_everywhere;
use super::here::{self, Ended};
use super::line::{Line, Verdict};
use super::mutants::{Catch, HUNTS, catch_all};
use super::options::Ask;
use super::play;
use super::progress::Progress;
use super::regressions::Regression;
use super::sampling::{Limits, run};
use super::scratch::Scratch;
use super::shrink::shrink;
use crate::sim::faults::{FaultName, Injection, Plan};
use crate::sim::probes;
use crate::sim::signals::ending;

/// A run that takes longer has gone wrong: most take a second or two.
const PATIENCE: Duration = Duration::from_mins(3);
/// Where histories are kept that once failed.
const REGRESSIONS: &str = "tests/regressions";
/// The status of what a signal ended, as shells have it: this and the number of the signal.
const ENDED_BY: i32 = 128;
/// How many runs shrinking may take.
const SHRINK_RUNS_MAX: u64 = 300;

/// Does what is asked for: status 0 if all holds, 1 if not, 2 where nothing could be run, 130 at control-C, and likewise
/// at another signal that ends it.
pub fn main(args: &Args) -> ExitCode {
    let done = carry_out(args);
    done.unwrap_or_else(|error| {
        // A terminal that is gone cannot be told.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

fn carry_out(args: &Args) -> anyhow::Result<ExitCode> {
    if args.here {
        return here::perform(args);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let ending = ending().context("cannot listen for signals")?;
        tokio::select! {
            biased;
            // By then runs have ended with whoever waits for them, and files are gone.
            signal = ending => Ok(stop(args, signal)),
            done = work(args) => done,
        }
    })
}

/// Says what an interruption means.
fn stop(args: &Args, signal: i32) -> ExitCode {
    let means = match args.played_here() {
        Some(_) => "the run was ended before its verdict",
        None => "the runs under way were ended, their seeds are not counted",
    };
    // A terminal that is gone cannot be told.
    let _ = writeln!(std::io::stderr(), "interrupted: {means}");
    ExitCode::from(u8::try_from(ENDED_BY + signal).unwrap_or(u8::MAX))
}

async fn work(args: &Args) -> anyhow::Result<ExitCode> {
    let scratch = Scratch::new().context("cannot make a folder for temporary files")?;
    if args.played_here().is_some() {
        return match here::wait(scratch.path()).await? {
            Ended::Status(status) => Ok(status),
            Ended::Interrupted(signal) => Ok(stop(args, signal)),
        };
    }
    // Refuses what cannot be run before anything is started.
    play::cast(&args.ask(args.seeds.first))?;
    several(args, scratch.path()).await
}

async fn several(args: &Args, scratch: &Path) -> anyhow::Result<ExitCode> {
    let trial = Child {
        program: std::env::current_exe().context("cannot find this program")?,
        arguments: Vec::new(),
        patience: PATIENCE,
        scratch: scratch.to_owned(),
    };
    if args.mutants {
        return hunt(jobs(args.jobs), &trial).await;
    }
    if args.crashes {
        return crash(jobs(args.jobs), scratch, &trial).await;
    }
    if args.regressions {
        return regress(scratch, &trial).await;
    }
    match args.shrink {
        Some(seed) => shorten(args, &args.ask(seed), scratch, &trial).await,
        None => sample(args, scratch, &trial).await,
    }
}

async fn sample(args: &Args, scratch: &Path, trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let limits = Limits {
        jobs: jobs(args.jobs),
        within: args.within,
        at_least: args.at_least,
    };
    let mut progress = Progress::new(args.seeds.count(), args.within);
    let mut written = Ok(());
    let like = Ask {
        calm_plays: Some(scratch.to_owned()),
        ..args.ask(0)
    };
    let report = run(args.seeds, &like, &limits, trial, |line| {
        progress.step(line);
        if written.is_ok() {
            written = serde_json::to_string(line)
                .map_err(anyhow::Error::from)
                .and_then(|text| progress.aside(|| say(&text)));
        }
    })
    .await?;
    drop(progress);
    written?;
    let seeds = report.passed() + report.failed();
    let registered: Vec<&str> = probes::REGISTERED.iter().map(|(name, _)| *name).collect();
    let mut never = report.never_hit(&registered);
    let expected: Vec<&str> = FaultName::expected().map(FaultName::as_str).collect();
    never.extend(report.never_struck(&expected));
    let hole = args.must_show_all(seeds) && !never.is_empty();
    if !never.is_empty() {
        let weight = if hole {
            "and must have"
        } else {
            "though a campaign like this need not show them"
        };
        say(&format!("never happened, {weight}: {}\n", never.join(", ")))?;
    }
    say(&report.to_string())?;
    Ok(status(report.failed() == 0 && !hole))
}

async fn hunt(jobs: usize, trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let mut told = Ok(());
    let catches = catch_all(HUNTS, jobs, trial, |catch| {
        let line = describe(catch);
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| say(&line));
    })
    .await?;
    told?;
    let missed = catches.iter().filter(|catch| catch.line.is_none()).count();
    say(&format!(
        "{} mutants caught, {missed} missed",
        catches.len() - missed
    ))?;
    Ok(status(missed == 0))
}

fn describe(catch: &Catch) -> String {
    let (mutant, breaks, tried) = (catch.hunt.mutant, catch.hunt.breaks, catch.tried);
    match &catch.line {
        Some(Line { seed, breaches, .. }) => {
            let why = breaches.iter().find(|breach| breach.id == breaks);
            let why = why.map_or("", |breach| breach.message.as_str());
            format!("{mutant}: caught by {breaks} at seed {seed} ({tried} tried): {why}")
        }
        None => format!("{mutant}: not caught by {breaks} in {tried} seeds"),
    }
}

/// Tells stories with a crash after each effect; all of them must end well.
async fn crash(jobs: usize, scratch: &Path, trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let mut said = Ok(());
    let told = crash_everywhere(scratch, jobs, trial, |told| {
        let line = format!(
            "{} {}: {} effects",
            told.story.name,
            told.trouble.name(),
            told.effects
        );
        let lines = std::iter::once(&line).chain(&told.failures);
        for line in lines {
            said = std::mem::replace(&mut said, Ok(())).and_then(|()| say(line));
        }
    })
    .await?;
    said?;
    let effects: u64 = told.iter().map(|told| told.effects).sum();
    let failed: usize = told.iter().map(|told| told.failures.len()).sum();
    say(&format!(
        "{effects} effects, and an end of the leader after each; {failed} failed"
    ))?;
    Ok(status(failed == 0))
}

/// Plays what once failed; all of it must hold, and all that once went wrong must go wrong.
async fn regress(scratch: &Path, trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    let mut failed = 0;
    for (name, regression) in Regression::load_all(Path::new(REGRESSIONS))? {
        let line = regression.play(scratch, trial).await?;
        let missed = regression.missed(&line);
        failed += u64::from(line.verdict != Verdict::Ok || !missed.is_empty());
        let why = line.breaches.first().map_or("", |breach| breach.message.as_str());
        say(format!("{name}: {} {why}", line.verdict).trim_end())?;
        if !missed.is_empty() {
            say(&format!(
                "{name}: shows nothing, as {} struck nobody",
                missed.join(", ")
            ))?;
        }
    }
    Ok(status(failed == 0))
}

/// Runs shorter and shorter plans, and prints the shortest that still fails in the same way.
async fn shorten(args: &Args, ask: &Ask, scratch: &Path, trial: &dyn Trial) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.save {
        Regression::vacant(Path::new(REGRESSIONS), name)?;
    }
    let first = trial.run(ask).await?;
    if first.verdict == Verdict::Ok {
        say(&format!("seed {} does not fail: nothing to shrink", ask.seed))?;
        return Ok(ExitCode::FAILURE);
    }
    let cast = play::cast(ask)?;
    let file = scratch.join("shrunk.yaml");
    let with = Ask {
        plan: Some(file.clone()),
        scenario: Some(cast.scenario_name.clone()),
        ..ask.clone()
    };
    let fails = async |injections: &[Injection]| -> anyhow::Result<bool> {
        let plan = Plan {
            injections: injections.to_vec(),
        };
        std::fs::write(&file, serde_saphyr::to_string(&plan)?)?;
        Ok(trial.run(&with).await?.verdict.is_like(&first.verdict))
    };
    let shrunk = shrink(&cast.plan.injections, SHRINK_RUNS_MAX, fails).await?;
    let plan = Plan {
        injections: shrunk.kept,
    };
    say(&format!(
        "# seed {} of {}: {}, with {} of {} faults, after {} runs",
        ask.seed,
        cast.scenario_name,
        first.verdict,
        plan.injections.len(),
        cast.plan.injections.len(),
        shrunk.runs
    ))?;
    say(&serde_saphyr::to_string(&plan)?)?;
    if let Some(name) = &args.save {
        let regression = Regression {
            about: first
                .breaches
                .first()
                .map_or_else(String::new, |breach| breach.message.clone()),
            seed: ask.seed,
            scenario: cast.scenario_name,
            minutes: args.minutes,
            plan,
        };
        let file = regression.save(Path::new(REGRESSIONS), name)?;
        say(&format!("kept as {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn jobs(asked: Option<usize>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or(cores).max(1)
}

pub(super) fn status(holds: bool) -> ExitCode {
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

pub(super) fn say(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write the report")
}
