//! Runs a range of seeds, several at a time, until the range or the time is used up.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::calm::is_calm;
use super::child::{Trial, TrialError};
use super::line::{Breach, Line, Verdict};
use super::options::{Ask, Seeds};
use crate::clock::Clock;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes at a time.
    pub jobs: usize,
    /// No seed is begun after so long, unless fewer than `at_least` were.
    pub within: Option<Duration>,
    /// So many seeds are run, however long it takes.
    pub at_least: u64,
}

/// Of so many seeds one is run twice, and must have the same history both times: FoundationDB repeats 5 % too.
const REPEATED_OF: u64 = 20;

/// What was done more often than without faults.
const MORE_THAN_CALM: &str = "R1";

/// Whether a seed is run twice: another of each twenty, so that whatever comes round in seeds, as the long quiet of each
/// tenth, is among them.
fn is_repeated(seed: u64) -> bool {
    seed % REPEATED_OF == (seed / REPEATED_OF) % REPEATED_OF
}

/// Runs `seeds`, each like `like`, and tells of each as it ends. It goes no further where nobody can be told.
pub async fn run(
    seeds: Seeds,
    like: &Ask,
    limits: &Limits,
    trial: &dyn Trial,
    mut each: impl FnMut(Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let clock = Clock::system();
    let started = clock.instant();
    let begin = |seed: &u64| {
        let in_time = limits.within.is_none_or(|within| started.elapsed() < within);
        // A campaign of no seeds would show nothing.
        in_time || seed - seeds.first < limits.at_least.max(1)
    };
    let mut lines = stream::iter((seeds.first..seeds.end).take_while(begin))
        .map(|seed| {
            let ask = Ask { seed, ..like.clone() };
            async move { judge(&ask, trial).await }
        })
        .buffer_unordered(limits.jobs.max(1));
    while let Some(line) = lines.try_next().await? {
        each(line)?;
    }
    Ok(())
}

/// Runs a seed, some of them twice.
async fn judge(ask: &Ask, trial: &dyn Trial) -> Result<Line, TrialError> {
    let mut line = trial.run(ask).await?;
    if ask.calm_plays.is_some() && is_about_the_calm(&line) {
        // A failure must be one that replays by itself, against a calm play of its own.
        let alone = Ask {
            calm_plays: None,
            ..ask.clone()
        };
        line = trial.run(&alone).await?;
    }
    // One that broke down or took too long left no history.
    if is_repeated(ask.seed) && !line.trace.is_empty() {
        let again = trial.run(ask).await?;
        if again.trace != line.trace {
            let message = format!("two runs have the histories {} and {}", line.trace, again.trace);
            line.breaches.push(Breach {
                id: Verdict::Nondeterministic.to_string(),
                at_seconds: 0,
                message,
            });
            // What a seed fails by besides comes first.
            if line.verdict == Verdict::Ok {
                line.verdict = Verdict::Nondeterministic;
            }
        }
    }
    Ok(line)
}

/// Whether a seed fails by what the calm play of its world did, or in comparison with it.
fn is_about_the_calm(line: &Line) -> bool {
    let compared = line.verdict == Verdict::Safety(MORE_THAN_CALM.to_owned());
    compared || line.breaches.first().is_some_and(is_calm)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::sim::campaign::line::tests::fine;
    use crate::sim::campaign::report::Report;
    use crate::sim::world::quiet;

    /// Fine seeds, but for what `change` makes of the n-th run.
    struct Fake<F>(AtomicU64, F);

    #[async_trait]
    impl<F: Fn(u64, &mut Line) + Send + Sync> Trial for Fake<F> {
        async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
            let mut line = fine(ask.seed);
            (self.1)(self.0.fetch_add(1, Ordering::Relaxed), &mut line);
            Ok(line)
        }
    }

    const LIMITS: Limits = Limits {
        jobs: 2,
        within: None,
        at_least: 0,
    };

    async fn sample(limits: &Limits, change: impl Fn(u64, &mut Line) + Send + Sync) -> Report {
        let trial = Fake(AtomicU64::new(0), change);
        let seeds = Seeds { first: 0, end: 40 };
        report(seeds, &Ask::default(), limits, &trial).await
    }

    async fn report(seeds: Seeds, like: &Ask, limits: &Limits, trial: &dyn Trial) -> Report {
        let mut report = Report::default();
        let each = |line| {
            report.add(line);
            Ok(())
        };
        run(seeds, like, limits, trial, each).await.unwrap();
        report
    }

    #[tokio::test]
    async fn where_nobody_listens_any_more_no_other_seed_is_told_of() {
        let trial = Fake(AtomicU64::new(0), |_, _: &mut Line| ());
        let mut told = 0;
        let each = |_| {
            told += 1;
            anyhow::bail!("nobody is there")
        };
        let seeds = Seeds { first: 1, end: 1000 };
        let ended = run(seeds, &Ask::default(), &LIMITS, &trial, each).await;
        assert_eq!(ended.unwrap_err().to_string(), "nobody is there");
        assert_eq!(told, 1);
        assert!(trial.0.load(Ordering::Relaxed) < 10);
    }

    #[tokio::test]
    async fn every_seed_of_the_range_is_run() {
        let report = sample(&LIMITS, |_, _| ()).await;
        assert_eq!((report.passed(), report.failed()), (40, 0));
    }

    #[tokio::test]
    async fn one_seed_of_twenty_is_run_twice() {
        let trial = Fake(AtomicU64::new(0), |_, _: &mut Line| ());
        let seeds = Seeds { first: 100, end: 300 };
        let report = report(seeds, &Ask::default(), &LIMITS, &trial).await;
        assert_eq!(report.passed(), 200);
        assert_eq!(trial.0.load(Ordering::Relaxed), 200 + 10);
    }

    #[test]
    fn those_that_are_run_twice_are_of_every_kind() {
        let repeated: Vec<u64> = (0..REPEATED_OF * REPEATED_OF)
            .filter(|seed| is_repeated(*seed))
            .collect();
        assert_eq!(repeated[..3], [0, 21, 42]);
        let kinds: BTreeSet<u64> = repeated.iter().map(|seed| seed % REPEATED_OF).collect();
        assert_eq!(kinds.len(), repeated.len());
        let usual = quiet(0);
        let long = repeated.iter().filter(|seed| quiet(**seed) > usual);
        assert_eq!(long.count(), 2);
    }

    #[tokio::test]
    async fn a_seed_with_two_histories_fails() {
        let report = sample(&LIMITS, |run, line| line.trace = run.to_string()).await;
        assert_eq!(report.failed(), 2, "seeds 0 and 21 are run twice");
        assert!(report.to_string().contains("nondeterministic"));
    }

    #[tokio::test]
    async fn a_seed_that_fails_is_run_twice_too_if_it_left_a_history() {
        let fails = |run: u64, line: &mut Line| {
            line.trace = run.to_string();
            line.verdict = Verdict::Safety("S1".to_owned());
        };
        let line = judge(&Ask::default(), &Fake(AtomicU64::new(0), fails))
            .await
            .unwrap();
        assert_eq!(line.verdict, Verdict::Safety("S1".to_owned()));
        assert_eq!(line.breaches.last().unwrap().id, "nondeterministic");
        let breaks = |_: u64, line: &mut Line| {
            line.trace = String::new();
            line.verdict = Verdict::Crash;
        };
        let trial = Fake(AtomicU64::new(0), breaks);
        judge(&Ask::default(), &trial).await.unwrap();
        assert_eq!(trial.0.load(Ordering::Relaxed), 1);
    }

    /// Did more than without faults, in comparison with the calm play of another seed.
    struct Shared;

    #[async_trait]
    impl Trial for Shared {
        async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
            let mut line = fine(ask.seed);
            if ask.calm_plays.is_some() || ask.seed == 7 {
                line.verdict = Verdict::Safety(MORE_THAN_CALM.to_owned());
            }
            Ok(line)
        }
    }

    #[tokio::test]
    async fn a_comparison_with_the_calm_play_of_another_seed_is_made_again_with_its_own() {
        let like = Ask {
            calm_plays: Some("kept".into()),
            ..Ask::default()
        };
        let seeds = Seeds { first: 1, end: 10 };
        let report = report(seeds, &like, &LIMITS, &Shared).await;
        assert_eq!((report.passed(), report.failed()), (8, 1));
    }

    #[test]
    fn what_went_wrong_in_the_calm_play_of_another_seed_is_looked_at_again_too() {
        let mut line = fine(1);
        for (message, again) in [
            ("without faults: pod a still waits", true),
            ("pod a still waits", false),
        ] {
            line.breaches = vec![Breach {
                id: "L1".to_owned(),
                at_seconds: 1,
                message: message.to_owned(),
            }];
            assert_eq!(is_about_the_calm(&line), again, "{message}");
        }
    }

    #[tokio::test]
    async fn no_seed_is_begun_after_the_time_but_for_the_least_number() {
        let limits = Limits {
            within: Some(Duration::ZERO),
            at_least: 7,
            ..LIMITS
        };
        assert_eq!(sample(&limits, |_, _| ()).await.passed(), 7);
        let none = Limits {
            at_least: 0,
            ..limits
        };
        assert_eq!(sample(&none, |_, _| ()).await.passed(), 1, "at least one");
    }
}
