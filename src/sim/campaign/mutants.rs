//! Shows that the world notices: every deliberately broken variant must be caught within so many seeds, by the invariant
//! that it is made to break. Another one may blame it too; but then the first has gone blind, and that must be noticed.
//!
//! The seed that caught a mutant is recorded, and tried first; only when it no longer catches is the search begun anew.

use std::path::PathBuf;

use futures::{StreamExt, TryStreamExt, stream};

use super::child::{Trial, TrialError};
use super::line::Line;
use super::options::Ask;
use crate::sim::mutants::Mutant;

/// Each mutant must be caught within so many seeds.
const SEEDS_MAX: u64 = 200;
/// Those whose harm is that they do nothing. Any other that was caught has bought something: whoever is only in its own way
/// breaks every promise about what must come to pass, and shows nothing.
const IDLE: [Mutant; 3] = [Mutant::Dawdling, Mutant::Deaf, Mutant::Poisoned];
/// What whoever works has done, among the deeds of a run.
const WORK: &str = "create instances";
/// Where plans are kept for what seeds hardly ever draw.
const PLANS: &str = "tests/hunts";

/// A mutant, the invariant that it is made to break, and where that was last seen broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunt {
    /// Who is hunted.
    pub mutant: Mutant,
    /// By which invariant: `S1`.
    pub breaks: &'static str,
    /// The seed that is tried first.
    pub seed: u64,
    /// What goes wrong, by the name of its file among the plans; the seed draws it if absent.
    pub plan: Option<&'static str>,
}

const fn at(mutant: Mutant, breaks: &'static str, seed: u64) -> Hunt {
    Hunt {
        mutant,
        breaks,
        seed,
        plan: None,
    }
}

const fn with(mutant: Mutant, breaks: &'static str, plan: &'static str) -> Hunt {
    Hunt {
        mutant,
        breaks,
        seed: 0,
        plan: Some(plan),
    }
}

/// All hunts: each mutant at least once, each invariant too. Seeds are those that the search found last.
pub const HUNTS: &[Hunt] = &[
    at(Mutant::ErrorAsAbsence, "S3", 27),
    at(Mutant::FirstPageOnly, "L2", 18),
    at(Mutant::NoNameLookUp, "L11", 5),
    at(Mutant::NoResourceVersion, "S7", 3),
    at(Mutant::StaleList, "S3", 7),
    at(Mutant::FinalizerFirst, "S8", 0),
    with(Mutant::CreateTwiceAfterCrash, "S1", "dies-upon-an-order"),
    with(Mutant::OwnNames, "S12", "stands-still-upon-an-order"),
    at(Mutant::CreateTwiceAfterCrash, "S1", 8),
    at(Mutant::OwnNames, "S12", 8),
    at(Mutant::IgnoredRetryAfter, "S15", 6),
    at(Mutant::LimitsUnread, "S4", 24),
    at(Mutant::AnyAddress, "S17", 6),
    at(Mutant::TakenAsOrdered, "S21", 31),
    at(Mutant::ClusterBlind, "S2", 0),
    at(Mutant::RepeatedWrites, "S14", 0),
    at(Mutant::RestlessTimes, "S13", 0),
    at(Mutant::OneToken, "L10", 6),
    at(Mutant::LeftoversUnseen, "S18", 12),
    at(Mutant::Dawdling, "L1", 16),
    at(Mutant::Crowding, "A1", 16),
    at(Mutant::Doubled, "L11", 16),
    at(Mutant::Startled, "S20", 160),
    at(Mutant::RawDeletes, "S6", 16),
    at(Mutant::WishesUnread, "S7", 16),
    at(Mutant::PodsUnseen, "S9", 16),
    Hunt {
        seed: 161,
        ..with(Mutant::VolumesUnseen, "S9", "a-volume-that-stays-attached")
    },
    at(Mutant::EndlessHolds, "L8", 160),
    at(Mutant::Forgetful, "S11", 89),
    at(Mutant::Diarist, "L4", 16),
    at(Mutant::Poisoned, "L9", 88),
    at(Mutant::Deaf, "L7", 16),
    at(Mutant::Talkative, "S16", 16),
    at(Mutant::NeverStops, "L5", 161),
    at(Mutant::NeverGone, "L3", 16),
    at(Mutant::Unwrapped, "S20", 16),
    at(Mutant::AnyLeftover, "S2", 0),
    at(Mutant::CarelessEvictions, "S7", 16),
    at(Mutant::LateTaints, "S7", 16),
    at(Mutant::InFlightUnseen, "S4", 24),
    at(Mutant::Whispering, "S16", 0),
    at(Mutant::ForNobody, "L11", 16),
    at(Mutant::Discontent, "R1", 0),
    at(Mutant::Hushed, "S22", 161),
    at(Mutant::BreakersUnread, "S4", 40),
    at(Mutant::Contagious, "S3", 16),
    at(Mutant::Hasty, "S7", 18),
    at(Mutant::Belated, "L5", 161),
    with(Mutant::Impatient, "S1", "machines-deleted-as-they-start"),
    at(Mutant::Fickle, "S3", 0),
    at(Mutant::Ageless, "L6", 16),
];

impl Hunt {
    /// The seeds that are tried, in order.
    fn seeds(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.seed).chain(0..SEEDS_MAX)
    }

    fn ask(&self, seed: u64) -> Ask {
        let plan = self
            .plan
            .map(|name| PathBuf::from(PLANS).join(name).with_extension("yaml"));
        Ask {
            mutant: Some(self.mutant.name().to_owned()),
            plan,
            ..Ask::seed(seed)
        }
    }

    /// Whether a run shows it; one that hangs or breaks, or in which nothing was done, says nothing about the world's eyes.
    fn is_caught_by(&self, line: &Line) -> bool {
        let has_worked = line.deeds.contains_key(WORK) || IDLE.contains(&self.mutant);
        has_worked && line.breaches.iter().any(|breach| breach.id == self.breaks)
    }
}

