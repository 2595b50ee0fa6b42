//! The status of a claim after each step that writes one. Only what this controller owns: others own other conditions.

use jiff::Timestamp;

use super::facts::Facts;
use super::{End, Volumes, Word};
use crate::api::{Allocation, Condition, Credential, NodeClaim, NodeClaimStatus, names};
use crate::model::{InstanceType, Machine};

/// The conditions that are written here.
const OWNED: [&str; 7] = [
    names::LAUNCHED,
    names::NODE_REGISTERED,
    names::NODE_INITIALIZED,
    names::READY,
    names::DRAINED,
    names::VOLUMES_DETACHED,
    names::INSTANCE_TERMINATING,
];

/// With another allocation: what was wrong with the last is over.
pub fn allocated(claim: &NodeClaim, allocation: Allocation) -> NodeClaimStatus {
    let mut status = owned(claim);
    status.allocation = Some(allocation);
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|it| it.type_ != names::LAUNCHED || it.status != "Unknown");
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status
}

/// Without its allocation.
pub fn withdrawn(claim: &NodeClaim) -> NodeClaimStatus {
    let mut status = owned(claim);
    status.allocation = None;
    // A status of nothing is refused.
    status.conditions.get_or_insert_default();
    status
}

/// With one more credential for the present attempt. Machines that were ordered with the ones before may still come, so
/// a few are kept; eight, since one is used for two minutes, and an order may be carried out ten minutes late.
pub fn entitled(claim: &NodeClaim, credential: Credential) -> NodeClaimStatus {
    let mut status = owned(claim);
    if let Some(allocation) = &mut status.allocation {
        entitle(allocation, credential);
    }
    status
}

/// Adds a credential to an allocation.
pub fn entitle(allocation: &mut Allocation, credential: Credential) {
    const KEPT: usize = 8;
    let credentials = allocation.credentials.get_or_insert_default();
    credentials.push(credential);
    let surplus = credentials.len().saturating_sub(KEPT);
    credentials.drain(..surplus);
}

/// With what went wrong with the present attempt.
pub fn faulty(claim: &NodeClaim, message: &str, now: Timestamp) -> NodeClaimStatus {
    said(
        claim,
        names::LAUNCHED,
        ("Unknown", names::REASON_LAUNCH_FAILED),
        message,
        now,
    )
}

/// With the word that nothing is left to buy for now.
pub fn short(claim: &NodeClaim, message: &str, now: Timestamp) -> NodeClaimStatus {
    let reason = names::REASON_INSUFFICIENT_CAPACITY;
    said(claim, names::LAUNCHED, ("Unknown", reason), message, now)
}

/// At its end.
pub fn ended(claim: &NodeClaim, end: &End, now: Timestamp) -> NodeClaimStatus {
    said(claim, end.condition, ("False", end.reason), &end.message, now)
}

/// With what it waits for.
pub fn explained(claim: &NodeClaim, word: &Word, now: Timestamp) -> NodeClaimStatus {
    let said_so = ("Unknown", word.reason);
    said(claim, word.condition, said_so, &word.message, now)
}

/// Without why nothing was bought for it. Where nothing else was said, what is left is an empty list, not nothing: to apply
/// a status without a field takes away all that was said, and a status that is null is refused.
pub fn unblocked(claim: &NodeClaim) -> NodeClaimStatus {
    let mut status = owned(claim);
    if claim.is_blocked() {
        let others = status.conditions.into_iter().flatten();
        status.conditions = Some(others.filter(|it| it.type_ != names::LAUNCHED).collect());
    }
    status
}

/// With the machine's id, and with what the machine really is: a retry may have asked for something else, and then the
/// price is that of something else too.
pub fn recorded(claim: &NodeClaim, machine: &Machine) -> NodeClaimStatus {
    let mut status = unblocked(claim);
    if let Some(allocation) = &mut status.allocation {
        let is_chosen = allocation.profile == machine.profile
            && allocation.zone == machine.zone
            && allocation.capacity_type == machine.capacity_type.as_str();
        allocation.price = allocation.price.filter(|_| is_chosen);
        allocation.instance_id = Some(machine.id.clone());
        allocation.profile.clone_from(&machine.profile);
        allocation.zone.clone_from(&machine.zone);
        machine
            .capacity_type
            .as_str()
            .clone_into(&mut allocation.capacity_type);
        if let Some(subnet) = &machine.subnet {
            allocation.subnet.clone_from(subnet);
        }
    }
    status
}

