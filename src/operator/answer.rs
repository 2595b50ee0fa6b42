//! How long an answer of the API server is waited for.
//!
//! A client that is made from a configuration waits for ever. A load balancer that takes a request and loses it, or that
//! falls silent in the middle of a list, would so keep a loop waiting that looks at one object after another, and nobody
//! would know. So the head of an answer is waited for, and then each piece of it. A watch alone may be silent for as long
//! as it lasts once it is granted: nothing may have changed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tower::{BoxError, Layer, Service};

/// Ten times what anything takes that goes well, and as long as one admission webhook may think at most. An API server gives
/// up by itself after a minute, but that is no help where it was never asked. What is tried again after 429, 503 and 504
/// counts into it: each loop has a pace of its own, and then looks at what has become of things meanwhile.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);

/// No answer has begun in time, but for those that ask to come again later: a server that is overloaded for as long as
/// that is one that does not answer. Whether what was asked for was done is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {} s, or none but to try again later (429, 503, 504)", .0.as_secs())]
pub struct NoAnswer(pub Duration);

/// An answer has begun, and nothing more of it has come in time. What was asked for may well have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off: nothing more of it within {} s", .0.as_secs())]
pub struct BrokenOff(pub Duration);

/// Waits for so long until an answer begins, and for each piece of it.
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

impl<S, Sent, Told> Service<Request<Sent>> for Impatient<S>
where
    S: Service<Request<Sent>, Response = Response<Told>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Pieces<Told>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Pieces<Told>>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let asks_to_watch = asks_to_watch(request.uri());
        let (answer, limit) = (self.inner.call(request), self.limit);
        async move {
            match tokio::time::timeout(limit, answer).await {
                Ok(Ok(answer)) => {
                    // Why a watch is refused is an answer like any other.
                    let is_watch = asks_to_watch && answer.status().is_success();
                    Ok(answer.map(|body| Pieces::of(body, (!is_watch).then_some(limit))))
                }
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(NoAnswer(limit).into()),
            }
        }
        .boxed()
    }
}

fn asks_to_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .any(|(key, value)| key == "watch" && matches!(&*value, "true" | "1"))
}

/// An answer that is given up when it falls silent.
#[derive(Debug)]
pub struct Pieces<B> {
    body: Pin<Box<B>>,
    limit: Option<Duration>,
    /// How long the next piece may take, while somebody waits for it.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<B> Pieces<B> {
    fn of(body: B, limit: Option<Duration>) -> Self {
        Self {
            body: Box::pin(body),
            limit,
            silence: None,
        }
    }
}

impl<B> Body for Pieces<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(piece) = this.body.as_mut().poll_frame(context) {
            this.silence = None;
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        let Some(limit) = this.limit else {
            return Poll::Pending;
        };
        let silence = this
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        let ended = silence.as_mut().poll(context);
        ended.map(|()| Some(Err(BrokenOff(limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{Stream, StreamExt, stream};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{WatchEvent, WatchParams};
    use kube::client::Body;
    use kube::{Api, ResourceExt};
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

    /// These pieces of an answer, a third of a minute apart.
    fn slowly(
        pieces: &'static [&'static str],
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        stream::iter(pieces).then(|piece| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes()))
        })
    }

    fn why<T>(answer: kube::Result<T>) -> BoxError {
        match answer.map(drop) {
            Err(kube::Error::Service(source)) => source,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_never_answered_hears_so_after_half_a_minute() {
        let began = Instant::now();
        let namespaces: Api<Namespace> = Api::all(client(std::future::pending));
        // As a connection that is lost: every loop tries again, and takes nothing for gone.
        let why = why(namespaces.get("a").await);
        assert_eq!(why.downcast_ref(), Some(&NoAnswer(ANSWER_MAX)));
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_falls_silent_is_given_up_after_half_a_minute_and_one_that_is_slow_is_not() {
        static PIECES: [&str; 3] = [r#"{"metadata":"#, r#"{"name":"a"}"#, "}"];
        let began = Instant::now();
        let slow = || async { Response::new(axum::body::Body::from_stream(slowly(&PIECES))) };
        let namespaces: Api<Namespace> = Api::all(client(slow));
        assert_eq!(namespaces.get("a").await.unwrap().name_any(), "a");
        assert_eq!(began.elapsed().as_secs(), 60);

        let began = Instant::now();
        let silent = || async {
            let pieces = slowly(&PIECES[..2]).chain(stream::pending());
            Response::new(axum::body::Body::from_stream(pieces))
        };
        let namespaces: Api<Namespace> = Api::all(client(silent));
        let why = why(namespaces.get("a").await);
        assert_eq!(why.downcast_ref(), Some(&BrokenOff(ANSWER_MAX)));
        assert_eq!(began.elapsed().as_secs(), 70);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_is_not_waited_for_until_it_says_why() {
        let refused = || async {
            let silent = axum::body::Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
            Response::builder().status(410).body(silent).unwrap()
        };
        let namespaces: Api<Namespace> = Api::all(client(refused));
        let why = why(namespaces.watch(&WatchParams::default(), "0").await);
        assert_eq!(why.downcast_ref(), Some(&BrokenOff(ANSWER_MAX)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_for_as_long_as_it_likes() {
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
