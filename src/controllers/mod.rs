//! Effects: one file or folder per loop, each three steps: observe, decide, act.
//!
//! [`Context`] is the only way in. One replica is one future: nothing here is spawned, so dropping it is a crash and
//! not polling it is a pause, and both leave no task behind.

pub mod approver;
pub mod capacity;
pub mod compute;
mod conditions;
pub mod context;
pub mod credentials;
pub mod definitions;
pub mod discounts;
pub mod drift;
pub mod events;
pub mod expiration;
pub mod garbage;
mod guard;
pub mod health;
pub mod interruption;
mod lost_node;
pub mod metrics;
pub mod node_claim;
pub mod node_class;
pub mod node_pool;
mod pace;
mod passed_over;
mod passes;
mod preemption;
pub mod provisioning;
mod removal;
pub mod server_time;
pub mod termination;
pub mod unavailable;
pub mod zones;

pub use compute::Compute;
pub use context::{Context, Settings};
pub use definitions::Definitions;
pub use discounts::Discounts;
pub use interruption::Notices;
pub use server_time::ServerTime;
pub use unavailable::Unavailable;
pub use zones::Zones;

use futures::FutureExt;

use crate::cloud::ClusterId;
use crate::wake::together;
use guard::kept_up;
use passed_over::passed_over;

/// Every controller, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    let unavailable = context.unavailable.clone();
    // On the heap, as the sum of all is too large for the stack of a deep call.
    let claims = kept_up(&context, "nodeclaims", move |context| {
        node_claim::run(context, cluster)
    });
    let classes = kept_up(&context, "nodeclasses", move |context| {
        node_class::run(context, cluster)
    });
    let drift = kept_up(&context, "drift", move |context| drift::run(context, cluster));
    let approver = kept_up(&context, "approver", approver::run);
    let capacity = kept_up(&context, "capacity", capacity::run);
    let plan = plan(context.clone()).boxed();
    let unavailable = kept_up(&context, "unavailable", move |_| {
        let unavailable = unavailable.clone();
        async move { unavailable.run().await }
    });
    let losing = losing(context, cluster).boxed();
    together([
        claims,
        classes,
        approver,
        losing,
        drift,
        capacity,
        plan,
        unavailable,
    ])
    .await;
}

/// Whatever makes machines, nodes and claims go.
async fn losing(context: Context, cluster: ClusterId) {
    let interruption = kept_up(&context, "interruption", move |context| {
        interruption::run(context, cluster)
    });
    let termination = kept_up(&context, "termination", termination::run);
    let expiration = kept_up(&context, "expiration", expiration::run);
    let health = kept_up(&context, "health", health::run);
    let garbage = kept_up(&context, "garbage", move |context| garbage::run(context, cluster));
    together([interruption, termination, expiration, health, garbage]).await;
}

/// What needs to know the whole cluster, and that knowledge.
async fn plan(context: Context) {
    // What was known in an earlier leadership may be old.
    context.cluster.forget();
    let known = kept_up(&context, "cluster", |context| async move {
        let (unreadable, teller) = passed_over(context.events, context.clock, context.metrics);
        tokio::select! {
            biased;
            () = context.cluster.run(&context.client, &unreadable) => {}
            () = teller.run() => {}
        }
    });
    let pools = kept_up(&context, "nodepools", node_pool::run);
    let pods = kept_up(&context, "provisioning", provisioning::run);
    together([known, pools, pods]).await;
}
