//! Pods, reduced to what decisions look at: where each is, what it asks for by its class, and whether somebody makes it
//! anew when its node goes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod as ApiPod, PodSpec};
use kube::ResourceExt;

use super::foreseen::is_foreseeable;
use super::store::{Revision, Store, Told};
use crate::api::names::NODE_POOL;
use crate::drain::{Protection, protection};
use crate::model::pod::{ClassId, Interned, InvalidPod, Pod};

/// The scheduler takes milliseconds for a pod that it has a node for. One that is without a node after so long has none, or
/// stands in a queue.
const PLACED_WITHIN: SignedDuration = SignedDuration::from_secs(1);

/// A pod that matters: it waits for a node, or is on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The how manieth it was that came to wait; 0 if it has a node.
    pub came: u64,
    /// What it asks for.
    pub class: ClassId,
    /// Where it stands.
    pub place: Place,
    /// Who looks after it.
    pub keeper: Keeper,
    /// Whether it asks to be left where it is.
    pub protection: Protection,
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has no node.
    Waiting {
        /// What the scheduler has said of it.
        verdict: Verdict,
        /// The node where the scheduler removes others for it, if it does.
        preempting: Option<String>,
    },
    /// On a node.
    On {
        /// Its name.
        node: String,
        /// Whether it is about to go.
        ending: Ending,
    },
}

/// What the scheduler has said of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet, and what it will say can be foreseen.
    None,
    /// That it finds no node for it.
    Refused,
}

/// Whether a pod is about to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It stays.
    No,
    /// It is being deleted.
    Yes,
}

/// Who looks after a pod, and so what becomes of it when its node goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A controller that makes another one at once.
    Controller,
    /// A StatefulSet, which makes another one when this one is gone.
    StatefulSet,
    /// The DaemonSet of this name: it belongs to its node.
    DaemonSet(String),
    /// Its node, to which it belongs too: a static pod, or one of a DaemonSet of another API group.
    Node,
    /// Nobody: nothing is planned for it elsewhere.
    Nobody,
}

impl Seen {
    /// The node that it is on.
    pub fn node(&self) -> Option<&str> {
        match &self.place {
            Place::On { node, .. } => Some(node),
            Place::Waiting { .. } => None,
        }
    }

    /// Whether it has waited long enough to be planned for. A clock of ours that is ahead makes that sooner, one that is behind
    /// no later than the scheduler's own verdict.
    pub fn is_due(&self, now: Timestamp) -> bool {
        match self.verdict() {
            Some(Verdict::Refused) => true,
            Some(Verdict::None) => self.due_in(now).is_none(),
            None => false,
        }
    }

    /// How long it is left to the scheduler from now on; `None` for a pod that is not, or no longer.
    fn due_in(&self, now: Timestamp) -> Option<SignedDuration> {
        let created = self.created.filter(|_| self.verdict() == Some(Verdict::None))?;
        let left = PLACED_WITHIN - now.duration_since(created);
        left.is_positive().then_some(left)
    }

    /// What the scheduler has said of it, if it waits.
    fn verdict(&self) -> Option<Verdict> {
        match &self.place {
            Place::Waiting { verdict, .. } => Some(*verdict),
            Place::On { .. } => None,
        }
    }

    /// Whether it waits as it did before, but for the scheduler's word.
    fn waits_as(&self, before: &Self) -> bool {
        let preempting = |seen: &Self| match &seen.place {
            Place::Waiting { preempting, .. } => Some(preempting.clone()),
            Place::On { .. } => None,
        };
        let now = preempting(self);
        now.is_some() && now == preempting(before) && self.class == before.class
    }

    /// Whether another one must find a place when its node goes. Not while it must not be moved, by the same judgement as
    /// that of the drain: when its time is over it is evicted, and waits like any other.
    pub fn comes_back(&self, now: Timestamp) -> bool {
        if self.protection.holds(now) {
            return false;
        }
        match (&self.place, &self.keeper) {
            (Place::On { .. }, Keeper::Controller) => !self.is_over(),
            (Place::On { .. }, Keeper::StatefulSet) => true,
            _ => false,
        }
    }

    /// Whether it needs no place any more, wherever it is and however long it takes to stop: whoever comes after it is there
    /// already. A StatefulSet makes another one only when this one is gone, and its place is kept until then.
    pub fn is_over(&self) -> bool {
        let is_ending = matches!(&self.place, Place::On { ending, .. } if *ending == Ending::Yes);
        is_ending && self.keeper != Keeper::StatefulSet
    }
}

/// All pods that matter.
#[derive(Debug, Default)]
pub struct Pods {
    store: Store<Seen>,
    classes: Interned,
    waiting: BTreeSet<String>,
    on_nodes: BTreeMap<String, BTreeSet<String>>,
    /// How many have come to wait so far, and which of them wait still.
    came: u64,
    arrivals: BTreeSet<u64>,
    /// When the last pass began.
    pass: Option<Pass>,
}

