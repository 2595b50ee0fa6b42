//! What a cloud has that orders refer to: networks, subnets, images, places.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::InstanceName;

/// A network that machines belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Whether machines can be put into it.
    pub state: Usable,
    /// The id of the security group of machines that are given none.
    pub default_security_group: Option<String>,
}

/// Whether something can be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usable {
    /// It can.
    Yes,
    /// It is being made, being deleted, or broken.
    No,
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
    /// Its addresses, like `10.240.0.0/24`.
    pub cidr: Option<String>,
    /// Whether machines can be put into it.
    pub state: Usable,
}

/// Which images are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageQuery {
    /// The one of this id, whoever owns it.
    Id(String),
    /// Those of exactly this name.
    Named(String, Owner),
    /// All of an owner.
    All(Owner),
}

/// Whose an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The cloud's own, which every account sees.
    Provider,
    /// One of the account.
    Account,
}

/// What a machine can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it boots.
    pub state: ImageState,
    /// The operating system, like `ubuntu-24-04-amd64`.
    pub operating_system: Option<String>,
    /// The processor architecture, like `amd64`.
    pub architecture: Option<String>,
    /// The least size of a boot volume, in GB.
    pub minimum_gb: Option<u64>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// Whether an image boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// It does.
    Available,
    /// It does, until it is withdrawn.
    Deprecated,
    /// It does not, in the cloud's own word.
    Unusable(String),
}

/// What machines are placed on, or how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Apart from each other.
    Group,
    /// On one host that nobody else uses, which stands in this zone.
    DedicatedHost(Option<String>),
    /// On hosts that nobody else uses, which stand in this zone.
    DedicatedHostGroup(Option<String>),
}

/// Something that was made for a machine of ours and hangs on none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Its id.
    pub id: String,
    /// Its name, which says for which machine it was made.
    pub name: String,
    /// That machine.
    pub made_for: InstanceName,
    /// That machine in that attempt, as [`stem`](super::order::stem) names them.
    pub stem: String,
    /// What it is.
    pub kind: LeftoverKind,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// What a machine may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// A network interface.
    Interface,
    /// What it booted from.
    BootVolume,
    /// What else it carried, and was to go with it.
    DataVolume,
}

impl std::fmt::Display for LeftoverKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Interface => "network interface",
            Self::BootVolume => "boot volume",
            Self::DataVolume => "data volume",
        })
    }
}

/// The security groups of a machine's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The id of the interface.
    pub id: String,
    /// The ids of its security groups.
    pub security_groups: BTreeSet<String>,
}
