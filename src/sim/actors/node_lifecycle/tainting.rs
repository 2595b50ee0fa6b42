//! Conditions as taints: `NoSchedule` at once, `NoExecute` no faster than Kubernetes does it.
//!
//! In each zone one node in ten seconds gets `NoExecute` taints, since each leads to the loss of its pods. When at least
//! 55 % and more than two nodes of a zone are not ready, one in a hundred seconds, or none in a zone of up to 50 nodes.
//! A zone that is wholly down is treated as any other, unless all zones are: then it is the control plane that is cut
//! off, and all such taints are taken back. The time of the last taint of a zone is read from the taints themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{condition, is_ready};
use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::labels;
use crate::sim::actors::scheduler::taints::{self, NO_EXECUTE, NO_SCHEDULE};
use crate::sim::actors::scheduler::verdict::whole_second;
use crate::sim::actors::view::View;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Which status of which condition is which taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// `--node-eviction-rate` 0.1.
const PACE: Duration = Duration::from_secs(10);
/// `--secondary-node-eviction-rate` 0.01.
const SLOW_PACE: Duration = Duration::from_secs(100);
/// `--unhealthy-zone-threshold` 0.55.
const UNHEALTHY_PERCENT: usize = 55;
/// `--large-cluster-size-threshold`.
const LARGE: usize = 50;

/// Region and zone.
type Zone = (String, String);

/// How fast the nodes of a zone are tainted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    /// One node each time this has passed.
    Every(Duration),
    /// Not at all.
    Halted,
    /// Not at all, and what was done is undone.
    Reverted,
}

/// Whether any node of the cluster is ready.
#[derive(Clone, Copy, PartialEq)]
enum Cluster {
    Heard,
    Silent,
}

/// Brings the taints of all nodes in line with their conditions.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    let mut lanes = lanes(view);
    for node in view.nodes.values() {
        let Some(lane) = lanes.get_mut(&zone(node)) else {
            continue;
        };
        let mut wanted = without_conditions(node, lane.rate);
        wanted.extend(no_schedule(node));
        match lane.admit(node, now) {
            Admission::Taint(taint) => wanted.push(taint),
            Admission::Later(at) => next.again(at),
            Admission::Never => {}
        }
        if !same(&wanted, taints::of(node)) {
            next.act(Act::patch(node.as_ref(), json!({"spec": {"taints": wanted}})));
        }
    }
    next
}

/// What stays of a node's taints: all but those that conditions decide. `NoExecute` taints stay where the pace alone
/// says so, and go with a node that is ready again.
fn without_conditions(node: &Node, rate: Rate) -> Vec<Taint> {
    let current = verdict(node);
    let stays = |taint: &&Taint| {
        let ours = taint.key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, key)| *key == taint.key);
        match taint.effect.as_str() {
            NO_SCHEDULE => !ours,
            NO_EXECUTE if [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()) => {
                rate != Rate::Reverted && current == Some(taint.key.as_str())
            }
            _ => true,
        }
    };
    taints::of(node).iter().filter(stays).cloned().collect()
}

fn no_schedule(node: &Node) -> Vec<Taint> {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let held = BY_CONDITION
        .iter()
        .filter(|(kind, status, _)| condition(node, kind).is_some_and(|one| one.status == *status));
    let keys = held.map(|(_, _, key)| *key);
    let keys = keys.chain(cordoned.then_some(UNSCHEDULABLE));
    // The time is kept, so that the same taint is the same.
    let known = |key: &str| {
        let mut taints = taints::of(node).iter();
        taints
            .find(|taint| taint.key == key && taint.effect == NO_SCHEDULE)
            .cloned()
    };
    keys.map(|key| known(key).unwrap_or_else(|| taint(key, NO_SCHEDULE, None)))
        .collect()
}

fn taint(key: &str, effect: &str, at: Option<Timestamp>) -> Taint {
    Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        time_added: at.map(|at| Time(whole_second(at))),
        value: None,
    }
}

