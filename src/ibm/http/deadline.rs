//! One exchange may take so long and no longer.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

use super::{Exchange, ExchangeError};

/// Gives up on an exchange after a fixed time. What was sent may still be carried out.
pub struct Deadline<E> {
    inner: E,
    after: Duration,
}

impl<E> Deadline<E> {
    /// Lets `inner` take at most `after`.
    pub fn new(inner: E, after: Duration) -> Self {
        Self { inner, after }
    }
}

#[async_trait]
impl<E: Exchange> Exchange for Deadline<E> {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        tokio::time::timeout(self.after, self.inner.exchange(request))
            .await
            .unwrap_or(Err(ExchangeError::Deadline(self.after)))
    }
}
