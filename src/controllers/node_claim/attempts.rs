//! For how long this process has followed each machine on its way, on the monotonic clock.
//!
//! What is in the claim does not tell: the intent may be old when the order is at last sent, and the wall clock may jump,
//! which once made every machine on its way look overdue.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::NodeClaim;
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
}
