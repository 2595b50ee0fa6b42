//! One budget of requests for the whole process, on our clock.
//!
//! Every request of every caller, retries included, takes a permit. A 429 closes the budget for everybody until the
//! server's `Retry-After`, because its limit is the account's and not the caller's.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use governor::clock::{Clock as GovernorClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use http::{Request, Response, StatusCode};
use tokio::time::Instant;

use super::{Exchange, ExchangeError, SendBy, retry_after};
use crate::clock::Clock;

/// What a caller waits for a permit before it is told to come back later. Longer than a normal burst takes to drain
/// (50 requests at 10 a second: 5 s), shorter than a controller's patience.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a 429 without a readable `Retry-After` closes the budget.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);

/// The shared budget. Clones draw from the same one.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<TokioInstant>>,
    closed_until: Mutex<Option<Instant>>,
    /// Whoever has it is next. It is given in the order of asking: without it, those who wait wake together and the
    /// same few may win each time, while an order behind them grows too old to be sent.
    next: tokio::sync::Mutex<()>,
}

impl Budget {
    /// `per_second` requests on average, at most `burst` at once.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        let limiter = RateLimiter::direct_with_clock(quota, TokioClock);
        Self(Arc::new(Inner {
            limiter,
            closed_until: Mutex::new(None),
            next: tokio::sync::Mutex::new(()),
        }))
    }

    /// Waits for a permit, behind whoever has waited longer; fails with the time at which to come back when that takes
    /// longer than [`PATIENCE`].
    async fn take(&self) -> Result<(), ExchangeError> {
        let give_up_at = Instant::now() + PATIENCE;
        let next = tokio::time::timeout_at(give_up_at, self.0.next.lock()).await;
        let _next = next.map_err(|_| ExchangeError::Held(give_up_at))?;
        loop {
            let now = Instant::now();
            let at = match self.closed_until() {
                Some(until) if until > now => until,
                _ => match self.0.limiter.check() {
                    Ok(()) => return Ok(()),
                    Err(not_until) => now + not_until.wait_time_from(TokioClock.now()),
                },
            };
            if at > give_up_at {
                return Err(ExchangeError::Held(at));
            }
            tokio::time::sleep_until(at).await;
        }
    }

    fn closed_until(&self) -> Option<Instant> {
        *self.0.closed_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_until(&self, until: Instant) {
        let mut closed = self.0.closed_until.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = Some(closed.map_or(until, |already| already.max(until)));
    }
}

/// Lets a request through when the budget allows it, and learns from the server's 429s.
pub struct Limited<E> {
    inner: E,
    budget: Budget,
    clock: Clock,
}

impl<E> Limited<E> {
    /// Draws a permit from `budget` for each exchange of `inner`.
    pub fn new(inner: E, budget: Budget, clock: Clock) -> Self {
        Self { inner, budget, clock }
    }
}

#[async_trait]
impl<E: Exchange> Exchange for Limited<E> {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        self.budget.take().await?;
        // Here, since below this layer nothing waits any more before the request leaves.
        let send_by = request.extensions().get::<SendBy>();
        if send_by.is_some_and(|SendBy(at)| self.clock.instant() > *at) {
            return Err(ExchangeError::TooLate);
        }
        let answer = self.inner.exchange(request).await?;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            let pause = retry_after::parse(answer.headers(), self.clock.now()).unwrap_or(PAUSE_DEFAULT);
            self.budget.close_until(self.clock.instant() + pause);
        }
        Ok(answer)
    }
}

/// governor on tokio's clock: as shipped it reads the system's, which does not follow a paused runtime.
#[derive(Clone, Copy, Debug)]
struct TokioClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TokioInstant(Instant);

impl GovernorClock for TokioClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        TokioInstant(Instant::now())
    }
}

impl std::ops::Add<Nanos> for TokioInstant {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0 + Duration::from(nanos))
    }
}

impl Reference for TokioInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_duration_since(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibm::http::scripted;

    fn budget(per_second: u32, burst: u32) -> Budget {
        Budget::new(
            NonZeroU32::new(per_second).unwrap(),
            NonZeroU32::new(burst).unwrap(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn permits_flow_at_the_rate_after_the_burst() {
        let (budget, start) = (budget(10, 10), Instant::now());
        for _ in 0..1010 {
            budget.take().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::from_secs(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_budget_holds_everybody_back() {
        let budget = budget(10, 10);
        let start = Instant::now();
        budget.close_until(start + Duration::from_secs(5));
        let waiters = (0..4).map(|_| budget.take());
        for permit in futures::future::join_all(waiters).await {
            permit.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_patience_is_refused_at_once_with_the_time_to_return() {
        let (budget, start) = (budget(10, 10), Instant::now());
        let until = start + PATIENCE + Duration::from_secs(1);
        budget.close_until(until);
        let Err(ExchangeError::Held(at)) = budget.take().await else {
            panic!("a permit was given")
        };
        assert_eq!(at, until);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_are_given_in_the_order_of_asking() {
        let budget = budget(10, 1);
        let given = Mutex::new(Vec::new());
        let ask = |number: usize| {
            let (budget, given) = (&budget, &given);
            async move {
                // One after another, and each once more when it was served.
                for round in 0..2 {
                    budget.take().await.unwrap();
                    given.lock().unwrap().push((round, number));
                    // So that the others have asked before it asks again.
                    tokio::task::yield_now().await;
                }
            }
        };
        futures::future::join_all((0..5).map(ask)).await;
        let expected: Vec<(usize, usize)> = (0..2)
            .flat_map(|round| (0..5).map(move |it| (round, it)))
            .collect();
        assert_eq!(given.into_inner().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_rests_on_something_too_old_by_now_is_not_sent() {
        let server = scripted::Scripted::new(|_, _| scripted::text(201, ""));
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let (budget, now) = (budget(10, 10), Instant::now());
        let limited = Limited::new(server.clone(), budget.clone(), clock);
        let request = || {
            let mut request = Request::new(Bytes::new());
            request
                .extensions_mut()
                .insert(SendBy(now + Duration::from_secs(5)));
            request
        };
        budget.close_until(now + Duration::from_secs(5));
        assert!(limited.exchange(request()).await.is_ok(), "just in time");
        budget.close_until(now + Duration::from_secs(6));
        let late = limited.exchange(request()).await.unwrap_err();
        assert!(matches!(late, ExchangeError::TooLate), "{late}");
        assert_eq!(server.sent().len(), 1);
    }
}
