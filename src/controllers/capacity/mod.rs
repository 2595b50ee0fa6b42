//! What nodes really have of what was promised for them, kept in the status of their class.
//!
//! Keeps the least that a node of a profile has reported, for what the class makes machines of now: its image and its
//! other ingredients. Nothing rises again while these stay: a value that follows whichever nodes are there would have a
//! machine bought for a pod, found too small, given back, forgotten and bought again. A Node counts only if its claim is
//! initialized and has its provider id, and only as far as that is credible ([`credible`]).
//!
//! Plans look at the nodes themselves besides (`learnt`), so what was not written yet counts as well. Looks at what is
//! known of the cluster, and asks the API server only when there is something to write.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::context::Context;
use super::node_class::Resolved;
use crate::api::{IBMNodeClass, NodeClaim, ObservedCapacity, names};
use crate::cloud;
use crate::cluster::{Index, State};
use crate::lifecycle::facts::Facts;
use crate::model::offerings::{LEARNT, credible};
use crate::model::{ClassFacts, Kind};
use crate::quantity::Quantity;
use crate::resources::{EPHEMERAL_STORAGE, MEMORY, PODS, Resources, quantity_of};

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-capacity";

/// How often nodes are looked at. A node that goes soon after it came is remembered if it stood for so long.
const EVERY: Duration = Duration::from_secs(10);

/// Why a pass is void.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not answer.
    #[error("reading or writing a class: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say what it sells.
    #[error("reading what is sold: {0}")]
    Cloud(#[from] cloud::Error),
}

/// Looks, for as long as this is polled.
pub async fn run(context: Context) {
    let mut state = context.cluster.subscribe();
    let mut seen = None;
    loop {
        // The sender is the context's own: it does not go while we wait.
        _ = state.wait_for(State::is_whole).await;
        let known = context.cluster.with(|index| index.marks().supply);
        if seen != Some(known) {
            match observe(&context).await {
                Ok(()) => seen = Some(known),
                Err(error) => tracing::warn!(%error, "what nodes have was not written"),
            }
        }
        context.clock.sleep(EVERY).await;
    }
}

/// One pass over all classes.
async fn observe(context: &Context) -> Result<(), Error> {
    let kinds = context.cloud.kinds().await?;
    let changed: Vec<String> = context.cluster.with(|index| {
        let classes = index.classes.iter();
        let changed = classes.filter(|(_, class)| is_news(class, &learnt(class, index, &kinds)));
        changed.map(|(name, _)| name.clone()).collect()
    });
    for class in changed {
        write(context, &class, &kinds).await?;
    }
    Ok(())
}

/// What is known of a class's nodes, with what these say now.
pub(super) fn learnt(class: &IBMNodeClass, index: &Index, kinds: &[Kind]) -> Vec<ObservedCapacity> {
    let known = class.status.as_ref().and_then(|it| it.observed_capacity.clone());
    let known = known.unwrap_or_default();
    let Some(image) = class.status.as_ref().and_then(|it| it.resolved_image_id.clone()) else {
        return known;
    };
    // Only of what is sold: so no more is kept than there are profiles.
    let is_sold = |seen: &ObservedCapacity| kinds.iter().any(|kind| kind.name == seen.profile);
    let mut kept: BTreeMap<String, ObservedCapacity> = known
        .into_iter()
        .filter(is_sold)
        .map(|seen| (seen.profile.clone(), seen))
        .collect();
    let made = Making {
        class,
        facts: facts(class),
        image,
        hash: class.hash(),
    };
    for (name, claim) in index.claims.iter().filter(|(_, claim)| made.counts(claim)) {
        let reported = index
            .nodes
            .get(name)
            .and_then(|node| made.reported(claim, node, kinds));
        if let Some((kind, reported)) = reported {
            let before = kept.get(&kind.name).filter(|seen| made.is_current(seen));
            let least = least(before.map(ObservedCapacity::amounts), reported);
            kept.insert(kind.name.clone(), made.observed(kind, &least));
        }
    }
    kept.into_values().collect()
}

/// What new machines of a class are made of.
struct Making<'a> {
    class: &'a IBMNodeClass,
    facts: ClassFacts,
    image: String,
    hash: String,
}

