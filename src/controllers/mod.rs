//! Effects: one file or folder per loop, each three steps: observe, decide, act.
//!
//! [`Context`] is the only way in. One replica is one future: nothing here is spawned, so dropping it is a crash and
//! not polling it is a pause, and both leave no task behind.

pub mod context;
pub mod drift;
pub mod events;
pub mod garbage;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
mod pace;

pub use context::{Context, Settings};

use crate::cloud::ClusterId;

/// Every controller, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let claims = node_claim::run(context.clone(), cluster);
    let classes = Box::pin(node_class::run(context.clone()));
    let drift = Box::pin(drift::run(context.clone(), cluster));
    let garbage = garbage::run(context, cluster);
    tokio::join!(biased; claims, classes, garbage, drift);
}
