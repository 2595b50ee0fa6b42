//! Eviction, scale, binding.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, budget, deployment, node, pod};
use super::widgets::widget;

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

/// A lab with a node that nobody runs. (A pod on one that does not exist is soon collected.)
async fn lab_with_node() -> Lab {
    let mut lab = Lab::open("evicting").await;
    lab.post("nodes", &node("n")).is("201").await;
    lab
}

/// A pod on that node, ready.
async fn running(lab: &mut Lab, name: &str, app: &str) {
    let labeled = pod(name)
        .with("metadata/labels", json!({"app": app}))
        .with("spec/nodeName", json!("$ns-n"));
    lab.post("pods", &labeled).keep(name).is("201").await;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    lab.merge_patch(&format!("pods/{name}/status"), &json!({"status": status}))
        .is("200")
        .await;
}

#[tokio::test]
async fn a_pod_without_a_budget_is_evicted() {
    let mut lab = lab_with_node().await;
    running(&mut lab, "a", "x").await;
    lab.post("pods/a/eviction?dryRun=All", &eviction("a"))
        .compare()
        .await;
    lab.post(
        "pods/a/eviction",
        &eviction("a").with("deleteOptions", json!({"preconditions": {"uid": "wrong"}})),
    )
    .compare()
    .await;
    lab.post(
        "pods/a/eviction",
        &eviction("a").with(
            "deleteOptions",
            json!({"preconditions": {"resourceVersion": "1"}}),
        ),
    )
    .compare()
    .await;
    lab.post("pods/a/eviction", &eviction("b")).compare().await;
    lab.post("pods/missing/eviction", &eviction("missing"))
        .is("404 NotFound")
        .await;
    lab.post("pods/a/eviction", &pod("a")).compare().await;
    lab.post(
        "pods/a/eviction",
        &eviction("a").with("apiVersion", json!("policy/v1beta1")),
    )
    .compare()
    .await;
    lab.get("pods/a/eviction").compare().await;
    let sure = json!({"preconditions": {"uid": "$a.metadata.uid"}, "gracePeriodSeconds": 3});
    lab.post("pods/a/eviction", &eviction("a").with("deleteOptions", sure))
        .is("201")
        .await;
    lab.get("pods/a").is("200").await;
    lab.post("pods/a/eviction", &eviction("a")).compare().await;
}

