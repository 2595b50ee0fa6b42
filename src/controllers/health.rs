//! Repairs nodes: one that has been unhealthy for longer than is tolerated is given up, and its pods go elsewhere.
//!
//! Never when more than a fifth of its pool is unhealthy, and never on a read that failed: both lists come from the API
//! server, whole. Since when is judged by the API server's clock, and this process must have seen the node unhealthy for
//! some minutes itself, so that no wall clock that is wrong breaks anybody.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::context::Context;
use super::events::{Kind, Story};
use super::removal::{self, Judged};
use crate::api::{NodeClaim, names};
use crate::lifecycle::facts::Facts;
use crate::lifecycle::health::{Health, health, may_repair};

/// How often nodes are looked at.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// For how long this process must have seen it.
const SEEN_FOR: Duration = Duration::from_mins(5);

/// Since when this process has seen a Node unhealthy, by its uid.
type Seen = BTreeMap<String, Instant>;

/// Looks at all nodes, for as long as this is polled.
pub async fn run(context: Context) {
    let mut seen = Seen::new();
    loop {
        if let Err(error) = repair(&context, &mut seen).await {
            tracing::warn!(%error, "no node is repaired for now");
        }
        context.clock.sleep(LOOK_EVERY).await;
    }
}

async fn repair(context: &Context, seen: &mut Seen) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let ours = ListParams::default().labels(names::REGISTERED);
    let nodes = nodes.list(&ours).await?.items;
    note(&nodes, context, seen);
    // Mostly everybody is well, and nothing more has to be read.
    if seen.is_empty() {
        return Ok(());
    }
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    let claims: BTreeMap<&str, &NodeClaim> = claims
        .iter()
        .filter_map(|it| Some((provider_id(it)?, it)))
        .collect();
    let mut pools: BTreeMap<&str, Vec<(&Node, &NodeClaim)>> = BTreeMap::new();
    for node in &nodes {
        let own = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        if let Some(claim) = own.and_then(|own| claims.get(own)) {
            let pool = claim.labels().get(names::NODE_POOL).map_or("", String::as_str);
            pools.entry(pool).or_default().push((node, claim));
        }
    }
    let now = context.server_time.now().await?;
    for (pool, members) in pools {
        repair_pool(context, pool, &members, seen, now).await?;
    }
    Ok(())
}

/// Notes who is unhealthy, and forgets who is well again or gone.
fn note(nodes: &[Node], context: &Context, seen: &mut Seen) {
    let (now, instant) = (context.clock.now(), context.clock.instant());
    let unhealthy = nodes.iter().filter(|node| health(node, now) != Health::Healthy);
    let unhealthy: Vec<String> = unhealthy.filter_map(ResourceExt::uid).collect();
    seen.retain(|uid, _| unhealthy.contains(uid));
    for uid in unhealthy {
        seen.entry(uid).or_insert(instant);
    }
}

async fn repair_pool(
    context: &Context,
    pool: &str,
    members: &[(&Node, &NodeClaim)],
    seen: &Seen,
    now: Timestamp,
) -> kube::Result<()> {
    let unhealthy = members
        .iter()
        .filter(|(node, _)| health(node, now) != Health::Healthy)
        .count();
    for (node, claim) in members {
        let Health::Broken(why) = health(node, now) else {
            continue;
        };
        let long = context.clock.real(SEEN_FOR);
        let since = node.uid().and_then(|uid| seen.get(&uid));
        let has_lasted =
            since.is_some_and(|since| context.clock.instant().saturating_duration_since(*since) >= long);
        if claim.is_deleting() || !has_lasted {
            continue;
        }
        if may_repair(members.len(), unhealthy) {
            give_up(context, claim, &why, now).await?;
        } else {
            let note = format!(
                "{why}; it is not repaired, as {unhealthy} of the {} nodes of pool {pool} are unhealthy",
                members.len()
            );
            tell_blocked(context, claim, note).await;
        }
    }
    Ok(())
}

/// Gives a node up: its pods have no time, since nobody there would use it.
async fn give_up(context: &Context, claim: &NodeClaim, why: &str, now: Timestamp) -> kube::Result<()> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let patch = json!({"metadata": {
        "resourceVersion": claim.resource_version(),
        "annotations": {names::TERMINATION_TIMESTAMP: now.to_string()},
    }});
    let hurried = match claims
        .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(claim) => claim,
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => return Ok(()),
        Err(error) => return Err(error),
    };
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_UNHEALTHY,
        action: "Delete",
        note: why.to_owned(),
        transition: String::new(),
    };
    if removal::delete_claim(context, &hurried, story).await? == Judged::Deleted {
        context.metrics.ended(names::REASON_UNHEALTHY);
        context.hurry.notify_one();
    }
    Ok(())
}

async fn tell_blocked(context: &Context, claim: &NodeClaim, note: String) {
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_REPAIR_BLOCKED,
        action: "Repair",
        note,
        transition: String::new(),
    };
    context.events.tell(claim, story).await;
}

fn provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref()
}
