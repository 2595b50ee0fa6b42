//! How a Node is emptied. S6: a pod is deleted by us only when the time of its Node is nearly over, never before that;
//! else it is evicted. S7: an eviction names exactly the pod that was judged, and none that must not be disturbed; a
//! machine is deleted only after a consistent list of its Node's pods that was asked for at least five seconds after the
//! taint. S9: and only when nobody is left who must leave, and no volume is attached to it any more, unless its time is
//! over. S3: nobody is made to leave a Node that stays: that of a claim which is not being deleted, or of none of ours.
//!
//! Judged when the request is sent, on the pods as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::ownership::target;
use super::{Check, Findings, Truth};
use crate::api::names::{DISRUPTED_TAINT, DO_NOT_DISRUPT, TERMINATION_TIMESTAMP};
use crate::api::parse_go_duration;
use crate::clock::{between, later};
use crate::sim::history::{Edge, Entry, Request, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::request::Target;
use crate::sim::kube::stored::ObjectKey;

/// A pod may be bound just before the taint is seen.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// A pod that should have been gone so long ago is waited for no longer.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// Clocks of replicas are set wrong by faults; deadlines are judged with this much grace.
const SLACK: Duration = Duration::from_secs(2);

/// So long after a machine was last seen down it may be taken for dead, with nobody on it to list: reads lag by 15 seconds,
/// and a decision may be under way.
const TAKEN_FOR_DEAD: Duration = Duration::from_mins(1);
const PODS: &str = "/api/v1/pods";

#[derive(Default)]
pub(super) struct Departures {
    /// Since when each Node has been tainted, by name. Whether somebody else took the taint off in between is not asked: the
    /// operator puts it on again, and begins nothing anew.
    tainted: BTreeMap<String, Duration>,
    /// When the last consistent list of a Node's pods was asked for that was answered, by name; under no name one of all pods.
    /// By whichever replica: what one has found out is written into the claim, and the next goes on from there.
    listed: BTreeMap<String, Duration>,
    /// Machines that were asked to be deleted, by id. From then on one may go at any moment, whatever it was answered: pods
    /// that come when somebody takes the taint off are not the operator's to save, and asking again does them no harm.
    asked: BTreeSet<String>,
}

impl Check for Departures {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        for name in &book.changed.nodes {
            let node = stored(truth, "", "nodes", "", name);
            if node.as_ref().is_some_and(is_tainted) {
                self.tainted.entry(name.clone()).or_insert(entry.at);
            } else if node.is_none() || !book.meddled.contains_key(&format!("nodes/{name}")) {
                self.tainted.remove(name);
            }
        }
        if let (What::Answer(answer), Some(sent)) = (&entry.what, &book.answered)
            && answer.status == Some(200)
            && let Some(node) = lists_pods_of(&sent.request)
        {
            let last = self.listed.entry(node).or_default();
            *last = sent.at.max(*last);
        }
        let (What::Request(request), Who::Replica { .. }) = (&entry.what, &entry.who) else {
            return;
        };
        match request.edge {
            Edge::Cloud if request.method == Method::DELETE => {
                self.gives_back(request, entry, book, truth, found);
            }
            Edge::Cloud => {}
            Edge::Kube => judge_pod(request, entry.at, book, truth, found),
        }
    }
}

impl Departures {
    /// The deletion of a machine that lives and has a Node.
    fn gives_back(
        &mut self,
        request: &Request,
        entry: &Entry,
        book: &Book,
        truth: &Truth<'_>,
        found: &mut Findings,
    ) {
        let machine = target(request)
            .and_then(|id| book.machines.get(id))
            .filter(|it| it.is_live());
        let claim = machine.and_then(|it| book.claims.get(it.claim.as_ref()?));
        let Some((machine, claim)) = machine.zip(claim).filter(|(_, claim)| claim.gone.is_none()) else {
            return;
        };
        let node = stored(truth, "", "nodes", "", &claim.name);
        let is_its_own = |node: &Value| {
            node["spec"]["providerID"]
                .as_str()
                .is_some_and(|it| it.ends_with(&machine.id))
        };
        if !node.as_ref().is_some_and(is_its_own) {
            return;
        }
        if !self.asked.insert(machine.id.clone()) {
            return;
        }
        // It has come back since somebody saw that it was off.
        if machine.off.is_some_and(|off| entry.at <= off + TAKEN_FOR_DEAD) {
            return;
        }
        let name = &claim.name;
        let since = self.tainted.get(name);
        if since.is_none_or(|since| entry.at < *since + SETTLED_AFTER) {
            let message = format!("the machine of node {name} is deleted within five seconds of its taint");
            found.blame("S7", entry.at, message);
        } else if since.is_some_and(|since| !self.is_listed_since(name, *since + SETTLED_AFTER))
            && machine
                .broken
                .is_none_or(|broken| entry.at > broken + TAKEN_FOR_DEAD)
        {
            let message = format!(
                "the machine of node {name} is deleted, and nobody asked who is on it five seconds after its taint"
            );
            found.blame("S7", entry.at, message);
        }
        for pod in pods(truth, name).iter().filter(|pod| must_leave(pod, truth.now)) {
            let pod = object::name(pod);
            let message = format!("the machine of node {name} is deleted although pod {pod} is still there");
            found.blame("S9", entry.at, message);
        }
        for volume in attached(truth, name).iter().filter(|_| !is_over(name, truth)) {
            let message = format!("the machine of node {name} is deleted with volume {volume} attached");
            found.blame("S9", entry.at, message);
        }
    }

