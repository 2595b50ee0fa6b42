//! The life of NodeClaims: for each, the machine is bought, followed until it is a Node, and given back.
//!
//! Level-triggered and free of memory: each pass reads the claim anew (a consistent read, no cache), observes what its
//! next step hangs on, and carries that step out; the answer of every write is what the following step is computed
//! from. Two replicas at once do no harm: every write carries the resourceVersion it was computed from, and the
//! machine's name is unique.

mod act;
mod addresses;
mod attempts;
mod census;
mod depart;
mod departures;
mod launches;
mod market;
mod nodes;
mod observe;
mod purchase;
mod requests;
mod roll;
mod tokens;
mod upkeep;
mod user_data;
mod write;

use std::sync::Arc;

use futures::{TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, reflector::reflector, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::OnceCell;

use super::context::Context;
use super::guard::Guard;
use super::pace::Pace;
use super::passes;
use super::preemption;
use crate::api::{NodeClaim, names};
use crate::bootstrap::Version;
use crate::cloud::{self, ClusterId};
use crate::controllers::credentials::MintError;
use crate::controllers::definitions::DROPPED;
use crate::controllers::node_class::ReadError;
use crate::controllers::unavailable;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{self, Step};
use act::Outcome;
use attempts::Attempts;
use departures::Departures;
use market::Market;
use observe::Known;
pub(super) use observe::look;
use requests::Requests;
use roll::Roll;
use tokens::Tokens;
use upkeep::{Due, Upkeep};

/// Claims that are worked on at once. Each waits for the cloud most of the time, and all of them for the same budget of
/// ten requests a second. An order must be sent within five seconds of the read that it rests on, or is made anew: so no
/// more claims may be before theirs than the budget serves in that time, and each needs two requests there, the look-up
/// by name and the order. That is arithmetic and no measurement; a thousand claims at once are each ordered once with it.
const CONCURRENCY: u16 = 24;

/// Steps in one pass, before other claims get their turn. A purchase takes four, and two more for each offering that is
/// short.
const STEPS_MAX: usize = 12;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not answer.
    #[error("{doing}: {source}")]
    Kube {
        /// What was being done.
        doing: &'static str,
        /// Why it was not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The cloud refused or did not answer.
    #[error("{doing}: {source}")]
    Cloud {
        /// What was being done.
        doing: &'static str,
        /// Why it was not.
        #[source]
        source: cloud::Error,
    },
    /// There is no credential for the machine.
    #[error(transparent)]
    Credential(Box<MintError>),
    /// What is not to be had could not be withheld.
    #[error(transparent)]
    Withhold(Box<unavailable::Error>),
    /// Nobody knows yet what is withheld.
    #[error("it is not known yet what is withheld")]
    HoldsUnknown,
    /// Another process may be allocating there.
    #[error("the Lease of zone {0} is not held")]
    ZoneNotHeld(String),
    /// The API server's version cannot be read.
    #[error("the API server says it is {0:?}, which is no version")]
    Version(String),
    /// The class is not resolved yet, so nobody knows what to buy.
    #[error("IBMNodeClass {0} is not resolved yet")]
    ClassUnresolved(String),
    /// The intent to buy was not kept by the API server: nothing may be bought.
    #[error("{}", DROPPED)]
    ForeignDefinitions,
}

impl Error {
    /// What was being done when the Kubernetes API failed.
    fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube {
            doing,
            source: Box::new(source),
        }
    }

    /// What was being done when the cloud failed.
    fn cloud(doing: &'static str) -> impl FnOnce(cloud::Error) -> Self {
        move |source| Self::Cloud { doing, source }
    }
}

impl From<preemption::Error> for Error {
    fn from(error: preemption::Error) -> Self {
        match error {
            preemption::Error::Withhold(source) => Self::Withhold(Box::new(source)),
            preemption::Error::Kube(source) => Self::kube("telling that the machine was taken back")(source),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        let doing = "reading the node class";
        match error {
            ReadError::Kube(source) => Self::kube(doing)(source),
            ReadError::Cloud(source) => Self::Cloud { doing, source },
            ReadError::Unresolved(class) => Self::ClassUnresolved(class),
        }
    }
}

/// What passes share.
struct Shared {
    context: Context,
    cluster: ClusterId,
    pace: Pace,
    attempts: Attempts,
    departures: Departures,
    market: Market,
    roll: Roll,
    requests: Requests,
    tokens: Tokens,
    upkeep: Upkeep,
    version: OnceCell<Version>,
}

impl Shared {
    /// The version of the API server, read once: a kubelet may be older than its server, and a server that is upgraded
    /// is one that we are started anew under sooner or later.
    async fn version(&self) -> Result<Version, Error> {
        let read = || async {
            let info = self.context.client.apiserver_version().await;
            let info = info.map_err(Error::kube("reading the version of the API server"))?;
            let version = info.git_version.parse();
            version.map_err(|_| Error::Version(info.git_version))
        };
        self.version.get_or_try_init(read).await.copied()
    }

