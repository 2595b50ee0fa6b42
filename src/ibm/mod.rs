//! IBM Cloud: how it is spoken to, and what was known of it at build time.

pub mod builtin;
pub mod client;
pub mod endpoints;
pub mod http;
pub mod iam;
pub mod machines;
pub mod offerings;
pub mod prices;
pub mod resource_groups;
pub mod search;
pub mod tags;
pub mod vpc;

pub use crate::secret;
pub use client::{Client, Config, Transports};
pub use machines::Machines;
