//! What is asked of a cloud, in the words of no particular one.

use tokio::time::Instant;

use super::ClusterId;
use crate::api::CapacityType;

/// A machine to be bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The one name of the claim's machine.
    pub name: String,
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
    /// What it runs first.
    pub user_data: Option<String>,
    /// A purchase rests on a consistent read and is not sent when that has become old: then nothing is done.
    pub send_by: Instant,
}

/// The two marks of a machine of ours, both atomic with its creation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ours {
    /// The cluster whose id stands in the name.
    pub cluster: ClusterId,
    /// The id of the resource group.
    pub resource_group: String,
}

/// Where machines may stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// How many addresses were free when it was read.
    pub free: u64,
}
