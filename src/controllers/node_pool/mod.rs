//! NodePools: what they have, whether they can be used, the hash of their template, and the claims of static ones.
//!
//! Looks at the index whenever something in it has changed. What is to be written is computed from a pool that was read
//! for it, and written only if it differs. One pool that cannot be looked after keeps no other waiting.

mod health;
pub mod readiness;
mod replicas;
mod stamp;
mod status;
mod unheard;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::context::Context;
use super::events::Story;
use super::guard::Guard;
use super::pace::Pace;
use super::provisioning::claim::{Wanted, manifest};
use crate::api::{IBMNodeClass, NodeClaim, NodePool};
use crate::cluster::{Index, State};
use crate::panics::{Panicked, words};
use health::{Health, Record};
use unheard::Unheard;

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-nodepool";
/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_secs(1);
/// How often pools are looked at although nothing has changed.
const EVERY: Duration = Duration::from_mins(5);
/// For so long what is wrong with a pool is tried to be told: an API server that restarts is back by then, and where nobody
/// may write events people must be able to read the status all the same.
const TELLING_MAX: Duration = Duration::from_secs(30);

/// Why a pool was not looked after.
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
    /// A decision about it failed.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Error {
    fn kube(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube {
            doing,
            source: Box::new(source),
        }
    }
}

/// What is remembered of pools from one pass to the next. A restart may forget it.
#[derive(Debug, Default)]
struct Memory {
    record: Record,
    unheard: Unheard,
}

/// Looks after all pools, for as long as this is polled.
pub async fn run(context: Context) {
    let pace = Pace::new(context.entropy.clone());
    let guard = Guard::new(&context, "nodepool");
    let mut memory = Memory::default();
    let mut state = context.cluster.subscribe();
    // The sender is the context's own: it does not go while we wait.
    _ = state.wait_for(State::is_whole).await;
    loop {
        // What changes while pools are looked after is looked at next, so the mark is read before.
        let seen = state.borrow_and_update().marks.supply;
        let wait = look_after_all(&context, &mut memory, &pace, &guard).await;
        tokio::select! {
            biased;
            () = supply_changes(&mut state, seen) => context.clock.sleep(TOGETHER).await,
            () = context.clock.sleep(wait) => {}
        }
    }
}

async fn supply_changes(state: &mut tokio::sync::watch::Receiver<State>, seen: u64) {
    _ = state.wait_for(|state| state.marks.supply != seen).await;
}

/// One pass over all pools; when the next one is due.
async fn look_after_all(context: &Context, memory: &mut Memory, pace: &Pace, guard: &Guard) -> Duration {
    let pools: Vec<NodePool> = context.cluster.with(|index| {
        let pools = index.pools.iter().map(|(_, pool)| pool);
        pools.filter(|pool| readiness::is_ours(pool)).cloned().collect()
    });
    let there: BTreeSet<String> = pools.iter().filter_map(ResourceExt::uid).collect();
    memory.record.keep(&there);
    memory.unheard.keep(&there);
    let mut next = EVERY;
    for pool in pools {
        let name = pool.name_any();
        let pass = std::panic::AssertUnwindSafe(look_after(context, &pool, memory)).catch_unwind();
        let ended = match Box::pin(pass).await {
            Ok(ended) => ended,
            Err(panic) => Err(Panicked(words(panic.as_ref())).into()),
        };
        match ended {
            Ok(()) => {
                pace.forget(&name);
                guard.well(&name);
                memory.unheard.forget(&pool.uid().unwrap_or_default());
            }
            Err(Error::Panicked(panicked)) => next = next.min(guard.report(&pool, &panicked).await),
            Err(error) => {
                tracing::warn!(pool = name, %error, "does not get on for now");
                next = next.min(pace.wait(&name));
            }
        }
    }
    next
}

async fn look_after(context: &Context, pool: &NodePool, memory: &mut Memory) -> Result<(), Error> {
    let class = class_of(context, pool);
    let health = context.cluster.with(|index| {
        let claims = status::claims_of(index, &pool.name_any());
        memory.record.look(pool, class.as_ref(), &claims)
    });
    if pool.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    stamp::pool(context, pool).await?;
    stamp::claims(context, pool).await?;
    let unheard = &mut memory.unheard;
    write_status(context, pool, class.as_ref(), health.as_ref(), unheard).await?;
    keep_replicas(context, pool).await
}