/// The `NoExecute` taint that a node deserves.
fn verdict(node: &Node) -> Option<&'static str> {
    match condition(node, "Ready")?.status.as_str() {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

fn same(wanted: &[Taint], has: &[Taint]) -> bool {
    wanted.len() == has.len() && wanted.iter().all(|taint| has.contains(taint))
}

fn zone(node: &Node) -> Zone {
    let labels = labels::of(&node.metadata);
    let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
    (
        text("topology.kubernetes.io/region"),
        text("topology.kubernetes.io/zone"),
    )
}

/// The queue of a zone: how fast it moves, and when it last did.
struct Lane {
    rate: Rate,
    last: Option<Timestamp>,
}

/// Whether a node gets its `NoExecute` taint.
enum Admission {
    Taint(Taint),
    Later(Timestamp),
    Never,
}

impl Lane {
    fn admit(&mut self, node: &Node, now: Timestamp) -> Admission {
        let Some(key) = verdict(node) else {
            return Admission::Never;
        };
        let evicting = taints::of(node).iter().filter(|taint| {
            taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
        });
        let evicting: Vec<&Taint> = evicting.collect();
        if evicting.iter().any(|taint| taint.key == key) {
            return Admission::Never;
        }
        match self.rate {
            // One taint instead of the other costs no pod.
            Rate::Every(_) | Rate::Halted if !evicting.is_empty() => {
                Admission::Taint(taint(key, NO_EXECUTE, Some(now)))
            }
            Rate::Every(pace) => match self.last.map(|last| later(last, pace)) {
                Some(free) if now < free => Admission::Later(free),
                _ => {
                    self.last = Some(now);
                    Admission::Taint(taint(key, NO_EXECUTE, Some(now)))
                }
            },
            Rate::Halted | Rate::Reverted => Admission::Never,
        }
    }
}

fn lanes(view: &View) -> BTreeMap<Zone, Lane> {
    let mut zones: BTreeMap<Zone, Vec<&Node>> = BTreeMap::new();
    for node in view.nodes.values() {
        zones.entry(zone(node)).or_default().push(node);
    }
    let cluster = if view.nodes.values().any(|node| is_ready(node)) {
        Cluster::Heard
    } else {
        Cluster::Silent
    };
    let lane = |nodes: Vec<&Node>| Lane {
        rate: rate(&nodes, cluster),
        last: nodes
            .iter()
            .flat_map(|node| taints::of(node))
            .filter_map(added)
            .max(),
    };
    zones
        .into_iter()
        .map(|(zone, nodes)| (zone, lane(nodes)))
        .collect()
}

fn added(taint: &Taint) -> Option<Timestamp> {
    let ours = taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
    taint.time_added.as_ref().filter(|_| ours).map(|at| at.0)
}

fn rate(nodes: &[&Node], cluster: Cluster) -> Rate {
    let down = nodes.iter().filter(|node| !is_ready(node)).count();
    if cluster == Cluster::Silent {
        Rate::Reverted
    } else if down == nodes.len() || down <= 2 || down * 100 < nodes.len() * UNHEALTHY_PERCENT {
        Rate::Every(PACE)
    } else if nodes.len() > LARGE {
        Rate::Every(SLOW_PACE)
    } else {
        Rate::Halted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_a_zone_follows_how_much_of_it_is_down() {
        let node = |status: &str| -> Node {
            let ready = json!({"type": "Ready", "status": status});
            serde_json::from_value(json!({"status": {"conditions": [ready]}})).unwrap()
        };
        let zone = |up: usize, down: usize| -> Vec<Node> {
            (0..up)
                .map(|_| node("True"))
                .chain((0..down).map(|_| node("Unknown")))
                .collect()
        };
        let table = [
            (zone(9, 1), Rate::Every(PACE)),
            (zone(0, 3), Rate::Every(PACE)),
            (zone(1, 2), Rate::Every(PACE)),
            (zone(2, 3), Rate::Halted),
            (zone(3, 3), Rate::Every(PACE)),
            (zone(20, 40), Rate::Every(SLOW_PACE)),
        ];
        for (nodes, expected) in table {
            let nodes: Vec<&Node> = nodes.iter().collect();
            assert_eq!(rate(&nodes, Cluster::Heard), expected, "{} nodes", nodes.len());
            assert_eq!(rate(&nodes, Cluster::Silent), Rate::Reverted);
        }
    }
}
