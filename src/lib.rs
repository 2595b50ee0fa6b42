//! A Karpenter-style node provisioner for IBM Cloud VPC.
//!
//! Dependencies point down only (`tests/architecture.rs` keeps it so):
//!
//! ```text
//! sim/       (feature "sim") an IBM Cloud and a Kubernetes API to run against; speaks on the wire
//! cli/       one file per subcommand
//! operator/  what a running process needs: settings, metrics, health
//! ibm/       IBM Cloud: transport, tokens, typed endpoints, prices
//! cloud/     the vocabulary of a cloud and its error, whose variants are decisions
//! ── pure from here down ──
//! api/       what users write: the CRDs and their validation
//! clock hash money quantity    small values
//! ```

pub mod api;
pub mod cli;
pub mod clock;
pub mod cloud;
pub mod hash;
pub mod ibm;
pub mod money;
pub mod operator;
pub mod quantity;
#[cfg(feature = "sim")]
pub mod sim;
