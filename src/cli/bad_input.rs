//! How a command fails: bad input exits with 2 and a hint, anything else with 1.

use std::fmt;
use std::io;
use std::process::ExitCode;

use super::output;

/// Something the user wrote or set is wrong. The command has not touched anything.
#[derive(Debug)]
pub struct BadInput {
    problem: String,
    hint: Option<String>,
}

impl BadInput {
    /// `problem` names what is wrong, in lower case and without a full stop.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            hint: None,
        }
    }

    /// Adds what the user may do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for BadInput {}

/// What shells report for a program that a signal ended: this and the number of the signal.
const ENDED_BY: i32 = 128;

/// The user ended a command before it was done, by the signal of this number.
#[derive(Debug)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted before the end; nothing is left running")
    }
}

impl std::error::Error for Interrupted {}

/// Prints the error with its causes, and the hint where there is one; the exit status.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(Interrupted(signal)) = error.downcast_ref() {
        output::talk(error);
        return ExitCode::from(u8::try_from(ENDED_BY + signal).unwrap_or(u8::MAX));
    }
    output::talk(format_args!("error: {error:#}"));
    let Some(bad_input) = error.downcast_ref::<BadInput>() else {
        return ExitCode::FAILURE;
    };
    if let Some(hint) = &bad_input.hint {
        output::talk(format_args!("hint: {hint}"));
    }
    ExitCode::from(2)
}

/// Whoever reads our output has had enough (`| head`); that is not a failure.
fn broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
