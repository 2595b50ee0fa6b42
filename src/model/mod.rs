//! What decisions see of the world, free of how it was read.

pub mod discount;
pub mod instance_type;
pub mod kind;
pub mod machine;
pub mod offerings;
pub mod requirements;
pub mod reservation;
pub mod values;
pub mod withheld;

pub use discount::{DiscountFactors, Factor};
pub use instance_type::{Availability, InstanceType, Offering, Unsold};
pub use kind::{Cards, Kind, LocalDisk, PriceSource, Priced, Sold};
pub use machine::{Machine, MachineStatus, StatusReason};
pub use offerings::{ClassFacts, Placement, SubnetFacts};
pub use requirements::Requirements;
pub use reservation::{KubeletSettings, Reservation};
pub use values::Values;
pub use withheld::{Hold, Withheld};
