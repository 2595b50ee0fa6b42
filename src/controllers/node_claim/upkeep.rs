//! Keeps the Nodes that are ready for work as their claims say.
//!
//! Whether there is anything to do is seen from a watch, so that a Node that is as it should be costs no request, however
//! often its kubelet reports. What is written rests on the Node as it is then read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use tokio::time::Instant;

use crate::api::NodeClaim;
use crate::lifecycle;

/// How often a Node is put right at most: somebody who writes it otherwise again and again is answered twice a minute.
const PATIENCE: Duration = Duration::from_secs(30);

/// The Nodes as they were last told, and when each was last looked at.
pub(super) struct Upkeep {
    nodes: Store<Node>,
    looked: Mutex<BTreeMap<String, Instant>>,
}

/// When a Node is to be looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Not before it changes.
    Never,
    /// Not before that.
    In(Duration),
    /// Now.
    Now,
}

impl Upkeep {
    /// Knows nothing yet: whoever watches tells the writer.
    pub(super) fn new() -> (Self, reflector::store::Writer<Node>) {
        let (nodes, writer) = reflector::store();
        let looked = Mutex::default();
        (Self { nodes, looked }, writer)
    }

    /// Whether the Node of a claim is to be put right at `now`; then it counts as looked at.
    pub(super) fn due(&self, claim: &NodeClaim, now: Instant) -> Due {
        let name = claim.name_any();
        let node = self.nodes.get(&ObjectRef::new(&name));
        if !node.is_some_and(|node| lifecycle::is_altered(claim, &node)) {
            return Due::Never;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let since = looked.get(&name).map(|last| now.saturating_duration_since(*last));
        match since.and_then(|since| PATIENCE.checked_sub(since)) {
            Some(wait) if !wait.is_zero() => Due::In(wait),
            _ => {
                looked.insert(name, now);
                Due::Now
            }
        }
    }

    /// The claim is gone.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.remove(&claim.name_any());
    }
}

/// Leaves of a Node what is compared with its claim.
pub(super) fn reduce(node: &mut Node) {
    node.metadata.annotations = None;
    node.status = None;
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn claim() -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"team": "shop"}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"providerID": "ibm:///us-south/m", "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}]},
        }))
        .unwrap()
    }

    fn node(team: &str) -> Node {
        let mut labels = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
        labels["team"] = Value::from(team);
        let node =
            json!({"metadata": {"name": "a", "labels": labels}, "spec": {"providerID": "ibm:///us-south/m"}});
        serde_json::from_value(node).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_put_right_at_once_and_then_at_most_twice_a_minute() {
        let (upkeep, mut writer) = Upkeep::new();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(upkeep.due(&claim(), at(0)), Due::Never, "nobody has told of it");
        writer.apply_watcher_event(&Event::Apply(node("shop")));
        assert_eq!(upkeep.due(&claim(), at(0)), Due::Never);
        writer.apply_watcher_event(&Event::Apply(node("bank")));
        assert_eq!(upkeep.due(&claim(), at(1)), Due::Now);
        assert_eq!(upkeep.due(&claim(), at(11)), Due::In(Duration::from_secs(20)));
        assert_eq!(upkeep.due(&claim(), at(31)), Due::Now);
        upkeep.forget(&claim());
        assert_eq!(upkeep.due(&claim(), at(32)), Due::Now);
    }
}
