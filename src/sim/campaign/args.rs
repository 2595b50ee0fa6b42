//! What can be asked for on the command line of `simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::options::{Ask, Faults, Seeds};

/// From so many seeds on, a rare thing that never happened is a hole in the campaign and not bad luck.
const SEEDS_FOR_PROBES: u64 = 500;
/// People do things for so long at most, in minutes: a week, in which everything that comes round has come round many times.
pub(super) const MINUTES_MAX: u64 = 7 * 24 * 60;
/// The seed with which scenarios are told.
pub(super) const TOLD_WITH: u64 = 1;
/// What says which one seed is played: then there is no campaign.
const ONE: [&str; 4] = ["seed", "replay", "shrink", "transcript"];
/// What says which seeds are played, and how: what plays its own histories would not heed it.
const OWN: [&str; 13] = [
    "seed",
    "replay",
    "shrink",
    "transcript",
    "seeds",
    "within",
    "at_least",
    "scenario",
    "plan",
    "mutant",
    "calm",
    "minutes",
    "json",
];

/// Plays years of bad days: each seed a world of its own, always the same way.
///
/// Through a pipe a campaign prints a line of JSON for each seed, and then one page about all of them. On a terminal there
/// is a bar in place of the lines; `--json FILE` keeps them.
#[derive(Debug, Parser)]
#[command(name = "simulate", version)]
pub struct Args {
    /// Seeds to run, as FIRST..END or one seed
    #[arg(long, default_value = "0..200", value_name = "RANGE", conflicts_with_all = ONE)]
    pub seeds: Seeds,
    /// Scenario to play, by name or file; drawn by each seed if absent
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// How many seeds to run at a time
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub jobs: Option<usize>,
    /// Begin no more seeds after this time, such as 8m
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, conflicts_with_all = ONE)]
    pub within: Option<Duration>,
    /// Run so many seeds even if the time is up
    #[arg(long, default_value_t = 0, value_name = "N", conflicts_with_all = ONE)]
    pub at_least: u64,
    /// Write the line of JSON of each seed into this file, and print none
    #[arg(long, value_name = "FILE", conflicts_with_all = ONE)]
    pub json: Option<PathBuf>,
    /// Tell the story of one seed in readable steps
    #[arg(long, value_name = "SEED", conflicts_with_all = ["shrink", "mutants", "seed"])]
    pub replay: Option<u64>,
    /// Find the fewest faults with which a failing seed still fails
    #[arg(long, value_name = "SEED", conflicts_with_all = ["mutants", "seed"])]
    pub shrink: Option<u64>,
    /// With --shrink: keep what is left under this name among the regressions
    #[arg(long, value_name = "NAME", requires = "shrink", value_parser = plain_name)]
    pub save: Option<String>,
    /// Play the regressions: histories that once failed
    #[arg(long, conflicts_with_all = OWN, conflicts_with = "mutants")]
    pub regressions: bool,
    /// Tell small stories with a crash after each of their effects
    #[arg(long, conflicts_with_all = OWN, conflicts_with = "regressions")]
    pub crashes: bool,
    /// Show that every deliberately broken variant is caught
    #[arg(long, conflicts_with_all = OWN, conflicts_with = "crashes")]
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MINUTES_MAX))]
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
    pub(super) fn must_show_all(&self, seeds: u64) -> bool {
        let is_usual = self.mutant.is_none()
            && self.scenario.is_none()
            && self.plan.is_none()
            && self.minutes.is_none()
            && !self.calm;
        seeds >= SEEDS_FOR_PROBES && is_usual
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a number of seeds at a time: write 1 or more"))
}

fn plain_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if !text.is_empty() && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is not a name: write letters, digits and dashes"
        ))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let signed = text.parse::<jiff::SignedDuration>().ok();
    let duration = signed.and_then(|signed| Duration::try_from(signed).ok());
    duration.ok_or_else(|| format!("`{text}` is not a duration: write 90s, 8m or 1h30m"))
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
        let others: [&[&str]; 5] = [
            &["--mutant", "deaf"],
            &["--scenario", "demo"],
            &["--plan", "p.yaml"],
            &["--minutes", "2"],
            &["--calm"],
        ];
        for other in others {
            let args = Args::parse_from([&campaign[..], other].concat());
            assert!(!args.must_show_all(100_000), "{other:?}: it need not get far");
        }
    }

    fn refused(arguments: &[&str]) -> String {
        let all = [&["simulate"][..], arguments].concat();
        match Args::try_parse_from(all) {
            Err(refused) => refused.to_string(),
            Ok(args) => panic!("{arguments:?} is taken as {args:?}"),
        }
    }

    #[test]
    fn what_would_not_be_heeded_is_refused() {
        for own in ["--mutants", "--crashes", "--regressions"] {
            let others: [&[&str]; 9] = [
                &["--json", "lines.json"],
                &["--seeds", "0..3"],
                &["--for", "1m"],
                &["--at-least", "3"],
                &["--scenario", "demo"],
                &["--plan", "p.yaml"],
                &["--mutant", "deaf"],
                &["--minutes", "2"],
                &["--calm"],
            ];
            for other in others {
                let said = refused(&[&[own][..], other].concat());
                assert!(said.contains("cannot be used with"), "{said}");
            }
        }
        for one in ["--seed", "--replay", "--shrink"] {
            let said = refused(&[one, "5", "--seeds", "0..3"]);
            assert!(said.contains("cannot be used with"), "{said}");
        }
        let usual = ["simulate", "--seed", "5", "--scenario", "demo", "--calm"];
        assert_eq!(Args::parse_from(usual).seeds, Seeds { first: 0, end: 200 });
        assert!(Args::parse_from(["simulate", "--mutants", "--jobs", "2"]).mutants);
    }

    #[test]
    fn what_is_no_number_of_jobs_or_minutes_or_no_name_is_refused() {
        assert!(refused(&["--jobs", "0"]).contains("write 1 or more"));
        for wrong in ["", "../x", "a b", "x.yaml"] {
            let said = refused(&["--shrink", "1", "--save", wrong]);
            assert!(said.contains("letters, digits and dashes"), "{said}");
        }
        let forever = MINUTES_MAX + 1;
        for minutes in [forever, u64::MAX / 60 + 1, u64::MAX] {
            let said = refused(&["--seed", "1", "--minutes", &minutes.to_string()]);
            assert!(said.contains("is not in 0..=10080"), "{said}");
        }
        let named = Args::parse_from(["simulate", "--shrink", "1", "--save", "too-soon-2"]);
        assert_eq!(named.save.as_deref(), Some("too-soon-2"));
    }
}
