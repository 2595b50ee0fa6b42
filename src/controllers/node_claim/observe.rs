//! Sees what the next step of a claim hangs on, and no more: a claim at rest costs the cloud nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::census::Moment;
use super::market::{self, Turn};
use super::tokens::Need;
use super::{Error, Shared, depart, user_data};
use crate::api::{NodeClaim, names};
use crate::cloud::{self, Cloud, InstanceName, Machine, MachineStatus, ProviderId};
use crate::controllers::context::Context;
use crate::controllers::node_class::{self, ReadError, Resolved};
use crate::lifecycle::diagnosis::diagnose;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{
    self, Observed, Sighting, Standing, needs_choice, needs_proof, needs_remaining, needs_standing,
};
use crate::model::InstanceType;

/// A claim as the API server last told it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) claim: NodeClaim,
    /// When it was told, on the monotonic clock: what is bought rests on it.
    pub(super) told_at: Instant,
    /// The machine that was just bought for it, which reads may not show yet.
    pub(super) bought: Option<Machine>,
    /// When it was known that this is written.
    pub(super) moment: Moment,
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
            moment: Moment::default(),
        }))
    }
}

/// What was seen, and the class that an order is made from.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) observed: Observed,
    pub(super) class: Option<Resolved>,
    /// What a machine that runs is.
    pub(super) kind: Option<InstanceType>,
    /// When the read was asked for that the standing of the allocation rests on.
    pub(super) read_at: Option<Instant>,
    /// The turn in which the choice was made; nobody else chooses before what follows from it is written.
    pub(super) turn: Option<Turn>,
}

impl Seen {
    /// Whether the claim's machine needs a credential of ours.
    pub(super) fn need(&self) -> Need {
        let class = self.class.as_ref();
        class.map_or(Need::Nothing, |class| user_data::need(&class.class))
    }
}

/// Looks at the world for one claim.
pub(super) async fn observe(shared: &Shared, known: &Known, followed_for: Duration) -> Result<Seen, Error> {
    let (context, claim) = (&shared.context, &known.claim);
    let mut seen = Seen::default();
    seen.observed.followed_for = followed_for;
    seen.observed.last_order = shared.attempts.last_order(claim, &context.clock);
    if !claim.has_finalizer() || (claim.end().is_some() && !claim.is_deleting()) {
        return Ok(seen);
    }
    let (limits, now) = (&context.settings.limits, context.clock.now());
    let is_overdue = lifecycle::is_overdue(claim, followed_for, limits, now);
    let needs_diagnosis = lifecycle::needs_diagnosis(claim, followed_for, limits, now);
    seen.observed.node = node(context, claim).await?;
    if is_overdue || needs_machine(claim, seen.observed.node.as_ref()) {
        seen.observed.machine = match &known.bought {
            Some(machine) => Sighting::Present(Box::new(machine.clone())),
            None => machine(shared, claim, followed_for).await?,
        };
    } else if needs_diagnosis {
        // What is only to be told can be told later: a cloud that does not answer is not pressed for it.
        let looked = machine(shared, claim, followed_for).await;
        seen.observed.machine = looked.unwrap_or_default();
    }
    seen.observed.other_machine = other_machine(context, claim, seen.observed.node.as_ref()).await?;
    if needs_diagnosis && (is_overdue || seen.observed.machine != Sighting::Unknown) {
        let requests = shared.requests.list(context).await;
        let requests = requests.map_err(Error::kube("listing the certificate requests"))?;
        let (machine, node) = (&seen.observed.machine, seen.observed.node.as_ref());
        seen.observed.diagnosis = Some(diagnose(claim, machine, node, &requests));
    }
    if needs_class(claim, &seen.observed.machine) {
        let class = node_class::read(context, claim).await.map_err(unread)?;
        seen.observed.resource_group = class.as_ref().and_then(|class| class.resource_group.clone());
        seen.class = class;
    }
    if needs_remaining(claim, &seen.observed) {
        let remaining = depart::remaining(shared, known, &claim.name_any()).await?;
        seen.observed.remaining = Some(remaining);
    }
    if lifecycle::is_stopping(claim, &seen.observed.machine) {
        let now = context.clock.instant();
        seen.observed.stopping_for = shared.departures.stopping_for(claim, now);
    }
    look_at_the_market(shared, known, &mut seen).await?;
    Ok(seen)
}

/// Whether what is allocated may be bought, and else what could be; and what a machine that runs is.
async fn look_at_the_market(shared: &Shared, known: &Known, seen: &mut Seen) -> Result<(), Error> {
    let (context, claim) = (&shared.context, &known.claim);
    if needs_standing(claim, &seen.observed.machine) {
        let class = seen.class.as_ref();
        let judged = shared.market.judge(context, claim, class, known.moment).await?;
        (seen.observed.standing, seen.read_at) = (judged.standing, judged.read_at);
        seen.observed.credential = shared.tokens.state(context, claim, seen.need());
    }
    if needs_choice(claim, &seen.observed.machine, &seen.observed.standing) {
        let class = seen.class.as_ref();
        let (choice, turn) = shared
            .market
            .choose(context, shared.cluster, claim, class)
            .await?;
        (seen.observed.choice, seen.turn) = (Some(choice), turn);
        look_before_giving_up(shared, claim, seen).await?;
    }
    if let (Sighting::Present(machine), Some(class)) = (&seen.observed.machine, &seen.class)
        && machine.status == MachineStatus::Running
    {
        let kind = market::instance_type(context, class, &machine.profile).await?;
        seen.observed.labels = kind.as_ref().map(market::labels).unwrap_or_default();
        seen.kind = kind;
    }
    Ok(())
}

