//! The next step of a NodeClaim's life, from the claim and what was seen of the world.
//!
//! Pure, and one effect at a time: each [`Step`] is one write to the Kubernetes API or one order to the cloud, and a
//! process killed right before or after it leaves a claim for which [`next`] goes on. What must outlive the process is
//! in the claim: the allocation (the intent to buy, with its time), [`crate::api::names::ORDER_UNSETTLED_UNTIL`] for an
//! order that was repeated, [`crate::api::names::MACHINE_ABSENT_SINCE`] for the first sighting of an absence.
//!
//! Guarantees, for every claim and everything seen:
//! * an order is made only when the name was looked up and nothing was found, only on a young intent, and not before reads
//!   would show what the order before it may have bought;
//! * the finalizer goes only when the machine was found nowhere twice, further apart than the visibility delay, and no
//!   order can be carried out any more;
//! * a failed read leads to no effect;
//! * a claim that has nothing on record is told that nothing can be bought only when its name was looked up and nothing
//!   was found;
//! * a machine that is not provably ours is neither adopted nor touched;
//! * a machine that lives and has a Node is deleted only after its pods have left and its volumes are detached, by lists
//!   that were read long enough after the Node was tainted;
//! * a machine that the cloud took back is given back only by the steps that tell of it first.

mod buying;
pub mod diagnosis;
pub mod drift;
pub mod expiry;
pub mod facts;
pub mod health;
pub mod interruption;
mod joining;
mod leaving;
pub mod status;
mod step;
mod unrecorded;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use crate::api::{Allocation, NodeClaim, names};
use crate::clock::later;
use crate::model::{Machine, MachineStatus};
use crate::money::Price;
pub use buying::launch_limit;
use diagnosis::Diagnosis;
use facts::{Doubt, Facts};
pub use joining::{NodeChange, is_altered, is_overdue, other_machine};
pub use leaving::{Remaining, is_marked, is_stopping, marked, needs_remaining};
pub use step::{Blocker, End, Holdup, Step, Volumes, Withholding, Word};
pub use unrecorded::needs_proof;
pub use waiting::{blocked, needs_diagnosis};

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
    /// How many attempts may come to nothing by a fault that is no shortage, before the claim ends.
    pub faults: i64,
    /// How long a claim stands whose order was refused for good. Whoever plans anew makes the same order again, so this
    /// is how often it is refused at most.
    pub refused: Duration,
    /// How long a claim waits for its Node to join, or to be ready for work, before it says what for. A machine boots in
    /// less than a minute, and takes about one more where it has to install its packages.
    pub explain: Duration,
    /// How long a machine that runs may take to join.
    pub registration: Duration,
    /// How long a Node that has joined may take until it is ready for work.
    pub initialization: Duration,
}

impl Limits {
    /// As they are unless somebody sets them otherwise.
    pub const USUAL: Self = Self {
        visibility: Duration::from_secs(15),
        late_create: Duration::from_mins(1),
        send_within: Duration::from_secs(5),
        launch: Duration::from_mins(5),
        launch_gpu: Duration::from_mins(15),
        between_attempts: Duration::from_secs(30),
        poll: Duration::from_secs(5),
        faults: 3,
        // As often as a class is looked at anew, which may tell what is wrong with it.
        refused: Duration::from_mins(5),
        explain: Duration::from_mins(2),
        registration: Duration::from_mins(15),
        // Drivers of cards are built on the node, which takes ten minutes where it is slow.
        initialization: Duration::from_mins(30),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::USUAL
    }
}

/// What was seen of the world for one claim.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Its machine, by id and by name.
    pub machine: Sighting,
    /// What could be bought for it. Looked up only when [`needs_choice`] says so.
    pub choice: Option<Result<Choice, NoChoice>>,
    /// Whether what it is allocated may be bought. Looked up only when [`needs_standing`] says so.
    pub standing: Standing,
    /// Whether the credential for its machine is at hand.
    pub credential: Credential,
    /// What came of the last order of its present attempt.
    pub last_order: LastOrder,
    /// What nodes of its machine's kind are labeled with.
    pub labels: BTreeMap<String, String>,
    /// Why its machine has not joined, as far as that can be known. Looked up only when [`needs_diagnosis`] says so.
    pub diagnosis: Option<Diagnosis>,
    /// The id of the resource group that marks its machine as ours, if it could be told.
    pub resource_group: Option<String>,
    /// The Node of its name.
    pub node: Option<Node>,
    /// The machine of that Node, where that is not the claim's. Looked up only when [`other_machine`] names one.
    pub other_machine: Sighting,
    /// What is still on that Node. Looked up only when [`needs_remaining`] says so.
    pub remaining: Option<Remaining>,
    /// For how long this process has known the machine of a claim that goes to be stopping, on the monotonic clock. A
    /// restart begins anew, which costs seconds.
    pub stopping_for: Duration,
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
    /// For how much an hour, if that is known.
    pub price: Option<Price>,
    /// The one name of the claim's machine.
    pub instance_name: String,
}

