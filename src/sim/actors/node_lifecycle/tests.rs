use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Taint};
use serde_json::{Value, json};

use super::*;
use crate::sim::actors::scheduler::samples::{add, carry_out, on, pod, view, zoned};
use crate::sim::actors::scheduler::taints;
use crate::sim::actors::view::Key;

fn at(seconds: i64) -> Timestamp {
    let epoch: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    epoch + SignedDuration::from_secs(seconds)
}

fn beat(view: &mut View, node: &str, seconds: i64) {
    let version = (seconds + 1).to_string();
    add::<Lease>(
        view,
        json!({"metadata": {"name": node, "namespace": "kube-node-lease", "resourceVersion": version},
               "spec": {"renewTime": at(seconds).to_string().replace('Z', ".000000Z")}}),
    );
}

/// A pod that leaves an unhealthy node after 300 seconds, as the API server makes all pods.
fn patient(name: &str, node: &str) -> Pod {
    let wait = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
               "tolerationSeconds": 300})
    };
    let tolerations = json!([wait("not-ready"), wait("unreachable")]);
    let mut pod = on(node, pod(name, &json!({}), json!({"tolerations": tolerations})));
    pod.status =
        serde_json::from_value(json!({"conditions": [{"type": "Ready", "status": "True"}]})).unwrap();
    pod
}

/// Asks again and again at a moment until nothing is left to do; returns when to ask next.
fn settle(view: &mut View, seconds: i64) -> Option<Timestamp> {
    for _ in 0..20 {
        let next = next(view, at(seconds));
        if next.acts.is_empty() {
            return next.again_at;
        }
        carry_out(view, &next, at(seconds));
    }
    panic!("it never comes to rest");
}

fn tainted(view: &View, node: &str) -> Vec<String> {
    let text = |taint: &Taint| {
        format!(
            "{}:{}",
            taint.key.trim_start_matches("node.kubernetes.io/"),
            taint.effect
        )
    };
    taints::of(&view.nodes[node]).iter().map(text).collect()
}

fn ready(view: &View, node: &str) -> (String, String) {
    let ready = condition(&view.nodes[node], "Ready").unwrap();
    (ready.status.clone(), ready.reason.clone().unwrap_or_default())
}

fn deleted(view: &View, pod: &str) -> bool {
    view.pods[&Key::new("default", pod)]
        .metadata
        .deletion_timestamp
        .is_some()
}

#[test]
fn a_silent_node_becomes_unknown_then_tainted_and_its_pods_go_after_their_time() {
    let mut view = view(
        &[zoned("n1", "a"), zoned("n2", "a")],
        &[patient("p", "n1"), patient("q", "n2")],
    );
    beat(&mut view, "n1", 0);
    beat(&mut view, "n2", 0);
    assert_eq!(settle(&mut view, 39), Some(at(40)));
    assert_eq!(ready(&view, "n1").0, "True");

    beat(&mut view, "n2", 35);
    settle(&mut view, 40);
    assert_eq!(
        ready(&view, "n1"),
        ("Unknown".to_owned(), "NodeStatusUnknown".to_owned())
    );
    assert_eq!(
        tainted(&view, "n1"),
        ["unreachable:NoSchedule", "unreachable:NoExecute"]
    );
    assert_eq!(tainted(&view, "n2"), Vec::<String>::new());
    let not_ready = view.pods[&Key::new("default", "p")]
        .status
        .clone()
        .unwrap()
        .conditions
        .unwrap();
    assert_eq!(not_ready[0].status, "False");

    beat(&mut view, "n2", 339);
    assert_eq!(settle(&mut view, 339), Some(at(340)));
    assert!(!deleted(&view, "p"));
    settle(&mut view, 340);
    assert!(deleted(&view, "p") && !deleted(&view, "q"));
    let why = view.pods[&Key::new("default", "p")]
        .status
        .clone()
        .unwrap()
        .conditions
        .unwrap();
    assert!(
        why.iter()
            .any(|one| one.reason.as_deref() == Some("DeletionByTaintManager"))
    );
}

#[test]
fn a_node_that_comes_back_is_free_at_once() {
    let mut view = view(&[zoned("n1", "a"), zoned("n2", "a")], &[patient("p", "n1")]);
    beat(&mut view, "n2", 100);
    settle(&mut view, 100);
    assert_eq!(tainted(&view, "n1").len(), 2);
    beat(&mut view, "n1", 110);
    let mut back = (*view.nodes["n1"]).clone();
    back.metadata.resource_version = Some("99".to_owned());
    back.status.as_mut().unwrap().conditions =
        serde_json::from_value(json!([{"type": "Ready", "status": "True"}])).unwrap();
    view.apply(back);
    settle(&mut view, 110);
    assert_eq!(tainted(&view, "n1"), Vec::<String>::new());
    settle(&mut view, 500);
    assert!(!deleted(&view, "p"));
}

