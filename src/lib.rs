//! A Karpenter-style node provisioner for IBM Cloud VPC.
//!
//! Dependencies point down only (`tests/architecture.rs` keeps it so):
//!
//! ```text
//! sim/          (feature "sim") an IBM Cloud and a Kubernetes API to run against; speaks on the wire
//! cli/          one file per subcommand
//! operator/     what a running process needs: settings, leadership, metrics, health
//! controllers/  effects: one file or folder per loop, each three steps: observe, decide, act
//! cluster/      watches folded into one index, and what decisions see of it
//! ibm/          IBM Cloud as a Cloud: transport, tokens, typed endpoints, prices
//! cloud/        the trait Cloud, its vocabulary and its error, whose variants are decisions
//! ── pure from here down ──
//! audit/        a second, naive look at plans; tests, benchmarks and worlds use it
//! scheduling/   where pending pods go, and which nodes are bought for them
//! allocation/   what to buy for a claim, or why nothing can be bought
//! lifecycle/    the next step of a NodeClaim's life
//! bootstrap/    what a machine is told at its first boot
//! drain/        which pods leave a node next
//! model/        what decisions see
//! api/          what users write: the CRDs and their validation
//! clock entropy hash money panics quantity resources secret wake    small values
//! ```

pub mod allocation;
pub mod api;
pub mod audit;
pub mod bootstrap;
pub mod cli;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod controllers;
pub mod drain;
pub mod entropy;
pub mod hash;
pub mod ibm;
pub mod lifecycle;
pub mod model;
pub mod money;
pub mod operator;
pub mod panics;
pub mod quantity;
pub mod resources;
pub mod scheduling;
pub mod secret;
#[cfg(feature = "sim")]
pub mod sim;
pub mod wake;