/// How a mutant was caught, or that it was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Catch {
    /// What was hunted for.
    pub hunt: Hunt,
    /// The run that caught it.
    pub line: Option<Line>,
    /// How many seeds were tried.
    pub tried: u64,
}

/// Hunts, several at a time: at the recorded seed first, then from seed 0 on. It goes no further where nobody can be told.
pub async fn catch_all(
    hunts: &[Hunt],
    jobs: usize,
    trial: &dyn Trial,
    mut each: impl FnMut(&Catch) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Catch>> {
    let mut catches = stream::iter(hunts)
        .map(|hunt| catch(*hunt, trial))
        .buffered(jobs.max(1));
    let mut caught = Vec::new();
    while let Some(catch) = catches.try_next().await? {
        each(&catch)?;
        caught.push(catch);
    }
    Ok(caught)
}

async fn catch(hunt: Hunt, trial: &dyn Trial) -> Result<Catch, TrialError> {
    let mut tried = 0;
    for seed in hunt.seeds() {
        let line = trial.run(&hunt.ask(seed)).await?;
        tried += 1;
        if hunt.is_caught_by(&line) {
            let line = Some(line);
            return Ok(Catch { hunt, line, tried });
        }
    }
    Ok(Catch {
        hunt,
        line: None,
        tried,
    })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::sim::campaign::line::tests::fine;
    use crate::sim::campaign::line::{Breach, Verdict};
    use crate::sim::faults::Plan;

    /// Blames these at one seed, in this order.
    struct At(u64, &'static [&'static str]);

    #[async_trait]
    impl Trial for At {
        async fn run(&self, ask: &Ask) -> Result<Line, TrialError> {
            let mut line = fine(ask.seed);
            line.deeds.insert(WORK.to_owned(), 1);
            if ask.seed == self.0 {
                line.breaches = self.1.iter().map(|id| breach(id)).collect();
                line.verdict = Verdict::of(&line.breaches);
            }
            Ok(line)
        }
    }

    fn breach(id: &str) -> Breach {
        Breach {
            id: id.to_owned(),
            at_seconds: 1,
            message: String::new(),
        }
    }

    async fn caught(seed: u64, trial: At) -> Catch {
        let hunt = at(Mutant::NoNameLookUp, "S1", seed);
        let catches = catch_all(&[hunt], 2, &trial, |_| Ok(())).await;
        catches.unwrap().remove(0)
    }

    #[tokio::test]
    async fn the_recorded_seed_is_tried_first() {
        assert_eq!(caught(150, At(150, &["S1"])).await.tried, 1);
    }

    #[tokio::test]
    async fn the_search_goes_on_when_the_recorded_seed_no_longer_catches() {
        let catch = caught(150, At(3, &["S1"])).await;
        assert_eq!(catch.tried, 5);
        assert_eq!(catch.line.unwrap().seed, 3);
    }

    #[tokio::test]
    async fn a_mutant_that_slips_through_is_told() {
        assert_eq!(caught(0, At(SEEDS_MAX, &["S1"])).await.line, None);
    }

    #[tokio::test]
    async fn another_invariant_catches_nothing_and_the_right_one_need_not_be_the_first() {
        assert_eq!(caught(3, At(3, &["L2", "S11"])).await.line, None);
        assert_eq!(caught(3, At(3, &["L2", "S1"])).await.tried, 1);
    }

    #[test]
    fn whoever_did_nothing_is_not_caught_unless_that_is_its_harm() {
        let mut line = fine(0);
        line.breaches = vec![breach("L2")];
        let is_caught = |mutant, line: &Line| at(mutant, "L2", 0).is_caught_by(line);
        assert!(!is_caught(Mutant::NoResourceVersion, &line));
        assert!(is_caught(Mutant::Deaf, &line));
        line.deeds.insert(WORK.to_owned(), 1);
        assert!(is_caught(Mutant::NoResourceVersion, &line));
    }

    #[test]
    fn every_mutant_is_hunted_for_and_every_invariant_has_one() {
        for mutant in Mutant::ALL {
            assert!(HUNTS.iter().any(|hunt| hunt.mutant == mutant), "{mutant}");
        }
        for hunt in HUNTS {
            assert!(
                hunt.seed < SEEDS_MAX,
                "{}: beyond the seeds of the search",
                hunt.mutant
            );
        }
        // All but what belongs to voluntary disruption: S5, S10, S19, L12, and of L6 the half that is about drift.
        let safety =
            [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22].map(|it| format!("S{it}"));
        let liveness = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(|it| format!("L{it}"));
        // And the second look at plans, and the comparison with a calm play.
        let others = ["A1", "R1"].map(str::to_owned);
        for id in safety.iter().chain(&liveness).chain(&others) {
            assert!(HUNTS.iter().any(|hunt| hunt.breaks == id), "{id}");
        }
    }

    #[test]
    fn plans_for_hunts_can_be_read() {
        for plan in HUNTS.iter().filter_map(|hunt| hunt.ask(0).plan) {
            let text = std::fs::read_to_string(&plan).unwrap();
            let plan: Plan = serde_saphyr::from_str(&text).unwrap();
            assert!(!plan.injections.is_empty());
        }
    }
}
