//! L5: a machine that is taken back is replaced soon: fifteen seconds after its kubelet said so, or else when the next
//! poll has seen it.
//!
//! Where something went wrong from shortly before until then that keeps the operator from seeing or from being obeyed, it
//! is due when that is over and the operator has had the time to recover; what is not told to be over lasts until healing.
//! Whatever else goes wrong, with tags, prices, machines of others or nodes, excuses nobody. When it is due the node is given
//! up (tainted, or its claim is being deleted); and a little later whoever took the place of one of its pods, and still
//! waits, has had a claim made for it. That too may take longer where what is for sale went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::claims::is_true;
use super::pods::{is_hopeless, open_pools, serves};
use super::runaway::pods_of;
use super::{Check, Findings, Truth};
use crate::api::names::{DISRUPTED_TAINT, REASON_NOMINATED, WITHHELD_PREEMPTED, WITHHELD_STOPPING};
use crate::clock::between;
use crate::sim::history::{Entry, What};
use crate::sim::ibm::{Class, InstanceTruth};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;

/// After an early signal.
const EARLY: Duration = Duration::from_secs(15);
/// The interval of the poll, and what it takes.
const POLLED: Duration = Duration::from_secs(62);
/// How often machines are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A pod that waits for so long has been planned for: the longest window for gathering, and a plan.
const PLANNED_AFTER: Duration = Duration::from_secs(15);
/// What went wrong may show for so long: a Lease that runs out, a watch that is opened again, the longest wait that a
/// server can ask for.
const RECOVERY: Duration = Duration::from_mins(2);
/// What is told when it begins and not when it ends, and keeps the operator from deciding rightly meanwhile. What watches
/// keep back is seen to end where they are ruled.
const LASTING: &[&str] = &["k15-skew", "k16-old-definition"];
/// What keeps the operator from seeing or from being obeyed: all that happens to the cluster's API and to replicas, orders
/// that are lost, reads that lag, fail or say too little, rights, limits, refusals, deletions that are stuck, answers that
/// cannot be read.
const IN_THE_WAY: &[&str] = &["c1", "c3", "c4", "c5", "c6", "c7", "c8", "c12", "c18"];
/// What keeps it from finding something to buy: what is sold and at which price, classes and limits of pools.
const ON_THE_MARKET: &[&str] = &["c15", "m2", "m3"];
/// What is sold no more, or cannot be booted from: that lasts, too.
const WITHDRAWN: &[&str] = &["c15-profile-withdrawn", "c15-zone-withdrawn", "c15-image-deleted"];
/// Whoever forces a class out and makes it anew leaves one that says nothing until it is ready.
const CLASS_DELETED: &str = "m2-class-deleted";
/// What a machine that is taken back shows in the end.
const PREEMPTED: &str = "stopped_by_preemption";
/// What its kubelet says before that.
const SHUTTING_DOWN: &str = "node is shutting down";

/// A machine that went down.
#[derive(Debug)]
struct Loss {
    /// When it was first seen to.
    at: Duration,
    /// When its kubelet said so.
    said: Option<Duration>,
    /// The name of its claim and node.
    node: String,
    /// Who will make the pods anew that were on it.
    owners: BTreeSet<String>,
    given_up: bool,
    /// Whether the machine itself is gone.
    vanished: bool,
}

impl Loss {
    /// When it must have been given up; `None` if it cannot be said yet. A machine that is gone before the next poll is
    /// missed by the sweep only, which looks twice.
    fn due(&self, disturbed: &Disturbed) -> Option<Duration> {
        let polled = self.at + POLLED;
        let told = self.said.map_or(polled, |said| polled.min(said + EARLY));
        let undisturbed = if self.vanished && !self.given_up {
            self.at + RECOVERY + POLLED
        } else {
            told
        };
        match disturbed {
            Disturbed::Until(end) if *end + RECOVERY > self.at => {
                Some(undisturbed.max(*end + RECOVERY + POLLED))
            }
            Disturbed::Until(_) | Disturbed::Never => Some(undisturbed),
            Disturbed::Still => None,
        }
    }
}

