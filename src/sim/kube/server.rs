//! The server: takes a request apart, asks who sends it and whether they may, and hands it to its verb.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::TryStreamExt;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, header};
use serde_json::Value;

use super::admission::quota;
use super::admission::webhooks::Webhooks;
use super::identity::{self, Identity, Keys, User, policy, reviews};
use super::kind::{Kind, Scope, Verbs};
use super::refusal::{About, Refusal};
use super::registry::Registry;
use super::request::{Ask, Verb};
use super::store::Store;
use super::usage::Usage;
use super::{collector, delete, discovery, patch, read, subresource, warning, watching, write};
use crate::clock::Clock;

/// The largest request body, as etcd's default allows.
const BODY_BYTES_MAX: usize = 3 << 20;

/// An embedded Kubernetes API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: Clock,
    rng: Mutex<fastrand::Rng>,
    identity: Identity,
    usage: Mutex<Usage>,
    watching: watching::Control,
    webhooks: Webhooks,
    auditor: Mutex<Option<Arc<dyn Auditor>>>,
}

/// Sees every request, also one that is refused at once, as the audit log of a real server does, and what watches deliver.
pub trait Auditor: Send + Sync {
    /// A request was answered. Gives the number under which the lines of a watch are to be shown, if they are.
    fn answered(&self, audit: &Audit<'_>) -> Option<u64>;

    /// A watch delivered a line.
    fn delivered(&self, user: &User, number: u64, line: &Bytes);
}

/// A request, answered.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    /// Who asked for it; nobody in particular if that could not be believed.
    pub user: &'a User,
    /// How.
    pub method: &'a http::Method,
    /// On what.
    pub uri: &'a http::Uri,
    /// What it says; nothing if it was refused before that was read.
    pub body: &'a Bytes,
    /// The status of the answer.
    pub status: u16,
    /// What the answer says; empty for a watch, whose lines come later.
    pub answer: &'a Bytes,
}

/// Everything that requests read and change.
#[derive(Debug, Default)]
pub struct State {
    /// The objects.
    pub store: Store,
    /// The kinds.
    pub registry: Registry,
    /// Who may do what, worked out from the objects.
    pub policy: policy::Cache,
    /// The revision up to which quotas have counted.
    pub counted: u64,
}

/// How a server is made.
#[derive(Clone)]
pub struct Options {
    /// Its clock.
    pub clock: Clock,
    /// Where its uids and name suffixes come from.
    pub seed: u64,
    /// Where its private keys come from.
    pub keys: Keys,
}

impl ApiServer {
    /// A new cluster with the namespaces, roles and accounts that every cluster has.
    pub fn new(options: Options) -> Self {
        let server = Self(Arc::new(Inner {
            state: Mutex::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(options.seed)),
            identity: Identity::new(options.keys),
            clock: options.clock,
            usage: Mutex::default(),
            watching: watching::Control::default(),
            webhooks: Webhooks::default(),
            auditor: Mutex::default(),
        }));
        super::bootstrap::populate(&server);
        server
    }

    /// The server as a tower service: for `kube::Client::new` and for TCP alike.
    pub fn router(&self) -> Router {
        Router::new().fallback(handle).with_state(self.clone())
    }

    /// Looks at or changes the state; held only for as long as `with` runs.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Who may do what, and how they prove who they are.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// How watchers are held back on purpose.
    pub fn watching(&self) -> &watching::Control {
        &self.0.watching
    }

    /// The webhook servers that it can reach without a network.
    pub fn webhooks(&self) -> &Webhooks {
        &self.0.webhooks
    }

    /// Shows every later request to `auditor`, in place of the one before.
    pub fn audit(&self, auditor: Arc<dyn Auditor>) {
        *self.0.auditor.lock().unwrap_or_else(PoisonError::into_inner) = Some(auditor);
    }

    /// Which verbs on which resources were used, by whom.
    pub fn usage(&self) -> Usage {
        self.0
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Collects what the last write left behind, and tells watchers that something was written.
    pub fn announce(&self) {
        let mut state = self.state();
        collector::collect(&mut state, &self.0.clock);
        quota::recount(&mut state);
        state.store.announce();
    }

    /// A fresh uid.
    pub fn new_uid(&self) -> String {
        let mut rng = self.0.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let (high, low) = (rng.u64(..), rng.u64(..));
        let (high, low) = ((high & !0xf000) | 0x4000, (low & (u64::MAX >> 2)) | (1 << 63));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Five random characters, as `generateName` appends them: no vowels, nothing that looks like a digit.
    pub fn new_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut rng = self.0.rng.lock().unwrap_or_else(PoisonError::into_inner);
        (0..5)
            .map(|_| char::from(ALPHABET[rng.usize(..ALPHABET.len())]))
            .collect()
    }

    /// Now, as timestamps in metadata are written: whole seconds.
    pub fn timestamp(&self) -> String {
        let now = self.0.clock.now();
        let whole = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        whole.to_string()
    }
}

