//! A machine as a decision sees it: the same words for every cloud.

use std::fmt;

use jiff::Timestamp;

use crate::api::CapacityType;

/// A machine that exists, as it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Given by the cloud, never used twice.
    pub id: String,
    /// Unique in the region while the machine exists.
    pub name: String,
    /// Which kind of machine it is, whatever was ordered.
    pub profile: String,
    /// Where it stands.
    pub zone: String,
    /// How it was bought.
    pub capacity_type: CapacityType,
    /// What it does.
    pub status: MachineStatus,
    /// Why it does that.
    pub reasons: Vec<StatusReason>,
    /// Its address in the subnet, once it has one.
    pub address: Option<String>,
    /// The id of its resource group: with the name, the mark of whose it is.
    pub resource_group: String,
    /// The id of the image it was made from.
    pub image: Option<String>,
    /// The id of the subnet it stands in.
    pub subnet: Option<String>,
    /// The id of its interface, which its security groups belong to.
    pub interface: Option<String>,
    /// The cloud's full name for it, by which it is tagged.
    pub crn: Option<String>,
    /// When it was ordered.
    pub created_at: Option<Timestamp>,
}

/// What a machine does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineStatus {
    /// Ordered, and nothing was done yet.
    Pending,
    /// On its way to run.
    Starting,
    /// It runs.
    Running,
    /// On its way to stop.
    Stopping,
    /// It does not run, and holds its address and volumes still.
    Stopped,
    /// It runs again in a moment.
    Restarting,
    /// It is going; it is gone when a read says so.
    Deleting,
    /// It will never run.
    Failed,
    /// A word of tomorrow. Nothing is concluded from it.
    Other(String),
}

/// Why a machine is in its status, as far as a decision hangs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusReason {
    /// The cloud took it back.
    Preempted,
    /// There was no hardware for it.
    NoCapacity,
    /// Its subnet had no address for it.
    NoAddress,
    /// Anything else, in the cloud's own word.
    Other(String),
}

impl fmt::Display for MachineStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Restarting => "restarting",
            Self::Deleting => "deleting",
            Self::Failed => "failed",
            Self::Other(word) => word,
        })
    }
}

impl fmt::Display for StatusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preempted => "stopped_by_preemption",
            Self::NoCapacity => "cannot_start_capacity",
            Self::NoAddress => "cannot_start_ip_address",
            Self::Other(word) => word,
        })
    }
}

impl Machine {
    /// What it does and why, for people: `stopped (stopped_by_preemption)`.
    pub fn state(&self) -> String {
        let reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        match reasons.as_slice() {
            [] => self.status.to_string(),
            reasons => format!("{} ({})", self.status, reasons.join(", ")),
        }
    }

    /// Whether it has come to an end by itself: it does not run, and will not unless somebody starts it.
    pub fn is_dead(&self) -> bool {
        matches!(self.status, MachineStatus::Failed | MachineStatus::Stopped)
    }

    /// Whether the cloud took it back.
    pub fn is_preempted(&self) -> bool {
        self.status == MachineStatus::Stopped && self.reasons.contains(&StatusReason::Preempted)
    }
}
