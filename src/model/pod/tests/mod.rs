mod naive;

use serde_json::{Value, json};

use super::*;
use crate::resources::CPU;

fn api(spec: Value) -> core::Pod {
    let mut pod: core::Pod =
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "1"}}))
            .unwrap();
    pod.spec = Some(serde_json::from_value(spec).unwrap());
    pod
}

fn read(spec: Value) -> Pod {
    Pod::read(&api(spec), Reading::Plain).unwrap()
}

fn affinity(terms: &Value) -> Value {
    json!({"containers": [], "nodeSelector": {"team": "a"}, "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn each_required_term_joins_the_node_selector() {
    let pod = read(affinity(&json!([
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]},
    ])));
    assert_eq!(pod.node_terms.len(), 2);
    assert!(pod.node_terms.iter().all(|term| term.get("team").is_some()));
}

#[test]
fn terms_that_are_all_empty_match_no_node() {
    let pod = read(affinity(&json!([{}])));
    assert!(pod.node_terms[0].get(NODE_NAME).unwrap().is_never());
}

#[test]
fn a_daemon_is_not_held_to_the_node_its_controller_pinned_it_to() {
    let pinned =
        affinity(&json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]));
    assert!(read(pinned.clone()).node_terms[0].get(NODE_NAME).is_some());
    let daemon = Pod::read(&api(pinned), Reading::Daemon).unwrap();
    assert!(daemon.node_terms[0].get(NODE_NAME).is_none());
}

#[test]
fn the_heaviest_preference_comes_first() {
    let pod = read(json!({"containers": [], "affinity": {"nodeAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}},
        {"weight": 9, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}},
    ]}}}));
    assert_eq!(pod.preferred_nodes[0].0, 9);
}

#[test]
fn what_cannot_be_read_is_told_with_the_reason() {
    let asks = |amount: &str| {
        let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": amount}}}]});
        Pod::read(&api(spec), Reading::Plain)
    };
    let said = |amount: &str| asks(amount).unwrap_err().to_string();
    for amount in ["-1", "-1000m", "-0.5"] {
        let wanted = format!("it requests {amount} of cpu, which is less than nothing");
        assert_eq!(said(amount), wanted, "as it is written");
    }
    assert_eq!(
        said("1e40"),
        "its amount of cpu cannot be read: \"1e40\" is out of range"
    );
    assert!(asks("much").is_err());
    assert_eq!(asks("0").unwrap().requests.get(CPU), 0);
    let odd =
        affinity(&json!([{"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["x"]}]}]));
    assert!(Pod::read(&api(odd), Reading::Plain).is_err());
}

#[test]
fn the_claim_of_an_ephemeral_volume_carries_the_pods_name() {
    let pod = read(json!({"containers": [], "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        {"name": "none", "emptyDir": {}},
    ]}));
    let claims: Vec<&str> = pod.volumes.iter().map(|volume| volume.claim.as_str()).collect();
    assert_eq!(claims, ["c", "p-tmp"]);
    assert_eq!(pod.volumes[1].made, Made::WithPod(Some("fast".to_owned())));
}

fn numbered(number: usize, spec: &Value, labels: &Value) -> core::Pod {
    let mut pod = api(spec.clone());
    pod.metadata.uid = Some(number.to_string());
    pod.metadata.name = Some(format!("p{number}"));
    pod.metadata.labels = serde_json::from_value(labels.clone()).unwrap();
    pod
}

#[test]
fn pods_that_ask_for_the_same_are_read_once() {
    let small = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
    let large = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]});
    let pods: Vec<core::Pod> = (0..6)
        .map(|number| match number % 3 {
            0 => numbered(number, &small, &json!({"app": "a"})),
            1 => numbered(number, &large, &json!({"app": "a"})),
            _ => numbered(number, &small, &json!({"app": "b"})),
        })
        .collect();
    let set = PodSet::of(&pods);
    assert_eq!(set.classes.len(), 3);
    let classes: Vec<usize> = set.members.iter().map(|member| member.class).collect();
    assert_eq!(classes, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn every_field_that_matters_separates_classes() {
    let base = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}});
    let changes = [
        json!({"nodeSelector": {"a": "b"}}),
        json!({"priority": 5}),
        json!({"tolerations": [{"operator": "Exists"}]}),
        json!({"overhead": {"cpu": "1"}}),
        json!({"resources": {"requests": {"cpu": "3"}}}),
        json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]}),
        json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}),
        json!({"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
            "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}]}}}),
    ];
    let mut pods = vec![numbered(0, &base, &json!({}))];
    for (number, change) in changes.iter().enumerate() {
        let mut spec = base.clone();
        spec.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        pods.push(numbered(number + 1, &spec, &json!({})));
        pods.push(numbered(number + 100, &spec, &json!({"l": "m"})));
    }
    let classes = PodSet::of(&pods).classes.len();
    assert_eq!(classes, pods.len());
}

#[test]
fn what_does_not_matter_separates_nothing() {
    let one = json!({"containers": [{"name": "a", "image": "x", "env": [{"name": "A", "value": "1"}]}]});
    let two = json!({"containers": [{"name": "b", "image": "y"}], "serviceAccountName": "s"});
    let set = PodSet::of(&[numbered(0, &one, &json!({})), numbered(1, &two, &json!({}))]);
    assert_eq!(set.classes.len(), 1);
}