    /// What must be forgotten of a claim that is gone.
    fn forget(&self, claim: &NodeClaim) {
        self.context.definitions.forget(claim);
        self.attempts.forget(claim);
        self.departures.forget(claim);
        self.tokens.forget(claim);
        self.upkeep.forget(claim);
        self.pace.forget(&claim.name_any());
    }
}

/// Looks after all NodeClaims, for as long as this is polled.
///
/// kube's `Controller` runs each pass in a task of its own, which would go on while the replica is paused; its
/// `applier`, on which it is built, does not.
pub async fn run(context: Context, cluster: ClusterId) {
    let client = context.client.clone();
    let (store, writer) = reflector::store();
    let claims = watcher(Api::<NodeClaim>::all(client.clone()), watcher::Config::default());
    let claims = reflector(writer, claims)
        .default_backoff()
        .touched_objects()
        .map_ok(|claim| ObjectRef::from_obj(&claim));
    // A Node has its claim's name.
    let (upkeep, writer) = Upkeep::new();
    let nodes = watcher(Api::<Node>::all(client), watcher::Config::default()).modify(upkeep::reduce);
    let nodes = reflector(writer, nodes)
        .default_backoff()
        .touched_objects()
        .map_ok(|node| ObjectRef::new(&node.name_any()));
    let shared = Arc::new(Shared {
        pace: Pace::new(context.entropy.clone()),
        attempts: Attempts::default(),
        departures: Departures::default(),
        market: Market::default(),
        roll: Roll::default(),
        requests: Requests::default(),
        tokens: Tokens::default(),
        upkeep,
        version: OnceCell::new(),
        context,
        cluster,
    });
    let guard = Guard::new(&shared.context, "nodeclaim");
    let passes = applier(
        move |claim, shared| {
            let pass = reconcile(Arc::clone(&claim), shared);
            Box::pin(guard.clone().pass(claim, pass))
        },
        slow_down,
        Arc::clone(&shared),
        store,
        // A watch that fails is begun again, after a while: the stream goes on.
        stream::select(claims, nodes),
        controller::Config::default().concurrency(CONCURRENCY),
    );
    let record = shared.market.launches.keep(&shared.context);
    // Neither ends: where one does, both are begun anew.
    tokio::select! {
        biased;
        () = passes::tell("claim", passes) => {}
        () = record => {}
    }
}

/// One pass over one claim.
async fn reconcile(cached: Arc<NodeClaim>, shared: Arc<Shared>) -> Result<Action, Error> {
    if is_settled(&cached) {
        match shared.upkeep.due(&cached, shared.context.clock.instant()) {
            Due::Never => return Ok(Action::await_change()),
            Due::In(wait) => return Ok(Action::requeue(wait)),
            Due::Now => {}
        }
    }
    let Some(mut known) = Known::read(&shared.context, &cached.name_any()).await? else {
        shared.forget(&cached);
        return Ok(Action::await_change());
    };
    for _ in 0..STEPS_MAX {
        let followed_for = shared
            .attempts
            .follow(&known.claim, shared.context.clock.instant());
        known.moment = shared.market.censuses.moment();
        let mut seen = observe::observe(&shared, &known, followed_for).await?;
        let (limits, now) = (&shared.context.settings.limits, shared.context.clock.now());
        let step = lifecycle::next(&known.claim, &seen.observed, limits, now);
        match carry_out(&shared, &known, &seen, step).await? {
            Outcome::Again(next) => {
                if let Some(turn) = &mut seen.turn {
                    turn.note(&next.claim, shared.market.censuses.moment());
                }
                known = *next;
            }
            Outcome::At(at) => {
                shared.pace.forget(&cached.name_any());
                return Ok(Action::requeue(crate::clock::between(
                    shared.context.clock.now(),
                    at,
                )));
            }
            Outcome::Patience => return Ok(Action::requeue(shared.pace.wait(&cached.name_any()))),
            Outcome::Rest => {
                shared.pace.forget(&cached.name_any());
                return Ok(Action::await_change());
            }
        }
    }
    Ok(Action::requeue(std::time::Duration::ZERO))
}

async fn carry_out(
    shared: &Shared,
    known: &Known,
    seen: &observe::Seen,
    step: Step,
) -> Result<Outcome, Error> {
    let name = step.name();
    tracing::debug!(claim = known.claim.name_any(), step = name, "next step");
    let outcome = act::act(shared, known, seen, step).await;
    match &outcome {
        Ok(_) => shared.context.metrics.stepped(name),
        Err(_) => shared.context.metrics.failed(name),
    }
    outcome
}

/// Whether nothing is left to do for a claim but to keep its Node as it is. Conditions only ever become true, so a cache
/// may say it, and every heartbeat of a Node is over with this.
fn is_settled(claim: &NodeClaim) -> bool {
    !claim.is_deleting() && claim.has_finalizer() && claim.is(names::NODE_INITIALIZED)
}

/// When a pass that failed is repeated.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's applier asks for"
)]
fn slow_down(claim: Arc<NodeClaim>, error: &Error, shared: Arc<Shared>) -> Action {
    let name = claim.name_any();
    let patience = shared.pace.wait(&name);
    let wait = match error {
        // Somebody else wrote, and the watch or the next read shows what.
        Error::Kube { source, .. } if is_gone(source) => return Action::await_change(),
        Error::Cloud {
            source: cloud::Error::RateLimited { until, .. },
            ..
        } => patience.max(until.saturating_duration_since(shared.context.clock.instant())),
        // It may have happened all the same, and show only when the visibility delay has passed.
        Error::Cloud { source, .. } if source.effect() == cloud::Effect::Unknown => {
            patience.max(shared.context.settings.limits.visibility)
        }
        _ => patience,
    };
    Action::requeue(wait)
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}
