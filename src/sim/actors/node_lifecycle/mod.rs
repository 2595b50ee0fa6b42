//! Node lifecycle: who no longer hears of a node says so, keeps pods off it, and in the end takes them away.
//!
//! Three decisions, each of which leads to the next by what it writes: `health` turns silence into `Ready=Unknown`,
//! `tainting` turns conditions into taints, `eviction` turns `NoExecute` taints into deletions when tolerations run
//! out. Everything is worked out from objects and the time; nothing is remembered.
//!
//! A Node whose machine is gone stays: giving it back is the operator's work. On IBM Cloud the cloud controller manager
//! deletes such Nodes; [`CloudNodeGc::On`] does it too.

mod eviction;
mod health;
mod tainting;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::control_plane::{Act, Actor, Next};
use super::view::{Kind, View};

/// Node lifecycle with its defaults.
pub const ACTOR: Actor = Actor {
    name: "node-lifecycle-controller",
    reads: &[Kind::Node, Kind::Pod],
    glances: &[Kind::Lease],
    next,
};

/// How long silence is taken for health, and what happens to Nodes without a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a node may be silent. A lease is valid for 40 seconds; kube-controller-manager waited as long until 1.32
    /// made it 50.
    pub grace: Duration,
    /// How long a node may be silent that was never heard of.
    pub startup_grace: Duration,
    /// Whether Nodes without a machine are deleted.
    pub cloud_node_gc: CloudNodeGc,
}

/// Whether Nodes whose machine is gone are deleted, as a cloud controller manager does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CloudNodeGc {
    /// They stay.
    #[default]
    Off,
    /// They are deleted once they are not ready.
    On {
        /// The provider ids of machines that are known to be gone.
        gone: BTreeSet<String>,
    },
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(40),
            startup_grace: Duration::from_mins(1),
            cloud_node_gc: CloudNodeGc::Off,
        }
    }
}

/// What node lifecycle wants now, with its defaults.
pub fn next(view: &View, now: Timestamp) -> Next {
    decide(view, now, &Options::default())
}

/// What node lifecycle wants now.
pub fn decide(view: &View, now: Timestamp, options: &Options) -> Next {
    let mut next = health::next(view, now, options);
    // A node whose conditions are about to change is not tainted by the old ones: a second write to it would be refused.
    let settled = next.acts.is_empty();
    if settled {
        next.join(tainting::next(view, now));
    }
    next.join(eviction::next(view, now));
    if let CloudNodeGc::On { gone } = &options.cloud_node_gc {
        next.acts.extend(collect(view, gone));
    }
    next
}

fn collect(view: &View, gone: &BTreeSet<String>) -> Vec<Act> {
    let dead = |node: &&Node| {
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        id.is_some_and(|id| gone.contains(id))
            && node.metadata.deletion_timestamp.is_none()
            && !is_ready(node)
    };
    let nodes = view.nodes.values().map(AsRef::as_ref);
    nodes.filter(dead).map(Act::delete).collect()
}

fn condition<'n>(node: &'n Node, kind: &str) -> Option<&'n NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}

#[cfg(test)]
mod tests;
