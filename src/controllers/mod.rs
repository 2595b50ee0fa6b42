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
pub mod expiration;
pub mod garbage;
pub mod health;
pub mod interruption;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
pub mod node_pool;
mod pace;
mod passes;
pub mod provisioning;
mod removal;
pub mod termination;
pub mod unavailable;
pub mod zones;

pub use compute::Compute;
pub use context::{Context, Settings};
pub use discounts::Discounts;
pub use interruption::Notices;
pub use unavailable::Unavailable;
pub use zones::Zones;

use futures::FutureExt;

use crate::cloud::ClusterId;

/// Every controller, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let unavailable = context.unavailable.clone();
    // On the heap, as the sum of all is too large for the stack of a deep call.
    let claims = node_claim::run(context.clone(), cluster).boxed();
    let classes = node_class::run(context.clone()).boxed();
    let drift = drift::run(context.clone(), cluster).boxed();
    let approver = approve(context.clone()).boxed();
    let capacity = capacity::run(context.clone()).boxed();
    let plan = plan(context.clone()).boxed();
    let losing = losing(context, cluster).boxed();
    let unavailable = async move { unavailable.run().await }.boxed();
    tokio::join!(biased; claims, classes, approver, losing, drift, capacity, plan, unavailable);
}

/// Whatever makes machines, nodes and claims go.
async fn losing(context: Context, cluster: ClusterId) {
    let interruption = interruption::run(context.clone(), cluster).boxed();
    let termination = termination::run(context.clone()).boxed();
    let expiration = expiration::run(context.clone()).boxed();
    let health = health::run(context.clone()).boxed();
    let garbage = garbage::run(context, cluster).boxed();
    tokio::join!(biased; interruption, termination, expiration, health, garbage);
}

/// What needs to know the whole cluster, and that knowledge.
async fn plan(context: Context) {
    let cluster = context.cluster.clone();
    let known = cluster.run(&context.client);
    let pools = node_pool::run(context.clone());
    let pods = provisioning::run(context.clone());
    tokio::join!(biased; known, pools.boxed(), pods.boxed());
}

/// A fixed document brings a credential of its own, which no claim knows; whoever made it approves what comes of it.
async fn approve(context: Context) {
    if context.settings.user_data.is_none() {
        approver::run(context).await;
    }
}
