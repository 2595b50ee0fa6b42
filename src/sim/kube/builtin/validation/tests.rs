use serde_json::{Value, json};

use super::*;
use crate::sim::kube::builtin::{apply_defaults, conform};

/// The causes of a new object that says so much, as `reason field`.
fn refused(api_version: &str, kind: &str, mut rest: Value) -> Vec<String> {
    rest["apiVersion"] = api_version.into();
    rest["kind"] = kind.into();
    conform(api_version, kind, &mut rest).unwrap();
    apply_defaults(&mut rest);
    shown(problems(&rest, None, None))
}

fn shown(causes: Vec<Cause>) -> Vec<String> {
    let reason = |cause: &Cause| cause.reason.as_str().trim_start_matches("FieldValue").to_owned();
    causes
        .into_iter()
        .map(|cause| format!("{} {}", reason(&cause), cause.field))
        .collect()
}

fn pod(spec: &Value) -> Vec<String> {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    refused("v1", "Pod", json!({"metadata": {"name": "a"}, "spec": whole}))
}

fn container(rest: &Value) -> Vec<String> {
    let mut whole = json!({"name": "c", "image": "i"});
    for (field, value) in rest.as_object().unwrap() {
        whole[field] = value.clone();
    }
    pod(&json!({"containers": [whole]}))
}

#[test]
fn a_plain_pod_is_fine_and_one_without_containers_is_not() {
    assert_eq!(pod(&json!({})), Vec::<String>::new());
    assert_eq!(pod(&json!({"containers": []})), ["Required spec.containers"]);
}

#[test]
fn containers_are_named_apart_and_have_images() {
    assert_eq!(
        container(&json!({"image": ""})),
        ["Required spec.containers[0].image"]
    );
    assert_eq!(
        container(&json!({"name": "A_"})),
        ["Invalid spec.containers[0].name"]
    );
    let two = json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]);
    assert_eq!(
        pod(&json!({"containers": two})),
        ["Duplicate spec.containers[1].name"]
    );
}

#[test]
fn requests_stay_within_limits_and_devices_need_limits() {
    let resources = |resources: Value| container(&json!({"resources": resources}));
    assert_eq!(
        resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        ["Invalid spec.containers[0].resources.requests"]
    );
    assert_eq!(
        resources(json!({"requests": {"x.y/z": "1"}})),
        ["Required spec.containers[0].resources.limits"]
    );
    assert_eq!(
        resources(json!({"requests": {"cpu": "-1"}})),
        ["Invalid spec.containers[0].resources.requests[cpu]"]
    );
}

#[test]
fn mounts_need_their_volumes() {
    assert_eq!(
        container(&json!({"volumeMounts": [{"name": "x", "mountPath": "/a"}]})),
        ["NotFound spec.containers[0].volumeMounts[0].name"]
    );
}

#[test]
fn tolerations_say_what_they_tolerate() {
    let toleration = |toleration: Value| pod(&json!({"tolerations": [toleration]}));
    assert_eq!(toleration(json!({"operator": "Exists"})), Vec::<String>::new());
    assert_eq!(
        toleration(json!({"operator": "Equal"})),
        ["Invalid spec.tolerations[0].operator"]
    );
    assert_eq!(
        toleration(json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1})),
        ["Invalid spec.tolerations[0].effect"]
    );
}

#[test]
fn spread_constraints_are_one_per_topology_and_action() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"});
    assert_eq!(
        pod(&json!({"topologySpreadConstraints": [constraint, constraint]})),
        ["Duplicate spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}"]
    );
}

#[test]
fn a_selector_selects_what_the_template_makes() {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = |selector: Value| {
        refused(
            "apps/v1",
            "Deployment",
            json!({"metadata": {}, "spec": {"selector": selector, "template": template}}),
        )
    };
    assert_eq!(
        deployment(json!({"matchLabels": {"a": "b"}})),
        Vec::<String>::new()
    );
    assert_eq!(
        deployment(json!({"matchLabels": {"a": "c"}})),
        ["Invalid spec.template.metadata.labels"]
    );
    assert_eq!(deployment(json!({})), ["Invalid spec.selector"]);
}

#[test]
fn a_budget_counts_what_must_stay_or_what_may_go() {
    let budget = |spec: Value| {
        refused(
            "policy/v1",
            "PodDisruptionBudget",
            json!({"metadata": {}, "spec": spec}),
        )
    };
    assert_eq!(budget(json!({"minAvailable": "50%"})), Vec::<String>::new());
    assert_eq!(
        budget(json!({"minAvailable": 1, "maxUnavailable": 1})),
        ["Invalid spec"]
    );
    assert_eq!(
        budget(json!({"maxUnavailable": "101%"})),
        ["Invalid spec.maxUnavailable"]
    );
}

fn changed(kind: &str, old: &Value, new: &Value) -> Vec<String> {
    let (mut old, mut new) = (old.clone(), new.clone());
    for object in [&mut old, &mut new] {
        object["kind"] = kind.into();
        crate::sim::kube::builtin::apply_defaults(object);
    }
    shown(problems(&new, Some(&old), None))
}

#[test]
fn of_a_pod_the_image_may_change_and_hardly_anything_else() {
    let of = |image: &str, node: &str| json!({"spec": {"containers": [{"name": "c", "image": image}], "nodeName": node, "tolerations": [{"key": "a", "effect": "NoExecute"}]}});
    assert_eq!(changed("Pod", &of("a", "n"), &of("b", "n")), Vec::<String>::new());
    assert_eq!(changed("Pod", &of("a", "n"), &of("a", "m")), ["Forbidden spec"]);
    let mut without = of("a", "n");
    without["spec"]["tolerations"] = json!([]);
    assert_eq!(
        changed("Pod", &of("a", "n"), &without),
        ["Forbidden spec.tolerations"]
    );
    let mut with = of("a", "n");
    with["spec"]["tolerations"] =
        json!([{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "b"}]);
    assert_eq!(changed("Pod", &of("a", "n"), &with), Vec::<String>::new());
}

#[test]
fn what_is_declared_immutable_stays() {
    let map = |value: &str, immutable: bool| json!({"data": {"a": value}, "immutable": immutable});
    assert_eq!(
        changed("ConfigMap", &map("1", false), &map("2", false)),
        Vec::<String>::new()
    );
    assert_eq!(
        changed("ConfigMap", &map("1", true), &map("2", true)),
        ["Forbidden data"]
    );
    assert_eq!(
        changed("ConfigMap", &map("1", true), &map("1", false)),
        ["Forbidden immutable"]
    );
}

#[test]
fn a_node_gets_its_provider_id_once() {
    let node = |id: &str| json!({"metadata": {}, "spec": {"providerID": id}});
    assert_eq!(
        changed("Node", &node(""), &node("ibm:///a/b")),
        Vec::<String>::new()
    );
    assert_eq!(
        changed("Node", &node("ibm:///a/b"), &node("ibm:///a/c")),
        ["Forbidden spec.providerID"]
    );
}

#[test]
fn a_node_blames_its_metadata_for_taints() {
    let taints =
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}]);
    assert_eq!(
        refused("v1", "Node", json!({"metadata": {}, "spec": {"taints": taints}})),
        ["Duplicate metadata.taints[1]"]
    );
}
