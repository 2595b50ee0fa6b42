//! Everything one decision about pods rests on, as it was at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::Node;
use super::pod::{Pod, PodSet};
use super::pool::Pool;
use super::storage::Storage;

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The pools that nodes can be made from: dynamic, ready, and not being deleted.
    pub pools: Vec<Pool>,
    /// The other pools that would make nodes for pods if they could, by name, with what keeps them from it.
    pub closed: Vec<(String, String)>,
    /// The nodes that are there, and the claims to nodes that are on their way.
    pub nodes: Vec<Node>,
    /// The pods that need a place. None of them is among `bound`.
    pub pending: PodSet,
    /// The pods that have a node and neither ended nor are about to: what spreads and affinities count.
    pub bound: PodSet,
    /// One pod of every DaemonSet, read as [`super::pod::Reading::Daemon`].
    pub daemons: Vec<Arc<Pod>>,
    /// The labels of every namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// What is known of volumes.
    pub storage: Storage,
}
