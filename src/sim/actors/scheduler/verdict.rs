//! What a decision about a pod means for the API, in the real scheduler's words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Decision, NAME, nominated, preemption};
use crate::sim::actors::control_plane::Act;

/// How many of all nodes have which reason: `0/3 nodes are available: 1 Insufficient cpu, 2 ...`.
pub(super) fn summary(nodes: usize, reasons: &[Cow<'static, str>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason.as_ref()).or_default() += 1;
    }
    let mut texts: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    texts.sort_unstable();
    format!("0/{nodes} nodes are available: {}.", texts.join(", "))
}

/// The writes that carry out a decision.
pub(super) fn acts(pod: &Pod, decision: Decision<'_>, now: Timestamp) -> Vec<Act> {
    match decision {
        Decision::Bind { node } => vec![Act::bind(pod, node)],
        Decision::Await { node, mut acts } => {
            acts.extend(nominate(pod, node));
            acts
        }
        Decision::Preempt {
            node,
            victims,
            message,
        } => {
            let sent = victims.into_iter().flat_map(|victim| send_away(victim, now));
            let mut acts: Vec<Act> = sent.collect();
            acts.extend(report(pod, Some(node), message, now));
            acts
        }
        Decision::Refuse { message } => report(pod, None, message, now).into_iter().collect(),
    }
}

fn nominate(pod: &Pod, node: &str) -> Option<Act> {
    (nominated(pod) != Some(node)).then(|| Act::patch_status(pod, json!({"nominatedNodeName": node})))
}

/// A pod that makes room is told why first.
fn send_away(victim: &Pod, now: Timestamp) -> Vec<Act> {
    if victim.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(preemption::REASON.to_owned()),
        message: Some(format!("{NAME}: preempting to accommodate a higher priority pod")),
        ..PodCondition::default()
    };
    let told = with_condition(victim, condition, now);
    let told = told.map(|conditions| Act::patch_status(victim, json!({"conditions": conditions})));
    told.into_iter().chain([Act::delete(victim)]).collect()
}

/// Says that a pod has no node, if that is news.
fn report(pod: &Pod, node: Option<&str>, message: String, now: Timestamp) -> Option<Act> {
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message),
        ..PodCondition::default()
    };
    let conditions = with_condition(pod, condition, now);
    if conditions.is_none() && nominated(pod) == node {
        return None;
    }
    let mut status = json!({});
    if let Some(conditions) = conditions {
        status["conditions"] = json!(conditions);
    }
    if nominated(pod) != node {
        status["nominatedNodeName"] = json!(node);
    }
    Some(Act::patch_status(pod, status))
}

/// All conditions of a pod with one of them set, unless it says nothing new.
pub(in crate::sim::actors) fn with_condition(
    pod: &Pod,
    mut condition: PodCondition,
    now: Timestamp,
) -> Option<Vec<PodCondition>> {
    let status = pod.status.as_ref();
    let known = status.and_then(|status| status.conditions.clone());
    let mut conditions = known.unwrap_or_default();
    let old = conditions.iter().position(|one| one.type_ == condition.type_);
    condition.last_transition_time = Some(Time(whole_second(now)));
    let Some(old) = old.and_then(|at| conditions.get_mut(at)) else {
        conditions.push(condition);
        return Some(conditions);
    };
    if old.status == condition.status {
        condition
            .last_transition_time
            .clone_from(&old.last_transition_time);
    }
    condition.last_probe_time.clone_from(&old.last_probe_time);
    condition.observed_generation = old.observed_generation;
    if *old == condition {
        return None;
    }
    *old = condition;
    Some(conditions)
}

/// Times in the API are whole seconds.
pub(in crate::sim::actors) fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
