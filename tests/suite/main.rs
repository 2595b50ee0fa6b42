//! Tests that use the crate as others do, in one binary.

#[cfg(test)]
mod simulator;
