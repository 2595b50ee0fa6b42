//! One page about a campaign.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::columns::columns;
use super::line::{Breach, Line, Verdict};

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How long it took.
    pub real: Duration,
    verdicts: BTreeMap<Verdict, u64>,
    faults: BTreeMap<String, Tally>,
    probes: BTreeMap<String, Tally>,
    simulated_seconds: u64,
    requests: u64,
    effects: u64,
    slowest: Vec<(u64, u64)>,
    failing: Vec<Line>,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    times: u64,
    seeds: u64,
}

/// How many of the slowest seeds, and of the failing ones, are told of.
const NAMED: usize = 5;
/// Of how many more failing ones there is a line each: what is left of a page.
const LISTED: usize = 20;
/// What tells the story of a seed, before its number.
const REPLAY: &str = "cargo run --release --bin simulate -- --replay";

impl Report {
    /// Takes in what a seed came to.
    pub fn add(&mut self, line: Line) {
        *self.verdicts.entry(line.verdict.clone()).or_default() += 1;
        tally(&mut self.faults, &line.faults);
        tally(&mut self.probes, &line.probes);
        self.simulated_seconds += line.simulated_seconds;
        self.requests += line.requests;
        self.effects += line.effects;
        self.slowest.push((line.real_millis, line.seed));
        self.slowest
            .sort_by_key(|(millis, seed)| (u64::MAX - millis, *seed));
        self.slowest.truncate(NAMED);
        if line.verdict != Verdict::Ok {
            self.failing.push(line);
            self.failing.sort_by_key(|line| line.seed);
        }
    }

    /// Seeds in which everything held.
    pub fn passed(&self) -> u64 {
        self.verdicts.get(&Verdict::Ok).copied().unwrap_or(0)
    }

    /// The other seeds.
    pub fn failed(&self) -> u64 {
        self.verdicts.values().sum::<u64>() - self.passed()
    }

    /// The seeds that failed, in order.
    pub fn failing(&self) -> &[Line] {
        &self.failing
    }

    /// Those of `registered` that never happened.
    pub fn never_hit<'a>(&self, registered: &[&'a str]) -> Vec<&'a str> {
        let never = |name: &&&str| !self.probes.contains_key(**name);
        registered.iter().filter(never).copied().collect()
    }

    /// Those of these kinds of faults that never struck.
    pub fn never_struck<'a>(&self, drawn: &[&'a str]) -> Vec<&'a str> {
        let never = |name: &&&str| !self.faults.contains_key(**name);
        drawn.iter().filter(never).copied().collect()
    }
}

