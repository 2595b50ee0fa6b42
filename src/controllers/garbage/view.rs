//! Cloud and cluster side by side, and what in them nobody answers for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{Error, classes, groups_of};
use crate::api::{CapacityType, IBMNodeClass, NodeClaim, names};
use crate::clock::later;
use crate::cloud::{
    ClusterId, InstanceName, Leftover, LeftoverKind, Machine, MachineStatus, Ours, ProviderId,
};
use crate::controllers::context::Context;
use crate::controllers::lists;
use crate::controllers::node_claim::look;
use crate::lifecycle::Sighting;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::interruption::{Interruption, interruption};

/// What is younger may still be in the making: an order is carried out within a minute, and shows some seconds later.
const AGE_MIN: Duration = Duration::from_secs(75);

/// Cloud and cluster, each read whole, the cloud first.
pub(super) struct View {
    /// By id.
    pub(super) machines: BTreeMap<String, Machine>,
    leftovers: Vec<Leftover>,
    pub(super) classes: Vec<IBMNodeClass>,
    claims: Vec<NodeClaim>,
    nodes: Vec<Node>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its machine is nowhere.
    Vanished,
    /// Its machine is off or broken; why, for people.
    Dead(String),
    /// Its Node is gone, and with it whoever could use the machine.
    NodeGone,
}

/// What looks like garbage.
#[derive(Default)]
pub(super) struct Garbage {
    /// Machines of nobody.
    pub(super) machines: Vec<Machine>,
    /// Machines of nobody whose Node is ready: never collected.
    pub(super) working: Vec<Machine>,
    /// What machines left behind.
    pub(super) leftovers: Vec<Leftover>,
    /// Claims that have come to their end, by uid.
    pub(super) claims: BTreeMap<String, (NodeClaim, End)>,
    /// Nodes that are being deleted and held by us, without claim and machine, by uid.
    pub(super) nodes: BTreeMap<String, Node>,
}

/// How much garbage of each kind there is.
pub(in crate::controllers) type Counts = [(&'static str, usize); 5];

impl View {
    pub(super) async fn read(context: &Context, cluster: ClusterId) -> Result<Self, Error> {
        let classes = classes(context).await?;
        let (mut machines, mut leftovers) = (BTreeMap::new(), Vec::new());
        for resource_group in groups_of(context, &classes).await? {
            let ours = Ours {
                cluster,
                resource_group,
            };
            // What is left of a machine is read before machines: one that was made meanwhile is not taken for gone.
            leftovers.extend(context.cloud.leftovers(&ours).await?);
            let found = context.cloud.list(&ours).await?;
            machines.extend(found.into_iter().map(|machine| (machine.id.clone(), machine)));
        }
        let nodes: Api<Node> = Api::all(context.client.clone());
        let nodes = lists::all(&nodes, ListParams::default()).await?.items;
        // No resourceVersion: answered from the latest state, not from a cache.
        let claims: Api<NodeClaim> = Api::all(context.client.clone());
        let claims = lists::all(&claims, ListParams::default()).await?.items;
        Ok(Self {
            machines,
            leftovers,
            classes,
            claims,
            nodes,
        })
    }

    /// What looks like garbage in this view.
    pub(super) fn garbage(self, context: &Context) -> Garbage {
        let now = context.clock.now();
        let by_uid: BTreeMap<String, &NodeClaim> = self
            .claims
            .iter()
            .filter_map(|claim| Some((claim.uid()?, claim)))
            .collect();
        let orphans = self.machines.values();
        let orphans = orphans.filter(|it| is_orphan(it, &by_uid) && is_of_age(it.created_at, now));
        let ready = self.ready();
        let (working, machines) = orphans.cloned().partition(|machine| ready.contains(&machine.id));
        let ended = self.claims.iter();
        let ended = ended.filter_map(|claim| Some((claim.uid()?, (claim.clone(), self.end_of(claim)?))));
        let leftovers = self.leftovers.iter();
        let leftovers = leftovers.filter(|it| self.is_leftover(it) && is_of_age(it.created_at, now));
        let held = self.nodes.iter().filter(|node| self.is_held(node));
        Garbage {
            machines,
            working,
            leftovers: leftovers.cloned().collect(),
            claims: ended.collect(),
            nodes: held
                .filter_map(|node| Some((node.uid()?, node.clone())))
                .collect(),
        }
    }

    /// The machines of Nodes that are ready and stay.
    fn ready(&self) -> BTreeSet<String> {
        let working = self.nodes.iter().filter(|node| {
            let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
            let mut ready = conditions
                .into_iter()
                .filter(|it| it.type_ == "Ready" && it.status == "True");
            node.metadata.deletion_timestamp.is_none() && ready.next().is_some()
        });
        working.filter_map(machine_of).collect()
    }

    /// Whether the claim of a machine that ran has come to its end. Claims on their way are not judged here, and spot
    /// machines that stop are followed elsewhere.
    fn end_of(&self, claim: &NodeClaim) -> Option<End> {
        if claim.is_deleting() || !claim.has_finalizer() || !claim.is_launched() {
            return None;
        }
        let Some(machine) = self.machines.get(&instance_id(claim)?) else {
            return Some(End::Vanished);
        };
        match interruption(machine) {
            Some(Interruption::Dead(why)) if machine.capacity_type == CapacityType::OnDemand => {
                Some(End::Dead(why))
            }
            _ if claim.is(names::NODE_REGISTERED) && self.node_of(claim).is_none() => Some(End::NodeGone),
            _ => None,
        }
    }

    fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name_any() == claim.name_any())
    }

    /// Whether something that belonged to a machine is of use to nobody. A boot volume may have been kept on purpose.
    fn is_leftover(&self, leftover: &Leftover) -> bool {
        let keeps = |class: &IBMNodeClass| {
            let volume = class.spec.root_volume().and_then(|it| it.volume_spec.as_ref());
            volume.is_some_and(|volume| volume.delete_on_termination == Some(false))
        };
        match leftover.kind {
            LeftoverKind::Interface => true,
            LeftoverKind::BootVolume => !self.classes.iter().any(keeps),
        }
    }

    /// Whether a Node that is being deleted waits for us, and there is no claim any more that would let it go.
    fn is_held(&self, node: &Node) -> bool {
        let ours = |name: &String| name == names::TERMINATION_FINALIZER;
        let waits = node.metadata.deletion_timestamp.is_some() && node.finalizers().iter().any(ours);
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        let claimed = self.claims.iter().any(|claim| {
            let own = claim
                .status
                .as_ref()
                .and_then(|status| status.provider_id.as_deref());
            own.is_some() && own == provider_id
        });
        let machine = machine_of(node);
        waits && !claimed && machine.is_some_and(|id| !self.machines.contains_key(&id))
    }
}

