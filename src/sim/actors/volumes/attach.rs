//! Attachments: one for each volume on each node where a pod uses it, gone some time after the last such pod.
//!
//! A volume that only one node may write is attached to a second one only when the first has let go. A volume is
//! detached when no pod on the node uses it and the kubelet no longer reports it in use; of a node that is not ready or
//! gone for six minutes, or marked out of service, nobody waits for that report. A controller that did not see a node go
//! does not know what it last reported, and does not wait either.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;

use super::{DETACHES, NEVER, Options, claims};
use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Next};
use crate::sim::actors::scheduler::taints::{self, OUT_OF_SERVICE};
use crate::sim::actors::scheduler::{has_ended, node_name};
use crate::sim::actors::view::{Kind, View};

/// How long the attach-detach controller waits for an unhealthy node to unmount.
const MAX_WAIT_FOR_UNMOUNT: Duration = Duration::from_mins(6);

/// A node and a volume.
type Pair<'v> = (&'v str, &'v str);

/// Whether an attachment serves anybody.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// Pods on its node use its volume.
    ByPods,
    /// Nobody does.
    None,
}

/// Attaches what is missing and detaches what is not needed.
pub(super) fn next(view: &View, now: Timestamp, options: Options) -> Next {
    let mut next = Next::default();
    let wanted = wanted(view);
    for attachment in view.attachments.values() {
        let need = match pair(attachment) {
            Some(pair) if wanted.contains(&pair) => Need::ByPods,
            _ => Need::None,
        };
        next.join(carry_on(view, attachment, need, now, options));
    }
    let existing: BTreeSet<Pair<'_>> = view.attachments.values().filter_map(|one| pair(one)).collect();
    let mut busy: BTreeSet<&str> = existing.iter().map(|(_, volume)| *volume).collect();
    for (node, name) in wanted.difference(&existing) {
        let Some(volume) = view.volumes.get(*name) else {
            continue;
        };
        if is_shared(volume) || busy.insert(name) {
            next.acts.extend(attach(node, name, volume));
        }
    }
    next
}

fn pair(attachment: &VolumeAttachment) -> Option<Pair<'_>> {
    let volume = attachment.spec.source.persistent_volume_name.as_deref()?;
    Some((attachment.spec.node_name.as_str(), volume))
}

/// Which volumes pods need where. Nothing is attached to a node that is not there.
fn wanted(view: &View) -> BTreeSet<Pair<'_>> {
    let mut wanted = BTreeSet::new();
    for pod in view
        .pods
        .values()
        .filter(|pod| !has_ended(pod) && !has_stopped(pod))
    {
        let Some(node) = node_name(pod).filter(|name| view.nodes.contains_key(*name)) else {
            continue;
        };
        let volumes = claims::of(pod).into_iter().filter_map(|key| {
            let name = claims::volume_name(view.claims.get(&key)?)?;
            claims::disk(view.volumes.get(name)?).map(|_| name)
        });
        wanted.extend(volumes.map(|volume| (node, volume)));
    }
    wanted
}

/// Whether a pod that is being deleted has stopped all its containers.
fn has_stopped(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref());
    let stopped = |one: &k8s_openapi::api::core::v1::ContainerStatus| {
        one.state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    let statuses = statuses.unwrap_or_default();
    pod.metadata.deletion_timestamp.is_some() && !statuses.is_empty() && statuses.iter().all(stopped)
}

/// Whether several nodes may have a volume at once.
fn is_shared(volume: &PersistentVolume) -> bool {
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref());
    let many = |mode: &String| ["ReadWriteMany", "ReadOnlyMany"].contains(&mode.as_str());
    modes.unwrap_or_default().iter().any(many)
}

fn attach(node: &str, name: &str, volume: &PersistentVolume) -> Option<Act> {
    let (driver, handle) = claims::disk(volume)?;
    let object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": attachment_name(&driver, &handle, node), "finalizers": [finalizer(&driver)]},
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": name}},
    });
    Some(Act::create(Kind::Attachment, "", object))
}