/// Each request runs in a task of its own: a client that vanishes never undoes or halves a write.
async fn handle(Shared(server): Shared<ApiServer>, request: Request<Body>) -> Response {
    // Boxed: spawning moves a future several times.
    match tokio::spawn(Box::pin(async move { server.answer(request).await })).await {
        Ok(response) => response,
        Err(_) => Refusal::internal("the request handler panicked").into_response(),
    }
}

impl ApiServer {
    async fn answer(&self, request: Request<Body>) -> Response {
        warning::with_warnings(self.answer_audited(request)).await
    }

    async fn answer_audited(&self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let mut heard = Heard::default();
        let (user, answer) = match identity::authenticate(self, &parts) {
            Ok(user) => {
                let answer = self.try_answer(&user, &parts, body, &mut heard).await;
                (user, answer)
            }
            Err(refusal) => (User::anonymous(), Err(refusal)),
        };
        let Some(auditor) = self.auditor() else {
            return answer.unwrap_or_else(IntoResponse::into_response);
        };
        let asked = Asked {
            user: &user,
            parts: &parts,
            heard: &heard,
        };
        asked.audited(auditor, answer).await
    }

    async fn try_answer(
        &self,
        user: &User,
        parts: &Parts,
        body: Body,
        heard: &mut Heard,
    ) -> Result<Response, Refusal> {
        let Some(ask) = Ask::parse(parts) else {
            identity::authorize_path(self, user, &parts.method, parts.uri.path())?;
            return discovery::answer(self, user, parts);
        };
        let mut ask = ask?;
        // Before anything is known about the kind: who may not ask does not learn whether it exists.
        identity::authorize(self, user, &ask)?;
        let target = &ask.target;
        let kind = self
            .state()
            .registry
            .find(&target.group, &target.version, &target.plural);
        let Some(kind) = kind else {
            let known = self.state().registry.has_group(&target.group);
            return if known {
                Err(Refusal::no_such_path())
            } else {
                Ok(nowhere())
            };
        };
        if let Some(subresource) = &target.subresource
            && !kind.has_subresource(subresource)
        {
            return Err(Refusal::no_such_path());
        }
        check_scope(&kind, &ask)?;
        if kind.verbs == Verbs::CreateOnly && ask.verb != Verb::Create {
            return Err(Refusal::method_not_allowed());
        }
        self.record(user, &ask);
        heard.body = to_bytes(body, BODY_BYTES_MAX)
            .await
            .map_err(|_| Refusal::too_large(format!("the body is longer than {BODY_BYTES_MAX} bytes")))?;
        heard.is_watch = ask.verb == Verb::Watch;
        self.dispatch(user, &kind, &mut ask, heard.body.clone()).await
    }

    fn auditor(&self) -> Option<Arc<dyn Auditor>> {
        let auditor = self.0.auditor.lock().unwrap_or_else(PoisonError::into_inner);
        auditor.clone()
    }

