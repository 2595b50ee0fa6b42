//! What can be seen on the stage at one moment: claims, machines, nodes, pods, holds and events, as they are.
//!
//! The cluster is read from its API server and the cloud from its own truth, so that what a client was told wrongly
//! does not count.

use std::collections::BTreeMap;

use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::expectation::{ClaimState, MachineState, NodeState, PodState, TRAITS};
use crate::api::names::{
    CAPACITY_TYPE, INSTANCE_TYPE, LAUNCHED, NODE_INITIALIZED, NODE_REGISTERED, READY, ZONE,
};
use crate::api::{Allocation, NodeClaim, UnavailableOffering};
use crate::cloud::InstanceName;
use crate::sim::ibm::{Class, Cloud, InstanceTruth};

/// Longer than an instance name of ours: what comes after it marks a failed attempt.
const INSTANCE_NAME_LENGTH: usize = 45;

/// A moment.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// When.
    pub at: Timestamp,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Claim>,
    /// Machines by id.
    pub machines: BTreeMap<String, InstanceTruth>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeState>,
    /// Pods by namespace and name.
    pub pods: BTreeMap<(String, String), PodSeen>,
    /// Offerings that are withheld: why, and until when.
    pub withheld: BTreeMap<String, Hold>,
    /// Events about anything, by the name of the event.
    pub events: BTreeMap<String, EventSeen>,
    /// What is left in the cloud without a machine.
    pub orphans: Vec<String>,
}

/// A claim as it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its uid, which names its machine.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How far it is.
    pub state: ClaimState,
    /// Profile, zone and capacity type that it asks for, where it asks for one.
    pub wishes: [Option<String>; 3],
    /// What it holds.
    pub holds: Option<Allocation>,
}

/// A pod as it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How far it is.
    pub state: PodState,
    /// Where it is bound to.
    pub node: Option<String>,
}

/// An offering that is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Until when.
    pub until: Timestamp,
}

/// An event as it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSeen {
    /// In one word.
    pub reason: String,
    /// The kind of what it is about.
    pub kind: String,
    /// The name of what it is about.
    pub name: String,
    /// In words.
    pub message: String,
    /// Who says so.
    pub reporter: String,
}

impl Scene {
    /// Looks at everything.
    pub async fn look(client: &Client, cloud: &Cloud, now: Timestamp) -> kube::Result<Self> {
        let all = ListParams::default();
        let claims: Api<NodeClaim> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client.clone());
        let pods: Api<Pod> = Api::all(client.clone());
        let holds: Api<UnavailableOffering> = Api::all(client.clone());
        let events: Api<Event> = Api::all(client.clone());
        let (claims, nodes, pods, holds, events) = try_join!(
            claims.list(&all),
            nodes.list(&all),
            pods.list(&all),
            holds.list(&all),
            events.list(&all),
        )?;
        Ok(Self {
            at: now,
            claims: claims
                .iter()
                .map(|claim| (claim.name_any(), seen(claim)))
                .collect(),
            nodes: nodes
                .iter()
                .map(|node| (node.name_any(), node_state(node)))
                .collect(),
            pods: pods.iter().map(pod).collect(),
            withheld: holds.items.into_iter().map(hold).collect(),
            events: events.iter().map(event).collect(),
            machines: cloud
                .instances()
                .into_iter()
                .map(|machine| (machine.id.clone(), machine))
                .collect(),
            orphans: cloud.orphans(),
        })
    }

    /// The claim that a machine was bought for, if it is still there.
    pub fn claim_of(&self, machine: &InstanceTruth) -> Option<&str> {
        let name = machine.name.get(..INSTANCE_NAME_LENGTH)?;
        let uid = name.parse::<InstanceName>().ok()?.claim_uid();
        let (name, _) = self.claims.iter().find(|(_, claim)| claim.uid == uid)?;
        Some(name)
    }

    /// What all machines that run cost an hour, in dollars.
    pub fn usd_per_hour(&self) -> f64 {
        let running = self
            .machines
            .values()
            .filter(|machine| machine_state(machine) == MachineState::Running);
        // Of nothing, `sum` makes minus zero.
        running
            .filter_map(|machine| machine.usd_per_hour)
            .fold(0.0, |sum, price| sum + price.usd())
    }
}

