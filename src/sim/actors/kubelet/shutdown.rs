//! What becomes of pods when their machine is switched off and the kubelet was told to wait for them.
//!
//! First everything but critical pods gets its time, then the critical ones get theirs; each no longer than it asks
//! for itself. A kubelet that was not told so dies at once with its pods.

use std::time::Duration;

use jiff::Timestamp;

use super::settings::Settings;
use crate::clock::later;

/// From this priority on a pod is critical: `system-cluster-critical`.
const CRITICAL: i32 = 2_000_000_000;

/// Why a pod ended.
pub const REASON: &str = "Terminated";
/// What is said about it.
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// Why a pod is not taken any more.
pub const REJECTED_REASON: &str = "NodeShutdown";
/// What is said about that.
pub const REJECTED_MESSAGE: &str = "Pod was rejected as the node is shutting down.";

/// How much time pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    regular: Duration,
    critical: Duration,
}

/// A pod, as far as a shutdown cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its priority.
    pub priority: i32,
    /// How long it may take at most.
    pub grace: Duration,
    /// How long it does take.
    pub takes: Duration,
}

impl Grace {
    /// The time that a kubelet gives, if it gives any.
    pub fn of(settings: &Settings) -> Option<Self> {
        let critical = settings.shutdown_grace_critical;
        (!settings.shutdown_grace.is_zero()).then(|| Self {
            regular: settings.shutdown_grace.saturating_sub(critical),
            critical,
        })
    }

    /// When each pod is gone, in the order of `wishes`.
    pub fn ends(self, wishes: &[Wish], now: Timestamp) -> Vec<Timestamp> {
        let lasts = |wish: &Wish, most: Duration| wish.takes.min(wish.grace).min(most);
        let regular = wishes.iter().filter(|wish| wish.priority < CRITICAL);
        let first = regular
            .map(|wish| lasts(wish, self.regular))
            .max()
            .unwrap_or(Duration::ZERO);
        let ends = wishes.iter().map(|wish| {
            if wish.priority < CRITICAL {
                later(now, lasts(wish, self.regular))
            } else {
                later(now, first + lasts(wish, self.critical))
            }
        });
        ends.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::tests::settings;
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wish(priority: i32, grace: u64, takes: u64) -> Wish {
        Wish {
            priority,
            grace: seconds(grace),
            takes: seconds(takes),
        }
    }

    #[test]
    fn critical_pods_outlive_the_others_and_nobody_outlives_the_machine() {
        let mut settings = settings("");
        assert_eq!(Grace::of(&settings), None);
        (settings.shutdown_grace, settings.shutdown_grace_critical) = (seconds(25), seconds(10));
        let grace = Grace::of(&settings).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let wishes = [
            wish(0, 30, 1),
            wish(100, 30, 60),
            wish(0, 5, 60),
            wish(CRITICAL, 30, 2),
            wish(CRITICAL + 1000, 600, 600),
        ];
        let ends: Vec<i64> = grace
            .ends(&wishes, now)
            .iter()
            .map(|end| end.as_second())
            .collect();
        assert_eq!(ends, [1, 15, 5, 17, 25]);
        let alone = grace.ends(&[wish(CRITICAL, 30, 3)], now);
        assert_eq!(alone[0].as_second(), 3);
    }
}
