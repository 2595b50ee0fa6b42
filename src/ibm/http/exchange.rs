//! One exchange with a server: the seam between the IBM client and the world.
//!
//! Everything above it (retry, limits, deadlines, tokens, pages) runs unchanged over the network and over the
//! simulator in this process.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};

/// The largest body that is read. A page of 100 instances is about 600 kB and the largest catalogue answer seen is
/// 4 MB; anything above is not an answer but a fault.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// Sends one request and reads the whole answer. Any HTTP status is an answer, not an error.
#[async_trait]
pub trait Exchange: Send + Sync {
    /// Sends `request` once: no retry, no redirect.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError>;
}

/// Why there is no answer. The variant says whether the server may have acted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExchangeError {
    /// The request never left: the server has not acted.
    #[error("not connected: {0}")]
    NotSent(String),
    /// The request may have been carried out, but no whole answer came back.
    #[error("no answer: {0}")]
    Lost(String),
    /// No whole answer within the deadline; the request may have been carried out, or may yet be.
    #[error("no answer within {0:?}")]
    Deadline(std::time::Duration),
    /// The rate budget is spent for longer than a caller should wait: the server has not been asked.
    #[error("held back by the rate limit")]
    Held(tokio::time::Instant),
    /// The time until which it made sense to send it has passed: the server has not been asked.
    #[error("not sent: what it rests on is too old by now")]
    TooLate,
    /// There is no token to send it with: the server has not been asked.
    #[error("no token: {0}")]
    NoToken(Box<crate::cloud::Error>),
}

#[async_trait]
impl Exchange for reqwest::Client {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let request = reqwest::Request::try_from(request).map_err(|e| ExchangeError::NotSent(chain(e)))?;
        let mut answer = self.execute(request).await.map_err(|error| {
            if error.is_connect() || error.is_builder() {
                ExchangeError::NotSent(chain(error))
            } else {
                ExchangeError::Lost(chain(error))
            }
        })?;
        let mut head = Response::new(());
        *head.status_mut() = answer.status();
        *head.headers_mut() = std::mem::take(answer.headers_mut());
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| ExchangeError::Lost(chain(e)))? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(ExchangeError::Lost(format!(
                    "the answer is longer than {BODY_BYTES_MAX} bytes"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(head.map(|()| body.freeze()))
    }
}

/// The error and its causes in one line, without the URL: a URL may hold an account or a resource of the user.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