/// What machines can be told apart by, in the words that stories use.
pub fn traits(machine: &InstanceTruth) -> BTreeMap<String, String> {
    let family = machine.profile.split('-').next().unwrap_or_default();
    let values = [
        capacity_type(machine.class),
        family,
        machine.profile,
        machine.zone.as_str(),
    ];
    let named = TRAITS.iter().zip(values);
    named
        .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
        .collect()
}

/// What a class is called in Kubernetes.
pub(super) fn capacity_type(class: Class) -> &'static str {
    match class {
        Class::Spot => "spot",
        Class::Standard => "on-demand",
    }
}

/// How far a machine is.
pub fn machine_state(machine: &InstanceTruth) -> MachineState {
    match machine.status {
        "pending" | "starting" | "restarting" => MachineState::Starting,
        "running" => MachineState::Running,
        "stopped" => MachineState::Stopped,
        "failed" => MachineState::Failed,
        "deleting" => MachineState::Deleting,
        _ => MachineState::Present,
    }
}

fn seen(claim: &NodeClaim) -> Claim {
    let status = claim.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let is = |name: &str| {
        conditions
            .iter()
            .any(|condition| condition.type_ == name && condition.status == "True")
    };
    let state = if claim.metadata.deletion_timestamp.is_some() {
        ClaimState::Leaving
    } else if is(NODE_INITIALIZED) {
        ClaimState::Initialized
    } else if is(NODE_REGISTERED) {
        ClaimState::Registered
    } else if is(LAUNCHED) {
        ClaimState::Launched
    } else {
        ClaimState::Present
    };
    Claim {
        uid: claim.uid().unwrap_or_default(),
        labels: claim.labels().clone(),
        state,
        wishes: [INSTANCE_TYPE, ZONE, CAPACITY_TYPE].map(|label| wish(claim, label)),
        holds: status.allocation,
    }
}

fn wish(claim: &NodeClaim, label: &str) -> Option<String> {
    let requirement = claim
        .spec
        .requirements
        .iter()
        .find(|requirement| requirement.key == label)?;
    match requirement.values.as_deref()? {
        [] => None,
        [one] => Some(one.clone()),
        [one, other] => Some(format!("{one} or {other}")),
        [one, others @ ..] => Some(format!("{one} or {} others", others.len())),
    }
}

fn node_state(node: &Node) -> NodeState {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == READY);
    if ready.any(|condition| condition.status == "True") {
        NodeState::Ready
    } else {
        NodeState::NotReady
    }
}

fn pod(pod: &Pod) -> ((String, String), PodSeen) {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == READY);
    let runs = ready.any(|condition| condition.status == "True") && pod.metadata.deletion_timestamp.is_none();
    let state = match (&node, runs) {
        (None, _) => PodState::Pending,
        (Some(_), true) => PodState::Running,
        (Some(_), false) => PodState::Present,
    };
    let key = (pod.namespace().unwrap_or_default(), pod.name_any());
    let labels = pod.labels().clone();
    (key, PodSeen { labels, state, node })
}

fn hold(offering: UnavailableOffering) -> (String, Hold) {
    let hold = Hold {
        reason: offering.spec.reason,
        until: offering.spec.until.0,
    };
    (offering.spec.key, hold)
}

fn event(event: &Event) -> (String, EventSeen) {
    let about = &event.involved_object;
    let seen = EventSeen {
        reason: event.reason.clone().unwrap_or_default(),
        kind: about.kind.clone().unwrap_or_default(),
        name: about.name.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        reporter: event.reporting_component.clone().unwrap_or_default(),
    };
    let key = format!("{}/{}", event.namespace().unwrap_or_default(), event.name_any());
    (key, seen)
}
