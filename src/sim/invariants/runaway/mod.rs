//! L11: nobody buys again and again. No two claims of one plan are made for the same pod, and while two that were made for
//! it are on their way, no third is made. Nor is one made for a pod for which another has come in vain: its node was ready,
//! nothing happened to it, and nobody was ever on it. Once that may be, where something was odd about the machine: it has less
//! than its kind was thought to. What came in vain counts for as long as the pod is there, also when it is gone itself.
//!
//! A claim names its pods in the write that makes it. Pods that come later may take the room that it has, in the next plan
//! or on its node, so one more may follow. It is on its way until its node is ready or has pods, unless it has ended or is
//! being deleted, or its pool is. Two leaders that overlap may each make one, as neither can know of the other's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::book::Book;
use super::claims::{conditions, is_true};
use super::{Check, Findings, Truth};
use crate::api::names::{NODE_INITIALIZED, NODE_POOL, NOMINATED_PODS};
use crate::sim::history::{Edge, Entry, What, Who};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::stored::ObjectKey;

/// So long may pass between the look that a claim rests on and its arrival: no answer is waited for longer.
const BLIND: Duration = Duration::from_secs(30);
/// The claims of one plan are made within less than this, and the next plan is made later: pods are gathered for longer.
const ONE_PLAN: Duration = Duration::from_millis(500);

/// What is known of the claims that were made for pods.
#[derive(Default)]
pub(super) struct Runaway {
    /// Those that were made by replicas lately: when, by whom, and the name.
    made: Vec<(Duration, usize, String)>,
    /// Uids of those on whose Nodes somebody has been who is no daemon.
    used: BTreeSet<String>,
    /// Those that had come in vain when they went, by the pod that they were made for.
    gone: BTreeMap<String, Vec<Vain>>,
}

/// A claim that has come in vain.
#[derive(Clone, Debug)]
struct Vain {
    name: String,
    /// Whether something was odd about its machine.
    odd: bool,
}

impl Check for Runaway {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        self.follow(entry, book, truth);
        let (What::Request(request), Who::Replica { number, .. }) = (&entry.what, &entry.who) else {
            return;
        };
        let makes = request.edge == Edge::Kube
            && request.method == Method::POST
            && request.path.ends_with("/nodeclaims");
        if !makes {
            return;
        }
        let Ok(claim) = serde_json::from_slice::<Value>(&request.body) else {
            return;
        };
        let mut pods = pods_of(&claim);
        pods.retain(|pod| !has_a_place(pod, truth));
        let name = object::name(&claim).to_owned();
        let mut others = there(truth);
        for (pod, vain) in self.in_vain(&name, &pods, &others, book, truth) {
            let message = format!("claim {name} is made for pod {pod}, for which {vain} came in vain");
            found.blame("L11", entry.at, message);
        }
        others.retain(|other| {
            is_on_its_way(other)
                && object::name(other) != name
                && self.is_known_to(*number, other, entry.at, book)
                && !has_pods(other, truth)
        });
        for pod in &pods {
            let its_own = others.iter().filter(|other| pods_of(other).contains(pod));
            let names: Vec<&str> = its_own.map(object::name).collect();
            let at_once = |name: &&str| {
                let mut made = self.made.iter();
                made.any(|(at, maker, made)| maker == number && made == name && entry.at < *at + ONE_PLAN)
            };
            if names.len() > 1 || names.iter().any(at_once) {
                let others = names.join(" and ");
                let message = format!("claim {name} is made for pod {pod}, for which {others} is on its way");
                found.blame("L11", entry.at, message);
            }
        }
        self.made.push((entry.at, *number, name));
        self.made.retain(|(at, _, _)| *at + BLIND >= entry.at);
    }
}

impl Runaway {
    /// Whether a replica must know of a claim: its own, or one that was there when it last looked.
    fn is_known_to(&self, replica: usize, claim: &Value, now: Duration, book: &Book) -> bool {
        let name = object::name(claim);
        let mine = self
            .made
            .iter()
            .any(|(_, maker, made)| *maker == replica && made == name);
        let seen = book.claims.get(object::uid(claim)).map(|facts| facts.seen);
        mine || seen.is_some_and(|seen| seen + BLIND < now)
    }

    /// Takes note of who gets guests, and of who goes without ever having had any.
    fn follow(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>) {
        if let What::Request(request) = &entry.what
            && request.edge == Edge::Kube
            && request.path.ends_with("/binding")
        {
            let claims = objects(truth, "nodeclaims");
            let used = claims
                .iter()
                .filter(|claim| has_guests(object::name(claim), truth));
            self.used.extend(used.map(|claim| object::uid(claim).to_owned()));
        }
        for change in &book.changed.claims {
            let goes = |claim: &Value| object::is_deleting(claim);
            let stayed = change.before.as_deref().filter(|before| !goes(before));
            let Some(claim) = stayed.filter(|_| change.deleted || goes(&change.after)) else {
                continue;
            };
            if let Some(vain) = self.has_come_in_vain(claim, book, truth) {
                for pod in pods_of(claim) {
                    self.gone.entry(pod).or_default().push(vain.clone());
                }
            }
        }
    }

