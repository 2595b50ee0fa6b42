//! A transport for tests: a function answers, and what was sent is remembered.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::{Exchange, ExchangeError};

type Answer = Result<Response<Bytes>, ExchangeError>;
type Script = dyn Fn(usize, &Request<Bytes>) -> Answer + Send + Sync;
type Sent = Vec<(Instant, Request<Bytes>)>;

/// Answers the n-th request (from 0) by a function.
#[derive(Clone)]
pub(crate) struct Scripted {
    script: Arc<Script>,
    sent: Arc<Mutex<Sent>>,
}

impl Scripted {
    pub(crate) fn new(script: impl Fn(usize, &Request<Bytes>) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            sent: Arc::default(),
        }
    }

    /// When each request was sent, and what it was.
    pub(crate) fn sent(&self) -> Sent {
        self.sent.lock().unwrap().clone()
    }
}

#[async_trait]
impl Exchange for Scripted {
    async fn exchange(&self, request: Request<Bytes>) -> Answer {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            sent.push((Instant::now(), request.clone()));
            sent.len() - 1
        };
        // Let other tasks run, as a network would.
        tokio::task::yield_now().await;
        (self.script)(number, &request)
    }
}

/// An answer with a JSON body.
pub(crate) fn json(status: u16, body: &Value) -> Answer {
    text(status, &body.to_string())
}

/// An answer with any body.
#[expect(clippy::unnecessary_wraps, reason = "stands beside scripts that fail")]
pub(crate) fn text(status: u16, body: &str) -> Answer {
    Ok(Response::builder()
        .status(status)
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap())
}

/// An answer that asks for patience.
pub(crate) fn later(status: u16, seconds: u32) -> Answer {
    let body =
        serde_json::json!({"errors": [{"code": "rate_limit_exceeded", "message": "Too many requests"}]});
    let mut answer = json(status, &body)?;
    answer
        .headers_mut()
        .insert(http::header::RETRY_AFTER, seconds.into());
    Ok(answer)
}
