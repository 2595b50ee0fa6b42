//! Pods that nobody runs any more: those whose node is gone, those that were deleted before they got one, and those that
//! were deleted on a node that is not ready and that somebody has said to be out of service.
//!
//! A node that is missing is waited for: it may be a kubelet that registers again, or a view that lags behind. Nothing
//! is collected for being finished alone; the real collector begins with that at 12,500 pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodStatus};

use super::pods::{is_deleting, is_finished, node};
use super::status::{corrected, moment};
use crate::clock::later;
use crate::sim::actors::control_plane::{Act, Actor, Next};
use crate::sim::actors::scheduler::taints::{self, OUT_OF_SERVICE};
use crate::sim::actors::view::{Kind, View};

/// The collector.
pub(super) const ACTOR: Actor = Actor {
    name: "pod-garbage-collector",
    reads: &[Kind::Node, Kind::Pod],
    glances: &[],
    next,
};

/// How long a node must be missing, as the real collector waits.
const QUARANTINE: Duration = Duration::from_secs(40);

/// What is to be collected.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    for pod in view.pods.values() {
        let Some(name) = node(pod) else {
            if is_deleting(pod) {
                next.act(Act::delete_now(pod.as_ref()));
            }
            continue;
        };
        if is_deleting(pod) && view.nodes.get(name).is_some_and(|node| is_out_of_service(node)) {
            collect(pod, None, &mut next);
            continue;
        }
        let Some(since) = view.absent.get(name).filter(|_| !view.nodes.contains_key(name)) else {
            continue;
        };
        match later(*since, QUARANTINE) {
            at if at > now => next.again(at),
            _ => collect(pod, Some(lost(now)), &mut next),
        }
    }
    next
}

/// Whether nobody will hear of the end of a node's pods.
fn is_out_of_service(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    !is_ready && taints::of(node).iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// A pod that did not finish has failed, and says so before it goes: its job must see that.
fn collect(pod: &Pod, why: Option<PodCondition>, next: &mut Next) {
    if !is_finished(pod) {
        let failed = failed(pod.status.clone().unwrap_or_default(), why);
        next.acts.extend(corrected(pod, pod.status.as_ref(), &failed));
    }
    next.act(Act::delete_now(pod));
}

fn failed(mut status: PodStatus, why: Option<PodCondition>) -> PodStatus {
    status.phase = Some("Failed".to_owned());
    if let Some(why) = why {
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != why.type_);
        conditions.push(why);
    }
    status
}

fn lost(now: Timestamp) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("DeletionByPodGC".to_owned()),
        message: Some("PodGC: node no longer exists".to_owned()),
        last_transition_time: Some(moment(now)),
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trial::{at, deeds, deleting, in_phase, on, pod, ready, status, told, with};
    use super::*;

    fn seen(pods: Vec<Pod>, since: i64, now: i64) -> Next {
        let mut view = with(View::default(), pods);
        view.note_absence(at(since));
        next(&view, at(now))
    }

    #[test]
    fn a_pod_whose_node_is_gone_for_long_fails_and_goes() {
        let lost = || vec![on(ready(pod("lost"), 1), "gone")];
        let waiting = seen(lost(), 100, 139);
        assert_eq!((told(&waiting), waiting.again_at), (vec![], Some(at(140))));
        let going = seen(lost(), 100, 140);
        assert_eq!(deeds(&going), ["delete lost now"]);
        let status = status(&going, "lost");
        assert_eq!(status["phase"], "Failed");
        assert_eq!(status["conditions"][1]["reason"], json!("DeletionByPodGC"));
    }

    #[test]
    fn a_finished_pod_goes_as_it_is() {
        let done = vec![on(in_phase(pod("done"), "Succeeded"), "gone")];
        assert_eq!(told(&seen(done, 0, 40)), ["delete done now"]);
    }

    #[test]
    fn pods_of_nodes_that_are_there_and_pods_that_wait_for_one_stay() {
        let view = with(View::default(), [on(pod("a"), "n"), pod("b")]);
        let mut view = with(view, [super::super::trial::node("n", json!({}))]);
        view.note_absence(at(0));
        assert_eq!(next(&view, at(1_000)), Next::default());
    }

    #[test]
    fn a_deleted_pod_goes_from_a_node_that_is_down_and_out_of_service() {
        let pods = || {
            [
                on(pod("stays"), "n"),
                on(deleting(pod("waits")), "n"),
                on(deleting(in_phase(pod("done"), "Succeeded")), "n"),
            ]
        };
        let out = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
        for (ready, taints, gone) in [
            ("Unknown", &out, true),
            ("True", &out, false),
            ("Unknown", &json!([]), false),
        ] {
            let state = json!({"spec": {"taints": taints},
                               "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            let down = super::super::trial::node("n", state);
            let wanted = next(&with(with(View::default(), [down]), pods()), at(0));
            if !gone {
                assert_eq!(wanted, Next::default(), "{ready} {taints}");
                continue;
            }
            let deeds = deeds(&wanted);
            assert_eq!(deeds, ["delete done now", "delete waits now"]);
            assert_eq!(status(&wanted, "waits"), json!({"phase": "Failed"}));
            assert_eq!(status(&wanted, "done"), json!(null));
        }
    }

    #[test]
    fn a_pod_deleted_before_it_was_placed_goes_at_once() {
        assert_eq!(told(&seen(vec![deleting(pod("p"))], 0, 1)), ["delete p now"]);
    }
}
