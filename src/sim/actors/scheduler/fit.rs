//! Whether a pod may go to a node, and if not, why: the filters, in the order of the real scheduler's.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::board::{Board, Site};
use super::demand::{self, Amounts, HostPort, PODS};
use super::neighbors::Neighbors;
use super::spread::Spread;
use super::storage::Storage;
use super::{node_affinity, taints};

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reasons, in the words of the real scheduler.
    pub(super) reasons: Vec<Cow<'static, str>>,
    /// Whether the absence of other pods could change it.
    pub(super) remedy: Remedy,
}

/// Whether a refusal could end by pods going away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Fewer pods on the node may help.
    Preemption,
    /// Nothing about pods helps.
    None,
}

impl Refusal {
    /// One that no preemption ends.
    pub(super) fn lasting(reason: &'static str) -> Self {
        Self {
            reasons: vec![reason.into()],
            remedy: Remedy::None,
        }
    }

    /// One that ends when the right pods go.
    pub(super) fn passing(reason: &'static str) -> Self {
        Self {
            reasons: vec![reason.into()],
            remedy: Remedy::Preemption,
        }
    }
}

/// A pod with everything that is worked out once for all nodes.
pub(super) struct Fit<'b> {
    /// The pod.
    pub(super) pod: &'b Pod,
    /// Its volumes.
    pub(super) storage: Storage<'b>,
    requests: Amounts,
    ports: BTreeSet<HostPort>,
    spread: Spread,
    neighbors: Neighbors,
}

impl<'b> Fit<'b> {
    /// Looks at a pod; the error is a reason that no node can help with.
    pub(super) fn new(board: &Board<'b>, pod: &'b Pod) -> Result<Self, String> {
        Ok(Self {
            pod,
            storage: Storage::new(board, pod)?,
            requests: demand::requests(pod),
            ports: demand::host_ports(pod),
            spread: Spread::new(board, pod),
            neighbors: Neighbors::new(board, pod),
        })
    }

    /// Whether a node takes the pod. The first filter that refuses speaks.
    pub(super) fn check(&self, board: &Board<'_>, site: &Site<'_>) -> Result<(), Refusal> {
        if taints::is_cordoned_for(self.pod, site.node) {
            return Err(Refusal::lasting("node(s) were unschedulable"));
        }
        if !taints::allow(self.pod, site.node) {
            return Err(Refusal::lasting("node(s) had untolerated taint(s)"));
        }
        if !node_affinity::accepts(self.pod, site.node) {
            return Err(Refusal::lasting(
                "node(s) didn't match Pod's node affinity/selector",
            ));
        }
        if demand::collide(&self.ports, &site.ports) {
            return Err(Refusal::passing(
                "node(s) didn't have free ports for the requested pod ports",
            ));
        }
        self.has_room(site)?;
        self.storage.check(board, site)?;
        self.spread.check(self.pod, site.node)?;
        self.neighbors.check(site.node)
    }

    fn has_room(&self, site: &Site<'_>) -> Result<(), Refusal> {
        let amount = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(0);
        let mut reasons: Vec<Cow<'static, str>> = Vec::new();
        let mut remedy = Remedy::Preemption;
        if amount(&site.requested, PODS) >= amount(&site.allocatable, PODS) {
            reasons.push("Too many pods".into());
        }
        for (name, wanted) in self.requests.iter().filter(|(_, wanted)| **wanted > 0) {
            let has = amount(&site.allocatable, name);
            if wanted.saturating_add(amount(&site.requested, name)) > has {
                reasons.push(format!("Insufficient {name}").into());
            }
            if *wanted > has {
                remedy = Remedy::None;
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Refusal { reasons, remedy })
    }
}
