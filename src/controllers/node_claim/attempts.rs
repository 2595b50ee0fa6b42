//! For how long this process has followed each machine on its way, on the monotonic clock, and what came of its last order.
//!
//! What is in the claim does not tell: the intent may be old when the order is at last sent, and the wall clock may jump,
//! which once made every machine on its way look overdue. What is remembered only makes us wait: a process that starts
//! sends one order more, which is refused.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::clock::Clock;
use crate::lifecycle::LastOrder;
use crate::lifecycle::facts::Facts;

/// Since when each claim's present attempt, with or without a machine, has been followed, by the claim's uid. A restart
/// forgets it.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<BTreeMap<String, Followed>>);

#[derive(Debug)]
struct Followed {
    attempt: i64,
    machine: Option<String>,
    since: Instant,
    order: Option<Unsettled>,
}

/// An order that settles nothing.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// It may have been carried out; answered, or given up, then.
    Unsure(Instant),
    /// It was refused because something has its name; what the cloud said.
    NameTaken(String),
}

impl Attempts {
    /// How long the claim's present attempt has been followed, from the first call on.
    pub(super) fn follow(&self, claim: &NodeClaim, now: Instant) -> Duration {
        let (Some(uid), Some(allocation)) = (&claim.metadata.uid, claim.allocation()) else {
            return Duration::ZERO;
        };
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = Followed {
            attempt: allocation.attempt,
            machine: allocation.instance_id.clone(),
            since: now,
            order: None,
        };
        match followed.get(uid) {
            Some(known) if (known.attempt, &known.machine) == (present.attempt, &present.machine) => {
                now.saturating_duration_since(known.since)
            }
            _ => {
                followed.insert(uid.clone(), present);
                Duration::ZERO
            }
        }
    }

    /// An order of the claim's present attempt was answered, or will not be.
    pub(super) fn ordered(&self, claim: &NodeClaim, left: Option<Unsettled>) {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        if let Some(attempt) = followed.get_mut(uid) {
            attempt.order = left;
        }
    }

    /// What came of the last order of the attempt that is followed.
    pub(super) fn last_order(&self, claim: &NodeClaim, clock: &Clock) -> LastOrder {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        match followed.get(uid).and_then(|attempt| attempt.order.as_ref()) {
            None => LastOrder::Settled,
            Some(Unsettled::Unsure(at)) => {
                let since = clock.instant().saturating_duration_since(*at);
                LastOrder::Unsure(clock.own(since))
            }
            Some(Unsettled::NameTaken(why)) => LastOrder::NameTaken(why.clone()),
        }
    }

    /// The claim is gone.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uid) = &claim.metadata.uid {
            followed.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn claim(attempt: i64, machine: Option<&str>) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": {"profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot",
                "subnet": "s", "instanceName": "i", "instanceID": machine, "attempt": attempt, "since": "2026-11-16T10:00:00Z"}},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_followed_from_when_it_was_first_known_and_the_next_anew() {
        let attempts = Attempts::default();
        let start = tokio::time::Instant::now();
        let follow = |attempt, machine, seconds| {
            let now = start + Duration::from_secs(seconds);
            attempts.follow(&claim(attempt, machine), now).as_secs()
        };
        assert_eq!(follow(1, None, 0), 0);
        assert_eq!(follow(1, None, 300), 300);
        assert_eq!(follow(1, Some("a"), 400), 0, "an order that was sent late");
        assert_eq!(follow(1, Some("a"), 460), 60);
        assert_eq!(follow(2, None, 500), 0);
        assert_eq!(follow(2, None, 505), 5);
        attempts.forget(&claim(2, None));
        assert_eq!(follow(2, None, 509), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_of_an_order_is_known_until_the_attempt_ends_or_has_its_machine() {
        let (attempts, clock) = (
            Attempts::default(),
            Clock::simulated_at_speed(Timestamp::UNIX_EPOCH, 10.0),
        );
        let last = |attempt, machine| {
            let claim = claim(attempt, machine);
            attempts.follow(&claim, clock.instant());
            attempts.last_order(&claim, &clock)
        };
        assert_eq!(last(1, None), LastOrder::Settled);
        attempts.ordered(&claim(1, None), Some(Unsettled::Unsure(clock.instant())));
        clock.sleep(Duration::from_secs(4)).await;
        assert_eq!(last(1, None), LastOrder::Unsure(Duration::from_secs(4)));
        let taken = || Unsettled::NameTaken("taken".to_owned());
        attempts.ordered(&claim(1, None), Some(taken()));
        assert_eq!(last(1, None), LastOrder::NameTaken("taken".to_owned()));
        assert_eq!(last(2, None), LastOrder::Settled, "other names");
        attempts.ordered(&claim(2, None), Some(taken()));
        assert_eq!(last(2, Some("a")), LastOrder::Settled, "found");
    }
}
