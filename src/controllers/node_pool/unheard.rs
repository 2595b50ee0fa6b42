//! For how long people could not be told of a pool. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Since when telling people of a pool has failed, by its uid. Passes may follow each other however fast, since all sorts
/// of things change, so it is time that counts and not they.
#[derive(Debug, Default)]
pub(super) struct Unheard(BTreeMap<String, Instant>);

impl Unheard {
    /// For how long it has failed, one more failure included.
    pub(super) fn failing_for(&mut self, pool: &str, now: Instant) -> Duration {
        let first = *self.0.entry(pool.to_owned()).or_insert(now);
        now.saturating_duration_since(first)
    }

    /// There is nothing more to try.
    pub(super) fn forget(&mut self, pool: &str) {
        self.0.remove(pool);
    }

    /// Keeps only these pools.
    pub(super) fn keep(&mut self, pools: &BTreeSet<String>) {
        self.0.retain(|pool, _| pools.contains(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_pool_fails_since_its_first_failure_however_many_follow_until_nothing_is_tried() {
        let (mut unheard, begin) = (Unheard::default(), Instant::now());
        let failing_for = |unheard: &mut Unheard, pool: &str, second| {
            let now = begin + Duration::from_secs(second);
            unheard.failing_for(pool, now).as_secs()
        };
        for _ in 0..100 {
            assert_eq!(failing_for(&mut unheard, "a", 0), 0);
        }
        assert_eq!(failing_for(&mut unheard, "b", 9), 0);
        assert_eq!(failing_for(&mut unheard, "a", 31), 31);
        unheard.forget("a");
        assert_eq!(failing_for(&mut unheard, "a", 40), 0);
        unheard.keep(&["b".to_owned()].into());
        assert_eq!(failing_for(&mut unheard, "b", 40), 31);
        assert_eq!(failing_for(&mut unheard, "a", 50), 0);
    }
}