/// The beginning of a pass over the pods that wait.
#[derive(Clone, Copy, Debug)]
struct Pass {
    at: Timestamp,
    /// How many had come by then.
    came: u64,
}

impl Pass {
    /// Whether a pod was planned for in it.
    fn saw(&self, seen: &Seen) -> bool {
        seen.came <= self.came && seen.is_due(self.at)
    }
}

/// What a change of a pod means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing that a decision looks at.
    Nothing,
    /// A pod waits for a node that did not before, or for another.
    Demand,
    /// What is on nodes is different.
    Load,
}

impl Pods {
    /// A list begins.
    pub fn begin(&mut self) {
        self.store.begin();
    }

    /// The list is over.
    pub fn finish(&mut self) {
        for (uid, seen) in self.store.finish() {
            self.forget(&uid, &seen);
        }
    }

    /// A pod is as it says.
    pub fn apply(&mut self, pod: &ApiPod) -> Meaning {
        let (Some(uid), revision) = (pod.metadata.uid.as_deref(), Revision::of(&pod.metadata)) else {
            return Meaning::Nothing;
        };
        let Some(place) = place(pod) else {
            return self.remove_at(uid, revision);
        };
        let seen = Seen {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            came: self.order_of(uid, &place),
            place,
            keeper: keeper(pod),
            // At the beginning of time no protection is over yet.
            protection: protection(pod, Timestamp::MIN),
            // The last that is read: it is counted there.
            class: self.classes.enter(pod),
        };
        let (class, came) = (seen.class, seen.came);
        match self.store.apply(uid, revision, seen) {
            Told::Nothing => {
                self.classes.leave(class);
                Meaning::Nothing
            }
            Told::New(before) => {
                self.came = self.came.max(came);
                let known = self.store.get(uid).zip(before.as_ref());
                let is_no_news = known.is_some_and(|(now, before)| self.is_no_news(now, before));
                if let Some(before) = before {
                    self.forget(uid, &before);
                }
                match self.remember(uid) {
                    Meaning::Demand if is_no_news => Meaning::Nothing,
                    meaning => meaning,
                }
            }
        }
    }

    /// The how manieth a pod is that came to wait. One that waits already keeps its place.
    fn order_of(&self, uid: &str, place: &Place) -> u64 {
        match place {
            Place::On { .. } => 0,
            Place::Waiting { .. } => {
                let known = self.store.get(uid).map(|seen| seen.came);
                known.filter(|came| *came > 0).unwrap_or(self.came + 1)
            }
        }
    }

    /// Whether a pod waits as before. That the scheduler refuses it is no news of one that was planned for before that.
    fn is_no_news(&self, now: &Seen, before: &Seen) -> bool {
        let was_planned = self.pass.is_some_and(|pass| pass.saw(before));
        now.waits_as(before) && (now.verdict() == before.verdict() || was_planned)
    }

    /// A pass over the pods that wait begins.
    pub fn begin_pass(&mut self, now: Timestamp) {
        self.pass = Some(Pass {
            at: now,
            came: self.came,
        });
    }

    /// Whether the scheduler has had its time with a pod that waits, since the last pass began.
    pub fn is_newly_due(&self, seen: &Seen, now: Timestamp) -> bool {
        let is_new = self.pass.is_none_or(|pass| !pass.saw(seen));
        is_new && seen.verdict() == Some(Verdict::None) && seen.is_due(now)
    }

    /// After how long the next pod will be due that is left to the scheduler now.
    pub fn next_due(&self, now: Timestamp) -> Option<SignedDuration> {
        self.waiting().filter_map(|(_, seen)| seen.due_in(now)).min()
    }

    /// The how manieth the last is that came to wait and waits still; 0 if nobody does.
    pub fn last_arrival(&self) -> u64 {
        self.arrivals.last().copied().unwrap_or_default()
    }

    /// A pod is there, and nothing more can be said of it.
    pub fn spare(&mut self, pod: &ApiPod) {
        self.store.spare(pod.metadata.uid.as_deref().unwrap_or_default());
    }

    /// A pod is gone.
    pub fn remove(&mut self, pod: &ApiPod) -> Meaning {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.remove_at(uid, Revision::of(&pod.metadata))
    }

    fn remove_at(&mut self, uid: &str, revision: Revision) -> Meaning {
        let Some(before) = self.store.remove(uid, revision) else {
            return Meaning::Nothing;
        };
        self.forget(uid, &before);
        Meaning::Load
    }