/// Until when something went wrong.
#[derive(Debug, Default)]
enum Disturbed {
    #[default]
    Never,
    Until(Duration),
    /// It began, and its end is not told.
    Still,
}

impl Disturbed {
    /// `kinds` are the kinds of faults that disturb, and `lasting` those whose end is not told.
    fn observe(&mut self, entry: &Entry, kinds: &[&[&str]], lasting: &[&[&str]]) {
        let heals = matches!(&entry.what, What::Turn(turn) if turn.starts_with("healing"));
        let is_lasting = |name| lasting.iter().any(|names| names.contains(name));
        let lasts = matches!(&entry.what, What::Fault { name, .. } if is_lasting(name));
        if lasts {
            *self = Self::Still;
        } else if heals {
            *self = Self::Until(entry.at);
        } else if disturbs(&entry.what, kinds) {
            self.goes_on(entry.at);
        }
    }

    /// It is not over yet.
    fn goes_on(&mut self, now: Duration) {
        if !matches!(self, Self::Still) {
            *self = Self::Until(now);
        }
    }

    /// Whether it reached into the time of a loss.
    fn concerns(&self, loss: &Loss) -> bool {
        matches!(self, Self::Until(end) if *end + RECOVERY > loss.at)
    }
}

/// The machines that went down lately, by id.
#[derive(Default)]
pub(super) struct Replaced {
    losses: BTreeMap<String, Loss>,
    /// Those that are down and about which nothing more is to be said.
    judged: BTreeSet<String>,
    looked: Option<Duration>,
    /// By what keeps the operator from seeing or from being obeyed.
    disturbed: Disturbed,
    /// By that, or by what keeps it from finding something to buy.
    unsupplied: Disturbed,
    /// The uids of pods that somebody planned for since a machine went down.
    planned: BTreeSet<String>,
}

impl Check for Replaced {
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings) {
        self.disturbed.observe(entry, &[IN_THE_WAY], &[LASTING]);
        self.unsupplied
            .observe(entry, &[IN_THE_WAY, ON_THE_MARKET], &[LASTING, WITHDRAWN]);
        self.follow_plans(book);
        if self.looked.is_some_and(|looked| entry.at < looked + LOOK_EVERY) {
            return;
        }
        self.looked = Some(entry.at);
        self.look(entry.at, book, truth);
        let mut over = Vec::new();
        for (id, loss) in &mut self.losses {
            let machine = machine(id, truth);
            if !was_preempted(machine.as_ref(), loss) {
                over.push(id.clone());
                continue;
            }
            loss.vanished = machine.is_none();
            loss.given_up = loss.given_up || is_given_up(&loss.node, truth);
            let (due, supplied) = (loss.due(&self.disturbed), loss.due(&self.unsupplied));
            let Some(due) = due else {
                continue;
            };
            if entry.at > due && !loss.given_up {
                let message = format!(
                    "node {} was taken back at {:?}, and nothing follows",
                    loss.node, loss.at
                );
                found.blame("L5", entry.at, message);
                over.push(id.clone());
            } else if supplied.is_some_and(|supplied| entry.at > supplied.max(due) + PLANNED_AFTER) {
                if !self.unsupplied.concerns(loss) || !is_short(truth) {
                    judge_successors(loss, &self.planned, entry.at, truth, found);
                }
                over.push(id.clone());
            }
        }
        for id in over {
            self.losses.remove(&id);
            self.judged.insert(id);
        }
    }
}

