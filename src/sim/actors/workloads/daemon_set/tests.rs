use serde_json::{Value, json};

use super::super::trial::{
    at, deeds, deleting, in_phase, labeled, named, node as made, on, owned, pod, ready, status, told, with,
};
use super::*;

fn set(spec: &Value) -> DaemonSet {
    let template = json!({"metadata": {"labels": {"app": "log"}}, "spec": spec});
    named(
        "log",
        json!({"spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template}}),
    )
}

fn plain() -> DaemonSet {
    set(&json!({"containers": []}))
}

fn own(name: &str, node: &str) -> Pod {
    let revision = hash(&plain().spec.template, 0);
    labeled(
        on(owned(ready(pod(name), 10), "DaemonSet", "log"), node),
        REVISION_HASH,
        &revision,
    )
}

fn seen(set: DaemonSet, nodes: Vec<Node>, pods: Vec<Pod>) -> Next {
    next(&with(with(with(View::default(), [set]), nodes), pods), at(100))
}

fn tainted(name: &str, key: &str, effect: &str) -> Node {
    made(
        name,
        json!({"spec": {"taints": [{"key": key, "effect": effect}]}}),
    )
}

#[test]
fn every_node_gets_a_pod_that_is_tied_to_it() {
    let wanted = seen(
        plain(),
        vec![made("a", json!({})), made("b", json!({}))],
        vec![own("p", "a")],
    );
    assert_eq!(deeds(&wanted), ["create Pod log-"]);
    let Act::Create { object, .. } = &wanted.acts[0] else {
        panic!("{wanted:?}")
    };
    let made: Pod = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(target(&made), Some("b"));
    assert_eq!(node(&made), None, "the scheduler binds it");
    let tolerated = made.spec.unwrap().tolerations.unwrap();
    assert!(
        tolerated
            .iter()
            .any(|one| one.key.as_deref() == Some("node.kubernetes.io/not-ready"))
    );
}

#[test]
fn a_pod_that_waits_for_its_node_counts() {
    let revision = hash(&plain().spec.template, 0);
    let waiting = labeled(owned(pod("p"), "DaemonSet", "log"), REVISION_HASH, &revision);
    let waiting = pin(waiting, "a");
    let wanted = seen(plain(), vec![made("a", json!({}))], vec![waiting]);
    assert_eq!(deeds(&wanted), Vec::<String>::new());
}

#[test]
fn nodes_that_are_not_meant_get_none() {
    let chosen = set(&json!({"containers": [], "nodeSelector": {"disk": "fast"}}));
    let fast = made("a", json!({"metadata": {"labels": {"disk": "fast"}}}));
    let wanted = seen(chosen, vec![fast, made("b", json!({}))], vec![own("p", "b")]);
    assert_eq!(deeds(&wanted), ["create Pod log-", "delete p"]);
}

#[test]
fn taints_keep_pods_away_and_some_drive_them_out() {
    let nodes = || {
        vec![
            tainted("a", "node.kubernetes.io/not-ready", "NoExecute"),
            tainted("b", "gpu", "NoSchedule"),
            tainted("c", "gpu", "NoExecute"),
        ]
    };
    assert_eq!(
        deeds(&seen(plain(), nodes(), vec![])),
        ["create Pod log-"],
        "only where it is tolerated"
    );
    let pods = vec![own("on-a", "a"), own("on-b", "b"), own("on-c", "c")];
    assert_eq!(deeds(&seen(plain(), nodes(), pods)), ["delete on-c"]);
}

#[test]
fn failed_and_double_pods_go_and_going_ones_are_waited_for() {
    let nodes = || vec![made("a", json!({}))];
    let failed = in_phase(own("f", "a"), "Failed");
    assert_eq!(deeds(&seen(plain(), nodes(), vec![failed])), ["delete f"]);
    let two = vec![own("p", "a"), own("q", "a")];
    assert_eq!(deeds(&seen(plain(), nodes(), two)), ["delete q"]);
    assert_eq!(
        deeds(&seen(plain(), nodes(), vec![deleting(own("p", "a"))])),
        Vec::<String>::new()
    );
}

#[test]
fn a_pod_for_a_node_that_went_away_is_taken_back() {
    let waiting = pin(owned(pod("p"), "DaemonSet", "log"), "gone");
    assert_eq!(deeds(&seen(plain(), vec![], vec![waiting])), ["delete p"]);
    assert_eq!(
        deeds(&seen(plain(), vec![], vec![own("q", "gone")])),
        Vec::<String>::new()
    );
}

#[test]
fn an_update_replaces_one_after_the_other_and_the_broken_at_once() {
    let old = |name: &str, node: &str| labeled(own(name, node), REVISION_HASH, "old");
    let nodes = || ["a", "b", "c"].map(|name| made(name, json!({}))).to_vec();
    let pods = vec![old("p", "a"), old("q", "b"), own("r", "c")];
    assert_eq!(deeds(&seen(plain(), nodes(), pods)), ["delete p"]);
    let broken = in_phase(old("q", "b"), "Pending");
    let broken = Pod {
        status: broken.status.map(|mut status| {
            status.conditions = None;
            status
        }),
        ..broken
    };
    let pods = vec![old("p", "a"), broken, own("r", "c")];
    assert_eq!(
        deeds(&seen(plain(), nodes(), pods)),
        ["delete q"],
        "one is missing already"
    );
}

#[test]
fn the_status_counts_nodes_and_is_written_once() {
    let nodes = || {
        vec![
            made("a", json!({})),
            made("b", json!({})),
            tainted("c", "gpu", "NoSchedule"),
        ]
    };
    let pods = || vec![own("p", "a"), own("q", "b"), own("r", "c")];
    let status = status(&seen(plain(), nodes(), pods()), "log");
    assert_eq!(
        status,
        json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 1, "numberReady": 2,
               "numberAvailable": 2, "updatedNumberScheduled": 2, "observedGeneration": 1})
    );
    let mut settled = plain();
    settled.status = serde_json::from_value(status).unwrap();
    assert_eq!(told(&seen(settled, nodes(), pods())), Vec::<String>::new());
}
