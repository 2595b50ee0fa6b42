//! Compares cloud and cluster every two minutes, both ways, and removes what nobody answers for.
//!
//! An error is not an absence. A sweep is void unless every page of every list was read. The cloud is read first and
//! the claims after it, from the API server itself, so a claim made meanwhile is seen. What looks like garbage must
//! look so again half a minute later, on reads made anew, and must have an age. A machine is ours only by name and
//! resource group, and is looked at once more by its id before it is deleted by its id.
//!
//! A machine whose Node is ready works for somebody: it is reported and never collected; nor is the claim of a ready Node
//! given up because the cloud does not know its machine. More machines of nobody than a few, or what is left of so many, mean
//! that the cluster has forgotten them (a backup was restored, a definition removed); more claims without a machine that the
//! cloud is asked with the wrong key; more without a Node that somebody forces Nodes out. Then the sweep stops until a person
//! confirms exactly these, by an annotation on a class.

mod breaker;
mod collect;
mod view;

use std::collections::BTreeSet;

use kube::Api;
use kube::api::ListParams;

use super::context::{Collecting, Context};
use crate::api::IBMNodeClass;
use crate::cloud::{self, ClusterId};
use crate::controllers::node_class::group_of;
use crate::controllers::unavailable;
pub(super) use breaker::Verdict;
pub(super) use view::Counts;
use view::{Garbage, View};

/// Why a sweep is void.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API did not say all.
    #[error("reading the cluster: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say all.
    #[error("reading the cloud: {0}")]
    Cloud(#[from] cloud::Error),
    /// What a machine was could not be withheld before the machine goes.
    #[error(transparent)]
    Withhold(#[from] unavailable::Error),
}

/// Sweeps, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    // At once after a start: what the last life left behind has waited long enough.
    loop {
        if let Err(error) = sweep(&context, cluster).await {
            tracing::warn!(%error, "a sweep is void");
        }
        context.clock.sleep(context.settings.sweep_every).await;
    }
}

/// One sweep: looks, waits, looks again, and removes what was garbage both times.
pub async fn sweep(context: &Context, cluster: ClusterId) -> Result<(), Error> {
    let first = View::read(context, cluster).await?;
    let first = first.garbage(context).await?;
    if first.is_empty() {
        context.metrics.found_garbage(&first.counts());
        context.metrics.collection_stopped(Verdict::Go);
        return Ok(());
    }
    let first = first.confirmed(context).await?;
    context.clock.sleep(context.settings.sweep_again_after).await;
    let view = View::read(context, cluster).await?;
    let classes = view.classes.clone();
    let population = view.population();
    let second = view.garbage(context).await?;
    let second = second.among(&first).confirmed(context).await?;
    context.metrics.found_garbage(&second.counts());
    if context.settings.collecting == Collecting::Report {
        collect::report(context, &classes, &second).await;
        return Ok(());
    }
    let verdict = breaker::judge(&second, population, &classes);
    context.metrics.collection_stopped(verdict);
    match verdict {
        Verdict::Go => collect::collect(context, &classes, second).await,
        Verdict::Stop => {
            collect::alert(context, &classes, &second, population).await;
            Ok(())
        }
    }
}

/// Tells of a machine of nobody that is deleted elsewhere, or left there, as configured. It is not deleted when this fails.
pub(super) async fn tell_of_orphan(
    context: &Context,
    reason: &'static str,
    note: String,
    id: &str,
) -> Result<(), Error> {
    let classes = classes(context).await?;
    Ok(collect::try_tell(context, &classes, reason, note, id.to_owned()).await?)
}

/// All classes.
async fn classes(context: &Context) -> Result<Vec<IBMNodeClass>, Error> {
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    Ok(classes.list(&ListParams::default()).await?.items)
}

/// The resource groups of our machines: those of all classes.
pub(super) async fn groups(context: &Context) -> Result<BTreeSet<String>, Error> {
    groups_of(context, &classes(context).await?).await
}

async fn groups_of(context: &Context, classes: &[IBMNodeClass]) -> Result<BTreeSet<String>, Error> {
    let mut groups = BTreeSet::new();
    for class in classes {
        groups.extend(group_of(context, class).await?);
    }
    Ok(groups)
}
