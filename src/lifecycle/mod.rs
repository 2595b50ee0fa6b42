//! The next step of a NodeClaim's life, from the claim and what was seen of the world.
//!
//! Pure, and one effect at a time: each [`Step`] is one write to the Kubernetes API or one order to the cloud, and a
//! process killed right before or after it leaves a claim for which [`next`] goes on. What must outlive the process is
//! in the claim: the allocation (the intent to buy, with its time), [`names::ORDER_UNSETTLED_UNTIL`] for an order that
//! was repeated, [`names::MACHINE_ABSENT_SINCE`] for the first sighting of an absence.
//!
//! Guarantees, for every claim and everything seen:
//! * an order is made only when the name was looked up and nothing was found, and only on a young intent;
//! * the finalizer goes only when the machine was found nowhere twice, further apart than the visibility delay, and no
//!   order can be carried out any more;
//! * a failed read leads to no effect;
//! * a machine that is not provably ours is neither adopted nor touched.

pub mod drift;
pub mod facts;
mod joining;
mod leaving;
pub mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::api::{Allocation, NodeClaim, names};
use crate::clock::later;
use crate::model::{Machine, MachineStatus};
use facts::{Doubt, Facts};
pub use joining::NodeChange;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Reads of the cloud may miss something new, or show something old, for less than this. Seen in practice: ten
    /// seconds; the rest is margin.
    pub visibility: Duration,
    /// An order may be carried out this much later than it was sent, and not later.
    pub late_create: Duration,
    /// An order is sent this soon after its intent was written or read, or not at all.
    pub send_within: Duration,
    /// How long an attempt may take until its machine runs.
    pub launch: Duration,
    /// The same for profiles with GPUs, whose local disks take minutes to prepare.
    pub launch_gpu: Duration,
    /// The least time between two attempts, so that other claims get their turn.
    pub between_attempts: Duration,
    /// How often a machine on its way is looked at.
    pub poll: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(15),
            late_create: Duration::from_mins(1),
            send_within: Duration::from_secs(5),
            launch: Duration::from_mins(5),
            launch_gpu: Duration::from_mins(15),
            between_attempts: Duration::from_secs(30),
            poll: Duration::from_secs(5),
        }
    }
}

/// What was seen of the world for one claim.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Its machine, by id and by name.
    pub machine: Sighting,
    /// What could be bought for it. Looked up only when [`needs_choice`] says so.
    pub choice: Option<Result<Choice, Unresolved>>,
    /// The id of the resource group that marks its machine as ours, if it could be told.
    pub resource_group: Option<String>,
    /// The Node of its name.
    pub node: Option<Node>,
    /// For how long this process has followed the present attempt's machine, on the monotonic clock. Not reckoned from
    /// the intent, which may have waited for an outage to end, nor on the wall clock, which may jump. A restart begins
    /// anew, which costs time and no machine.
    pub followed_for: Duration,
}

/// What was seen of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sighting {
    /// It could not be read, or was not looked for: nothing is known.
    #[default]
    Unknown,
    /// A direct 404 by id, where there is an id, and nothing under the exact name.
    Absent,
    /// It is there.
    Present(Box<Machine>),
}

/// What could be bought: an allocation without its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The machine's profile.
    pub profile: String,
    /// The zone.
    pub zone: String,
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The id of a subnet there.
    pub subnet: String,
    /// The one name of the claim's machine.
    pub instance_name: String,
}

/// Why nothing can be bought, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unresolved(pub String);

/// What to do next: one effect, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the claim wait for us when it is deleted. Before anything else.
    AddFinalizer,
    /// Writes the intent to buy: the first attempt, or the next after one that came to nothing.
    Allocate(Allocation),
    /// Writes until when an order that is now repeated may be carried out.
    RenewIntent(Timestamp),
    /// Orders the machine.
    Create {
        /// What is to be bought.
        allocation: Allocation,
        /// How soon the order must be sent.
        within: Duration,
    },
    /// Writes the machine's id, and what the machine really is, into the allocation; also of one that was found.
    Record(Machine),
    /// Writes what the machine is into the claim's labels.
    Label(BTreeMap<String, String>),
    /// Writes the provider id, and that the machine runs.
    Launched(Machine),
    /// Frees the name of an attempt's machine that came to nothing; where that is refused, deletes the machine.
    Retire {
        /// The machine.
        id: String,
        /// The attempt it was.
        attempt: u32,
    },
    /// Asks for the machine's deletion.
    Delete {
        /// The machine.
        id: String,
    },
    /// Writes when the machine was first found nowhere.
    NoteAbsence(Timestamp),
    /// Takes that back: it is there after all.
    ForgetAbsence,
    /// Gives the Node what the claim says, or marks it.
    ChangeNode(NodeChange),
    /// Writes that the machine has joined.
    Register,
    /// Writes that the Node is ready for work.
    Initialize,
    /// Deletes the Node that the machine left behind.
    DeleteNode {
        /// Its uid, so that a Node made anew under the name is left alone.
        uid: String,
    },
    /// Lets the claim go.
    ReleaseFinalizer,
    /// Nothing can be done before somebody acts; says why.
    Block(Blocker),
    /// Nothing until then.
    Wait(Timestamp),
    /// A read failed: try again, ever more patiently.
    Retry,
    /// Nothing until something changes.
    Rest,
}

