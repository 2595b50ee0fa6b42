//! Who is where: the nodes with the pods that count on them, and those that this pass has just placed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};

use super::demand::{self, Amounts, HostPort, PODS};
use crate::sim::actors::view::View;

/// The nodes of a cluster and the pods on them.
#[derive(Clone)]
pub(super) struct Board<'a> {
    /// The cluster.
    pub(super) view: &'a View,
    /// The nodes by name.
    pub(super) sites: BTreeMap<&'a str, Site<'a>>,
}

/// A node and the pods on it.
#[derive(Clone)]
pub(super) struct Site<'a> {
    /// The node's name.
    pub(super) name: &'a str,
    /// The node.
    pub(super) node: &'a Node,
    /// What it has for pods.
    pub(super) allocatable: Amounts,
    /// What its pods ask for, each counted as one of `pods` too.
    pub(super) requested: Amounts,
    /// What its pods are taken to use when nodes are compared.
    pub(super) used: Amounts,
    /// The ports that its pods take.
    pub(super) ports: BTreeSet<HostPort>,
    /// Its pods, without those that have ended.
    pub(super) pods: Vec<&'a Pod>,
}

impl<'a> Board<'a> {
    /// The board as the API shows it. A node that is being deleted is a node until it is gone.
    pub(super) fn new(view: &'a View) -> Self {
        let nodes = view.nodes.iter();
        let mut sites: BTreeMap<&str, Site<'_>> = nodes
            .map(|(name, node)| (name.as_str(), Site::new(name, node)))
            .collect();
        for pod in view.pods.values().filter(|pod| !has_ended(pod)) {
            if let Some(site) = node_name(pod).and_then(|name| sites.get_mut(name)) {
                site.add(pod);
            }
        }
        Self { view, sites }
    }

    /// Counts a pod on a node from now on.
    pub(super) fn place(&mut self, pod: &'a Pod, node: &str) {
        if let Some(site) = self.sites.get_mut(node) {
            site.add(pod);
        }
    }

    /// Counts a pod on a node no longer.
    pub(super) fn remove(&mut self, pod: &Pod, node: &str) {
        if let Some(site) = self.sites.get_mut(node) {
            let left: Vec<&Pod> = site
                .pods
                .iter()
                .filter(|other| !std::ptr::eq(**other, pod))
                .copied()
                .collect();
            *site = Site::new(site.name, site.node);
            for pod in left {
                site.add(pod);
            }
        }
    }

    /// The board as it would be without some pods of one node.
    pub(super) fn without(&self, node: &str, gone: &[&Pod]) -> Self {
        let mut board = self.clone();
        for pod in gone {
            board.remove(pod, node);
        }
        board
    }

    /// Every pod that counts, with its node.
    pub(super) fn placed(&self) -> impl Iterator<Item = (&'a Pod, &'a Node)> {
        self.sites
            .values()
            .flat_map(|site| site.pods.iter().map(|pod| (*pod, site.node)))
    }
}

impl<'a> Site<'a> {
    fn new(name: &'a str, node: &'a Node) -> Self {
        let status = node.status.as_ref();
        Self {
            name,
            node,
            allocatable: demand::amounts(status.and_then(|status| status.allocatable.as_ref())),
            requested: Amounts::new(),
            used: Amounts::new(),
            ports: BTreeSet::new(),
            pods: Vec::new(),
        }
    }

    fn add(&mut self, pod: &'a Pod) {
        let more = |to: &mut Amounts, amounts: Amounts| {
            for (name, amount) in amounts {
                let entry = to.entry(name).or_default();
                *entry = entry.saturating_add(amount);
            }
        };
        more(&mut self.requested, demand::requests(pod));
        more(&mut self.requested, Amounts::from([(PODS.to_owned(), 1)]));
        more(&mut self.used, demand::usage(pod));
        self.ports.append(&mut demand::host_ports(pod));
        self.pods.push(pod);
    }
}

/// The node that a pod is bound to.
pub(in crate::sim::actors) fn node_name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref()?;
    Some(name).filter(|name| !name.is_empty())
}

/// Whether a pod has ended, and so uses nothing any more.
pub(in crate::sim::actors) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The namespace of a pod.
pub(in crate::sim::actors) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// How important a pod is.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}
