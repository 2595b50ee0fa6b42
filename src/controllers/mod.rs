//! Effects: one file or folder per loop, each three steps: observe, decide, act.
//!
//! [`Context`] is the only way in. One replica is one future: nothing here is spawned, so dropping it is a crash and
//! not polling it is a pause, and both leave no task behind.

pub mod approver;
pub mod capacity;
pub mod compute;
pub mod context;
pub mod credentials;
pub mod discounts;
pub mod drift;
pub mod events;
pub mod garbage;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
pub mod node_pool;
mod pace;
mod passes;
pub mod provisioning;
pub mod unavailable;
pub mod zones;

pub use compute::Compute;
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
    let pods = Box::pin(plan(context.clone()));
    let garbage = garbage::run(context, cluster);
    // On the heap, as the sum of all is too large for the stack of a deep call.
    tokio::join!(biased; claims, classes, approver, garbage, drift, capacity, pods, Box::pin(unavailable.run()));
}

/// What needs to know the whole cluster, and that knowledge.
async fn plan(context: Context) {
    let cluster = context.cluster.clone();
    let known = cluster.run(&context.client);
    let pools = node_pool::run(context.clone());
    let pods = provisioning::run(context.clone());
    tokio::join!(biased; known, Box::pin(pools), Box::pin(pods));
}

/// A fixed document brings a credential of its own, which no claim knows; whoever made it approves what comes of it.
async fn approve(context: Context) {
    if context.settings.user_data.is_none() {
        approver::run(context).await;
    }
}