    /// The pods whose needs the nodes that were bought for them did not meet, with the names of those.
    fn in_vain<'a>(
        &self,
        name: &str,
        pods: &'a [String],
        claims: &[Value],
        book: &Book,
        truth: &Truth<'_>,
    ) -> Vec<(&'a str, String)> {
        let others = claims.iter().filter(|claim| object::name(claim) != name);
        let stay = others.filter(|claim| !object::is_deleting(claim));
        let empty: Vec<(&Value, Vain)> = stay
            .filter_map(|claim| Some((claim, self.has_come_in_vain(claim, book, truth)?)))
            .collect();
        let mut found = Vec::new();
        for pod in pods {
            let its_own = empty.iter().filter(|(claim, _)| pods_of(claim).contains(pod));
            let gone = self.gone.get(pod).into_iter().flatten();
            let all: Vec<&Vain> = its_own.map(|(_, vain)| vain).chain(gone).collect();
            if all.len() > 1 || all.iter().any(|vain| !vain.odd) {
                let names: Vec<&str> = all.iter().map(|vain| vain.name.as_str()).collect();
                found.push((pod.as_str(), names.join(" and ")));
            }
        }
        found
    }

    /// Whether the node of a claim is ready, nothing happened to it, and nobody was ever there but daemons.
    fn has_come_in_vain(&self, claim: &Value, book: &Book, truth: &Truth<'_>) -> Option<Vain> {
        let name = object::name(claim);
        let touched = ["nodeclaims", "nodes"].map(|kind| format!("{kind}/{name}"));
        let machines: Vec<_> = book.machines_of(object::uid(claim)).collect();
        let mut live = machines.iter().filter(|machine| machine.is_live());
        let whole = live.any(|machine| machine.broken.is_none());
        let in_vain = is_true(claim, NODE_INITIALIZED)
            && whole
            && !touched.iter().any(|it| book.meddled.contains_key(it))
            && is_ready(name, truth)
            && !self.used.contains(object::uid(claim))
            && !has_guests(name, truth);
        in_vain.then(|| Vain {
            name: name.to_owned(),
            odd: machines
                .iter()
                .any(|machine| book.meddled.contains_key(&machine.name)),
        })
    }
}

fn is_ready(node: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let key = ObjectKey::new("", node);
    let node = state.store.get(&TableKey::of("", "nodes"), &key);
    node.is_some_and(|node| is_true(&node.shared(), "Ready"))
}

/// Whether pods are on a node that are no daemons.
fn has_guests(node: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let pods = state.store.list(&TableKey::of("", "pods"), None);
    let mut there = pods.filter(|stored| stored.field("spec.nodeName") == node);
    there.any(|stored| {
        let pod = stored.shared();
        let owners = pod["metadata"]["ownerReferences"].as_array();
        !owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"))
    })
}

/// Whether a pod has found a place or goes: then the claim is for what takes its place when its node goes.
fn has_a_place(uid: &str, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let mut pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.any(|stored| {
        let pod = stored.shared();
        object::uid(&pod) == uid && (!stored.field("spec.nodeName").is_empty() || object::is_deleting(&pod))
    })
}

/// Whether pods are on the node of a claim, which has its name.
fn has_pods(claim: &Value, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let mut pods = state.store.list(&TableKey::of("", "pods"), None);
    pods.any(|stored| stored.field("spec.nodeName") == object::name(claim))
}

/// The claims that are there, but for those of pools that go: these go with them.
fn there(truth: &Truth<'_>) -> Vec<Value> {
    let mut claims = objects(truth, "nodeclaims");
    let pools = objects(truth, "nodepools");
    let stays = |name: &str| {
        let mut pools = pools.iter().filter(|pool| !object::is_deleting(pool));
        pools.any(|pool| object::name(pool) == name)
    };
    claims.retain(|claim| claim["metadata"]["labels"][NODE_POOL].as_str().is_none_or(stays));
    claims
}

fn objects(truth: &Truth<'_>, plural: &str) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of("karpenter.sh", plural), None);
    listed.map(|stored| stored.value()).collect()
}

/// The uids of the pods that a claim is made for.
pub(super) fn pods_of(claim: &Value) -> Vec<String> {
    let named = claim["metadata"]["annotations"][NOMINATED_PODS].as_str();
    let pods = named.unwrap_or_default().split(',').filter(|pod| !pod.is_empty());
    pods.map(str::to_owned).collect()
}

fn is_on_its_way(claim: &Value) -> bool {
    let ended = |condition: &Value| condition["status"] == "False";
    !object::is_deleting(claim) && !is_true(claim, NODE_INITIALIZED) && !conditions(claim).iter().any(ended)
}

#[cfg(test)]
mod tests;
