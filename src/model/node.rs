//! A node that exists, or a claim to one that is on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;

use super::host_port::HostPort;
use super::pod::{NODE_NAME, Pod};
use super::requirements::Requirements;
use super::taint::Taint;
use crate::api::names::{
    CAPACITY_TYPE, HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED, ZONE, current_label,
};
use crate::api::{self, NodeClaim};
use crate::quantity::WrittenQuantity;
use crate::resources::{Resources, amount_of};

/// A place where pods are or can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name of the Node, or of the claim while there is none.
    pub name: String,
    /// Whether it is there.
    pub kind: NodeKind,
    /// The NodePool whose limits it counts against.
    pub pool: Option<String>,
    /// Its labels; of a claim in flight those that are certain.
    pub labels: BTreeMap<String, String>,
    /// The taints that pods must tolerate: those that go by themselves are not among them while the node begins.
    pub taints: Vec<Taint>,
    /// What it has in all, for limits.
    pub capacity: Resources,
    /// What it has for pods.
    pub allocatable: Resources,
    /// What the pods on it ask for, daemons included.
    pub used: Resources,
    /// The daemons among them, one entry for each DaemonSet that is known. Others take room like any pod.
    pub daemons: Vec<Arrived>,
    /// The ports that they take.
    pub ports: Vec<HostPort>,
    /// How many volumes of each driver it can attach; no limit where a driver is not named.
    pub volume_limits: BTreeMap<String, u32>,
    /// The volumes that its pods mount, by driver.
    pub volumes: BTreeMap<String, BTreeSet<String>>,
    /// Whether it has become ready for work.
    pub stage: Stage,
    /// Whether pods can still be planned for it.
    pub standing: Standing,
}

/// What is on a node of one DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The DaemonSet, as one pod of it, the same as among [`super::snapshot::Snapshot::daemons`].
    pub of: Arc<Pod>,
    /// What its pods here ask for. That is another amount than the template's where it has changed since they were made.
    pub requests: Resources,
}

/// Whether there is a Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// There is.
    #[default]
    Node,
    /// There is a NodeClaim only.
    ClaimInFlight,
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It is ready for work.
    #[default]
    Initialized,
    /// It is on its way.
    Beginning,
}

/// Whether a node takes pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It does.
    #[default]
    Open,
    /// It is going: it counts against limits, and its pods where pods are counted, but takes no more.
    Leaving,
}

impl Node {
    /// A node as the API shows it: the Node, its NodeClaim, or both. What pods are on it is added by whoever knows them.
    ///
    /// Until it is registered, labels and taints are the claim's; until it is initialized, amounts that the kubelet has
    /// not reported yet are the claim's, and taints that go by themselves do not count.
    pub fn from_api(node: Option<&core::Node>, claim: Option<&NodeClaim>) -> Self {
        let mut read = Self {
            kind: if node.is_some() {
                NodeKind::Node
            } else {
                NodeKind::ClaimInFlight
            },
            ..Self::default()
        };
        if claim.is_some() && !node.is_some_and(|node| says(node, INITIALIZED)) {
            read.stage = Stage::Beginning;
        }
        if let Some(claim) = claim {
            read.read_claim(claim);
        }
        if let Some(node) = node {
            read.read_node(node, claim);
        }
        if read.stage == Stage::Beginning {
            read.forget_passing_taints(claim);
        }
        read.pool = read.labels.get(NODE_POOL).cloned();
        read
    }

    fn read_claim(&mut self, claim: &NodeClaim) {
        self.name = claim.metadata.name.clone().unwrap_or_default();
        self.labels = certain_labels(claim);
        self.taints = claim
            .spec
            .taints
            .iter()
            .flatten()
            .filter_map(Taint::from_api)
            .collect();
        if let Some(status) = &claim.status {
            self.capacity = amounts(status.capacity.as_ref());
            self.allocatable = amounts(status.allocatable.as_ref());
        }
        // Before it is bought, a machine is known to have room for what it was asked for.
        if self.allocatable.is_empty() {
            let asked = claim.spec.resources.as_ref();
            self.allocatable = amounts(asked.and_then(|asked| asked.requests.as_ref()));
            self.capacity = self.capacity.larger(&self.allocatable);
        }
        if claim.metadata.deletion_timestamp.is_some() {
            self.standing = Standing::Leaving;
        }
    }

