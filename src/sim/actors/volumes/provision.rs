//! A volume for every claim: one that is there, or one that is made where it is needed.
//!
//! One write per claim at a time: the volume points at the claim, the claim at the volume, then both say that they are
//! bound. Each step is recognized by what the one before it wrote.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::claims;
use crate::hash::fnv1a;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::labels;
use crate::sim::actors::view::{Kind, View};

const ZONE: &str = "topology.kubernetes.io/zone";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The next step for every claim that has not all it needs.
pub(super) fn next(view: &View) -> Next {
    let mut next = Next::default();
    let living = view
        .claims
        .values()
        .filter(|claim| claim.metadata.deletion_timestamp.is_none());
    for claim in living {
        let acts = match claims::volume_name(claim) {
            Some(name) => confirm(view, claim, name),
            None => seek(view, claim).into_iter().collect(),
        };
        next.acts.extend(acts);
    }
    next
}

/// A claim without a volume: bound to the one that points at it, else one is found or made.
fn seek(view: &View, claim: &PersistentVolumeClaim) -> Option<Act> {
    if let Some(volume) = claims::reserved_for(view, claim) {
        return point(claim, volume);
    }
    if let Some(volume) = claims::named_volume(claim) {
        // The claim asks for this volume and no other.
        let volume = view.volumes.get(volume)?;
        let free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
        return free.then(|| reserve(volume, claim));
    }
    if claims::waits_for_consumer(view, claim) {
        return make_for_consumer(view, claim);
    }
    if let Some(volume) = claims::smallest(claims::available(view, claim)) {
        return Some(reserve(volume, claim));
    }
    let class = claims::maker(view, claim)?;
    let zone = any_zone(view, claim, class)?;
    Some(make(claim, class, Some(&zone)))
}

/// Makes a volume where the scheduler put the first pod that uses it. The choice is taken back if that node is gone, so
/// that the pod can go elsewhere.
fn make_for_consumer(view: &View, claim: &PersistentVolumeClaim) -> Option<Act> {
    let selected = claims::selected_node(claim)?;
    let Some(node) = view.nodes.get(selected) else {
        let none = json!({"metadata": {"annotations": {claims::SELECTED_NODE: null}}});
        return Some(Act::patch(claim, none));
    };
    let class = claims::maker(view, claim)?;
    let zone = labels::of(&node.metadata).get(ZONE);
    Some(make(claim, class, zone.map(String::as_str)))
}

/// A zone of the cluster that the class allows; which one depends on the claim alone, so claims spread over all.
fn any_zone(view: &View, claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<String> {
    let zones = view.nodes.values().filter_map(|node| {
        let on = labels::of(&node.metadata);
        on.get(ZONE).filter(|_| claims::allows(class, on))
    });
    let zones: std::collections::BTreeSet<&String> = zones.collect();
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let count = u64::try_from(zones.len()).ok().filter(|count| *count > 0)?;
    let at = usize::try_from(fnv1a(uid.as_bytes()) % count).ok()?;
    zones.into_iter().nth(at).cloned()
}

fn make(claim: &PersistentVolumeClaim, class: &StorageClass, zone: Option<&str>) -> Act {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("pvc-{uid}"), "annotations": {PROVISIONED_BY: class.provisioner}},
        "spec": {
            "accessModes": spec.and_then(|spec| spec.access_modes.as_ref()),
            "capacity": {"storage": requests.and_then(|all| all.get("storage"))},
            "claimRef": claims::reference(claim),
            "csi": {"driver": class.provisioner, "volumeHandle": format!("vol-{uid}")},
            "mountOptions": class.mount_options,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.metadata.name,
            "volumeMode": spec.and_then(|spec| spec.volume_mode.as_ref()),
        },
    });
    if let Some(zone) = zone {
        volume["spec"]["nodeAffinity"] = only_in(zone);
    }
    Act::create(Kind::Volume, "", volume)
}

fn only_in(zone: &str) -> Value {
    let there = json!({"key": ZONE, "operator": "In", "values": [zone]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}})
}

fn reserve(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Act {
    let annotations = json!({BOUND_BY_CONTROLLER: "yes"});
    let reference = claims::reference(claim);
    Act::patch(
        volume,
        json!({"metadata": {"annotations": annotations}, "spec": {"claimRef": reference}}),
    )
}

fn point(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Act> {
    let name = volume.metadata.name.as_deref()?;
    if claims::named_volume(claim).is_some_and(|named| named != name) {
        return None;
    }
    let annotations = json!({claims::BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"});
    Some(Act::patch(
        claim,
        json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}),
    ))
}

/// Claim and volume say that they are bound.
fn confirm(view: &View, claim: &PersistentVolumeClaim, name: &str) -> Vec<Act> {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(volume) = view.volumes.get(name) else {
        let lost = (phase != Some("Lost")).then(|| Act::patch_status(claim, json!({"phase": "Lost"})));
        return lost.into_iter().collect();
    };
    let mut acts = Vec::new();
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        acts.push(Act::patch_status(volume.as_ref(), json!({"phase": "Bound"})));
    }
    if phase != Some("Bound") {
        let spec = volume.spec.as_ref();
        let modes = spec.and_then(|spec| spec.access_modes.as_ref());
        let capacity = spec.and_then(|spec| spec.capacity.as_ref());
        let status = json!({"phase": "Bound", "accessModes": modes, "capacity": capacity});
        acts.push(Act::patch_status(claim, status));
    }
    acts
}
