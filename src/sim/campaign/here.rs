//! A seed that is played in this process itself, and how whoever asks for one waits for it.
//!
//! All chance of such a process comes from its seed, so nothing but the world may draw in it: no second runtime, and no
//! signal handler that needs one. Who asks for a seed on the command line therefore gets two processes: one that plays,
//! and one that waits for it, tells what an interruption means, and cleans up.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::process::Command;

use super::args::{Args, TOLD_WITH};
use super::command::{say, status};
use super::line::Verdict;
use super::options::Ask;
use super::play;
use super::report::wrongs;
use crate::clock::Clock;
use crate::sim::history::Keep;
use crate::sim::scenario::Scenario;
use crate::sim::scenario::transcript::transcript;
use crate::sim::signals::is_ending;
use crate::sim::world::recorder::Observer;
use crate::sim::world::{product, story};

/// What the process that plays is told beside what its parent was told.
pub(super) const HERE: &str = "--here";
/// How the process that plays ended.
pub(super) enum Ended {
    /// With this status.
    Status(ExitCode),
    /// By a signal of this number, which a terminal sends to both processes.
    Interrupted(i32),
}

/// Lets a process of its own do what this one was asked for, and waits. It ends with this; what it leaves is in `scratch`.
pub(super) async fn wait(scratch: &Path) -> anyhow::Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let arguments = std::env::args_os().skip(1).chain([OsString::from(HERE)]);
    let mut player = Command::new(&program)
        .args(arguments)
        .env("TMPDIR", scratch)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let ended = player.wait().await?;
    match (ended.code(), ended.signal()) {
        (Some(code), _) => Ok(Ended::Status(ExitCode::from(u8::try_from(code).unwrap_or(1)))),
        (None, Some(signal)) if is_ending(signal) => Ok(Ended::Interrupted(signal)),
        _ => anyhow::bail!("the run broke off: {ended}"),
    }
}

/// Plays what is asked for, in this process.
pub(super) fn perform(args: &Args) -> anyhow::Result<ExitCode> {
    match (args.seed, args.replay, &args.transcript) {
        (Some(seed), ..) => one(args, &args.ask(seed)),
        (_, Some(seed), _) => replay(args, &args.ask(seed)),
        (_, _, Some(name)) => tell(name, args.picture.as_deref()),
        _ => anyhow::bail!("{HERE} is for --seed, --replay and --transcript"),
    }
}

fn one(args: &Args, ask: &Ask) -> anyhow::Result<ExitCode> {
    let started = Clock::system().instant();
    let played = play::play(ask, Keep::Last(50), observers(args))?;
    let line = played.line(ask, started.elapsed());
    say(&serde_json::to_string(&line)?)?;
    Ok(status(line.verdict == Verdict::Ok))
}

fn replay(args: &Args, ask: &Ask) -> anyhow::Result<ExitCode> {
    let played = play::play(ask, Keep::All, observers(args))?;
    let outcome = &played.outcome;
    for line in story::tell_with(outcome.history.entries(), &outcome.violations) {
        say(&line)?;
    }
    let line = played.line(ask, Duration::ZERO);
    if line.verdict != Verdict::Ok {
        for wrong in wrongs(&line) {
            say(&wrong)?;
        }
    }
    say(&format!("verdict: {}", line.verdict))?;
    Ok(status(line.verdict == Verdict::Ok))
}

fn observers(args: &Args) -> Vec<Observer> {
    let print: Observer = Box::new(|entry| {
        // A reader that went away has seen enough.
        let _ = say(&entry.to_string());
    });
    if args.trace { vec![print] } else { Vec::new() }
}

fn tell(scenario: &str, picture: Option<&Path>) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(&play::file_of(scenario))?;
    let told = transcript(&scenario, TOLD_WITH, &product::product())?;
    write!(std::io::stdout(), "{}", told.text)?;
    if let Some(path) = picture {
        std::fs::write(path, told.picture.svg())?;
    }
    Ok(ExitCode::SUCCESS)
}
