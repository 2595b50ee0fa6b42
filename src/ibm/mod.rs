//! IBM Cloud: how it is spoken to, and what was known of it at build time.

pub mod builtin;
pub mod endpoints;
pub mod entropy;
pub mod http;
pub mod iam;
pub mod prices;
pub mod secret;
pub mod vpc;
