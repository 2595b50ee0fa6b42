//! A Kubernetes API server in small: starts in milliseconds, keeps history, and can be made to show the past.
//!
//! One router serves `kube::Client` in this process and `kubectl` over TCP. Each request runs in a task of its own.

pub mod admission;
pub mod bootstrap;
pub mod builtin;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod decode;
pub mod definitions;
pub mod delete;
pub mod discovery;
pub mod events;
pub mod heartbeat;
pub mod identity;
pub mod kind;
pub mod metadata;
pub mod namespaces;
pub mod object;
pub mod ownership;
pub mod page;
pub mod patch;
pub mod protobuf;
pub mod read;
pub mod refusal;
pub mod registry;
pub mod request;
pub mod schema;
pub mod selectable;
pub mod selector;
pub mod serve;
pub mod server;
pub mod store;
pub mod stored;
pub mod subresource;
pub mod table;
#[cfg(test)]
mod trial;
pub mod usage;
pub mod warning;
pub mod watching;
pub mod write;

pub use server::{ApiServer, Audit, Options};
