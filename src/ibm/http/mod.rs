//! One client machine under all typed endpoints.
//!
//! An [`Exchange`] sends one request. Around the transport stand layers that each do one thing and know nothing of
//! each other; [`Layers`] puts them in their order. [`Api`] makes typed calls on top.

use std::sync::Arc;
use std::time::Duration;

pub mod api;
pub mod classify;
pub mod deadline;
pub mod exchange;
pub mod limit;
pub mod measure;
pub mod operation;
pub mod page;
pub mod retry;
pub mod retry_after;
#[cfg(test)]
pub(crate) mod scripted;
pub mod trace;

pub use api::{Api, Call};
pub use exchange::{Exchange, ExchangeError};
pub use limit::Budget;
pub use measure::Metrics;
pub use operation::{Operation, Repeat, SendBy, Service};

use crate::clock::Clock;
use crate::entropy::Entropy;

/// What the layers share.
#[derive(Clone)]
pub struct Layers {
    /// The budget of requests of the whole process.
    pub budget: Budget,
    /// Where requests are counted.
    pub metrics: Metrics,
    /// How long one exchange may take.
    pub deadline: Duration,
    /// Time.
    pub clock: Clock,
    /// Jitter and request ids.
    pub entropy: Entropy,
}

impl Layers {
    /// The layers around one try, outermost first: rate limit, request id and log, metrics, deadline.
    pub fn once(&self, transport: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
        let timed = deadline::Deadline::new(Shared(transport), self.deadline);
        let measured = measure::Measured::new(timed, self.metrics.clone());
        let traced = trace::Traced::new(measured, self.entropy.clone());
        Arc::new(limit::Limited::new(
            traced,
            self.budget.clone(),
            self.clock.clone(),
        ))
    }

    /// `inner` (with a token or without) tried again as far as that is safe.
    pub fn again(&self, inner: Arc<dyn Exchange>) -> Arc<dyn Exchange> {
        Arc::new(retry::Retry::new(
            Shared(inner),
            self.clock.clone(),
            self.entropy.clone(),
        ))
    }
}

/// A shared exchange is an exchange.
struct Shared(Arc<dyn Exchange>);

#[async_trait::async_trait]
impl Exchange for Shared {
    async fn exchange(
        &self,
        request: http::Request<bytes::Bytes>,
    ) -> Result<http::Response<bytes::Bytes>, ExchangeError> {
        self.0.exchange(request).await
    }
}
