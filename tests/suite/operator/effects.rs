//! Edges that count effects and can break the world off right after one, before its answer arrives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use karpenter_ibm::ibm::http::{Exchange, ExchangeError};
use karpenter_ibm::operator::Edges;
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

/// Counts effects: writes to either edge, but for Leases and tokens.
#[derive(Clone)]
pub(super) struct Effects {
    count: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<(Method, String)>>>,
    last: usize,
    /// Cancelled when the last effect was carried out.
    pub(super) crash: CancellationToken,
}

impl Effects {
    /// Breaks off after the effect of that number, from 1.
    pub(super) fn up_to(last: usize) -> Self {
        Self {
            count: Arc::default(),
            log: Arc::default(),
            last,
            crash: CancellationToken::new(),
        }
    }

    /// Never breaks off.
    pub(super) fn without_end() -> Self {
        Self::up_to(usize::MAX)
    }

    /// How many there were.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// What they were, in order.
    pub(super) fn log(&self) -> Vec<(Method, String)> {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, counts: bool, method: &Method, path: &str) {
        if counts {
            self.log.lock().unwrap().push((method.clone(), path.to_owned()));
        }
    }

    /// The same edges, counted.
    pub(super) fn around(&self, mut edges: Edges) -> Edges {
        edges.ibm.cloud = Arc::new(Counted {
            inner: edges.ibm.cloud,
            effects: self.clone(),
        });
        let (inner, effects) = (edges.kube, self.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (inner, effects) = (inner.clone(), effects.clone());
            async move {
                let counts = is_effect(request.method(), request.uri().path());
                effects.note(counts, request.method(), request.uri().path());
                let answer = inner.send(request).await;
                effects.after(counts).await;
                answer.map_err(BoxError::from)
            }
        });
        edges.kube = kube::Client::new(service, "default");
        edges
    }

    /// Once an effect was carried out: its answer is not given when it was the last.
    async fn after(&self, counts: bool) {
        if counts && self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.last {
            self.crash.cancel();
        }
        if self.crash.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a request changes anything that matters.
pub(super) fn is_effect(method: &Method, path: &str) -> bool {
    method != Method::GET && !path.contains("/leases") && !path.contains("/identity/")
}

struct Counted {
    inner: Arc<dyn Exchange>,
    effects: Effects,
}

#[async_trait]
impl Exchange for Counted {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let counts = is_effect(request.method(), request.uri().path());
        self.effects.note(counts, request.method(), request.uri().path());
        let answer = self.inner.exchange(request).await;
        self.effects.after(counts).await;
        answer
    }
}

/// Keeps how orders were answered.
#[derive(Clone, Default)]
pub(super) struct Answered(Arc<Mutex<Vec<StatusCode>>>);

impl Answered {
    /// The same edges, listened to.
    pub(super) fn around(&self, mut edges: Edges) -> Edges {
        edges.ibm.cloud = Arc::new(Heard {
            inner: edges.ibm.cloud,
            answered: self.clone(),
        });
        edges
    }

    /// The answers so far, in order.
    pub(super) fn all(&self) -> Vec<StatusCode> {
        self.0.lock().unwrap().clone()
    }
}

struct Heard {
    inner: Arc<dyn Exchange>,
    answered: Answered,
}

#[async_trait]
impl Exchange for Heard {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let is_order = request.method() == Method::POST && request.uri().path().ends_with("/v1/instances");
        let answer = self.inner.exchange(request).await;
        if let (true, Ok(answer)) = (is_order, &answer) {
            self.answered.0.lock().unwrap().push(answer.status());
        }
        answer
    }
}
