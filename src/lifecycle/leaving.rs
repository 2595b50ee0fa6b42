//! The end of a claim: its machine is deleted, confirmed gone, and only then the claim is let go.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::facts::{self, Doubt, Facts};
use super::{Limits, Observed, Sighting, Step, is_ours, stranger};
use crate::api::NodeClaim;
use crate::clock::later;
use crate::model::MachineStatus;

/// The next step of a claim that is to go.
pub(super) fn next(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    if !claim.has_finalizer() {
        return Step::Rest;
    }
    let machine = match &observed.machine {
        Sighting::Unknown => return Step::Retry,
        Sighting::Absent => return gone(claim, observed, limits, now),
        Sighting::Present(machine) => machine,
    };
    if !is_ours(machine, claim.allocation(), observed) {
        // Names are unique in a region: what a machine of another group holds, none of ours does. Without knowing our
        // group it could be ours.
        return match observed.resource_group {
            Some(_) => gone(claim, observed, limits, now),
            None => stranger(machine),
        };
    }
    if claim.absent_since().is_some() {
        return Step::ForgetAbsence;
    }
    match machine.status {
        MachineStatus::Deleting => Step::Wait(later(now, limits.poll)),
        _ => Step::Delete {
            id: machine.id.clone(),
        },
    }
}

/// What must come before a machine that is found nowhere is taken for gone; `None` when nothing must. A first sighting
/// is written down; a second one counts when the visibility delay has passed in between. A sighting from before
/// `not_before` proves nothing: an order may have been carried out since.
pub(super) fn unconfirmed(
    claim: &NodeClaim,
    not_before: Timestamp,
    limits: &Limits,
    now: Timestamp,
) -> Option<Step> {
    // A sighting in the future was noted by a clock that was ahead.
    let valid = not_before..=now;
    let Some(since) = claim.absent_since().filter(|since| valid.contains(since)) else {
        return Some(Step::NoteAbsence(now));
    };
    let confirmed_at = later(since, limits.visibility);
    // The delay must have passed, not just be reached.
    (now <= confirmed_at).then(|| Step::Wait(later(confirmed_at, Duration::from_millis(1))))
}

fn gone(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    let settled_at = match facts::doubt(claim, limits, now) {
        Doubt::Unreadable => return Step::RenewIntent(later(now, facts::window(limits))),
        // What may yet be carried out would be a machine without a claim.
        Doubt::Until(until) if now < until => return Step::Wait(until),
        Doubt::Until(until) => until,
    };
    if let Some(step) = unconfirmed(claim, settled_at, limits, now) {
        return step;
    }
    match observed.node.as_ref().and_then(|node| left_behind(claim, node)) {
        Some(uid) => Step::DeleteNode { uid },
        None => Step::ReleaseFinalizer,
    }
}

/// The uid of the claim's Node, if that is still there: the one with its provider id.
fn left_behind(claim: &NodeClaim, node: &Node) -> Option<String> {
    let provider_id = claim.status.as_ref()?.provider_id.as_ref()?;
    let same = node.spec.as_ref()?.provider_id.as_ref() == Some(provider_id);
    same.then(|| node.metadata.uid.clone()).flatten()
}