    fn remember(&mut self, uid: &str) -> Meaning {
        let Some(seen) = self.store.get(uid) else {
            return Meaning::Nothing;
        };
        match &seen.place {
            Place::Waiting { verdict, .. } => {
                self.waiting.insert(uid.to_owned());
                self.arrivals.insert(seen.came);
                match verdict {
                    Verdict::Refused => Meaning::Demand,
                    Verdict::None => Meaning::Nothing,
                }
            }
            Place::On { node, .. } => {
                self.on_nodes
                    .entry(node.clone())
                    .or_default()
                    .insert(uid.to_owned());
                Meaning::Load
            }
        }
    }

    fn forget(&mut self, uid: &str, seen: &Seen) {
        self.classes.leave(seen.class);
        self.waiting.remove(uid);
        self.arrivals.remove(&seen.came);
        if let Some(node) = seen.node()
            && let Some(pods) = self.on_nodes.get_mut(node)
        {
            pods.remove(uid);
            if pods.is_empty() {
                self.on_nodes.remove(node);
            }
        }
    }

    /// What is known of a pod.
    pub fn get(&self, uid: &str) -> Option<&Seen> {
        self.store.get(uid)
    }

    /// What the pods of a class ask for.
    pub fn class(&self, id: ClassId) -> Option<&Result<Pod, InvalidPod>> {
        self.classes.get(id)
    }

    /// The pods that wait for a node, by uid.
    pub fn waiting(&self) -> impl Iterator<Item = (&String, &Seen)> {
        self.waiting
            .iter()
            .filter_map(|uid| Some((uid, self.store.get(uid)?)))
    }

    /// How many wait that are not left to the scheduler any more.
    pub fn count_due(&self, now: Timestamp) -> usize {
        self.waiting().filter(|(_, seen)| seen.is_due(now)).count()
    }

    /// Whether any waits.
    pub fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The pods on a node, by uid.
    pub fn on(&self, node: &str) -> impl Iterator<Item = (&String, &Seen)> {
        let pods = self.on_nodes.get(node).into_iter().flatten();
        pods.filter_map(|uid| Some((uid, self.store.get(uid)?)))
    }

    /// How much is remembered: pods, classes, and places by which they are found.
    pub fn size(&self) -> (usize, usize, usize) {
        let on_nodes: usize = self.on_nodes.values().map(BTreeSet::len).sum();
        (
            self.store.len(),
            self.classes.len(),
            self.waiting.len() + on_nodes,
        )
    }
}

/// Where a pod stands; `None` for one that has ended, or that waits for something else than a node.
fn place(pod: &ApiPod) -> Option<Place> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
    let phase = status.and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    if let Some(node) = spec.node_name.as_ref().filter(|node| !node.is_empty()) {
        let is_ending = pod.metadata.deletion_timestamp.is_some();
        return Some(Place::On {
            node: node.clone(),
            ending: if is_ending { Ending::Yes } else { Ending::No },
        });
    }
    let counts = pod.metadata.deletion_timestamp.is_none()
        && !matches!(keeper(pod), Keeper::DaemonSet(_) | Keeper::Node)
        && !refuses_pools(spec);
    let verdict = verdict(pod, spec).filter(|_| counts)?;
    Some(Place::Waiting {
        verdict,
        preempting: status
            .and_then(|status| status.nominated_node_name.clone())
            .filter(|node| !node.is_empty()),
    })
}

/// What the scheduler has said of a pod without a node; `None` if it is the scheduler's to say something first.
fn verdict(pod: &ApiPod, spec: &PodSpec) -> Option<Verdict> {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut said = conditions.filter(|it| it.type_ == "PodScheduled");
    match said.next() {
        Some(said) => (said.reason.as_deref() == Some("Unschedulable")).then_some(Verdict::Refused),
        None => is_foreseeable(spec).then_some(Verdict::None),
    }
}

fn keeper(pod: &ApiPod) -> Keeper {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let mut daemon_sets = owners.iter().filter(|owner| owner.kind == "DaemonSet");
    if let Some(own) = daemon_sets.find(|owner| owner.api_version.starts_with("apps/")) {
        return Keeper::DaemonSet(own.name.clone());
    }
    // A static pod is owned by its Node, and other groups have kinds of the same name.
    if owners
        .iter()
        .any(|owner| owner.kind == "DaemonSet" || owner.kind == "Node")
    {
        return Keeper::Node;
    }
    match owners.iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) if owner.kind == "StatefulSet" => Keeper::StatefulSet,
        Some(_) => Keeper::Controller,
        None => Keeper::Nobody,
    }
}

/// Whether a pod says that it wants no node of any pool.
fn refuses_pools(spec: &PodSpec) -> bool {
    let terms = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref())
        .map(|required| required.node_selector_terms.as_slice())
        .unwrap_or_default();
    !terms.is_empty()
        && terms.iter().all(|term| {
            let expressions = term.match_expressions.iter().flatten();
            expressions
                .into_iter()
                .any(|it| it.key == NODE_POOL && it.operator == "DoesNotExist")
        })
}
