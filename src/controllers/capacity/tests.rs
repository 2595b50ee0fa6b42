use serde_json::Value;

use super::*;
use crate::model::Sold;

const GIB: i64 = 1 << 30;

fn kind(name: &str) -> Kind {
    Kind {
        name: name.to_owned(),
        family: "bxf".to_owned(),
        size: "2x8".to_owned(),
        arch: "amd64".to_owned(),
        vcpu: 2,
        memory_bytes: 8 * GIB,
        gpus: None,
        bandwidth_mbps: None,
        local_disks: Vec::new(),
        zones: ["us-south-1".to_owned()].into(),
        spot: Sold::Yes,
        on_demand: Sold::Yes,
        spot_price: None,
        on_demand_price: None,
    }
}

fn class(observed: &Value) -> IBMNodeClass {
    serde_json::from_value(json!({
        "metadata": {"name": "default"}, "spec": {"region": "us-south", "vpc": "v", "image": "i"},
        "status": {"resolvedImageID": "now", "observedCapacity": observed},
    }))
    .unwrap()
}

/// The claim of a node that is ready for work, which was made from the class as it is, of an image.
fn claim(name: &str, image: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {names::NODE_CLASS_HASH: class(&json!([])).hash()}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "default"}},
        "status": {
            "providerID": format!("ibm:///us-south/{name}"), "imageID": image,
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"},
            ],
            "allocation": {
                "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "subnet": "s",
                "attempt": 1, "instanceName": "kib", "since": "2026-11-16T10:00:00Z",
            },
        },
    }))
    .unwrap()
}

fn node(name: &str, machine: &str, capacity: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"providerID": format!("ibm:///us-south/{machine}")},
        "status": {"capacity": capacity},
    }))
    .unwrap()
}

fn with_memory(name: &str, memory: &str) -> Node {
    node(name, name, &json!({"memory": memory}))
}

/// What was learnt before, as the class has it now.
fn before(memory: &str) -> Value {
    let hash = class(&json!([])).hash();
    json!([{"profile": "bxf-2x8", "imageID": "now", "nodeClassHash": hash, "memory": memory}])
}

fn learn(class: &IBMNodeClass, claims: &[NodeClaim], nodes: &[Node]) -> Option<ObservedCapacity> {
    let mut index = Index::default();
    for claim in claims {
        index.apply(claim);
    }
    for node in nodes {
        index.apply(node);
    }
    let seen = learnt(class, &index, &[kind("bxf-2x8")]);
    assert!(seen.len() <= 1);
    seen.into_iter().next()
}

/// What is kept of one profile after nodes of claims said this.
fn kept(before: &Value, nodes: &[Node]) -> Option<ObservedCapacity> {
    let claims: Vec<NodeClaim> = nodes.iter().map(|node| claim(&node.name_any(), "now")).collect();
    learn(&class(before), &claims, nodes)
}

fn memory_kept(before: &Value, nodes: &[Node]) -> Option<String> {
    kept(before, nodes).and_then(|seen| seen.memory)
}

#[test]
fn the_least_that_a_node_of_the_profile_reported_is_kept() {
    let two = [with_memory("a", "7926Mi"), with_memory("b", "8115000Ki")];
    assert_eq!(memory_kept(&json!([]), &two).as_deref(), Some("7924Mi"));
    let kept = memory_kept(&before("7900Mi"), &two);
    assert_eq!(kept.as_deref(), Some("7900Mi"), "it does not rise");
}

