//! What follows wherever it is seen that the cloud takes a spot machine back: by the interruption controller, by a claim
//! that waits for its machine to run, or by one that goes anyway.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};

use super::context::Context;
use super::events::{Kind, Story, Told};
use super::unavailable::{self, Cause};
use crate::api::{CapacityType, Gpus, NodeClaim, OfferingKey, names};
use crate::cloud::Machine;

/// Why not all of it was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The offering could not be withheld.
    #[error(transparent)]
    Withhold(#[from] unavailable::Error),
    /// It could not be told.
    #[error("telling that a machine was taken back: {0}")]
    Kube(#[from] kube::Error),
}

/// The cloud took the machine of a claim back: withholds what it was, and tells of it. The machine is the proof, and goes
/// only when this is done.
pub(super) async fn report(context: &Context, claim: &NodeClaim, machine: &Machine) -> Result<(), Error> {
    withhold(context, machine, Cause::Preempted).await?;
    Ok(tell(context, claim, machine).await?)
}

/// Tells on a claim and on its Node that the cloud took their machine back: each once, whoever does this and however often.
pub(super) async fn tell(context: &Context, claim: &NodeClaim, machine: &Machine) -> kube::Result<()> {
    if let Some(node) = node_of(context, claim).await? {
        context.events.try_tell(&node, story(context, machine)).await?;
    }
    // Last, so that what is counted was told to all.
    if context.events.try_tell(claim, story(context, machine)).await? == Told::Now {
        context.metrics.interrupted("preempted");
    }
    Ok(())
}

/// Keeps what a machine is from being bought while it stops, unless it is withheld already.
pub(super) async fn suspect(context: &Context, machine: &Machine) -> Result<(), unavailable::Error> {
    let now = context.clock.now();
    let (spot, gpus) = (CapacityType::Spot, Gpus::Absent);
    let withheld = context.unavailable.snapshot(now);
    let is_withheld = withheld.is_some_and(|it| {
        it.hold(spot, &machine.profile, &machine.zone, gpus, now)
            .is_some()
    });
    if is_withheld {
        return Ok(());
    }
    withhold(context, machine, Cause::Stopping).await
}

/// Withholds what the machine really is, which is not always what its claim or labels say.
pub(super) async fn withhold(
    context: &Context,
    machine: &Machine,
    cause: Cause,
) -> Result<(), unavailable::Error> {
    match OfferingKey::one(CapacityType::Spot, &machine.profile, &machine.zone) {
        Ok(key) => context.unavailable.withhold(&key, cause).await.map(drop)?,
        Err(error) => tracing::warn!(%error, id = machine.id, "an offering cannot be withheld"),
    }
    Ok(())
}

/// The Node of a claim's machine, if it has joined.
pub(super) async fn node_of(context: &Context, claim: &NodeClaim) -> kube::Result<Option<Node>> {
    let provider_id = |node: &Node| node.spec.as_ref()?.provider_id.clone();
    let ours = claim.status.as_ref().and_then(|it| it.provider_id.clone());
    if ours.is_none() {
        return Ok(None);
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    let node = nodes.get_opt(&claim.name_any()).await?;
    Ok(node.filter(|node| provider_id(node) == ours))
}

/// What is told of it, on the claim and on the Node: the same words whoever tells them, so they are told once.
fn story(context: &Context, machine: &Machine) -> Story {
    let hold = context.settings.holds.preempted;
    Story {
        kind: Kind::Warning,
        reason: names::REASON_SPOT_PREEMPTION,
        action: "Delete",
        note: format!(
            "Spot instance preempted by IBM Cloud: {} in {} is not bought as spot for {}",
            machine.profile,
            machine.zone,
            minutes(hold)
        ),
        transition: machine.id.clone(),
    }
}

fn minutes(length: Duration) -> String {
    match length.as_secs() {
        seconds if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}
