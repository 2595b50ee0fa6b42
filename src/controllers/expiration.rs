//! Deletes claims that have lived as long as `expireAfter` says, from their creation on. Forceful, as upstream: no budget
//! is asked. Their pods are planned for before they leave.
//!
//! Our wall clock may be wrong, by years if a machine lost its battery: it only says when to ask. What the API server's
//! clock says decides, the one that stamped when the claims were made.

use std::time::Duration;

use kube::Api;
use kube::api::ListParams;

use super::context::Context;
use super::events::{Kind, Story};
use super::removal::{self, Judged};
use crate::api::{NodeClaim, names};
use crate::clock::between;
use crate::lifecycle::expiry::{expired, expires_at};
use crate::lifecycle::facts::Facts;

/// The longest time between two looks: claims are made meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Looks for claims whose time is over, for as long as this is polled.
pub async fn run(context: Context) {
    loop {
        let wait = match expire(&context).await {
            Ok(next) => next.min(LOOK_EVERY),
            Err(error) => {
                tracing::warn!(%error, "no claim expires for now");
                LOOK_EVERY
            }
        };
        context.clock.sleep(wait.max(Duration::from_secs(1))).await;
    }
}

/// One look: deletes what has expired; how long until the next does.
async fn expire(context: &Context) -> kube::Result<Duration> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    let now = context.clock.now();
    let due = if expired(&claims, now).is_empty() {
        Vec::new()
    } else {
        expired(&claims, context.server_time.now().await?)
    };
    for claim in due {
        let limit = claim.spec.expire_after.as_deref().unwrap_or_default();
        let born = claim.metadata.creation_timestamp.as_ref();
        let born = born.map(|born| born.0.to_string()).unwrap_or_default();
        let story = Story {
            kind: Kind::Normal,
            reason: names::REASON_EXPIRED,
            action: "Delete",
            note: format!("it has lived since {born}, and its expireAfter is {limit}"),
            transition: String::new(),
        };
        if removal::delete_claim(context, claim, story).await? == Judged::Deleted {
            context.metrics.ended(names::REASON_EXPIRED);
        }
    }
    let next = claims
        .iter()
        .filter(|claim| !claim.is_deleting())
        .filter_map(expires_at)
        .filter(|at| *at > now)
        .min();
    Ok(next.map_or(LOOK_EVERY, |at| between(now, at)))
}
