use serde_json::{Value, json};

use super::*;
use crate::sim::actors::scheduler::samples::{add, bindings, carry_out, on, pod, view, zoned};
use crate::sim::actors::scheduler::{next, nominated};
use crate::sim::actors::view::Kind;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

const ZONE: &str = "topology.kubernetes.io/zone";

fn now() -> jiff::Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

fn using(name: &str, claim: &str) -> Pod {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    pod(name, &json!({}), json!({"volumes": [volume]}))
}

fn claim(name: &str, class: &str, volume: Option<&str>) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "10Gi"}}},
    });
    if let Some(volume) = volume {
        claim["spec"]["volumeName"] = volume.into();
        claim["metadata"]["annotations"] = json!({claims::BIND_COMPLETED: "yes"});
    }
    claim
}

fn volume(name: &str, class: &str, zone: &str, size: &str) -> Value {
    let there = json!({"key": ZONE, "operator": "In", "values": [zone]});
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                 "csi": {"driver": "disk.example.com", "volumeHandle": name},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}},
    })
}

/// Two zones, a class that waits for consumers, one that does not, and one whose volumes are made by hand.
fn cluster(pods: &[Pod]) -> View {
    let mut view = view(&[zoned("a1", "a"), zoned("b1", "b")], pods);
    for (name, provisioner, mode) in [
        ("late", "disk.example.com", "WaitForFirstConsumer"),
        ("early", "disk.example.com", "Immediate"),
        ("manual", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ] {
        add::<StorageClass>(
            &mut view,
            json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}),
        );
    }
    view
}

fn told(view: &mut View, name: &str) -> String {
    let next = next(view, now());
    assert_eq!(bindings(&next), []);
    carry_out(view, &next, now());
    let status = view.pods[&Key::new("default", name)].status.clone().unwrap();
    status.conditions.unwrap()[0].message.clone().unwrap()
}

#[test]
fn a_pod_goes_where_its_volume_is() {
    let mut view = cluster(&[using("p", "c")]);
    add::<PersistentVolume>(&mut view, volume("v", "early", "b", "10Gi"));
    add::<PersistentVolumeClaim>(&mut view, claim("c", "early", Some("v")));
    assert_eq!(bindings(&next(&view, now())), [("p", "b1")]);
    view.bury(Kind::Node, "b1");
    let why = told(&mut view, "p");
    assert!(
        why.starts_with("0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."),
        "{why}"
    );
}

#[test]
fn a_claim_that_is_bound_at_once_is_waited_for() {
    let mut view = cluster(&[using("p", "c")]);
    add::<PersistentVolumeClaim>(&mut view, claim("c", "early", None));
    let why = told(&mut view, "p");
    assert_eq!(
        why,
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. \
         preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_claim_that_waits_for_its_consumer_learns_the_node_and_the_pod_is_bound_there_later() {
    let mut view = cluster(&[using("p", "c")]);
    add::<PersistentVolumeClaim>(&mut view, claim("c", "late", None));
    let chosen = next(&view, now());
    assert_eq!(bindings(&chosen), []);
    carry_out(&mut view, &chosen, now());
    let key = Key::new("default", "c");
    assert_eq!(claims::selected_node(&view.claims[&key]), Some("a1"));
    assert_eq!(nominated(&view.pods[&Key::new("default", "p")]), Some("a1"));
    assert_eq!(next(&view, now()).acts, [], "one waits in silence");
    // A fuller node is still the chosen one.
    view.apply(on(
        "a1",
        pod(
            "big",
            &json!({}),
            crate::sim::actors::scheduler::samples::asking("3"),
        ),
    ));
    add::<PersistentVolume>(&mut view, volume("v", "late", "a", "10Gi"));
    let mut bound = claim("c", "late", Some("v"));
    bound["metadata"]["resourceVersion"] = "9".into();
    add::<PersistentVolumeClaim>(&mut view, bound);
    assert_eq!(bindings(&next(&view, now())), [("p", "a1")]);
}

#[test]
fn a_claim_whose_class_is_limited_to_a_zone_takes_its_pod_there() {
    let mut view = cluster(&[using("p", "c")]);
    let only_b = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]);
    add::<StorageClass>(
        &mut view,
        json!({"metadata": {"name": "in-b"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer",
               "allowedTopologies": only_b}),
    );
    add::<PersistentVolumeClaim>(&mut view, claim("c", "in-b", None));
    let chosen = next(&view, now());
    carry_out(&mut view, &chosen, now());
    assert_eq!(
        claims::selected_node(&view.claims[&Key::new("default", "c")]),
        Some("b1")
    );
}

#[test]
fn volumes_made_by_hand_are_used_the_smallest_that_suffices_first() {
    let mut view = cluster(&[using("p", "c")]);
    add::<PersistentVolumeClaim>(&mut view, claim("c", "manual", None));
    let why = told(&mut view, "p");
    assert!(
        why.contains("2 node(s) didn't find available persistent volumes to bind"),
        "{why}"
    );
    add::<PersistentVolume>(&mut view, volume("small", "manual", "a", "5Gi"));
    add::<PersistentVolume>(&mut view, volume("huge", "manual", "b", "50Gi"));
    add::<PersistentVolume>(&mut view, volume("big", "manual", "b", "20Gi"));
    let chosen = next(&view, now());
    carry_out(&mut view, &chosen, now());
    let reference = |name: &str| view.volumes[name].spec.as_ref().unwrap().claim_ref.clone();
    assert_eq!(reference("big").and_then(|one| one.name), Some("c".to_owned()));
    assert_eq!((reference("small"), reference("huge")), (None, None));
}

#[test]
fn a_node_attaches_no_more_than_its_driver_can() {
    let mut view = cluster(&[
        on("b1", using("old", "c1")),
        using("p", "c2"),
        using("twin", "c1"),
    ]);
    for (name, number) in [("v1", "c1"), ("v2", "c2")] {
        add::<PersistentVolume>(&mut view, volume(name, "early", "b", "10Gi"));
        add::<PersistentVolumeClaim>(&mut view, claim(number, "early", Some(name)));
    }
    let driver = json!({"name": "disk.example.com", "nodeID": "b1", "allocatable": {"count": 1}});
    add::<CSINode>(
        &mut view,
        json!({"metadata": {"name": "b1"}, "spec": {"drivers": [driver]}}),
    );
    let placed = next(&view, now());
    assert_eq!(bindings(&placed), [("twin", "b1")], "the same volume counts once");
    carry_out(&mut view, &placed, now());
    let status = view.pods[&Key::new("default", "p")].status.clone().unwrap();
    let why = status.conditions.unwrap()[0].message.clone().unwrap();
    assert!(why.contains("1 node(s) exceed max volume count"), "{why}");
}

#[test]
fn a_volume_for_one_pod_is_for_one_pod() {
    let mut view = cluster(&[on("b1", using("old", "c")), using("p", "c")]);
    let mut exclusive = claim("c", "early", Some("v"));
    exclusive["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    add::<PersistentVolume>(&mut view, volume("v", "early", "b", "10Gi"));
    add::<PersistentVolumeClaim>(&mut view, exclusive);
    let why = told(&mut view, "p");
    assert!(
        why.contains("ReadWriteOncePod access mode already in-use"),
        "{why}"
    );
}
