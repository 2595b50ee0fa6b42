//! Sends a request again when that is safe and may help.
//!
//! Safe to repeat is what was certainly not carried out (no connection, 429), and for reads, deletes and the like
//! also what nobody knows about (lost answers, 5xx). A create whose fate is unknown is never sent again here.

use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use http::{Request, Response, StatusCode};

use super::{Exchange, ExchangeError, Operation, Repeat, retry_after};
use crate::clock::Clock;
use crate::entropy::Entropy;

/// Three more tries, as IBM's own SDKs make four. With the waits below they are over within half a minute, after
/// which the caller's own schedule takes over.
const RETRIES_MAX: usize = 3;
const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(15);

/// A server that asks for more patience than this is obeyed by the caller, not by a sleeping request.
const RETRY_AFTER_PATIENCE: Duration = Duration::from_secs(30);

/// Repeats an exchange as far as its [`Operation`] allows.
pub struct Retry<E> {
    inner: E,
    clock: Clock,
    entropy: Entropy,
}

impl<E> Retry<E> {
    /// Repeats exchanges of `inner`; the waits are jittered by `entropy`, so that callers do not return in step.
    pub fn new(inner: E, clock: Clock, entropy: Entropy) -> Self {
        Self {
            inner,
            clock,
            entropy,
        }
    }
}

#[async_trait]
impl<E: Exchange> Exchange for Retry<E> {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let repeat = request
            .extensions()
            .get::<Operation>()
            .map_or(Repeat::IfNotCarriedOut, |o| o.repeat);
        let mut waits = ExponentialBuilder::new()
            .with_min_delay(WAIT_FIRST)
            .with_max_delay(WAIT_MAX)
            .with_max_times(RETRIES_MAX)
            .with_jitter()
            .with_jitter_seed(self.entropy.next())
            .build();
        loop {
            let outcome = self.inner.exchange(request.clone()).await;
            let Some(asked) = self.worth_repeating(&outcome, repeat) else {
                return outcome;
            };
            let Some(wait) = waits.next() else { return outcome };
            let wait = wait.max(asked);
            tracing::debug!(?wait, outcome = %describe(&outcome), "sending the request again");
            tokio::time::sleep(wait).await;
        }
    }
}

impl<E> Retry<E> {
    /// The least wait before another try, or `None` if there should be none.
    fn worth_repeating(
        &self,
        outcome: &Result<Response<Bytes>, ExchangeError>,
        repeat: Repeat,
    ) -> Option<Duration> {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(ExchangeError::NotSent(_)) => return Some(Duration::ZERO),
            Err(ExchangeError::Held(_) | ExchangeError::NoToken(_) | ExchangeError::TooLate) => return None,
            Err(ExchangeError::Lost(_) | ExchangeError::Deadline(_)) => {
                return (repeat == Repeat::Safe).then_some(Duration::ZERO);
            }
        };
        let asked = retry_after::parse(answer.headers(), self.clock.now()).unwrap_or_default();
        let may = match answer.status() {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => repeat == Repeat::Safe,
            // Cloudflare's own codes: the public endpoint sits behind it.
            status => (520..=527).contains(&status.as_u16()) && repeat == Repeat::Safe,
        };
        (may && asked <= RETRY_AFTER_PATIENCE).then_some(asked)
    }
}

fn describe(outcome: &Result<Response<Bytes>, ExchangeError>) -> String {
    match outcome {
        Ok(answer) => answer.status().to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::ibm::http::Service;
    use crate::ibm::http::scripted::{Scripted, later, text};

    const READ: Operation = Operation::list(Service::Vpc, "read");
    const CREATE: Operation = Operation::create(Service::Vpc, "create");

    async fn tries(operation: Operation, answer: fn() -> Result<Response<Bytes>, ExchangeError>) -> usize {
        let transport = Scripted::new(move |_, _| answer());
        let retry = Retry::new(transport.clone(), Clock::system(), Entropy::seeded(1));
        let mut request = Request::new(Bytes::new());
        request.extensions_mut().insert(operation);
        let _ = retry.exchange(request).await;
        transport.sent().len()
    }

    #[tokio::test(start_paused = true)]
    async fn what_certainly_was_not_carried_out_is_sent_again() {
        for operation in [READ, CREATE] {
            assert_eq!(
                tries(operation, || Err(ExchangeError::NotSent("refused".into()))).await,
                4
            );
            assert_eq!(tries(operation, || later(429, 1)).await, 4);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_of_unknown_fate_is_never_sent_again() {
        assert_eq!(
            tries(CREATE, || Err(ExchangeError::Lost("reset".into()))).await,
            1
        );
        assert_eq!(
            tries(CREATE, || Err(ExchangeError::Deadline(Duration::from_secs(1)))).await,
            1
        );
        for status in [408, 500, 502, 503, 504, 520] {
            let answer: fn() -> _ = match status {
                408 => || text(408, ""),
                500 => || text(500, ""),
                502 => || text(502, ""),
                503 => || text(503, ""),
                504 => || text(504, ""),
                _ => || text(520, ""),
            };
            assert_eq!(tries(CREATE, answer).await, 1, "{status}");
            assert_eq!(tries(READ, answer).await, 4, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_will_not_change_is_not_asked_for_again() {
        assert_eq!(tries(READ, || text(404, "")).await, 1);
        assert_eq!(tries(READ, || text(400, "")).await, 1);
        assert_eq!(tries(READ, || text(200, "")).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_is_given_the_time_it_asks_for_but_not_the_callers_whole_patience() {
        let before = Instant::now();
        assert_eq!(tries(READ, || later(503, 20)).await, 4);
        assert!(before.elapsed() >= Duration::from_mins(1));
        assert_eq!(tries(READ, || later(503, 31)).await, 1);
    }
}
