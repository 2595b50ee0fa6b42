//! Instances as the API answers them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Extra, Reference, null_as_empty};

/// A virtual server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<InstanceStatus>,
    /// Why it is in that status; the only place that tells a preemption or a shortage.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub status_reasons: Vec<StatusReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<LifecycleState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_state: Option<HealthState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_policy: Option<AvailabilityPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    /// GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_network_attachment: Option<NetworkAttachment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_volume_attachment: Option<VolumeAttachment>,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub volume_attachments: Vec<VolumeAttachment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_target: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Instance {
    /// The name of its profile.
    pub fn profile_name(&self) -> Option<&str> {
        self.profile.as_ref()?.name.as_deref()
    }

    /// The name of its zone.
    pub fn zone_name(&self) -> Option<&str> {
        self.zone.as_ref()?.name.as_deref()
    }

    /// Whether one of its status reasons is `code`.
    pub fn has_reason(&self, code: &StatusReasonCode) -> bool {
        self.status_reasons
            .iter()
            .any(|reason| reason.code.as_ref() == Some(code))
    }

    /// Its address, once one is assigned: until then the API shows `0.0.0.0`.
    pub fn address(&self) -> Option<&str> {
        let ip = self.primary_network_attachment.as_ref()?.primary_ip.as_ref()?;
        ip.address.as_deref().filter(|address| *address != "0.0.0.0")
    }
}

/// What the machine does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceStatus {
    Pending,
    Starting,
    Running,
    Stopping,
    Stopped,
    Restarting,
    Deleting,
    Failed,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// Why a machine is in its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReason {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<StatusReasonCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The API's codes for a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusReasonCode {
    CannotStart,
    CannotStartCapacity,
    CannotStartCompute,
    CannotStartIpAddress,
    CannotStartNetwork,
    CannotStartPlacementGroup,
    CannotStartReservationCapacity,
    CannotStartReservationExpired,
    CannotStartStorage,
    EncryptionKeyDeleted,
    StoppedByHostFailure,
    StoppedByPreemption,
    StoppedForImageCreation,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// What becomes of the resource as such; a stopped machine is `stable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleState {
    Pending,
    Stable,
    Updating,
    Waiting,
    Suspended,
    Deleting,
    Failed,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// How the resource is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    Ok,
    Degraded,
    Faulted,
    Inapplicable,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// Whether IBM may take the machine back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AvailabilityClass {
    Spot,
    Standard,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

impl AvailabilityClass {
    /// Its name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Spot => "spot",
            Self::Standard => "standard",
            Self::Other(other) => other,
        }
    }
}

/// The class a machine was bought in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Availability {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<AvailabilityClass>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Availability {
    /// Bought in `class`.
    pub fn of(class: AvailabilityClass) -> Self {
        Self {
            class: Some(class),
            extra: Extra::new(),
        }
    }
}

/// What happens to the machine when its host fails or IBM takes it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AvailabilityPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_failure: Option<HostFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// On failure of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFailure {
    Restart,
    Stop,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// On preemption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// The machine stays, stopped, and says why.
    Stop,
    /// It vanishes, and nobody can tell it from a deletion by hand.
    Delete,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// A machine's tie to a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkAttachment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_ip: Option<ReservedIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_network_interface: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An address in a subnet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservedIp {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A machine's tie to a volume; `volume` is absent until it is provisioned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a machine was initialized with. User data is never returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Initialization {
    #[serde(default, deserialize_with = "null_as_empty")]
    pub keys: Vec<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An order to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Start,
    Stop,
    Reboot,
}
