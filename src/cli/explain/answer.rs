//! What is to be said about a pod, from what the cluster had.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;

use super::live::Live;
use crate::api::names::{LAUNCHED, NODE_INITIALIZED, NODE_REGISTERED};
use crate::api::{IBMNodeClass, NodeClaim};
use crate::audit::{self, Illegal};
use crate::cli::objects::{expand, sold};
use crate::cluster::{GivenUp, Index};
use crate::controllers::node_pool::readiness;
use crate::model::{DiscountFactors, InstanceType, Node, NodeKind, Snapshot, Stage, Withheld};
use crate::scheduling::{
    Destination, MinValuesPolicy, NewClaim, Options, Plan, Preferences, Where, remedy, solve,
};

/// The reason of the event that says which claim or node a pod was promised.
const NOMINATED: &str = "Nominated";

/// The answer for one pod, where plans are made like this.
pub(super) fn of(live: &Live, pod: &Pod, options: Options, now: Timestamp) -> Result<String, Illegal> {
    let name = format!("pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let mut lines = match settled(pod) {
        Some(said) => vec![format!("{name} {said}")],
        None => decided(live, pod, &name, options, now)?,
    };
    lines.extend(nomination(&live.events, pod));
    Ok(lines.join("\n"))
}

/// What is said of a pod that no node will be bought for, whatever there is.
fn settled(pod: &Pod) -> Option<String> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    if let Some(node) = node.filter(|node| !node.is_empty()) {
        let since = status.and_then(|status| status.start_time.as_ref());
        let since = since.map_or_else(String::new, |since| format!(" since {}", since.0));
        return Some(format!("is on node {node}{since}"));
    }
    let phase = status.and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Some("has ended".to_owned());
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted".to_owned());
    }
    let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
    let gates: Vec<&str> = gates
        .into_iter()
        .flatten()
        .map(|gate| gate.name.as_str())
        .collect();
    if !gates.is_empty() {
        return Some(format!(
            "is held back by its scheduling gates: {}",
            gates.join(", ")
        ));
    }
    let owners = pod.owner_references();
    let belongs = owners
        .iter()
        .any(|owner| owner.kind == "DaemonSet" || owner.kind == "Node");
    belongs.then(|| "belongs to every node, so none is bought for it".to_owned())
}

/// What the solver says, with all pods that wait counted.
fn decided(
    live: &Live,
    pod: &Pod,
    name: &str,
    options: Options,
    now: Timestamp,
) -> Result<Vec<String>, Illegal> {
    let withheld = Withheld::of(&live.objects.withheld);
    let factors = DiscountFactors::default();
    // What is asked about is answered as if the kube-scheduler had looked at it already.
    let mut objects = live.objects.clone();
    let of_uid = |other: &&mut Pod| other.metadata.uid == pod.metadata.uid;
    if let Some(asked) = objects.pods.iter_mut().find(of_uid) {
        *asked = expand::refused(pod.clone());
    }
    let seen = objects.see(&|class| types_of(class, &withheld, &factors, now), now);
    let snapshot = &seen.situation.snapshot;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut apart: Vec<&(String, String)> = seen.passed_over.iter().chain(&snapshot.closed).collect();
    let mut lines = Vec::new();
    if let Some(promised) = seen.situation.held.get(uid) {
        let node = snapshot.nodes.iter().find(|node| node.name == *promised);
        lines.extend(node.map(|node| waits(live, node, name)));
    } else if let Some(at) = snapshot.pending.members.iter().position(|it| it.uid == uid) {
        let plan = solve(snapshot, options, &|| true);
        audit::ensure_legal(options.min_values, snapshot, &plan)?;
        let placed = plan.placements.iter().find(|placement| placement.pod == at);
        match placed.map(|placement| placement.on) {
            Some(Destination::Existing(node)) => lines.push(waits(live, &snapshot.nodes[node], name)),
            Some(Destination::New(claim)) => lines.push(to_be_bought(snapshot, &plan.claims[claim], name)),
            None => {
                lines.extend(left_out(snapshot, &plan, options, at, name));
                apart.retain(|(pool, _)| !is_told(&plan, at, pool));
            }
        }
    } else {
        let given_up = seen.situation.given_up.get(uid).map(given_up);
        let why = given_up.unwrap_or_else(|| not_counted(pod));
        lines.push(format!("{name} {why}"));
        return Ok(lines);
    }
    let apart = apart.into_iter();
    lines.extend(apart.map(|(pool, why)| format!("  NodePool {pool} has no part in it: {why}")));
    if !seen.situation.held.contains_key(uid) {
        lines.extend(awaited(pod));
    }
    lines.push(grounds(options));
    Ok(lines)
}

