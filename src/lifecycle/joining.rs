//! A machine that runs becomes a Node: registered when name, provider id and address agree, initialized when the Node
//! is ready for work.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use super::facts::Facts;
use super::{Blocker, Observed, Sighting, Step};
use crate::api::{self, NodeClaim, names};

/// Taints that Kubernetes takes off by itself once a Node works.
const EPHEMERAL: [&str; 3] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized",
];

/// What a Node is to have. Nothing else of it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeChange {
    /// The Node.
    pub name: String,
    /// The version it was computed from.
    pub resource_version: Option<String>,
    /// Labels to add or set.
    pub labels: BTreeMap<String, String>,
    /// All of its taints, if they change.
    pub taints: Option<Vec<Taint>>,
}

/// The next step of a claim whose machine runs.
pub(super) fn next(claim: &NodeClaim, observed: &Observed) -> Step {
    let Some(node) = &observed.node else {
        return Step::Rest;
    };
    if !claim.is(names::NODE_REGISTERED) {
        return register(claim, node, &observed.machine);
    }
    if !claim.is(names::NODE_INITIALIZED) && is_same_machine(claim, node) && is_ready_for_work(claim, node) {
        return initialize(node);
    }
    Step::Rest
}

fn register(claim: &NodeClaim, node: &Node, machine: &Sighting) -> Step {
    let machine = match machine {
        Sighting::Present(machine) => machine,
        Sighting::Unknown => return Step::Retry,
        // The sweep decides what becomes of a claim whose machine is nowhere.
        Sighting::Absent => return Step::Rest,
    };
    let told = (
        provider_id(node),
        internal_address(node),
        machine.address.as_deref(),
    );
    let (Some(written), Some(address), Some(own)) = told else {
        // The kubelet has not said yet who it is, or the cloud not where its machine is; a heartbeat comes soon.
        return Step::Rest;
    };
    if claim_provider_id(claim) != Some(written) || address != own {
        return Step::Block(Blocker::Impostor(node.name_any()));
    }
    if has_label(node, names::REGISTERED) {
        return Step::Register;
    }
    Step::ChangeNode(NodeChange {
        labels: labels(claim, names::REGISTERED),
        taints: Some(taints(claim, node)),
        ..unchanged(node)
    })
}

fn initialize(node: &Node) -> Step {
    if has_label(node, names::INITIALIZED) {
        return Step::Initialize;
    }
    Step::ChangeNode(NodeChange {
        labels: [(names::INITIALIZED.to_owned(), "true".to_owned())].into(),
        ..unchanged(node)
    })
}

fn unchanged(node: &Node) -> NodeChange {
    NodeChange {
        name: node.name_any(),
        resource_version: node.resource_version(),
        labels: BTreeMap::new(),
        taints: None,
    }
}

/// The claim's labels, and the mark that they were given.
fn labels(claim: &NodeClaim, mark: &str) -> BTreeMap<String, String> {
    let mut labels = claim.labels().clone();
    labels.insert(mark.to_owned(), "true".to_owned());
    labels
}

/// The Node's taints without the one that kept pods off until now, and with the claim's.
fn taints(claim: &NodeClaim, node: &Node) -> Vec<Taint> {
    let present = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    let mut taints: Vec<Taint> = present
        .filter(|taint| taint.key != names::UNREGISTERED_TAINT)
        .cloned()
        .collect();
    let wanted = [&claim.spec.taints, &claim.spec.startup_taints];
    for taint in wanted.into_iter().flatten().flatten() {
        let is_same = |it: &Taint| it.key == taint.key && it.effect == taint.effect;
        if !taints.iter().any(is_same) {
            taints.push(node_taint(taint));
        }
    }
    taints
}

fn node_taint(taint: &api::Taint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: None,
    }
}

fn is_ready_for_work(claim: &NodeClaim, node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let mut taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    let startup = claim.spec.startup_taints.iter().flatten();
    let startup: Vec<(&str, &str)> = startup.map(|it| (it.key.as_str(), it.effect.as_str())).collect();
    let waits_for = |taint: &Taint| {
        EPHEMERAL.contains(&taint.key.as_str())
            || startup.contains(&(taint.key.as_str(), taint.effect.as_str()))
    };
    ready && !taints.any(waits_for)
}

fn is_same_machine(claim: &NodeClaim, node: &Node) -> bool {
    claim_provider_id(claim).is_some() && claim_provider_id(claim) == provider_id(node)
}

fn claim_provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref()
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}

fn internal_address(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses.iter().find(|address| address.type_ == "InternalIP")?;
    Some(&internal.address)
}

fn has_label(node: &Node, label: &str) -> bool {
    node.labels().get(label).is_some_and(|value| value == "true")
}