    fn read_node(&mut self, node: &core::Node, claim: Option<&NodeClaim>) {
        self.name = node.metadata.name.clone().unwrap_or_default();
        if claim.is_some() && !says(node, REGISTERED) {
            let own = node.metadata.labels.clone().unwrap_or_default();
            for (key, value) in own {
                self.labels.entry(key).or_insert(value);
            }
        } else {
            self.labels = node.metadata.labels.clone().unwrap_or_default();
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            self.taints = taints
                .into_iter()
                .flatten()
                .filter_map(Taint::from_node)
                .collect();
        }
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
            && !self.taints.contains(&Taint::unschedulable())
        {
            self.taints.push(Taint::unschedulable());
        }
        let status = node.status.as_ref();
        let reported = |list: Option<&BTreeMap<String, _>>| {
            list.and_then(|list| Resources::parse(list).ok())
                .unwrap_or_default()
        };
        let capacity = reported(status.and_then(|status| status.capacity.as_ref()));
        let allocatable = reported(status.and_then(|status| status.allocatable.as_ref()));
        // The kubelet reports zero of an extended resource until its driver has registered.
        self.capacity = filled(&capacity, &self.capacity, self.stage);
        self.allocatable = filled(&allocatable, &self.allocatable, self.stage);
        if node.metadata.deletion_timestamp.is_some() {
            self.standing = Standing::Leaving;
        }
    }

    fn forget_passing_taints(&mut self, claim: Option<&NodeClaim>) {
        let startup = claim
            .iter()
            .flat_map(|claim| claim.spec.startup_taints.iter().flatten());
        let startup: Vec<Taint> = startup.filter_map(Taint::from_api).collect();
        self.taints
            .retain(|taint| !taint.is_ephemeral() && !startup.contains(taint));
    }

    /// The labels as requirements see them: by their current names, with the node's own name.
    pub fn label_states(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = self
            .labels
            .iter()
            .map(|(key, value)| (current_label(key).to_owned(), value.clone()))
            .collect();
        for (key, value) in &self.labels {
            if current_label(key) == key {
                all.insert(key.clone(), value.clone());
            }
        }
        all.insert(NODE_NAME.to_owned(), self.name.clone());
        all.entry(HOSTNAME.to_owned())
            .or_insert_with(|| self.name.clone());
        all
    }
}

/// Whether a label of a Node says yes.
fn says(node: &core::Node, label: &str) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label))
        .is_some_and(|value| value == "true")
}

