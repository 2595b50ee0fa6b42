//! The cluster at one moment, as the solver wants it: pools and places, the pods that need a place, and those that have
//! one or are promised one.

pub(super) mod unharmed;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;

use crate::api::{NodePool, names};
use crate::cluster::holds::{GivenUp, Holds, made_for};
use crate::cluster::index::Index;
use crate::cluster::places::{Types, leaving, load, places};
use crate::cluster::pods::{Ending, Place, Seen};
use crate::lifecycle::facts::Facts;
use crate::model::budget::forbid;
use crate::model::pod::{ClassId, Member};
use crate::model::storage::Storage;
use crate::model::{Node, NodeKind, Pod, PodSet, Pool, Snapshot, Standing};
use unharmed::{Unfit, unharmed};

/// The cluster at one moment.
#[derive(Debug, Default)]
pub struct Situation {
    /// What the solver sees.
    pub snapshot: Snapshot,
    /// The pools of the snapshot, as they are written, in the same order.
    pub pools: Vec<NodePool>,
    /// The DaemonSets whose pods the snapshot has, as namespace and name, in the same order.
    pub daemons: Vec<String>,
    /// The pods that claims are on their way for, by uid, with the claim's name.
    pub held: BTreeMap<String, String>,
    /// How many nodes were made in vain for pods that need a place, by uid; none for those that are not here.
    pub in_vain: BTreeMap<String, u32>,
    /// The pods that need a place and that no node is bought for, since so many were made for them in vain, by uid.
    pub given_up: BTreeMap<String, GivenUp>,
    /// What could not be looked at, and is left out.
    pub unfit: Vec<Unfit>,
}

/// What was done for a pod before.
struct Past {
    /// Why no node is bought for it any more, if so.
    given_up: Option<GivenUp>,
    /// How many nodes were made in vain.
    in_vain: u32,
}

impl Index {
    /// Whether any pod needs a place at `now` that no claim is on its way for. A claim that goes, or whose node does, keeps
    /// nobody; whether its node has come with room for all that it is to keep is not looked at, as this is asked at every
    /// change.
    pub fn has_needy(&self, now: Timestamp, but: &BTreeSet<String>) -> bool {
        let is_needy = self.neediness(now, but);
        self.pods
            .waiting()
            .any(|(uid, seen)| is_needy(uid, &|| self.counts(seen, now)))
            || self
                .on_leaving_nodes()
                .any(|(node, uid, seen)| is_needy(uid, &|| self.is_left_behind(node, seen, now)))
    }

    /// Whether any of them has come to need one since the last pass began because the scheduler found none in its time, and
    /// said nothing.
    pub fn has_newly_needy(&self, now: Timestamp, but: &BTreeSet<String>) -> bool {
        let is_needy = self.neediness(now, but);
        let is_new = |seen: &Seen| self.pods.is_newly_due(seen, now) && self.counts(seen, now);
        self.pods
            .waiting()
            .any(|(uid, seen)| is_needy(uid, &|| is_new(seen)))
    }