/// Why nothing is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoChoice {
    /// Somebody must act first.
    Unresolved(Unresolved),
    /// Nothing that fits is to be had; why, for people.
    Exhausted(String),
    /// A breaker holds it back.
    HeldBack(HeldBack),
}

/// A purchase that a breaker holds back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct HeldBack {
    /// Which breaker, as one word.
    pub breaker: &'static str,
    /// For people.
    pub why: String,
}

/// Why nothing can be bought before somebody acts, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unresolved(pub String);

/// Whether what a claim is allocated may be bought, by one consistent read that is younger than the intent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It was not looked at, or could not be.
    #[default]
    Unknown,
    /// It may, with the intents of all claims counted.
    Good,
    /// It is not to be had any more: withheld, or more was promised than there is.
    Lost,
    /// A breaker holds it back.
    HeldBack(HeldBack),
}

/// Whether the credential for a claim's machine is at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// It is, or none is needed.
    #[default]
    AtHand,
    /// It is not: another process made it, or it has become old.
    Lost,
}

/// What came of the last order of an attempt, as far as the process knows that sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LastOrder {
    /// Nothing that is waited for: it was answered, or there was none.
    #[default]
    Settled,
    /// It may have been carried out; that long ago it was answered, or given up.
    Unsure(Duration),
    /// It was refused because something has its name; what the cloud said.
    NameTaken(String),
}

/// The next step of `claim`.
pub fn next(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    if claim.is_deleting() {
        return leaving::next(claim, observed, limits, now);
    }
    if !claim.has_finalizer() {
        return Step::AddFinalizer;
    }
    if let Some(end) = claim.end() {
        return Step::End(end);
    }
    if claim.is_launched() {
        return joining::next(claim, observed, limits, now);
    }
    match claim.refusal() {
        Some(refusal) if observed.machine == Sighting::Absent => refused(claim, refusal, limits, now),
        _ => buying::next(claim, observed, limits, now),
    }
}

/// The order was refused for good. An earlier one may still be carried out, and is waited for; then the claim ends, when
/// it has stood for a while.
fn refused(claim: &NodeClaim, (why, since): (&str, Timestamp), limits: &Limits, now: Timestamp) -> Step {
    let until = match facts::doubt(claim, limits, now) {
        Doubt::Unreadable => return Step::RenewIntent(later(now, facts::window(limits))),
        Doubt::Until(until) => later(until, limits.visibility),
    };
    // A refusal in the future is that of a clock that was ahead; nobody waits for it.
    let stood = if since <= now {
        later(since, limits.refused)
    } else {
        until
    };
    let end = until.max(stood);
    if now <= end {
        return Step::Wait(later(end, Duration::from_millis(1)));
    }
    Step::GiveUp(End {
        condition: names::LAUNCHED,
        reason: names::REASON_LAUNCH_REFUSED,
        message: why.to_owned(),
    })
}

/// Whether [`next`] will want to know what can be bought.
pub fn needs_choice(claim: &NodeClaim, machine: &Sighting, standing: &Standing) -> bool {
    let bought = claim
        .allocation()
        .is_some_and(|allocation| allocation.instance_id.is_some());
    match (claim.allocation(), machine) {
        _ if !is_on_its_way(claim) => false,
        (None, _) => true,
        (Some(_), Sighting::Absent) => bought || *standing == Standing::Lost || claim.fault().is_some(),
        (Some(_), Sighting::Present(machine)) => bought && machine.status == MachineStatus::Deleting,
        (Some(_), Sighting::Unknown) => false,
    }
}

/// Whether [`next`] will want to know whether what is allocated may be bought.
pub fn needs_standing(claim: &NodeClaim, machine: &Sighting) -> bool {
    let ended = match machine {
        Sighting::Unknown => false,
        Sighting::Absent => true,
        Sighting::Present(machine) => machine.is_dead() || machine.status == MachineStatus::Deleting,
    };
    is_on_its_way(claim) && claim.allocation().is_some() && ended
}

fn is_on_its_way(claim: &NodeClaim) -> bool {
    !claim.is_deleting()
        && !claim.is_launched()
        && claim.has_finalizer()
        && claim.end().is_none()
        && claim.refusal().is_none()
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

#[cfg(test)]
mod tests;
