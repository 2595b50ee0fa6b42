//! Pods, reduced to what decisions look at: where each is, what it asks for by its class, and whether somebody makes it
//! anew when its node goes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod as ApiPod, PodSpec};
use kube::ResourceExt;

use super::store::{Revision, Store, Told};
use crate::api::names::NODE_POOL;
use crate::drain::{Protection, protection};
use crate::model::pod::{ClassId, Interned, InvalidPod, Pod};

/// The scheduler takes milliseconds for a pod that it has a node for. One that is without a node after so long has none, or
/// stands in a queue: at fifty writes a second, its usual limit, the last of a thousand pods is refused after twenty seconds.
const PLACED_WITHIN: SignedDuration = SignedDuration::from_secs(1);

/// Others may let pods wait on purpose.
const USUAL_SCHEDULER: &str = "default-scheduler";

/// A pod that matters: it waits for a node, or is on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
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
    /// Nothing yet.
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
        let is_old = |created: Timestamp| now.duration_since(created) >= PLACED_WITHIN;
        match &self.place {
            Place::Waiting { verdict, .. } => *verdict == Verdict::Refused || self.created.is_none_or(is_old),
            Place::On { .. } => false,
        }
    }

    /// Whether it waits as it did before, but for the scheduler's word, which its coming has foretold.
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
            place,
            keeper: keeper(pod),
            // At the beginning of time no protection is over yet.
            protection: protection(pod, Timestamp::MIN),
            // The last that is read: it is counted there.
            class: self.classes.enter(pod),
        };
        let class = seen.class;
        match self.store.apply(uid, revision, seen) {
            Told::Nothing => {
                self.classes.leave(class);
                Meaning::Nothing
            }
            Told::New(before) => {
                let known = self.store.get(uid).zip(before.as_ref());
                let is_no_news = known.is_some_and(|(now, before)| now.waits_as(before));
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
        match self.store.get(uid).map(|seen| &seen.place) {
            Some(Place::Waiting { .. }) => {
                self.waiting.insert(uid.to_owned());
                Meaning::Demand
            }
            Some(Place::On { node, .. }) => {
                self.on_nodes
                    .entry(node.clone())
                    .or_default()
                    .insert(uid.to_owned());
                Meaning::Load
            }
            None => Meaning::Nothing,
        }
    }

    fn forget(&mut self, uid: &str, seen: &Seen) {
        self.classes.leave(seen.class);
        self.waiting.remove(uid);
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

    /// How many wait.
    pub fn count_waiting(&self) -> usize {
        self.waiting.len()
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

/// What the scheduler has said of a pod without a node; `None` if nobody is to place it now, or somebody of whom it is not
/// known how fast he is.
fn verdict(pod: &ApiPod, spec: &PodSpec) -> Option<Verdict> {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut said = conditions.filter(|it| it.type_ == "PodScheduled");
    if let Some(said) = said.next() {
        return (said.reason.as_deref() == Some("Unschedulable")).then_some(Verdict::Refused);
    }
    let is_usual = spec
        .scheduler_name
        .as_deref()
        .is_none_or(|name| name == USUAL_SCHEDULER);
    let is_held = spec
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty());
    (is_usual && !is_held).then_some(Verdict::None)
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
