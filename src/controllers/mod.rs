//! Effects: one file or folder per loop, each three steps: observe, decide, act.
//!
//! [`Context`] is the only way in. One replica is one future: nothing here is spawned, so dropping it is a crash and
//! not polling it is a pause, and both leave no task behind.

pub mod approver;
pub mod capacity;
pub mod context;
pub mod credentials;
pub mod discounts;
pub mod drift;
pub mod events;
pub mod garbage;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
mod pace;
mod passes;
pub mod unavailable;
pub mod zones;

pub use context::{Context, Settings};
pub use discounts::Discounts;
pub use unavailable::Unavailable;
pub use zones::Zones;

use crate::cloud::ClusterId;

/// Every controller, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let claims = node_claim::run(context.clone(), cluster);
    let unavailable = context.unavailable.clone();
    let classes = Box::pin(node_class::run(context.clone()));
    let drift = Box::pin(drift::run(context.clone(), cluster));
    let capacity = Box::pin(capacity::run(context.clone()));
    let approver = Box::pin(approve(context.clone()));
    let garbage = garbage::run(context, cluster);
    // On the heap, as the sum of all is too large for the stack of a deep call.
    tokio::join!(biased; claims, classes, approver, garbage, drift, capacity, Box::pin(unavailable.run()));
}

/// A fixed document brings a credential of its own, which no claim knows; whoever made it approves what comes of it.
async fn approve(context: Context) {
    if context.settings.user_data.is_none() {
        approver::run(context).await;
    }
}
