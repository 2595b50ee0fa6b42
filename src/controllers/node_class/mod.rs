//! Classes: what their names stand for is read from the cloud, judged, and written to their status.
//!
//! Observe (`facts`), decide (`judge`), act (`status`). A class is resolved when it changes and every few minutes, or
//! every minute while it cannot be used; what comes out is written only when it differs. A failed read proves nothing:
//! what was resolved before stands, and the status says that it is old. What the operator's owner does not allow is
//! refused before the cloud is asked.

mod allow;
mod facts;
mod group;
mod image;
pub mod joining;
mod judge;
pub mod launch;
mod leaving;
pub mod stamp;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, reflector::reflector, watcher};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::context::Context;
use super::guard::Guard;
use super::pace::Pace;
use super::passes;
use crate::api::{IBMNodeClass, IBMNodeClassStatus};
use crate::cloud::{self, ClusterId};
pub use allow::AllowLists;
use facts::Facts;
pub use group::group_of;
use judge::Verdict;
pub use launch::{ReadError, Resolved, read, usable};
use leaving::Leave;

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-nodeclass";
/// Classes that are worked on at once.
const CONCURRENCY: u16 = 4;
/// How long a class that cannot be used is left alone at most: pods wait for an image or a subnet to be there again, and
/// nobody tells of that. It takes less than ten requests, where ten a second may be sent.
const UNREADY_EVERY: Duration = Duration::from_mins(1);
/// How often a class that is deleted is looked at: nobody watches the claims for it.
const LEAVING_EVERY: Duration = Duration::from_secs(5);

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
    /// The cloud did not say what it has.
    #[error("resolving the class: {0}")]
    Cloud(#[from] cloud::Error),
}

impl Error {
    /// What was being done when the Kubernetes API failed.
    fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube {
            doing,
            source: Box::new(source),
        }
    }
}

/// What passes share.
struct Shared {
    context: Context,
    cluster: ClusterId,
    pace: Pace,
    /// When each class, by uid, is to be resolved again. Only pacing hangs on it, so a restart may forget it.
    again_at: Mutex<BTreeMap<String, Instant>>,
}

/// Looks after all classes, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let classes = Api::<IBMNodeClass>::all(context.client.clone());
    let (store, writer) = reflector::store();
    let classes = reflector(writer, watcher(classes, watcher::Config::default()))
        .default_backoff()
        .touched_objects()
        .map_ok(|class| ObjectRef::from_obj(&class));
    let shared = Arc::new(Shared {
        pace: Pace::new(context.entropy.clone()),
        again_at: Mutex::default(),
        context,
        cluster,
    });
    let guard = Guard::new(&shared.context, "nodeclass");
    let passes = applier(
        move |class, shared| {
            let pass = reconcile(Arc::clone(&class), shared);
            Box::pin(guard.clone().pass(class, pass))
        },
        slow_down,
        shared,
        store,
        classes,
        controller::Config::default().concurrency(CONCURRENCY),
    );
    passes::tell("class", passes).await;
}

/// One pass over one class.
async fn reconcile(cached: Arc<IBMNodeClass>, shared: Arc<Shared>) -> Result<Action, Error> {
    if let Some(rest) = shared.rest_of(&cached) {
        return Ok(Action::requeue(rest));
    }
    let context = &shared.context;
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let read = classes.get_opt(&cached.name_any()).await;
    let Some(class) = read.map_err(Error::kube("reading the class"))? else {
        shared.forget(&cached);
        return Ok(Action::await_change());
    };
    if class.metadata.deletion_timestamp.is_some() {
        return Ok(match leaving::leave(context, shared.cluster, &class).await? {
            Leave::Gone => Action::await_change(),
            Leave::Wait => Action::requeue(LEAVING_EVERY),
        });
    }
    let class = stamp::class(context, class).await?;
    stamp::claims(context, &class).await?;
    let now = context.clock.now();
    let rest = match resolve(context, &class).await {
        Ok(verdict) => {
            let rest = rest_after(&verdict, context.settings.resolve_every);
            write_status(context, &class, &status::judged(&class, verdict, now)).await?;
            rest
        }
        Err(error) => {
            write_status(context, &class, &status::unread(&class, &error, now)).await?;
            return Err(error.into());
        }
    };
    shared.pace.forget(&class.name_any());
    shared.note(&class, rest);
    Ok(Action::requeue(rest))
}

