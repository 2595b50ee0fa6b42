//! A machine that runs becomes a Node: registered when name, provider id and address agree, initialized when the Node
//! is ready for work.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use kube::ResourceExt;

use super::facts::Facts;
use super::{Blocker, End, Limits, Observed, Sighting, Step, Word, leaving, waiting};
use crate::api::{self, NodeClaim, names};
use crate::clock::later;
use crate::quantity::Quantity;

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
    /// All of its finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
}

/// The next step of a claim whose machine runs.
pub(super) fn next(claim: &NodeClaim, observed: &Observed, limits: &Limits, now: Timestamp) -> Step {
    if claim.is(names::NODE_INITIALIZED) {
        let node = observed.node.as_ref().filter(|node| is_altered(claim, node));
        return node.map_or(Step::Rest, |node| put_right(claim, node));
    }
    let step = if claim.is(names::NODE_REGISTERED) {
        observed
            .node
            .as_ref()
            .map_or(Step::Rest, |node| prepare(claim, node))
    } else {
        observed
            .node
            .as_ref()
            .map_or(Step::Rest, |node| register(claim, node, observed))
    };
    match step {
        Step::Rest | Step::Block(_) if is_overdue(claim, observed.followed_for, limits, now) => {
            give_up(claim, observed)
        }
        Step::Rest => waiting::explain(claim, observed, limits, now)
            .unwrap_or_else(|| Step::Wait(next_look(claim, observed.followed_for, limits, now))),
        step => step,
    }
}

/// Whether a claim has waited longer than it may for its Node to join, or to be ready for work. Counted from when its
/// machine was seen running or its Node joined; and this process must have followed it for as long as joining may take, or
/// a wall clock that jumps would take time from every machine on its way.
pub fn is_overdue(claim: &NodeClaim, followed_for: Duration, limits: &Limits, now: Timestamp) -> bool {
    let Some((since, limit)) = clock_runs(claim, limits) else {
        return false;
    };
    now >= later(since, limit) && followed_for >= limits.registration
}

/// What a claim waits for: since when, and for how long at most.
pub(super) fn clock_runs(claim: &NodeClaim, limits: &Limits) -> Option<(Timestamp, Duration)> {
    if claim.is_deleting() || !claim.is_launched() || claim.is(names::NODE_INITIALIZED) {
        return None;
    }
    match claim.since(names::NODE_REGISTERED) {
        Some(since) => Some((since, limits.initialization)),
        None => Some((claim.since(names::LAUNCHED)?, limits.registration)),
    }
}

/// When patience ends, or it is looked before that what is waited for.
fn next_look(claim: &NodeClaim, followed_for: Duration, limits: &Limits, now: Timestamp) -> Timestamp {
    let end = patience_ends(claim, followed_for, limits, now);
    waiting::next_look(claim, limits, now).map_or(end, |look| look.min(end))
}

fn patience_ends(claim: &NodeClaim, followed_for: Duration, limits: &Limits, now: Timestamp) -> Timestamp {
    let Some((since, limit)) = clock_runs(claim, limits) else {
        return later(now, limits.poll);
    };
    let followed_enough = later(now, limits.registration.saturating_sub(followed_for));
    // A start in the future is that of a clock that was ahead.
    let limit_reached = later(since.min(now), limit);
    limit_reached.max(followed_enough)
}

fn give_up(claim: &NodeClaim, observed: &Observed) -> Step {
    if claim.is(names::NODE_REGISTERED) {
        return Step::GiveUp(End {
            condition: names::NODE_INITIALIZED,
            reason: names::REASON_INITIALIZATION_TIMEOUT,
            message: lacks(claim, observed.node.as_ref()).map_or_else(String::new, |lack| lack.message),
        });
    }
    match &observed.diagnosis {
        Some(why) => Step::GiveUp(End {
            condition: names::NODE_REGISTERED,
            reason: names::REASON_REGISTRATION_TIMEOUT,
            message: why.message.clone(),
        }),
        None => Step::Retry,
    }
}

