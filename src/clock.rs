//! Time, as an argument: decisions take a [`Timestamp`], effects take a [`Clock`].
//!
//! Two readings. *Monotonic* ([`Clock::instant`], tokio's) measures durations, TTLs and lease expiry. *Wall*
//! ([`Clock::now`]) is for stored timestamps, cron and credentials only: it may jump.
//! With tokio paused both stand still and move together, which is what makes a simulated day take a second.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The two readings of time, and a sleep that follows them. Clones share the same skew.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wall: Wall,
    skew_nanos: AtomicI64,
}

#[derive(Clone, Debug)]
enum Wall {
    System,
    Simulated {
        epoch: Timestamp,
        started: Instant,
        speed: f64,
    },
}

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self::of(Wall::System)
    }

    /// A wall clock that reads `epoch` now and then follows tokio's time.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self::simulated_at_speed(epoch, 1.0)
    }

    /// Like [`Clock::simulated`], but `speed` simulated seconds pass in each second of tokio's time.
    pub fn simulated_at_speed(epoch: Timestamp, speed: f64) -> Self {
        Self::of(Wall::Simulated {
            epoch,
            started: Instant::now(),
            speed,
        })
    }

    /// Another clock that shows the right time as this one does, and may be wrong in its own way: that of another
    /// machine.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::of(self.0.wall.clone())
    }

    fn of(wall: Wall) -> Self {
        Self(Arc::new(Inner {
            wall,
            skew_nanos: AtomicI64::new(0),
        }))
    }

    /// The wall clock. Never use it to measure a duration.
    pub fn now(&self) -> Timestamp {
        let base = match &self.0.wall {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one place that reads the system's wall clock"
            )]
            Wall::System => Timestamp::now(),
            Wall::Simulated {
                epoch,
                started,
                speed,
            } => later(*epoch, started.elapsed().mul_f64(*speed)),
        };
        let skew = SignedDuration::from_nanos(self.0.skew_nanos.load(Ordering::Relaxed));
        base.checked_add(skew).unwrap_or(base)
    }

    /// The monotonic clock.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Sleeps for `duration` of this clock's own time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(self.real(duration)).await;
    }

    /// How long `duration` of this clock's time takes on tokio's.
    pub fn real(&self, duration: Duration) -> Duration {
        match self.0.wall {
            Wall::System => duration,
            Wall::Simulated { speed, .. } => duration.div_f64(speed),
        }
    }

    /// How much of this clock's time passes in `real` of tokio's.
    pub fn own(&self, real: Duration) -> Duration {
        match self.0.wall {
            Wall::System => real,
            Wall::Simulated { speed, .. } => real.mul_f64(speed),
        }
    }

    /// Makes the wall clock lie by `skew`, in every clone; the monotonic one is untouched.
    pub fn set_skew(&self, skew: SignedDuration) {
        let nanos = i64::try_from(skew.as_nanos()).unwrap_or(i64::MAX);
        self.0.skew_nanos.store(nanos, Ordering::Relaxed);
    }
}

/// `at + by`, saturating at the end of representable time instead of failing.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The time that is `by` before `at`, or the first that there is.
pub fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_sub(by).ok())
        .unwrap_or(Timestamp::MIN)
}

/// The time from `earlier` to `later`, zero if it is the other way round.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch() -> Timestamp {
        "2026-11-16T00:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_follows_tokio_time() {
        let clock = Clock::simulated(epoch());
        clock.sleep(Duration::from_hours(24)).await;
        assert_eq!(clock.now().to_string(), "2026-11-17T00:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn another_clock_shows_the_same_and_is_wrong_in_its_own_way() {
        let clock = Clock::simulated(epoch());
        clock.sleep(Duration::from_hours(1)).await;
        let another = clock.another();
        assert_eq!(another.now(), clock.now());
        another.set_skew(SignedDuration::from_secs(60));
        assert_eq!(another.now().duration_since(clock.now()).as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn an_accelerated_clock_sleeps_its_own_time() {
        let clock = Clock::simulated_at_speed(epoch(), 60.0);
        let before = clock.instant();
        clock.sleep(Duration::from_mins(1)).await;
        assert_eq!(clock.now().to_string(), "2026-11-16T00:01:00Z");
        assert_eq!(clock.instant() - before, Duration::from_secs(1));
        assert_eq!(clock.own(clock.instant() - before), Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn skew_moves_the_wall_clock_of_every_clone_and_no_other_reading() {
        let clock = Clock::simulated(epoch());
        let (twin, before) = (clock.clone(), clock.instant());
        clock.set_skew(SignedDuration::from_mins(-5));
        assert_eq!(twin.now().to_string(), "2026-11-15T23:55:00Z");
        assert_eq!(clock.instant(), before);
    }

    #[test]
    fn time_arithmetic_saturates() {
        assert_eq!(later(epoch(), Duration::MAX), Timestamp::MAX);
        assert_eq!(
            between(later(epoch(), Duration::from_secs(1)), epoch()),
            Duration::ZERO
        );
    }
}