#[test]
fn conditions_and_cordons_are_taints() {
    let table = [
        (
            json!([{"type": "Ready", "status": "False"}]),
            vec!["not-ready:NoSchedule", "not-ready:NoExecute"],
        ),
        (
            json!([{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]),
            vec!["memory-pressure:NoSchedule"],
        ),
        (
            json!([{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"},
                {"type": "PIDPressure", "status": "True"}, {"type": "NetworkUnavailable", "status": "True"}]),
            vec![
                "disk-pressure:NoSchedule",
                "network-unavailable:NoSchedule",
                "pid-pressure:NoSchedule",
            ],
        ),
    ];
    for (conditions, expected) in table {
        let mut node = zoned("n1", "a");
        node.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
        node.spec = serde_json::from_value(json!({"taints": [{"key": "own", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}))
        .unwrap();
        let mut view = view(&[node, zoned("n2", "a")], &[]);
        beat(&mut view, "n1", 0);
        beat(&mut view, "n2", 0);
        settle(&mut view, 1);
        let mut all = vec!["own:NoSchedule"];
        all.extend(expected);
        assert_eq!(
            tainted(&view, "n1"),
            all,
            "the cordon is gone, the foreign taint is not"
        );
    }
}

fn down(zones: &[(&str, usize, usize)]) -> View {
    let mut view = view(&[], &[]);
    for (zone, up, down) in zones {
        for number in 0..up + down {
            let name = format!("{zone}{number:02}");
            view.apply(zoned(&name, zone));
            if number < *up {
                beat(&mut view, &name, 1000);
            }
        }
    }
    view
}

fn evicting(view: &View) -> usize {
    let doomed =
        |node: &&std::sync::Arc<Node>| taints::of(node).iter().any(|taint| taint.effect == "NoExecute");
    view.nodes.values().filter(doomed).count()
}

#[test]
fn one_node_in_ten_seconds_loses_its_pods() {
    let mut view = down(&[("a", 7, 3)]);
    for (seconds, expected) in [(1000, 1), (1009, 1), (1010, 2), (1020, 3)] {
        settle(&mut view, seconds);
        assert_eq!(evicting(&view), expected, "after {seconds} s");
    }
}

#[test]
fn an_outage_of_most_of_a_zone_stops_evictions_of_a_zone_alone_does_not() {
    let mut most = down(&[("a", 2, 3), ("b", 5, 0)]);
    settle(&mut most, 1000);
    assert_eq!(evicting(&most), 0);
    let mut whole = down(&[("a", 0, 3), ("b", 5, 0)]);
    settle(&mut whole, 1000);
    assert_eq!(evicting(&whole), 1);
}

#[test]
fn when_nobody_is_heard_of_nothing_is_evicted() {
    let mut view = down(&[("a", 1, 2), ("b", 1, 0)]);
    settle(&mut view, 1000);
    assert_eq!(evicting(&view), 1);
    settle(&mut view, 1100);
    assert_eq!(
        evicting(&view),
        0,
        "taints are taken back: it is we who are cut off"
    );
}

#[test]
fn a_taint_without_a_time_gets_one_when_a_pod_waits_for_it() {
    let mut node = zoned("n1", "a");
    node.spec = serde_json::from_value(json!({"taints": [{"key": "x", "effect": "NoExecute"}]})).unwrap();
    let tolerating = |name: &str, seconds: Value| {
        let toleration = json!({"key": "x", "operator": "Exists", "tolerationSeconds": seconds});
        on("n1", pod(name, &json!({}), json!({"tolerations": [toleration]})))
    };
    let pods = [
        tolerating("soon", json!(60)),
        tolerating("never", json!(null)),
        on("n1", pod("now", &json!({}), json!({}))),
    ];
    let mut view = view(&[node], &pods);
    beat(&mut view, "n1", 1000);
    settle(&mut view, 100);
    assert_eq!((deleted(&view, "now"), deleted(&view, "soon")), (true, false));
    settle(&mut view, 160);
    assert_eq!((deleted(&view, "soon"), deleted(&view, "never")), (true, false));
}

#[test]
fn a_node_that_never_spoke_has_longer() {
    let mut node = zoned("n1", "a");
    node.status.as_mut().unwrap().conditions = None;
    node.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    let mut view = view(&[node, zoned("n2", "a")], &[]);
    beat(&mut view, "n2", 100);
    assert_eq!(settle(&mut view, 59), Some(at(60)));
    settle(&mut view, 60);
    assert_eq!(
        ready(&view, "n1"),
        ("Unknown".to_owned(), "NodeStatusNeverUpdated".to_owned())
    );
}

#[test]
fn nodes_without_a_machine_are_deleted_only_on_request() {
    let mut node = zoned("n1", "a");
    node.spec = serde_json::from_value(json!({"providerID": "ibm:///us-south/1"})).unwrap();
    node.status.as_mut().unwrap().conditions =
        serde_json::from_value(json!([{"type": "Ready", "status": "Unknown"}])).unwrap();
    let view = view(&[node, zoned("n2", "a")], &[]);
    let deletes = |gone: CloudNodeGc| {
        let options = Options {
            cloud_node_gc: gone,
            ..Options::default()
        };
        let next = decide(&view, at(0), &options);
        next.acts
            .iter()
            .filter(|act| matches!(act, Act::Delete { .. }))
            .count()
    };
    assert_eq!(deletes(CloudNodeGc::Off), 0);
    assert_eq!(
        deletes(CloudNodeGc::On {
            gone: BTreeSet::new()
        }),
        0
    );
    assert_eq!(
        deletes(CloudNodeGc::On {
            gone: BTreeSet::from(["ibm:///us-south/1".to_owned()])
        }),
        1
    );
}
