//! How often people could not be told of a pool. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// After 1, 2, 4, 8 and 16 seconds, so half a minute in all: an API server that restarts is back by then, and where nobody
/// may write events people must be able to read the status all the same.
const TRIES_MAX: u32 = 6;

/// The failures in a row of each pool, by its uid.
#[derive(Debug, Default)]
pub(super) struct Unheard(BTreeMap<String, u32>);

impl Unheard {
    /// Whether it is tried again after one more failure.
    pub(super) fn is_tried_again(&mut self, pool: &str) -> bool {
        let tries = self.0.entry(pool.to_owned()).or_default();
        *tries += 1;
        *tries < TRIES_MAX
    }

    /// It was told, or no more is tried.
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

    #[test]
    fn each_pool_has_so_many_tries_and_as_many_again_when_they_are_over() {
        let mut unheard = Unheard::default();
        for _ in 0..2 {
            let again = (0..TRIES_MAX).filter(|_| unheard.is_tried_again("a"));
            assert_eq!(again.count(), 5);
            assert!(!unheard.0.is_empty() && unheard.is_tried_again("b"));
            unheard.forget("a");
        }
        unheard.keep(&["b".to_owned()].into());
        assert_eq!(unheard.0.len(), 1);
    }
}
