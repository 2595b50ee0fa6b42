//! Claims and the volumes they may have: what the scheduler and the volume controllers read alike.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use crate::quantity::Quantity;
use crate::sim::actors::scheduler::{labels, node_affinity};
use crate::sim::actors::view::{Key, View};

/// Annotation on a claim: the node for whose sake its volume is made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation on a claim: claim and volume point at each other.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The claims of a pod, those for its ephemeral volumes included.
pub(in crate::sim::actors) fn of(pod: &Pod) -> BTreeSet<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref());
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => volume
            .ephemeral
            .as_ref()
            .map(|_| format!("{name}-{}", volume.name)),
    };
    let names = volumes.unwrap_or_default().iter().filter_map(claim);
    names.map(|name| Key::new(namespace, name)).collect()
}

/// The volume of a claim, once both point at each other.
pub(in crate::sim::actors) fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(claim, BIND_COMPLETED)?;
    named_volume(claim)
}

/// The volume that a claim names, bound or not.
pub(in crate::sim::actors) fn named_volume(claim: &PersistentVolumeClaim) -> Option<&str> {
    let name = claim.spec.as_ref()?.volume_name.as_deref()?;
    Some(name).filter(|name| !name.is_empty())
}

/// The node for whose sake the volume of a claim is made.
pub(in crate::sim::actors) fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(claim, SELECTED_NODE)
}

fn annotation<'c>(claim: &'c PersistentVolumeClaim, name: &str) -> Option<&'c str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// The storage class of a claim.
pub(in crate::sim::actors) fn class<'v>(
    view: &'v View,
    claim: &PersistentVolumeClaim,
) -> Option<&'v StorageClass> {
    let class = view.storage_classes.get(class_name(claim))?;
    Some(class)
}

fn class_name(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref();
    spec.and_then(|spec| spec.storage_class_name.as_deref())
        .unwrap_or_default()
}

/// Whether a claim gets its volume only when a pod that uses it has a node.
pub(in crate::sim::actors) fn waits_for_consumer(view: &View, claim: &PersistentVolumeClaim) -> bool {
    let mode = class(view, claim).and_then(|class| class.volume_binding_mode.as_deref());
    mode == Some("WaitForFirstConsumer")
}

/// The class that makes volumes for a claim, if any does.
pub(in crate::sim::actors) fn maker<'v>(
    view: &'v View,
    claim: &PersistentVolumeClaim,
) -> Option<&'v StorageClass> {
    class(view, claim).filter(|class| class.provisioner != NO_PROVISIONER)
}

/// Whether a claim's class makes volumes where a node is.
pub(in crate::sim::actors) fn can_be_made_for(
    view: &View,
    claim: &PersistentVolumeClaim,
    node: &Node,
) -> bool {
    let on = labels::of(&node.metadata);
    maker(view, claim).is_some_and(|class| allows(class, on))
}

/// Whether the allowed topologies of a class cover some labels. A class that names none allows all.
pub(in crate::sim::actors) fn allows(class: &StorageClass, on: &BTreeMap<String, String>) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    terms.is_empty()
        || terms.iter().any(|term| {
            let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
            expressions
                .iter()
                .all(|one| on.get(&one.key).is_some_and(|value| one.values.contains(value)))
        })
}

/// Whether pods on a node can use a volume.
pub(in crate::sim::actors) fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|selector| node_affinity::selects(selector, node))
}

/// The volume as its driver knows it; none if it is not attached to nodes.
pub(in crate::sim::actors) fn disk(volume: &PersistentVolume) -> Option<(String, String)> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((csi.driver.clone(), csi.volume_handle.clone()))
}

/// Whether only one pod at a time may use a claim.
pub(in crate::sim::actors) fn is_exclusive(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref());
    modes
        .unwrap_or_default()
        .iter()
        .any(|mode| mode == "ReadWriteOncePod")
}

/// How a volume points at its claim.
pub(in crate::sim::actors) fn reference(claim: &PersistentVolumeClaim) -> Value {
    let meta = &claim.metadata;
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace,
           "name": meta.name, "uid": meta.uid})
}

/// The volume that points at a claim.
pub(in crate::sim::actors) fn reserved_for<'v>(
    view: &'v View,
    claim: &PersistentVolumeClaim,
) -> Option<&'v PersistentVolume> {
    let volumes = view.volumes.values().map(AsRef::as_ref);
    volumes.into_iter().find(|volume| points_at(volume, claim))
}

/// Whether a volume points at a claim: at this very one, or at whichever has its name.
pub(in crate::sim::actors) fn points_at(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.namespace == claim.metadata.namespace
            && reference.name == claim.metadata.name
            && (reference.uid.is_none() || reference.uid == claim.metadata.uid)
    })
}

/// The volumes without a claim that would do for one.
pub(in crate::sim::actors) fn available<'v>(
    view: &'v View,
    claim: &PersistentVolumeClaim,
) -> impl Iterator<Item = &'v PersistentVolume> {
    let volumes = view.volumes.values().map(AsRef::as_ref);
    volumes.filter(move |volume| suits(volume, claim))
}

fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else {
        return false;
    };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let wanted = wants.resources.as_ref().and_then(|all| all.requests.as_ref());
    let wanted = wanted.and_then(|all| all.get("storage")?.0.parse::<Quantity>().ok());
    has.claim_ref.is_none()
        && volume.metadata.deletion_timestamp.is_none()
        && has.storage_class_name.as_deref().unwrap_or_default() == class_name(claim)
        && mode(&has.volume_mode) == mode(&wants.volume_mode)
        && wants
            .access_modes
            .iter()
            .flatten()
            .all(|mode| modes.contains(mode))
        && size(volume) >= wanted
        && (wants.selector.is_none()
            || labels::selects(wants.selector.as_ref(), labels::of(&volume.metadata)))
}

fn size(volume: &PersistentVolume) -> Option<Quantity> {
    let capacity = volume.spec.as_ref()?.capacity.as_ref()?;
    capacity.get("storage")?.0.parse().ok()
}

/// The smallest of some volumes, of equal ones the first by name.
pub(in crate::sim::actors) fn smallest<'v>(
    volumes: impl Iterator<Item = &'v PersistentVolume>,
) -> Option<&'v PersistentVolume> {
    volumes.min_by_key(|volume| (size(volume), volume.metadata.name.clone()))
}
