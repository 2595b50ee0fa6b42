//! From when on pods that have come are planned for.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::tests::{index, now, pod};
use super::*;

/// A pod that came so many seconds ago, and what the scheduler has said of it.
fn came(seconds: i64, status: &Value) -> ApiPod {
    let mut pod = pod("a", None);
    let created = now() - SignedDuration::from_secs(seconds);
    pod.metadata.creation_timestamp = Some(Time(created));
    pod.status = serde_json::from_value(status.clone()).unwrap();
    pod
}

fn is_planned_for(pod: &ApiPod) -> bool {
    let index = index(std::slice::from_ref(pod), &[]);
    let needy = index.has_needy(now(), &BTreeSet::new());
    let situation = index.situation(&Types::new(), &BTreeSet::new(), now());
    assert_eq!(situation.snapshot.pending.members.len(), usize::from(needy));
    assert_eq!(
        index.pods.next_due(now()).is_some(),
        !needy,
        "it will be, unless it gets a node"
    );
    needy
}

#[test]
fn a_pod_is_left_to_the_scheduler_for_a_second_and_then_planned_for_whether_refused_or_not() {
    let unseen = json!({"phase": "Pending"});
    let refused = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    assert!(!is_planned_for(&came(0, &unseen)));
    assert!(is_planned_for(&came(1, &unseen)), "the scheduler is behind");
    assert!(is_planned_for(&came(0, &refused)));
    // A clock of ours that is behind leaves the pod to the scheduler's verdict.
    assert!(!is_planned_for(&came(-60, &unseen)));
    assert!(is_planned_for(&came(-60, &refused)));
}

#[test]
fn a_pod_for_which_the_scheduler_has_a_node_in_mind_is_not_planned_for_while_that_is_there() {
    let bound_soon = json!({"phase": "Pending", "nominatedNodeName": "n"});
    let mut index = index(&[came(30, &bound_soon)], &[]);
    assert!(index.has_needy(now(), &BTreeSet::new()), "that node is gone");
    let node = json!({"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {}});
    index.apply(&serde_json::from_value::<k8s_openapi::api::core::v1::Node>(node).unwrap());
    assert!(!index.has_needy(now(), &BTreeSet::new()));
}

#[test]
fn a_pod_is_new_once_the_scheduler_had_its_time_and_until_a_pass_has_seen_it() {
    let mut index = index(&[came(1, &json!({"phase": "Pending"}))], &[]);
    let (but, later) = (BTreeSet::new(), now() + SignedDuration::from_secs(1));
    assert!(!index.has_newly_needy(now() - SignedDuration::from_secs(1), &but));
    assert!(index.has_newly_needy(now(), &but));
    index.begin_pass(now() - SignedDuration::from_secs(1));
    assert!(
        index.has_newly_needy(now(), &but),
        "that pass left it to the scheduler"
    );
    index.begin_pass(now());
    assert!(!index.has_newly_needy(later, &but));
    assert!(index.has_needy(later, &but), "it is as needy as before");
}

#[test]
fn a_clock_that_is_ahead_makes_no_pod_one_that_was_planned_for_before_it_came() {
    let mut index = index(&[came(60, &json!({"phase": "Pending"}))], &[]);
    index.begin_pass(now());
    let mut other = came(60, &json!({"phase": "Pending"}));
    other.metadata.uid = Some("b".to_owned());
    index.apply_pod(&other);
    assert!(index.has_newly_needy(now(), &BTreeSet::new()));
}
