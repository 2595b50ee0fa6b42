//! Pods: how many of the containers are ready, and the one word for how the pod is.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::column::{Printer, age, condition, list, named, number, text, text_or};
use super::duration;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    (group.is_empty() && plural == "pods").then_some(Printer {
        columns: "Name/name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*",
        cells,
    })
}

/// What kubectl may want to know before it shows the row at all.
pub(super) fn row_conditions(kind: &Kind, pod: &Value) -> Option<Value> {
    if kind.plural != "pods" || !kind.group.is_empty() {
        return None;
    }
    let message = match text(pod, "status.phase") {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(
        json!([{"type": "Completed", "status": "True", "reason": text(pod, "status.phase"), "message": message}]),
    )
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.restarted_at.filter(|_| summary.restarts != 0) {
        Some(at) => format!(
            "{} ({} ago)",
            summary.restarts,
            duration::human(now.duration_since(at))
        ),
        None => summary.restarts.to_string(),
    };
    vec![
        named(pod),
        format!("{}/{}", summary.ready, total(pod)).into(),
        reason(pod, summary.reason).into(),
        restarts.into(),
        age(pod, now),
        list(pod, "status.podIPs")
            .first()
            .map_or("<none>", |address| text_or(address, "ip", "<none>"))
            .into(),
        text_or(pod, "spec.nodeName", "<none>").into(),
        text_or(pod, "status.nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// Containers that are meant to run, with the sidecars among the init containers.
fn total(pod: &Value) -> usize {
    let sidecars = list(pod, "spec.initContainers")
        .iter()
        .filter(|container| is_sidecar(container));
    list(pod, "spec.containers").len() + sidecars.count()
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// What becomes of the word once the whole pod is going.
fn reason(pod: &Value, so_far: String) -> String {
    let ended = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    match object::is_deleting(pod) {
        true if text(pod, "status.reason") == "NodeLost" => "Unknown".to_owned(),
        true if !ended => "Terminating".to_owned(),
        _ => so_far,
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| condition(pod, text(gate, "conditionType")) == Some("True"));
    format!("{}/{}", open.count(), gates.len())
}

/// What the containers say together.
#[derive(Debug, Default)]
struct Summary {
    ready: usize,
    restarts: i64,
    restarted_at: Option<Timestamp>,
    reason: String,
}

/// How far the init containers are.
enum Init {
    Done,
    /// One of them has not finished; the rest have not begun.
    Stuck,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let mut summary = Self {
            reason: text_or(pod, "status.reason", text(pod, "status.phase")).to_owned(),
            ..Self::default()
        };
        let gated = list(pod, "status.conditions")
            .iter()
            .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
        if gated {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let mut sidecars = Self::default();
        let init = summary.add_init_containers(pod, &mut sidecars);
        if matches!(init, Init::Done) || condition(pod, "Initialized") == Some("True") {
            summary.restarts = sidecars.restarts;
            summary.restarted_at = sidecars.restarted_at;
            summary.add_containers(pod);
        }
        summary
    }

    fn add_init_containers(&mut self, pod: &Value, sidecars: &mut Self) -> Init {
        let specs = list(pod, "spec.initContainers");
        for (index, status) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            self.count_restarts(status);
            let sidecar = specs
                .iter()
                .any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            if sidecar {
                sidecars.count_restarts(status);
            }
            let (terminated, waiting) = (
                &status["state"]["terminated"],
                text(status, "state.waiting.reason"),
            );
            if terminated.is_object() && number(terminated, "exitCode") == 0 {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.reason = if terminated.is_object() {
                format!("Init:{}", ending(terminated))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return Init::Stuck;
        }
        Init::Done
    }

    fn add_containers(&mut self, pod: &Value) {
        let (mut running, mut failure) = (false, None);
        // The first container has the last word.
        for status in list(pod, "status.containerStatuses").iter().rev() {
            self.count_restarts(status);
            let (terminated, waiting) = (
                &status["state"]["terminated"],
                text(status, "state.waiting.reason"),
            );
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if terminated.is_object() {
                self.reason = ending(terminated);
                if number(terminated, "exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status["ready"] == true && status["state"]["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        let ready = condition(pod, "Ready") == Some("True");
        self.reason = match failure {
            _ if running && ready => "Running".to_owned(),
            Some(failure) => failure,
            None if running => "NotReady".to_owned(),
            None => return,
        };
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "restartCount");
        let ended = duration::parse(&status["lastState"]["terminated"]["finishedAt"]);
        self.restarted_at = self.restarted_at.max(ended);
    }
}

/// Why a container ended.
fn ending(terminated: &Value) -> String {
    match (text(terminated, "reason"), number(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
