//! Removes garbage, one thing at a time, and tells of each.

use kube::{Resource, ResourceExt};

use super::Error;
use super::breaker::{self, Population, fingerprint};
use super::view::{End, Garbage};
use crate::api::{IBMNodeClass, NodeClaim, names};
use crate::cloud::{self, Leftover, Machine};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};
use crate::controllers::lost_node;
use crate::controllers::preemption;
use crate::controllers::removal::{self, Judged};
use crate::controllers::unavailable::Cause;

/// What an event lists at most: ten ids of 41 characters. An event has room for 1024 bytes, and what is said besides takes
/// less than 600.
const TOLD_MAX: usize = 10;
const TOLD_BYTES_MAX: usize = 430;

/// Removes what was found. What cannot be told of stays, and so does what cannot be removed; neither holds up the rest.
pub(super) async fn collect(
    context: &Context,
    classes: &[IBMNodeClass],
    garbage: Garbage,
) -> Result<(), Error> {
    tell_left(context, classes, &garbage).await;
    let mut outcome = Ok(());
    for machine in &garbage.machines {
        outcome = outcome.and(delete_machine(context, classes, machine).await);
    }
    for leftover in &garbage.leftovers {
        outcome = outcome.and(delete_leftover(context, classes, leftover).await);
    }
    for (claim, end) in garbage.claims.values() {
        outcome = outcome.and(delete_claim(context, claim, end).await);
    }
    for node in garbage.nodes.values() {
        let released = lost_node::release(context, node).await;
        outcome = outcome.and(released.map_err(Error::from));
    }
    outcome
}

/// Tells what would be removed.
pub(super) async fn report(context: &Context, classes: &[IBMNodeClass], garbage: &Garbage) {
    tell_left(context, classes, garbage).await;
    let machines = garbage
        .machines
        .iter()
        .map(|it| format!("machine {} ({})", it.id, it.name));
    let leftovers = garbage
        .leftovers
        .iter()
        .map(|it| format!("{} {} ({})", it.kind, it.id, it.name));
    for found in machines.chain(leftovers) {
        let note = format!("{found} belongs to no claim; nothing is collected, as configured");
        tell(context, classes, names::REASON_GARBAGE_FOUND, note, found).await;
    }
    for (claim, end) in garbage.claims.values() {
        let (_, note) = words(end);
        tell_found(
            context,
            claim,
            format!("{note}; nothing is collected, as configured"),
        )
        .await;
    }
    for node in garbage.nodes.values() {
        let note = "its claim and its machine are gone, and it waits for us to let it go; nothing is collected, as configured";
        tell_found(context, node, note.to_owned()).await;
    }
}

/// What is left where it is, whatever is configured.
async fn tell_left(context: &Context, classes: &[IBMNodeClass], garbage: &Garbage) {
    tell_working(context, classes, &garbage.working).await;
    for claim in garbage.contradicted.values() {
        let note = "its machine is not in the cloud, but its node is ready: it is not given up. Is the API key that of \
                    another account?";
        tell_found(context, claim, note.to_owned()).await;
    }
    for node in garbage.strangers.values() {
        let note = "it bears the labels of our nodes, but no claim answers for it, and it is no machine of ours: it is \
                    left alone";
        tell_found(context, node, note.to_owned()).await;
    }
}

async fn tell_found<K: Resource<DynamicType = ()>>(context: &Context, about: &K, note: String) {
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_GARBAGE_FOUND,
        action: "Report",
        transition: note.clone(),
        note,
    };
    context.events.tell(about, story).await;
}

/// Says that the sweep has stopped, and how it goes on.
pub(super) async fn alert(context: &Context, classes: &[IBMNodeClass], garbage: &Garbage, all: Population) {
    let confirm = fingerprint(garbage);
    let found = counted(garbage, all).join(" ");
    let machines = garbage.machines.iter().map(|it| it.id.clone());
    let leftovers = garbage.leftovers.iter().map(|it| it.id.clone());
    let claims = breaker::given_up(garbage).map(|(_, claim)| claim.name_any());
    let note = format!(
        "{found} Was a backup restored, a definition removed, or the key of another account given? Nothing is collected. To \
         delete those without a ready node ({}), annotate this class with {}={confirm}",
        few(machines.chain(leftovers).chain(claims)),
        names::CONFIRM_COLLECTION,
    );
    tracing::error!(found, confirm, "a sweep has stopped");
    tell(context, classes, names::REASON_COLLECTION_STOPPED, note, confirm).await;
}

/// How much of what was found, in sentences.
fn counted(garbage: &Garbage, all: Population) -> Vec<String> {
    let Population { machines, claims } = all;
    let (orphans, remains) = (breaker::orphans(garbage), breaker::remains(garbage));
    let (vanished, nodeless) = (breaker::vanished(garbage), breaker::nodeless(garbage));
    let (working, contradicted) = (garbage.working.len(), garbage.contradicted.len());
    let sentences = [
        (
            orphans,
            format!(
                "{orphans} of {machines} machines belong to no claim, {working} of them with a ready node."
            ),
        ),
        (
            remains,
            format!("{remains} claims that are not there left interfaces or volumes behind."),
        ),
        (
            vanished,
            format!(
                "{vanished} of {claims} claims have a machine that the cloud does not know, {contradicted} of them with \
                 a ready node."
            ),
        ),
        (
            nodeless,
            format!("{nodeless} of {claims} claims have lost their node."),
        ),
    ];
    let found = sentences.into_iter().filter(|(count, _)| *count > 0);
    found.map(|(_, sentence)| sentence).collect()
}

