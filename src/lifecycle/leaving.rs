//! The end of a claim: its Node is emptied, its machine deleted and confirmed gone, and only then the claim is let go.
//!
//! The Node is tainted first, then its pods leave in order ([`crate::drain`]), then its volumes are detached. What was
//! reached is written into the claim as conditions, so a new process does not begin anew. A machine that is dead, by the
//! word of the cloud itself, has nobody left to wait for; one that the cloud took back is told of before it is deleted,
//! since the proof goes with it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use super::facts::{self, Doubt, Facts};
use super::joining::{is_same_machine, unchanged};
use super::{Holdup, Limits, NodeChange, Observed, Sighting, Step, Volumes, is_ours, stranger};
use crate::api::{CapacityType, NodeClaim, names, parse_duration};
use crate::clock::later;
use crate::drain::{Refused, next_evictions};
use crate::model::{Machine, MachineStatus};

/// A pod may be bound just before the taint is seen by whoever binds it; a list this much later shows it.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// How often a Node that is being emptied is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a spot machine that stops is waited for until it says why: the notice of a preemption is 30 seconds, and reads
/// may lag by 15.
const STOPS_WITHIN: Duration = Duration::from_mins(1);

/// What is still on a Node that goes, by lists from the API server itself.
#[derive(Clone, Debug, Default)]
pub struct Remaining {
    /// When it was looked, by the API server's clock wherever anything hangs on it: ours may be wrong, and pods that it
    /// takes for late would have their time cut short.
    pub at: Timestamp,
    /// For how long the Node had been known to be tainted when the lists were asked for, on the monotonic clock: the wall
    /// clock may jump, and a Node's taint does not say since when.
    pub tainted_for: Duration,
    /// All pods that are bound to it.
    pub pods: Vec<Pod>,
    /// All disruption budgets.
    pub budgets: Vec<PodDisruptionBudget>,
    /// Whose eviction was refused lately.
    pub refused: Refused,
    /// Volumes that are attached to it, but for those of pods that stay.
    pub attached: Vec<String>,
}

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
    let node = observed.node.as_ref();
    if let Some(step) = node.and_then(|node| depart(claim, node, machine, observed, now)) {
        return step;
    }
    match machine.status {
        MachineStatus::Deleting => Step::Wait(later(now, limits.poll)),
        _ if machine.is_preempted() => Step::GiveBackTaken(machine.as_ref().clone()),
        _ if is_to_stop(machine) && observed.stopping_for < STOPS_WITHIN => Step::AwaitStop {
            machine: machine.as_ref().clone(),
            until: later(now, limits.poll),
        },
        _ => Step::Delete {
            id: machine.id.clone(),
        },
    }
}

/// Whether a machine is being switched off, perhaps since the cloud takes it back: nobody knows before it is off. We never
/// ask for that ourselves.
fn is_to_stop(machine: &Machine) -> bool {
    machine.status == MachineStatus::Stopping && machine.capacity_type == CapacityType::Spot
}

/// Whether [`super::next`] will want to know since when the claim's machine has been stopping.
pub fn is_stopping(claim: &NodeClaim, machine: &Sighting) -> bool {
    claim.is_deleting() && matches!(machine, Sighting::Present(machine) if is_to_stop(machine))
}

/// Whether [`super::next`] will want to know what is still on the claim's Node.
pub fn needs_remaining(claim: &NodeClaim, observed: &Observed) -> bool {
    let (Some(node), Sighting::Present(machine)) = (&observed.node, &observed.machine) else {
        return false;
    };
    claim.is_deleting()
        && is_inhabited(claim, node, machine)
        && is_marked(node)
        && claim.state(names::DRAINED).is_some()
}

/// Whether somebody may still live on the claim's Node.
fn is_inhabited(claim: &NodeClaim, node: &Node, machine: &Machine) -> bool {
    let is_over = machine.is_dead() || machine.status == MachineStatus::Deleting;
    is_same_machine(claim, node) && !is_over && !claim.is(names::INSTANCE_TERMINATING)
}

