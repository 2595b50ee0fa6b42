//! What the rest of the program knows of a cloud: what it can be asked, its vocabulary and its error.

use std::sync::Arc;

use async_trait::async_trait;

pub mod error;
pub mod instance_name;
pub mod order;
pub mod provider_id;

pub use crate::model::{Kind, Machine, MachineStatus, StatusReason};
pub use error::{Answer, Effect, Error};
pub use instance_name::{ClusterId, InstanceName};
pub use order::{Order, Ours, Subnet};
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

    /// Asks for deletion; the machine is gone when reads say so. A conflict means "later".
    async fn delete(&self, id: &str) -> Result<(), Error>;

    /// Gives a machine another name, which frees the one it had.
    async fn rename(&self, id: &str, name: &str) -> Result<(), Error>;

    /// Every kind of machine that is sold in the region, by name. It may be some minutes old.
    async fn kinds(&self) -> Result<Arc<Vec<Kind>>, Error>;

    /// The subnets of a network.
    async fn subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error>;

    /// The id of an image that is written by id or by name; `None` if there is none that can be booted.
    async fn image(&self, written: &str) -> Result<Option<String>, Error>;

    /// The id of a resource group that is written by id or by name, or of the account's own when it is not written;
    /// `None` if there is no such group.
    async fn resource_group(&self, written: Option<&str>) -> Result<Option<String>, Error>;
}
