//! How long to wait after a failure: ever longer, jittered, for each claim by itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::entropy::Entropy;

const FIRST: Duration = Duration::from_secs(1);
/// A fault that lasts is asked about twice a minute: soon enough after it ends, seldom enough while it lasts.
const LAST: Duration = Duration::from_secs(30);

/// The failures in a row of each claim. Only pacing hangs on it, so a restart may forget it.
pub(in crate::controllers) struct Pace {
    failures: Mutex<BTreeMap<String, u32>>,
    entropy: Entropy,
}

impl Pace {
    pub(in crate::controllers) fn new(entropy: Entropy) -> Self {
        Self {
            failures: Mutex::default(),
            entropy,
        }
    }

    /// How long to wait after one more failure.
    pub(in crate::controllers) fn wait(&self, claim: &str) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(claim.to_owned()).or_default();
        let around = FIRST.saturating_mul(1 << (*count).min(10)).min(LAST);
        *count = count.saturating_add(1);
        self.entropy.jitter(around).min(LAST)
    }

    /// All is well with it again.
    pub(in crate::controllers) fn forget(&self, claim: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(claim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_half_a_minute_and_begin_anew_when_all_is_well() {
        let pace = Pace::new(Entropy::seeded(1));
        let waits: Vec<Duration> = (0..20).map(|_| pace.wait("a")).collect();
        assert!(waits[0] < Duration::from_secs(2), "{waits:?}");
        assert!(
            waits[19] >= LAST / 2 && waits.iter().all(|wait| *wait <= LAST),
            "{waits:?}"
        );
        assert!(
            pace.wait("b") < Duration::from_secs(2),
            "claims wait for themselves alone"
        );
        pace.forget("a");
        assert!(pace.wait("a") < Duration::from_secs(2));
    }
}
