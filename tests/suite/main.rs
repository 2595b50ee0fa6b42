//! Tests that use the crate from outside, in one binary so that it is linked once.
//!
//! Each module is marked `cfg(test)`, although all of this is tests: it is how clippy knows that unwrapping is fine.

#[cfg(all(test, feature = "sim"))]
mod cluster_serve;
