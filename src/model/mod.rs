//! What decisions see of the world, free of how it was read.

pub mod machine;
pub mod requirements;
pub mod values;

pub use machine::{Machine, MachineStatus, StatusReason};
pub use requirements::Requirements;
pub use values::Values;
