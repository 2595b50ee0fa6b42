//! The integration tests, all in one binary: they link once.

#[cfg(feature = "sim")]
mod cluster_serve;
#[cfg(feature = "sim")]
mod kubectl;
