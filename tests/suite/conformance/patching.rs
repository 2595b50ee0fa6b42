//! JSON, merge and strategic merge patches.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, deployment, node, pod};
use super::widgets::widget;

#[tokio::test]
async fn json_patches_do_their_operations_in_order_or_none() {
    let mut lab = Lab::open("patching").await;
    lab.post("configmaps", &config("a")).is("201").await;
    for operations in [
        json!([{"op": "add", "path": "/data/l", "value": "2"}]),
        json!([{"op": "replace", "path": "/data/l", "value": "3"}]),
        json!([{"op": "test", "path": "/data/l", "value": "3"}, {"op": "remove", "path": "/data/l"}]),
        json!([{"op": "copy", "from": "/data/k", "path": "/data/m"}]),
        json!([{"op": "move", "from": "/data/m", "path": "/data/n"}]),
        json!([{"op": "test", "path": "/data/missing", "value": null}]),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
        json!([{"op": "add", "path": "/metadata/labels/x~1y", "value": "z"}]),
        json!([{"op": "add", "path": "/metadata/finalizers", "value": []}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/a"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
        json!([{"op": "test", "path": "/data/k", "value": "wrong"}, {"op": "remove", "path": "/data/k"}]),
        json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]),
        json!([{"op": "remove", "path": "/data/missing"}]),
        json!([{"op": "replace", "path": "/data/missing", "value": "x"}]),
        json!([{"op": "add", "path": "/missing/deep", "value": "x"}]),
        json!([{"op": "add", "path": "/data/k", "value": 7}]),
        json!([{"op": "frobnicate", "path": "/data/k"}]),
        json!([{"op": "add", "path": "data/k", "value": "7"}]),
        json!([{"path": "/data/k", "value": "7"}]),
        json!([{"op": "add", "value": "7"}]),
        json!([{"op": "move", "from": "/data/missing", "path": "/data/n"}]),
        json!([{"op": "remove", "path": "/data"}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!({"op": "add"}),
        json!(null),
        json!([]),
    ] {
        lab.json_patch("configmaps/a", &operations).compare().await;
    }
    lab.get("configmaps/a").is("200").await;
}

#[tokio::test]
async fn merge_patches_set_and_remove() {
    let mut lab = Lab::with_widgets("patching").await;
    lab.post("configmaps", &config("a")).is("201").await;
    for patch in [
        json!({"data": {"l": "2"}}),
        json!({"data": {"l": null}}),
        json!({"data": {"missing": null}}),
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        json!({"metadata": {"labels": null}}),
        json!({"data": null}),
        json!({"data": {"k": 1}}),
        json!({"data": "text"}),
        json!({"unknown": {"a": "b"}}),
        json!([]),
        json!("text"),
        json!(null),
    ] {
        lab.merge_patch("configmaps/a", &patch).compare().await;
    }
    lab.step(http::Method::PATCH, "configmaps/a", b"{".to_vec())
        .header("content-type", "application/merge-patch+json")
        .is("400 BadRequest")
        .await;
    lab.post("widgets", &widget("a").with("spec/parts", json!([{"name": "x"}])))
        .is("201")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"parts": [{"name": "y"}]}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"shape": null}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": null}))
        .compare()
        .await;
}

