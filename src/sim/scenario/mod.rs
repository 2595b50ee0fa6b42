//! Scenarios: stories about a cluster as YAML files: what is there, what happens when, and what must come of it.
//!
//! A [`Scenario`] is plain data. The [`player`] plays it against any Kubernetes API and a simulated cloud, so that the
//! deterministic world, the demo and a real control plane tell the same story; a [`transcript`] of a run without
//! faults is both a test and documentation. Files are read by [`Scenario::load`], whose mistakes name file, line and
//! field.

use std::time::Duration;

use serde_json::Value;

use crate::sim::ibm::{Class, FaultKind, HostFailure};

mod bill;
mod changes;
mod configuration;
mod document;
mod expectation;
mod judge;
mod known;
mod parse;
pub mod picture;
mod placeholders;
pub mod player;
pub mod scene;
pub mod stage;
pub mod transcript;

pub use bill::{Bill, Ledger, Rate};
pub use changes::changes;
pub use configuration::Configuration;
pub use document::Mistake;
pub use expectation::{
    ClaimState, Condition, Expectation, Left, MachineState, NodeState, PodState, Selector,
};
pub use judge::Verdict;
pub use parse::LoadError;
pub use player::{Audience, Failure, Hands, Line, Player, Reason, Voice, play};
pub use scene::Scene;

/// A story: what is there from the start, what happens, and what is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called; the name of its file.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// The region it plays in.
    pub region: String,
    /// What is applied before the first step, in order. Texts may hold placeholders such as `${vpc}`; see
    /// [`Scenario::objects_in`].
    pub objects: Vec<Value>,
    /// What happens, in order of time.
    pub steps: Vec<Step>,
    /// How long it takes at most: until the last step is done and its expectation judged.
    pub lasts: Duration,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When, since the start. A step whose predecessor took longer happens right after it.
    pub at: Duration,
    /// Where it stands in its file.
    pub line: u64,
    /// What.
    pub action: Action,
}

/// What can happen in a story.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Somebody applies manifests, which may hold placeholders.
    Apply(Vec<Value>),
    /// Somebody deletes an object.
    Delete(Target),
    /// Somebody sets the number of replicas.
    Scale {
        /// Of what.
        target: Target,
        /// To how many.
        replicas: u32,
    },
    /// IBM takes a spot machine back.
    Preempt(Machine),
    /// The host of a machine fails.
    FailHost {
        /// The machine on it.
        machine: Machine,
        /// What becomes of the machine; what its own policy says if absent.
        outcome: Option<HostFailure>,
    },
    /// Somebody stops a machine behind everybody's back.
    StopMachine(Machine),
    /// There are no more machines of a kind.
    Drain(Offering),
    /// There are machines of a kind again.
    Refill(Offering),
    /// The cloud misbehaves for a while.
    Fault(CloudFault),
    /// A replica of the operator dies and is started again with empty memory.
    Crash(Crash),
    /// Somebody writes the operator's configuration file anew.
    Configure(String),
    /// What was paid so far is told.
    Bill,
    /// The narrator says something.
    Say(String),
    /// Something must be so within a time.
    Expect(Expectation),
}

/// An object of the cluster, as people name one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Such as `apps/v1`; absent for kinds whose group everybody knows.
    pub api_version: Option<String>,
    /// Such as `Deployment`.
    pub kind: String,
    /// Absent for what is in no namespace, and for `default`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A machine, by what people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The one bought for the claim of this name.
    OfClaim(String),
    /// The one bought for the first claim, by name, with these labels.
    Selected(Selector),
}

/// Machines of a profile, in a zone or everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Such as `bxf-4x16`.
    pub profile: String,
    /// Such as `us-south-1`; every zone of the region if absent.
    pub zone: Option<String>,
    /// Spot or standard; both if absent.
    pub class: Option<Class>,
}

/// A fault of the cloud that is turned on.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudFault {
    /// Which.
    pub kind: FaultKind,
    /// When it ends by itself; if absent, when it has struck often enough.
    pub lasts: Option<Duration>,
    /// How often it strikes at most.
    pub times: Option<u32>,
    /// How often it strikes out of a hundred times that it could.
    pub percent: u32,
    /// Only on this operation, such as `instances.create`.
    pub operation: Option<String>,
}

/// The death of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which, from 0.
    pub replica: usize,
    /// Right after so many more of its effects; at once for 0.
    pub after_effects: u64,
}
