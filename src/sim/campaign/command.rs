//! `simulate`: carrying out what is asked for on its command line.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;

pub use super::args::Args;
use super::child::{Child, Trial};
use super::crashes::crash_everywhere;
use super::here::{self, Ended};
use super::hints::hint;
use super::line::{Line, Verdict};
use super::lines::Lines;
use super::mutants::{Catch, HUNTS, catch_all};
use super::options::Ask;
use super::play;
use super::progress::Progress;
use super::regressions::Regression;
use super::sampling::{Limits, run};
use super::scratch::Scratch;
use super::shorten::shorten;
use super::so_far::SoFar;
use crate::clock::Clock;
use crate::sim::faults::FaultName;
use crate::sim::probes;
use crate::sim::signals::ending;

/// A run that takes longer has gone wrong: most take a second or two.
const PATIENCE: Duration = Duration::from_mins(3);
/// Where histories are kept that once failed.
const REGRESSIONS: &str = "tests/regressions";
/// The status of what a signal ended, as shells have it: this and the number of the signal.
const ENDED_BY: i32 = 128;

/// Does what is asked for: status 0 if all holds, 1 if not, 2 where nothing could be run, 130 at control-C, and likewise
/// at another signal that ends it.
pub fn main(args: &Args) -> ExitCode {
    let done = carry_out(args);
    done.unwrap_or_else(|error| {
        // Whoever reads has had enough, as with `| head`: that is no failure.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        let hint = hint(&error).map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        // A terminal that is gone cannot be told.
        let _ = writeln!(std::io::stderr(), "error: {error:#}{hint}");
        ExitCode::from(2)
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn carry_out(args: &Args) -> anyhow::Result<ExitCode> {
    if args.here {
        return here::perform(args);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let so_far = SoFar::default();
    runtime.block_on(async {
        let ending = ending().context("cannot listen for signals")?;
        tokio::select! {
            biased;
            // By then runs have ended with whoever waits for them, and files are gone.
            signal = ending => Ok(stop(args, signal, &so_far)),
            done = work(args, &so_far) => done,
        }
    })
}

/// Says what an interruption means, and what is known by then.
fn stop(args: &Args, signal: i32, so_far: &SoFar) -> ExitCode {
    let means = match args.played_here() {
        Some(_) => "the run was ended before its verdict",
        None => "the runs under way were ended, their seeds are not counted",
    };
    // A terminal that is gone cannot be told.
    let _ = writeln!(std::io::stderr(), "interrupted: {means}");
    if let Some(page) = so_far.page() {
        let _ = say(&page);
    }
    ExitCode::from(u8::try_from(ENDED_BY + signal).unwrap_or(u8::MAX))
}

async fn work(args: &Args, so_far: &SoFar) -> anyhow::Result<ExitCode> {
    let scratch = Scratch::new().context("cannot make a folder for temporary files")?;
    if args.played_here().is_some() {
        return match here::wait(scratch.path()).await? {
            Ended::Status(status) => Ok(status),
            Ended::Interrupted(signal) => Ok(stop(args, signal, so_far)),
        };
    }
    // Refuses what cannot be run before anything is started.
    play::cast(&args.ask(args.seeds.first))?;
    several(args, scratch.path(), so_far).await
}

async fn several(args: &Args, scratch: &Path, so_far: &SoFar) -> anyhow::Result<ExitCode> {
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
        Some(seed) => {
            let folders = (scratch, Path::new(REGRESSIONS));
            shorten(args, &args.ask(seed), folders, &trial, so_far).await
        }
        None => sample(args, scratch, &trial, so_far).await,
    }
}

async fn sample(args: &Args, scratch: &Path, trial: &dyn Trial, so_far: &SoFar) -> anyhow::Result<ExitCode> {
    let limits = Limits {
        jobs: jobs(args.jobs),
        within: args.within,
        at_least: args.at_least,
    };
    let clock = Clock::system();
    let started = clock.instant();
    let mut lines = Lines::open(args.json.as_deref())?;
    let mut progress = Progress::new(args.seeds.count(), args.within);
    let like = Ask {
        calm_plays: Some(scratch.to_owned()),
        ..args.ask(0)
    };
    run(args.seeds, &like, &limits, trial, |line| {
        progress.step(&line);
        let written = progress.aside(|| lines.write(&line));
        so_far.add(line, started.elapsed());
        written
    })
    .await?;
    drop(progress);
    let report = so_far.report();
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
    let catches = catch_all(HUNTS, jobs, trial, |catch| say(&describe(catch))).await?;
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
    let told = crash_everywhere(scratch, jobs, trial, |told| {
        let line = format!(
            "{} {}: {} effects",
            told.story.name,
            told.trouble.name(),
            told.effects
        );
        std::iter::once(&line)
            .chain(&told.failures)
            .try_for_each(|line| say(line))
    })
    .await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_read_enough_hears_of_no_failure() {
        let write = |kind: io::ErrorKind| {
            anyhow::Error::from(io::Error::from(kind)).context("cannot write the report")
        };
        assert!(is_broken_pipe(&write(io::ErrorKind::BrokenPipe)));
        assert!(!is_broken_pipe(&write(io::ErrorKind::StorageFull)));
    }
}
