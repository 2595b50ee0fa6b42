//! By when things are well after healing, each counted from when it was first seen to lack something, healing at the
//! earliest. L1: a pod that has a pool open to it runs. L2: a machine of ours without a claim is gone. L3: so is a claim that
//! is being deleted. Where the first or the second is missed, L8 and L9 are asked too: whether the pod waits for what is
//! withheld no more, and whether one bad object is in the way.
//!
//! What no bound is stated for here is judged when the time to get well is over.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::claims::is_true;
use super::{Check, Findings, SETTLES_WITHIN, Truth, departures, holds, leftovers, pods, poison};
use crate::api::names::{DO_NOT_DISRUPT, NODE_REGISTERED, NOMINATED_PODS};
use crate::api::parse_duration;
use crate::clock::earlier;
use crate::sim::history::Entry;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// Until the operator works at full speed after faults: somebody leads after 20 s, and whoever failed last waits for 30.
const RECOVERY: Duration = Duration::from_secs(20 + 30);

/// Leaks, as stated: five minutes. Until the next sweep 120 s, until it looks again 30, the cloud's deletion 90; with
/// recovery 290.
const LEAK: Duration = Duration::from_mins(5);

/// The cloud's deletion of a machine.
const DELETION: Duration = Duration::from_secs(90);
/// Until no order can be carried out any more: sent within 5 s of its intent, carried out within 60.
const LATE_ORDER: Duration = Duration::from_secs(65);
/// What L3 and L1 allow beyond what others take: two looks that find nothing, 15 s apart, and looks every five seconds.
const SLACK: Duration = Duration::from_mins(1);

/// From an order to a node that takes pods, at its slowest: 15 s pending, 165 starting, 40 booting, 15 until its network
/// is up.
const BOOT: Duration = Duration::from_secs(15 + 165 + 40 + 15);
/// Until a volume is where a pod is that was in use on a Node that went: six minutes pass before anybody takes it off, then
/// five seconds each to detach and to attach it.
const UNMOUNTED: Duration = Duration::from_secs(6 * 60 + 5 + 5);

