//! What decisions see of the world, free of how it was read.

pub mod instance_type;
pub mod machine;
pub mod requirements;
pub mod values;

pub use instance_type::{Availability, InstanceType, Offering, Unsold};
pub use machine::{Machine, MachineStatus, StatusReason};
pub use requirements::Requirements;
pub use values::Values;