/// The name that Kubernetes gives it: the same volume on the same node has the same.
fn attachment_name(driver: &str, handle: &str, node: &str) -> String {
    let text = format!("{handle}{driver}{node}");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hex = digest
        .as_ref()
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("csi-{hex}")
}

/// What holds an attachment until its driver has detached the volume.
fn finalizer(driver: &str) -> String {
    format!("external-attacher/{}", driver.replace('.', "-"))
}

/// The next step for an attachment that exists.
fn carry_on(
    view: &View,
    attachment: &VolumeAttachment,
    need: Need,
    now: Timestamp,
    options: Options,
) -> Next {
    let mut next = Next::default();
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    let meta = &attachment.metadata;
    let (due, act) = match (&meta.deletion_timestamp, &meta.creation_timestamp) {
        (Some(_), _) if is_stuck(view, attachment) => return next,
        (Some(since), _) => (
            later(since.0, options.detach_delay),
            Act::patch(attachment, json!({"metadata": {"finalizers": null}})),
        ),
        (None, _) if need == Need::None => match free_at(view, attachment) {
            Some(at) => (at, Act::delete(attachment)),
            None => return next,
        },
        (None, Some(since)) if !attached => (
            later(since.0, options.attach_delay),
            Act::patch_status(attachment, json!({"attached": true})),
        ),
        _ => return next,
    };
    if now < due {
        next.again(due);
    } else {
        next.act(act);
    }
    next
}

/// From when on a volume that no pod needs may be detached; `None` as long as its kubelet reports it in use.
fn free_at(view: &View, attachment: &VolumeAttachment) -> Option<Timestamp> {
    let Some(node) = view.nodes.get(&attachment.spec.node_name) else {
        return Some(free_without(view, attachment));
    };
    let out = taints::of(node).iter().any(|taint| taint.key == OUT_OF_SERVICE);
    if out || !is_in_use(view, node, attachment) {
        return Some(Timestamp::MIN);
    }
    // The real controller counts from when the pod was gone, which no object records; a node is down before its pods
    // are gone from it, so this is no later.
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let since = ready
        .last_transition_time
        .as_ref()
        .filter(|_| ready.status != "True")?;
    Some(later(since.0, MAX_WAIT_FOR_UNMOUNT))
}

/// From when on a volume may be detached from a node that is not there. What it last reported in use may still be
/// written to.
fn free_without(view: &View, attachment: &VolumeAttachment) -> Timestamp {
    let departure = view.departed.get(&attachment.spec.node_name);
    let used = departure.filter(|departure| is_among(view, &departure.volumes_in_use, attachment));
    used.map_or(Timestamp::MIN, |departure| {
        later(departure.since, MAX_WAIT_FOR_UNMOUNT)
    })
}

fn is_in_use(view: &View, node: &Node, attachment: &VolumeAttachment) -> bool {
    let used = node
        .status
        .as_ref()
        .and_then(|status| status.volumes_in_use.as_deref());
    is_among(view, used.unwrap_or_default(), attachment)
}

/// Kubelets report volumes as `kubernetes.io/csi/<driver>^<handle>`.
fn is_among(view: &View, reported: &[String], attachment: &VolumeAttachment) -> bool {
    let volume = pair(attachment).and_then(|(_, name)| view.volumes.get(name));
    let disk = volume.and_then(|volume| claims::disk(volume));
    disk.is_some_and(|(driver, handle)| reported.contains(&format!("kubernetes.io/csi/{driver}^{handle}")))
}

/// Whether somebody wants the volume to stay attached, against all wishes.
fn is_stuck(view: &View, attachment: &VolumeAttachment) -> bool {
    let never = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        annotations
            .and_then(|all| all.get(DETACHES))
            .is_some_and(|value| value == NEVER)
    };
    let volume = pair(attachment).and_then(|(_, name)| view.volumes.get(name));
    let node = view.nodes.get(&attachment.spec.node_name);
    volume.is_some_and(|volume| never(&volume.metadata)) || node.is_some_and(|node| never(&node.metadata))
}
