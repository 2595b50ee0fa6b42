//! The embedded world (feature `sim`): servers that speak on the wire exactly as the real ones do.
//!
//! Only the command line and tests import it, and it never reaches into controllers.

pub mod ibm;
pub mod kube;