    fn is_listed_since(&self, node: &str, since: Duration) -> bool {
        let mut lists = [node, ""].into_iter().filter_map(|name| self.listed.get(name));
        lists.any(|asked| *asked >= since)
    }
}

/// The Node whose pods are asked for, all of them as they are; no name where those of all Nodes are.
fn lists_pods_of(request: &Request) -> Option<String> {
    let asks = request.edge == Edge::Kube && request.method == Method::GET && request.path == PODS;
    let query = request.query.replace("%3D", "=").replace("%3d", "=");
    let in_part = ["watch=", "limit=", "resourceVersion=", "labelSelector="];
    if !asks || in_part.iter().any(|option| query.contains(option)) {
        return None;
    }
    let selector = query
        .split('&')
        .find_map(|option| option.strip_prefix("fieldSelector="));
    match selector {
        None => Some(String::new()),
        Some(selector) => selector.strip_prefix("spec.nodeName=").map(str::to_owned),
    }
}

/// The volumes that are attached to a Node.
pub(super) fn attached(truth: &Truth<'_>, node: &str) -> Vec<String> {
    let state = truth.kube.state();
    let attachments = state
        .store
        .list(&TableKey::of("storage.k8s.io", "volumeattachments"), None);
    attachments
        .map(|stored| stored.value())
        .filter(|it| it["spec"]["nodeName"] == node)
        .map(|it| object::name(&it).to_owned())
        .collect()
}

/// Whether the time is over that a Node's claim was given to end.
fn is_over(node: &str, truth: &Truth<'_>) -> bool {
    let claim = stored(truth, "karpenter.sh", "nodeclaims", "", node).unwrap_or_default();
    deadline(&claim).is_some_and(|deadline| later(truth.now, SLACK) >= deadline)
}

fn deadline(claim: &Value) -> Option<Timestamp> {
    let written = claim["metadata"]["annotations"][TERMINATION_TIMESTAMP].as_str();
    written.and_then(|text| text.parse().ok())
}

/// An eviction, or the deletion of a pod.
fn judge_pod(request: &Request, at: Duration, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let is_eviction = request.method == Method::POST && request.path.ends_with("/eviction");
    if !is_eviction && request.method != Method::DELETE {
        return;
    }
    let path = request.path.trim_end_matches("/eviction");
    let Some(target) = Target::parse(path).filter(|it| it.plural == "pods") else {
        return;
    };
    let (namespace, name) = (
        target.namespace.unwrap_or_default(),
        target.name.unwrap_or_default(),
    );
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(pod) = stored(truth, "", "pods", &namespace, &name) else {
        return;
    };
    let named = if is_eviction {
        &body["deleteOptions"]["preconditions"]
    } else {
        &body["preconditions"]
    };
    // Another of its name may be elsewhere by now.
    let is_meant = named["uid"].is_null() || named["uid"] == object::uid(&pod);
    if let Some(node) = pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| is_meant && stays(node, book, truth))
    {
        let message = format!("pod {name} is made to leave node {node}, which stays");
        found.blame("S3", at, message);
    }
    if is_eviction {
        if !named["uid"].is_string() || !named["resourceVersion"].is_string() {
            found.blame("S7", at, format!("an eviction of pod {name} does not say which"));
        }
        let same = named["resourceVersion"] == pod["metadata"]["resourceVersion"];
        if same && is_protected(&pod, truth.now) {
            found.blame(
                "S7",
                at,
                format!("pod {name} is evicted although it is not to be disturbed"),
            );
        }
    } else if !may_be_deleted(&pod, &body, truth) {
        found.blame(
            "S6",
            at,
            format!("pod {name} is deleted before the time of its node is over"),
        );
    }
}

