//! What this process remembers of claims that go: since when it has known their Node's taint, since when their machine has
//! been stopping, and whose eviction was refused. All of it only makes it wait; a restart forgets it, which costs seconds.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::clock::{Clock, later};
use crate::drain::Refused;

/// A refusal is asked about again after a second, and then ever more patiently: a budget changes when a pod elsewhere has
/// become ready, which takes seconds.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(10);

/// By the claim's uid. On the monotonic clock, which does not jump.
#[derive(Debug, Default)]
pub(super) struct Departures(Mutex<BTreeMap<String, Departure>>);

#[derive(Debug, Default)]
struct Departure {
    tainted: Option<Instant>,
    stopping: Option<Instant>,
    /// How often in a row each pod was refused, and when it may be asked for again.
    refused: BTreeMap<String, (u32, Instant)>,
}

impl Departures {
    /// For how long the claim's Node has been known to be tainted, from the first call on.
    pub(super) fn tainted_for(&self, claim: &NodeClaim, now: Instant) -> Duration {
        self.with(claim, |departure| {
            now.saturating_duration_since(*departure.tainted.get_or_insert(now))
        })
    }

    /// For how long the claim's machine has been known to be stopping, from the first call on.
    pub(super) fn stopping_for(&self, claim: &NodeClaim, now: Instant) -> Duration {
        self.with(claim, |departure| {
            now.saturating_duration_since(*departure.stopping.get_or_insert(now))
        })
    }

    /// Whose eviction is not asked for before when, as a clock says it that reads `at` now.
    pub(super) fn refused(&self, claim: &NodeClaim, clock: &Clock, at: Timestamp) -> Refused {
        let now = clock.instant();
        let when = |again: Instant| later(at, clock.own(again.saturating_duration_since(now)));
        self.with(claim, |departure| {
            let refused = departure.refused.iter();
            refused
                .map(|(uid, (_, again))| (uid.clone(), when(*again)))
                .collect()
        })
    }

    /// The eviction of a pod was refused.
    pub(super) fn refuse(&self, claim: &NodeClaim, pod: &str, clock: &Clock) {
        let now = clock.instant();
        self.with(claim, |departure| {
            let (times, again) = departure.refused.entry(pod.to_owned()).or_insert((0, now));
            *again = now + clock.real(FIRST.saturating_mul(1 << (*times).min(10)).min(LAST));
            *times = times.saturating_add(1);
        });
    }

    /// The claim is gone.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn with<T>(&self, claim: &NodeClaim, then: impl FnOnce(&mut Departure) -> T) -> T {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let mut departures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        then(departures.entry(uid).or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_asked_about_ever_more_patiently() {
        let claim: NodeClaim = serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap();
        let (departures, epoch) = (Departures::default(), Timestamp::UNIX_EPOCH);
        let clock = Clock::simulated(epoch);
        let waits: Vec<i64> = (0..6)
            .map(|_| {
                departures.refuse(&claim, "p", &clock);
                departures.refused(&claim, &clock, epoch)["p"].as_second()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        clock.sleep(Duration::from_secs(4)).await;
        assert_eq!(departures.refused(&claim, &clock, epoch)["p"].as_second(), 6);
        let begin = Instant::now();
        assert_eq!(departures.tainted_for(&claim, begin), Duration::ZERO);
        let later = begin + Duration::from_secs(7);
        assert_eq!(departures.tainted_for(&claim, later).as_secs(), 7);
        assert_eq!(departures.stopping_for(&claim, later), Duration::ZERO);
        departures.forget(&claim);
        assert!(departures.refused(&claim, &clock, epoch).is_empty());
    }
}
