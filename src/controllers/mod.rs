//! Effects: one file or folder per loop, each three steps: observe, decide, act.
//!
//! [`Context`] is the only way in. One replica is one future: nothing here is spawned, so dropping it is a crash and
//! not polling it is a pause, and both leave no task behind.

pub mod context;
pub mod discounts;
pub mod events;
pub mod garbage;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
pub mod unavailable;

pub use context::{Context, Settings};
pub use discounts::Discounts;
pub use unavailable::Unavailable;

use crate::cloud::ClusterId;

/// Every controller, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let claims = node_claim::run(context.clone(), cluster);
    let unavailable = context.unavailable.clone();
    let garbage = garbage::run(context, cluster);
    // On the heap, as the sum of all is too large for the stack of a deep call.
    tokio::join!(biased; claims, garbage, Box::pin(unavailable.run()));
}