/// The labels that the node of a claim will certainly have: its own, and those that its requirements leave no choice of.
fn certain_labels(claim: &NodeClaim) -> BTreeMap<String, String> {
    let mut labels = claim.metadata.labels.clone().unwrap_or_default();
    let requirements = Requirements::from_api(&claim.spec.requirements).unwrap_or_default();
    for (key, values) in requirements.iter() {
        if let Some(values) = values.listed().filter(|values| values.len() == 1)
            && let Some(value) = values.first()
        {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let allocation = claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    if let Some(allocation) = allocation {
        labels.insert(INSTANCE_TYPE.to_owned(), allocation.profile.clone());
        labels.insert(ZONE.to_owned(), allocation.zone.clone());
        labels.insert(CAPACITY_TYPE.to_owned(), allocation.capacity_type.clone());
    }
    labels
}

/// What is written, as far as it is an amount.
pub fn amounts(written: Option<&BTreeMap<String, WrittenQuantity>>) -> Resources {
    let mut all = Resources::new();
    for (name, amount) in written.into_iter().flatten() {
        if let Ok(amount) = amount.parse() {
            all.set(name, amount_of(name, amount));
        }
    }
    all
}

fn filled(reported: &Resources, expected: &Resources, stage: Stage) -> Resources {
    let mut all = reported.clone();
    for (name, amount) in expected {
        if stage == Stage::Beginning && all.get(name) == 0 {
            all.set(name, *amount);
        }
    }
    all
}

/// The amounts of a NodePool's limits, or of anything else written that way. What is no quantity counts as zero, which
/// closes the pool instead of opening it.
pub fn limits(pool: &api::NodePool) -> Option<Resources> {
    let written = pool.spec.limits.as_ref()?;
    let mut all = Resources::new();
    for (name, amount) in written {
        let amount = amount.parse().map_or(0, |amount| amount_of(name, amount));
        all.set(name, amount);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Effect;
    use crate::resources::{CPU, PODS};

    fn claim() -> NodeClaim {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "labels": {NODE_POOL: "default"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    {"key": ZONE, "operator": "In", "values": ["z1"]},
                    {"key": "team", "operator": "In", "values": ["a", "b"]},
                ],
                "taints": [{"key": "own", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "startup", "effect": "NoSchedule"}],
                "resources": {"requests": {"cpu": "3", "pods": "5"}},
            },
        });
        serde_json::from_value(claim).unwrap()
    }

    fn api_node(labels: &Value, taints: &Value, allocatable: &Value) -> core::Node {
        let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints},
            "status": {"allocatable": allocatable, "capacity": allocatable}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_claim_without_a_machine_has_room_for_what_it_was_asked_for() {
        let node = Node::from_api(None, Some(&claim()));
        assert_eq!(
            (node.kind, node.stage, node.pool.as_deref()),
            (NodeKind::ClaimInFlight, Stage::Beginning, Some("default"))
        );
        assert_eq!((node.allocatable.get(CPU), node.allocatable.get(PODS)), (3000, 5));
        assert_eq!(node.labels.get(ZONE).map(String::as_str), Some("z1"));
        assert_eq!(node.labels.get("team"), None, "not certain");
        assert_eq!(node.taints, [Taint::new("own", "", Effect::NoSchedule)]);
    }

    #[test]
    fn taints_that_pass_do_not_count_until_the_node_is_ready_for_work() {
        let taints = json!([{"key": "startup", "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        let registered = api_node(&json!({REGISTERED: "true"}), &taints, &json!({"cpu": "4"}));
        let begins = Node::from_api(Some(&registered), Some(&claim()));
        assert_eq!(begins.taints, [Taint::new("own", "", Effect::NoSchedule)]);
        let ready = api_node(
            &json!({REGISTERED: "true", INITIALIZED: "true"}),
            &taints,
            &json!({"cpu": "4"}),
        );
        let ready = Node::from_api(Some(&ready), Some(&claim()));
        assert_eq!((ready.stage, ready.taints.len()), (Stage::Initialized, 3));
        let foreign = Node::from_api(Some(&registered), None);
        assert_eq!((foreign.stage, foreign.taints.len()), (Stage::Initialized, 3));
    }

    #[test]
    fn what_the_kubelet_has_not_reported_yet_is_what_the_claim_says() {
        let mut claim = claim();
        let amounts: BTreeMap<String, WrittenQuantity> =
            serde_json::from_value(json!({"cpu": "4", "nvidia.com/gpu": "1"})).unwrap();
        claim.status = Some(api::NodeClaimStatus {
            allocatable: Some(amounts),
            ..api::NodeClaimStatus::default()
        });
        let node = api_node(
            &json!({}),
            &json!([]),
            &json!({"cpu": "3900m", "nvidia.com/gpu": "0"}),
        );
        let read = Node::from_api(Some(&node), Some(&claim));
        assert_eq!(
            (read.allocatable.get(CPU), read.allocatable.get("nvidia.com/gpu")),
            (3900, 1)
        );
        let node = api_node(
            &json!({REGISTERED: "true", INITIALIZED: "true"}),
            &json!([]),
            &json!({"cpu": "3900m", "nvidia.com/gpu": "0"}),
        );
        let read = Node::from_api(Some(&node), Some(&claim));
        assert_eq!(read.allocatable.get("nvidia.com/gpu"), 0, "now it is believed");
    }

    #[test]
    fn a_cordoned_node_is_tainted() {
        let mut node = api_node(&json!({}), &json!([]), &json!({"cpu": "4"}));
        node.spec.as_mut().unwrap().unschedulable = Some(true);
        assert_eq!(Node::from_api(Some(&node), None).taints, [Taint::unschedulable()]);
    }

    #[test]
    fn labels_are_seen_by_their_current_names_with_the_nodes_own() {
        let labels = json!({"failure-domain.beta.kubernetes.io/zone": "z1"});
        let states = Node::from_api(Some(&api_node(&labels, &json!([]), &json!({}))), None).label_states();
        let state = |key: &str| states.get(key).map(String::as_str);
        assert_eq!(
            (state(ZONE), state(NODE_NAME), state(HOSTNAME)),
            (Some("z1"), Some("n"), Some("n"))
        );
    }
}
