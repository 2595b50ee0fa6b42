//! What the rest of the program knows of a cloud: its vocabulary and its error.

pub mod error;
pub mod instance_name;
pub mod provider_id;

pub use error::{Answer, Effect, Error};
pub use instance_name::{ClusterId, InstanceName};
pub use provider_id::ProviderId;
