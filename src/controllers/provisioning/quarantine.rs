//! Objects that no plan can be made with: they are left out for a while, ever longer, and nobody else waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::part;
use super::solve::Poisoned;
use crate::clock::Clock;

const FIRST: Duration = Duration::from_mins(1);
const LAST: Duration = Duration::from_hours(1);
/// Objects that are gone are forgotten when there are more than this.
const KEPT_MAX: usize = 1000;

/// What is left out, by its name (`part::key`). A restart forgets them, which costs one plan that fails.
#[derive(Debug, Default)]
pub(super) struct Quarantine(BTreeMap<String, (Instant, u32)>);

impl Quarantine {
    /// Leaves objects out from now on.
    pub(super) fn add(&mut self, poisoned: &[Poisoned], now: Instant, clock: &Clock) {
        for it in poisoned {
            let (until, times) = self.0.entry(part::key(&it.object)).or_insert((now, 0));
            let wait = FIRST.saturating_mul(1 << (*times).min(10)).min(LAST);
            *until = now + clock.real(wait);
            *times += 1;
        }
        if self.0.len() > KEPT_MAX {
            self.0.retain(|_, (until, _)| *until > now);
        }
    }

    /// What is left out at `now`.
    pub(super) fn at(&self, now: Instant) -> BTreeSet<String> {
        let out = self.0.iter().filter(|(_, (until, _))| *until > now);
        out.map(|(key, _)| key.clone()).collect()
    }
}