/// With the provider id of a machine that runs, and what it has: a Node may be long in coming, and counts before.
pub fn launched(
    claim: &NodeClaim,
    machine: &Machine,
    instance_type: Option<&InstanceType>,
    provider_id: String,
    now: Timestamp,
) -> NodeClaimStatus {
    let mut status = recorded(claim, machine);
    status.provider_id = Some(provider_id);
    status.capacity = instance_type.map(|it| it.capacity.written());
    status.allocatable = instance_type.map(|it| it.allocatable.written());
    status.image_id.clone_from(&machine.image);
    fulfill(&mut status, names::LAUNCHED, claim, now);
    status
}

/// With its order refused for good, and why. No end yet: an earlier order may still be carried out.
pub fn refused(claim: &NodeClaim, message: &str, now: Timestamp) -> NodeClaimStatus {
    let reason = names::REASON_LAUNCH_REFUSED;
    said(claim, names::LAUNCHED, ("Unknown", reason), message, now)
}

/// With a condition that is not true.
fn said(
    claim: &NodeClaim,
    type_: &str,
    word: (&str, &str),
    message: &str,
    now: Timestamp,
) -> NodeClaimStatus {
    let mut status = owned(claim);
    state(&mut status, claim, type_, word, message, now);
    status
}

/// With the Node that it has become.
pub fn registered(claim: &NodeClaim, node: &str, now: Timestamp) -> NodeClaimStatus {
    let mut status = owned(claim);
    status.node_name = Some(node.to_owned());
    fulfill(&mut status, names::NODE_REGISTERED, claim, now);
    status
}

/// Ready for work.
pub fn initialized(claim: &NodeClaim, now: Timestamp) -> NodeClaimStatus {
    let mut status = owned(claim);
    fulfill(&mut status, names::NODE_INITIALIZED, claim, now);
    fulfill(&mut status, names::READY, claim, now);
    status
}

/// With the word that its pods are leaving.
pub fn draining(claim: &NodeClaim, now: Timestamp) -> NodeClaimStatus {
    let reason = names::REASON_DRAINING;
    said(
        claim,
        names::DRAINED,
        ("Unknown", reason),
        "its pods are leaving",
        now,
    )
}

/// With no pod left that must leave.
pub fn drained(claim: &NodeClaim, now: Timestamp) -> NodeClaimStatus {
    let mut status = owned(claim);
    fulfill(&mut status, names::DRAINED, claim, now);
    status
}

/// With nothing left that its machine's deletion waits for: its volumes are detached, or there is no time left for that.
pub fn vacated(claim: &NodeClaim, volumes: Volumes, now: Timestamp) -> NodeClaimStatus {
    let mut status = match volumes {
        Volumes::Detached => {
            let mut status = owned(claim);
            fulfill(&mut status, names::VOLUMES_DETACHED, claim, now);
            status
        }
        Volumes::Abandoned => {
            let word = ("False", names::REASON_GRACE_ELAPSED);
            let message = "volumes are still attached, and there is no time left";
            said(claim, names::VOLUMES_DETACHED, word, message, now)
        }
    };
    fulfill(&mut status, names::INSTANCE_TERMINATING, claim, now);
    status
}

/// What this controller has written so far.
fn owned(claim: &NodeClaim) -> NodeClaimStatus {
    let written = claim.status.clone().unwrap_or_default();
    let conditions = written.conditions.unwrap_or_default();
    let conditions: Vec<Condition> = conditions
        .into_iter()
        .filter(|condition| OWNED.contains(&condition.type_.as_str()))
        .collect();
    NodeClaimStatus {
        allocation: written.allocation,
        node_name: written.node_name,
        provider_id: written.provider_id,
        image_id: written.image_id,
        capacity: written.capacity,
        allocatable: written.allocatable,
        conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
        ..NodeClaimStatus::default()
    }
}

/// Makes a condition true; one that is true already stays as it is.
fn fulfill(status: &mut NodeClaimStatus, condition: &str, claim: &NodeClaim, now: Timestamp) {
    if !claim.is(condition) {
        state(status, claim, condition, ("True", condition), "", now);
    }
}

/// States a condition. One whose status stays keeps its time, and no change is earlier than the one before it, which may
/// have been written by a clock that was ahead.
fn state(
    status: &mut NodeClaimStatus,
    claim: &NodeClaim,
    type_: &str,
    (word, reason): (&str, &str),
    message: &str,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    let before = conditions.iter().find(|it| it.type_ == type_);
    let since = match before {
        Some(before) if before.status == word => before.last_transition_time,
        Some(before) => before.last_transition_time.max(now.into()),
        None => now.into(),
    };
    conditions.retain(|it| it.type_ != type_);
    conditions.push(Condition {
        type_: type_.to_owned(),
        status: word.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: since,
        observed_generation: claim.metadata.generation,
    });
}
