//! What is kept of each kind but pods, and where.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Namespace, Node, NodeSpec, NodeStatus, PersistentVolume, PersistentVolumeClaim, Pod as ApiPod,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::index::Index;
use super::store::Store;
use crate::api::{IBMNodeClass, NodeClaim, NodePool};
use crate::model::budget::Budget;
use crate::model::pod::{InvalidPod, Pod, Reading};
use crate::model::storage;

/// A kind of which a part is kept, by name, or by namespace and name.
pub trait Kept: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static {
    /// What is kept.
    type Value: PartialEq;

    /// What is kept of an object.
    fn value(&self) -> Self::Value;

    /// Where it is kept.
    fn store(index: &mut Index) -> &mut Store<Self::Value>;
}

/// The key of an object among those of its kind.
pub(super) fn key(metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or_default();
    match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The key of an object in a namespace.
pub fn key_in(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// An object without the record of who owns which field, which nobody here reads and which is half of it.
fn plain<K: Resource + Clone>(object: &K) -> K {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    // Every write changes it; the store keeps it beside the object.
    object.meta_mut().resource_version = None;
    object
}

impl Kept for NodeClaim {
    type Value = Self;

    fn value(&self) -> Self {
        plain(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self> {
        &mut index.claims
    }
}

impl Kept for NodePool {
    type Value = Self;

    fn value(&self) -> Self {
        plain(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self> {
        &mut index.pools
    }
}

impl Kept for IBMNodeClass {
    type Value = Self;

    fn value(&self) -> Self {
        plain(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self> {
        &mut index.classes
    }
}

/// Without conditions and addresses, so that a heartbeat changes nothing.
impl Kept for Node {
    type Value = Self;

    fn value(&self) -> Self {
        let status = self.status.as_ref();
        Self {
            metadata: ObjectMeta {
                name: self.metadata.name.clone(),
                labels: self.metadata.labels.clone(),
                deletion_timestamp: self.metadata.deletion_timestamp.clone(),
                ..ObjectMeta::default()
            },
            spec: self.spec.as_ref().map(|spec| NodeSpec {
                taints: spec.taints.clone(),
                unschedulable: spec.unschedulable,
                provider_id: spec.provider_id.clone(),
                ..NodeSpec::default()
            }),
            status: status.map(|status| NodeStatus {
                capacity: status.capacity.clone(),
                allocatable: status.allocatable.clone(),
                ..NodeStatus::default()
            }),
        }
    }

    fn store(index: &mut Index) -> &mut Store<Self> {
        &mut index.nodes
    }
}

/// One pod of it, as its template says.
impl Kept for DaemonSet {
    type Value = Result<Arc<Pod>, InvalidPod>;

    fn value(&self) -> Self::Value {
        let template = self.spec.template.clone();
        let labels = template.metadata.and_then(|metadata| metadata.labels);
        let pod = ApiPod {
            metadata: ObjectMeta {
                name: self.metadata.name.clone(),
                namespace: self.namespace(),
                labels,
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        };
        Pod::read(&pod, Reading::Daemon).map(Arc::new)
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.daemons
    }
}

impl Kept for PersistentVolumeClaim {
    type Value = storage::VolumeClaim;

    fn value(&self) -> Self::Value {
        storage::VolumeClaim::from_api(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.volume_claims
    }
}

impl Kept for PersistentVolume {
    type Value = storage::Volume;

    fn value(&self) -> Self::Value {
        storage::Volume::from_api(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.volumes
    }
}

impl Kept for StorageClass {
    type Value = storage::StorageClass;

    fn value(&self) -> Self::Value {
        storage::StorageClass::from_api(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.storage_classes
    }
}

/// How many volumes of each driver the node can attach.
impl Kept for CSINode {
    type Value = BTreeMap<String, u32>;

    fn value(&self) -> Self::Value {
        let limit = |driver: &k8s_openapi::api::storage::v1::CSINodeDriver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((driver.name.clone(), u32::try_from(count).unwrap_or_default()))
        };
        self.spec.drivers.iter().filter_map(limit).collect()
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.volume_limits
    }
}

impl Kept for PodDisruptionBudget {
    type Value = Budget;

    fn value(&self) -> Self::Value {
        Budget::from_api(self)
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.budgets
    }
}

/// Its labels.
impl Kept for Namespace {
    type Value = BTreeMap<String, String>;

    fn value(&self) -> Self::Value {
        self.labels().clone()
    }

    fn store(index: &mut Index) -> &mut Store<Self::Value> {
        &mut index.namespaces
    }
}
