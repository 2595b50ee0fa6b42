use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;

fn pod(uid: &str, revision: u64, spec: Value, status: Value) -> Pod {
    let mut all = json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "resourceVersion": revision.to_string()},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
    });
    all["status"] = status;
    let Value::Object(spec) = spec else {
        panic!("a specification is an object");
    };
    for (field, value) in spec {
        all["spec"][field] = value;
    }
    serde_json::from_value(all).unwrap()
}

fn unschedulable() -> Value {
    json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
}

fn node(revision: u64, beat: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n", "resourceVersion": revision.to_string(), "labels": {"zone": "a"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}],
        },
    }))
    .unwrap()
}

#[test]
fn a_pod_that_waits_is_demand_and_is_forgotten_when_it_is_placed_and_gone() {
    let mut index = Index::default();
    index.apply_pod(&pod("p", 1, json!({}), json!({"phase": "Pending"})));
    let foreseen = Marks {
        last_arrival: 1,
        ..Marks::default()
    };
    assert_eq!(index.marks(), foreseen, "the scheduler may place it");
    index.apply_pod(&pod("p", 2, json!({}), unschedulable()));
    assert_eq!(index.marks().demand, 1);
    index.apply_pod(&pod(
        "p",
        3,
        json!({"nodeName": "n"}),
        json!({"phase": "Running"}),
    ));
    assert_eq!(index.marks().last_arrival, 0);
    assert_eq!(index.pods.on("n").count(), 1);
    index.apply_pod(&pod(
        "p",
        4,
        json!({"nodeName": "n"}),
        json!({"phase": "Succeeded"}),
    ));
    assert_eq!(index.pods.size(), (0, 0, 0));
}

#[test]
fn that_a_pod_is_refused_is_no_news_once_it_was_planned_for() {
    let mut index = Index::default();
    let unseen = |index: &mut Index, uid: &str, revision| {
        index.apply_pod(&pod(uid, revision, json!({}), json!({"phase": "Pending"})));
    };
    unseen(&mut index, "early", 1);
    let known = index.begin_pass(Timestamp::UNIX_EPOCH);
    unseen(&mut index, "late", 2);
    assert!(!index.marks().are_news_to(known), "it may get a node");
    index.apply_pod(&pod("early", 3, json!({}), unschedulable()));
    assert!(!index.marks().are_news_to(known), "this was foreseen");
    index.apply_pod(&pod("late", 4, json!({}), unschedulable()));
    assert!(index.marks().are_news_to(known), "nobody has planned for it");
}

#[test]
fn the_last_arrival_is_the_last_of_those_that_wait_still() {
    let mut index = Index::default();
    for (uid, revision) in [("a", 1), ("b", 2), ("c", 3)] {
        index.apply_pod(&pod(uid, revision, json!({}), json!({"phase": "Pending"})));
    }
    assert_eq!(index.marks().last_arrival, 3);
    let placed = |uid, revision| {
        pod(
            uid,
            revision,
            json!({"nodeName": "n"}),
            json!({"phase": "Running"}),
        )
    };
    index.apply_pod(&placed("c", 4));
    assert_eq!(index.marks().last_arrival, 2);
    index.apply_pod(&placed("a", 5));
    assert_eq!(index.marks().last_arrival, 2);
    index.remove_pod(&pod("b", 6, json!({}), json!({})));
    assert_eq!(index.marks().last_arrival, 0);
}

#[test]
fn a_pod_that_is_held_or_another_schedulers_waits_once_it_was_refused_and_no_sooner() {
    let gated = json!({"schedulingGates": [{"name": "quota"}]});
    let others = json!({"schedulerName": "batch"});
    let held = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]});
    for (spec, status) in [
        (gated.clone(), json!({"phase": "Pending"})),
        (json!({}), held),
        (others.clone(), json!({"phase": "Pending"})),
    ] {
        let mut index = Index::default();
        index.apply_pod(&pod("p", 1, spec.clone(), status));
        assert_eq!(
            (index.marks().demand, index.pods.any_waiting()),
            (0, false),
            "{spec}"
        );
        index.apply_pod(&pod("p", 2, others.clone(), unschedulable()));
        assert_eq!(
            (index.marks().demand, index.pods.any_waiting()),
            (1, true),
            "{spec}"
        );
    }
}

#[test]
fn pods_of_daemon_sets_and_those_that_refuse_all_pools_do_not_wait() {
    let mut index = Index::default();
    let mut daemon = pod("d", 1, json!({}), unschedulable());
    daemon.metadata.owner_references = serde_json::from_value(
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]),
    )
    .unwrap();
    index.apply_pod(&daemon);
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}],
    }}}});
    index.apply_pod(&pod("r", 2, affinity, unschedulable()));
    assert_eq!(index.marks(), Marks::default());
    assert_eq!(index.pods.size(), (0, 0, 0));
}

#[test]
fn a_hundred_thousand_irrelevant_events_change_nothing_and_take_no_room() {
    let mut index = Index::default();
    let running = json!({"nodeName": "n"});
    index.apply(&node(1, "2026-11-16T10:00:00Z"));
    index.apply_pod(&pod("p", 2, running.clone(), json!({"phase": "Running"})));
    let (marks, size) = (index.marks(), index.pods.size());
    for event in 0..25_000_u64 {
        let revision = 10 + event * 4;
        index.apply(&node(revision, &format!("2026-11-16T10:00:{:02}Z", event % 60)));
        let restarts = json!({"phase": "Running", "message": event.to_string()});
        index.apply_pod(&pod("p", revision + 1, running.clone(), restarts));
        let job = format!("job-{event}");
        index.apply_pod(&pod(&job, revision + 2, json!({}), json!({"phase": "Succeeded"})));
        index.remove_pod(&pod(&job, revision + 3, json!({}), json!({"phase": "Succeeded"})));
    }
    assert_eq!(index.marks(), marks, "no pass is due");
    assert_eq!(index.pods.size(), size, "nothing is remembered");
    assert_eq!(index.nodes.len(), 1);
}

#[test]
fn twenty_thousand_pods_of_one_deployment_are_one_class() {
    let mut index = Index::default();
    for number in 0..20_000_u64 {
        index.apply_pod(&pod(
            &format!("web-{number}"),
            number + 1,
            json!({}),
            unschedulable(),
        ));
    }
    assert_eq!(index.pods.size(), (20_000, 1, 20_000));
    assert_eq!(index.marks().demand, 20_000);
}

#[test]
fn our_own_write_counts_at_once_and_is_no_news_when_the_watch_brings_it() {
    let claim: crate::api::NodeClaim = serde_json::from_value(json!({
        "metadata": {"name": "a", "resourceVersion": "5"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
    }))
    .unwrap();
    let mut index = Index::default();
    index.note(&claim);
    assert!(index.claims.get("a").is_some());
    index.apply(&claim);
    assert_eq!(index.marks(), Marks::default());
}
