//! Objects of a cluster, from files or from a live one, and the snapshot that they are.

pub(super) mod expand;
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
use crate::model::{InstanceType, Pool};

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
    pub(super) situation: Situation,
    /// Pools that no node can be made from, with the reason.
    pub(super) passed_over: Vec<(String, String)>,
}

/// The types that nodes of a class can be of, or why there are none.
pub(super) type TypesOf<'f> = dyn Fn(&IBMNodeClass) -> Result<Vec<InstanceType>, String> + 'f;

impl Objects {
    /// What a decision about pods at `now` sees of the objects: what the controller would see.
    pub(super) fn see(&self, types_of: &TypesOf<'_>, now: Timestamp) -> Seen {
        let (types, passed_over) = self.sold(types_of);
        Seen {
            situation: self.index().situation(&types, &BTreeSet::new(), now),
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

    /// The types of each pool that nodes can be made from, and why there are none of the others.
    fn sold(&self, types_of: &TypesOf<'_>) -> (Types, Vec<(String, String)>) {
        let classes: BTreeMap<String, Result<Arc<Vec<InstanceType>>, String>> = self
            .classes
            .iter()
            .map(|class| (class.name_any(), types_of(class).map(Arc::new)))
            .collect();
        let (mut types, mut passed_over) = (Types::new(), Vec::new());
        for pool in &self.pools {
            match usable(pool, &classes) {
                Ok(sold) => {
                    types.insert(pool.name_any(), sold);
                }
                Err(why) => passed_over.push((pool.name_any(), why)),
            }
        }
        (types, passed_over)
    }
}

fn tell<K: Kept>(index: &mut Index, objects: &[K]) {
    for object in objects {
        index.apply(object);
    }
}

/// What can be bought for a pool, or why no node can be made from it.
fn usable(
    pool: &NodePool,
    classes: &BTreeMap<String, Result<Arc<Vec<InstanceType>>, String>>,
) -> Result<Arc<Vec<InstanceType>>, String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted".to_owned());
    }
    if pool.spec.replicas.is_some() {
        return Err("it has a fixed number of nodes".to_owned());
    }
    let class = &pool.spec.template.spec.node_class_ref.name;
    let types = classes
        .get(class)
        .cloned()
        .unwrap_or_else(|| Err(format!("there is no IBMNodeClass {class}")))?;
    match Pool::from_api(pool, Arc::clone(&types)) {
        Ok(_) => Ok(types),
        Err(meaningless) => Err(meaningless.to_string()),
    }
}
