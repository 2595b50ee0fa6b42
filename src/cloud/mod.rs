//! What the rest of the program knows of a cloud: what it can be asked, its vocabulary and its error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

pub mod error;
pub mod instance_name;
pub mod inventory;
pub mod order;
pub mod provider_id;

pub use crate::model::{Kind, Machine, MachineStatus, StatusReason};
pub use error::{Answer, Effect, Error};
pub use instance_name::{ClusterId, InstanceName};
pub use inventory::{
    Image, ImageQuery, ImageState, Interface, Leftover, LeftoverKind, Network, Owner, Placement, Subnet,
    Usable,
};
pub use order::{Afterwards, Order, Ours, VolumeOrder};
pub use provider_id::ProviderId;

/// A cloud that sells machines. An error is not an absence: only [`Error::NotFound`] of `get` and `None` of `find` say
/// that something is not there, and either may be mistaken once.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Orders a machine. Success means that it will be tried; a shortage may show later, in its status. An error whose
    /// [`Error::effect`] is unknown must be settled by looking the name up.
    async fn create(&self, order: &Order) -> Result<Machine, Error>;

    /// One machine, by id.
    async fn get(&self, id: &str) -> Result<Machine, Error>;

    /// The machine of exactly this name, whoever it belongs to.
    async fn find(&self, name: &str) -> Result<Option<Machine>, Error>;

    /// Every machine with these marks: all pages or an error. Machines of failed attempts are among them.
    async fn list(&self, ours: &Ours) -> Result<Vec<Machine>, Error>;

    /// Those of them that the cloud may take back: all pages or an error.
    async fn preemptible(&self, ours: &Ours) -> Result<Vec<Machine>, Error>;

    /// What was made for machines with these marks and hangs on none: all pages or an error. Volumes for data are not
    /// among them, since they may have been kept on purpose.
    async fn leftovers(&self, ours: &Ours) -> Result<Vec<Leftover>, Error>;

    /// Deletes something that hangs on no machine. A conflict means that it does after all, or "later".
    async fn remove(&self, leftover: &Leftover) -> Result<(), Error>;

    /// Asks for deletion; the machine is gone when reads say so. A conflict means "later".
    async fn delete(&self, id: &str) -> Result<(), Error>;

    /// Gives a machine another name, which frees the one it had.
    async fn rename(&self, id: &str, name: &str) -> Result<(), Error>;

    /// Every kind of machine that is sold in the region, by name. It may be an hour old, and older while it cannot be read.
    async fn kinds(&self) -> Result<Arc<Vec<Kind>>, Error>;

    /// The same, a few minutes old: for whoever finds nothing to buy in what was read before, or was refused it. To ask for
    /// it often costs the cloud no more than to ask now and then.
    async fn recent_kinds(&self) -> Result<Arc<Vec<Kind>>, Error>;

    /// Puts tags on a machine, for people to read: the same twice as once.
    async fn tag(&self, machine: &Machine, tags: &BTreeSet<String>) -> Result<(), Error>;

    /// The interfaces in a resource group: all pages or an error.
    async fn interfaces(&self, resource_group: &str) -> Result<Vec<Interface>, Error>;

    /// A network; `None` if there is none of that id.
    async fn network(&self, vpc: &str) -> Result<Option<Network>, Error>;

    /// The subnets of a network, in order of their ids.
    async fn subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error>;

    /// The ids of the subnets of a network that carry all of these tags. The index of tags lags, so of the subnets in
    /// `known`, which carried them before, those that it misses are asked for themselves.
    async fn tagged_subnets(
        &self,
        vpc: &str,
        tags: &BTreeMap<String, String>,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Error>;

    /// The ids of the security groups of a network.
    async fn security_groups(&self, vpc: &str) -> Result<BTreeSet<String>, Error>;

    /// The ids of all SSH keys.
    async fn keys(&self) -> Result<BTreeSet<String>, Error>;

    /// The images that are asked for, usable or not.
    async fn images(&self, query: &ImageQuery) -> Result<Vec<Image>, Error>;

    /// What machines may be placed on; `None` if there is nothing of that id.
    async fn placement(&self, id: &str) -> Result<Option<Placement>, Error>;

    /// The id of a resource group that is written by id or by name, or of the account's own when it is not written;
    /// `None` if there is no such group.
    async fn resource_group(&self, written: Option<&str>) -> Result<Option<String>, Error>;
}
