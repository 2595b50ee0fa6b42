//! Cloud and cluster side by side, and what in them nobody answers for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::breaker::Population;
use super::{Error, classes, groups_of};
use crate::api::{CapacityType, IBMNodeClass, NodeClaim, names};
use crate::clock::later;
use crate::cloud::order::stem;
use crate::cloud::{
    ClusterId, InstanceName, Leftover, LeftoverKind, Machine, MachineStatus, Ours, ProviderId,
};
use crate::controllers::context::Context;
use crate::controllers::lost_node::{is_absent, machine_of};
use crate::controllers::node_claim::look;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::interruption::{Interruption, interruption};
use crate::lifecycle::{Limits, Sighting};

/// Clocks are wrong by hours, not by days.
const NONSENSE_AFTER: Duration = Duration::from_hours(24);
/// A kubelet says how it is every five minutes where nothing changes; one report may be lost.
const HEARD_WITHIN: Duration = Duration::from_mins(11);

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
    /// Its machine is off; why, for people.
    Stopped(String),
    /// Its machine is broken; why, for people.
    Failed(String),
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
    /// The claims that such was made for and that are not there, by uid.
    pub(super) forgotten: BTreeSet<String>,
    /// Claims that have come to their end, by uid.
    pub(super) claims: BTreeMap<String, (NodeClaim, End)>,
    /// Claims whose machine is nowhere although its Node is ready, by uid: never given up.
    pub(super) contradicted: BTreeMap<String, NodeClaim>,
    /// Nodes that are being deleted and held by us, without claim and machine, by uid.
    pub(super) nodes: BTreeMap<String, Node>,
    /// Nodes with our labels, without claim and machine, by uid: left alone.
    pub(super) strangers: BTreeMap<String, Node>,
}

