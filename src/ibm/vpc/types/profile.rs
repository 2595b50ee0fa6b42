//! Instance profiles as the API answers them.

use serde::{Deserialize, Serialize};

use super::{AvailabilityClass, Capability, Extra, Reference, null_as_empty};

/// A kind of machine. Everything but the name may be missing: what cannot be sized is skipped by whoever sizes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceProfile {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ProfileStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu_count: Option<Capability<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu_architecture: Option<Capability<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu_manufacturer: Option<Capability<String>>,
    /// GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Capability<u64>>,
    /// Mb/s, network and volumes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Capability<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_attachment_count: Option<Capability<u64>>,
    #[serde(default, deserialize_with = "null_as_empty")]
    pub disks: Vec<ProfileDisk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<Capability<u64>>,
    /// GiB of all cards together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<Capability<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_manufacturer: Option<Capability<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_model: Option<Capability<String>>,
    /// Which classes it may be bought in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_class: Option<Capability<AvailabilityClass>>,
    /// Where its hardware stands; it says nothing about capacity. Only the names count: the links are malformed.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub zones: Vec<Reference>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether a profile is of the current generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileStatus {
    Current,
    Previous,
    /// A value of tomorrow.
    #[serde(untagged)]
    Other(String),
}

/// Instance storage of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileDisk {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Capability<u64>>,
    /// GB each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Capability<u64>>,
    #[serde(flatten)]
    pub extra: Extra,
}
