//! Objects of a cluster, from files or from a live one, and the snapshot that they are.

pub(super) mod expand;
pub(super) mod read;
pub(super) mod sold;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{self as core, Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{self as storage, CSINode};
use kube::ResourceExt;

use crate::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering};
use crate::model::pod::Reading;
use crate::model::storage::{StorageClass, Volume, VolumeClaim};
use crate::model::{InstanceType, Node, Pod, PodSet, Pool, Snapshot, Storage};

/// The objects that decisions about pods rest on.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) pods: Vec<core::Pod>,
    pub(super) pools: Vec<NodePool>,
    pub(super) classes: Vec<IBMNodeClass>,
    pub(super) nodes: Vec<core::Node>,
    pub(super) claims: Vec<NodeClaim>,
    pub(super) daemon_sets: Vec<DaemonSet>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) volume_claims: Vec<PersistentVolumeClaim>,
    pub(super) volumes: Vec<PersistentVolume>,
    pub(super) storage_classes: Vec<storage::StorageClass>,
    pub(super) csi_nodes: Vec<CSINode>,
    pub(super) withheld: Vec<UnavailableOffering>,
}

/// A snapshot, and what has no part in it.
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    /// Pools that no node can be made from, with the reason.
    pub(super) passed_over: Vec<(String, String)>,
}

/// The types that nodes of a class can be of, or why there are none.
pub(super) type TypesOf<'f> = dyn Fn(&IBMNodeClass) -> Result<Vec<InstanceType>, String> + 'f;

impl Objects {
    /// What a decision about pods sees of the objects.
    pub(super) fn see(&self, types_of: &TypesOf<'_>) -> Seen {
        let mut seen = Seen {
            snapshot: Snapshot {
                namespaces: self
                    .namespaces
                    .iter()
                    .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
                    .collect(),
                storage: self.storage(),
                daemons: self.daemons(),
                ..Snapshot::default()
            },
            passed_over: Vec::new(),
        };
        self.see_pools(types_of, &mut seen);
        let (bound, pending) = self
            .pods
            .iter()
            .filter(|pod| is_alive(pod))
            .partition(|pod| node_of(pod).is_some());
        let pending: Vec<&core::Pod> = pending;
        let pending: Vec<&core::Pod> = pending.into_iter().filter(|pod| waits_for_a_node(pod)).collect();
        seen.snapshot.pending = PodSet::of(&pending);
        self.see_nodes(&bound, &mut seen.snapshot);
        seen
    }

    fn see_pools(&self, types_of: &TypesOf<'_>, seen: &mut Seen) {
        let mut types: BTreeMap<String, Result<Arc<Vec<InstanceType>>, String>> = BTreeMap::new();
        for class in &self.classes {
            types.insert(class.name_any(), types_of(class).map(Arc::new));
        }
        for pool in &self.pools {
            let class = &pool.spec.template.spec.node_class_ref.name;
            let types = types
                .get(class)
                .cloned()
                .unwrap_or_else(|| Err(format!("there is no IBMNodeClass {class}")));
            let read = unusable(pool)
                .map_or(Ok(()), Err)
                .and(types)
                .and_then(|types| Pool::from_api(pool, types).map_err(|meaningless| meaningless.to_string()));
            match read {
                Ok(pool) => seen.snapshot.pools.push(pool),
                Err(why) => seen.passed_over.push((pool.name_any(), why)),
            }
        }
    }

