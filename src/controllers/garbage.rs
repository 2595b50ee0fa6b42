//! Compares cloud and cluster every two minutes: machines without a claim are deleted, claims without a machine too.
//!
//! An error is not an absence. A sweep is void unless every page of every list was read. The cloud is read first and
//! the claims after it, from the API server itself, so a claim made meanwhile is seen. What looks like garbage must
//! look so again half a minute later, on reads made anew. A machine is ours only by name and resource group.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, ResourceExt};

use super::context::Context;
use super::events::{Kind, Story};
use super::node_claim::look;
use crate::api::{IBMNodeClass, NodeClaim, names};
use crate::cloud::{self, ClusterId, InstanceName, Machine, MachineStatus, Ours, ProviderId};
use crate::lifecycle::Sighting;
use crate::lifecycle::facts::Facts;

/// Why a sweep is void.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API did not say all.
    #[error("reading the cluster: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say all.
    #[error("reading the cloud: {0}")]
    Cloud(#[from] cloud::Error),
}

/// Sweeps, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    // At once after a start: what the last life left behind has waited long enough.
    loop {
        if let Err(error) = sweep(&context, cluster).await {
            tracing::warn!(%error, "a sweep is void");
        }
        context.clock.sleep(context.settings.sweep_every).await;
    }
}

/// One sweep: looks, waits, looks again, and deletes what was garbage both times.
pub async fn sweep(context: &Context, cluster: ClusterId) -> Result<(), Error> {
    let first = View::read(context, cluster).await?.garbage();
    if first.is_empty() {
        return Ok(());
    }
    let first = first.confirmed(context).await?;
    context.clock.sleep(context.settings.sweep_again_after).await;
    let second = View::read(context, cluster).await?.garbage();
    let second = second.among(&first).confirmed(context).await?;
    for machine in second.machines {
        delete_machine(context, &machine).await?;
    }
    for (claim, end) in second.claims.values() {
        delete_claim(context, claim, *end).await?;
    }
    Ok(())
}

/// Cloud and cluster, each read whole, the cloud first.
struct View {
    machines: BTreeMap<String, Machine>,
    claims: Vec<NodeClaim>,
}

impl View {
    async fn read(context: &Context, cluster: ClusterId) -> Result<Self, Error> {
        let mut machines = BTreeMap::new();
        for resource_group in groups(context).await? {
            let ours = Ours {
                cluster,
                resource_group,
            };
            let found = context.cloud.list(&ours).await?;
            machines.extend(found.into_iter().map(|machine| (machine.id.clone(), machine)));
        }
        // No resourceVersion: answered from the latest state, not from a cache.
        let claims: Api<NodeClaim> = Api::all(context.client.clone());
        let claims = claims.list(&ListParams::default()).await?.items;
        Ok(Self { machines, claims })
    }

    /// What looks like garbage in this view.
    fn garbage(self) -> Garbage {
        let by_uid: BTreeMap<String, &NodeClaim> = self
            .claims
            .iter()
            .filter_map(|claim| Some((claim.uid()?, claim)))
            .collect();
        let orphans = self
            .machines
            .values()
            .filter(|machine| is_orphan(machine, &by_uid));
        let ended = self
            .claims
            .iter()
            .filter_map(|claim| Some((claim.uid()?, (claim.clone(), self.end_of(claim)?))));
        Garbage {
            machines: orphans.cloned().collect(),
            claims: ended.collect(),
        }
    }

    /// Whether the machine of a claim that had one has come to its end. Claims on their way are not judged here.
    fn end_of(&self, claim: &NodeClaim) -> Option<End> {
        if claim.is_deleting() || !claim.has_finalizer() || !claim.is_launched() {
            return None;
        }
        match self.machines.get(&instance_id(claim)?) {
            None => Some(End::Vanished),
            Some(machine) if machine.is_preempted() => Some(End::Preempted),
            Some(_) => None,
        }
    }
}

/// The resource groups of our machines: those of all classes.
async fn groups(context: &Context) -> Result<BTreeSet<String>, Error> {
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let mut groups = BTreeSet::new();
    for class in classes.list(&ListParams::default()).await?.items {
        let written = class.spec.resource_group.as_deref();
        groups.extend(context.cloud.resource_group(written).await?);
    }
    Ok(groups)
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

fn instance_id(claim: &NodeClaim) -> Option<String> {
    let provider_id = claim.status.as_ref()?.provider_id.as_ref()?;
    Some(provider_id.parse::<ProviderId>().ok()?.instance().to_owned())
}

/// What became of a claim's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is nowhere.
    Vanished,
    /// The cloud took it back.
    Preempted,
}

/// What looks like garbage.
struct Garbage {
    machines: Vec<Machine>,
    /// By uid.
    claims: BTreeMap<String, (NodeClaim, End)>,
}

impl Garbage {
    fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.claims.is_empty()
    }

    /// Only what `earlier` has too.
    fn among(mut self, earlier: &Self) -> Self {
        let known: BTreeSet<&str> = earlier
            .machines
            .iter()
            .map(|machine| machine.id.as_str())
            .collect();
        self.machines
            .retain(|machine| known.contains(machine.id.as_str()));
        self.claims
            .retain(|uid, (_, end)| earlier.claims.get(uid).is_some_and(|(_, before)| before == end));
        self
    }

    /// Without the claims whose machine is found after all, by id or by name: a list may miss one.
    async fn confirmed(mut self, context: &Context) -> Result<Self, Error> {
        let mut found = BTreeSet::new();
        for (uid, (claim, end)) in &self.claims {
            let Some((id, allocation)) = instance_id(claim).zip(claim.allocation()) else {
                found.insert(uid.clone());
                continue;
            };
            let sighting = look(context.cloud.as_ref(), Some(&id), &allocation.instance_name).await?;
            let holds = match (end, sighting) {
                (End::Vanished, Sighting::Absent) => true,
                (End::Preempted, Sighting::Present(machine)) => machine.is_preempted(),
                _ => false,
            };
            if !holds {
                found.insert(uid.clone());
            }
        }
        self.claims.retain(|uid, _| !found.contains(uid));
        Ok(self)
    }
}

async fn delete_machine(context: &Context, machine: &Machine) -> Result<(), Error> {
    tracing::info!(
        id = machine.id,
        name = machine.name,
        "deleting a machine without a claim"
    );
    match context.cloud.delete(&machine.id).await {
        // The next sweep looks again.
        Ok(()) | Err(cloud::Error::NotFound(_) | cloud::Error::Conflict(_)) => {
            context.metrics.collected("machine");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn delete_claim(context: &Context, claim: &NodeClaim, end: End) -> Result<(), Error> {
    let (reason, note) = match end {
        End::Vanished => ("MachineVanished", "the machine is not in the cloud any more"),
        End::Preempted => (
            names::REASON_SPOT_PREEMPTION,
            "the cloud took the spot machine back",
        ),
    };
    let story = Story {
        kind: Kind::Warning,
        reason,
        action: "Delete",
        note: note.to_owned(),
        transition: instance_id(claim).unwrap_or_default(),
    };
    context.events.tell(claim, story).await;
    // Only the claim that was judged: one that changed since is judged anew by the next sweep.
    let as_judged = DeleteParams::default().preconditions(Preconditions {
        uid: claim.uid(),
        resource_version: claim.resource_version(),
    });
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match claims.delete(&claim.name_any(), &as_judged).await {
        Ok(_) => {
            context.metrics.collected("claim");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
