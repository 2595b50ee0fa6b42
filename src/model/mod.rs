//! What decisions see of the world, free of how it was read.

pub mod budget;
pub mod discount;
pub mod host_port;
pub mod instance_type;
pub mod kind;
pub mod machine;
pub mod node;
pub mod offerings;
pub mod pod;
pub mod pool;
pub mod requirements;
pub mod reservation;
pub mod selector;
pub mod snapshot;
pub mod storage;
pub mod taint;
pub mod values;
pub mod withheld;

pub use discount::{DiscountFactors, Factor};
pub use host_port::HostPort;
pub use instance_type::{Availability, InstanceType, Offering, Unsold};
pub use kind::{Cards, Kind, LocalDisk, PriceSource, Priced, Sold};
pub use machine::{Machine, MachineStatus, StatusReason};
pub use node::{Node, NodeKind, Stage, Standing};
pub use offerings::{ClassFacts, Placement, SubnetFacts};
pub use pod::{Pod, PodSet};
pub use pool::Pool;
pub use requirements::Requirements;
pub use reservation::Reservation;
pub use selector::Selector;
pub use snapshot::Snapshot;
pub use storage::Storage;
pub use taint::{Effect, Taint, Toleration};
pub use values::Values;
pub use withheld::{Hold, Withheld};
