//! What decisions see of the world, free of how it was read.

pub mod machine;

pub use machine::{Machine, MachineStatus, StatusReason};
