//! Letting go: claims that no pod uses, volumes that nobody claims.
//!
//! The API server holds both by a finalizer while they are used. A claim that is being deleted goes when no pod with a
//! node uses it. Its volume is released then, and with the policy `Delete` deleted once it is attached nowhere.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::claims;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::{has_ended, node_name};
use crate::sim::actors::view::{Key, Place, View};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Lets go of what is not used any more.
pub(super) fn next(view: &View) -> Next {
    let mut next = Next::default();
    let claims = view.claims.values();
    next.acts
        .extend(claims.filter_map(|claim| free_claim(view, claim)));
    let volumes = view.volumes.values();
    next.acts
        .extend(volumes.filter_map(|volume| free_volume(view, volume)));
    next
}

fn free_claim(view: &View, claim: &PersistentVolumeClaim) -> Option<Act> {
    claim.metadata.deletion_timestamp.as_ref()?;
    let key = Key::of(&claim.metadata);
    let used = view
        .pods
        .values()
        .any(|pod| node_name(pod).is_some() && !has_ended(pod) && claims::of(pod).contains(&key));
    let left = finalizers_without(&claim.metadata, CLAIM_PROTECTION).filter(|_| !used)?;
    Some(Act::patch(claim, json!({"metadata": {"finalizers": left}})))
}

fn free_volume(view: &View, volume: &PersistentVolume) -> Option<Act> {
    let spec = volume.spec.as_ref()?;
    let reference = spec.claim_ref.as_ref();
    // A reference without uid waits for a claim of that name that may still come.
    let uid = reference.and_then(|reference| reference.uid.as_ref());
    let claim = reference.and_then(|reference| {
        let key = Key::new(reference.namespace.clone()?, reference.name.clone()?);
        view.claims
            .get(&key)
            .filter(|claim| claim.metadata.uid.as_ref() == uid)
    });
    if claim.is_some() {
        return None;
    }
    if volume.metadata.deletion_timestamp.is_some() {
        let left = finalizers_without(&volume.metadata, VOLUME_PROTECTION)?;
        return Some(Act::patch(volume, json!({"metadata": {"finalizers": left}})));
    }
    uid?;
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Released") {
        return Some(Act::patch_status(volume, json!({"phase": "Released"})));
    }
    let attached = view
        .attachments
        .values()
        .any(|one| one.spec.source.persistent_volume_name == volume.metadata.name);
    let goes = spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
    (goes && !attached).then(|| Act::delete(volume))
}

/// The finalizers of an object without one of them, if it has that one.
fn finalizers_without(metadata: &ObjectMeta, gone: &str) -> Option<Vec<String>> {
    let all = metadata.finalizers.as_deref().unwrap_or_default();
    let left: Vec<String> = all.iter().filter(|one| *one != gone).cloned().collect();
    (left.len() < all.len()).then_some(left)
}
