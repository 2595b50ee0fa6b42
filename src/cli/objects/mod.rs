//! Objects of a cluster, from files or from a live one, and the snapshot that they are.

pub(super) mod expand;
mod origin;
pub(super) mod read;
pub(super) mod sold;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::ResourceExt;

use crate::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering};
use crate::cluster::{Index, Kept, Situation, Types};
use crate::controllers::node_pool::readiness::{self, ClassProblem, Verdict};
use crate::model::InstanceType;

/// The objects that decisions about pods rest on.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) pods: Vec<Pod>,
    pub(super) pools: Vec<NodePool>,
    pub(super) classes: Vec<IBMNodeClass>,
    pub(super) nodes: Vec<Node>,
    pub(super) claims: Vec<NodeClaim>,
    pub(super) daemon_sets: Vec<DaemonSet>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) volume_claims: Vec<PersistentVolumeClaim>,
    pub(super) volumes: Vec<PersistentVolume>,
    pub(super) storage_classes: Vec<StorageClass>,
    pub(super) csi_nodes: Vec<CSINode>,
    pub(super) budgets: Vec<PodDisruptionBudget>,
    pub(super) withheld: Vec<UnavailableOffering>,
}

/// What a decision sees of the objects, and what has no part in it.
pub(super) struct Seen {
    /// Its snapshot has the pools that would make nodes but for some reason among the closed ones.
    pub(super) situation: Situation,
    /// Pools that never make nodes for pods here, with the reason.
    pub(super) passed_over: Vec<(String, String)>,
}

/// Why no node can be made from a pool.
enum Unusable {
    /// It would make nodes for pods, and something keeps it from that.
    Closed(String),
    /// Others make its nodes, or pods have no part in how many there are.
    PassedOver(String),
}

/// What is sold for each class, by its name, or why nothing is.
type Sold = BTreeMap<String, Result<Arc<Vec<InstanceType>>, String>>;

/// The types that nodes of a class can be of, or why there are none.
pub(super) type TypesOf<'f> = dyn Fn(&IBMNodeClass) -> Result<Vec<InstanceType>, String> + 'f;

impl Objects {
    /// What a decision about pods at `now` sees of the objects: what the controller would see.
    pub(super) fn see(&self, types_of: &TypesOf<'_>, now: Timestamp) -> Seen {
        let sold = self.sold(types_of);
        let (mut types, mut closed, mut passed_over) = (Types::new(), Vec::new(), Vec::new());
        for pool in &self.pools {
            let name = pool.name_any();
            match usable(pool, &sold) {
                Ok(sold) => {
                    types.insert(name, sold);
                }
                Err(Unusable::Closed(why)) => closed.push((name, why)),
                Err(Unusable::PassedOver(why)) => passed_over.push((name, why)),
            }
        }
        let mut situation = self.index().situation(&types, &BTreeSet::new(), now);
        situation.snapshot.closed = closed;
        Seen {
            situation,
            passed_over,
        }
    }

    fn index(&self) -> Index {
        let mut index = Index::default();
        for pod in &self.pods {
            index.apply_pod(pod);
        }
        tell(&mut index, &self.pools);
        tell(&mut index, &self.classes);
        tell(&mut index, &self.nodes);
        tell(&mut index, &self.claims);
        tell(&mut index, &self.daemon_sets);
        tell(&mut index, &self.namespaces);
        tell(&mut index, &self.volume_claims);
        tell(&mut index, &self.volumes);
        tell(&mut index, &self.storage_classes);
        tell(&mut index, &self.csi_nodes);
        tell(&mut index, &self.budgets);
        index
    }

    fn sold(&self, types_of: &TypesOf<'_>) -> Sold {
        let sold = |class: &IBMNodeClass| {
            let name = class.name_any();
            if class.metadata.deletion_timestamp.is_some() {
                return (name.clone(), Err(ClassProblem::Leaving.words(&name)));
            }
            (name, types_of(class).map(Arc::new))
        };
        self.classes.iter().map(sold).collect()
    }
}

fn tell<K: Kept>(index: &mut Index, objects: &[K]) {
    for object in objects {
        index.apply(object);
    }
}

/// What can be bought for a pool, or why no node can be made from it: the controller would make none either.
fn usable(pool: &NodePool, sold: &Sold) -> Result<Arc<Vec<InstanceType>>, Unusable> {
    let reference = &pool.spec.template.spec.node_class_ref;
    if !readiness::is_ours(pool) {
        let (kind, group) = (&reference.kind, &reference.group);
        let why = format!("its class is of kind {kind} of {group}, so others look after it");
        return Err(Unusable::PassedOver(why));
    }
    if pool.spec.replicas.is_some() {
        return Err(Unusable::PassedOver("it has a fixed number of nodes".to_owned()));
    }
    let verdict = readiness::usability(pool).map_or_else(Verdict::Invalid, |()| Verdict::Ready);
    if let Some(why) = readiness::closed(pool, &verdict) {
        return Err(Unusable::Closed(why));
    }
    let missing = || Err(ClassProblem::Missing.words(&reference.name));
    let found = sold.get(&reference.name).cloned().unwrap_or_else(missing);
    found.map_err(Unusable::Closed)
}

#[cfg(test)]
mod tests;
