use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::trial::{at, deleting, labeled, named, owned, pod, ready, status, with};
use super::*;

fn budget(spec: &Value) -> PodDisruptionBudget {
    let mut value = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
    json_patch::merge(&mut value["spec"], spec);
    named("guard", value)
}

fn own(name: &str) -> Pod {
    labeled(owned(ready(pod(name), 1), "ReplicaSet", "set"), "app", "web")
}

/// A deployment of so many, its set, and these pods.
fn world(replicas: i32, budget: PodDisruptionBudget, pods: Vec<Pod>) -> View {
    let deployment: Deployment = named(
        "web",
        json!({"spec": {"replicas": replicas, "selector": {}, "template": {}}}),
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}]);
    let set: ReplicaSet = named(
        "set",
        json!({"metadata": {"ownerReferences": owner}, "spec": {"replicas": 1, "selector": {}}}),
    );
    let view = with(with(View::default(), [deployment]), [set]);
    with(with(view, [budget]), pods)
}

/// Expected, desired, healthy, allowed.
fn counts(view: &View) -> [i64; 4] {
    let status = status(&next(view, at(100)), "guard");
    [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ]
    .map(|field| status[field].as_i64().unwrap())
}

#[test]
fn numbers_and_shares_are_counted_as_kubernetes_counts_them() {
    let three = || vec![own("a"), own("b"), own("c")];
    for (spec, asked, outcome) in [
        (json!({"minAvailable": 2}), 9, [3, 2, 3, 1]),
        (json!({"minAvailable": 5}), 3, [3, 5, 3, 0]),
        (json!({"minAvailable": "50%"}), 3, [3, 2, 3, 1]),
        (json!({"minAvailable": "50%"}), 5, [5, 3, 3, 0]),
        (json!({"maxUnavailable": 1}), 3, [3, 2, 3, 1]),
        (json!({"maxUnavailable": 1}), 4, [4, 3, 3, 0]),
        (json!({"maxUnavailable": "30%"}), 3, [3, 2, 3, 1]),
        (json!({"maxUnavailable": 0}), 3, [3, 3, 3, 0]),
        (json!({"maxUnavailable": 7}), 3, [3, 0, 3, 3]),
    ] {
        assert_eq!(
            counts(&world(asked, budget(&spec), three())),
            outcome,
            "{spec} of {asked}"
        );
    }
}

#[test]
fn pods_that_are_not_ready_or_are_going_are_not_healthy() {
    let waiting = labeled(owned(pod("w"), "ReplicaSet", "set"), "app", "web");
    let pods = vec![own("a"), waiting, deleting(own("c"))];
    assert_eq!(
        counts(&world(3, budget(&json!({"minAvailable": 1})), pods)),
        [3, 1, 1, 0]
    );
}

#[test]
fn no_pods_allow_nothing_and_no_selector_selects_none() {
    assert_eq!(
        counts(&world(3, budget(&json!({"minAvailable": 0})), vec![])),
        [0, 0, 0, 0]
    );
    let blind = budget(&json!({"minAvailable": 0, "selector": null}));
    assert_eq!(counts(&world(3, blind, vec![own("a")])), [0, 0, 0, 0]);
    let all = budget(&json!({"minAvailable": 0, "selector": {"matchLabels": null}}));
    assert_eq!(counts(&world(3, all, vec![own("a")])), [1, 0, 1, 1]);
}

#[test]
fn an_evicted_pod_does_not_count_until_it_is_seen_going_or_two_minutes_passed() {
    let mut charged = budget(&json!({"minAvailable": 1}));
    charged.status = Some(
        serde_json::from_value(
            json!({"expectedPods": 3, "desiredHealthy": 1, "currentHealthy": 3,
            "disruptionsAllowed": 1, "disruptedPods": {"a": at(50).to_string(), "gone": at(50).to_string()}}),
        )
        .unwrap(),
    );
    let pods = vec![own("a"), own("b"), own("c")];
    let view = world(3, charged, pods);
    let soon = next(&view, at(100));
    let told = status(&soon, "guard");
    assert_eq!(told["currentHealthy"], 2);
    assert_eq!(
        told["disruptedPods"],
        json!({"gone": null}),
        "it is not there any more"
    );
    assert_eq!(soon.again_at, Some(at(170)));
    let late = next(&view, at(170));
    let told = status(&late, "guard");
    assert_eq!(
        (&told["disruptionsAllowed"], &told["disruptedPods"]),
        (&json!(2), &json!(null))
    );
    assert_eq!(late.again_at, None);
}

#[test]
fn a_share_of_what_cannot_be_scaled_allows_nothing() {
    let daemon = labeled(owned(ready(pod("d"), 1), "DaemonSet", "log"), "app", "web");
    let view = world(3, budget(&json!({"maxUnavailable": 1})), vec![daemon.clone()]);
    let told = status(&next(&view, at(100)), "guard");
    assert_eq!(told["disruptionsAllowed"], 0);
    assert_eq!(told["conditions"][0]["reason"], "SyncFailed");
    let view = world(3, budget(&json!({"minAvailable": 0})), vec![daemon]);
    assert_eq!(counts(&view), [1, 0, 1, 1], "a number needs no scale");
}

#[test]
fn the_condition_changes_its_time_only_with_its_status() {
    let mut known = budget(&json!({"minAvailable": 1}));
    let first = next(&world(2, known.clone(), vec![own("a"), own("b")]), at(100));
    known.status = serde_json::from_value(status(&first, "guard")).unwrap();
    assert_eq!(
        next(&world(2, known.clone(), vec![own("a"), own("b")]), at(200)),
        Next::default()
    );
    let fewer = next(&world(2, known, vec![own("a")]), at(200));
    let condition = &status(&fewer, "guard")["conditions"][0];
    assert_eq!(condition["reason"], "InsufficientPods");
    assert_eq!(condition["lastTransitionTime"], at(200).to_string());
}

proptest! {
    #[test]
    fn what_is_allowed_never_breaks_the_budget(pods in 0i32..200, healthy_wanted in 0i32..200, healthy in 0i32..200) {
        let healthy = healthy.min(pods);
        let allowed = allowance(Expected { pods, healthy: healthy_wanted }, healthy);
        prop_assert!(allowed >= 0 && allowed <= healthy);
        prop_assert!(allowed == 0 || healthy - allowed == healthy_wanted);
        prop_assert!(pods > 0 || allowed == 0);
    }

    #[test]
    fn a_share_that_must_stay_and_the_rest_that_may_go_differ_by_rounding_alone(percent in 0i32..=100, replicas in 1i32..60) {
        let pods: Vec<Pod> = (0..replicas).map(|index| own(&format!("p{index}"))).collect();
        let [_, stay, _, _] = counts(&world(replicas, budget(&json!({"minAvailable": format!("{percent}%")})), pods.clone()));
        let [_, left, _, _] = counts(&world(replicas, budget(&json!({"maxUnavailable": format!("{}%", 100 - percent)})), pods));
        // Both round up: what stays is never less than the share, and what may go never less than its own.
        prop_assert!(stay >= left && stay - left <= 1);
    }
}