/// Whether a pool is among the reasons why a pod is left out.
fn is_told(plan: &Plan, at: usize, pool: &str) -> bool {
    let left = plan.left_out.iter().find(|left| left.pods.contains(&at));
    let mut refusals = left.into_iter().flat_map(|left| &left.refusals);
    refusals.any(|refusal| matches!(&refusal.place, Where::Pool(name) if name == pool))
}

/// Why no other node is bought for a pod that runs on none of those that were made for it.
fn given_up(it: &GivenUp) -> String {
    let made = format!(
        "{} nodes that were made for it are ready for work, and it runs on none of them: {}",
        it.nodes.len(),
        it.nodes.join(", ")
    );
    match it.until {
        None => format!(
            "is given up: {made}. No other is bought for it until they go, or drift since their NodePool or IBMNodeClass \
             changes. The scheduler's own events say what it lacks"
        ),
        Some(until) => format!(
            "waits for its turn on what is there: {made}. Others run there, so another is bought for it from {until} on"
        ),
    }
}

/// Why a pod that waits is not counted among those that a node could be bought for. A scheduler names a node where it
/// removes others for the pod, which it has refused before, and also where it is about to put the pod there.
fn not_counted(pod: &Pod) -> String {
    let nominated = pod
        .status
        .as_ref()
        .and_then(|status| status.nominated_node_name.as_deref())
        .filter(|node| !node.is_empty());
    match (nominated, verdict(pod)) {
        (None, _) => "wants no node of any NodePool, so none is bought for it".to_owned(),
        (Some(node), None) => format!("is about to be put on node {node} by its scheduler"),
        (Some(node), Some(said)) => {
            let since = said.last_transition_time.as_ref();
            let since = since.map_or_else(String::new, |since| {
                format!("; its scheduler finds no place for it since {}", since.0)
            });
            format!("waits for pods of less priority to leave node {node}{since}")
        }
    }
}

/// What the scheduler has said of a pod that has no node, if anything.
fn verdict(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == "PodScheduled")
}

/// What a purchase for a pod waits for besides, if it does: a scheduler's word, where its silence does not count as a refusal
/// after a second.
fn awaited(pod: &Pod) -> Option<String> {
    let mut alone = Index::default();
    alone.apply_pod(pod);
    if alone.pods.any_waiting() {
        return None;
    }
    let scheduler = pod.spec.as_ref()?.scheduler_name.as_deref();
    let scheduler = scheduler.map_or_else(String::new, |name| format!(" {name}"));
    Some(format!(
        "No node is bought for it before its scheduler{scheduler} has said that it finds none."
    ))
}

/// What the answer rests on that the controller may know better.
fn grounds(options: Options) -> String {
    let preferences = match options.preferences {
        Preferences::Respect => "preferences count",
        Preferences::Ignore => "preferences do not count",
    };
    let min_values = match options.min_values {
        MinValuesPolicy::Strict => "minValues hold",
        MinValuesPolicy::BestEffort => "minValues hold as far as possible",
    };
    format!(
        "Worked out with built-in machines and prices; {preferences}, {min_values}. The controller asks the catalogue, and \
         may have been told other discounts and policies."
    )
}

/// What can be bought for a class that is ready; of one that is not, what the controller says of it.
fn types_of(
    class: &IBMNodeClass,
    withheld: &Withheld,
    factors: &DiscountFactors,
    now: Timestamp,
) -> Result<Vec<InstanceType>, String> {
    match readiness::class_problem(Some(class)) {
        Some(problem) => Err(problem.words(&class.name_any())),
        None => sold::types(class, withheld, factors, now),
    }
}

fn waits(live: &Live, node: &Node, name: &str) -> String {
    let claim = live.objects.claims.iter().find(|claim| {
        let of_status = claim
            .status
            .as_ref()
            .and_then(|status| status.node_name.as_deref());
        claim.name_any() == node.name || of_status == Some(node.name.as_str())
    });
    match (claim, node.kind, node.stage) {
        (Some(claim), NodeKind::ClaimInFlight, _) => {
            format!("{name} waits for {}", progress(claim))
        }
        (Some(claim), NodeKind::Node, Stage::Beginning) => format!(
            "{name} waits for node {}, which is not ready for work yet: {}",
            node.name,
            progress(claim)
        ),
        _ => format!(
            "{name} has room on node {}{}; the kube-scheduler has not put it there yet",
            node.name,
            ready_since(live, claim, &node.name)
        ),
    }
}

