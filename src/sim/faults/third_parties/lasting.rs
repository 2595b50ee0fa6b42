//! What others do for a while and then take back: without that, pods would be held, or wait, for good.

use fastrand::Rng;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Meddler;
use crate::sim::faults::desk::Desk;

/// What somebody's agent puts on new Nodes until it is content with them.
const AGENT_TAINT: &str = "example.com/agent-is-missing";
/// How often somebody tries again whose change met another's.
const TRIES: usize = 5;

/// How something is taken back.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    /// The taint comes off this Node.
    Untaint(String),
}

/// Does it, if it can be done; how it is taken back.
pub(super) async fn meddle(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    taint(meddler, rng).await
}

/// Takes it back. What is gone by then needs nothing.
pub(in crate::sim::faults) async fn take_back(desk: &Desk, undo: &Undo) {
    let client = desk.parts().server.admin();
    let done = match undo {
        Undo::Untaint(node) => untaint(&Api::all(client), node).await,
    };
    if let Err(error) = done {
        tracing::debug!(%error, ?undo, "there is nothing left to take back");
    }
}

/// The newest Node, as that is what such an agent waits for.
async fn taint(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let nodes: Api<Node> = Api::all(meddler.client.clone());
    let mut there = nodes.list(&ListParams::default()).await?.items;
    let newest = there.iter().map(|node| node.creation_timestamp()).max().flatten();
    there.retain(|node| node.creation_timestamp() == newest || meddler.meddling.target.is_some());
    there.retain(|node| !taints(node).iter().any(|taint| taint["key"] == AGENT_TAINT));
    let Some(node) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let name = node.name_any();
    meddler.tell(&format!("nodes/{name}"));
    let mut taints = taints(&node);
    taints.push(json!({"key": AGENT_TAINT, "effect": "NoExecute"}));
    let patch = json!({"spec": {"taints": taints}});
    nodes
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(Some(Undo::Untaint(name)))
}

async fn untaint(nodes: &Api<Node>, name: &str) -> Result<(), kube::Error> {
    let mut tried = 0;
    loop {
        let node = nodes.get(name).await?;
        let mut taints = taints(&node);
        taints.retain(|taint| taint["key"] != AGENT_TAINT);
        let patch = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints},
        });
        tried += 1;
        match nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 && tried < TRIES => {}
            done => return done.map(drop),
        }
    }
}

fn taints(node: &Node) -> Vec<Value> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    taints
        .unwrap_or_default()
        .iter()
        .map(|taint| json!(taint))
        .collect()
}