#[tokio::test]
async fn a_budget_is_respected() {
    let mut lab = lab_with_node().await;
    running(&mut lab, "a", "x").await;
    running(&mut lab, "b", "x").await;
    lab.post("poddisruptionbudgets", &budget("one", "x"))
        .is("201")
        .await;
    let allow = |count: u32| json!({"status": {"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    // The controller of a real cluster says so itself, the embedded one has none: both end up with this.
    lab.merge_patch("poddisruptionbudgets/one/status", &allow(1))
        .compare()
        .await;
    lab.post("pods/a/eviction", &eviction("a")).is("201").await;
    lab.post("pods/b/eviction", &eviction("b"))
        .is("429 TooManyRequests")
        .await;
    lab.post("pods/b/eviction?dryRun=All", &eviction("b"))
        .is("429 TooManyRequests")
        .await;
}

#[tokio::test]
async fn two_budgets_are_one_too_many() {
    let mut lab = lab_with_node().await;
    running(&mut lab, "a", "x").await;
    lab.post("poddisruptionbudgets", &budget("one", "x"))
        .is("201")
        .await;
    lab.post("poddisruptionbudgets", &budget("two", "x"))
        .is("201")
        .await;
    lab.post("pods/a/eviction", &eviction("a")).is("500").await;
}

#[tokio::test]
async fn pods_that_are_done_or_not_begun_need_no_budget() {
    let mut lab = lab_with_node().await;
    lab.post("poddisruptionbudgets", &budget("one", "x"))
        .is("201")
        .await;
    lab.post(
        "pods",
        &pod("pending").with("metadata/labels", json!({"app": "x"})),
    )
    .is("201")
    .await;
    lab.post("pods/pending/eviction", &eviction("pending"))
        .is("201")
        .await;
    running(&mut lab, "done", "x").await;
    lab.merge_patch("pods/done/status", &json!({"status": {"phase": "Failed"}}))
        .is("200")
        .await;
    lab.post("pods/done/eviction", &eviction("done")).is("201").await;
    lab.get("pods").is("200").await;
}

#[tokio::test]
async fn scale_is_a_view_of_replicas() {
    let mut lab = Lab::with_widgets("scaling").await;
    lab.post("deployments", &deployment("a")).is("201").await;
    lab.get("deployments/a/scale").is("200").await;
    lab.merge_patch("deployments/a/scale", &json!({"spec": {"replicas": 0}}))
        .is("200")
        .await;
    lab.merge_patch("deployments/a/scale", &json!({"spec": {"replicas": -1}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch(
        "deployments/a/scale",
        &json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 0}}),
    )
    .is("409 Conflict")
    .await;
    let scale = |count: u32| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": count}});
    lab.put("deployments/a/scale", &scale(0)).compare().await;
    lab.put(
        "deployments/missing/scale",
        &scale(0).with("metadata/name", json!("missing")),
    )
    .is("404 NotFound")
    .await;
    lab.put("deployments/a/scale", &scale(0).with("metadata/name", json!("b")))
        .compare()
        .await;
    lab.post("deployments/a/scale", &scale(0)).compare().await;
    lab.post("widgets", &widget("a")).is("201").await;
    lab.get("widgets/a/scale").is("500").await;
    lab.put(
        "widgets/a/scale",
        &scale(3).with("metadata/namespace", json!("$ns")),
    )
    .compare()
    .await;
    lab.merge_patch("widgets/a/scale", &json!({"spec": {"replicas": 4}}))
        .is("200")
        .await;
    lab.merge_patch(
        "widgets/a/status",
        &json!({"status": {"replicas": 2, "selector": "app=x"}}),
    )
    .is("200")
    .await;
    lab.get("widgets/a/scale").is("200").await;
    lab.merge_patch("widgets/a/scale", &json!({"spec": {"replicas": -4}}))
        .compare()
        .await;
    lab.get("configmaps/a/scale").compare().await;
    lab.get("widgets/a").is("200").await;
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let mut lab = Lab::open("binding").await;
    let binding = |pod: &str, node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    lab.post("nodes", &node("n")).is("201").await;
    lab.post("pods", &pod("a")).keep("a").is("201").await;
    lab.post("pods/a/binding", &binding("a", "")).compare().await;
    lab.post(
        "pods/a/binding",
        &binding("a", "n").with("target/kind", json!("Pod")),
    )
    .compare()
    .await;
    lab.post(
        "pods/a/binding",
        &binding("a", "$ns-n").with("metadata/uid", json!("wrong")),
    )
    .compare()
    .await;
    lab.post("pods/a/binding?dryRun=All", &binding("a", "$ns-n"))
        .compare()
        .await;
    lab.post(
        "pods/a/binding",
        &binding("a", "$ns-n").with("metadata/annotations", json!({"by": "me"})),
    )
    .is("201")
    .await;
    lab.get("pods/a").is("200").await;
    lab.post("pods/a/binding", &binding("a", "$ns-n"))
        .is("409 Conflict")
        .await;
    lab.post("pods/missing/binding", &binding("missing", "n"))
        .is("404 NotFound")
        .await;
    lab.post(
        "pods",
        &pod("gated").with("spec/schedulingGates", json!([{"name": "example.com/gate"}])),
    )
    .compare()
    .await;
    lab.post("pods/gated/binding", &binding("gated", "$ns-n"))
        .compare()
        .await;
    lab.merge_patch("pods/gated", &json!({"spec": {"schedulingGates": null}}))
        .compare()
        .await;
    lab.post("pods/gated/binding", &binding("gated", "$ns-n"))
        .compare()
        .await;
}