impl Garbage {
    pub(super) fn is_empty(&self) -> bool {
        self.counts().iter().all(|(_, count)| *count == 0)
    }

    pub(super) fn counts(&self) -> Counts {
        [
            ("machine", self.machines.len()),
            ("working-machine", self.working.len()),
            ("leftover", self.leftovers.len()),
            ("claim", self.claims.len()),
            ("node", self.nodes.len()),
        ]
    }

    /// Only what `earlier` has too.
    pub(super) fn among(mut self, earlier: &Self) -> Self {
        let machines = earlier.machines.iter().chain(&earlier.working);
        let known: BTreeSet<&str> = machines.map(|machine| machine.id.as_str()).collect();
        let left: BTreeSet<&str> = earlier.leftovers.iter().map(|it| it.id.as_str()).collect();
        self.machines
            .retain(|machine| known.contains(machine.id.as_str()));
        self.working.retain(|machine| known.contains(machine.id.as_str()));
        self.leftovers
            .retain(|leftover| left.contains(leftover.id.as_str()));
        self.claims
            .retain(|uid, (_, end)| earlier.claims.get(uid).is_some_and(|(_, before)| before == end));
        self.nodes.retain(|uid, _| earlier.nodes.contains_key(uid));
        self
    }

    /// Without the claims whose machine is found after all, by id or by name, or is well: a list may miss one, or be
    /// old. The same for Nodes.
    pub(super) async fn confirmed(mut self, context: &Context) -> Result<Self, Error> {
        let mut doubtful = BTreeSet::new();
        for (uid, (claim, end)) in &self.claims {
            if !holds(context, claim, end).await? {
                doubtful.insert(uid.clone());
            }
        }
        for (uid, node) in &self.nodes {
            let machine = machine_of(node).unwrap_or_default();
            match context.cloud.get(&machine).await {
                Err(error) if error.is_not_found() => {}
                Ok(_) => {
                    doubtful.insert(uid.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.claims.retain(|uid, _| !doubtful.contains(uid));
        self.nodes.retain(|uid, _| !doubtful.contains(uid));
        Ok(self)
    }
}

/// Whether a claim's end is confirmed by direct reads.
async fn holds(context: &Context, claim: &NodeClaim, end: &End) -> Result<bool, Error> {
    let Some((id, allocation)) = instance_id(claim).zip(claim.allocation()) else {
        return Ok(false);
    };
    if *end == End::NodeGone {
        let nodes: Api<Node> = Api::all(context.client.clone());
        return Ok(nodes.get_opt(&claim.name_any()).await?.is_none());
    }
    let sighting = look(context.cloud.as_ref(), Some(&id), &allocation.instance_name).await?;
    Ok(match (end, sighting) {
        (End::Vanished, Sighting::Absent) => true,
        // Somebody else took the name that its machine left behind.
        (End::Vanished, Sighting::Present(other)) => other.id != id,
        (End::Dead(_), Sighting::Present(machine)) => machine.is_dead(),
        _ => false,
    })
}

/// Whether no claim answers for a machine. That of a failed attempt is answered for only while the claim records it.
fn is_orphan(machine: &Machine, claims: &BTreeMap<String, &NodeClaim>) -> bool {
    let Some(name) = InstanceName::of_machine(&machine.name) else {
        return false;
    };
    let Some(claim) = claims.get(&name.claim_uid()) else {
        return machine.status != MachineStatus::Deleting;
    };
    let recorded = claim
        .allocation()
        .and_then(|allocation| allocation.instance_id.as_ref());
    let is_retired = machine.name != name.to_string();
    is_retired && recorded != Some(&machine.id) && machine.status != MachineStatus::Deleting
}

/// What does not say when it was made is judged by its second sighting alone.
fn is_of_age(created_at: Option<Timestamp>, now: Timestamp) -> bool {
    created_at.is_none_or(|created_at| later(created_at, AGE_MIN) <= now)
}

fn instance_id(claim: &NodeClaim) -> Option<String> {
    let provider_id = claim.status.as_ref()?.provider_id.as_ref()?;
    Some(provider_id.parse::<ProviderId>().ok()?.instance().to_owned())
}

/// The machine that a Node says it is.
fn machine_of(node: &Node) -> Option<String> {
    let provider_id = node.spec.as_ref()?.provider_id.as_ref()?;
    Some(provider_id.parse::<ProviderId>().ok()?.instance().to_owned())
}
