//! A plan for a situation, whatever is in it.
//!
//! Where planning panics, what it panics at (pods that wait, a node with its pods, a DaemonSet, a volume, a pool) is found
//! by halving (`poison`) and left out. A few plans more, and everybody else is served.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::ObjectReference;

use super::poison::{self, Kept, Kind};
use super::{Error, part};
use crate::cluster::{Situation, Unfit};
use crate::controllers::context::Context;
use crate::model::Snapshot;
use crate::panics::Panicked;
use crate::scheduling::{Options, Plan};

/// A situation and the plan for it.
#[derive(Debug)]
pub(super) struct Solved {
    /// Without what was left out.
    pub(super) situation: Situation,
    pub(super) plan: Plan,
    pub(super) poisoned: Vec<Poisoned>,
}

/// An object that no plan can be made with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Poisoned {
    pub(super) object: ObjectReference,
    /// What the panic said.
    pub(super) said: String,
}

/// Plans for everything that can be planned for, but for what is called by one of these names (`part::key`).
pub(super) async fn solve(
    context: &Context,
    situation: Situation,
    out: &BTreeSet<String>,
) -> Result<Solved, Error> {
    let mut situation = situation;
    let mut poisoned = unfit(context, std::mem::take(&mut situation.unfit), out);
    let kept = part::all_but(&situation, out);
    if !out.is_empty() {
        situation = without_others(&situation, &kept);
    }
    let whole = Arc::new(std::mem::take(&mut situation.snapshot));
    let first = plan(context, whole.clone()).await;
    // Nobody else has it: the plan is made.
    situation.snapshot = Arc::try_unwrap(whole).unwrap_or_else(|shared| (*shared).clone());
    let plan = match first {
        Ok(plan) => plan,
        Err(panicked) => {
            context.metrics.panicked("provisioning");
            tracing::error!(%panicked, "planning for pods: looking for what it is about");
            let (rest, bad) = without_poison(context, situation).await;
            (situation, poisoned) = (rest, poisoned.into_iter().chain(bad).collect());
            plan(context, Arc::new(situation.snapshot.clone())).await?
        }
    };
    Ok(Solved {
        situation,
        plan,
        poisoned,
    })
}

/// What could not even be put together with everything else: it is not in the situation. What is out anyway was told before.
fn unfit(context: &Context, unfit: Vec<Unfit>, out: &BTreeSet<String>) -> Vec<Poisoned> {
    let news = unfit
        .into_iter()
        .filter(|it| !out.contains(&part::key(&it.object)));
    let told = news.map(|Unfit { object, panicked }| {
        let Panicked(said) = panicked;
        context.metrics.panicked("provisioning");
        tracing::error!(
            object = part::key(&object),
            said,
            "it cannot be looked at: it is left out"
        );
        Poisoned { object, said }
    });
    told.collect()
}

async fn plan(context: &Context, snapshot: Arc<Snapshot>) -> Result<Plan, Panicked> {
    let options: Options = context.settings.planning;
    context
        .compute
        .plan(snapshot, options, &context.clock, context.settings.planning_max)
        .await
}

async fn without_poison(context: &Context, situation: Situation) -> (Situation, Vec<Poisoned>) {
    let all = part::all_but(&situation, &BTreeSet::new());
    let snapshot = &situation.snapshot;
    let trial = |kept: Kept| {
        async move {
            let part = Arc::new(part::part(snapshot, &kept));
            plan(context, part).await.map(|_| ())
        }
        .boxed()
    };
    let bad = poison::find(&all, &trial).await;
    let mut kept = all;
    let mut poisoned = Vec::new();
    for (thing, Panicked(said)) in bad {
        kept.remove(&thing);
        for object in part::objects(&situation, thing) {
            tracing::error!(
                object = part::key(&object),
                said,
                "nothing can be planned with it: it is left out"
            );
            let said = said.clone();
            poisoned.push(Poisoned { object, said });
        }
    }
    (without_others(&situation, &kept), poisoned)
}

/// A situation with nothing but these things.
fn without_others(situation: &Situation, kept: &Kept) -> Situation {
    Situation {
        snapshot: part::part(&situation.snapshot, kept),
        pools: part::some(&situation.pools, |at| kept.contains(&(Kind::Pool, at))),
        daemons: part::some(&situation.daemons, |at| kept.contains(&(Kind::Daemon, at))),
        held: situation.held.clone(),
        in_vain: situation.in_vain.clone(),
        given_up: situation.given_up.clone(),
        unfit: Vec::new(),
    }
}
