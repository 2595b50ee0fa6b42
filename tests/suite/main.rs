//! Tests that use the crate as others do, in one binary.

mod cli;
mod client;
mod simulator;
