//! Everything that is known of the cluster, folded from watches. Pure: it is told, and never asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod as ApiPod};

use crate::api::{IBMNodeClass, NodeClaim, NodePool};
use crate::cluster::holds::Memo;
use crate::cluster::kept::{Kept, key};
use crate::cluster::pods::{Meaning, Pods};
use crate::cluster::store::{Revision, Store, Told};
use crate::model::budget::Budget;
use crate::model::pod::{InvalidPod, Pod};
use crate::model::storage::{Storage, StorageClass, Volume, VolumeClaim};

/// How often something has changed that a plan may hang on. What changes neither is of no interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Pods that wait for a node.
    pub demand: u64,
    /// What they could be placed on, and what says so.
    pub supply: u64,
    /// The how manieth pod is the last that came to wait and waits still; 0 if nobody waits.
    pub last_arrival: u64,
}

impl Marks {
    /// Whether a plan may be another than when it was like this.
    pub fn are_news_to(self, before: Self) -> bool {
        (self.demand, self.supply) != (before.demand, before.supply)
    }
}

/// The cluster, as far as decisions look at it.
#[derive(Debug, Default)]
pub struct Index {
    /// Pods.
    pub pods: Pods,
    /// Nodes without conditions, by name.
    pub nodes: Store<Node>,
    /// NodeClaims by name.
    pub claims: Store<NodeClaim>,
    /// NodePools by name.
    pub pools: Store<NodePool>,
    /// Classes by name.
    pub classes: Store<IBMNodeClass>,
    /// One pod of every DaemonSet.
    pub daemons: Store<Result<Arc<Pod>, InvalidPod>>,
    /// Claims to volumes, by namespace and name.
    pub volume_claims: Store<VolumeClaim>,
    /// Volumes by name.
    pub volumes: Store<Volume>,
    /// Storage classes by name.
    pub storage_classes: Store<StorageClass>,
    /// How many volumes of each driver a node can attach, by node.
    pub volume_limits: Store<BTreeMap<String, u32>>,
    /// The labels of namespaces.
    pub namespaces: Store<BTreeMap<String, String>>,
    /// Disruption budgets, by namespace and name.
    pub budgets: Store<Budget>,
    pub(super) memo: Memo,
    demand: u64,
    supply: u64,
}

impl Index {
    /// How often something has changed.
    pub fn marks(&self) -> Marks {
        Marks {
            demand: self.demand,
            supply: self.supply,
            last_arrival: self.pods.last_arrival(),
        }
    }

    /// A pod is as it says.
    pub fn apply_pod(&mut self, pod: &ApiPod) {
        if self.pods.apply(pod) == Meaning::Demand {
            self.demand += 1;
        }
    }

    /// A pass over the pods that wait begins; says what is known then.
    pub fn begin_pass(&mut self, now: Timestamp) -> Marks {
        self.pods.begin_pass(now);
        self.marks()
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, pod: &ApiPod) {
        self.pods.remove(pod);
    }

    /// An object is as it says.
    pub fn apply<K: Kept>(&mut self, object: &K) {
        let (key, revision) = (key(object.meta()), Revision::of(object.meta()));
        if K::store(self).apply(&key, revision, object.value()) != Told::Nothing {
            self.supply += 1;
        }
    }

    /// An object is there, and nothing more can be said of it.
    pub fn spare<K: Kept>(&mut self, object: &K) {
        K::store(self).spare(&key(object.meta()));
    }

    /// An object is gone.
    pub fn remove<K: Kept>(&mut self, object: &K) {
        let (key, revision) = (key(object.meta()), Revision::of(object.meta()));
        if K::store(self).remove(&key, revision).is_some() {
            self.supply += 1;
        }
    }

    /// A list of a kind begins.
    pub fn begin<K: Kept>(&mut self) {
        K::store(self).begin();
    }

    /// The list is over.
    pub fn finish<K: Kept>(&mut self) {
        if !K::store(self).finish().is_empty() {
            self.supply += 1;
        }
    }

    /// A write of ours was answered with this. It is no news: whoever wrote it knows.
    pub fn note<K: Kept>(&mut self, object: &K) {
        let (key, revision) = (key(object.meta()), Revision::of(object.meta()));
        K::store(self).note(&key, revision, object.value());
    }

    /// All objects of a kind, read from the API server itself. Whether that is news.
    pub fn settle<K: Kept>(&mut self, list: &kube::core::ObjectList<K>) -> bool {
        let revision = Revision::parse(list.metadata.resource_version.as_deref());
        let listed = |object: &K| (key(object.meta()), Revision::of(object.meta()), object.value());
        let all = list.items.iter().map(listed).collect();
        let changed = K::store(self).settle(revision, all);
        if changed {
            self.supply += 1;
        }
        changed
    }

    /// What is known of volumes, as plans want it.
    pub fn storage(&self) -> Storage {
        let claims = self.volume_claims.iter().filter_map(|(key, claim)| {
            let (namespace, name) = key.split_once('/')?;
            Some(((namespace.to_owned(), name.to_owned()), claim.clone()))
        });
        let cloned = |(name, object): (&String, &Volume)| (name.clone(), object.clone());
        Storage {
            claims: claims.collect(),
            volumes: self.volumes.iter().map(cloned).collect(),
            classes: self
                .storage_classes
                .iter()
                .map(|(name, class)| (name.clone(), class.clone()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
