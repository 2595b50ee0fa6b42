//! Everything around a machine: zones, networks, images, keys, volumes, placement groups.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Extra, LifecycleState, Reference, ReservedIp, null_as_empty};

/// A region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A zone of a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ZoneStatus>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether a zone can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneStatus {
    Available,
    Impaired,
    Unavailable,
    Unassigned,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// Whether a VPC or subnet can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkStatus {
    Available,
    Deleting,
    Failed,
    Pending,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// A virtual private cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vpc {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NetworkStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_security_group: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A subnet: the addresses of one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NetworkStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4_cidr_block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_ipv4_address_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ipv4_address_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ImageStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_provisioned_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<OperatingSystem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether an image can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageStatus {
    Available,
    Deprecated,
    /// Only in the zones it lists.
    PartiallyAvailable,
    Pending,
    Failed,
    Obsolete,
    Unusable,
    Deleting,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// What an image runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatingSystem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An SSH key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A block storage volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<VolumeStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment_state: Option<AttachmentState>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub user_tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether a volume can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeStatus {
    Available,
    Failed,
    Pending,
    PendingDeletion,
    Unusable,
    Updating,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// Whether a volume hangs on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentState {
    Attached,
    Unattached,
    Unusable,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// A virtual network interface. Without a `target` it belongs to nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualNetworkInterface {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_delete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<LifecycleState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_ip: Option<ReservedIp>,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub security_groups: Vec<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementGroup {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<LifecycleState>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A host, or a group of hosts, that nobody else uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DedicatedHost {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}
