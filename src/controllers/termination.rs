//! A Node that somebody deletes takes its claim along: the Node's finalizer holds it until its pods have left and its
//! machine is gone, which is what the end of a claim does ([`super::node_claim`]). A Node without a claim is let go with its
//! machine.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::context::{Collecting, Context};
use super::events::{Kind, Story};
use super::lost_node;
use super::removal::{self, Judged};
use crate::api::{NodeClaim, names};
use crate::cloud;
use crate::lifecycle::facts::Facts;

/// When a Node that could not be let go is looked at again: a second look counts when the visibility delay, which is 15 s,
/// has passed.
const AGAIN_AFTER: Duration = Duration::from_secs(16);

/// Nodes that could not be let go yet, by name: since when their machine has been found nowhere. Whoever forgets it, as a
/// new process does, waits for two sightings of its own.
type Left = BTreeMap<String, Option<Instant>>;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("asking the cluster: {0}")]
    Kube(#[from] kube::Error),
    #[error("asking the cloud: {0}")]
    Cloud(#[from] cloud::Error),
}

/// Follows all Nodes, for as long as this is polled.
pub async fn run(context: Context) {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(context.client.clone());
    let nodes = watcher(nodes, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut nodes = std::pin::pin!(nodes);
    let mut left = Left::new();
    loop {
        let again = async {
            if left.is_empty() {
                std::future::pending::<()>().await;
            } else {
                context.clock.sleep(AGAIN_AFTER).await;
            }
        };
        let due = tokio::select! {
            biased;
            next = nodes.try_next() => match next {
                Ok(Some(node)) => is_going(&node).then(|| {
                    let name = node.name_any();
                    let absent_since = left.remove(&name).flatten();
                    Left::from([(name, absent_since)])
                }),
                Ok(None) => return,
                // The stream goes on: it tries again after a while.
                Err(error) => {
                    tracing::warn!(%error, "watching nodes");
                    None
                }
            },
            () = again => Some(std::mem::take(&mut left)),
        };
        for (name, absent_since) in due.into_iter().flatten() {
            match serve(&context, &name, absent_since).await {
                Ok(Outcome::Done) => {}
                Ok(Outcome::Later(absent_since)) => _ = left.insert(name, absent_since),
                Err(error) => {
                    tracing::warn!(%error, node = name, "a deleted node stays for now");
                    left.insert(name, absent_since);
                }
            }
        }
    }
}

/// What became of a Node that is being deleted.
enum Outcome {
    /// Its claim sees to it, or it is let go.
    Done,
    /// No claim answers for it, and its machine is there, or has been found nowhere since then and not twice yet.
    Later(Option<Instant>),
}

fn is_going(node: &PartialObjectMeta<Node>) -> bool {
    let ours = |name: &String| name == names::TERMINATION_FINALIZER;
    node.metadata.deletion_timestamp.is_some() && node.finalizers().iter().any(ours)
}

/// Sees to a Node that is being deleted: its claim goes along, and where it has none, it is let go with its machine.
/// Everything is read anew.
async fn serve(context: &Context, name: &str, absent_since: Option<Instant>) -> Result<Outcome, Error> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let node = nodes.get_opt(name).await?;
    let going = |node: &Node| node.metadata.deletion_timestamp.is_some();
    let Some(node) = node.filter(going) else {
        return Ok(Outcome::Done);
    };
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match claims.get_opt(name).await? {
        Some(claim) if !is_of(&node, &claim) => let_go(context, &node, absent_since).await,
        Some(claim) if !claim.is_deleting() => take_along(context, &claim).await,
        Some(_) => Ok(Outcome::Done),
        None => let_go(context, &node, absent_since).await,
    }
}

/// Whether a claim answers for a Node. A claim that is made again under the same name finds the Node of the one before it,
/// which goes without it: what tells is the machine, and while that is not known, the Node's age. Times are cut to seconds,
/// and a machine takes longer than one to boot, so a Node of the same second is not the claim's.
fn is_of(node: &Node, claim: &NodeClaim) -> bool {
    let status = claim.status.as_ref();
    if let Some(claimed) = status.and_then(|status| status.provider_id.as_ref()) {
        let own = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        return own == Some(claimed);
    }
    match claim.allocation().and_then(|it| it.instance_id.as_ref()) {
        Some(bought) => lost_node::machine_of(node).as_ref() == Some(bought),
        None => node.metadata.creation_timestamp > claim.metadata.creation_timestamp,
    }
}

/// Lets a Node go that no claim answers for, such as one whose claim was forced out, once its machine was found nowhere
/// twice. A machine that is there is garbage, and swept as such.
async fn let_go(context: &Context, node: &Node, absent_since: Option<Instant>) -> Result<Outcome, Error> {
    if context.settings.collecting == Collecting::Report {
        // The sweep tells of it.
        return Ok(Outcome::Done);
    }
    let Some(machine) = lost_node::machine_of(node) else {
        return Ok(Outcome::Done);
    };
    // Before the answer, so that the time never flatters.
    let asked_at = context.clock.instant();
    if !lost_node::is_absent(context, &machine).await? {
        return Ok(Outcome::Later(None));
    }
    let delay = context.clock.real(context.settings.limits.visibility);
    let has_lasted = |since: Instant| asked_at.saturating_duration_since(since) > delay;
    if !absent_since.is_some_and(has_lasted) {
        return Ok(Outcome::Later(absent_since.or(Some(asked_at))));
    }
    lost_node::release(context, node).await?;
    Ok(Outcome::Done)
}

async fn take_along(context: &Context, claim: &NodeClaim) -> Result<Outcome, Error> {
    let story = Story {
        kind: Kind::Normal,
        reason: names::REASON_NODE_DELETED,
        action: "Delete",
        note: "its node was deleted".to_owned(),
        transition: String::new(),
    };
    if removal::delete_claim(context, claim, story).await? == Judged::Deleted {
        context.metrics.ended(names::REASON_NODE_DELETED);
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MACHINE: &str = "0717_0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4";
    const OTHER: &str = "0717_1e8d7c6b-5a4f-4e3d-9c2b-0817f6e5d4c3";

    fn node(machine: &str, made_at: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "creationTimestamp": made_at},
            "spec": {"providerID": format!("ibm:///us-south/{machine}")},
        }))
        .unwrap()
    }

    /// A claim that was made at ten.
    fn claim(status: Value) -> NodeClaim {
        let mut claim = json!({
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-11-16T10:00:00Z"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        });
        claim["status"] = status;
        serde_json::from_value(claim).unwrap()
    }

    fn bought(machine: Option<&str>) -> Value {
        json!({"allocation": {"profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot", "subnet": "s",
            "instanceName": "i", "instanceID": machine, "attempt": 1, "since": "2026-11-16T10:00:00Z"}})
    }

    #[test]
    fn a_claim_answers_for_the_node_of_its_machine_whatever_their_ages() {
        let launched = claim(json!({"providerID": format!("ibm:///us-south/{MACHINE}")}));
        for claim in [launched, claim(bought(Some(MACHINE)))] {
            for made_at in ["2026-11-16T09:00:00Z", "2026-11-16T10:05:00Z"] {
                assert!(is_of(&node(MACHINE, made_at), &claim), "{made_at}");
                assert!(!is_of(&node(OTHER, made_at), &claim), "{made_at}");
            }
        }
    }

    #[test]
    fn a_claim_that_does_not_know_its_machine_answers_only_for_a_node_that_is_younger() {
        for status in [json!({}), bought(None)] {
            let new = claim(status);
            assert!(!is_of(&node(OTHER, "2026-11-16T09:00:00Z"), &new));
            assert!(
                !is_of(&node(OTHER, "2026-11-16T10:00:00Z"), &new),
                "nothing boots so fast"
            );
            assert!(is_of(&node(MACHINE, "2026-11-16T10:01:00Z"), &new));
        }
    }
}
