//! What follows when a machine is taken away. Each function is a row of effects in an order in which a crash after any
//! of them loses nothing: whoever does them again does the rest, and what was done is found done.

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Error;
use crate::api::{NodeClaim, names};
use crate::cloud::{self, Machine, MachineStatus};
use crate::controllers::context::{Collecting, Context};
use crate::controllers::events::{Kind, Story};
use crate::controllers::garbage::tell_of_orphan;
use crate::controllers::preemption;
use crate::controllers::unavailable::Cause;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{is_marked, marked};

/// A spot machine is being switched off: its offering is not planned with for a moment, nobody is placed on its Node any
/// more, and who is there is planned for at once.
pub(super) async fn stopping(context: &Context, claim: &NodeClaim, machine: &Machine) -> Result<(), Error> {
    preemption::withhold(context, machine, Cause::Stopping).await?;
    if claim.is_deleting() {
        return Ok(());
    }
    set_aside(context, claim).await?;
    context.metrics.interrupted("stopping");
    context.hurry.notify_one();
    Ok(())
}

/// The cloud took the machine of a claim back. What it leaves is deleted by the claim's own end, at once: a dead machine
/// is not drained.
///
/// Whoever was there is planned for first: that must not wait for events, which may be refused while all else works.
pub(super) async fn preempted(context: &Context, claim: &NodeClaim, machine: &Machine) -> Result<(), Error> {
    preemption::withhold(context, machine, Cause::Preempted).await?;
    if !claim.is_deleting() {
        // The end of the claim says the same, so nothing else hangs on it.
        if let Err(error) = set_aside(context, claim).await {
            tracing::warn!(%error, claim = claim.name_any(), "a node whose machine is gone is not set aside");
        }
        context.hurry.notify_one();
    }
    // An event that is not written before the claim goes would never be: the proof goes with the machine.
    preemption::tell(context, claim, machine).await?;
    delete_claim(context, claim).await?;
    context.hurry.notify_one();
    Ok(())
}

/// Nobody is placed any more on the Node of a claim whose machine goes, and who is there is planned for elsewhere.
async fn set_aside(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    if !claim.annotations().contains_key(names::INTERRUPTED_SINCE) {
        let now = context.clock.now().to_string();
        annotate(context, claim, Some(now)).await?;
    }
    let node = preemption::node_of(context, claim).await?;
    if let Some(node) = node.filter(|node| !is_marked(node)) {
        let change = marked(&node);
        let patch = json!({
            "metadata": {"resourceVersion": change.resource_version, "labels": change.labels},
            "spec": {"taints": change.taints},
        });
        patch_node(context, &node, &patch).await?;
    }
    Ok(())
}

/// The cloud took a machine back that belongs to no claim. It is read once more, by id: a list may be old, and somebody may
/// have started it again or taken it for something else.
pub(super) async fn preempted_orphan(context: &Context, listed: &Machine) -> Result<(), Error> {
    let machine = match context.cloud.get(&listed.id).await {
        Ok(machine) => machine,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_the_same = machine.name == listed.name && machine.resource_group == listed.resource_group;
    if !is_the_same || !machine.is_preempted() {
        return Ok(());
    }
    let machine = &machine;
    preemption::withhold(context, machine, Cause::Preempted).await?;
    let what = format!("machine {} ({})", machine.id, machine.name);
    let why = "IBM Cloud took it back, and it belongs to no claim";
    if context.settings.collecting == Collecting::Report {
        let note = format!("{what}: {why}; nothing is collected, as configured");
        tell_of_orphan(context, names::REASON_GARBAGE_FOUND, note, &machine.id).await?;
        return Ok(());
    }
    let note = format!("deleting {what}: {why}");
    tell_of_orphan(context, names::REASON_COLLECTED, note, &machine.id).await?;
    match context.cloud.delete(&machine.id).await {
        Ok(()) | Err(cloud::Error::NotFound(_) | cloud::Error::Conflict(_)) => {
            context.metrics.collected("machine");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The machine of a claim is off or broken, and stays so. It is read once more, by id: a list may be old.
pub(super) async fn dead(
    context: &Context,
    claim: &NodeClaim,
    machine: &Machine,
    why: &str,
) -> Result<(), Error> {
    let again = context.cloud.get(&machine.id).await?;
    if claim.is_deleting() || !again.is_dead() {
        return Ok(());
    }
    let story = Story {
        kind: Kind::Warning,
        reason: match machine.status {
            MachineStatus::Failed => names::REASON_MACHINE_FAILED,
            _ => names::REASON_MACHINE_STOPPED,
        },
        action: "Delete",
        note: why.to_owned(),
        transition: machine.id.clone(),
    };
    context.events.try_tell(claim, story).await?;
    delete_claim(context, claim).await?;
    context.metrics.interrupted("dead");
    context.hurry.notify_one();
    Ok(())
}

/// A machine that was stopping runs again: its Node takes pods again.
pub(super) async fn recovered(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    if claim.is_deleting() || !claim.annotations().contains_key(names::INTERRUPTED_SINCE) {
        return Ok(());
    }
    if let Some(node) = preemption::node_of(context, claim).await?.filter(is_marked) {
        let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
        let taints: Vec<_> = taints.filter(|it| it.key != names::DISRUPTED_TAINT).collect();
        let patch = json!({
            "metadata": {
                "resourceVersion": node.resource_version(),
                "labels": {names::EXCLUDE_FROM_LOAD_BALANCERS: null},
            },
            "spec": {"taints": taints},
        });
        patch_node(context, &node, &patch).await?;
    }
    annotate(context, claim, None).await
}

async fn patch_node(context: &Context, node: &Node, patch: &serde_json::Value) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let answer = nodes
        .patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn annotate(context: &Context, claim: &NodeClaim, value: Option<String>) -> Result<(), Error> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let patch = json!({"metadata": {
        "resourceVersion": claim.resource_version(),
        "annotations": {names::INTERRUPTED_SINCE: value},
    }});
    let params = PatchParams::default();
    match claims
        .patch(&claim.name_any(), &params, &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes a claim whose machine has come to its end: this one, whatever was written into it since.
async fn delete_claim(context: &Context, claim: &NodeClaim) -> Result<(), Error> {
    if claim.is_deleting() {
        return Ok(());
    }
    let only_this = DeleteParams::default().preconditions(Preconditions {
        uid: claim.uid(),
        resource_version: None,
    });
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match claims.delete(&claim.name_any(), &only_this).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
