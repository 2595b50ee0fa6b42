//! How long an answer of the API server is waited for.
//!
//! A client that is made from a configuration waits for ever. A load balancer that takes a request and loses it would so
//! keep a loop waiting that looks at one object after another, and nobody would know. Only the head of an answer is
//! waited for here: that of a watch comes at once, and its changes for as long as it lasts.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tower::{BoxError, Layer, Service};

/// Ten times what anything takes that goes well, and as long as one admission webhook may think at most. An API server gives
/// up by itself after a minute, but that is no help where it was never asked. What is tried again after 429 and 503 counts
/// into it: each loop has a pace of its own, and then looks at what has become of things meanwhile.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);

/// No answer has begun in time. Whether what was asked for was done is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
pub struct NoAnswer(pub Duration);

/// Waits for so long until an answer begins.
#[derive(Clone, Copy, Debug)]
pub struct InTime(Duration);

impl InTime {
    /// Everything must be answered within this time.
    pub fn within(limit: Duration) -> Self {
        Self(limit)
    }
}

impl Default for InTime {
    fn default() -> Self {
        Self(ANSWER_MAX)
    }
}

impl<S> Layer<S> for InTime {
    type Service = Impatient<S>;

    fn layer(&self, inner: S) -> Impatient<S> {
        Impatient { inner, limit: self.0 }
    }
}

/// A service that is not waited for any longer.
#[derive(Clone, Debug)]
pub struct Impatient<S> {
    inner: S,
    limit: Duration,
}

impl<S, Request> Service<Request> for Impatient<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (answer, limit) = (self.inner.call(request), self.limit);
        async move {
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(NoAnswer(limit).into()),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::api::{WatchEvent, WatchParams};
    use kube::client::Body;
    use tokio::time::Instant;
    use tower::{ServiceBuilder, service_fn};

    use super::*;

    /// A client that is answered with this.
    fn client<F, Answer>(answer: F) -> kube::Client
    where
        F: Fn() -> Answer + Clone + Send + 'static,
        Answer: Future<Output = Response<axum::body::Body>> + Send + 'static,
    {
        let service = service_fn(move |_: Request<Body>| {
            let answer = answer();
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let service = ServiceBuilder::new().layer(InTime::default()).service(service);
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_never_answered_hears_so_after_half_a_minute() {
        let began = Instant::now();
        let namespaces: Api<Namespace> = Api::all(client(std::future::pending));
        let error = namespaces.get("a").await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30);
        // As a connection that is lost: every loop tries again, and takes nothing for gone.
        let kube::Error::Service(source) = &error else {
            panic!("{error}");
        };
        assert_eq!(source.downcast_ref(), Some(&NoAnswer(ANSWER_MAX)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_has_begun_may_go_on_for_as_long_as_it_likes() {
        let late = || async {
            let line = br#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#;
            let line = stream::once(async {
                tokio::time::sleep(Duration::from_hours(1)).await;
                Ok::<_, Infallible>(Bytes::from_static(line))
            });
            Response::new(axum::body::Body::from_stream(line))
        };
        let namespaces: Api<Namespace> = Api::all(client(late));
        let watched = namespaces.watch(&WatchParams::default(), "0").await.unwrap();
        let first = watched.boxed().next().await.unwrap().unwrap();
        assert!(matches!(first, WatchEvent::Added(_)));
    }
}
