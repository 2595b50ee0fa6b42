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
    /// Leaves objects out from now on, those that are out already no longer than was said.
    pub(super) fn add(&mut self, poisoned: &[Poisoned], now: Instant, clock: &Clock) {
        for it in poisoned {
            let (until, times) = self.0.entry(part::key(&it.object)).or_insert((now, 0));
            if *until > now {
                continue;
            }
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_out_and_reported_again_comes_back_when_it_was_to_and_is_then_out_for_longer() {
        let (mut quarantine, clock, began) = (Quarantine::default(), Clock::system(), Instant::now());
        let object = ObjectReference {
            kind: Some("NodeClaim".to_owned()),
            name: Some("c".to_owned()),
            ..ObjectReference::default()
        };
        let said = "poison".to_owned();
        let poisoned = [Poisoned { object, said }];
        for seconds in [0, 15, 30, 45] {
            quarantine.add(&poisoned, began + Duration::from_secs(seconds), &clock);
        }
        let after = FIRST + Duration::from_secs(1);
        assert_eq!(quarantine.at(began + FIRST / 2).len(), 1);
        assert_eq!(quarantine.at(began + after).len(), 0);
        quarantine.add(&poisoned, began + after, &clock);
        assert_eq!(quarantine.at(began + after + FIRST).len(), 1);
    }
}
