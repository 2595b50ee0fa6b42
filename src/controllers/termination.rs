//! A Node that somebody deletes takes its claim along: the Node's finalizer holds it until its pods have left and its
//! machine is gone, which is what the end of a claim does ([`super::node_claim`]).

use std::collections::BTreeSet;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::context::Context;
use super::events::{Kind, Story};
use super::removal::{self, Judged};
use crate::api::{NodeClaim, names};
use crate::lifecycle::facts::Facts;

/// When a Node whose claim could not be deleted is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Follows all Nodes, for as long as this is polled.
pub async fn run(context: Context) {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(context.client.clone());
    let nodes = watcher(nodes, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut nodes = std::pin::pin!(nodes);
    let mut left: BTreeSet<String> = BTreeSet::new();
    loop {
        let again = async {
            match left.is_empty() {
                true => std::future::pending().await,
                false => context.clock.sleep(AGAIN_AFTER).await,
            }
        };
        let due = tokio::select! {
            biased;
            next = nodes.try_next() => match next {
                Ok(Some(node)) => is_going(&node).then(|| BTreeSet::from([node.name_any()])),
                Ok(None) => return,
                // The stream goes on: it tries again after a while.
                Err(error) => {
                    tracing::warn!(%error, "watching nodes");
                    None
                }
            },
            () = again => Some(std::mem::take(&mut left)),
        };
        for name in due.into_iter().flatten() {
            if let Err(error) = take_claim_along(&context, &name).await {
                tracing::warn!(%error, node = name, "the claim of a deleted node stays for now");
                left.insert(name);
            }
        }
    }
}

fn is_going(node: &PartialObjectMeta<Node>) -> bool {
    let ours = |name: &String| name == names::TERMINATION_FINALIZER;
    node.metadata.deletion_timestamp.is_some() && node.finalizers().iter().any(ours)
}

/// Deletes the claim of a Node that is being deleted; both are read anew.
async fn take_claim_along(context: &Context, name: &str) -> kube::Result<()> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let Some(claim) = claims.get_opt(name).await?.filter(|claim| !claim.is_deleting()) else {
        return Ok(());
    };
    let nodes: Api<Node> = Api::all(context.client.clone());
    let provider_id = claim
        .status
        .as_ref()
        .and_then(|status| status.provider_id.as_ref());
    let node = nodes.get_opt(name).await?.filter(|node| {
        let own = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        node.metadata.deletion_timestamp.is_some() && own.is_some() && own == provider_id
    });
    if node.is_none() {
        return Ok(());
    }
    let story = Story {
        kind: Kind::Normal,
        reason: names::REASON_NODE_DELETED,
        action: "Delete",
        note: "its node was deleted".to_owned(),
        transition: String::new(),
    };
    removal::delete_claim(context, &claim, story).await.map(|judged| {
        if judged == Judged::Deleted {
            context.metrics.ended(names::REASON_NODE_DELETED);
        }
    })
}