/// Whether a Node is that of a claim which is not being deleted, or has nothing to do with us. Whose it is its machine
/// says, whose name has the claim's uid in it: of a claim that was forced out and made anew under its name, the Node that is
/// there is the first one's, and that a claim of one uid is deleted is never taken back. So nobody can have been shown
/// otherwise, and no time has to pass.
fn stays(node: &str, book: &Book, truth: &Truth<'_>) -> bool {
    let Some(stored) = stored(truth, "", "nodes", "", node) else {
        return false;
    };
    let id = stored["spec"]["providerID"].as_str().unwrap_or_default();
    let machine = book.machines.values().find(|machine| id.ends_with(&machine.id));
    let owner = machine.and_then(|machine| book.claims.get(machine.claim.as_ref()?));
    match owner {
        Some(claim) => claim.name == node && claim.deleting.is_none() && claim.gone.is_none(),
        None => book.claims.values().all(|claim| claim.name != node),
    }
}

/// Whether a pod is not to be disturbed: ever, or for so long after it started.
fn is_protected(pod: &Value, now: Timestamp) -> bool {
    let written = pod["metadata"]["annotations"][DO_NOT_DISRUPT].as_str();
    let length = written
        .and_then(parse_go_duration)
        .filter(|length| !length.is_zero());
    let started = pod["status"]["startTime"].as_str();
    let started = started.and_then(|it| it.parse::<Timestamp>().ok());
    let lasts = |length| started.is_none_or(|start| later(start, length) > later(now, SLACK));
    written == Some("true") || length.is_some_and(lasts)
}

/// Whether so little time is left for a pod's Node that it must be deleted now; one that leaves already is left the time
/// that it has, but for what lies after its Node's.
fn may_be_deleted(pod: &Value, options: &Value, truth: &Truth<'_>) -> bool {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let claim = stored(truth, "karpenter.sh", "nodeclaims", "", node).unwrap_or_default();
    let Some(deadline) = deadline(&claim) else {
        return false;
    };
    let grace = pod["spec"]["terminationGracePeriodSeconds"]
        .as_u64()
        .unwrap_or(30);
    let Some(own) = end(pod) else {
        return between(truth.now, deadline) <= Duration::from_secs(grace) + SLACK;
    };
    let given = options["gracePeriodSeconds"].as_u64().unwrap_or(grace);
    later(truth.now, Duration::from_secs(given) + SLACK) >= own.min(deadline)
}

/// When a pod that leaves is to be gone.
fn end(pod: &Value) -> Option<Timestamp> {
    let written = pod["metadata"]["deletionTimestamp"].as_str();
    written.and_then(|it| it.parse().ok())
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    taints.iter().any(|taint| taint["key"] == DISRUPTED_TAINT)
}

/// Whether a machine must not go before this pod.
pub(super) fn must_leave(pod: &Value, now: Timestamp) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let stuck = end(pod).is_some_and(|end| now >= later(end, STUCK_AFTER));
    let owners = list(&pod["metadata"]["ownerReferences"]);
    let is_static = owners.iter().any(|owner| owner["kind"] == "Node");
    let tolerates = list(&pod["spec"]["tolerations"]).iter().any(|it| {
        let key = it["key"].as_str().unwrap_or_default();
        let effect = it["effect"].as_str().unwrap_or_default();
        it["operator"] == "Exists"
            && (key.is_empty() || key == DISRUPTED_TAINT)
            && matches!(effect, "" | "NoSchedule")
    });
    !finished && !stuck && !is_static && !tolerates
}

/// The pods that are bound to a Node.
pub(super) fn pods(truth: &Truth<'_>, node: &str) -> Vec<Arc<Value>> {
    let state = truth.kube.state();
    let pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.filter(|stored| stored.field("spec.nodeName") == node)
        .map(|stored| stored.shared())
        .collect()
}

fn stored(truth: &Truth<'_>, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let state = truth.kube.state();
    let stored = state
        .store
        .get(&TableKey::of(group, plural), &ObjectKey::new(namespace, name));
    stored.map(|stored| stored.value())
}

#[cfg(test)]
mod tests;