/// The first of these, as far as they leave room in an event for what is to be done.
fn few(all: impl Iterator<Item = String>) -> String {
    let mut few = String::new();
    for one in all.take(TOLD_MAX) {
        if few.len() + one.len() > TOLD_BYTES_MAX {
            break;
        }
        few.push_str(if few.is_empty() { "" } else { ", " });
        few.push_str(&one);
    }
    few
}

async fn tell_working(context: &Context, classes: &[IBMNodeClass], working: &[Machine]) {
    for machine in working {
        let note = format!(
            "machine {} ({}) belongs to no claim, but its node is ready: it is not collected",
            machine.id, machine.name
        );
        let id = machine.id.clone();
        tell(context, classes, names::REASON_GARBAGE_FOUND, note, id).await;
    }
}

/// Like [`try_tell`], where nothing hangs on it.
async fn tell(
    context: &Context,
    classes: &[IBMNodeClass],
    reason: &'static str,
    note: String,
    transition: String,
) {
    if let Err(error) = try_tell(context, classes, reason, note, transition).await {
        tracing::warn!(%error, reason, "cannot write an event");
    }
}

/// What belongs to no claim is told on a class: there is nothing nearer that is left. Whoever removes it then must not when
/// this fails.
pub(super) async fn try_tell(
    context: &Context,
    classes: &[IBMNodeClass],
    reason: &'static str,
    note: String,
    transition: String,
) -> kube::Result<()> {
    let story = Story {
        kind: Kind::Warning,
        reason,
        action: "Collect",
        note,
        transition,
    };
    match classes.iter().min_by_key(|class| class.name_any()) {
        Some(class) => context.events.try_tell(class, story).await.map(drop),
        None => Ok(()),
    }
}

/// Deletes a machine, by its id, if that is still the machine that was judged.
async fn delete_machine(context: &Context, classes: &[IBMNodeClass], judged: &Machine) -> Result<(), Error> {
    let now = match context.cloud.get(&judged.id).await {
        Ok(machine) => machine,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if now.name != judged.name || now.resource_group != judged.resource_group {
        return Ok(());
    }
    if now.is_preempted() {
        // Whoever looks for spot machines has not come to it yet, and would find nothing.
        preemption::withhold(context, &now, Cause::Preempted).await?;
    }
    let note = format!(
        "deleting machine {} ({}): it belongs to no claim",
        judged.id, judged.name
    );
    tracing::info!(
        id = judged.id,
        name = judged.name,
        "deleting a machine without a claim"
    );
    let id = judged.id.clone();
    try_tell(context, classes, names::REASON_COLLECTED, note, id).await?;
    match context.cloud.delete(&judged.id).await {
        // The next sweep looks again.
        Ok(()) | Err(cloud::Error::NotFound(_) | cloud::Error::Conflict(_)) => {
            context.metrics.collected("machine");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn delete_leftover(
    context: &Context,
    classes: &[IBMNodeClass],
    leftover: &Leftover,
) -> Result<(), Error> {
    let note = format!(
        "deleting {} {} ({}): it hangs on no machine",
        leftover.kind, leftover.id, leftover.name
    );
    let id = leftover.id.clone();
    try_tell(context, classes, names::REASON_COLLECTED, note, id).await?;
    match context.cloud.remove(leftover).await {
        Ok(()) | Err(cloud::Error::NotFound(_) | cloud::Error::Conflict(_)) => {
            context.metrics.collected("leftover");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn words(end: &End) -> (&'static str, String) {
    match end {
        End::Vanished => (
            names::REASON_MACHINE_VANISHED,
            "the machine is not in the cloud any more".to_owned(),
        ),
        End::Stopped(why) => (names::REASON_MACHINE_STOPPED, why.clone()),
        End::Failed(why) => (names::REASON_MACHINE_FAILED, why.clone()),
        End::NodeGone => (
            names::REASON_NODE_DELETED,
            "its node is not there any more".to_owned(),
        ),
    }
}

async fn delete_claim(context: &Context, claim: &NodeClaim, end: &End) -> Result<(), Error> {
    let (reason, note) = words(end);
    let story = Story {
        kind: Kind::Warning,
        reason,
        action: "Delete",
        note,
        transition: claim
            .status
            .as_ref()
            .and_then(|status| status.provider_id.clone())
            .unwrap_or_default(),
    };
    if removal::delete_claim(context, claim, story).await? == Judged::Deleted {
        context.metrics.collected("claim");
        context.hurry.notify_one();
    }
    Ok(())
}