/// Where nothing can be bought for a claim that has nothing on record, its machine may be there all the same.
async fn look_before_giving_up(shared: &Shared, claim: &NodeClaim, seen: &mut Seen) -> Result<(), Error> {
    let (limits, now) = (&shared.context.settings.limits, shared.context.clock.now());
    if seen.observed.machine == Sighting::Unknown && needs_proof(claim, &seen.observed, limits, now) {
        // Nothing was promised, so others may choose while the cloud is asked.
        seen.turn = None;
        seen.observed.machine = machine(shared, claim, seen.observed.followed_for).await?;
    }
    Ok(())
}

/// The machine of a Node that has the claim's name and another provider id. One that is not in our region's words is not
/// looked for.
async fn other_machine(context: &Context, claim: &NodeClaim, node: Option<&Node>) -> Result<Sighting, Error> {
    let other = node.and_then(|node| lifecycle::other_machine(claim, node));
    let Some(id) = other.and_then(|written| written.parse::<ProviderId>().ok()) else {
        return Ok(Sighting::Unknown);
    };
    if id.region() != context.settings.region {
        return Ok(Sighting::Unknown);
    }
    match context.cloud.get(id.instance()).await {
        Ok(machine) => Ok(Sighting::Present(Box::new(machine))),
        Err(error) if error.is_not_found() => Ok(Sighting::Absent),
        Err(error) => Err(Error::cloud("looking for the machine of a node")(error)),
    }
}

/// A launched claim is looked after by the sweep; its own machine is read once more when its Node appears.
fn needs_machine(claim: &NodeClaim, node: Option<&Node>) -> bool {
    if claim.is_deleting() || !claim.is_launched() {
        return claim.is_deleting() || claim.allocation().is_some();
    }
    node.is_some() && !claim.is(names::NODE_REGISTERED)
}

/// A machine that is found by name is ours only in our resource group, which the class says; a recorded one is ours. A
/// claim on its way is bought for by its class, and a machine that runs gets the labels of its kind.
fn needs_class(claim: &NodeClaim, machine: &Sighting) -> bool {
    let recorded = claim
        .allocation()
        .and_then(|allocation| allocation.instance_id.as_deref());
    let is_found = matches!(machine, Sighting::Present(machine) if recorded != Some(machine.id.as_str()));
    let runs = matches!(machine, Sighting::Present(machine) if machine.status == MachineStatus::Running);
    let is_on_its_way = !claim.is_deleting() && !claim.is_launched();
    let buys = needs_standing(claim, machine) || needs_choice(claim, machine, &Standing::Lost);
    (is_on_its_way && (buys || runs)) || (is_found && (claim.is_deleting() || is_on_its_way))
}

async fn node(context: &Context, claim: &NodeClaim) -> Result<Option<Node>, Error> {
    if !claim.is_launched() {
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

/// The claim's machine: on a list where many are waited for, by id where one is recorded, and by its exact name wherever
/// the id leads nowhere.
async fn machine(shared: &Shared, claim: &NodeClaim, followed_for: Duration) -> Result<Sighting, Error> {
    let (context, cluster) = (&shared.context, shared.cluster);
    if let Some(machine) = shared.roll.call(context, cluster, claim, followed_for).await {
        return Ok(Sighting::Present(Box::new(machine)));
    }
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let allocation = claim.allocation();
    // Not the name in the status, which anybody may have written.
    let Some(name) = InstanceName::new(cluster, uid) else {
        // Nothing was ever bought under a name that cannot be made.
        return Ok(Sighting::Absent);
    };
    let id = allocation.and_then(|allocation| allocation.instance_id.as_deref());
    look(context.cloud.as_ref(), id, &name.to_string())
        .await
        .map_err(|source| Error::Cloud {
            doing: "looking for the machine",
            source,
        })
}

/// Absent only if a direct read by id says so and nothing has the name; an error says nothing. A machine that is found by
/// id and has another name is somebody else's, whatever a status says of it: anybody may have written that.
pub(in crate::controllers) async fn look(
    cloud: &dyn Cloud,
    id: Option<&str>,
    name: &str,
) -> Result<Sighting, cloud::Error> {
    if let Some(id) = id {
        match cloud.get(id).await {
            Ok(machine) if is_named(&machine, name) => return Ok(Sighting::Present(Box::new(machine))),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let found = cloud.find(name).await?;
    Ok(found.map_or(Sighting::Absent, |machine| Sighting::Present(Box::new(machine))))
}

/// Whether a machine has that name, or had it before its attempt was given up.
fn is_named(machine: &Machine, name: &str) -> bool {
    let rest = machine.name.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-x"))
}

fn unread(error: ReadError) -> Error {
    error.into()
}
