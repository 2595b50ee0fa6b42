//! Somebody's agent, whose business it is to take a startup taint off new Nodes, and which is late with it.
//!
//! The taint is written on the template of a pool, so that the claims that are made meanwhile have it. Nothing is told when
//! that is done, but whenever a Node is ready and waits for the agent: without such a Node nobody met it. When the agent is
//! back, it sees to every Node that still has the taint, also to those that come later: their claims cannot be changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Meddler;
use super::lasting::{Undo, pools, untaint};
use crate::api::names::GROUP;
use crate::sim::faults::desk::Desk;
use crate::sim::faults::names::{FaultName, MeddlingKind};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// How the keys of its taints begin; each time it is another one.
const KEYS: &str = "example.com/agent-starts-";
/// How often it looks.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

/// Whether an agent is at work. Clones are the same agent.
#[derive(Clone, Debug, Default)]
pub struct Agent(Arc<AtomicBool>);

impl Agent {
    /// From now on it takes its taint off.
    pub(super) fn comes_back(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_back(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Looks after Nodes for as long as one may come.
    async fn work(self, desk: Desk, key: String) {
        let nodes: Api<Node> = Api::all(desk.parts().server.admin());
        let mut waiting = BTreeSet::new();
        while !self.is_back() || is_wanted(&desk, &key) {
            desk.clock().sleep(LOOKS_EVERY).await;
            for (name, uid) in kept_back(&desk, &key) {
                if self.is_back() {
                    // Whatever came between: it looks again.
                    let _ = untaint(&nodes, &name, &key).await;
                } else if waiting.insert(uid) {
                    let kind = FaultName::Meddling(MeddlingKind::StartupTaintStays);
                    desk.strike(kind, &format!("nodes/{name}"));
                }
            }
        }
    }
}

/// Gives new Nodes of a pool a startup taint. A pool with taints of its own is for pods that are not there.
pub(super) async fn meddle(meddler: &Meddler<'_>, rng: &mut Rng) -> Result<Option<Undo>, kube::Error> {
    let pools = pools(meddler.client.clone());
    let mut there = pools.list(&ListParams::default()).await?.items;
    there.retain(|pool| {
        let template = &pool.data["spec"]["template"]["spec"];
        template["taints"].is_null() && !has(&template["startupTaints"], KEYS)
    });
    let Some(pool) = meddler.meddling.pick(&there, ResourceExt::name_any, rng) else {
        return Ok(None);
    };
    let (name, key) = (pool.name_any(), format!("{KEYS}{:08x}", rng.u32(..)));
    let before = pool.data["spec"]["template"]["spec"]["startupTaints"].clone();
    let mut taints = before.as_array().cloned().unwrap_or_default();
    taints.push(json!({"key": key, "effect": "NoSchedule"}));
    let patch = json!({"spec": {"template": {"spec": {"startupTaints": taints}}}});
    pools
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let agent = Agent::default();
    tokio::spawn(agent.clone().work(meddler.desk.clone(), key));
    Ok(Some(Undo::StartupTaints(name, before, agent)))
}

/// The Nodes that are ready but for this taint: name and uid.
fn kept_back(desk: &Desk, key: &str) -> Vec<(String, String)> {
    let state = desk.parts().server.state();
    let nodes = state.store.list(&TableKey::of("", "nodes"), None);
    let nodes = nodes.map(|stored| stored.shared());
    nodes
        .filter(|node| is_ready(node) && has(&node["spec"]["taints"], key))
        .map(|node| (object::name(&node).to_owned(), object::uid(&node).to_owned()))
        .collect()
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a claim is there whose Node has this taint, or will.
fn is_wanted(desk: &Desk, key: &str) -> bool {
    let state = desk.parts().server.state();
    let mut claims = state.store.list(&TableKey::of(GROUP, "nodeclaims"), None);
    claims.any(|stored| has(&stored.shared()["spec"]["startupTaints"], key))
}

/// Whether the key of a taint begins like this.
fn has(taints: &Value, key: &str) -> bool {
    let mut taints = taints.as_array().into_iter().flatten();
    taints.any(|taint| taint["key"].as_str().is_some_and(|it| it.starts_with(key)))
}