/// Why a claim does not get on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocker {
    /// What it asks for cannot be bought as it is written.
    #[error("{0}")]
    Unresolved(Unresolved),
    /// Its name is held by a machine that is not provably ours.
    #[error("machine {id} holds the name {name} but is not in our resource group")]
    Stranger {
        /// That machine.
        id: String,
        /// Our name.
        name: String,
    },
    /// A Node has the claim's name, but not its machine's identity.
    #[error("node {0} has the claim's name, but not the provider id and address of its machine")]
    Impostor(String),
}

impl Step {
    /// A word for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add-finalizer",
            Self::Allocate(_) => "allocate",
            Self::RenewIntent(_) => "renew-intent",
            Self::Create { .. } => "create",
            Self::Record(_) => "record",
            Self::Label(_) => "label",
            Self::Launched(_) => "launched",
            Self::Retire { .. } => "retire",
            Self::Delete { .. } => "delete",
            Self::NoteAbsence(_) => "note-absence",
            Self::ForgetAbsence => "forget-absence",
            Self::ChangeNode(_) => "change-node",
            Self::Register => "register",
            Self::Initialize => "initialize",
            Self::DeleteNode { .. } => "delete-node",
            Self::ReleaseFinalizer => "release-finalizer",
            Self::Block(_) => "block",
            Self::Wait(_) => "wait",
            Self::Retry => "retry",
            Self::Rest => "rest",
        }
    }
}

/// The next step of `claim`.
pub fn next(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    if claim.is_deleting() {
        return leaving::next(claim, observed, limits, now);
    }
    if !claim.has_finalizer() {
        return Step::AddFinalizer;
    }
    if claim.is_launched() {
        return joining::next(claim, observed);
    }
    if claim.is_refused() && observed.machine == Sighting::Absent {
        return refused(claim, limits, now);
    }
    match claim.allocation() {
        None => allocate(observed, 1, now),
        Some(allocation) if allocation.instance_id.is_none() => buy(claim, allocation, observed, limits, now),
        Some(allocation) => launch(claim, allocation, observed, limits, now),
    }
}

