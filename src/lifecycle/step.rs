//! What can happen next in a claim's life.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{HeldBack, NodeChange, Unresolved};
use crate::api::{Allocation, names};
use crate::drain::{Eviction, Waiting};
use crate::model::Machine;

/// What to do next: one effect, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the claim wait for us when it is deleted. Before anything else.
    AddFinalizer,
    /// Writes the intent to buy: the first attempt, or the next after one that came to nothing.
    Allocate(Allocation),
    /// Takes the intent back: a breaker holds it back, and nothing was bought on it.
    Withdraw,
    /// Makes another credential for the machine, and writes its id before the machine is ordered.
    Credential,
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
    /// Keeps everybody from buying for a while what was found not to be had.
    Withhold(Withholding),
    /// The cloud took an attempt's machine back before it ran: withholds what it was, tells of it, and frees its name, in
    /// that order. The machine is the proof, so it goes last, and whoever does it again does the rest.
    TakenBack {
        /// The machine.
        machine: Machine,
        /// The attempt it was.
        attempt: u32,
    },
    /// The cloud took the machine of a claim that goes back: withholds what it was, tells of it, and deletes it, in that
    /// order. The machine is the proof, so it goes last, and whoever does it again does the rest.
    GiveBackTaken(Machine),
    /// Nothing until then: a spot machine is being switched off, and when it is off it says why. What it is is withheld
    /// meanwhile.
    AwaitStop {
        /// The machine.
        machine: Machine,
        /// When it is looked at again.
        until: Timestamp,
    },
    /// Writes what went wrong with an attempt.
    NoteFault(String),
    /// Writes that nothing is left to buy; others have their turn, and it is tried once more.
    NoteShortage(String),
    /// Writes why the claim comes to its end.
    GiveUp(End),
    /// Deletes a claim that has come to its end.
    End(End),
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
    /// Writes when the Node's pods are removed at the latest.
    SetDeadline(Timestamp),
    /// Writes that the Node's pods are leaving.
    Draining,
    /// Makes pods leave, each with its own effect; what is refused is asked for again later.
    Evict(Vec<Eviction>),
    /// Nothing until then: something else holds the Node, which people may want to know.
    Await(Timestamp, Holdup),
    /// Writes that no pod is left that must leave.
    Drained,
    /// Writes that nothing holds the machine any more, and that it is deleted now.
    Vacated(Volumes),
    /// Writes what the claim waits for.
    Explain(Word),
    /// Takes back why nothing was bought: now something is.
    Unblock,
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

/// What holds a Node that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holdup {
    /// Pods, and why each is still there.
    Pods(Vec<Waiting>),
    /// Volumes that are attached.
    Volumes(Vec<String>),
}

/// What became of the volumes of a Node that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volumes {
    /// They are detached.
    Detached,
    /// There was no time left to wait for them.
    Abandoned,
}

/// What is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withholding {
    /// The allocated offering: there is no hardware for it.
    Shortage,
    /// The allocated subnet: it has no address left.
    Subnet,
}

/// How a claim comes to its end by itself: a condition that will not become true, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The condition.
    pub condition: &'static str,
    /// Why, as one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl End {
    /// Every end that there is: what does not become true, and for which reason.
    pub const ALL: [(&'static str, &'static str); 5] = [
        (names::LAUNCHED, names::REASON_INSUFFICIENT_CAPACITY),
        (names::LAUNCHED, names::REASON_LAUNCH_FAILED),
        (names::LAUNCHED, names::REASON_LAUNCH_REFUSED),
        (names::NODE_REGISTERED, names::REASON_REGISTRATION_TIMEOUT),
        (names::NODE_INITIALIZED, names::REASON_INITIALIZATION_TIMEOUT),
    ];
}

/// What a claim says of a condition that is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The condition.
    pub condition: &'static str,
    /// Why it is not true yet, as one word.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
}

/// Why a claim does not get on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocker {
    /// What it asks for cannot be bought as it is written.
    #[error("{0}")]
    Unresolved(Unresolved),
    /// A breaker holds it back.
    #[error("{0}")]
    HeldBack(HeldBack),
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

impl Blocker {
    /// What does not become true because of it.
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Unresolved(_) | Self::HeldBack(_) | Self::Stranger { .. } => names::LAUNCHED,
            Self::Impostor(_) => names::NODE_REGISTERED,
        }
    }

    /// As one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unresolved(_) => names::REASON_LAUNCH_BLOCKED,
            Self::HeldBack(_) => names::REASON_HELD_BACK,
            Self::Stranger { .. } => names::REASON_NAME_TAKEN,
            Self::Impostor(_) => names::REASON_NODE_MISMATCH,
        }
    }
}

impl Step {
    /// A word for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add-finalizer",
            Self::Allocate(_) => "allocate",
            Self::Withdraw => "withdraw",
            Self::Credential => "credential",
            Self::RenewIntent(_) => "renew-intent",
            Self::Create { .. } => "create",
            Self::Record(_) => "record",
            Self::Label(_) => "label",
            Self::Launched(_) => "launched",
            Self::Withhold(_) => "withhold",
            Self::TakenBack { .. } => "taken-back",
            Self::GiveBackTaken(_) => "give-back-taken",
            Self::AwaitStop { .. } => "await-stop",
            Self::NoteFault(_) => "note-fault",
            Self::NoteShortage(_) => "note-shortage",
            Self::GiveUp(_) => "give-up",
            Self::End(_) => "end",
            Self::Retire { .. } => "retire",
            Self::Delete { .. } => "delete",
            Self::NoteAbsence(_) => "note-absence",
            Self::ForgetAbsence => "forget-absence",
            Self::ChangeNode(_) => "change-node",
            Self::SetDeadline(_) => "set-deadline",
            Self::Draining => "draining",
            Self::Evict(_) => "evict",
            Self::Await(..) => "await",
            Self::Drained => "drained",
            Self::Vacated(_) => "vacated",
            Self::Explain(_) => "explain",
            Self::Unblock => "unblock",
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
