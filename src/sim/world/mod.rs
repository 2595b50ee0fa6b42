//! The deterministic world.

pub mod edges;
pub mod effects;
pub mod life;
pub mod recorder;
pub mod replica;
