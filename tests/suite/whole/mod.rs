//! The whole product in a cluster that is served over TLS, with time as it is: the operator with the chart's own rights,
//! simulated machines and a simulated cloud, and people with kubectl. Once on the embedded cluster, and once on a real
//! control plane where the environment names one.
//!
//! A cluster has one such story at a time: the operator takes everything of its kinds for its own business.

#![cfg(feature = "sim")]

pub(crate) mod place;
mod stage;
mod story;