/// The classes of pods that leave after all others.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Until when each thing must be well, by invariant and by what it is.
#[derive(Default)]
pub(super) struct Deadlines(BTreeMap<(&'static str, String), Duration>);

/// Something that is not well.
struct Lack {
    id: &'static str,
    subject: String,
    /// What it is in words, as `pod shop-1`.
    name: String,
    /// The claim or the pod; nothing for a machine.
    object: Value,
    message: String,
}

impl Lack {
    /// How long it may take from now.
    fn within(&self, truth: &Truth<'_>) -> Duration {
        match self.id {
            "L2" => LEAK,
            "L3" => drained_within(&self.object, truth) + DELETION + LATE_ORDER + SLACK + RECOVERY,
            _ if pods::waits_for_a_volume(&self.object, truth) => BOOT + UNMOUNTED + SLACK + RECOVERY,
            _ => BOOT + SLACK + RECOVERY,
        }
    }
}

impl Check for Deadlines {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn look(&mut self, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let now = truth.since_start;
        let mut deadlines = BTreeMap::new();
        for lack in lacks(book, truth) {
            let key = (lack.id, lack.subject.clone());
            let known = self.0.get(&key).copied();
            let deadline = known.unwrap_or_else(|| now + lack.within(truth));
            if now > deadline {
                let message = format!("{}, which was to end by {deadline:?}", lack.message);
                found.blame(lack.id, now, &message);
                blame_causes(&lack, &message, book, truth, found);
            }
            deadlines.insert(key, deadline);
        }
        self.0 = deadlines;
    }
}

/// What has come of others that they were to be protected from. L9: a pod that waits, or a machine that stays, while an object
/// is there that is no good. L8: a pod that waits for what was withheld and is no more.
fn blame_causes(lack: &Lack, message: &str, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
    let now = truth.since_start;
    if matches!(lack.id, "L1" | "L2")
        && let Some(bad) = poison::bad_object(truth).filter(|bad| *bad != lack.name)
    {
        found.blame(
            "L9",
            now,
            format!("{message}, while {bad} is there, which is no good"),
        );
    }
    if lack.id == "L1" && holds::waits_for_nothing(&lack.subject, book, truth) {
        let message = format!("{message}: it was told that something is withheld, and nothing is");
        found.blame("L8", now, message);
    }
}

fn lacks(book: &Book, truth: &Truth<'_>) -> Vec<Lack> {
    let claims = leftovers::claims(truth);
    let leaks = leftovers::leaks(&claims, book, truth).into_iter();
    let leaks = leaks.map(|(subject, message)| Lack {
        id: "L2",
        name: subject.clone(),
        subject,
        object: Value::Null,
        message,
    });
    let going = claims.iter().filter(|claim| object::is_deleting(claim));
    let going = going.map(|claim| Lack {
        id: "L3",
        subject: object::uid(claim).to_owned(),
        name: format!("claim {}", object::name(claim)),
        object: claim.clone(),
        message: format!("claim {} is still being deleted", object::name(claim)),
    });
    let waiting = unkept(pods::waiting(truth), &claims, healed(book, truth)).into_iter();
    let waiting = waiting.map(|pod| Lack {
        id: "L1",
        subject: object::uid(&pod).to_owned(),
        name: format!("pod {}", object::name(&pod)),
        message: format!("pod {} still waits", object::name(&pod)),
        object: pod,
    });
    leaks.chain(going).chain(waiting).collect()
}

/// How long the node of a claim that goes may yet be drained. Without a grace period of its own that is for as long as its pods
/// take; and there is no bound where something may hold them.
fn drained_within(claim: &Value, truth: &Truth<'_>) -> Duration {
    let name = object::name(claim);
    let is_there = {
        let state = truth.kube.state();
        let mut nodes = state.store.list(&TableKey::of("", "nodes"), None);
        nodes.any(|node| object::name(&node.shared()) == name)
    };
    if !is_there {
        return Duration::ZERO;
    }
    let grace = claim["spec"]["terminationGracePeriod"]
        .as_str()
        .and_then(parse_duration);
    let since = claim["metadata"]["deletionTimestamp"]
        .as_str()
        .and_then(|text| text.parse().ok());
    let Some((grace, since)) = grace.zip(since) else {
        return emptied_within(name, truth).unwrap_or(SETTLES_WITHIN);
    };
    let passed = truth.now.duration_since(since).try_into().unwrap_or_default();
    grace.saturating_sub(passed)
}

/// How long the pods that must leave a node take when they are asked to, one tier after the other. Nothing where nobody can
/// say: a budget, a wish or a volume may hold them.
fn emptied_within(node: &str, truth: &Truth<'_>) -> Option<Duration> {
    let mut pods = departures::pods(truth, node);
    pods.retain(|pod| departures::must_leave(pod, truth.now));
    let wishes = |pod: &Value| !pod["metadata"]["annotations"][DO_NOT_DISRUPT].is_null();
    let held = pods.iter().any(|pod| wishes(pod) || is_budgeted(pod, truth));
    if held || !departures::attached(truth, node).is_empty() {
        return None;
    }
    let mut tiers: BTreeMap<(bool, bool), Duration> = BTreeMap::new();
    for pod in &pods {
        let grace = pod["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(30);
        let class = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let is_daemon = owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"));
        let longest = tiers.entry((CRITICAL.contains(&class), is_daemon)).or_default();
        *longest = Duration::from_secs(grace).max(*longest);
    }
    Some(tiers.values().sum())
}

/// Whether a disruption budget may be about a pod: there is one in its namespace.
fn is_budgeted(pod: &Value, truth: &Truth<'_>) -> bool {
    let state = truth.kube.state();
    let table = TableKey::of("policy", "poddisruptionbudgets");
    let mut budgets = state.store.list(&table, None);
    budgets.any(|budget| object::namespace(&budget.shared()) == object::namespace(pod))
}

/// When everything was put right, by the right clock.
fn healed(book: &Book, truth: &Truth<'_>) -> Timestamp {
    let since = book.healed_at.map(|at| truth.since_start.saturating_sub(at));
    earlier(truth.now, since.unwrap_or_default())
}

/// Those of the pods that wait that no claim on its way keeps. It also keeps those that are spread with others whom it does:
/// until they run there, one more elsewhere would be one too many.
fn unkept(waiting: Vec<Value>, claims: &[Value], healed: Timestamp) -> Vec<Value> {
    let (held, mut waiting): (Vec<Value>, Vec<Value>) =
        waiting.into_iter().partition(|pod| is_held(pod, claims, healed));
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
    let owners: Vec<Value> = held.iter().map(owner).filter(|owner| !owner.is_null()).collect();
    waiting.retain(|pod| !is_spread(pod) || !owners.contains(&owner(pod)));
    waiting
}

/// Whether where a pod may be depends on where others like it are.
fn is_spread(pod: &Value) -> bool {
    let spreads = pod["spec"]["topologySpreadConstraints"].as_array();
    spreads.is_some_and(|spreads| {
        spreads
            .iter()
            .any(|it| it["whenUnsatisfiable"] == "DoNotSchedule")
    })
}

/// Whether a claim on its way keeps the pod whose machine was ordered under faults: it may never start, for which it has
/// five minutes, or never join, for which it has fifteen.
fn is_held(pod: &Value, claims: &[Value], healed: Timestamp) -> bool {
    let names = |claim: &&Value| {
        let named = claim["metadata"]["annotations"][NOMINATED_PODS].as_str();
        named.is_some_and(|named| named.split(',').any(|uid| uid == object::uid(pod)))
    };
    let made = |claim: &Value| claim["metadata"]["creationTimestamp"].as_str()?.parse().ok();
    let mut claims = claims.iter().filter(names);
    claims.any(|claim| {
        let is_old = made(claim).is_some_and(|made: Timestamp| made <= healed);
        is_old && !object::is_deleting(claim) && !is_true(claim, NODE_REGISTERED)
    })
}

#[cfg(test)]
mod tests;
