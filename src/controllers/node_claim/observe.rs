//! Sees what the next step of a claim hangs on, and no more: a claim at rest costs the cloud nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::Error;
use crate::api::{NodeClaim, names};
use crate::cloud::{self, Cloud, ClusterId, InstanceName, Machine};
use crate::controllers::context::Context;
use crate::controllers::node_class::{self, ReadError, Resolved};
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{Observed, Sighting, needs_choice};

/// A claim as the API server last told it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) claim: NodeClaim,
    /// When it was told, on the monotonic clock: what is bought rests on it.
    pub(super) told_at: Instant,
    /// The machine that was just bought for it, which reads may not show yet.
    pub(super) bought: Option<Machine>,
}

impl Known {
    /// Reads a claim from the API server itself.
    pub(super) async fn read(context: &Context, name: &str) -> Result<Option<Self>, Error> {
        let claims: Api<NodeClaim> = Api::all(context.client.clone());
        // Before the answer, so that the time never flatters.
        let told_at = context.clock.instant();
        let claim = claims.get_opt(name).await.map_err(|source| Error::Kube {
            doing: "reading the claim",
            source: Box::new(source),
        })?;
        Ok(claim.map(|claim| Self {
            claim,
            told_at,
            bought: None,
        }))
    }
}

/// What was seen, and the class that an order is made from.
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) class: Option<Resolved>,
}

/// Looks at the world for one claim.
pub(super) async fn observe(
    context: &Context,
    cluster: ClusterId,
    known: &Known,
    followed_for: Duration,
) -> Result<Seen, Error> {
    let claim = &known.claim;
    let mut seen = Seen {
        observed: Observed {
            followed_for,
            ..Observed::default()
        },
        class: None,
    };
    if !claim.has_finalizer() {
        return Ok(seen);
    }
    seen.observed.node = node(context, claim).await?;
    if needs_machine(claim, seen.observed.node.as_ref()) {
        seen.observed.machine = match &known.bought {
            Some(machine) => Sighting::Present(Box::new(machine.clone())),
            None => machine(context, cluster, claim).await?,
        };
    }
    if needs_class(claim, &seen.observed.machine) {
        let class = node_class::read(context, claim).await.map_err(unread)?;
        seen.observed.resource_group = class.as_ref().and_then(|class| class.resource_group.clone());
        seen.class = class;
    }
    if needs_choice(claim, &seen.observed.machine) {
        let choice = node_class::choose(context, cluster, claim, seen.class.as_ref()).await;
        seen.observed.choice = Some(choice.map_err(unread)?);
    }
    Ok(seen)
}

/// A launched claim is looked after by the sweep; its own machine is read once more when its Node appears.
fn needs_machine(claim: &NodeClaim, node: Option<&Node>) -> bool {
    if claim.is_deleting() || !claim.is_launched() {
        return claim.is_deleting() || claim.allocation().is_some();
    }
    node.is_some() && !claim.is(names::NODE_REGISTERED)
}

/// A machine that is found by name is ours only in our resource group, which the class says; a recorded one is ours.
fn needs_class(claim: &NodeClaim, machine: &Sighting) -> bool {
    let recorded = claim
        .allocation()
        .and_then(|allocation| allocation.instance_id.as_deref());
    let is_found = matches!(machine, Sighting::Present(machine) if recorded != Some(machine.id.as_str()));
    needs_choice(claim, machine) || (is_found && (claim.is_deleting() || !claim.is_launched()))
}

async fn node(context: &Context, claim: &NodeClaim) -> Result<Option<Node>, Error> {
    if !claim.is_launched() || (claim.is(names::NODE_INITIALIZED) && !claim.is_deleting()) {
        return Ok(None);
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    nodes
        .get_opt(&claim.name_any())
        .await
        .map_err(|source| Error::Kube {
            doing: "reading the node",
            source: Box::new(source),
        })
}

/// The claim's machine: by id where one is recorded, and by its exact name wherever the id leads nowhere.
async fn machine(context: &Context, cluster: ClusterId, claim: &NodeClaim) -> Result<Sighting, Error> {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let allocation = claim.allocation();
    let name = match (allocation, InstanceName::new(cluster, uid)) {
        (Some(allocation), _) => allocation.instance_name.clone(),
        (None, Some(name)) => name.to_string(),
        // Nothing was ever bought under a name that cannot be made.
        (None, None) => return Ok(Sighting::Absent),
    };
    let id = allocation.and_then(|allocation| allocation.instance_id.as_deref());
    look(context.cloud.as_ref(), id, &name)
        .await
        .map_err(|source| Error::Cloud {
            doing: "looking for the machine",
            source,
        })
}

/// Absent only if a direct read by id says so and nothing has the name; an error says nothing.
pub(in crate::controllers) async fn look(
    cloud: &dyn Cloud,
    id: Option<&str>,
    name: &str,
) -> Result<Sighting, cloud::Error> {
    if let Some(id) = id {
        match cloud.get(id).await {
            Ok(machine) => return Ok(Sighting::Present(Box::new(machine))),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let found = cloud.find(name).await?;
    Ok(found.map_or(Sighting::Absent, |machine| Sighting::Present(Box::new(machine))))
}

fn unread(error: ReadError) -> Error {
    let doing = "reading the node class";
    match error {
        ReadError::Kube(source) => Error::Kube {
            doing,
            source: Box::new(source),
        },
        ReadError::Cloud(source) => Error::Cloud { doing, source },
        ReadError::Unresolved(class) => Error::ClassUnresolved(class),
    }
}