/// What a kubelet wrote into its own labels and taints gains it nothing: the Node is registered when it has everything
/// that the claim says, which only the change that is made here gives it.
fn register(claim: &NodeClaim, node: &Node, observed: &Observed) -> Step {
    let machine = match &observed.machine {
        Sighting::Present(machine) => machine,
        Sighting::Unknown => return Step::Retry,
        // The sweep decides what becomes of a claim whose machine is nowhere.
        Sighting::Absent => return Step::Rest,
    };
    if let Some(step) = left_behind(node, observed) {
        return step;
    }
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
    if is_as_claimed(claim, node) {
        return Step::Register;
    }
    Step::ChangeNode(NodeChange {
        labels: labels(claim, names::REGISTERED),
        taints: Some(taints(claim, node)),
        // From now on whoever deletes the Node waits until its pods have left and its machine is gone.
        finalizers: Some(finalizers(node)),
        ..unchanged(node)
    })
}

/// Takes away a Node whose machine is not there any more. It has the claim's name, so it was that of an earlier claim,
/// which was forced out; it would keep the claim's own machine from joining.
fn left_behind(node: &Node, observed: &Observed) -> Option<Step> {
    (observed.other_machine == Sighting::Absent)
        .then(|| leaving::let_go(node))
        .flatten()
}

/// The provider id of the Node of a claim's name, if the Node is older than the claim, another machine's, and not ready. A
/// Node that came later is no leftover: whoever made it may be about to say more. One that is ready has a machine, even if
/// the cloud answers 404 for it.
pub fn other_machine<'a>(claim: &NodeClaim, node: &'a Node) -> Option<&'a str> {
    let is_older = node.metadata.creation_timestamp < claim.metadata.creation_timestamp;
    let other = provider_id(node).filter(|id| claim_provider_id(claim) != Some(*id))?;
    let waits = claim.is_launched() && !claim.is(names::NODE_REGISTERED);
    let is_silent = readiness(node).is_none_or(|ready| ready.status != "True");
    (is_older && waits && is_silent).then_some(other)
}

/// Whether the Node has the claim's labels and lasting taints and may take pods.
fn is_as_claimed(claim: &NodeClaim, node: &Node) -> bool {
    let kept_off = taints_of(node).any(|taint| taint.key == names::UNREGISTERED_TAINT);
    let held = finalizers(node) == node.finalizers();
    has_labels(node, &labels(claim, names::REGISTERED)) && is_tainted(claim, node) && held && !kept_off
}

fn has_labels(node: &Node, labels: &BTreeMap<String, String>) -> bool {
    labels
        .iter()
        .all(|(key, value)| node.labels().get(key) == Some(value))
}

/// Whether the Node has the claim's lasting taints. Startup taints go by themselves, so they do not tell.
fn is_tainted(claim: &NodeClaim, node: &Node) -> bool {
    let mut wanted = claim.spec.taints.iter().flatten();
    wanted.all(|taint| taints_of(node).any(|it| is_same(it, taint) && has_value(it, taint)))
}

fn taints_of(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| &spec.taints).flatten()
}

fn is_same(present: &Taint, wanted: &api::Taint) -> bool {
    present.key == wanted.key && present.effect == wanted.effect
}

fn has_value(present: &Taint, wanted: &api::Taint) -> bool {
    present.value.as_deref().unwrap_or_default() == wanted.value.as_deref().unwrap_or_default()
}

/// Whether a Node that was ready for work has lost a label or a lasting taint that its claim says, or has it otherwise. A
/// kubelet may write its own Node's labels, and pods choose their place by them. What the claim does not say is nobody's
/// business here, nor is a Node that goes, or that is another machine's.
pub fn is_altered(claim: &NodeClaim, node: &Node) -> bool {
    let stays = !claim.is_deleting() && node.metadata.deletion_timestamp.is_none();
    let marked = has_labels(node, &ready_labels(claim));
    stays
        && claim.is(names::NODE_INITIALIZED)
        && is_same_machine(claim, node)
        && !(marked && is_tainted(claim, node))
}

fn put_right(claim: &NodeClaim, node: &Node) -> Step {
    let taints = (!is_tainted(claim, node)).then(|| with_taints(taints_of(node), [&claim.spec.taints]));
    Step::ChangeNode(NodeChange {
        labels: ready_labels(claim),
        taints,
        ..unchanged(node)
    })
}

/// What a Node that is ready for work is labeled with.
fn ready_labels(claim: &NodeClaim) -> BTreeMap<String, String> {
    let mut labels = labels(claim, names::REGISTERED);
    labels.insert(names::INITIALIZED.to_owned(), "true".to_owned());
    labels
}

