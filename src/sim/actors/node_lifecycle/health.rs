//! Silence: a node that neither renews its lease nor posts its status is not known to be ready.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Options, condition};
use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::node_name;
use crate::sim::actors::scheduler::verdict::{whole_second, with_condition};
use crate::sim::actors::view::{Key, View};

/// What is unknown about a silent node. The network's condition is not the kubelet's to post.
const POSTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Where nodes renew their leases.
const LEASES: &str = "kube-node-lease";

/// Says of silent nodes that they are silent, and of their pods that they are not ready.
pub(super) fn next(view: &View, now: Timestamp, options: &Options) -> Next {
    let mut next = Next::default();
    for (name, node) in &view.nodes {
        let grace = if condition(node, "Ready").is_some() {
            options.grace
        } else {
            options.startup_grace
        };
        let silent_at = later(last_heard(view, name, node), grace);
        if now < silent_at {
            next.again(silent_at);
        } else if condition(node, "Ready").is_none_or(|ready| ready.status != "Unknown") {
            next.act(Act::patch_status(
                node.as_ref(),
                json!({"conditions": unknown(node, now)}),
            ));
        }
    }
    for pod in view.pods.values() {
        if let Some(act) = doubt(view, pod, now) {
            next.act(act);
        }
    }
    next
}

/// The last sign of life: a lease, a posted status, or the node's creation.
fn last_heard(view: &View, name: &str, node: &Node) -> Timestamp {
    let lease = view.leases.get(&Key::new(LEASES, name));
    let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
    let posted = condition(node, "Ready").and_then(|ready| Some(ready.last_heartbeat_time.as_ref()?.0));
    let made = node.metadata.creation_timestamp.as_ref().map(|at| at.0);
    renewed.max(posted).max(made).unwrap_or(Timestamp::MIN)
}

fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let known = node.status.as_ref().and_then(|status| status.conditions.clone());
    let mut conditions = known.unwrap_or_default();
    let at = Some(Time(whole_second(now)));
    for kind in POSTED {
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                "Unknown".clone_into(&mut condition.status);
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time.clone_from(&at);
            }
            None => conditions.push(NodeCondition {
                type_: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: at.clone(),
            }),
        }
    }
    conditions
}

/// A pod on a node that nobody hears of is not known to be ready. Where the node itself says that it is not ready, its
/// kubelet lives and speaks for its pods.
fn doubt(view: &View, pod: &Pod, now: Timestamp) -> Option<Act> {
    let node = view.nodes.get(node_name(pod)?)?;
    condition(node, "Ready").filter(|ready| ready.status == "Unknown")?;
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    if ready.status != "True" {
        return None;
    }
    let doubted = PodCondition {
        status: "False".to_owned(),
        ..ready.clone()
    };
    let conditions = with_condition(pod, doubted, now)?;
    Some(Act::patch_status(pod, json!({"conditions": conditions})))
}
