//! The kinds that come with Kubernetes: their shapes, their defaults, their rules.
//!
//! Everything here is a function of objects; what a server adds from what else it stores is in `admission`.

mod conform;
mod shapes;

pub use conform::{Mismatch, conform};
pub use shapes::open_api;
