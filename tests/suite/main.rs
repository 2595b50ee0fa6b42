//! Tests that use the crate as others do, in one binary.

mod prices;
mod simulator;