/// What must come before the machine of a Node is deleted; `None` when nothing must.
fn depart(
    claim: &NodeClaim,
    node: &Node,
    machine: &Machine,
    observed: &Observed,
    now: Timestamp,
) -> Option<Step> {
    if !is_inhabited(claim, node, machine) {
        return None;
    }
    if let Some(deadline) = missing_deadline(claim) {
        return Some(Step::SetDeadline(deadline));
    }
    if !is_marked(node) {
        return Some(Step::ChangeNode(marked(node)));
    }
    if claim.state(names::DRAINED).is_none() {
        return Some(Step::Draining);
    }
    let Some(remaining) = &observed.remaining else {
        return Some(Step::Retry);
    };
    Some(empty(claim, remaining, now))
}

/// What must come before nothing is left on the Node.
fn empty(claim: &NodeClaim, remaining: &Remaining, now: Timestamp) -> Step {
    let deadline = claim.deadline();
    if !claim.is(names::DRAINED) {
        let drain = next_evictions(
            &remaining.pods,
            &remaining.budgets,
            &remaining.refused,
            deadline,
            remaining.at,
        );
        if !drain.evictions.is_empty() {
            return Step::Evict(drain.evictions);
        }
        if !drain.waiting.is_empty() {
            return Step::Await(later(now, LOOK_EVERY), Holdup::Pods(drain.waiting));
        }
        return match SETTLED_AFTER.checked_sub(remaining.tainted_for) {
            Some(left) if !left.is_zero() => Step::Wait(later(now, left)),
            _ => Step::Drained,
        };
    }
    if remaining.attached.is_empty() {
        return Step::Vacated(Volumes::Detached);
    }
    if deadline.is_some_and(|deadline| remaining.at >= deadline) {
        return Step::Vacated(Volumes::Abandoned);
    }
    Step::Await(
        later(now, LOOK_EVERY),
        Holdup::Volumes(remaining.attached.clone()),
    )
}

/// When the pods must have left at the latest, if the claim says so and nobody has written it yet.
fn missing_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    if claim.deadline().is_some() {
        return None;
    }
    let grace = parse_duration(claim.spec.termination_grace_period.as_deref()?)?;
    let asked = claim.metadata.deletion_timestamp.as_ref()?;
    Some(later(asked.0, grace))
}

/// Whether a Node is marked as one that goes, for schedulers and for load balancers.
pub fn is_marked(node: &Node) -> bool {
    let excluded = node.labels().contains_key(names::EXCLUDE_FROM_LOAD_BALANCERS);
    let mut taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    excluded && taints.any(is_disrupted)
}

fn is_disrupted(taint: &Taint) -> bool {
    taint.key == names::DISRUPTED_TAINT && taint.effect == "NoSchedule"
}

/// The marks of a Node that goes.
pub fn marked(node: &Node) -> NodeChange {
    let present = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    let mut taints: Vec<Taint> = present
        .filter(|taint| taint.key != names::DISRUPTED_TAINT)
        .cloned()
        .collect();
    taints.push(Taint {
        key: names::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        value: None,
        time_added: None,
    });
    let excluded = (
        names::EXCLUDE_FROM_LOAD_BALANCERS.to_owned(),
        names::EXCLUDED_BY.to_owned(),
    );
    NodeChange {
        labels: [excluded].into(),
        taints: Some(taints),
        ..unchanged(node)
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
    let node = observed.node.as_ref().filter(|node| is_same_machine(claim, node));
    node.and_then(let_go).unwrap_or(Step::ReleaseFinalizer)
}

/// What is to be done about the Node of a machine that is gone: it is deleted, and then let go.
pub(super) fn let_go(node: &Node) -> Option<Step> {
    if node.metadata.deletion_timestamp.is_none() {
        return node.metadata.uid.clone().map(|uid| Step::DeleteNode { uid });
    }
    let kept: Vec<String> = node
        .finalizers()
        .iter()
        .filter(|name| *name != names::TERMINATION_FINALIZER)
        .cloned()
        .collect();
    let change = NodeChange {
        finalizers: Some(kept),
        ..unchanged(node)
    };
    (change.finalizers.as_deref() != Some(node.finalizers())).then_some(Step::ChangeNode(change))
}
