//! What a world comes to without faults, played once for all the seeds that share it.
//!
//! Eight seeds in a row have the same people, machines and latencies, and differ in what goes wrong. So what the calm
//! play of one of them did serves the others too, and a campaign hardly ever plays a world twice.

use std::fs;
use std::path::Path;

use super::line::Breach;
use crate::sim::scenario::Scenario;
use crate::sim::world::Outcome;
use crate::sim::world::compare::unasked;
use crate::sim::world::effects::{Counts, Deed};

/// So many seeds in a row share a world.
const SHARED: u64 = 8;

/// The seed from which the world of `seed` is drawn: everything but what goes wrong.
pub(super) fn world_of(seed: u64) -> u64 {
    seed - seed % SHARED
}

/// How many worlds the seeds before this one's make.
pub(super) fn worlds_before(seed: u64) -> u64 {
    seed / SHARED
}

/// What a world comes to without faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calm {
    /// What was done, and how often.
    pub(super) counts: Counts,
    /// What went wrong all the same.
    pub(super) breaches: Vec<Breach>,
}

/// How it is said of a breach that it is the calm play's.
const OF_THE_CALM: &str = "without faults: ";

impl Calm {
    /// What came of the calm play of a scenario.
    pub(super) fn of(scenario: &Scenario, outcome: &Outcome) -> Self {
        let unasked = unasked(scenario, outcome);
        let violated = outcome.violations.iter().chain(&unasked).map(Breach::from);
        let lack = outcome.verdict.lack().map(|lack| Breach {
            id: lack.to_owned(),
            at_seconds: outcome.simulated.as_secs(),
            message: outcome.unmet.join("; "),
        });
        let breaches = violated.chain(lack).map(|breach| Breach {
            message: format!("{OF_THE_CALM}{}", breach.message),
            ..breach
        });
        Self {
            counts: outcome.counts.clone(),
            breaches: breaches.collect(),
        }
    }
}

/// Whether a breach is that of a calm play.
pub(super) fn is_calm(breach: &Breach) -> bool {
    breach.message.starts_with(OF_THE_CALM)
}

/// What the calm play of a seed's world came to: as kept in `folder` by an earlier seed, or as `play` says, which is then
/// kept for later ones.
pub(super) fn play<E>(
    folder: Option<&Path>,
    seed: u64,
    play: impl FnOnce() -> Result<Calm, E>,
) -> Result<Calm, E> {
    let file = folder.map(|folder| folder.join(format!("calm-{}.json", world_of(seed))));
    if let Some(kept) = file.as_deref().and_then(read) {
        return Ok(kept);
    }
    let calm = play()?;
    if let Some(file) = &file {
        keep(file, seed, &calm);
    }
    Ok(calm)
}

fn read(file: &Path) -> Option<Calm> {
    let text = fs::read(file).ok()?;
    let (deeds, breaches): (Vec<(Deed, u64)>, Vec<Breach>) = serde_json::from_slice(&text).ok()?;
    Some(Calm {
        counts: deeds.into_iter().collect(),
        breaches,
    })
}

/// Whole or not at all: another seed may be reading. One that cannot be kept is played again.
fn keep(file: &Path, seed: u64, calm: &Calm) {
    let deeds: Vec<(&Deed, &u64)> = calm.counts.iter().collect();
    let own = file.with_extension(format!("{seed}.new"));
    let written = serde_json::to_vec(&(deeds, &calm.breaches)).map(|text| fs::write(&own, text));
    if matches!(written, Ok(Ok(()))) {
        let _ = fs::rename(&own, file);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::sim::history::{History, Keep};
    use crate::sim::invariants::Violation;
    use crate::sim::probes::Probes;
    use crate::sim::world::Verdict;
    use crate::sim::world::churn::{self, Demand};
    use crate::sim::world::effects::Verb;

    fn bought(times: u64) -> Calm {
        let deed = Deed {
            kind: "instances".to_owned(),
            verb: Verb::Create,
            object: "claim-0".to_owned(),
        };
        let breach = Breach {
            id: "S1".to_owned(),
            at_seconds: times,
            message: "two".to_owned(),
        };
        Calm {
            counts: Counts::from([(deed, times)]),
            breaches: vec![breach],
        }
    }

    #[test]
    fn what_goes_wrong_or_does_not_happen_without_faults_is_said_of_the_calm_play() {
        let outcome = Outcome {
            verdict: Verdict::Unmet,
            violations: vec![Violation {
                id: "L3",
                at: Duration::from_secs(7),
                message: "claim a is still being deleted".to_owned(),
            }],
            unmet: vec!["no pod runs".to_owned()],
            probes: Probes::default(),
            faults: BTreeMap::new(),
            requests: 0,
            effects: 0,
            events: 0,
            simulated: Duration::from_secs(9),
            trace: 0,
            counts: bought(2).counts,
            sound: BTreeSet::new(),
            losses: BTreeMap::new(),
            history: History::new(Keep::All),
        };
        let calm = Calm::of(&churn::draw(0, &Demand::USUAL), &outcome);
        let said: Vec<(&str, u64, &str)> = calm
            .breaches
            .iter()
            .map(|breach| (breach.id.as_str(), breach.at_seconds, breach.message.as_str()))
            .collect();
        let expected = [
            ("L3", 7, "without faults: claim a is still being deleted"),
            ("unmet", 9, "without faults: no pod runs"),
        ];
        assert_eq!(said, expected);
        assert!(calm.breaches.iter().all(is_calm));
        assert!(!is_calm(&Breach::from(&outcome.violations[0])));
        assert_eq!(calm.counts, bought(2).counts);
    }

    #[test]
    fn seeds_that_share_a_world_play_it_once_without_faults() {
        let folder = std::env::temp_dir().join(format!("calm-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let ask = |seed, times| play::<()>(Some(&folder), seed, || Ok(bought(times))).unwrap();
        assert_eq!(ask(8, 3), bought(3));
        assert_eq!(ask(15, 4), bought(3), "kept by the first");
        assert_eq!(ask(16, 5), bought(5), "another world");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(ask(8, 6), bought(6), "nothing is kept any more");
        assert_eq!(play::<()>(None, 8, || Ok(bought(7))), Ok(bought(7)));
    }
}
