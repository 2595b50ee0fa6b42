//! A pod's status, in the words of a kubelet.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::Entry;
use super::stage::{Stage, Why};
use crate::sim::actors::kubelet::{shutdown, stamp};

/// The status of a pod now; `None` if there is nothing to say. Conditions that turn are dated.
pub(super) fn render(entry: &mut Entry, host: &str, now: Timestamp) -> Option<Value> {
    let (phase, reason, message) = match &entry.stage {
        Stage::Past => return None,
        Stage::Rejected(rejection) => {
            return Some(
                json!({"phase": "Failed", "reason": rejection.reason, "message": rejection.message,
                               "startTime": stamp(entry.begun)}),
            );
        }
        Stage::Mounting { .. } | Stage::Creating { .. } | Stage::Stopping { ran: None, .. } => {
            ("Pending", None, None)
        }
        Stage::Running { .. } | Stage::BackingOff { .. } | Stage::Stopping { .. } => ("Running", None, None),
        Stage::Ended {
            why: Why::Exited(0), ..
        } => ("Succeeded", None, None),
        Stage::Ended {
            why: Why::Exited(_), ..
        } => ("Failed", None, None),
        Stage::Ended {
            why: Why::NodeShutdown,
            ..
        } => ("Failed", Some(shutdown::REASON), Some(shutdown::MESSAGE)),
    };
    let mut status = json!({
        "phase": phase,
        "startTime": stamp(entry.begun),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "conditions": conditions(entry, phase, now),
        "containerStatuses": containers(entry),
    });
    if phase != "Pending" {
        status["podIP"] = json!(entry.address);
        status["podIPs"] = json!([{"ip": entry.address}]);
    }
    if let Some(init) = init_containers(entry, phase) {
        status["initContainerStatuses"] = init;
    }
    for (field, text) in [("reason", reason), ("message", message)] {
        if let Some(text) = text {
            status[field] = text.into();
        }
    }
    Some(status)
}

fn is_ready(stage: &Stage, now: Timestamp) -> bool {
    match stage {
        Stage::Running { ready_at, .. } => *ready_at <= now,
        // The probes go on until the containers are gone.
        Stage::Stopping { was_ready, .. } => *was_ready,
        _ => false,
    }
}

fn conditions(entry: &mut Entry, phase: &str, now: Timestamp) -> Value {
    let names: Vec<String> = specs(entry).into_iter().map(|container| container.name).collect();
    let (reason, message) = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ => (
            "ContainersNotReady",
            format!("containers with unready status: [{}]", names.join(" ")),
        ),
    };
    let ready = is_ready(&entry.stage, now);
    let gates_open = gates_are_open(entry);
    let has_network = !matches!(
        entry.stage,
        Stage::Mounting { .. } | Stage::Creating { .. } | Stage::Ended { .. }
    );
    let mut all = vec![
        turned(entry, "PodReadyToStartContainers", has_network, now),
        turned(entry, "Initialized", true, now),
        turned(entry, "Ready", ready && gates_open, now),
        turned(entry, "ContainersReady", ready, now),
        turned(entry, "PodScheduled", true, now),
    ];
    for condition in &mut all {
        let concerns_containers = condition["type"] == "Ready" || condition["type"] == "ContainersReady";
        if !concerns_containers || condition["status"] == "True" {
            continue;
        }
        if ready {
            condition["reason"] = "ReadinessGatesNotReady".into();
        } else {
            condition["reason"] = reason.into();
            if !message.is_empty() {
                condition["message"] = message.as_str().into();
            }
        }
    }
    if matches!(
        entry.stage,
        Stage::Stopping {
            why: Why::NodeShutdown,
            ..
        } | Stage::Ended {
            why: Why::NodeShutdown,
            ..
        }
    ) {
        let mut condition = turned(entry, "DisruptionTarget", true, now);
        condition["reason"] = "TerminationByKubelet".into();
        condition["message"] = shutdown::MESSAGE.into();
        all.push(condition);
    }
    all.into()
}

fn turned(entry: &mut Entry, kind: &'static str, holds: bool, now: Timestamp) -> Value {
    let status = if holds { "True" } else { "False" };
    let (was, since) = entry.turned.entry(kind).or_insert((status, now));
    if *was != status {
        (*was, *since) = (status, now);
    }
    json!({"type": kind, "status": status, "lastTransitionTime": stamp(*since)})
}

fn gates_are_open(entry: &Entry) -> bool {
    let gates = entry
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    let conditions = entry
        .pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut gates = gates.map(|gate| &gate.condition_type);
    gates.all(|gate| {
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == *gate && condition.status == "True")
    })
}

fn specs(entry: &Entry) -> Vec<Container> {
    entry
        .pod
        .spec
        .as_ref()
        .map(|spec| spec.containers.clone())
        .unwrap_or_default()
}

fn containers(entry: &Entry) -> Value {
    let (state, last) = states(&entry.stage);
    let is_up = matches!(
        entry.stage,
        Stage::Running { .. } | Stage::Stopping { ran: Some(_), .. }
    );
    let ready = entry
        .turned
        .get("ContainersReady")
        .is_some_and(|(status, _)| *status == "True");
    let all = specs(entry).into_iter().map(|container| {
        let mut status = json!({
            "name": container.name,
            "image": container.image.clone().unwrap_or_default(),
            "imageID": container.image.filter(|_| is_up).unwrap_or_default(),
            "ready": ready,
            "started": is_up,
            "restartCount": entry.restarts,
            "state": state,
        });
        if let Some(last) = &last {
            status["lastState"] = last.clone();
        }
        status
    });
    all.collect::<Vec<_>>().into()
}

/// The state of each container, and the one before.
fn states(stage: &Stage) -> (Value, Option<Value>) {
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let terminated = |code: i32, ran: Option<Timestamp>, at: Timestamp| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": stamp(ran.unwrap_or(at)),
                              "finishedAt": stamp(at)}})
    };
    match stage {
        Stage::Running { since, .. } | Stage::Stopping { ran: Some(since), .. } => {
            (json!({"running": {"startedAt": stamp(*since)}}), None)
        }
        Stage::BackingOff { code, ran, at, .. } => (
            waiting("CrashLoopBackOff"),
            Some(terminated(*code, Some(*ran), *at)),
        ),
        Stage::Ended { why, ran, at } => {
            let code = match why {
                Why::Exited(code) => *code,
                Why::NodeShutdown => 137,
            };
            (terminated(code, *ran, *at), None)
        }
        _ => (waiting("ContainerCreating"), None),
    }
}

/// Init containers are done by the time that anything else is told.
fn init_containers(entry: &Entry, phase: &str) -> Option<Value> {
    let containers = entry.pod.spec.as_ref()?.init_containers.as_ref()?;
    if phase == "Pending" {
        return None;
    }
    let all = containers.iter().map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let at = stamp(entry.begun);
        let state = if is_sidecar && phase == "Running" {
            json!({"running": {"startedAt": at}})
        } else {
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}})
        };
        json!({"name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "", "ready": true, "started": is_sidecar,
               "restartCount": 0, "state": state})
    });
    Some(all.collect::<Vec<_>>().into())
}