/// How much garbage of each kind there is.
pub(in crate::controllers) type Counts = [(&'static str, usize); 7];

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
        let nodes = nodes.list(&ListParams::default()).await?.items;
        // No resourceVersion: answered from the latest state, not from a cache.
        let claims: Api<NodeClaim> = Api::all(context.client.clone());
        let claims = claims.list(&ListParams::default()).await?.items;
        Ok(Self {
            machines,
            leftovers,
            classes,
            claims,
            nodes,
        })
    }

    /// What looks like garbage in this view, and has an age. The API server's clock says what time it is: ours may be wrong,
    /// and then what is new would be taken for old, or what is old would be left for as long as we are behind.
    pub(super) async fn garbage(self, context: &Context) -> Result<Garbage, Error> {
        let garbage = self.looking_so();
        if garbage.machines.is_empty() && garbage.working.is_empty() && garbage.leftovers.is_empty() {
            return Ok(garbage);
        }
        let age_min = age_min(&context.settings.limits);
        Ok(garbage.of_age(age_min, context.server_time.now().await?))
    }

    /// What looks like garbage, whatever its age.
    fn looking_so(self) -> Garbage {
        let by_uid: BTreeMap<String, &NodeClaim> = self
            .claims
            .iter()
            .filter_map(|claim| Some((claim.uid()?, claim)))
            .collect();
        let orphans = self.machines.values().filter(|it| is_orphan(it, &by_uid));
        let ready = self.ready();
        let (working, machines) = orphans.cloned().partition(|machine| ready.contains(&machine.id));
        let ended = self.claims.iter();
        let ended = ended.filter_map(|claim| Some((claim.uid()?, (claim.clone(), self.end_of(claim)?))));
        let leftovers = self.leftovers.iter().filter(|it| self.is_leftover(it));
        let leftovers: Vec<Leftover> = leftovers.cloned().collect();
        let owners = leftovers.iter().map(|it| it.made_for.claim_uid());
        let forgotten = owners.filter(|uid| !by_uid.contains_key(uid)).collect();
        let keyed = |node: &Node| Some((node.uid()?, node.clone()));
        let held = self.nodes.iter().filter(|node| self.is_held(node));
        let strangers = self.nodes.iter().filter(|node| self.is_stranger(node));
        Garbage {
            machines,
            working,
            leftovers,
            forgotten,
            claims: ended.collect(),
            contradicted: BTreeMap::new(),
            nodes: held.filter_map(keyed).collect(),
            strangers: strangers.filter_map(keyed).collect(),
        }
    }

    /// Among how many garbage is found.
    pub(super) fn population(&self) -> Population {
        Population {
            machines: self.machines.len(),
            claims: self.claims.iter().filter(|claim| claim.is_launched()).count(),
        }
    }

    /// The machines of Nodes that are ready and stay.
    fn ready(&self) -> BTreeSet<String> {
        let working = self.nodes.iter().filter(|node| readiness(node).is_some());
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
                Some(match machine.status {
                    MachineStatus::Failed => End::Failed(why),
                    _ => End::Stopped(why),
                })
            }
            _ if claim.is(names::NODE_REGISTERED) && self.node_of(claim).is_none() => Some(End::NodeGone),
            _ => None,
        }
    }

    fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name_any() == claim.name_any())
    }

    /// Whether something that belonged to a machine is of use to nobody. A boot volume may have been kept on purpose by a
    /// version whose names did not say so, and a data volume been detached by somebody who looks at it: it goes when its
    /// machine does.
    fn is_leftover(&self, leftover: &Leftover) -> bool {
        match leftover.kind {
            LeftoverKind::Interface => true,
            LeftoverKind::BootVolume => !self.classes.iter().any(|class| class.spec.keeps_boot_volume()),
            LeftoverKind::DataVolume => !self.claims.iter().any(|claim| carries(claim, leftover)),
        }
    }

    /// Whether a Node that is being deleted waits for us, and there is no claim any more that would let it go.
    fn is_held(&self, node: &Node) -> bool {
        let ours = |name: &String| name == names::TERMINATION_FINALIZER;
        let waits = node.metadata.deletion_timestamp.is_some() && node.finalizers().iter().any(ours);
        let machine = machine_of(node);
        waits && !self.is_claimed(node) && machine.is_some_and(|id| !self.machines.contains_key(&id))
    }

    /// Whether a Node looks like ours and is not: nobody claims it, and it is no machine of ours.
    fn is_stranger(&self, node: &Node) -> bool {
        let looks_ours = node.labels().contains_key(names::NODE_CLASS);
        let stays = node.metadata.deletion_timestamp.is_none();
        // A claim of its name tells itself that the Node is not its own.
        let has_namesake = self
            .claims
            .iter()
            .any(|claim| claim.name_any() == node.name_any());
        let is_machine = machine_of(node).is_some_and(|id| self.machines.contains_key(&id));
        looks_ours && stays && !has_namesake && !self.is_claimed(node) && !is_machine
    }

    /// Whether a claim says that a Node is its own.
    fn is_claimed(&self, node: &Node) -> bool {
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
        self.claims.iter().any(|claim| {
            let own = claim
                .status
                .as_ref()
                .and_then(|status| status.provider_id.as_deref());
            own.is_some() && own == provider_id
        })
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
            ("working-claim", self.contradicted.len()),
            ("node", self.nodes.len()),
            ("stranger", self.strangers.len()),
        ]
    }

    /// Without the machines, and what is left of them, that may still be in the making.
    fn of_age(mut self, age_min: Duration, now: Timestamp) -> Self {
        self.machines.retain(|it| is_of_age(it.created_at, age_min, now));
        self.working.retain(|it| is_of_age(it.created_at, age_min, now));
        self.leftovers.retain(|it| is_of_age(it.created_at, age_min, now));
        self
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
        let was = |uid: &String, end: &End| {
            let contradicted = *end == End::Vanished && earlier.contradicted.contains_key(uid);
            let before = earlier.claims.get(uid).map(|(_, before)| before);
            contradicted || before == Some(end)
        };
        self.claims.retain(|uid, (_, end)| was(uid, end));
        self.nodes.retain(|uid, _| earlier.nodes.contains_key(uid));
        self.strangers
            .retain(|uid, _| earlier.strangers.contains_key(uid));
        self
    }

    /// Without the claims whose machine is found after all, by id or by name, or is well: a list may miss one, or be
    /// old. The same for Nodes. Claims whose Node contradicts it are set apart.
    pub(super) async fn confirmed(mut self, context: &Context) -> Result<Self, Error> {
        for (uid, (claim, end)) in std::mem::take(&mut self.claims) {
            if !holds(context, &claim, &end).await? {
                continue;
            }
            if end == End::Vanished && is_alive(context, &claim).await? {
                self.contradicted.insert(uid, claim);
            } else {
                self.claims.insert(uid, (claim, end));
            }
        }
        for (uid, node) in std::mem::take(&mut self.nodes) {
            let machine = machine_of(&node).unwrap_or_default();
            if is_absent(context, &machine).await? {
                self.nodes.insert(uid, node);
            }
        }
        Ok(self)
    }
}