/// Patches that show how each kind of list is merged.
fn strategic_patches() -> Vec<Value> {
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    vec![
        template(json!({"containers": [{"name": "main", "image": "two"}]})),
        template(json!({"containers": [{"name": "side", "image": "one"}]})),
        template(json!({"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]})),
        template(json!({"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]})),
        template(json!({"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]})),
        template(json!({"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]})),
        template(
            json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}),
        ),
        template(
            json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}], "containers": [{"name": "main", "image": "three"}]}),
        ),
        template(json!({"containers": [{"name": "side", "$patch": "delete"}]})),
        template(json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
        template(
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}),
        ),
        template(
            json!({"containers": [{"name": "main", "volumeMounts": [{"mountPath": "/v", "name": "v"}]}]}),
        ),
        template(json!({"tolerations": [{"key": "a", "operator": "Exists"}]})),
        template(json!({"tolerations": [{"key": "b", "operator": "Exists"}]})),
        template(json!({"nodeSelector": {"a": "b"}})),
        template(json!({"nodeSelector": {"$patch": "replace", "c": "d"}})),
        template(json!({"imagePullSecrets": [{"name": "a"}]})),
        template(json!({"imagePullSecrets": [{"name": "b"}]})),
        template(
            json!({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
        ),
        template(
            json!({"topologySpreadConstraints": [{"topologyKey": "h", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
        ),
        template(json!({"nodeSelector": null})),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"metadata": {"finalizers": ["example.com/a"]}}),
        json!({"metadata": {"finalizers": ["example.com/b"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        template(json!({"containers": [{"image": "nameless"}]})),
        template(json!({"containers": [{"name": "main", "$patch": "frobnicate"}]})),
        template(json!({"containers": "text"})),
        json!({"$patch": "replace", "spec": {}}),
        json!([]),
    ]
}

#[tokio::test]
async fn strategic_patches_merge_lists_by_their_keys() {
    let mut lab = Lab::open("patching").await;
    lab.post("deployments", &deployment("a")).is("201").await;
    for patch in strategic_patches() {
        lab.strategic_patch("deployments/a", &patch).compare().await;
    }
    lab.get("deployments/a").is("200").await;
}

#[tokio::test]
async fn strategic_patches_know_nodes_and_pods() {
    let mut lab = Lab::open("patching").await;
    lab.post("nodes", &node("n")).is("201").await;
    let path = "nodes/$ns-n";
    for patch in [
        json!({"spec": {"unschedulable": true}}),
        json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute", "value": "v"}]}}),
        json!({"spec": {"taints": null}}),
        json!({"spec": {"unschedulable": null}}),
    ] {
        lab.strategic_patch(path, &patch).is("200").await;
    }
    for patch in [
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "a"}]}}),
        json!({"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
        json!({"status": {"addresses": [{"type": "Hostname", "address": "n"}]}}),
        json!({"status": {"capacity": {"cpu": "4", "memory": "16Gi"}}}),
        json!({"status": {"allocatable": {"cpu": "3900m"}}}),
        json!({"status": {"images": [{"names": ["a"], "sizeBytes": 5}]}}),
    ] {
        lab.strategic_patch(&format!("{path}/status"), &patch)
            .compare()
            .await;
    }
    lab.post("pods", &pod("p")).is("201").await;
    lab.strategic_patch(
        "pods/p/status",
        &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    )
    .is("200")
    .await;
    lab.strategic_patch("pods/p/status", &json!({"status": {"conditions": [{"type": "Other", "status": "True"}], "podIPs": [{"ip": "10.0.0.1"}]}}))
        .compare()
        .await;
    lab.strategic_patch("pods/p", &json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]}}))
        .compare()
        .await;
}

#[tokio::test]
async fn a_patch_type_must_be_one_that_the_kind_knows() {
    let mut lab = Lab::with_widgets("patching").await;
    lab.post("widgets", &widget("a")).is("201").await;
    lab.strategic_patch("widgets/a", &json!({"spec": {"size": 3}}))
        .is("415 UnsupportedMediaType")
        .await;
    lab.post("configmaps", &config("a")).is("201").await;
    lab.step(http::Method::PATCH, "configmaps/a", b"{}".to_vec())
        .header("content-type", "application/json")
        .is("415 UnsupportedMediaType")
        .await;
    lab.step(http::Method::PATCH, "configmaps/a", Vec::new())
        .header("content-type", "application/merge-patch+json")
        .compare()
        .await;
    lab.merge_patch("configmaps", &json!({})).compare().await;
}

#[tokio::test]
async fn a_patch_may_name_the_version_that_it_is_for() {
    let mut lab = Lab::open("patching").await;
    lab.post("configmaps", &config("a")).keep("made").is("201").await;
    let patch =
        json!({"metadata": {"resourceVersion": "$made.metadata.resourceVersion"}, "data": {"k": "2"}});
    lab.merge_patch("configmaps/a", &patch).is("200").await;
    lab.merge_patch("configmaps/a", &patch).is("409 Conflict").await;
    lab.strategic_patch("configmaps/a", &patch)
        .is("409 Conflict")
        .await;
    lab.merge_patch("configmaps/a?dryRun=All", &json!({"data": {"k": "3"}}))
        .compare()
        .await;
    lab.get("configmaps/a").is("200").await;
}