/// The order was refused for good. An earlier one may still be carried out, and is waited for; after that nothing is to
/// be done until somebody deletes the claim.
fn refused(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> Step {
    match facts::doubt(claim, limits, now) {
        Doubt::Unreadable => Step::RenewIntent(later(now, facts::window(limits))),
        Doubt::Until(until) => match later(until, limits.visibility) {
            shown if now <= shown => Step::Wait(later(shown, Duration::from_millis(1))),
            _ => Step::Rest,
        },
    }
}

/// Whether [`next`] will want to know what can be bought.
pub fn needs_choice(claim: &NodeClaim, machine: &Sighting) -> bool {
    if claim.is_deleting() || claim.is_launched() || !claim.has_finalizer() {
        return false;
    }
    match machine {
        Sighting::Unknown => claim.allocation().is_none(),
        Sighting::Absent => true,
        Sighting::Present(machine) => matches!(machine.status, MachineStatus::Deleting),
    }
}

/// Whether `machine` is provably ours: recorded in the claim by us, or in our group under our name.
fn is_ours(machine: &Machine, allocation: Option<&Allocation>, observed: &Observed) -> bool {
    let recorded = allocation.and_then(|allocation| allocation.instance_id.as_ref());
    recorded == Some(&machine.id) || observed.resource_group.as_ref() == Some(&machine.resource_group)
}

fn stranger(machine: &Machine) -> Step {
    Step::Block(Blocker::Stranger {
        id: machine.id.clone(),
        name: machine.name.clone(),
    })
}

fn allocate(observed: &Observed, attempt: i64, now: Timestamp) -> Step {
    match &observed.choice {
        None => Step::Retry,
        Some(Err(why)) => Step::Block(Blocker::Unresolved(why.clone())),
        Some(Ok(choice)) => Step::Allocate(Allocation {
            profile: choice.profile.clone(),
            zone: choice.zone.clone(),
            capacity_type: choice.capacity_type.clone(),
            subnet: choice.subnet.clone(),
            price: None,
            instance_name: choice.instance_name.clone(),
            instance_id: None,
            attempt,
            credentials: None,
            since: now.into(),
        }),
    }
}

/// Allocated, and no machine known: it may have been ordered all the same, so the name decides.
fn buy(
    claim: &NodeClaim,
    allocation: &Allocation,
    observed: &Observed,
    limits: &Limits,
    now: Timestamp,
) -> Step {
    match &observed.machine {
        Sighting::Unknown => Step::Retry,
        Sighting::Present(machine) if !is_ours(machine, Some(allocation), observed) => stranger(machine),
        // The name is free when it is gone.
        Sighting::Present(machine) if machine.status == MachineStatus::Deleting => {
            Step::Wait(later(now, limits.poll))
        }
        Sighting::Present(machine) => Step::Record(machine.as_ref().clone()),
        Sighting::Absent => match facts::time_to_send(claim, limits, now) {
            Some(within) => Step::Create {
                allocation: allocation.clone(),
                within,
            },
            None => Step::RenewIntent(later(now, facts::window(limits))),
        },
    }
}

/// Bought, and not yet seen running.
fn launch(
    claim: &NodeClaim,
    allocation: &Allocation,
    observed: &Observed,
    limits: &Limits,
    now: Timestamp,
) -> Step {
    let machine = match &observed.machine {
        Sighting::Unknown => return Step::Retry,
        Sighting::Absent => return vanished(claim, allocation, observed, limits, now),
        Sighting::Present(machine) => machine,
    };
    if claim.absent_since().is_some() {
        return Step::ForgetAbsence;
    }
    if allocation.instance_id.as_ref() != Some(&machine.id) {
        // The one we knew is gone and another has its name: a late order of ours.
        return if is_ours(machine, Some(allocation), observed) {
            Step::Record(machine.as_ref().clone())
        } else {
            stranger(machine)
        };
    }
    let is_retired = machine.name != allocation.instance_name;
    match machine.status {
        MachineStatus::Deleting if is_retired => try_again(allocation, observed, limits, now),
        // Its name is not free before it is gone.
        MachineStatus::Deleting => Step::Wait(later(now, limits.poll)),
        _ if is_retired => Step::Delete {
            id: machine.id.clone(),
        },
        MachineStatus::Failed | MachineStatus::Stopped => retire(machine, allocation),
        MachineStatus::Running => run(claim, machine),
        _ if observed.followed_for >= launch_limit(allocation, limits) => retire(machine, allocation),
        _ => Step::Wait(later(now, limits.poll)),
    }
}

fn run(claim: &NodeClaim, machine: &Machine) -> Step {
    let labels = machine_labels(machine);
    let labeled = labels
        .iter()
        .all(|(key, value)| claim.labels().get(key) == Some(value));
    if labeled {
        Step::Launched(machine.clone())
    } else {
        Step::Label(labels)
    }
}

/// What the machine is, as labels of claim and Node: its own values, whatever was ordered.
fn machine_labels(machine: &Machine) -> BTreeMap<String, String> {
    [
        (names::INSTANCE_TYPE, machine.profile.as_str()),
        (names::ZONE, machine.zone.as_str()),
        (names::CAPACITY_TYPE, machine.capacity_type.as_str()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn retire(machine: &Machine, allocation: &Allocation) -> Step {
    Step::Retire {
        id: machine.id.clone(),
        attempt: u32::try_from(allocation.attempt).unwrap_or(u32::MAX),
    }
}

/// The machine is nowhere, although it was bought: believed when seen twice.
fn vanished(
    claim: &NodeClaim,
    allocation: &Allocation,
    observed: &Observed,
    limits: &Limits,
    now: Timestamp,
) -> Step {
    leaving::unconfirmed(claim, allocation.since.0, limits, now)
        .unwrap_or_else(|| try_again(allocation, observed, limits, now))
}

/// The attempt's machine has come to its end; the next attempt, once others had their turn.
fn try_again(allocation: &Allocation, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    let turn = later(allocation.since.0, limits.between_attempts);
    // A start in the future is that of a clock that was ahead; nobody waits for it.
    if turn > now && allocation.since.0 <= now {
        return Step::Wait(turn);
    }
    allocate(observed, allocation.attempt.saturating_add(1), now)
}

/// Profiles with GPUs are the families that begin with g: gx2, gx3, gx3d.
fn launch_limit(allocation: &Allocation, limits: &Limits) -> Duration {
    if allocation.profile.starts_with('g') {
        limits.launch_gpu
    } else {
        limits.launch
    }
}

#[cfg(test)]
mod tests;