    async fn dispatch(
        &self,
        user: &User,
        kind: &Arc<Kind>,
        ask: &mut Ask,
        body: Bytes,
    ) -> Result<Response, Refusal> {
        // Boxed, here and below: the future of a request is moved before it runs, and most need none of these.
        if ask.target.subresource.is_some()
            && let Some(response) = Box::pin(subresource::answer(self, user, kind, ask, &body)).await?
        {
            return Ok(response);
        }
        if kind.verbs == Verbs::CreateOnly {
            return reviews::answer(self, user, kind, ask, &body);
        }
        match ask.verb {
            Verb::Get => read::get(self, user, kind, ask),
            Verb::List => read::list(self, user, kind, ask),
            Verb::Watch => watching::watch(self, user, kind, ask),
            Verb::Create => Box::pin(write::create(self, user, kind, ask, &body)).await,
            Verb::Update => Box::pin(write::update(self, user, kind, ask, &body)).await,
            Verb::Patch => Box::pin(patch::patch(self, user, kind, ask, &body)).await,
            Verb::Delete => Box::pin(delete::delete(self, user, kind, ask, &body)).await,
            Verb::DeleteCollection => Box::pin(delete::collection(self, user, kind, ask, &body)).await,
        }
    }

    fn record(&self, user: &User, ask: &Ask) {
        self.0
            .usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record(&user.name, ask);
    }
}

/// What was understood of a request by the time it was answered.
#[derive(Default)]
struct Heard {
    body: Bytes,
    is_watch: bool,
}

/// A request, as an auditor is told of it.
struct Asked<'a> {
    user: &'a User,
    parts: &'a Parts,
    heard: &'a Heard,
}

impl Asked<'_> {
    /// Shows the auditor what was asked and answered; the answer is the same afterwards.
    async fn audited(self, auditor: Arc<dyn Auditor>, answer: Result<Response, Refusal>) -> Response {
        let response = answer.unwrap_or_else(IntoResponse::into_response);
        if self.heard.is_watch && response.status().is_success() {
            return match self.tell(&*auditor, response.status(), &Bytes::new()) {
                Some(number) => shown(auditor, self.user.clone(), number, response),
                None => response,
            };
        }
        let (parts, body) = response.into_parts();
        // Whole in memory already: it cannot fail.
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        self.tell(&*auditor, parts.status, &body);
        Response::from_parts(parts, Body::from(body))
    }

    fn tell(&self, auditor: &dyn Auditor, status: StatusCode, answer: &Bytes) -> Option<u64> {
        auditor.answered(&Audit {
            user: self.user,
            method: &self.parts.method,
            uri: &self.parts.uri,
            body: &self.heard.body,
            status: status.as_u16(),
            answer,
        })
    }
}

/// A watch, each of whose lines the auditor sees when the client takes it.
fn shown(auditor: Arc<dyn Auditor>, user: User, number: u64, response: Response) -> Response {
    response.map(|body| {
        let lines = body.into_data_stream();
        Body::from_stream(lines.inspect_ok(move |line| auditor.delivered(&user, number, line)))
    })
}

/// Objects in namespaces are made and deleted in theirs; all namespaces are never deleted at once.
fn check_scope(kind: &Kind, ask: &Ask) -> Result<(), Refusal> {
    let everywhere = kind.scope == Scope::Namespaced && ask.target.namespace.is_none();
    let namespaces = kind.group.is_empty() && kind.plural == "namespaces";
    match ask.verb {
        Verb::Create if everywhere => Err(Refusal::method_not_allowed()),
        Verb::DeleteCollection if everywhere || namespaces => Err(Refusal::method_not_allowed()),
        _ => Ok(()),
    }
}

/// What Go's own web server answers where nobody listens: below a group that does not exist.
fn nowhere() -> Response {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// What a refusal about this request's object names.
pub fn about<'a>(kind: &'a Kind, name: &'a str) -> About<'a> {
    About {
        group: &kind.group,
        kind: &kind.plural,
        name,
    }
}

/// An object as an answer.
pub fn json_response(code: StatusCode, body: &Value) -> Response {
    // Values have texts for keys, and memory takes every byte: it cannot fail.
    bytes_response(code, serde_json::to_vec(body).unwrap_or_default().into())
}

/// JSON that is encoded already, as an answer.
pub fn bytes_response(code: StatusCode, body: Bytes) -> Response {
    body_response(code, Body::from(body))
}

/// JSON that comes in pieces, as an answer.
pub fn body_response(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