impl Replaced {
    /// Takes note of machines that go down and of what their kubelets say.
    fn look(&mut self, now: Duration, book: &Book, truth: &Truth<'_>) {
        let is_blind = truth.kube.watching().keeps_things_back()
            || lacks_a_class(book, truth, |it| is_true(it, "Ready"));
        if is_blind {
            self.disturbed.goes_on(now);
        }
        if is_blind || lacks_a_class(book, truth, is_usable) {
            self.unsupplied.goes_on(now);
        }
        let down = truth.cloud.instances_down();
        // One that came back may be taken back later.
        self.judged
            .retain(|id| down.iter().any(|machine| machine.id == *id));
        for machine in down {
            if machine.class != Class::Spot
                || self.judged.contains(&machine.id)
                || self.losses.contains_key(&machine.id)
            {
                continue;
            }
            let claim = book
                .machines
                .get(&machine.id)
                .and_then(|known| known.claim.as_ref());
            let joined = claim.filter(|claim| book.registered.contains(*claim));
            let facts = joined.and_then(|claim| book.claims.get(claim));
            let Some(facts) = facts.filter(|facts| facts.deleting.is_none() && facts.forced.is_none()) else {
                self.judged.insert(machine.id);
                continue;
            };
            let loss = Loss {
                at: now,
                said: None,
                owners: owners_on(&facts.name, truth),
                node: facts.name.clone(),
                given_up: false,
                vanished: false,
            };
            self.losses.insert(machine.id, loss);
        }
        for loss in self.losses.values_mut().filter(|loss| loss.said.is_none()) {
            loss.said = says_so(&loss.node, truth).then_some(now);
        }
    }

    /// Takes note of whom somebody plans for while a machine is down: what was made for one may be gone again when that is
    /// asked for.
    fn follow_plans(&mut self, book: &Book) {
        if self.losses.is_empty() {
            self.planned.clear();
            return;
        }
        for change in &book.changed.claims {
            self.planned.extend(pods_of(&change.after));
        }
        let nominated = book.changed.events.iter().filter_map(|event| nominated(event));
        self.planned.extend(nominated);
    }
}

/// Whether something went wrong that may delay the operator: something of these kinds, or anything to do with the cluster or
/// with replicas. What is told twice is told.
fn disturbs(what: &What, kinds: &[&[&str]]) -> bool {
    match what {
        What::Fault { name, .. } => {
            let kind = name.split('-').next().unwrap_or_default();
            let listed = kinds.iter().any(|kinds| kinds.contains(&kind));
            (kind.starts_with('k') && *name != "k11-duplicates") || listed
        }
        What::Turn(turn) => ["started", "crashed", "paused", "resumed"]
            .iter()
            .any(|begin| turn.starts_with(begin)),
        _ => false,
    }
}

/// Whether a class is not as it should be after somebody deleted one: what group its machines are in is known from it.
fn lacks_a_class(book: &Book, truth: &Truth<'_>, is_fine: fn(&Value) -> bool) -> bool {
    book.strikes(CLASS_DELETED) > 0 && {
        let classes = objects(truth, "karpenter-ibm.sh", "ibmnodeclasses");
        classes.is_empty() || !classes.iter().all(is_fine)
    }
}

/// Whether anything can be bought by a class.
fn is_usable(class: &Value) -> bool {
    is_true(class, "Ready") && !object::is_deleting(class)
}

fn machine(id: &str, truth: &Truth<'_>) -> Option<InstanceTruth> {
    let machines = truth.cloud.instances().into_iter();
    machines.into_iter().find(|machine| machine.id == *id)
}

/// Whether it was really taken back, as far as it shows yet.
fn was_preempted(there: Option<&InstanceTruth>, loss: &Loss) -> bool {
    there.is_none_or(|machine| match machine.status {
        "stopping" => true,
        "stopped" => machine.reason.as_deref() == Some(PREEMPTED),
        _ => loss.given_up,
    })
}

fn judge_successors(
    loss: &Loss,
    before: &BTreeSet<String>,
    now: Duration,
    truth: &Truth<'_>,
    found: &mut Findings,
) {
    let planned = planned(truth);
    let has_been_planned = |uid: &str| planned.contains(uid) || before.contains(uid);
    let pools = open_pools(truth);
    for pod in objects(truth, "", "pods") {
        let succeeds = owners(&pod).iter().any(|owner| loss.owners.contains(owner));
        let waits = pod["spec"]["nodeName"].is_null() && !object::is_deleting(&pod);
        let long = age(&pod, truth.now) > PLANNED_AFTER;
        let servable = !is_hopeless(&pod) && pools.iter().any(|pool| serves(pool, &pod));
        if succeeds && waits && long && servable && !has_been_planned(object::uid(&pod)) {
            let message = format!(
                "pod {} waits since node {} was taken back, and no claim is made for it",
                object::name(&pod),
                loss.node
            );
            found.blame("L5", now, message);
        }
    }
}

