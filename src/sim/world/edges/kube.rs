//! The Kubernetes edge of a replica.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body as Sending;
use kube::client::retry::RetryPolicy;
use tokio::sync::oneshot;
use tower::retry::RetryLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::{carried_out, is_awaited, stream};
use crate::api::names::LEADER_LEASE;
use crate::operator::{InTime, slim};
use crate::sim::faults::{Desk, FaultName, Upon};
use crate::sim::history::Edge;
use crate::sim::kube::identity::User;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;
use crate::sim::kube::{ApiServer, object};
use crate::sim::world::effects::{Verb, effect};
use crate::sim::world::life::Life;
use crate::sim::world::recorder::{Recorder, Sent, Worth};

/// A way to the API server.
pub type Way = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// What is put between a replica and its server.
pub type Faults = Arc<dyn Fn(Way) -> Way + Send + Sync>;

/// How a replica reaches the Kubernetes API.
pub struct KubeEdge {
    /// The server.
    pub server: ApiServer,
    /// Whom it takes the replica for.
    pub user: User,
    /// What is between them.
    pub faults: Faults,
    /// Where everything is written.
    pub recorder: Recorder,
    /// Where strikes are counted.
    pub desk: Desk,
}

impl KubeEdge {
    /// The client of one life. Like that of the product it asks again after 429, 503 and 504, and waits for so long.
    pub fn client(&self, life: &Life) -> kube::Client {
        let witness = Witness {
            server: self.server.clone(),
            router: self.server.router(),
            life: life.clone(),
            recorder: self.recorder.clone(),
            desk: self.desk.clone(),
        };
        let recording = Recording {
            way: (self.faults)(BoxCloneSyncService::new(witness)),
            life: life.clone(),
            recorder: self.recorder.clone(),
            desk: self.desk.clone(),
        };
        let user = self.user.clone();
        let service = ServiceBuilder::new()
            .map_request(move |mut request: Request<Sending>| {
                request.extensions_mut().insert(user.clone());
                request
            })
            .layer(InTime::default())
            .map_response(slim)
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .service(recording);
        kube::Client::new(service, "default")
    }
}

/// What the server answered, travelling with the request to whoever carries it out.
#[derive(Clone, Debug, Default)]
struct Fate(Arc<Mutex<Option<StatusCode>>>);

impl Fate {
    fn seal(&self, status: StatusCode) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn served(&self) -> Option<StatusCode> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closest to the server: notes what it carried out, also when nobody will hear of it.
#[derive(Clone)]
struct Witness {
    server: ApiServer,
    router: Router,
    life: Life,
    recorder: Recorder,
    desk: Desk,
}

impl Service<Request<Body>> for Witness {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self {
            server,
            router,
            life,
            recorder,
            desk,
        } = self.clone();
        let fate = request.extensions().get::<Fate>().cloned();
        let (method, path) = (request.method(), request.uri().path());
        let deed = effect(Edge::Kube, method, path)
            .filter(|deed| deed.verb != Verb::Delete || !is_deleting(&server, path));
        let handled = router.oneshot(request);
        Box::pin(async move {
            let response = match handled.await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if let Some(deed) = deed
                && response.status().is_success()
            {
                recorder.effect(deed);
                life.landed();
                if life.has_sent(Upon::Effects(0)) {
                    desk.strike(FaultName::Pause, "upon an effect");
                    recorder.turn(life.who(), "paused");
                }
            }
            if let Some(fate) = fate {
                fate.seal(response.status());
            }
            Ok(response)
        })
    }
}

/// Whether what is to be deleted is on its way out already, so that nothing changes: whoever did not hear the answer asks
/// again.
fn is_deleting(server: &ApiServer, path: &str) -> bool {
    let Some(target) = Target::parse(path) else {
        return false;
    };
    let key = ObjectKey::new(
        target.namespace.as_deref().unwrap_or_default(),
        target.name.as_deref().unwrap_or_default(),
    );
    let state = server.state();
    let stored = state
        .store
        .get(&TableKey::of(&target.group, &target.plural), &key);
    stored.is_some_and(|stored| object::is_deleting(&stored.shared()))
}

/// Closest to the client: writes down what it sends and what it is told.
#[derive(Clone)]
struct Recording {
    way: Way,
    life: Life,
    recorder: Recorder,
    desk: Desk,
}

impl Service<Request<Sending>> for Recording {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// From here on the request is on its way: its task is nobody's but its own.
    fn call(&mut self, request: Request<Sending>) -> Self::Future {
        let (to, answer) = oneshot::channel();
        tokio::spawn(Box::pin(carry(self.clone(), request, to)));
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer,
                // The task ends without an answer only when its life is over, and then nobody is here to wait.
                Err(_) => Err(BoxError::from("the connection was lost")),
            }
        })
    }
}

type Answered = oneshot::Sender<Result<Response<Body>, BoxError>>;

/// Carries a request to the server and its answer back, whoever still waits for it.
async fn carry(edge: Recording, request: Request<Sending>, to: Answered) {
    let fate = Fate::default();
    let (mut head, body) = request.into_parts();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return;
    };
    head.extensions.insert(fate.clone());
    let sent = Sent {
        who: edge.life.who(),
        edge: Edge::Kube,
        method: head.method.clone(),
        uri: head.uri.clone(),
        body: body.clone(),
        worth: Worth::Kept,
    };
    let number = edge.recorder.request(&sent);
    if is_renewal(&sent) && edge.life.has_sent(Upon::Renewal) {
        edge.desk.strike(FaultName::Pause, "upon a renewal");
        edge.recorder.turn(edge.life.who(), "paused");
    }
    let request = Request::from_parts(head, Body::from(body));
    let answer = edge.way.clone().oneshot(request).await;
    edge.desk.gather_met();
    let outcome = carried_out(fate.served());
    let whole = match answer {
        Ok(response) if is_watch(&sent, response.status()) => {
            let told = is_awaited(&edge.life, &to).then(|| (response.status().as_u16(), Bytes::new()));
            edge.recorder.answer(&sent, number, told, outcome);
            let stream = stream::recorded(
                response,
                edge.recorder.clone(),
                edge.desk.clone(),
                edge.life.who(),
                number,
            );
            Ok(stream)
        }
        Ok(response) => match whole(response).await {
            Ok(response) => {
                let body = response.body().clone();
                let told = is_awaited(&edge.life, &to).then(|| (response.status().as_u16(), body));
                edge.recorder.answer(&sent, number, told, outcome);
                Ok(response.map(Body::from))
            }
            Err(error) => {
                edge.recorder.answer(&sent, number, None, outcome);
                Err(error)
            }
        },
        Err(error) => {
            edge.recorder.answer(&sent, number, None, outcome);
            Err(error)
        }
    };
    if is_awaited(&edge.life, &to) {
        // A sender that went away in between no longer wants it.
        let _ = to.send(whole);
    }
}

fn is_renewal(sent: &Sent) -> bool {
    sent.method == Method::PUT && sent.uri.path().ends_with(LEADER_LEASE)
}

fn is_watch(sent: &Sent, status: StatusCode) -> bool {
    let query = sent.uri.query().unwrap_or_default();
    status.is_success()
        && form_urlencoded::parse(query.as_bytes())
            .any(|(key, value)| key == "watch" && matches!(&*value, "true" | "1"))
}

async fn whole(response: Response<Body>) -> Result<Response<Bytes>, BoxError> {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await?;
    Ok(Response::from_parts(head, body))
}
