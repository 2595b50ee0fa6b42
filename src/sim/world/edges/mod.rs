//! The two edges of a replica, recording: everything that it asks for and everything that it is told.
//!
//! On the Kubernetes side the order is, from the client: kube's own retries, the recorder, faults, a witness, the
//! server. The recorder sees what the client sees; the witness, what the server did. A request that was handed over
//! is carried on by a task of its own, so it lands whether its sender lives or not; an answer to somebody who is gone
//! is recorded as lost.

mod cloud;
mod kube;
mod stream;

pub use cloud::CloudEdge;
pub use kube::{Faults, KubeEdge, Way};

use super::life::{Life, Mode};
use crate::sim::history::CarriedOut;

/// Whether the server answered, for the history.
fn carried_out(served: Option<http::StatusCode>) -> CarriedOut {
    match served {
        Some(_) => CarriedOut::Yes,
        None => CarriedOut::No,
    }
}

/// Whether somebody still waits for an answer.
fn is_awaited<T>(life: &Life, to: &tokio::sync::oneshot::Sender<T>) -> bool {
    life.mode() != Mode::Over && !to.is_closed()
}
