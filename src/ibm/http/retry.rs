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
use crate::ibm::entropy::Entropy;

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
            Err(ExchangeError::Held(_) | ExchangeError::NoToken(_)) => return None,
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
