//! Deletes claims that have lived as long as `expireAfter` says, from their creation on. Forceful, as upstream: no budget
//! is asked. Their pods are planned for before they leave.
//!
//! The wall clock decides, and it may jump: after a jump nothing expires until it has agreed with the monotonic one for a
//! while, in which somebody can set it right.

use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::context::Context;
use super::events::{Kind, Story};
use super::removal::{self, Judged};
use crate::api::{NodeClaim, names};
use crate::clock::{Clock, between};
use crate::lifecycle::expiry::{expired, expires_at};
use crate::lifecycle::facts::Facts;

/// The longest time between two looks: claims are made meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Two clocks that are further apart than this have not just drifted.
const JUMP_MIN: Duration = Duration::from_mins(1);
/// How long after a jump nothing expires.
const CALM: Duration = Duration::from_mins(15);

/// Looks for claims whose time is over, for as long as this is polled.
pub async fn run(context: Context) {
    let mut steady = Steady::new(&context.clock);
    loop {
        let mut wait = LOOK_EVERY;
        if steady.is_trusted(&context.clock) {
            match expire(&context).await {
                Ok(next) => wait = next.min(LOOK_EVERY),
                Err(error) => tracing::warn!(%error, "no claim expires for now"),
            }
        }
        context.clock.sleep(wait.max(Duration::from_secs(1))).await;
    }
}

/// One look: deletes what has expired; how long until the next does.
async fn expire(context: &Context) -> kube::Result<Duration> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    let now = context.clock.now();
    for claim in expired(&claims, now) {
        let limit = claim.spec.expire_after.as_deref().unwrap_or_default();
        let story = Story {
            kind: Kind::Normal,
            reason: names::REASON_EXPIRED,
            action: "Delete",
            note: format!("it has lived for {limit}"),
            transition: String::new(),
        };
        if removal::delete_claim(context, claim, story).await? == Judged::Deleted {
            context.metrics.ended(names::REASON_EXPIRED);
        }
    }
    let next = claims
        .iter()
        .filter(|claim| !claim.is_deleting())
        .filter_map(expires_at)
        .filter(|at| *at > now)
        .min();
    Ok(next.map_or(LOOK_EVERY, |at| between(now, at)))
}

/// Whether the wall clock has agreed with the monotonic one.
struct Steady {
    wall: Timestamp,
    instant: Instant,
    trusted_from: Instant,
}

impl Steady {
    fn new(clock: &Clock) -> Self {
        Self {
            wall: clock.now(),
            instant: clock.instant(),
            trusted_from: clock.instant(),
        }
    }

    fn is_trusted(&mut self, clock: &Clock) -> bool {
        let (wall, instant) = (clock.now(), clock.instant());
        let passed = instant.saturating_duration_since(self.instant);
        let moved = between(self.wall, wall).max(between(wall, self.wall));
        // The clock of a demonstration runs faster than tokio's.
        let off = clock.real(moved).abs_diff(passed);
        (self.wall, self.instant) = (wall, instant);
        if off > JUMP_MIN {
            tracing::warn!(?off, "the wall clock has jumped: nothing expires for a while");
            self.trusted_from = instant + clock.real(CALM);
        }
        instant >= self.trusted_from
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_is_not_trusted_for_a_while() {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let mut steady = Steady::new(&clock);
        for _ in 0..100 {
            clock.sleep(LOOK_EVERY).await;
            assert!(steady.is_trusted(&clock));
        }
        for years in [10, 0] {
            clock.set_skew(SignedDuration::from_hours(24 * 365 * years));
            assert!(!steady.is_trusted(&clock), "{years}");
            clock.sleep(Duration::from_mins(14)).await;
            assert!(!steady.is_trusted(&clock));
            clock.sleep(Duration::from_mins(1)).await;
            assert!(steady.is_trusted(&clock));
        }
    }
}
