//! Gives every request an id and leaves a trace of it in the log.
//!
//! Logged are the operation, path, id, status and time: never a header, never a body, never a query (it may hold a
//! filter of the user's).

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use tokio::time::Instant;

use super::{Exchange, ExchangeError, Operation};
use crate::entropy::Entropy;

/// The header by which IBM's support finds a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Stamps each exchange with a fresh request id and logs how it ended.
pub struct Traced<E> {
    inner: E,
    entropy: Entropy,
}

impl<E> Traced<E> {
    /// Traces `inner` with ids drawn from `entropy`.
    pub fn new(inner: E, entropy: Entropy) -> Self {
        Self { inner, entropy }
    }
}

#[async_trait]
impl<E: Exchange> Exchange for Traced<E> {
    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let operation = request
            .extensions()
            .get::<Operation>()
            .map_or("unknown", |operation| operation.name);
        let id = self.entropy.uuid();
        if let Ok(value) = HeaderValue::from_str(&id) {
            request.headers_mut().insert(REQUEST_ID, value);
        }
        let path = request.uri().path().to_owned();
        let started = Instant::now();
        let outcome = self.inner.exchange(request).await;
        let took = started.elapsed();
        match &outcome {
            Ok(answer) => {
                tracing::debug!(
                    operation,
                    path,
                    id,
                    status = answer.status().as_u16(),
                    ?took,
                    "asked IBM Cloud"
                );
            }
            Err(error) => tracing::debug!(operation, path, id, %error, ?took, "asked IBM Cloud in vain"),
        }
        outcome
    }
}