/// Whether something was made for the machine that a claim has or is about to have.
fn carries(claim: &NodeClaim, leftover: &Leftover) -> bool {
    let allocation = claim.allocation();
    allocation.is_some_and(|it| {
        let attempt = u32::try_from(it.attempt).unwrap_or(u32::MAX);
        stem(&it.instance_name, attempt) == leftover.stem
    })
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
        (End::Stopped(_) | End::Failed(_), Sighting::Present(machine)) => machine.is_dead(),
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

/// Whether the Node of a claim is ready, and its kubelet was heard lately, by the API server's clock. A cloud that says that
/// its machine is not there is asked with the wrong key, or does not know.
async fn is_alive(context: &Context, claim: &NodeClaim) -> Result<bool, Error> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let own = instance_id(claim);
    let node = nodes.get_opt(&claim.name_any()).await?;
    let node = node.filter(|node| machine_of(node) == own);
    let Some(heard) = node
        .as_ref()
        .and_then(readiness)
        .and_then(|it| it.last_heartbeat_time.as_ref())
    else {
        return Ok(false);
    };
    Ok(later(heard.0, HEARD_WITHIN) >= context.server_time.now().await?)
}

/// What says that a Node is ready; `None` if it is not, or goes.
fn readiness(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready" && it.status == "True");
    ready
        .next()
        .filter(|_| node.metadata.deletion_timestamp.is_none())
}

/// What is younger may still be in the making: an order is carried out that late, and shows some seconds later.
fn age_min(limits: &Limits) -> Duration {
    limits.late_create + limits.visibility
}

/// What does not say when it was made is judged by its second sighting alone; so is what says that it is made tomorrow or
/// later, which is nonsense and would never be of age.
fn is_of_age(created_at: Option<Timestamp>, age_min: Duration, now: Timestamp) -> bool {
    let sensible = created_at.filter(|created_at| *created_at <= later(now, NONSENSE_AFTER));
    sensible.is_none_or(|created_at| later(created_at, age_min) <= now)
}

fn instance_id(claim: &NodeClaim) -> Option<String> {
    let provider_id = claim.status.as_ref()?.provider_id.as_ref()?;
    Some(provider_id.parse::<ProviderId>().ok()?.instance().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_young_has_no_age_and_nonsense_protects_nothing() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        for (made, of_age) in [
            ("2026-11-16T09:58:45Z", true),
            ("2026-11-16T09:58:46Z", false),
            ("2026-11-16T11:00:00Z", false),
            ("9999-12-30T22:00:00Z", true),
            ("1970-01-01T00:00:00Z", true),
        ] {
            let age_min = age_min(&Limits::USUAL);
            assert_eq!(
                is_of_age(Some(made.parse().unwrap()), age_min, now),
                of_age,
                "{made}"
            );
        }
        assert!(is_of_age(None, Duration::from_mins(1), now));
    }
}