fn prepare(claim: &NodeClaim, node: &Node) -> Step {
    match unprepared(claim, node) {
        None => initialize(node),
        Some(_) => Step::Rest,
    }
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

/// The Node's finalizers, and ours. One that is going takes no new ones.
fn finalizers(node: &Node) -> Vec<String> {
    let mut finalizers = node.finalizers().to_vec();
    let ours = names::TERMINATION_FINALIZER;
    if node.metadata.deletion_timestamp.is_none() && !finalizers.iter().any(|name| name == ours) {
        finalizers.push(ours.to_owned());
    }
    finalizers
}

pub(super) fn unchanged(node: &Node) -> NodeChange {
    NodeChange {
        name: node.name_any(),
        resource_version: node.resource_version(),
        labels: BTreeMap::new(),
        taints: None,
        finalizers: None,
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
    let present = taints_of(node).filter(|taint| taint.key != names::UNREGISTERED_TAINT);
    with_taints(present, [&claim.spec.taints, &claim.spec.startup_taints])
}

/// These taints, and those that are wanted; of one key and effect there is one, with the value that is wanted.
fn with_taints<'a, const N: usize>(
    present: impl Iterator<Item = &'a Taint>,
    wanted: [&Option<Vec<api::Taint>>; N],
) -> Vec<Taint> {
    let mut taints: Vec<Taint> = present.cloned().collect();
    for taint in wanted.into_iter().flatten().flatten() {
        match taints.iter_mut().find(|it| is_same(it, taint)) {
            Some(present) => present.value.clone_from(&taint.value),
            None => taints.push(node_taint(taint)),
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

/// What the Node says of its readiness.
fn readiness(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    conditions.find(|condition| condition.type_ == "Ready")
}

/// What a claim that has joined lacks before it is ready for work, if anything.
pub(super) fn lacks(claim: &NodeClaim, node: Option<&Node>) -> Option<Word> {
    let (reason, message) = match node {
        Some(node) => unprepared(claim, node)?,
        None => (
            names::REASON_NODE_NOT_FOUND,
            "its node is not there any more".to_owned(),
        ),
    };
    Some(Word {
        condition: names::NODE_INITIALIZED,
        reason,
        message,
    })
}

/// What a Node still lacks before it is ready for work, as one word and for people.
fn unprepared(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    if !is_same_machine(claim, node) {
        let why = "its node has another provider id now";
        return Some((names::REASON_NODE_MISMATCH, why.to_owned()));
    }
    let ready = readiness(node);
    if ready.is_none_or(|ready| ready.status != "True") {
        let why = ready.and_then(|ready| ready.message.clone()).unwrap_or_default();
        return Some((
            names::REASON_NODE_NOT_READY,
            format!("its node is not ready: {why}"),
        ));
    }
    if let Some((reason, taint)) = taints_of(node).find_map(|taint| Some((passing(claim, taint)?, taint))) {
        let why = format!("its node still has the taint {}:{}", taint.key, taint.effect);
        return Some((reason, why));
    }
    let missing = missing_resource(claim, node)?;
    let why = format!("its node does not report the resource {missing}");
    Some((names::REASON_RESOURCE_NOT_REGISTERED, why))
}

/// Who has yet to take a taint off, if somebody is to.
fn passing(claim: &NodeClaim, taint: &Taint) -> Option<&'static str> {
    let mut startup = claim.spec.startup_taints.iter().flatten();
    if EPHEMERAL.contains(&taint.key.as_str()) {
        return Some(names::REASON_EPHEMERAL_TAINTS);
    }
    startup
        .any(|wanted| is_same(taint, wanted))
        .then_some(names::REASON_STARTUP_TAINTS)
}

/// A resource that pods of the claim want and that the Node does not report, like one whose driver is not there yet.
fn missing_resource(claim: &NodeClaim, node: &Node) -> Option<String> {
    let requests = claim.spec.resources.as_ref()?.requests.as_ref()?;
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    let reported = |resource: &String| {
        let written = allocatable.and_then(|it| it.get(resource));
        let amount = written.and_then(|amount| amount.0.parse::<Quantity>().ok());
        amount.is_some_and(|amount| amount.nanos() > 0)
    };
    let wanted = requests
        .iter()
        .filter(|(_, amount)| amount.parse().is_ok_and(|amount| amount.nanos() > 0));
    wanted
        .map(|(resource, _)| resource)
        .find(|resource| !reported(resource))
        .cloned()
}

/// Whether a Node is that of the claim's machine.
pub(super) fn is_same_machine(claim: &NodeClaim, node: &Node) -> bool {
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
