//! A seed in a process of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::Command;

use super::line::{Line, Verdict};
use super::options::Ask;

/// Runs one seed.
#[async_trait]
pub trait Trial: Send + Sync {
    /// What the seed comes to. A run that breaks or hangs is a verdict too; an error means that nothing can be run.
    async fn run(&self, ask: &Ask) -> Result<Line, TrialError>;
}

/// Nothing can be run.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The program cannot be started.
    #[error("cannot start {}", .0.display())]
    Start(PathBuf, #[source] std::io::Error),
    /// The program refuses what it was asked.
    #[error("{0}")]
    Refused(String),
}

/// Runs seeds in processes, which end with whoever waits for them.
#[derive(Clone, Debug)]
pub struct Child {
    /// The campaign runner itself.
    pub program: PathBuf,
    /// Arguments before those of the seed.
    pub arguments: Vec<OsString>,
    /// After how long a run is given up.
    pub patience: Duration,
    /// Where runs put files; what they leave there when they are ended goes with the folder.
    pub scratch: PathBuf,
}

/// What the exit status 2 means everywhere in this project: bad input, nothing was done.
const BAD_INPUT: i32 = 2;

#[async_trait]
impl Trial for Child {
    async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .args(ask.arguments())
            // A life of two seconds: to give memory back to the system and ask for it again costs a twentieth of it.
            .env("MIMALLOC_PURGE_DELAY", "-1")
            .env("TMPDIR", &self.scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| TrialError::Start(self.program.clone(), error))?;
        let Ok(output) = tokio::time::timeout(self.patience, child.wait_with_output()).await else {
            let message = format!("no end after {} s", self.patience.as_secs());
            return Ok(broken(ask, Verdict::Timeout, message));
        };
        let output = output.map_err(|error| TrialError::Start(self.program.clone(), error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(BAD_INPUT) {
            return Err(TrialError::Refused(said.trim().to_owned()));
        }
        let last = output
            .stdout
            .split(|byte| *byte == b'\n')
            .rfind(|line| !line.is_empty());
        match last.map(serde_json::from_slice) {
            Some(Ok(line)) => Ok(line),
            _ => Ok(broken(
                ask,
                Verdict::Crash,
                format!("{}: {}", output.status, tail(&said)),
            )),
        }
    }
}

/// The line of a run that wrote none itself.
fn broken(ask: &Ask, verdict: Verdict, message: String) -> Line {
    let breach = super::line::Breach {
        id: verdict.to_string(),
        at_seconds: 0,
        message,
    };
    Line {
        seed: ask.seed,
        scenario: ask.scenario.clone().unwrap_or_default(),
        mutant: ask.mutant.clone(),
        options: ask.options(),
        verdict,
        breaches: vec![breach],
        unmet: Vec::new(),
        deeds: BTreeMap::new(),
        faults: BTreeMap::new(),
        probes: BTreeMap::new(),
        requests: 0,
        effects: 0,
        simulated_seconds: 0,
        real_millis: 0,
        trace: String::new(),
    }
}

/// The last lines, where a panic says what it is.
fn tail(text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::line::tests::fine;

    /// A program that says `text` and ends with `status`.
    fn script(text: &str) -> Child {
        Child {
            program: "sh".into(),
            arguments: vec!["-c".into(), text.into()],
            patience: Duration::from_secs(20),
            scratch: std::env::temp_dir(),
        }
    }

    async fn line_of(child: Child) -> Line {
        child.run(&Ask::seed(7)).await.unwrap()
    }

    #[tokio::test]
    async fn the_last_line_is_the_verdict() {
        let json = serde_json::to_string(&fine(7)).unwrap();
        let line = line_of(script(&format!("echo talk; echo '{json}'"))).await;
        assert_eq!(line, fine(7));
    }

    #[tokio::test]
    async fn a_run_that_breaks_is_a_crash_that_says_why() {
        let line = line_of(script("echo 'thread main panicked at x' >&2; exit 101")).await;
        assert_eq!(line.verdict, Verdict::Crash);
        assert!(line.breaches[0].message.contains("panicked at x"));
    }

    #[tokio::test]
    async fn a_run_that_hangs_is_given_up() {
        let child = Child {
            patience: Duration::from_millis(50),
            ..script("exec sleep 20")
        };
        assert_eq!(line_of(child).await.verdict, Verdict::Timeout);
    }

    #[tokio::test]
    async fn bad_input_ends_the_campaign() {
        let refused = script("echo 'error: no such scenario' >&2; exit 2")
            .run(&Ask::seed(7))
            .await;
        assert_eq!(refused.unwrap_err().to_string(), "error: no such scenario");
    }
}
