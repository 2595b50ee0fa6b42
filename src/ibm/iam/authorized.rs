//! Puts the token on each request, and fetches a new one once when it is refused.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};

use super::grant::bearer;
use super::tokens::Tokens;
use crate::cloud::Error;
use crate::ibm::http::{Exchange, ExchangeError};

/// An exchange with a token.
pub struct Authorized {
    inner: Arc<dyn Exchange>,
    tokens: Tokens,
}

impl Authorized {
    /// Sends requests through `inner` with a token of `tokens`.
    pub fn new(inner: Arc<dyn Exchange>, tokens: Tokens) -> Self {
        Self { inner, tokens }
    }
}

#[async_trait]
impl Exchange for Authorized {
    async fn exchange(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let token = self.tokens.token().await.map_err(without_token)?;
        request
            .headers_mut()
            .insert(AUTHORIZATION, bearer(&token).map_err(without_token)?);
        let answer = self.inner.exchange(request.clone()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        // A 401 says that nothing was done, so even a create may be sent again, once, with a new token.
        self.tokens.reject(&token).await;
        let token = self.tokens.token().await.map_err(without_token)?;
        request
            .headers_mut()
            .insert(AUTHORIZATION, bearer(&token).map_err(without_token)?);
        self.inner.exchange(request).await
    }
}

/// Without a token nothing was sent; the reason for it must reach the caller as the decision that it is.
fn without_token(error: Error) -> ExchangeError {
    ExchangeError::NoToken(Box::new(error))
}
