//! The scheduler: gives pending pods their nodes.
//!
//! From the view alone: each pod in the order of priority, age and name goes to the best of the nodes that take it, and
//! counts there for those after it. A pod that no node takes gets the condition `PodScheduled=False`, `Unschedulable`,
//! with the real scheduler's words; it is written only when it changes, and the pod is tried again whenever anything
//! changed. A pod whose claims wait for their first consumer is nominated to its node, and bound when the volumes are
//! there; a pod that made others go is nominated too, and its room is kept.
//!
//! Not here: back-off, balanced allocation and image locality (see `score`), dynamic resources, scheduling gates (a
//! gated pod is simply not looked at), other profiles than `default-scheduler`.

mod board;
pub(in crate::sim::actors) mod demand;
mod fit;
pub(in crate::sim::actors) mod labels;
mod neighbors;
pub(in crate::sim::actors) mod node_affinity;
mod preemption;
#[cfg(test)]
pub(in crate::sim::actors) mod samples;
mod score;
mod spread;
mod storage;
pub(in crate::sim::actors) mod taints;
pub(in crate::sim::actors) mod verdict;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use self::board::{Board, Site, priority};
pub(in crate::sim::actors) use self::board::{has_ended, node_name};
use self::fit::{Fit, Refusal};
use self::preemption::Preemption;
use super::control_plane::{Act, Actor, Next};
use super::view::{Kind, View};

/// The name that pods ask for.
const NAME: &str = "default-scheduler";

/// The scheduler.
pub const ACTOR: Actor = Actor {
    name: NAME,
    reads: &[
        Kind::Namespace,
        Kind::Node,
        Kind::StorageClass,
        Kind::CsiNode,
        Kind::Volume,
        Kind::Claim,
        Kind::Attachment,
        Kind::Pod,
    ],
    glances: &[Kind::ReplicaSet, Kind::StatefulSet, Kind::Budget],
    next,
};

/// What the scheduler wants now.
pub fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    let queue = queue(view);
    if queue.is_empty() {
        return next;
    }
    let mut board = Board::new(view);
    let mut level = None;
    for pod in &queue {
        if level != Some(priority(pod)) {
            level = Some(priority(pod));
            reserve(&mut board, &queue, priority(pod));
        }
        if let Some(node) = nominated(pod) {
            board.remove(pod, node);
        }
        let decision = decide(&board, pod);
        if let Some(node) = decision.node() {
            board.place(pod, node);
        }
        for act in verdict::acts(pod, decision, now) {
            next.act(act);
        }
    }
    next
}

/// Keeps the room of pods that wait for something on a node from all that are no more important. (The real scheduler
/// asks its filters once with and once without such pods; here they are simply there.)
fn reserve<'a>(board: &mut Board<'a>, queue: &[&'a Pod], level: i32) {
    for pod in queue.iter().filter(|pod| priority(pod) == level) {
        if let Some(node) = nominated(pod) {
            board.place(pod, node);
        }
    }
}

/// The pods without a node that are ours to place, in the order in which they are.
fn queue(view: &View) -> Vec<&Pod> {
    let ours = |pod: &&Pod| {
        let spec = pod.spec.as_ref();
        let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_deref());
        node_name(pod).is_none()
            && !has_ended(pod)
            && pod.metadata.deletion_timestamp.is_none()
            && scheduler.unwrap_or(NAME) == NAME
            && gates.is_none_or(<[_]>::is_empty)
    };
    let mut pods: Vec<&Pod> = view.pods.values().map(AsRef::as_ref).filter(ours).collect();
    // The pods come by name, and a stable sort leaves equals so.
    pods.sort_by_key(|pod| {
        let age = pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (Reverse(priority(pod)), age)
    });
    pods
}

/// The node on which a pod waits for room or volumes.
fn nominated(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let name = status.nominated_node_name.as_deref()?;
    Some(name).filter(|name| !name.is_empty())
}

