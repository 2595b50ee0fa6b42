//! What the rest of the program knows of a cloud: its vocabulary and its error.

pub mod error;

pub use error::{Answer, Effect, Error};
