//! What one seed came to, as one line of JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sim::invariants::Violation;

/// What one seed came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The seed.
    pub seed: u64,
    /// The scenario that was played.
    pub scenario: String,
    /// The deliberately broken variant that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// How it was asked for, beside the seed: arguments of the campaign runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What to think of it.
    pub verdict: Verdict,
    /// Everything that was violated, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<Breach>,
    /// What people expected in vain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// How often the operator did what to each kind of object, as `create instances`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deeds: BTreeMap<String, u64>,
    /// How often each fault struck.
    pub faults: BTreeMap<String, u64>,
    /// How often each rare thing happened.
    pub probes: BTreeMap<String, u64>,
    /// Requests at both edges of the operator.
    pub requests: u64,
    /// Writes of the operator that were carried out.
    pub effects: u64,
    /// Simulated seconds.
    pub simulated_seconds: u64,
    /// Real milliseconds.
    pub real_millis: u64,
    /// The hash of the whole history.
    pub trace: String,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// The invariant: `S1`.
    pub id: String,
    /// When, in simulated seconds since the start.
    pub at_seconds: u64,
    /// What happened.
    pub message: String,
}

impl From<&Violation> for Breach {
    fn from(violation: &Violation) -> Self {
        Self {
            id: violation.id.to_owned(),
            at_seconds: violation.at.as_secs(),
            message: violation.message.clone(),
        }
    }
}

/// What to think of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Everything held.
    Ok,
    /// An invariant of safety was violated.
    Safety(String),
    /// Something that must come to pass did not.
    Liveness(String),
    /// The run itself broke: a panic, or no answer.
    Crash,
    /// The same seed gave another history.
    Nondeterministic,
    /// It took too long.
    Timeout,
}

impl Verdict {
    /// Judges by the first violation: `S…` is safety, `L…` liveness, and so is what a story lacks, which is a word.
    pub fn of(breaches: &[Breach]) -> Self {
        let is_lack = |id: &str| id.starts_with('L') || id.starts_with(char::is_lowercase);
        match breaches.first() {
            None => Self::Ok,
            Some(breach) if is_lack(&breach.id) => Self::Liveness(breach.id.clone()),
            Some(breach) => Self::Safety(breach.id.clone()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Safety(id) => write!(f, "safety:{id}"),
            Self::Liveness(id) => write!(f, "liveness:{id}"),
            Self::Crash => f.write_str("crash"),
            Self::Nondeterministic => f.write_str("nondeterministic"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

/// The text is not a verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a verdict")]
pub struct NotAVerdict(String);

impl FromStr for Verdict {
    type Err = NotAVerdict;

    fn from_str(text: &str) -> Result<Self, NotAVerdict> {
        match text.split_once(':') {
            Some(("safety", id)) => Ok(Self::Safety(id.to_owned())),
            Some(("liveness", id)) => Ok(Self::Liveness(id.to_owned())),
            None if text == "ok" => Ok(Self::Ok),
            None if text == "crash" => Ok(Self::Crash),
            None if text == "nondeterministic" => Ok(Self::Nondeterministic),
            None if text == "timeout" => Ok(Self::Timeout),
            _ => Err(NotAVerdict(text.to_owned())),
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Verdict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run in which everything held.
    pub(in crate::sim::campaign) fn fine(seed: u64) -> Line {
        Line {
            seed,
            scenario: "calm".to_owned(),
            mutant: None,
            options: Vec::new(),
            verdict: Verdict::Ok,
            breaches: Vec::new(),
            unmet: Vec::new(),
            deeds: BTreeMap::new(),
            faults: BTreeMap::new(),
            probes: BTreeMap::new(),
            requests: 100,
            effects: 10,
            simulated_seconds: 3600,
            real_millis: 900,
            trace: format!("{seed:016x}"),
        }
    }

    #[test]
    fn a_verdict_is_written_as_one_word_and_read_back() {
        let verdicts = [
            Verdict::Ok,
            Verdict::Safety("S1".to_owned()),
            Verdict::Liveness("L3".to_owned()),
            Verdict::Crash,
            Verdict::Nondeterministic,
            Verdict::Timeout,
        ];
        for verdict in verdicts {
            assert_eq!(verdict.to_string().parse(), Ok(verdict));
        }
        assert!("fine".parse::<Verdict>().is_err());
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let line = fine(7);
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }

    #[test]
    fn the_first_violation_decides() {
        let breach = |id: &str| Breach {
            id: id.to_owned(),
            at_seconds: 1,
            message: String::new(),
        };
        let verdict = Verdict::of(&[breach("S1"), breach("L3")]);
        assert_eq!(verdict, Verdict::Safety("S1".to_owned()));
        for id in ["L3", "unmet"] {
            assert_eq!(Verdict::of(&[breach(id)]), Verdict::Liveness(id.to_owned()));
        }
    }
}