/// What is to happen to a pod.
enum Decision<'a> {
    /// It goes to a node.
    Bind {
        /// Which.
        node: &'a str,
    },
    /// It will go to a node when its volumes are there.
    Await {
        /// Which.
        node: &'a str,
        /// The writes that get it its volumes.
        acts: Vec<Act>,
    },
    /// It will go to a node when others are gone.
    Preempt {
        /// Which.
        node: &'a str,
        /// Who must go, unless they are going already.
        victims: Vec<&'a Pod>,
        /// Why it fits nowhere now.
        message: String,
    },
    /// It stays where it is.
    Refuse {
        /// Why.
        message: String,
    },
}

impl<'a> Decision<'a> {
    /// Where the pod counts from now on.
    fn node(&self) -> Option<&'a str> {
        match self {
            Self::Bind { node } | Self::Await { node, .. } | Self::Preempt { node, .. } => Some(node),
            Self::Refuse { .. } => None,
        }
    }
}

fn decide<'a>(board: &Board<'a>, pod: &'a Pod) -> Decision<'a> {
    if board.sites.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return Decision::Refuse { message };
    }
    let fit = match Fit::new(board, pod) {
        Ok(fit) => fit,
        Err(reason) => return refuse_everywhere(board, &reason),
    };
    let (fitting, refusals) = ask_all(board, &fit);
    let chosen = nominated(pod)
        .and_then(|name| fitting.iter().find(|site| site.name == name))
        .map(|site| site.name)
        .or_else(|| score::best(board, pod, &fitting));
    match chosen.and_then(|name| board.sites.get(name)) {
        Some(site) if fit.storage.is_waiting() => Decision::Await {
            node: site.name,
            acts: fit.storage.prepare(site.node),
        },
        Some(site) => Decision::Bind { node: site.name },
        None => make_room(board, pod, &refusals),
    }
}

fn ask_all<'b, 'a>(board: &'b Board<'a>, fit: &Fit<'_>) -> (Vec<&'b Site<'a>>, BTreeMap<&'a str, Refusal>) {
    let (mut fitting, mut refusals) = (Vec::new(), BTreeMap::new());
    for site in board.sites.values() {
        match fit.check(board, site) {
            Ok(()) => fitting.push(site),
            Err(refusal) => drop(refusals.insert(site.name, refusal)),
        }
    }
    (fitting, refusals)
}

/// Something about the pod itself is in the way, so no node was asked and no preemption helps.
fn refuse_everywhere<'a>(board: &Board<'_>, reason: &str) -> Decision<'a> {
    let all = board.sites.len();
    let pointless = vec!["Preemption is not helpful for scheduling".into(); all];
    let message = format!(
        "0/{all} nodes are available: {reason}. preemption: {}",
        verdict::summary(all, &pointless)
    );
    Decision::Refuse { message }
}

fn make_room<'a>(board: &Board<'a>, pod: &'a Pod, refusals: &BTreeMap<&'a str, Refusal>) -> Decision<'a> {
    let all = board.sites.len();
    let reasons: Vec<_> = refusals
        .values()
        .flat_map(|refusal| refusal.reasons.clone())
        .collect();
    let message = verdict::summary(all, &reasons);
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        let message = format!("{message} preemption: not eligible due to preemptionPolicy=Never.");
        return Decision::Refuse { message };
    }
    if let Some(site) = nominated(pod).and_then(|name| board.sites.get(name))
        && site.pods.iter().any(|other| preemption::is_leaving(other))
    {
        let message =
            format!("{message} preemption: not eligible due to a terminating pod on the nominated node.");
        let (node, victims) = (site.name, Vec::new());
        return Decision::Preempt {
            node,
            victims,
            message,
        };
    }
    match preemption::find(board, pod, refusals) {
        Ok(Preemption { node, victims, .. }) => Decision::Preempt {
            node,
            victims,
            message,
        },
        Err(why_not) => {
            let reasons: Vec<_> = why_not.into_values().map(Into::into).collect();
            let message = format!("{message} preemption: {}", verdict::summary(all, &reasons));
            Decision::Refuse { message }
        }
    }
}

#[cfg(test)]
mod tests;
