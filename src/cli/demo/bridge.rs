//! A bridge between two runtimes: requests come in on sockets of the outside one and are answered inside the other.
//!
//! Everything that reads the world's clock must run on the world's runtime, where time is simulated; everything that
//! has to do with sockets must run where it is real, or a handshake would time out in a blink. So requests, answers and
//! the pieces of their bodies cross here, and nothing else does.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use http::{Request, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

/// Requests that wait for the inside to take them: more than kubectl ever sends at once.
const WAITING_MAX: usize = 256;
/// Pieces of an answer that wait to be sent; a watch whose reader is slow is held back beyond that.
const PIECES_MAX: usize = 64;

struct Crossing {
    request: Request<Body>,
    answer: oneshot::Sender<Response>,
}

/// The inner end.
pub(super) struct Inside(mpsc::Receiver<Crossing>);

/// Both ends of a bridge: a router to serve outside, and the end to answer at inside.
pub(super) fn bridge() -> (Router, Inside) {
    let (sender, crossings) = mpsc::channel(WAITING_MAX);
    let outside = tower::service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        async move { Ok::<_, Infallible>(cross(&sender, request).await) }
    });
    (Router::new().fallback_service(outside), Inside(crossings))
}

async fn cross(sender: &mpsc::Sender<Crossing>, request: Request<Body>) -> Response {
    let (answer, answered) = oneshot::channel();
    if sender.send(Crossing { request, answer }).await.is_err() {
        return gone();
    }
    answered.await.unwrap_or_else(|_| gone())
}

/// The world has ended while its door was still open.
fn gone() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the demo is ending\n").into_response()
}

impl Inside {
    /// Lets `router` answer for as long as this is polled, each request in a task of its own.
    pub(super) async fn answer_with(mut self, router: Router) {
        while let Some(Crossing { request, answer }) = self.0.recv().await {
            let router = router.clone();
            tokio::spawn(async move {
                let response = match router.oneshot(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                let (parts, body) = response.into_parts();
                let (pieces, received) = mpsc::channel(PIECES_MAX);
                let body_outside = Body::from_stream(stream_of(received));
                if answer.send(Response::from_parts(parts, body_outside)).is_ok() {
                    carry(body, pieces).await;
                }
            });
        }
    }
}

/// Carries the pieces of a body over, until it ends or nobody wants more.
async fn carry(body: Body, pieces: mpsc::Sender<Result<Bytes, axum::Error>>) {
    let mut body = body.into_data_stream();
    loop {
        let piece = tokio::select! {
            biased;
            () = pieces.closed() => return,
            piece = body.next() => piece,
        };
        let Some(piece) = piece else { return };
        if pieces.send(piece).await.is_err() {
            return;
        }
    }
}

fn stream_of<T>(receiver: mpsc::Receiver<T>) -> impl futures::Stream<Item = T> {
    futures::stream::unfold(receiver, async |mut receiver| {
        let item = receiver.recv().await?;
        Some((item, receiver))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::routing::get;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn inside_runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }

    #[test]
    fn a_request_from_outside_is_answered_in_the_time_of_the_inside() {
        let hour = async || {
            let before = Instant::now();
            tokio::time::sleep(Duration::from_hours(1)).await;
            format!("{} s", (Instant::now() - before).as_secs())
        };
        let (router, inside) = bridge();
        let outside = tokio::runtime::Runtime::new().unwrap();
        let asked = outside.spawn(async move {
            let request = Request::get("/hour").body(Body::empty()).unwrap();
            let answer = router.oneshot(request).await.unwrap();
            axum::body::to_bytes(answer.into_body(), 100).await.unwrap()
        });
        let answer = inside_runtime().block_on(async {
            tokio::spawn(inside.answer_with(Router::new().route("/hour", get(hour))));
            asked.await.unwrap()
        });
        assert_eq!(&answer[..], b"3600 s");
    }

    #[test]
    fn when_the_inside_has_ended_the_outside_says_so() {
        let (router, inside) = bridge();
        drop(inside);
        let runtime = inside_runtime();
        let request = Request::get("/").body(Body::empty()).unwrap();
        let answer = runtime.block_on(router.oneshot(request)).unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_reader_that_goes_away_ends_the_answer() {
        let runtime = inside_runtime();
        runtime.block_on(async {
            let ended = CancellationToken::new();
            let ends = ended.clone();
            let endless = get(move || {
                let guard = ends.clone().drop_guard();
                async move {
                    Body::from_stream(futures::stream::unfold(guard, async |guard| {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Some((Ok::<_, Infallible>(Bytes::from_static(b"x")), guard))
                    }))
                }
            });
            let (router, inside) = bridge();
            tokio::spawn(inside.answer_with(Router::new().route("/", endless)));
            let request = Request::get("/").body(Body::empty()).unwrap();
            let answer = router.oneshot(request).await.unwrap();
            let mut pieces = answer.into_body().into_data_stream();
            assert_eq!(pieces.next().await.unwrap().unwrap(), "x");
            assert!(!ended.is_cancelled());
            drop(pieces);
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(ended.is_cancelled());
        });
    }
}