impl Making<'_> {
    /// Whether a claim's machine was made as new ones are, and its Node is ready for work.
    fn counts(&self, claim: &NodeClaim) -> bool {
        let booted = claim.status.as_ref().and_then(|it| it.image_id.as_ref());
        let stamped = claim.annotations().get(names::NODE_CLASS_HASH);
        claim.is(names::NODE_INITIALIZED)
            && !claim.is_deleting()
            && claim.spec.node_class_ref.name == self.class.name_any()
            && booted == Some(&self.image)
            && stamped == Some(&self.hash)
    }

    fn is_current(&self, seen: &ObservedCapacity) -> bool {
        seen.image_id == self.image && seen.node_class_hash.as_ref() == Some(&self.hash)
    }

    /// The kind of a claim's machine, and what its Node credibly has of what is learnt, if it is anything.
    fn reported<'a>(
        &self,
        claim: &NodeClaim,
        node: &Node,
        kinds: &'a [Kind],
    ) -> Option<(&'a Kind, Resources)> {
        let own = claim.status.as_ref()?.provider_id.as_ref()?;
        if node.spec.as_ref()?.provider_id.as_ref() != Some(own) {
            return None;
        }
        let profile = &claim.allocation()?.profile;
        let kind = kinds.iter().find(|kind| kind.name == *profile)?;
        let capacity = node.status.as_ref()?.capacity.as_ref()?;
        let mut said = Resources::new();
        for resource in LEARNT {
            let written = capacity.get(resource).map(|text| text.0.parse::<Quantity>());
            if let Some(Ok(amount)) = written {
                said.set(resource, amount.units_ceil());
            }
        }
        let mut believed = credible(kind, &self.facts, &said);
        for resource in [MEMORY, EPHEMERAL_STORAGE] {
            // Kernels of one version differ by some KiB from boot to boot; a MiB is not worth a write.
            believed.set(resource, believed.get(resource) >> 20 << 20);
        }
        let is_any = believed.iter().any(|(_, amount)| *amount > 0);
        is_any.then_some((kind, believed))
    }

    fn observed(&self, kind: &Kind, amounts: &Resources) -> ObservedCapacity {
        let written = |resource: &str| {
            let amount = amounts.get(resource);
            (amount > 0).then(|| quantity_of(resource, amount).to_string())
        };
        ObservedCapacity {
            profile: kind.name.clone(),
            image_id: self.image.clone(),
            node_class_hash: Some(self.hash.clone()),
            memory: written(MEMORY),
            ephemeral_storage: written(EPHEMERAL_STORAGE),
            pods: written(PODS),
        }
    }
}

/// The smaller amount of each resource that was seen at all.
fn least(before: Option<Resources>, now: Resources) -> Resources {
    let before = before.unwrap_or_default();
    let mut least = now;
    for (resource, amount) in before.iter().filter(|(_, amount)| **amount > 0) {
        let seen = Some(least.get(resource)).filter(|seen| *seen > 0);
        least.set(resource, seen.map_or(*amount, |seen| seen.min(*amount)));
    }
    least
}

fn facts(class: &IBMNodeClass) -> ClassFacts {
    let resolved = Resolved {
        class: class.clone(),
        image: None,
        resource_group: None,
        refusal: None,
    };
    resolved.facts(Vec::new())
}

fn is_news(class: &IBMNodeClass, learnt: &[ObservedCapacity]) -> bool {
    let before = class
        .status
        .as_ref()
        .and_then(|it| it.observed_capacity.as_deref());
    before.unwrap_or_default() != learnt
}

/// Writes what was seen of a class's nodes, if it differs from what the class says as the API server has it.
async fn write(context: &Context, name: &str, kinds: &[Kind]) -> Result<(), Error> {
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let Some(class) = classes.get_opt(name).await? else {
        return Ok(());
    };
    let observed = context.cluster.with(|index| learnt(&class, index, kinds));
    if !is_news(&class, &observed) {
        return Ok(());
    }
    let body = json!({
        "apiVersion": IBMNodeClass::api_version(&()),
        "kind": IBMNodeClass::kind(&()),
        "metadata": {"name": name, "uid": class.uid(), "resourceVersion": class.resource_version()},
        "status": {"observedCapacity": observed},
    });
    let params = PatchParams::apply(MANAGER).force();
    match classes.patch_status(name, &params, &Patch::Apply(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
