//! `simulate`: what is asked for on its command line, and carrying it out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use tokio::runtime::Builder;

use super::child::{Child, Trial};
use super::crashes::crash_everywhere;
use super::here::{self, Ended};
use super::line::{Line, Verdict};
use super::mutants::{Catch, HUNTS, catch_all};
use super::options::{Ask, Faults, Seeds};
use super::play;
use super::progress::Progress;
use super::regressions::Regression;
use super::sampling::{Limits, run};
use super::scratch::Scratch;
use super::shrink::shrink;
use crate::sim::faults::{FaultName, Injection, Plan};
use crate::sim::probes;

/// A run that takes longer has gone wrong: most take a second or two.
const PATIENCE: Duration = Duration::from_mins(3);
/// From so many seeds on, a rare thing that never happened is a hole in the campaign and not bad luck.
const SEEDS_FOR_PROBES: u64 = 500;
/// The seed with which scenarios are told.
pub(super) const TOLD_WITH: u64 = 1;
/// Where histories are kept that once failed.
const REGRESSIONS: &str = "tests/regressions";
/// The status of what control-C ended, as shells have it.
const INTERRUPTED: u8 = 130;
/// How many runs shrinking may take.
const SHRINK_RUNS_MAX: u64 = 300;

/// Plays years of bad days: each seed a world of its own, always the same way.
#[derive(Debug, Parser)]
#[command(name = "simulate", version)]
pub struct Args {
    /// Seeds to run, as FIRST..END or one seed
    #[arg(long, default_value = "0..200", value_name = "RANGE")]
    pub seeds: Seeds,
    /// Scenario to play, by name or file; drawn by each seed if absent
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// How many seeds to run at a time
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Begin no more seeds after this time, such as 8m
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub within: Option<Duration>,
    /// Run so many seeds even if the time is up
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub at_least: u64,
    /// Tell the story of one seed in readable steps
    #[arg(long, value_name = "SEED", conflicts_with_all = ["shrink", "mutants", "seed"])]
    pub replay: Option<u64>,
    /// Find the fewest faults with which a failing seed still fails
    #[arg(long, value_name = "SEED", conflicts_with_all = ["mutants", "seed"])]
    pub shrink: Option<u64>,
    /// With --shrink: keep what is left under this name among the regressions
    #[arg(long, value_name = "NAME", requires = "shrink")]
    pub save: Option<String>,
    /// Play the regressions: histories that once failed
    #[arg(long, conflicts_with_all = ["replay", "shrink", "mutants", "seed"])]
    pub regressions: bool,
    /// Tell small stories with a crash after each of their effects
    #[arg(long, conflicts_with_all = ["replay", "shrink", "mutants", "regressions", "seed"])]
    pub crashes: bool,
    /// Show that every deliberately broken variant is caught
    #[arg(long, conflicts_with = "seed")]
    pub mutants: bool,
    /// Run this deliberately broken variant
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,
    /// Faults from this file in place of drawn ones
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Let nothing go wrong
    #[arg(long)]
    pub calm: bool,
    /// How long people do anything, in a scenario that is drawn
    #[arg(long, value_name = "N")]
    pub minutes: Option<u64>,
    /// Play a scenario without faults and print what is told in it: the same text every time
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replay", "shrink", "mutants", "regressions", "seed"])]
    pub transcript: Option<String>,
    /// With --transcript: draw it into this file, as SVG
    #[arg(long, value_name = "FILE", requires = "transcript")]
    pub picture: Option<PathBuf>,
    /// Keep in this folder what worlds come to without faults, for the seeds that share them
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub calm_plays: Option<PathBuf>,
    /// With --seed or --replay: print every entry of the history
    #[arg(long)]
    pub trace: bool,
    /// Run one seed and print what it came to as a line of JSON
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Play the one seed in this process, with nobody to wait for it
    #[arg(long, hide = true)]
    pub here: bool,
}

impl Args {
    /// The seed that this process itself plays, if it plays one: all its entropy must come from it.
    pub fn played_here(&self) -> Option<u64> {
        let told = self.transcript.as_ref().map(|_| TOLD_WITH);
        self.seed.or(self.replay).or(told)
    }

    pub(super) fn ask(&self, seed: u64) -> Ask {
        Ask {
            seed,
            scenario: self.scenario.clone(),
            mutant: self.mutant.clone(),
            plan: self.plan.clone(),
            faults: if self.calm { Faults::None } else { Faults::Drawn },
            lasts: self.minutes.map(Duration::from_mins),
            calm_plays: self.calm_plays.clone(),
        }
    }

    /// Whether so many seeds, however the campaign ended, must have met everything that is rare.
    fn must_show_all(&self, seeds: u64) -> bool {
        seeds >= SEEDS_FOR_PROBES && self.mutant.is_none() && self.scenario.is_none()
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let signed = text.parse::<jiff::SignedDuration>().ok();
    let duration = signed.and_then(|signed| Duration::try_from(signed).ok());
    duration.ok_or_else(|| format!("`{text}` is not a duration: write 90s, 8m or 1h30m"))
}

/// Does what is asked for: status 0 if all holds, 1 if not, 2 where nothing could be run, 130 if it is interrupted.
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
        tokio::select! {
            biased;
            // From here on. By then runs have ended with whoever waits for them, and files are gone.
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                stop(args)
            }
            done = work(args) => done,
        }
    })
}

/// Says what an interruption means.
fn stop(args: &Args) -> anyhow::Result<ExitCode> {
    let means = match args.played_here() {
        Some(_) => "the run was ended before its verdict",
        None => "the runs under way were ended, their seeds are not counted",
    };
    writeln!(std::io::stderr(), "interrupted: {means}")?;
    Ok(ExitCode::from(INTERRUPTED))
}

async fn work(args: &Args) -> anyhow::Result<ExitCode> {
    let scratch = Scratch::new().context("cannot make a folder for temporary files")?;
    if args.played_here().is_some() {
        return match here::wait(scratch.path()).await? {
            Ended::Status(status) => Ok(status),
            Ended::Interrupted => stop(args),
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
            "though so few seeds need not show them"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_that_its_time_ends_must_show_all_that_is_rare_from_five_hundred_seeds_on() {
        let campaign = [
            "simulate",
            "--seeds",
            "0..100000",
            "--for",
            "8m",
            "--at-least",
            "500",
        ];
        let args = Args::parse_from(campaign);
        assert!(args.must_show_all(args.at_least) && !args.must_show_all(args.at_least - 1));
        let mutant = Args::parse_from([&campaign[..], &["--mutant", "deaf"]].concat());
        assert!(!mutant.must_show_all(100_000), "it need not get far");
    }
}