    fn see_nodes(&self, bound: &[&core::Pod], snapshot: &mut Snapshot) {
        let claim_of = |node: &core::Node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            self.claims.iter().find(|claim| {
                let of_claim = claim
                    .status
                    .as_ref()
                    .and_then(|status| status.provider_id.as_deref());
                claim.name_any() == node.name_any() || (id.is_some() && of_claim == id)
            })
        };
        let mut with_node: BTreeSet<String> = BTreeSet::new();
        for node in &self.nodes {
            let claim = claim_of(node);
            with_node.extend(claim.map(ResourceExt::name_any));
            snapshot.nodes.push(Node::from_api(Some(node), claim));
        }
        let in_flight = self
            .claims
            .iter()
            .filter(|claim| !with_node.contains(&claim.name_any()));
        snapshot
            .nodes
            .extend(in_flight.map(|claim| Node::from_api(None, Some(claim))));
        for node in &mut snapshot.nodes {
            self.see_volume_limits(node);
            let on = |pod: &&&core::Pod| node_of(pod) == Some(node.name.as_str());
            let here: Vec<&core::Pod> = bound.iter().filter(on).copied().collect();
            for pod in here {
                load(node, pod, &snapshot.storage);
            }
        }
        let counted = bound
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        snapshot.bound = PodSet::of(&counted.copied().collect::<Vec<_>>());
    }

    fn see_volume_limits(&self, node: &mut Node) {
        let csi = self.csi_nodes.iter().find(|csi| csi.name_any() == node.name);
        for driver in csi.into_iter().flat_map(|csi| &csi.spec.drivers) {
            let limit = driver.allocatable.as_ref().and_then(|has| has.count);
            if let Some(limit) = limit.and_then(|limit| u32::try_from(limit).ok()) {
                node.volume_limits.insert(driver.name.clone(), limit);
            }
        }
    }

    fn storage(&self) -> Storage {
        Storage {
            claims: self
                .volume_claims
                .iter()
                .map(|claim| {
                    let key = (claim.namespace().unwrap_or_default(), claim.name_any());
                    (key, VolumeClaim::from_api(claim))
                })
                .collect(),
            volumes: self
                .volumes
                .iter()
                .map(|volume| (volume.name_any(), Volume::from_api(volume)))
                .collect(),
            classes: self
                .storage_classes
                .iter()
                .map(|class| (class.name_any(), StorageClass::from_api(class)))
                .collect(),
        }
    }

    fn daemons(&self) -> Vec<Pod> {
        let pods = self.daemon_sets.iter().filter_map(|set| {
            let template = &set.spec.template;
            let mut pod = expand::pod(template, set.namespace().unwrap_or_default(), set.name_any());
            if let Some(spec) = &mut pod.spec {
                expand::requests_from_limits(spec);
            }
            Pod::read(&pod, Reading::Daemon).ok()
        });
        pods.collect()
    }
}

/// Why no node can be made from a pool, whatever its class.
fn unusable(pool: &NodePool) -> Option<String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    pool.spec
        .replicas
        .is_some()
        .then(|| "it has a fixed number of nodes".to_owned())
}

/// Puts a pod on a node: its requests, ports and volumes.
fn load(node: &mut Node, pod: &core::Pod, storage: &Storage) {
    let Ok(read) = Pod::read(pod, Reading::Plain) else {
        return;
    };
    node.used.add(&read.requests);
    if is_owned_by(pod, "DaemonSet") {
        node.daemons.add(&read.requests);
    }
    node.ports.extend(read.ports);
    for volume in &read.volumes {
        let needs = storage.needs(&read.namespace, volume).ok();
        if let Some(driver) = needs.and_then(|needs| needs.driver) {
            let name = format!("{}/{}", read.namespace, volume.claim);
            node.volumes.entry(driver).or_default().insert(name);
        }
    }
}

/// The node that a pod is bound to.
pub(super) fn node_of(pod: &core::Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref();
    node.filter(|node| !node.is_empty())
}

/// Whether a pod runs or may yet run.
pub(super) fn is_alive(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod without a node is one that a node could be bought for: what daemons and nodes own comes by itself, and
/// what is held back or going waits for something else.
pub(super) fn waits_for_a_node(pod: &core::Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let nominated = pod
        .status
        .as_ref()
        .and_then(|status| status.nominated_node_name.as_deref())
        .is_some_and(|node| !node.is_empty());
    pod.metadata.deletion_timestamp.is_none()
        && gates.is_none_or(Vec::is_empty)
        && !nominated
        && !is_owned_by(pod, "DaemonSet")
        && !is_owned_by(pod, "Node")
}

/// Whether something of this kind owns a pod.
pub(super) fn is_owned_by(pod: &core::Pod, kind: &str) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == kind)
}
