//! Shows that the world notices: every deliberately broken variant must be caught within so many seeds.
//!
//! The seed that caught a mutant is recorded, and tried first; only when it no longer catches is the search begun anew.

use futures::{StreamExt, TryStreamExt, stream};

use super::child::{Trial, TrialError};
use super::line::{Line, Verdict};
use super::options::Ask;
use crate::sim::mutants::Mutant;

/// Each mutant must be caught within so many seeds.
const SEEDS_MAX: u64 = 200;

/// The seed that caught a mutant when it was last searched for.
pub(super) fn recorded(mutant: Mutant) -> Option<u64> {
    CAUGHT
        .iter()
        .find(|(known, _)| *known == mutant)
        .map(|(_, seed)| *seed)
}

/// Found by the search below; a mutant that is not here is searched for from seed 0 on.
const CAUGHT: &[(Mutant, u64)] = &[
    (Mutant::ErrorAsAbsence, 11),
    (Mutant::FirstPageOnly, 14),
    (Mutant::NoNameLookUp, 5),
    (Mutant::NoResourceVersion, 0),
    (Mutant::StaleList, 0),
    (Mutant::FinalizerFirst, 0),
    (Mutant::CreateTwiceAfterCrash, 0),
    (Mutant::IgnoredRetryAfter, 2),
    (Mutant::LimitsUnread, 24),
    (Mutant::AnyAddress, 0),
    (Mutant::TakenAsOrdered, 15),
    (Mutant::ClusterBlind, 0),
    (Mutant::RepeatedWrites, 0),
    (Mutant::RestlessTimes, 0),
    (Mutant::OneToken, 0),
    (Mutant::LeftoversUnseen, 13),
    (Mutant::Dawdling, 16),
    (Mutant::Crowding, 16),
    (Mutant::Doubled, 16),
    (Mutant::Startled, 160),
    (Mutant::RawDeletes, 16),
    (Mutant::WishesUnread, 16),
    (Mutant::PodsUnseen, 16),
    (Mutant::VolumesUnseen, 165),
    (Mutant::EndlessHolds, 160),
    (Mutant::Diarist, 16),
    (Mutant::Poisoned, 88),
    (Mutant::Deaf, 16),
    (Mutant::Talkative, 16),
    (Mutant::NeverStops, 161),
    (Mutant::NeverGone, 16),
    (Mutant::Unwrapped, 16),
];

/// How a mutant was caught, or that it was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Catch {
    /// The mutant.
    pub mutant: String,
    /// The run that caught it.
    pub line: Option<Line>,
    /// How many seeds were tried.
    pub tried: u64,
}

/// Hunts for each mutant, several at a time: at the recorded seed first, then from seed 0 on.
pub async fn catch_all(
    mutants: &[(&str, Option<u64>)],
    jobs: usize,
    trial: &dyn Trial,
    mut each: impl FnMut(&Catch),
) -> Result<Vec<Catch>, TrialError> {
    let mut catches = stream::iter(mutants)
        .map(|(mutant, recorded)| hunt(mutant, *recorded, trial))
        .buffered(jobs.max(1));
    let mut caught = Vec::new();
    while let Some(catch) = catches.try_next().await? {
        each(&catch);
        caught.push(catch);
    }
    Ok(caught)
}

async fn hunt(mutant: &str, recorded: Option<u64>, trial: &dyn Trial) -> Result<Catch, TrialError> {
    let mut tried = 0;
    for seed in recorded.into_iter().chain(0..SEEDS_MAX) {
        let ask = Ask {
            mutant: Some(mutant.to_owned()),
            ..Ask::seed(seed)
        };
        let line = trial.run(&ask).await?;
        tried += 1;
        if catches(&line.verdict) {
            return Ok(Catch {
                mutant: mutant.to_owned(),
                line: Some(line),
                tried,
            });
        }
    }
    Ok(Catch {
        mutant: mutant.to_owned(),
        line: None,
        tried,
    })
}

/// A mutant is caught by an invariant; a run that hangs or breaks says nothing about the world's eyes.
fn catches(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Safety(_) | Verdict::Liveness(_))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::sim::campaign::line::tests::fine;

    /// Catches at one seed.
    struct At(u64, Verdict);

    #[async_trait]
    impl Trial for At {
        async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
            let mut line = fine(ask.seed);
            if ask.seed == self.0 {
                line.verdict = self.1.clone();
            }
            Ok(line)
        }
    }

    async fn caught(recorded: Option<u64>, trial: At) -> Catch {
        let catches = catch_all(&[("no-name-look-up", recorded)], 2, &trial, |_| ()).await;
        catches.unwrap().remove(0)
    }

    fn safety() -> Verdict {
        Verdict::Safety("S1".to_owned())
    }

    #[tokio::test]
    async fn the_recorded_seed_is_tried_first() {
        assert_eq!(caught(Some(150), At(150, safety())).await.tried, 1);
    }

    #[tokio::test]
    async fn the_search_goes_on_when_the_recorded_seed_no_longer_catches() {
        let catch = caught(Some(150), At(3, safety())).await;
        assert_eq!(catch.tried, 5);
        assert_eq!(catch.line.unwrap().seed, 3);
    }

    #[tokio::test]
    async fn a_mutant_that_slips_through_is_told() {
        let catch = caught(None, At(SEEDS_MAX, safety())).await;
        assert_eq!(catch.line, None);
    }

    #[tokio::test]
    async fn a_run_that_breaks_catches_nothing() {
        assert_eq!(caught(None, At(3, Verdict::Crash)).await.line, None);
    }
}