/// Since when a node is ready for work, as its claim says, or the node itself where it has none.
fn ready_since(live: &Live, claim: Option<&NodeClaim>, name: &str) -> String {
    let claimed = claim
        .and_then(|claim| claim.status.as_ref()?.conditions.as_ref())
        .and_then(|all| {
            all.iter()
                .find(|it| it.type_ == NODE_INITIALIZED && it.status == "True")
        })
        .map(|it| it.last_transition_time.0);
    let node = live.objects.nodes.iter().find(|node| node.name_any() == name);
    let reported = || {
        let conditions = node?.status.as_ref()?.conditions.as_ref()?;
        let ready = conditions
            .iter()
            .find(|it| it.type_ == "Ready" && it.status == "True")?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    };
    let since = claimed.or_else(reported);
    since.map_or_else(String::new, |since| {
        format!(", which is ready for work since {since}")
    })
}

/// How far a claim has come, and since when.
fn progress(claim: &NodeClaim) -> String {
    let made = claim.metadata.creation_timestamp.as_ref();
    let made = made.map_or_else(String::new, |made| format!(", made at {}", made.0));
    let mut said = vec![format!("NodeClaim {}{made}", claim.name_any())];
    let allocation = claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    if let Some(allocation) = allocation {
        said.push(format!(
            ", a {} {} in {}",
            allocation.capacity_type, allocation.profile, allocation.zone
        ));
    }
    let conditions = claim
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let condition = |type_: &str| conditions.into_iter().flatten().find(move |it| it.type_ == type_);
    let stages = [
        (LAUNCHED, "to be bought"),
        (NODE_REGISTERED, "to join the cluster"),
        (NODE_INITIALIZED, "to be ready for work"),
    ];
    let mut since = claim.metadata.creation_timestamp.as_ref().map(|made| made.0);
    for (type_, left) in stages {
        match condition(type_) {
            Some(done) if done.status == "True" => since = Some(done.last_transition_time.0),
            known => {
                let since = since.map_or_else(String::new, |since| format!(" since {since}"));
                said.push(format!(", which has{since} {left}"));
                let message = known
                    .and_then(|known| known.message.as_deref())
                    .unwrap_or_default();
                if !message.is_empty() {
                    said.push(format!(" ({message})"));
                }
                return said.concat();
            }
        }
    }
    said.concat()
}

fn to_be_bought(snapshot: &Snapshot, claim: &NewClaim, name: &str) -> String {
    let planned = &claim.cheapest;
    let kind = claim.option_names(snapshot).next().unwrap_or_default();
    let price = planned
        .price
        .map_or_else(String::new, |price| format!(", for {price} an hour"));
    format!(
        "{name} can have a new node of NodePool {}: a {} {kind} in {}{price}; no NodeClaim is made for it yet",
        claim.pool(snapshot).name,
        planned.capacity_type,
        planned.zone,
    )
}

fn left_out(snapshot: &Snapshot, plan: &Plan, options: Options, at: usize, name: &str) -> Vec<String> {
    let left = plan.left_out.iter().find(|left| left.pods.contains(&at));
    let Some(left) = left else {
        return vec![format!("{name} has no place, and nobody knows why")];
    };
    let mut lines = vec![format!("{name} has no place:")];
    lines.extend(left.refusals.iter().map(|refusal| format!("  {refusal}")));
    lines.extend(left.others().map(|others| format!("  and {others}")));
    if let Some(remedy) = remedy(snapshot, plan, options, at) {
        lines.push(format!("To get in at NodePool {}:", remedy.pool));
        lines.extend(remedy.changes.iter().map(|change| format!("  {change}")));
    }
    lines
}

/// What the controller has promised the pod last.
fn nomination(events: &[Event], pod: &Pod) -> Option<String> {
    let about = |event: &&Event| {
        let regarding = event.regarding.as_ref();
        let same = regarding.is_some_and(|about| match &about.uid {
            Some(uid) => Some(uid) == pod.metadata.uid.as_ref(),
            None => about.name == pod.metadata.name,
        });
        event.reason.as_deref() == Some(NOMINATED) && same
    };
    let latest = events
        .iter()
        .filter(about)
        .max_by_key(|event| event.event_time.as_ref().map(|time| time.0))?;
    let at = latest
        .event_time
        .as_ref()
        .map_or_else(String::new, |time| format!(" at {}", time.0));
    let note = latest.note.as_deref().unwrap_or_default();
    Some(format!("It was promised a place{at}: {note}"))
}
