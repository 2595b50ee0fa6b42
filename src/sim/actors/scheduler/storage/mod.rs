//! Where a pod's volumes can be: bound ones where their node affinity says, waiting ones where they can be made.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::json;

use super::board::{Board, Site};
use super::fit::Refusal;
use crate::sim::actors::control_plane::Act;
use crate::sim::actors::view::{Key, View};
use crate::sim::actors::volumes::claims;

/// A volume as its driver knows it: the driver, and the volume or, before it exists, its claim.
type Disk = (String, String);

/// The volumes of one pod.
pub(super) struct Storage<'a> {
    view: &'a View,
    bound: Vec<&'a PersistentVolume>,
    waiting: Vec<&'a PersistentVolumeClaim>,
    disks: BTreeSet<Disk>,
    /// Whether a claim that only one pod at a time may use is in use.
    taken: bool,
}

impl<'a> Storage<'a> {
    /// Looks at the claims of a pod; the error is a reason that no node can help with.
    pub(super) fn new(board: &Board<'a>, pod: &Pod) -> Result<Self, String> {
        let view = board.view;
        let mut storage = Self {
            view,
            bound: Vec::new(),
            waiting: Vec::new(),
            disks: disks(view, pod),
            taken: false,
        };
        for key in claims::of(pod) {
            let claim = view.claims.get(&key);
            let claim = claim.ok_or_else(|| format!("persistentvolumeclaim \"{}\" not found", key.name))?;
            storage.add(&key, claim)?;
            storage.taken |= claims::is_exclusive(claim)
                && board.placed().any(|(other, _)| claims::of(other).contains(&key));
        }
        Ok(storage)
    }

    fn add(&mut self, key: &Key, claim: &'a PersistentVolumeClaim) -> Result<(), String> {
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim \"{}\" is being deleted", key.name));
        }
        if let Some(name) = claims::volume_name(claim) {
            let volume = self.view.volumes.get(name).ok_or_else(|| {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".to_owned()
            })?;
            self.bound.push(volume);
        } else if claims::waits_for_consumer(self.view, claim) {
            self.waiting.push(claim);
        } else {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        Ok(())
    }

    /// Whether every volume can be where a node is, and the node can attach them all.
    pub(super) fn check(&self, board: &Board<'_>, site: &Site<'_>) -> Result<(), Refusal> {
        if self.taken {
            return Err(Refusal::passing(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ));
        }
        if !self.is_attachable(board.view, site) {
            return Err(Refusal::passing("node(s) exceed max volume count"));
        }
        if !self.bound.iter().all(|volume| claims::reaches(volume, site.node)) {
            return Err(Refusal::lasting(
                "node(s) didn't match PersistentVolume's node affinity",
            ));
        }
        if self.sources(site.node).is_none() {
            return Err(Refusal::lasting(
                "node(s) didn't find available persistent volumes to bind",
            ));
        }
        Ok(())
    }

    /// Volumes that other pods of the node use, or that are still attached to it, count once.
    fn is_attachable(&self, view: &View, site: &Site<'_>) -> bool {
        let Some(csi_node) = view.csi_nodes.get(site.name).filter(|_| !self.disks.is_empty()) else {
            return true;
        };
        let mut there: BTreeSet<Disk> = site.pods.iter().flat_map(|pod| disks(view, pod)).collect();
        let attached = view
            .attachments
            .values()
            .filter(|one| one.spec.node_name == site.name);
        there.extend(attached.filter_map(|one| {
            let name = one.spec.source.persistent_volume_name.as_ref()?;
            claims::disk(view.volumes.get(name)?)
        }));
        csi_node.spec.drivers.iter().all(|driver| {
            let limit = driver.allocatable.as_ref().and_then(|limits| limits.count);
            let ours = |disk: &&Disk| disk.0 == driver.name;
            let new = self.disks.difference(&there).filter(ours).count();
            let all = new + there.iter().filter(ours).count();
            new == 0 || limit.is_none_or(|limit| all <= usize::try_from(limit).unwrap_or(0))
        })
    }

    /// From where each waiting claim would get its volume if the pod went to a node, in their order.
    fn sources(&self, node: &Node) -> Option<Vec<Source<'a>>> {
        let mut taken = BTreeSet::new();
        let waiting = self.waiting.iter();
        waiting
            .map(|claim| {
                let source = source(self.view, claim, node, &taken)?;
                if let Source::Existing(volume) = source {
                    taken.insert(volume.metadata.name.clone());
                }
                Some(source)
            })
            .collect()
    }

    /// Whether any claim has no volume yet, so that the pod must wait for it before it is bound.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The writes that get the waiting claims their volumes on a node.
    pub(super) fn prepare(&self, node: &Node) -> Vec<Act> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let sources = self.sources(node).unwrap_or_default();
        let paired = self.waiting.iter().zip(sources);
        let write = |(claim, source): (&&PersistentVolumeClaim, Source<'_>)| match source {
            Source::Coming => None,
            Source::Existing(volume) => Some(Act::patch(
                volume,
                json!({"spec": {"claimRef": claims::reference(claim)}}),
            )),
            Source::New => {
                let selected = json!({claims::SELECTED_NODE: name});
                Some(Act::patch(*claim, json!({"metadata": {"annotations": selected}})))
            }
        };
        paired.filter_map(write).collect()
    }
}

/// From where a claim gets its volume.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// It is already on its way.
    Coming,
    /// A volume that is there.
    Existing(&'a PersistentVolume),
    /// One that is to be made.
    New,
}

fn source<'a>(
    view: &'a View,
    claim: &PersistentVolumeClaim,
    node: &Node,
    taken: &BTreeSet<Option<String>>,
) -> Option<Source<'a>> {
    if let Some(volume) = claims::reserved_for(view, claim) {
        return claims::reaches(volume, node).then_some(Source::Coming);
    }
    if let Some(selected) = claims::selected_node(claim) {
        // A claim whose volume is being made for a node fits nowhere else until that was given up.
        return (node.metadata.name.as_deref() == Some(selected)).then_some(Source::Coming);
    }
    let free = claims::available(view, claim)
        .filter(|volume| !taken.contains(&volume.metadata.name) && claims::reaches(volume, node));
    if let Some(volume) = claims::smallest(free) {
        return Some(Source::Existing(volume));
    }
    claims::can_be_made_for(view, claim, node).then_some(Source::New)
}

/// The volumes of a pod that must be attached to its node.
fn disks(view: &View, pod: &Pod) -> BTreeSet<Disk> {
    let disk = |key: Key| {
        let claim = view.claims.get(&key)?;
        match claims::volume_name(claim) {
            Some(name) => claims::disk(view.volumes.get(name)?),
            None => Some((claims::class(view, claim)?.provisioner.clone(), key.to_string())),
        }
    };
    claims::of(pod).into_iter().filter_map(disk).collect()
}

#[cfg(test)]
mod tests;
