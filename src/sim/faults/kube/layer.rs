//! The way of a request from the operator to its API server, past the faults that are on.
//!
//! Each request travels in a task of its own: an operator that crashes, gives up or stands still neither undoes nor
//! halves a write that is on its way. Whether a request was carried out is told with every answer (as an extension) and
//! every loss, for those who keep the history. Extensions of a request travel with it.

use std::task::{Context, Poll};

use axum::body::{Body, HttpBody, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use tower::{BoxError, Service, ServiceExt};

use super::KubeKind;
use super::answers::{Asked, Blow, optimistic};
use crate::sim::faults::desk::Desk;
use crate::sim::faults::names::FaultName;
use crate::sim::history::CarriedOut;
use crate::sim::kube::request::{Target, Verb};

/// The connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub struct Lost {
    /// Whether the request had been carried out.
    pub carried_out: CarriedOut,
}

/// Puts the faults of a desk in front of a server.
#[derive(Clone)]
pub struct Layer(Desk);

impl Layer {
    /// The faults of that desk.
    pub fn new(desk: Desk) -> Self {
        Self(desk)
    }
}

impl<S> tower::Layer<S> for Layer {
    type Service = WithFaults<S>;

    fn layer(&self, inner: S) -> WithFaults<S> {
        WithFaults {
            inner,
            desk: self.0.clone(),
        }
    }
}

/// A server with faults in front of it.
#[derive(Clone)]
pub struct WithFaults<S> {
    inner: S,
    desk: Desk,
}

impl<S, B> Service<Request<B>> for WithFaults<S>
where
    S: Service<Request<B>, Response = Response> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (inner, desk) = (self.inner.clone(), self.desk.clone());
        Box::pin(async move {
            match tokio::spawn(Box::pin(travel(inner, desk, request))).await {
                Ok(answer) => answer,
                Err(panicked) => Err(panicked.into()),
            }
        })
    }
}

async fn travel<S, B>(inner: S, desk: Desk, request: Request<B>) -> Result<Response, BoxError>
where
    S: Service<Request<B>, Response = Response> + Send,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    // Bodies of requests are whole in memory already.
    let body = to_bytes(Body::new(body), usize::MAX).await?;
    let asked = desk.is_in_the_way().then(|| asked(&parts, &body)).flatten();
    let course = asked.as_ref().map(|asked| desk.course(asked)).unwrap_or_default();
    let clock = desk.clock();
    clock.sleep(course.delay).await;
    let after = match course.blow {
        Some(Blow::LostBefore) => return Err(lost(CarriedOut::No)),
        Some(Blow::Instead(answer)) => return Ok(marked(answer, CarriedOut::No)),
        after => after,
    };
    let answer = inner
        .oneshot(Request::from_parts(parts, B::from(body)))
        .await
        .map_err(Into::into)?;
    clock.sleep(course.delay).await;
    match after {
        Some(Blow::LostAfter) => Err(lost(CarriedOut::Yes)),
        // What the server refused is refused, whatever else goes wrong.
        Some(Blow::After(instead)) if answer.status().is_success() => {
            let told = asked.as_ref().map(Asked::told).unwrap_or_default();
            desk.strike(FaultName::Kube(KubeKind::ServerErrorAfter), &told);
            Ok(marked(instead, CarriedOut::Yes))
        }
        _ => Ok(marked(answer, CarriedOut::Yes)),
    }
}

/// `None` for what is not about objects: discovery, versions, health.
fn asked(parts: &http::request::Parts, body: &[u8]) -> Option<Asked> {
    let target = Target::parse(parts.uri.path())?;
    let query = parts.uri.query().unwrap_or_default();
    let watch = form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| name == "watch" && matches!(&*value, "true" | "1"));
    let verb = Verb::of(&parts.method, &target, watch)?;
    Some(Asked {
        verb,
        target,
        optimistic: optimistic(verb, body),
    })
}

fn marked(mut answer: Response, carried_out: CarriedOut) -> Response {
    answer.extensions_mut().insert(carried_out);
    answer
}

fn lost(carried_out: CarriedOut) -> BoxError {
    Box::new(Lost { carried_out })
}
