//! Counts and times every request that is really sent.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use tokio::time::Instant;

use super::{Exchange, ExchangeError, Operation};

/// The metrics of the IBM client, shared by all its services.
#[derive(Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    region: Arc<str>,
}

impl Metrics {
    /// Registers the metrics; fails if they are registered already.
    pub fn register(registry: &Registry, region: &str) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "karpenter_ibm_api_requests_total",
                "Requests sent to IBM Cloud, by operation and outcome",
            ),
            &["operation", "status", "region"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "karpenter_ibm_api_request_duration_seconds",
                "Time from sending a request to IBM Cloud to the end of its answer",
            )
            .buckets(vec![0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]),
            &["operation"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self {
            requests,
            seconds,
            region: region.into(),
        })
    }

    fn record(&self, operation: &str, status: &str, took: std::time::Duration) {
        self.requests
            .with_label_values(&[operation, status, &self.region])
            .inc();
        self.seconds
            .with_label_values(&[operation])
            .observe(took.as_secs_f64());
    }
}

/// Reports each exchange of `inner` to [`Metrics`].
pub struct Measured<E> {
    inner: E,
    metrics: Metrics,
}

impl<E> Measured<E> {
    /// Measures `inner`.
    pub fn new(inner: E, metrics: Metrics) -> Self {
        Self { inner, metrics }
    }
}

#[async_trait]
impl<E: Exchange> Exchange for Measured<E> {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let operation = request
            .extensions()
            .get::<Operation>()
            .map_or("unknown", |operation| operation.name);
        let started = Instant::now();
        let outcome = self.inner.exchange(request).await;
        let took = started.elapsed();
        match &outcome {
            Ok(answer) => self.metrics.record(operation, answer.status().as_str(), took),
            Err(ExchangeError::NotSent(_)) => self.metrics.record(operation, "not_sent", took),
            Err(ExchangeError::Lost(_)) => self.metrics.record(operation, "lost", took),
            Err(ExchangeError::Deadline(_)) => self.metrics.record(operation, "deadline", took),
            Err(ExchangeError::Held(_) | ExchangeError::NoToken(_) | ExchangeError::TooLate) => {}
        }
        outcome
    }
}