fn tally(into: &mut BTreeMap<String, Tally>, hits: &BTreeMap<String, u64>) {
    for (name, times) in hits.iter().filter(|(_, times)| **times > 0) {
        let tally = into.entry(name.clone()).or_default();
        tally.times += times;
        tally.seeds += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds = seeds(self.passed() + self.failed());
        let real = self.real.as_secs_f64();
        writeln!(
            f,
            "{seeds}, {} simulated hours, {} requests, {} effects in {real:.1} s",
            self.simulated_seconds / 3600,
            self.requests,
            self.effects
        )?;
        let verdicts = self
            .verdicts
            .iter()
            .map(|(verdict, count)| format!("{verdict} {count}"));
        writeln!(f, "verdicts: {}", listed(verdicts))?;
        let slowest = self
            .slowest
            .iter()
            .map(|(millis, seed)| format!("{seed} ({millis} ms)"));
        writeln!(f, "slowest seeds: {}", listed(slowest))?;
        table(f, "faults that struck", &self.faults)?;
        table(f, "rare things that happened", &self.probes)?;
        for line in self.failing.iter().take(NAMED) {
            writeln!(f, "\n{}", failure(line))?;
        }
        let rest = self.failing.get(NAMED..).unwrap_or_default();
        if !rest.is_empty() {
            writeln!(f, "\nand {} more", rest.len())?;
        }
        for line in rest.iter().take(LISTED) {
            writeln!(f, "  {}  # {}", replay(line), line.verdict)?;
        }
        if rest.len() > LISTED {
            writeln!(f, "  {} of them are not listed here", rest.len() - LISTED)?;
        }
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

fn table(f: &mut fmt::Formatter<'_>, title: &str, rows: &BTreeMap<String, Tally>) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}: how often, and in how many seeds")?;
    let entries: Vec<(&str, [u64; 2])> = rows
        .iter()
        .map(|(name, tally)| (name.as_str(), [tally.times, tally.seeds]))
        .collect();
    for line in columns(&entries) {
        writeln!(f, "{line}")?;
    }
    Ok(())
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// A failing seed, with the command that tells its story.
fn failure(line: &Line) -> String {
    let mut told = vec![format!("seed {}: {}", line.seed, line.verdict)];
    told.extend(wrongs(line));
    told.push(format!("  replay: {}", replay(line)));
    told.join("\n")
}

/// `1 seed`, `2 seeds`.
pub(super) fn seeds(count: u64) -> String {
    if count == 1 {
        "1 seed".to_owned()
    } else {
        format!("{count} seeds")
    }
}

/// What is said of a failing seed at once: its verdict, and the command that tells its story.
pub(super) fn failed_at(line: &Line) -> String {
    format!("seed {}: {}: {}", line.seed, line.verdict, replay(line))
}

/// What was violated in a failing seed, the first time of each, and what did not happen. Times are those of the story.
pub(super) fn wrongs(line: &Line) -> Vec<String> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    let mut firsts: Vec<&Breach> = Vec::new();
    for breach in &line.breaches {
        let times = times.entry(&breach.id).or_default();
        *times += 1;
        if *times == 1 {
            firsts.push(breach);
        }
    }
    let wrong = |breach: &&Breach| {
        let (minutes, seconds) = (breach.at_seconds / 60, breach.at_seconds % 60);
        let count = match times.get(breach.id.as_str()) {
            Some(&times) if times > 1 => format!(" (the first of {times})"),
            _ => String::new(),
        };
        format!(
            "  {minutes:>3}:{seconds:02}  {}: {}{count}",
            breach.id, breach.message
        )
    };
    let unmet = line.unmet.iter().take(NAMED);
    firsts
        .iter()
        .take(NAMED)
        .map(wrong)
        .chain(unmet.map(|step| format!("  did not happen: {step}")))
        .collect()
}

fn replay(line: &Line) -> String {
    replay_of(line.seed, &line.options)
}

/// The command that tells the story of a seed. What the seed drew, its scenario too, it draws again.
pub(super) fn replay_of(seed: u64, options: &[String]) -> String {
    let seed = seed.to_string();
    let options = options.iter().map(String::as_str);
    let arguments: Vec<&str> = [REPLAY, seed.as_str()].into_iter().chain(options).collect();
    arguments.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::line::tests::fine;
    use crate::sim::faults::FaultName;
    use crate::sim::probes;

    fn failing(seed: u64) -> Line {
        let breaches = vec![Breach {
            id: "S1".to_owned(),
            at_seconds: 61,
            message: "two machines for one claim".to_owned(),
        }];
        Line {
            verdict: Verdict::of(&breaches),
            breaches,
            mutant: Some("first-page-only".to_owned()),
            options: [
                "--mutant",
                "first-page-only",
                "--plan",
                "p.yaml",
                "--minutes",
                "2",
                "--calm",
            ]
            .map(str::to_owned)
            .into(),
            ..fine(seed)
        }
    }

    fn report(lines: impl IntoIterator<Item = Line>) -> Report {
        let mut report = Report::default();
        lines.into_iter().for_each(|line| report.add(line));
        report
    }

    #[test]
    fn the_last_line_counts_what_passed_and_what_failed() {
        let text = report([fine(1), failing(2), fine(3)]).to_string();
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed"));
    }

    #[test]
    fn a_failing_seed_prints_the_command_that_replays_it() {
        let text = report([failing(2)]).to_string();
        assert!(
            text.contains(
                "--bin simulate -- --replay 2 --mutant first-page-only --plan p.yaml --minutes 2 --calm"
            ),
            "{text}"
        );
        assert!(text.contains("two machines for one claim"));
    }

    #[test]
    fn of_each_invariant_the_first_violation_is_told_and_how_many_there_were() {
        let breach = |id: &str, at_seconds| Breach {
            id: id.to_owned(),
            at_seconds,
            message: format!("at {at_seconds}"),
        };
        let line = Line {
            breaches: vec![
                breach("S1", 61),
                breach("S1", 62),
                breach("L2", 63),
                breach("S1", 64),
            ],
            ..failing(2)
        };
        assert_eq!(
            wrongs(&line),
            ["    1:01  S1: at 61 (the first of 3)", "    1:03  L2: at 63"]
        );
    }

    #[test]
    fn one_seed_is_no_seeds() {
        assert!(report([fine(1)]).to_string().starts_with("1 seed, "));
    }

    #[test]
    fn what_people_expected_in_vain_is_told_of_a_failing_seed() {
        let mut line = failing(2);
        line.unmet = vec!["step 3 (line 9): expected 1 node ready within 60s".to_owned()];
        let text = report([line]).to_string();
        assert!(
            text.contains("\n  did not happen: step 3 (line 9): expected 1 node ready"),
            "{text}"
        );
    }

    #[test]
    fn every_failing_seed_of_a_page_has_its_command_and_the_others_are_counted() {
        let plain = |seed| Line {
            options: Vec::new(),
            ..failing(seed)
        };
        let few = report((1..=9).map(plain)).to_string();
        for seed in 1..=9 {
            let command = format!("cargo run --release --bin simulate -- --replay {seed}");
            let lines = few.lines().map(|line| line.trim_end_matches("  # safety:S1"));
            assert_eq!(lines.filter(|line| line.ends_with(&command)).count(), 1, "{few}");
        }
        assert!(
            few.contains("\nand 4 more\n") && !few.contains("not listed"),
            "{few}"
        );
        let many = report((0..200).map(plain)).to_string();
        assert!(
            many.contains("\nand 195 more\n") && many.contains("175 of them are not listed here"),
            "{many}"
        );
        assert_eq!(many.matches("--replay").count(), NAMED + LISTED);
        assert!(many.lines().all(|line| line.len() <= 100), "{many}");
    }

    #[test]
    fn a_registered_probe_that_was_never_hit_is_named() {
        let mut line = fine(1);
        line.probes = [("orphan swept".to_owned(), 2), ("two leaders".to_owned(), 0)].into();
        let report = report([line]);
        assert_eq!(
            report.never_hit(&["orphan swept", "two leaders"]),
            ["two leaders"]
        );
    }

    #[test]
    fn a_kind_of_fault_that_never_struck_is_named() {
        let mut line = fine(1);
        line.faults = [("k1-crash".to_owned(), 2), ("k13-pause".to_owned(), 0)].into();
        assert_eq!(
            report([line]).never_struck(&["k1-crash", "k13-pause"]),
            ["k13-pause"]
        );
    }

    /// A campaign in which everything happened that can.
    fn eventful() -> String {
        let faults = FaultName::expected().map(|name| name.as_str().to_owned());
        let probes = probes::REGISTERED.iter().map(|(name, _)| (*name).to_owned());
        let (faults, probes): (Vec<String>, Vec<String>) = (faults.collect(), probes.collect());
        let often = |names: &[String], seed: u64| {
            let numbered = names.iter().zip(1_u64..);
            numbered
                .map(|(name, number)| (name.clone(), number * seed))
                .collect()
        };
        let line = |seed| Line {
            faults: often(&faults, seed),
            probes: often(&probes, seed),
            ..fine(seed)
        };
        report((1..=540).map(line)).to_string()
    }

    #[test]
    fn all_that_can_happen_is_on_one_page() {
        let text = eventful();
        let lines: Vec<&str> = text.lines().collect();
        // As many as a printed page has.
        assert!(lines.len() <= 66, "{} lines\n{text}", lines.len());
        let widest = lines.iter().map(|line| line.len()).max();
        assert!(widest <= Some(100), "{widest:?}\n{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let names = FaultName::expected().map(FaultName::as_str);
        let names = names.chain(probes::REGISTERED.iter().map(|(name, _)| *name));
        for name in names {
            assert_eq!(
                words.iter().filter(|word| **word == name).count(),
                1,
                "{name}\n{text}"
            );
        }
        assert_eq!(lines.last(), Some(&"540 passed, 0 failed"));
    }

    #[test]
    fn only_the_slowest_seeds_are_named() {
        let slow = |seed| Line {
            real_millis: seed * 10,
            ..fine(seed)
        };
        let text = report((1..=9).map(slow)).to_string();
        assert!(
            text.contains("slowest seeds: 9 (90 ms), 8 (80 ms), 7 (70 ms), 6 (60 ms), 5 (50 ms)\n"),
            "{text}"
        );
    }
}
