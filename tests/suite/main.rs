//! Tests that use the crate from outside, in one binary so that it is linked once.
//!
//! Each module is marked `cfg(test)`, although all of this is tests: it is how clippy knows that unwrapping is fine.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod client;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod cluster_serve;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crds;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod determinism;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod kubectl;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod offerings;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod placing;
#[cfg(test)]
mod prices;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod simulate;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod solve;
#[cfg(test)]
mod unavailable;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod workloads;
