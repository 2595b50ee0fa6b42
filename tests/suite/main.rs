//! Tests that use the crate as others do, in one binary.

mod client;
mod simulator;
