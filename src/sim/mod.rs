//! The embedded world (feature `sim`): servers that speak on the wire exactly as the real ones do, and everything else
//! that a cluster has, so that the real controllers live in it.
//!
//! Only the command line, the campaign runner and tests import it. It starts the operator through a factory and never
//! reaches into controllers.

pub mod actors;
pub mod campaign;
pub mod faults;
pub mod history;
pub mod ibm;
pub mod invariants;
pub mod kube;
pub mod mutants;
pub mod probes;
pub mod scenario;
pub mod signals;
pub mod world;
