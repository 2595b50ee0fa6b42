//! What daemons still to come keep of a node, and which of those that are there count for them.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node as ApiNode, Pod as ApiPod};
use serde_json::{Value, json};

use super::tests::{claim, index, kind_of, limited_pool, now, pod};
use super::*;
use crate::scheduling::{Destination, Options, solve};

fn daemon_set(name: &str, cpu: &str, fields: &Value) -> DaemonSet {
    let mut spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]});
    json_patch::merge(&mut spec, fields);
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {}, "template": {"spec": spec}},
    }))
    .unwrap()
}

fn asking(mut pod: ApiPod, cpu: &str) -> ApiPod {
    let asked = json!({"requests": {"cpu": cpu}});
    pod.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(asked).unwrap();
    pod
}

/// A pod on the node, owned by an object of this kind and name.
fn owned(uid: &str, (group, kind, name): (&str, &str, &str), cpu: &str) -> ApiPod {
    let mut pod = asking(pod(uid, Some("n")), cpu);
    let owner = &mut pod.metadata.owner_references.as_mut().unwrap()[0];
    owner.api_version = group.to_owned();
    (owner.kind, owner.name) = (kind.to_owned(), name.to_owned());
    pod
}

/// A daemon on the node, of the DaemonSet of this name.
fn daemon(uid: &str, name: &str, cpu: &str) -> ApiPod {
    owned(uid, ("apps/v1", "DaemonSet", name), cpu)
}

/// Whether a pod that waits is planned for what is there, and not for a new machine.
fn finds_a_place(mut index: Index, cpu: &str) -> bool {
    let of = |name: &str| {
        let (mut kind, linux) = (kind_of(name, 8), crate::model::Values::one_of(["linux"]));
        kind.requirements.narrow(names::OS, &linux);
        kind
    };
    let types: Types = [("p".to_owned(), Arc::new(vec![of("large"), of("other")]))].into();
    index.apply(&limited_pool("100"));
    index.apply_pod(&asking(pod("waits", None), cpu));
    let situation = index.situation(&types, &BTreeSet::new(), now());
    let plan = solve(&situation.snapshot, Options::default(), &|| true);
    assert_eq!(crate::audit::plan(&situation.snapshot, &plan), []);
    assert_eq!(plan.placements.len(), 1);
    matches!(plan.placements[0].on, Destination::Existing(_))
}

/// The most that a pod may ask for to be planned for a node of two processors with these pods on it, in tenths of one.
fn room(sets: &[DaemonSet], there: &[ApiPod]) -> usize {
    let fits = |tenths: &usize| {
        let mut index = index(there, &[]);
        let has = json!({"cpu": "2", "pods": "10"});
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": has, "capacity": has}});
        let node: ApiNode = serde_json::from_value(node).unwrap();
        index.apply(&node);
        for set in sets {
            index.apply(set);
        }
        finds_a_place(index, &format!("{}m", tenths * 100))
    };
    (1..=20).take_while(fits).count()
}

#[test]
fn a_daemon_that_is_there_already_is_not_expected_again() {
    let log = || daemon_set("log", "500m", &json!({}));
    assert_eq!(room(&[], &[]), 20);
    assert_eq!(room(&[log()], &[]), 15, "it will come");
    assert_eq!(room(&[log()], &[daemon("a", "log", "500m")]), 15, "it is there");
    let mut ending = daemon("a", "log", "500m");
    ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-16T09:59:00Z")).unwrap();
    assert_eq!(room(&[log()], &[ending]), 15, "the next one takes its room");
}

#[test]
fn a_daemon_that_nobody_expects_leaves_the_others_their_share() {
    let log = || daemon_set("log", "500m", &json!({}));
    let away = daemon_set("away", "500m", &json!({"nodeSelector": {"disk": "fast"}}));
    let mut namesake = daemon("a", "log", "500m");
    namesake.metadata.namespace = Some("other".to_owned());
    for there in [
        daemon("a", "gone", "500m"),
        daemon("a", "away", "500m"),
        namesake,
        owned("a", ("example.com/v1", "DaemonSet", "log"), "500m"),
        owned("a", ("v1", "Node", "n"), "500m"),
    ] {
        let sets = [log(), away.clone()];
        assert_eq!(room(&sets, std::slice::from_ref(&there)), 10, "{there:?}");
    }
}

#[test]
fn a_daemon_that_asks_for_more_than_its_daemon_set_says_by_now_leaves_the_others_their_share() {
    let sets = [
        daemon_set("log", "200m", &json!({})),
        daemon_set("mesh", "500m", &json!({})),
    ];
    assert_eq!(room(&sets, &[daemon("a", "log", "700m")]), 8);
    let surging = [daemon("a", "log", "200m"), daemon("b", "log", "200m")];
    assert_eq!(room(&sets, &surging), 11, "two of one are none of the other");
}

#[test]
fn a_daemon_that_asks_for_less_than_its_daemon_set_says_by_now_is_expected_to_grow() {
    let sets = [daemon_set("log", "500m", &json!({}))];
    assert_eq!(room(&sets, &[daemon("a", "log", "200m")]), 15);
}

/// It asks for two processors: for a pod of one, and for whatever else will be there.
#[test]
fn what_a_claim_that_nothing_was_chosen_for_asks_for_its_daemons_is_promised_to_nobody_else() {
    let asked = json!({"spec": {"resources": {"requests": {"cpu": "2", "pods": "3"}}}});
    let on_its_way = || index(&[pod("first", None)], &[claim("c", "first", &asked)]);
    assert!(finds_a_place(on_its_way(), "1"), "nothing else will be there");
    let linux = json!({"nodeSelector": {names::OS: "linux"}});
    for fields in [json!({}), linux] {
        let mut with_daemon = on_its_way();
        with_daemon.apply(&daemon_set("log", "500m", &fields));
        assert!(!finds_a_place(with_daemon, "1"), "{fields}");
    }
}
