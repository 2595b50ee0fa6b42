//! `NoExecute` taints: pods that do not tolerate them are deleted, those that do for a while after that while.
//!
//! The while begins when the first of the taints was added. A taint that somebody put there without a time gets one as
//! soon as it matters, since there is no other memory.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::node_name;
use crate::sim::actors::scheduler::taints::{self, NO_EXECUTE};
use crate::sim::actors::scheduler::verdict::{whole_second, with_condition};
use crate::sim::actors::view::View;

/// How long a pod stays on a node with its taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    Seconds(u64),
    Not,
}

/// Deletes the pods whose time on a tainted node is over.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    for pod in view
        .pods
        .values()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
    {
        let Some(node) = node_name(pod).and_then(|name| view.nodes.get(name)) else {
            continue;
        };
        let end = match stay(pod, node) {
            Stay::Forever => continue,
            Stay::Not => now,
            Stay::Seconds(seconds) => match begin(pod, node) {
                Some(begin) => later(begin, std::time::Duration::from_secs(seconds)),
                None => continue,
            },
        };
        if now < end {
            next.again(end);
        } else {
            next.acts.extend(remove(pod, now));
        }
    }
    for node in view.nodes.values() {
        next.acts.extend(date(view, node, now));
    }
    next
}

fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    taints::of(node).iter().filter(|taint| taint.effect == NO_EXECUTE)
}

/// For each taint the first toleration that covers it counts; of those, the shortest.
fn stay(pod: &Pod, node: &Node) -> Stay {
    let mut shortest: Option<u64> = None;
    for taint in evicting(node) {
        let mut tolerations = taints::tolerations(pod).iter();
        let Some(toleration) = tolerations.find(|one| taints::tolerates(one, taint)) else {
            return Stay::Not;
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            shortest = Some(shortest.map_or(seconds, |known| known.min(seconds)));
        }
    }
    match shortest {
        None => Stay::Forever,
        Some(0) => Stay::Not,
        Some(seconds) => Stay::Seconds(seconds),
    }
}

/// When a pod's time on a tainted node began: with the first taint, or when it came there later.
fn begin(pod: &Pod, node: &Node) -> Option<Timestamp> {
    let dated = evicting(node).filter_map(|taint| taint.time_added.as_ref());
    let tainted = dated.map(|at| at.0).min()?;
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let bound = conditions
        .unwrap_or_default()
        .iter()
        .find(|one| one.type_ == "PodScheduled" && one.status == "True");
    let came = bound.and_then(|one| Some(one.last_transition_time.as_ref()?.0));
    Some(came.map_or(tainted, |came| came.max(tainted)))
}

/// Gives a node's taints their time where a pod's stay depends on it and none of them has one.
fn date(view: &View, node: &Node, now: Timestamp) -> Option<Act> {
    if evicting(node).next().is_none() || evicting(node).any(|taint| taint.time_added.is_some()) {
        return None;
    }
    let mut here = view
        .pods
        .values()
        .filter(|pod| node_name(pod) == node.metadata.name.as_deref());
    if !here.any(|pod| matches!(stay(pod, node), Stay::Seconds(_))) {
        return None;
    }
    let mut dated = taints::of(node).to_vec();
    for taint in dated.iter_mut().filter(|taint| taint.effect == NO_EXECUTE) {
        taint.time_added = Some(Time(whole_second(now)));
    }
    Some(Act::patch(node, json!({"spec": {"taints": dated}})))
}

fn remove(pod: &Pod, now: Timestamp) -> Vec<Act> {
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("DeletionByTaintManager".to_owned()),
        message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
        ..PodCondition::default()
    };
    let told = with_condition(pod, condition, now);
    let told = told.map(|conditions| Act::patch_status(pod, json!({"conditions": conditions})));
    told.into_iter().chain([Act::delete(pod)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_its_shortest_toleration() {
        let pod = |tolerations: &serde_json::Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [], "tolerations": tolerations}})).unwrap()
        };
        let node = |keys: &[&str]| -> Node {
            let taints: Vec<_> = keys
                .iter()
                .map(|key| json!({"key": key, "effect": NO_EXECUTE}))
                .collect();
            serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap()
        };
        let a = |seconds: i64| json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
        let always = |key: &str| json!({"key": key, "operator": "Exists"});
        let table = [
            (json!([]), node(&[]), Stay::Forever),
            (json!([]), node(&["a"]), Stay::Not),
            (json!([a(300)]), node(&["a"]), Stay::Seconds(300)),
            (json!([a(300)]), node(&["a", "b"]), Stay::Not),
            (
                json!([a(300), always("b")]),
                node(&["a", "b"]),
                Stay::Seconds(300),
            ),
            (json!([always("a"), a(300)]), node(&["a"]), Stay::Forever),
            (json!([a(300), always("a")]), node(&["a"]), Stay::Seconds(300)),
            (json!([a(0)]), node(&["a"]), Stay::Not),
            (json!([a(-1)]), node(&["a"]), Stay::Not),
        ];
        for (tolerations, node, expected) in table {
            assert_eq!(stay(&pod(&tolerations), &node), expected, "{tolerations}");
        }
    }
}
