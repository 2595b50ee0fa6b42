//! Volumes: made for claims, attached to the nodes of the pods that use them, given up when nobody does.
//!
//! What the volume controllers of kube-controller-manager and the side-cars of a CSI driver do together. `provision`
//! makes volumes and binds them, `attach` attaches and detaches, `release` lets go of what is not claimed any more.
//! All of it is worked out from objects and the time. An attachment lasts from its creation, a detachment from its
//! deletion, both of which the API server dates, so a restart loses nothing.
//!
//! Making a volume takes no time here. `node.status.volumesInUse` and `volumesAttached` are the kubelet's.

mod attach;
pub mod claims;
mod provision;
mod release;

use std::time::Duration;

use jiff::Timestamp;

use super::control_plane::{Actor, Next};
use super::view::{Kind, View};

/// The volume controllers with their defaults.
pub const ACTOR: Actor = Actor {
    name: "volume-controllers",
    reads: &[
        Kind::Node,
        Kind::StorageClass,
        Kind::Volume,
        Kind::Claim,
        Kind::Attachment,
        Kind::Pod,
    ],
    glances: &[],
    next,
};

/// Annotation on a Node or a PersistentVolume: while its value is [`NEVER`], what is detached from the node, or the volume
/// from whatever node, stays attached.
pub const DETACHES: &str = "sim.karpenter-ibm.sh/detaches";
/// The value of [`DETACHES`].
pub const NEVER: &str = "never";

/// How long attaching and detaching take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From the wish to the attached volume.
    pub attach_delay: Duration,
    /// From the wish to the detached volume.
    pub detach_delay: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            attach_delay: Duration::from_secs(5),
            detach_delay: Duration::from_secs(5),
        }
    }
}

/// What the volume controllers want now, with their defaults.
pub fn next(view: &View, now: Timestamp) -> Next {
    decide(view, now, Options::default())
}

/// What the volume controllers want now.
pub fn decide(view: &View, now: Timestamp, options: Options) -> Next {
    let mut next = provision::next(view);
    next.join(attach::next(view, now, options));
    next.join(release::next(view));
    next
}

#[cfg(test)]
mod tests;
