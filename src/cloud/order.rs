//! What is asked of a cloud, in the words of no particular one.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{ClusterId, instance_name};
use crate::api::CapacityType;

/// A machine to be bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The one name of the claim's machine.
    pub name: String,
    /// Which attempt this is, from one on.
    pub attempt: u32,
    /// Which kind.
    pub profile: String,
    /// Where.
    pub zone: String,
    /// How.
    pub capacity_type: CapacityType,
    /// The id of the network it belongs to.
    pub vpc: String,
    /// The id of a subnet in that zone.
    pub subnet: String,
    /// The id of the image it boots.
    pub image: String,
    /// The ids of its security groups; the network's own when empty.
    pub security_groups: Vec<String>,
    /// The ids of the SSH keys that open it.
    pub ssh_keys: Vec<String>,
    /// The id of the resource group that marks it as ours.
    pub resource_group: String,
    /// The id of what it is placed on.
    pub placement_target: Option<String>,
    /// The id of the trusted profile that its programs may assume.
    pub trusted_profile: Option<String>,
    /// What it boots from.
    pub boot_volume: VolumeOrder,
    /// What else it carries.
    pub data_volumes: Vec<VolumeOrder>,
    /// Tags for people, `key:value`: on the boot volume they are atomic with the creation.
    pub tags: BTreeSet<String>,
    /// What it runs first.
    pub user_data: Option<String>,
    /// A purchase rests on a consistent read and is not sent when that has become old: then nothing is done.
    pub send_by: Instant,
}

impl Order {
    /// What the machine's interface and volumes are named after. An order that fails half way leaves one of them
    /// behind, and a volume that is kept outlives its machine: under the same names the next attempt would be refused.
    pub fn stem(&self) -> String {
        stem(&self.name, self.attempt)
    }
}

/// What the parts of a machine of that name and attempt are named after.
pub fn stem(name: &str, attempt: u32) -> String {
    match attempt {
        0 | 1 => name.to_owned(),
        attempt => instance_name::of_attempt(name, attempt),
    }
}

/// A volume to be made with a machine. What is `None` is left to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOrder {
    /// What it is called on the machine.
    pub device: Option<String>,
    /// How large, in GB.
    pub capacity_gb: Option<u64>,
    /// Which kind of volume.
    pub profile: Option<String>,
    /// Operations per second.
    pub iops: Option<u64>,
    /// Megabits per second.
    pub bandwidth_mbps: Option<u64>,
    /// The full name of the key that encrypts it; the cloud's own key if absent.
    pub encryption_key: Option<String>,
    /// What becomes of it when the machine goes.
    pub afterwards: Afterwards,
    /// Tags of this volume alone.
    pub tags: BTreeSet<String>,
}

/// What becomes of a volume when its machine goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Afterwards {
    /// It goes too.
    #[default]
    Deleted,
    /// It stays, and costs money, until somebody deletes it.
    Kept,
}

/// The two marks of a machine of ours, both atomic with its creation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ours {
    /// The cluster whose id stands in the name.
    pub cluster: ClusterId,
    /// The id of the resource group.
    pub resource_group: String,
}
