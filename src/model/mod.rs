//! What decisions see of the world, free of how it was read.

pub mod host_port;
pub mod instance_type;
pub mod machine;
pub mod node;
pub mod pod;
pub mod pool;
pub mod requirements;
pub mod selector;
pub mod snapshot;
pub mod storage;
pub mod taint;
pub mod values;

pub use host_port::HostPort;
pub use instance_type::{Availability, InstanceType, Offering, Unsold};
pub use machine::{Machine, MachineStatus, StatusReason};
pub use node::{Node, NodeKind, Stage, Standing};
pub use pod::{Pod, PodSet};
pub use pool::Pool;
pub use requirements::Requirements;
pub use selector::Selector;
pub use snapshot::Snapshot;
pub use storage::Storage;
pub use taint::{Effect, Taint, Toleration};
pub use values::Values;
