//! For how long this process has followed each attempt to launch a machine, on the monotonic clock.
//!
//! The beginning of an attempt is in the claim, on the wall clock, which may jump: a clock that was put forward by an hour
//! made every machine on its way look overdue. What was also followed for so long is overdue indeed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::lifecycle::facts::Facts;

/// Since when each claim's present attempt has been followed, by the claim's uid. A restart forgets it.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<BTreeMap<String, (i64, Instant)>>);

impl Attempts {
    /// How long the claim's present attempt has been followed, from the first call on.
    pub(super) fn follow(&self, claim: &NodeClaim, now: Instant) -> Duration {
        let (Some(uid), Some(allocation)) = (&claim.metadata.uid, claim.allocation()) else {
            return Duration::ZERO;
        };
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = followed.entry(uid.clone()).or_insert((allocation.attempt, now));
        if entry.0 != allocation.attempt {
            *entry = (allocation.attempt, now);
        }
        now.saturating_duration_since(entry.1)
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

    fn claim(attempt: i64) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"allocation": {"profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot",
                "subnet": "s", "instanceName": "i", "attempt": attempt, "since": "2026-11-16T10:00:00Z"}},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_followed_from_when_it_was_first_seen_and_the_next_anew() {
        let attempts = Attempts::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(attempts.follow(&claim(1), start), Duration::ZERO);
        assert_eq!(attempts.follow(&claim(1), after(60)), Duration::from_secs(60));
        assert_eq!(attempts.follow(&claim(2), after(90)), Duration::ZERO);
        assert_eq!(attempts.follow(&claim(2), after(95)), Duration::from_secs(5));
        attempts.forget(&claim(2));
        assert_eq!(attempts.follow(&claim(2), after(99)), Duration::ZERO);
    }
}
