//! A claim that has nothing on record may have a machine all the same: a definition of another release drops what was
//! written, and the machine runs on. So before such a claim is told that nothing can be bought for it, its one name is
//! looked up; a machine that has it is the claim's.

use jiff::Timestamp;

use super::facts::Facts;
use super::{Limits, NoChoice, Observed, Sighting, Step, buying, is_ours, stranger};
use crate::api::{Allocation, NodeClaim};
use crate::clock::later;
use crate::model::{Machine, MachineStatus};

/// Whether [`super::next`] will want to know whether a claim that has nothing on record has a machine. One that something
/// can be bought for is looked for before the order is made, and not here.
pub fn needs_proof(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> bool {
    let is_exhausted = matches!(observed.choice, Some(Err(NoChoice::Exhausted(_))));
    is_exhausted && claim.allocation().is_none() && buying::others_turn(claim, limits, now).is_none()
}

/// What must come before a claim is told that nothing can be bought for it; `None` when nothing must: its machine is on
/// record, or is known not to be there.
pub(super) fn unproven(
    claim: &NodeClaim,
    observed: &Observed,
    limits: &Limits,
    now: Timestamp,
) -> Option<Step> {
    match &observed.machine {
        _ if claim.allocation().is_some() => None,
        Sighting::Absent => None,
        Sighting::Unknown => Some(Step::Retry),
        Sighting::Present(machine) if !is_ours(machine, None, observed) => Some(stranger(machine)),
        Sighting::Present(machine) => Some(adopt(machine, limits, now)),
    }
}

/// Takes a machine for the claim's. One that goes, and one that does not say yet where it stands, is looked at again.
fn adopt(machine: &Machine, limits: &Limits, now: Timestamp) -> Step {
    match &machine.subnet {
        Some(subnet) if machine.status != MachineStatus::Deleting => {
            Step::Allocate(allocation(machine, subnet, now))
        }
        _ => Step::Wait(later(now, limits.poll)),
    }
}

/// What a machine is, as it would be on record. How often one was chosen, and for how much, nobody knows any more.
fn allocation(machine: &Machine, subnet: &str, now: Timestamp) -> Allocation {
    Allocation {
        profile: machine.profile.clone(),
        zone: machine.zone.clone(),
        capacity_type: machine.capacity_type.as_str().to_owned(),
        subnet: subnet.to_owned(),
        price: None,
        instance_name: machine.name.clone(),
        instance_id: Some(machine.id.clone()),
        attempt: 1,
        credentials: None,
        since: now.into(),
    }
}