/// Whether what went wrong has left nothing to buy, or nothing to buy it by: something is withheld for another reason than
/// that it was or is being taken back, or a class is not ready.
fn is_short(truth: &Truth<'_>) -> bool {
    let withheld = |hold: &Value| {
        let reason = hold["spec"]["reason"].as_str().unwrap_or_default();
        let is_taken = [WITHHELD_PREEMPTED, WITHHELD_STOPPING].contains(&reason);
        let until = hold["spec"]["until"].as_str();
        let until = until.and_then(|until| until.parse::<Timestamp>().ok());
        !is_taken && until.is_none_or(|until| until > truth.now)
    };
    let holds = objects(truth, "karpenter-ibm.sh", "unavailableofferings");
    let classes = objects(truth, "karpenter-ibm.sh", "ibmnodeclasses");
    holds.iter().any(withheld) || !classes.iter().all(is_usable)
}

/// The uids of pods that claims were made for, and of those that were told of a place on one that is on its way.
fn planned(truth: &Truth<'_>) -> BTreeSet<String> {
    let claims = objects(truth, "karpenter.sh", "nodeclaims");
    let mut all: BTreeSet<String> = claims.iter().flat_map(pods_of).collect();
    all.extend(objects(truth, "", "events").iter().filter_map(nominated));
    all
}

/// The uid of the pod that an event tells of a place.
fn nominated(event: &Value) -> Option<String> {
    let is_told = event["reason"] == REASON_NOMINATED;
    let pod = event["involvedObject"]["uid"].as_str().filter(|_| is_told);
    pod.map(str::to_owned)
}

fn is_given_up(node: &str, truth: &Truth<'_>) -> bool {
    let claims = objects(truth, "karpenter.sh", "nodeclaims");
    let claim = claims.iter().find(|claim| object::name(claim) == node);
    let nodes = objects(truth, "", "nodes");
    let tainted = nodes.iter().filter(|it| object::name(it) == node).any(|it| {
        let taints = it["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == DISRUPTED_TAINT)
    });
    tainted || claim.is_none_or(object::is_deleting)
}

fn says_so(node: &str, truth: &Truth<'_>) -> bool {
    let nodes = objects(truth, "", "nodes");
    let said = |condition: &Value| {
        condition["type"] == "Ready"
            && condition["message"]
                .as_str()
                .is_some_and(|message| message.contains(SHUTTING_DOWN))
    };
    nodes
        .iter()
        .filter(|it| object::name(it) == node)
        .any(|it| super::claims::conditions(it).iter().any(said))
}

fn owners_on(node: &str, truth: &Truth<'_>) -> BTreeSet<String> {
    let pods = objects(truth, "", "pods");
    let there = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
    there.flat_map(owners).collect()
}

/// Those who make a pod anew elsewhere: not a DaemonSet.
fn owners(pod: &Value) -> Vec<String> {
    let list = pod["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let others = list.iter().filter(|owner| owner["kind"] != "DaemonSet");
    others
        .filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
        .collect()
}

fn age(pod: &Value, now: Timestamp) -> Duration {
    let made = pod["metadata"]["creationTimestamp"].as_str();
    let made = made.and_then(|made| made.parse().ok());
    made.map_or(Duration::ZERO, |made| between(made, now))
}

fn objects(truth: &Truth<'_>, group: &str, plural: &str) -> Vec<Value> {
    let state = truth.kube.state();
    let listed = state.store.list(&TableKey::of(group, plural), None);
    listed.map(|stored| stored.value()).collect()
}

#[cfg(test)]
mod tests;
