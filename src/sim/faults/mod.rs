//! What goes wrong in the world: a [`Plan`] says what and when, the [`Desk`] turns it on and off and counts what struck.
//!
//! A plan is drawn whole from the seed before the run, so that it can be stored, shortened and played again; the chance
//! within an injection is its own. The cloud's faults strike inside the simulated cloud; those of the API server in
//! [`kube::Layer`], in front of the operator alone; what people do is done through clean clients. Crashes and pauses are
//! the world's to carry out.

pub mod desk;
pub mod draw;
pub mod key;
pub mod kube;
pub mod names;
pub mod plan;
pub mod third_parties;

pub use desk::{Desk, Parts, Sink, Testimony, Witness};
pub use draw::Shape;
pub use key::KeyFile;
pub use names::{FaultName, KubeKind, MachineKind, MeddlingKind};
pub use plan::{Fault, Impossible, Injection, Plan, Upon};
pub use third_parties::Meddling;