#[test]
fn disk_and_pods_are_kept_like_memory_each_by_itself() {
    let two = [
        node(
            "a",
            "a",
            &json!({"memory": "7926Mi", "ephemeral-storage": "40Gi", "pods": "110"}),
        ),
        node(
            "b",
            "b",
            &json!({"memory": "7900Mi", "ephemeral-storage": "90Gi", "pods": "30"}),
        ),
        node("c", "c", &json!({"memory": "7950Mi"})),
    ];
    let seen = kept(&json!([]), &two).unwrap();
    assert_eq!(seen.memory.as_deref(), Some("7900Mi"));
    assert_eq!(seen.ephemeral_storage.as_deref(), Some("40Gi"));
    assert_eq!(seen.pods.as_deref(), Some("30"));
    let again = kept(&json!([seen]), &[with_memory("d", "7800Mi")]).unwrap();
    assert_eq!(
        again.ephemeral_storage.as_deref(),
        Some("40Gi"),
        "it is remembered"
    );
    assert_eq!(again.memory.as_deref(), Some("7800Mi"));
}

#[test]
fn another_image_or_another_class_begins_anew() {
    let mut image = before("7000Mi");
    image[0]["imageID"] = json!("then");
    let mut made = before("7000Mi");
    made[0]["nodeClassHash"] = json!("1");
    let mut unstamped = before("7000Mi");
    unstamped[0].as_object_mut().unwrap().remove("nodeClassHash");
    for old in [image, made, unstamped] {
        let seen = memory_kept(&old, &[with_memory("a", "7926Mi")]);
        assert_eq!(seen.as_deref(), Some("7926Mi"), "{old}");
    }
    let class = class(&json!([]));
    let small = [with_memory("a", "7000Mi")];
    assert_eq!(learn(&class, &[claim("a", "then")], &small), None);
    let mut drifted = claim("a", "now");
    drifted
        .annotations_mut()
        .insert(names::NODE_CLASS_HASH.to_owned(), "1".to_owned());
    assert_eq!(learn(&class, &[drifted], &small), None);
}

#[test]
fn a_node_counts_once_it_is_ready_for_work() {
    let mut young = claim("a", "now");
    young.status.as_mut().unwrap().conditions = None;
    assert_eq!(
        learn(&class(&json!([])), &[young], &[with_memory("a", "7000Mi")]),
        None
    );
}

#[test]
fn a_kubelet_that_lies_gains_little_and_a_node_of_another_machine_nothing() {
    let lie = json!({"memory": "1Ki", "ephemeral-storage": "1", "pods": "1"});
    let seen = kept(&json!([]), &[node("a", "a", &lie)]).unwrap();
    assert_eq!(seen.memory.as_deref(), Some("6553Mi"), "80 % of 8 GiB");
    // 10 % of what a volume of 100 GB leaves, and of 110 pods.
    assert_eq!(seen.ephemeral_storage.as_deref(), Some("8962Mi"));
    assert_eq!(seen.pods.as_deref(), Some("11"));
    for wrong in ["0", "-1", "8Ti", "much"] {
        assert_eq!(kept(&json!([]), &[with_memory("a", wrong)]), None, "{wrong}");
    }
    let more = json!({"memory": "7926Mi", "ephemeral-storage": "1Ti", "pods": "5000"});
    let seen = kept(&json!([]), &[node("a", "a", &more)]).unwrap();
    assert_eq!(
        (seen.ephemeral_storage, seen.pods),
        (None, None),
        "more than there can be"
    );
    let half = json!({"memory": "8Ti", "ephemeral-storage": "40Gi"});
    let seen = kept(&json!([]), &[node("a", "a", &half)]).unwrap();
    assert_eq!(
        (seen.memory, seen.ephemeral_storage.as_deref()),
        (None, Some("40Gi"))
    );
    let other = node("a", "other", &json!({"memory": "7926Mi"}));
    assert_eq!(kept(&json!([]), &[other]), None);
}

#[test]
fn what_is_not_sold_any_more_is_forgotten_so_the_list_stays_short() {
    let many: Vec<Value> = (0..1000)
        .map(|it| json!({"profile": format!("gone-{it}"), "imageID": "now", "memory": "1Gi"}))
        .collect();
    let seen = memory_kept(&json!(many), &[with_memory("a", "7926Mi")]);
    assert_eq!(seen.as_deref(), Some("7926Mi"));
}