/// The class of a pool, as it is known.
fn class_of(context: &Context, pool: &NodePool) -> Option<IBMNodeClass> {
    let name = &pool.spec.template.spec.node_class_ref.name;
    context.cluster.with(|index| index.classes.get(name).cloned())
}

/// Writes what this controller owns of the status, if it differs from what is there. That a pool is not valid is told
/// first: whoever is cut off between the two tells it again, which is the same event. Once it is written it is no news, so
/// where it cannot be told the status waits for a while.
async fn write_status(
    context: &Context,
    known: &NodePool,
    class: Option<&IBMNodeClass>,
    health: Option<&Health>,
    unheard: &mut Unheard,
) -> Result<(), Error> {
    let used = context
        .cluster
        .with(|index| status::used(index, &known.name_any()));
    let now = context.clock.now();
    let wanted = |pool: &NodePool| {
        // What was found of a template says nothing of what somebody has made of it since.
        let health = health.filter(|_| pool.spec.template == known.spec.template);
        status::status(pool, class, &used, health.cloned(), now)
    };
    if wanted(known) == status::owned(known) {
        return Ok(());
    }
    let pools: Api<NodePool> = Api::all(context.client.clone());
    let read = pools.get_opt(&known.name_any()).await;
    let Some(pool) = read.map_err(Error::kube("reading the pool"))? else {
        return Ok(());
    };
    let status = wanted(&pool);
    // One that was changed or made anew meanwhile is left to the watch: what was noted before is no news, and no pass would
    // look at it.
    let note = |pool: &NodePool| {
        if is_same_version(pool, known) {
            context.cluster.with(|index| index.note(pool));
        }
    };
    if status == status::owned(&pool) {
        note(&pool);
        return Ok(());
    }
    if let Some(story) = status::news(&pool, &status) {
        tell(context, &pool, story, unheard).await?;
    }
    let body = json!({
        "apiVersion": NodePool::api_version(&()),
        "kind": NodePool::kind(&()),
        "metadata": {"name": pool.name_any(), "uid": pool.uid(), "resourceVersion": pool.resource_version()},
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let answer = pools
        .patch_status(&pool.name_any(), &params, &Patch::Apply(body))
        .await
        .map_err(Error::kube("writing the status"))?;
    note(&answer);
    Ok(())
}

/// Tells people of a pool, or asks for another try: but only for so long.
async fn tell(context: &Context, pool: &NodePool, story: Story, unheard: &mut Unheard) -> Result<(), Error> {
    let Err(error) = context.events.try_tell(pool, story).await else {
        return Ok(());
    };
    let failing_for = unheard.failing_for(&pool.uid().unwrap_or_default(), context.clock.instant());
    if failing_for < context.clock.real(TELLING_MAX) {
        return Err(Error::kube("telling what is wrong with it")(error));
    }
    tracing::warn!(%error, pool = pool.name_any(), "people are not told what is wrong with it");
    Ok(())
}

/// Makes and deletes claims of a static pool until there are as many as it asks for. How many that is was heard from a
/// watch, which may be late by minutes, while the claims are those of now: so nothing is done about a pool that is no
/// longer as it is known. What it has become is looked at when the watch tells of it.
async fn keep_replicas(context: &Context, pool: &NodePool) -> Result<(), Error> {
    if pool.spec.replicas.is_none()
        || readiness::judge(pool, class_of(context, pool).as_ref()) != readiness::Verdict::Ready
    {
        return Ok(());
    }
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    // One consistent read: what others made or deleted counts.
    let listed = claims.list(&kube::api::ListParams::default()).await;
    let listed = listed.map_err(Error::kube("listing the claims"))?;
    let now = context.clock.now();
    let change = context.cluster.with(|index| {
        index.settle(&listed);
        let index: &Index = index;
        let claims = status::claims_of(index, &pool.name_any());
        replicas::change(pool, &claims, |claim| replicas::burden(index, claim, now))
    });
    if change == replicas::Change::default() || !is_as_known(context, pool).await? {
        return Ok(());
    }
    for name in change.make {
        make(context, &claims, pool, name).await?;
    }
    for name in change.delete {
        delete(&claims, &listed.items, &name).await?;
    }
    Ok(())
}

/// Whether a pool still asks for what it is known to ask for.
async fn is_as_known(context: &Context, known: &NodePool) -> Result<bool, Error> {
    let pools: Api<NodePool> = Api::all(context.client.clone());
    let read = pools.get_opt(&known.name_any()).await;
    let read = read.map_err(Error::kube("reading the pool"))?;
    Ok(read.is_some_and(|pool| asks_the_same(&pool, known)))
}

fn asks_the_same(one: &NodePool, other: &NodePool) -> bool {
    let asks = |pool: &NodePool| (pool.spec.replicas, pool.metadata.deletion_timestamp.is_some());
    is_same_version(one, other) && asks(one) == asks(other)
}

/// Whether it is the same pool, and what people wrote in it is too. One that was made anew begins to count anew.
fn is_same_version(one: &NodePool, other: &NodePool) -> bool {
    one.uid() == other.uid() && one.metadata.generation == other.metadata.generation
}

async fn make(
    context: &Context,
    claims: &Api<NodeClaim>,
    pool: &NodePool,
    name: String,
) -> Result<(), Error> {
    // A pool that is ready has requirements with a meaning.
    let Ok(claim) = manifest(pool, name, &Wanted::default()) else {
        return Ok(());
    };
    match claims.create(&PostParams::default(), &claim).await {
        Ok(made) => {
            context.cluster.with(|index| index.note(&made));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(Error::kube("making a claim")(error)),
    }
}

async fn delete(claims: &Api<NodeClaim>, listed: &[NodeClaim], name: &str) -> Result<(), Error> {
    let Some(claim) = listed.iter().find(|claim| claim.name_any() == name) else {
        return Ok(());
    };
    let as_known = DeleteParams::default().preconditions(Preconditions {
        uid: claim.uid(),
        resource_version: claim.resource_version(),
    });
    match claims.delete(name, &as_known).await {
        Ok(_) => Ok(()),
        // It changed meanwhile or is gone: the next pass sees to it.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube("deleting a claim")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_was_scaled_replaced_or_deleted_is_not_as_it_is_known() {
        let pool = |uid: &str, generation: i64, replicas: Option<i64>| -> NodePool {
            serde_json::from_value(json!({
                "metadata": {"name": "p", "uid": uid, "generation": generation, "resourceVersion": "1"},
                "spec": {"replicas": replicas, "template": {"spec": {
                    "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
                }}},
            }))
            .unwrap()
        };
        let known = pool("u", 1, Some(3));
        let mut touched = known.clone();
        touched.metadata.resource_version = Some("2".to_owned());
        assert!(asks_the_same(&touched, &known), "its status was written");
        assert!(is_same_version(&touched, &known));
        let anew = pool("v", 1, Some(3));
        assert!(
            !is_same_version(&anew, &known),
            "what is noted of it would be no news when the watch tells of it"
        );
        let mut going = known.clone();
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-16T10:00:00Z")).unwrap();
        let others = [
            pool("u", 2, Some(5)),
            pool("v", 1, Some(3)),
            pool("u", 2, None),
            going,
        ];
        assert!(others.iter().all(|other| !asks_the_same(other, &known)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_while_pools_are_looked_after_is_not_missed() {
        let (changes, mut state) = tokio::sync::watch::channel(State::default());
        let seen = state.borrow_and_update().marks.supply;
        changes.send_modify(|state| state.marks.supply += 1);
        let told = tokio::time::timeout(Duration::from_secs(1), supply_changes(&mut state, seen));
        assert!(told.await.is_ok());
        let seen = state.borrow_and_update().marks.supply;
        let told = tokio::time::timeout(Duration::from_secs(1), supply_changes(&mut state, seen));
        assert!(told.await.is_err(), "and nothing else is told");
    }
}
