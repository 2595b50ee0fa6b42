//! Compares machines with what their classes ask for now, every few minutes, and writes the condition `Drifted`.
//!
//! One list of machines and one of interfaces serve all claims. An error voids the pass and changes no condition; what a
//! list does not show is not judged. What was found stays while the class cannot be used and nothing else is found: then
//! nobody knows what it asks for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::context::Context;
use crate::api::{Condition, IBMNodeClass, NodeClaim, names};
use crate::cloud::{self, ClusterId, Machine, Ours};
use crate::lifecycle::drift::{Drift, drift, pool_drift};
use crate::lifecycle::facts::Facts;

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-drift";

/// Why a pass is void.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not say all.
    #[error("reading or writing the cluster: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say all.
    #[error("reading the cloud: {0}")]
    Cloud(#[from] cloud::Error),
}

/// Compares, for as long as this is polled.
pub async fn run(context: Context, cluster: ClusterId) {
    loop {
        if let Err(error) = compare(&context, cluster).await {
            tracing::warn!(%error, "machines were not compared with their classes");
        }
        context.clock.sleep(context.settings.resolve_every).await;
    }
}

/// One pass over all claims whose machines run.
pub async fn compare(context: &Context, cluster: ClusterId) -> Result<(), Error> {
    let classes = classes(context).await?;
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let mut running = claims.list(&ListParams::default()).await?.items;
    running.retain(|claim| claim.is_launched() && !claim.is_deleting());
    if running.is_empty() {
        return Ok(());
    }
    let inventory = Inventory::read(context, cluster, &classes).await?;
    for claim in running {
        let class = classes.get(&claim.spec.node_class_ref.name);
        if let Some((class, machine)) = class.zip(inventory.machine(&claim)) {
            let found = drift_from_pool(context, &claim)
                .or_else(|| drift(&claim, class, machine, inventory.groups(machine)));
            if found.is_none() && class.resolution().is_none() {
                continue;
            }
            write(context, &claim, found).await?;
        }
    }
    Ok(())
}

/// How a claim differs from its pool, as far as that is known.
fn drift_from_pool(context: &Context, claim: &NodeClaim) -> Option<Drift> {
    let pool = claim.labels().get(names::NODE_POOL)?;
    context
        .cluster
        .with(|index| pool_drift(claim, index.pools.get(pool)?))
}

async fn classes(context: &Context) -> Result<BTreeMap<String, IBMNodeClass>, Error> {
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let all = classes.list(&ListParams::default()).await?.items;
    Ok(all.into_iter().map(|class| (class.name_any(), class)).collect())
}

/// Machines by id, and the security groups of interfaces by theirs.
struct Inventory {
    machines: BTreeMap<String, Machine>,
    groups: BTreeMap<String, BTreeSet<String>>,
}

impl Inventory {
    async fn read(
        context: &Context,
        cluster: ClusterId,
        classes: &BTreeMap<String, IBMNodeClass>,
    ) -> Result<Self, Error> {
        let resource_groups: BTreeSet<String> = classes
            .values()
            .filter_map(|class| class.recorded_group().map(str::to_owned))
            .collect();
        let mut inventory = Self {
            machines: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        for resource_group in resource_groups {
            let interfaces = context.cloud.interfaces(&resource_group).await?;
            let interfaces = interfaces.into_iter().map(|it| (it.id, it.security_groups));
            inventory.groups.extend(interfaces);
            let ours = Ours {
                cluster,
                resource_group,
            };
            let machines = context.cloud.list(&ours).await?;
            let machines = machines.into_iter().map(|machine| (machine.id.clone(), machine));
            inventory.machines.extend(machines);
        }
        Ok(inventory)
    }

    fn machine(&self, claim: &NodeClaim) -> Option<&Machine> {
        self.machines.get(claim.allocation()?.instance_id.as_ref()?)
    }

    fn groups(&self, machine: &Machine) -> Option<&BTreeSet<String>> {
        self.groups.get(machine.interface.as_ref()?)
    }
}

/// Writes the condition if it differs from what is there; takes it off a claim that is as it should be again.
async fn write(context: &Context, claim: &NodeClaim, found: Option<Drift>) -> Result<(), Error> {
    let before = condition_of(claim);
    let after = found.map(|drift| condition(claim, before, drift, context.clock.now()));
    if after.as_ref() == before {
        return Ok(());
    }
    let conditions: Vec<Condition> = after.into_iter().collect();
    let body = json!({
        "apiVersion": NodeClaim::api_version(&()),
        "kind": NodeClaim::kind(&()),
        "metadata": {
            "name": claim.name_any(), "uid": claim.uid(), "resourceVersion": claim.resource_version(),
        },
        "status": {"conditions": conditions},
    });
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let params = PatchParams::apply(MANAGER).force();
    match claims
        .patch_status(&claim.name_any(), &params, &Patch::Apply(body))
        .await
    {
        Ok(_) => Ok(()),
        // It changed since it was judged, or is gone: the next pass judges anew.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn condition_of(claim: &NodeClaim) -> Option<&Condition> {
    let conditions = claim.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|it| it.type_ == names::DRIFTED)
}

fn condition(claim: &NodeClaim, before: Option<&Condition>, drift: Drift, now: Timestamp) -> Condition {
    let since = before
        .filter(|it| it.status == "True")
        .map(|it| it.last_transition_time);
    Condition {
        type_: names::DRIFTED.to_owned(),
        status: "True".to_owned(),
        reason: Some(drift.reason.to_owned()),
        message: Some(drift.message),
        last_transition_time: since.unwrap_or_else(|| now.into()),
        observed_generation: claim.metadata.generation,
    }
}