    /// Tells of pods, by uid, whether they want a place and nobody looks after them. One that cannot be looked at is needy: the
    /// pass that this leads to finds out and leaves it out.
    fn neediness<'a>(
        &'a self,
        now: Timestamp,
        but: &'a BTreeSet<String>,
    ) -> impl Fn(&str, &dyn Fn() -> bool) -> bool + 'a {
        let holds = self.holds();
        let leaving: BTreeSet<&str> = leaving(self).map(String::as_str).collect();
        move |uid, wants| {
            let look = || {
                let is_held = || {
                    let holder = holds.holder(uid, now);
                    holder.is_some_and(|claim| !leaving.contains(claim))
                };
                wants() && !is_held() && self.gives_up(&holds, uid, now).is_none()
            };
            !but.contains(uid) && unharmed(uid, look).unwrap_or(true)
        }
    }

    /// The cluster at `now`, given the types of each pool that can be used. Pods in `but` are left out of it.
    pub fn situation(&self, types: &Types, but: &BTreeSet<String>, now: Timestamp) -> Situation {
        let storage = self.storage();
        let mut unfit = Vec::new();
        let mut nodes = places(self, types, &storage, &mut unfit);
        let holds = self.holds();
        let held = self.kept_promises(&holds, now, &mut nodes, &storage, &mut unfit);
        let all = self.needy(&holds, &held, but, now, &mut unfit);
        let (given_up, needy): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(_, past)| past.given_up.is_some());
        let given_up = given_up
            .into_iter()
            .filter_map(|(uid, past)| Some((uid, past.given_up?)));
        let in_vain = needy.iter().map(|(uid, past)| (uid.clone(), past.in_vain));
        let in_vain = in_vain.filter(|(_, nodes)| *nodes > 0).collect();
        let needy: BTreeSet<String> = needy.into_keys().collect();
        let bound = self.bound(&nodes, &held, &needy);
        let (pools, written) = self.usable_pools(types);
        let daemons = self.daemons.iter();
        let daemons = daemons.filter_map(|(key, daemon)| Some((key.clone(), daemon.clone().ok()?)));
        let (daemon_sets, daemons) = daemons.unzip();
        let namespaces = self.namespaces.iter();
        Situation {
            snapshot: Snapshot {
                pools,
                // Whoever knows what is sold knows why some pools sell nothing.
                closed: Vec::new(),
                nodes,
                pending: self.set(needy.iter().map(|uid| (uid.as_str(), None))),
                bound: self.set(
                    bound
                        .iter()
                        .map(|(uid, node)| (uid.as_str(), Some(node.as_str()))),
                ),
                daemons,
                namespaces: namespaces
                    .map(|(name, labels)| (name.clone(), labels.clone()))
                    .collect(),
                storage,
            },
            pools: written,
            daemons: daemon_sets,
            held,
            in_vain,
            given_up: given_up.collect(),
            unfit,
        }
    }

    /// The uids of the claims, going ones too, that were made for any of these pods.
    pub fn claims_for(&self, pods: &[&str]) -> Vec<String> {
        made_for(&self.claims, pods)
    }

    /// Whether a pod that waits is ours to look after: one that others are removed for waits for them, as long as the
    /// node is there. Nor before the scheduler had its chance.
    fn counts(&self, seen: &Seen, now: Timestamp) -> bool {
        match &seen.place {
            Place::Waiting { preempting, .. } => {
                let node = preempting.as_ref();
                seen.is_due(now) && node.is_none_or(|node| self.nodes.get(node).is_none())
            }
            Place::On { .. } => false,
        }
    }

    /// The pods on nodes that go, each with the node and its uid.
    fn on_leaving_nodes(&self) -> impl Iterator<Item = (&str, &str, &Seen)> {
        leaving(self).flat_map(|name| {
            let pods = self.pods.on(name);
            pods.map(move |(uid, seen)| (name.as_str(), uid.as_str(), seen))
        })
    }

    /// Whether another pod will need a place when the node of this one is gone.
    fn is_left_behind(&self, node: &str, seen: &Seen, now: Timestamp) -> bool {
        seen.comes_back(now) && !self.is_held_fast(node, seen)
    }

    /// Whether budgets keep a pod on a node that goes for good, so that nobody will ever need another place for it. A node
    /// that has a deadline, or whose machine is taken away, loses its pods in any case.
    fn is_held_fast(&self, node: &str, seen: &Seen) -> bool {
        let Some(claim) = self.claims.get(node).filter(|_| !self.budgets.is_empty()) else {
            return false;
        };
        let is_taken = claim.annotations().contains_key(names::INTERRUPTED_SINCE) || claim.end().is_some();
        let has_deadline = claim.spec.termination_grace_period.is_some();
        let stays = matches!(&seen.place, Place::On { ending, .. } if *ending == Ending::No);
        let class = self.pods.class(seen.class).and_then(|read| read.as_ref().ok());
        let budgets = self.budgets.iter().map(|(_, budget)| budget);
        !is_taken
            && !has_deadline
            && stays
            && class.is_some_and(|pod| forbid(budgets, &seen.namespace, &pod.labels))
    }

    /// Puts the pods that claims were made for on them, as far as they have room; says which. A claim that could not be looked at
    /// keeps them all: else they would be bought for again in every pass.
    fn kept_promises(
        &self,
        holds: &Holds,
        now: Timestamp,
        nodes: &mut [Node],
        storage: &Storage,
        unfit: &mut Vec<Unfit>,
    ) -> BTreeMap<String, String> {
        let unread: BTreeSet<String> = unfit.iter().filter_map(|it| it.object.name.clone()).collect();
        let by_name: BTreeMap<String, usize> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.name.clone(), at))
            .collect();
        let mut kept = BTreeMap::new();
        for (uid, claim) in holds.at(now) {
            let (Some(seen), Some(at)) = (self.pods.get(uid), by_name.get(claim)) else {
                continue;
            };
            // The scheduler puts pods that are alike wherever it likes: whoever has found a place needs no other.
            let has_place = seen
                .node()
                .and_then(|node| by_name.get(node))
                .is_some_and(|&on| nodes[on].standing != Standing::Leaving);
            // It may take long to stop, or for ever where its kubelet is dead: the place is for who comes after it.
            if has_place || seen.is_over() {
                continue;
            }
            let keeps = || unread.contains(claim) || self.takes(&mut nodes[*at], seen, storage);
            match unharmed(uid, keeps) {
                Ok(true) => _ = kept.insert(uid.to_owned(), claim.to_owned()),
                Ok(false) => {}
                Err(panicked) => unfit.push(Unfit::pod(uid, seen, panicked)),
            }
        }
        kept
    }

    /// Puts a pod on a place, if that stays and has room.
    fn takes(&self, place: &mut Node, seen: &Seen, storage: &Storage) -> bool {
        let pod = self.pods.class(seen.class).and_then(|read| read.as_ref().ok());
        let (Some(pod), Standing::Open) = (pod, place.standing) else {
            return false;
        };
        let has_room = fits(place, pod);
        if has_room {
            load(place, seen, pod, storage);
        }
        has_room
    }

    /// The pods that need a place, by uid.
    fn needy(
        &self,
        holds: &Holds,
        held: &BTreeMap<String, String>,
        but: &BTreeSet<String>,
        now: Timestamp,
        unfit: &mut Vec<Unfit>,
    ) -> BTreeMap<String, Past> {
        let mut needy = BTreeMap::new();
        let unread: BTreeSet<String> = unfit.iter().filter_map(|it| it.object.uid.clone()).collect();
        let mut ask = |uid: &str, seen: &Seen, wants: &dyn Fn() -> bool| {
            if held.contains_key(uid) || but.contains(uid) || unread.contains(uid) {
                return;
            }
            let look = || wants().then(|| self.past(holds, uid, now));
            match unharmed(uid, look) {
                Ok(past) => needy.extend(past.map(|past| (uid.to_owned(), past))),
                Err(panicked) => unfit.push(Unfit::pod(uid, seen, panicked)),
            }
        };
        for (uid, seen) in self.pods.waiting() {
            ask(uid, seen, &|| self.counts(seen, now));
        }
        for (node, uid, seen) in self.on_leaving_nodes() {
            ask(uid, seen, &|| self.is_left_behind(node, seen, now));
        }
        needy
    }

    fn past(&self, holds: &Holds, uid: &str, now: Timestamp) -> Past {
        Past {
            given_up: self.gives_up(holds, uid, now),
            in_vain: self.made_in_vain(holds, uid),
        }
    }

    /// The pods that are counted where others ask who is near, each with its place.
    fn bound(
        &self,
        nodes: &[Node],
        held: &BTreeMap<String, String>,
        needy: &BTreeSet<String>,
    ) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for node in nodes {
            for (uid, seen) in self.pods.on(&node.name) {
                let stays = matches!(&seen.place, Place::On { ending, .. } if *ending == Ending::No);
                if stays && !needy.contains(uid) && !held.contains_key(uid) {
                    all.push((uid.clone(), node.name.clone()));
                }
            }
        }
        all.extend(held.iter().map(|(uid, claim)| (uid.clone(), claim.clone())));
        all
    }

    /// Pods as a set of classes, each where it is said to be.
    fn set<'a>(&'a self, pods: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> PodSet {
        let mut set = PodSet::default();
        let mut classes: BTreeMap<ClassId, usize> = BTreeMap::new();
        for (uid, node) in pods {
            let Some((seen, read)) = self
                .pods
                .get(uid)
                .and_then(|seen| Some((seen, self.pods.class(seen.class)?)))
            else {
                continue;
            };
            let class = *classes.entry(seen.class).or_insert_with(|| {
                set.classes.push(read.clone());
                set.classes.len() - 1
            });
            set.members.push(Member {
                class,
                uid: uid.to_owned(),
                namespace: seen.namespace.clone(),
                name: seen.name.clone(),
                created: seen.created,
                node: node.map(str::to_owned),
            });
        }
        set
    }

    /// The pools whose types are known and that make nodes for pods.
    fn usable_pools(&self, types: &Types) -> (Vec<Pool>, Vec<NodePool>) {
        let usable = types.iter().filter_map(|(name, types)| {
            let pool = self.pools.get(name)?;
            let read = Pool::from_api(pool, types.clone()).ok()?;
            Some((read, pool.clone()))
        });
        usable.unzip()
    }
}

/// Whether a place that is not ready for work yet has room for a pod.
fn fits(place: &Node, pod: &Pod) -> bool {
    let mut wanted = place.used.clone();
    wanted.add(&pod.requests);
    let shortage = wanted.shortage(&place.allocatable);
    // Until the type is chosen, how many pods the node takes is not known.
    shortage.is_none_or(|short| {
        place.kind == NodeKind::ClaimInFlight && place.allocatable.get(&short.resource) == 0
    })
}

#[cfg(test)]
mod arrivals;
#[cfg(test)]
mod daemons;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod poisoned;
#[cfg(test)]
mod tests;