/// How long a verdict serves.
fn rest_after(verdict: &Verdict, resolve_every: Duration) -> Duration {
    if verdict.problems.is_empty() {
        resolve_every
    } else {
        resolve_every.min(UNREADY_EVERY)
    }
}

/// What the class stands for. The cloud is asked only about a class that may be used as it is written.
async fn resolve(context: &Context, class: &IBMNodeClass) -> Result<Verdict, cloud::Error> {
    let settings = &context.settings;
    let problems = judge::before_asking(class, &settings.region, &settings.allowed);
    if !problems.is_empty() {
        return Ok(Verdict {
            problems,
            ..Verdict::default()
        });
    }
    let facts = Facts::read(context.cloud.as_ref(), class).await?;
    let mut verdict = judge::judge(class, &facts, &settings.allowed);
    let image = verdict.image.as_ref().map(|(_, image)| image);
    let (problem, note) = (
        joining::problem(class, image, settings),
        joining::note(class, image),
    );
    verdict.problems.extend(problem);
    verdict.notes.extend(note);
    Ok(verdict)
}

/// Writes what this controller owns of the status, if it differs from what is there.
async fn write_status(
    context: &Context,
    class: &IBMNodeClass,
    status: &IBMNodeClassStatus,
) -> Result<(), Error> {
    if *status == status::owned(class) {
        return Ok(());
    }
    let body = json!({
        "apiVersion": IBMNodeClass::api_version(&()),
        "kind": IBMNodeClass::kind(&()),
        "metadata": {
            "name": class.name_any(), "uid": class.uid(), "resourceVersion": class.resource_version(),
        },
        "status": status,
    });
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let params = PatchParams::apply(MANAGER).force();
    classes
        .patch_status(&class.name_any(), &params, &Patch::Apply(body))
        .await
        .map(drop)
        .map_err(Error::kube("writing the status"))
}

impl Shared {
    /// How long nothing is to be done for a class, if nothing is to be done now: our own write of its status comes back
    /// by the watch, and is over with this.
    fn rest_of(&self, class: &IBMNodeClass) -> Option<Duration> {
        let is_settled = class.metadata.deletion_timestamp.is_none()
            && stamp::is_stamped(class)
            && class.readiness().is_some();
        let again_at = self.again_at.lock().unwrap_or_else(PoisonError::into_inner);
        let at = again_at.get(&class.uid()?).filter(|_| is_settled)?;
        let rest = at.saturating_duration_since(self.context.clock.instant());
        Some(rest).filter(|rest| !rest.is_zero())
    }

    fn note(&self, class: &IBMNodeClass, rest: Duration) {
        let mut again_at = self.again_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uid) = class.uid() {
            let clock = &self.context.clock;
            again_at.insert(uid, clock.instant() + clock.real(rest));
        }
    }

    fn forget(&self, class: &IBMNodeClass) {
        let mut again_at = self.again_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uid) = class.uid() {
            again_at.remove(&uid);
        }
        self.pace.forget(&class.name_any());
    }
}

/// When a pass that failed is repeated.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's applier asks for"
)]
fn slow_down(class: Arc<IBMNodeClass>, error: &Error, shared: Arc<Shared>) -> Action {
    let patience = shared.pace.wait(&class.name_any());
    let wait = match error {
        Error::Cloud(cloud::Error::RateLimited { until, .. }) => {
            patience.max(until.saturating_duration_since(shared.context.clock.instant()))
        }
        _ => patience,
    };
    Action::requeue(wait)
}
