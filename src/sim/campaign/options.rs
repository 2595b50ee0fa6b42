//! What is to be run.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::here::HERE;

/// One seed to run, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Everything is drawn from it.
    pub seed: u64,
    /// The scenario by name or file; one is drawn if there is none.
    pub scenario: Option<String>,
    /// The deliberately broken variant that is to be run.
    pub mutant: Option<String>,
    /// These faults in place of drawn ones.
    pub plan: Option<PathBuf>,
    /// What goes wrong where no plan says so.
    pub faults: Faults,
    /// How long people do anything in a scenario that is drawn.
    pub lasts: Option<Duration>,
    /// Where it is kept what worlds come to without faults, for the seeds that share them.
    pub calm_plays: Option<PathBuf>,
}

/// What goes wrong where no plan says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// What the seed draws.
    #[default]
    Drawn,
    /// Nothing.
    None,
}

impl Ask {
    /// A seed as it comes.
    pub fn seed(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// As arguments of the campaign runner.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--seed".to_owned(), self.seed.to_string()];
        arguments.extend(self.options());
        if let Some(folder) = &self.calm_plays {
            arguments.extend(["--calm-plays".to_owned(), folder.display().to_string()]);
        }
        arguments.push(HERE.to_owned());
        arguments
    }

    /// What makes another seed go as this one would have, as arguments.
    pub fn options(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let plan = self.plan.as_ref().map(|path| path.display().to_string());
        let options = [
            ("--scenario", &self.scenario),
            ("--mutant", &self.mutant),
            ("--plan", &plan),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                arguments.extend([name.to_owned(), value.clone()]);
            }
        }
        if let Some(lasts) = self.lasts {
            arguments.extend(["--minutes".to_owned(), (lasts.as_secs() / 60).to_string()]);
        }
        if self.faults == Faults::None {
            arguments.push("--calm".to_owned());
        }
        arguments
    }
}

/// The seeds of a campaign, from the first to before the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
}

/// The text is not a range of seeds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of seeds: write FIRST..END, as in 0..2000, or one seed")]
pub struct NotARange(String);

impl FromStr for Seeds {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let wrong = || NotARange(text.to_owned());
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (first, end) = if let Some((first, end)) = text.split_once("..") {
            (number(first)?, number(end)?)
        } else {
            let seed = number(text)?;
            (seed, seed.checked_add(1).ok_or_else(wrong)?)
        };
        if first < end {
            Ok(Self { first, end })
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.end)
    }
}

impl Seeds {
    /// How many there are.
    pub fn count(self) -> u64 {
        self.end - self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_said_in_arguments() {
        let ask = Ask {
            seed: 7,
            scenario: Some("preemption".to_owned()),
            mutant: Some("stale-list".to_owned()),
            plan: Some("p.yaml".into()),
            faults: Faults::None,
            lasts: Some(Duration::from_mins(6)),
            calm_plays: Some("kept".into()),
        };
        let said = ask.arguments().join(" ");
        assert_eq!(
            said,
            "--seed 7 --scenario preemption --mutant stale-list --plan p.yaml --minutes 6 --calm --calm-plays kept \
             --here"
        );
        assert_eq!(Ask::seed(3).arguments().join(" "), "--seed 3 --here");
    }

    #[test]
    fn a_range_is_written_as_in_rust_and_one_seed_is_a_range_of_one() {
        let range = |first, end| Ok(Seeds { first, end });
        assert_eq!("0..2000".parse(), range(0, 2000));
        assert_eq!("7".parse(), range(7, 8));
    }

    #[test]
    fn what_is_no_range_is_refused_with_an_example() {
        for text in ["", "..", "5..5", "9..3", "a..b", "-1..4", "18446744073709551615"] {
            let refused = text.parse::<Seeds>().unwrap_err().to_string();
            assert!(refused.contains("0..2000"), "{refused}");
        }
    }
}
