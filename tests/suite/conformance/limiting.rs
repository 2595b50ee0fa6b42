//! Limit ranges and quotas: what they add, what they refuse, what they count.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, deployment, node, pod};

fn range(name: &str, limits: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}}).with("spec/limits", limits)
}

fn quota(name: &str, hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}}).with("spec/hard", hard)
}

fn claim(name: &str, storage: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
           "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                    "resources": {"requests": {"storage": storage}}}})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
           "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}})
}

fn asking(name: &str, requests: Value, limits: Value) -> Value {
    pod(name)
        .with("spec/containers/0/resources/requests", requests)
        .with("spec/containers/0/resources/limits", limits)
}

/// A real server's admission sees a new limit range when its cache does.
async fn known(lab: &mut Lab, name: &str) {
    lab.get(&format!("limitranges/{name}")).is("200").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
}

/// Waits until a quota has been counted, and compares what it counts.
async fn counted(lab: &mut Lab, name: &str, used: &[(&str, &str)]) {
    has_status(lab, name, "used", used).await;
}

/// Waits until new bounds of a quota are in force, and compares what it counts.
async fn bounded(lab: &mut Lab, name: &str, hard: &[(&str, &str)]) {
    has_status(lab, name, "hard", hard).await;
}

async fn has_status(lab: &mut Lab, name: &str, field: &str, amounts: &[(&str, &str)]) {
    let amounts: BTreeMap<_, _> = amounts.iter().copied().collect();
    lab.get(&format!("resourcequotas/{name}"))
        .until_like(json!({"status": {field: amounts}}))
        .is("200")
        .await;
    // Admission sees it when its cache does.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
}

#[tokio::test]
async fn a_limit_range_completes_pods() {
    let mut lab = Lab::open("limiting").await;
    let limits = json!([{"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"},
                         "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "2"}}]);
    lab.post("limitranges", &range("a", limits)).is("201").await;
    // One range only: in which order a real server goes through several, nobody knows.
    known(&mut lab, "a").await;
    lab.post("pods", &pod("plain")).is("201").await;
    lab.post(
        "pods",
        &asking("some", json!({"cpu": "200m"}), json!({"memory": "3Gi"})),
    )
    .is("201")
    .await;
    let init = json!([{"name": "init", "image": "none"}]);
    lab.post("pods", &pod("init").with("spec/initContainers", init))
        .is("201")
        .await;
    lab.post(
        "pods",
        &asking("greedy", json!({"cpu": "3"}), json!({"cpu": "3"})),
    )
    .is("403 Forbidden")
    .await;
    // The default is less than what is asked for.
    lab.post("pods", &asking("wry", json!({"cpu": "1"}), json!({})))
        .compare()
        .await;
    lab.delete("limitranges/a").is("200").await;
}

#[tokio::test]
async fn a_limit_range_bounds_containers_and_pods() {
    let mut lab = Lab::open("limiting").await;
    let limits = json!([
        {"type": "Container", "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"cpu": "2"}},
        {"type": "Pod", "min": {"memory": "10Mi"}, "max": {"cpu": "1", "memory": "1Gi"}},
    ]);
    lab.post("limitranges", &range("a", limits)).is("201").await;
    known(&mut lab, "a").await;
    for (name, requests, limits) in [
        (
            "fits",
            json!({"cpu": "100m", "memory": "10Mi"}),
            json!({"cpu": "200m", "memory": "1Gi"}),
        ),
        (
            "small",
            json!({"cpu": "50m", "memory": "10Mi"}),
            json!({"cpu": "100m", "memory": "1Gi"}),
        ),
        (
            "wide",
            json!({"cpu": "100m", "memory": "10Mi"}),
            json!({"cpu": "250m", "memory": "1Gi"}),
        ),
        (
            "large",
            json!({"cpu": "1", "memory": "10Mi"}),
            json!({"cpu": "1500m", "memory": "1Gi"}),
        ),
        ("silent", json!({}), json!({})),
        ("boundless", json!({"cpu": "100m", "memory": "10Mi"}), json!({})),
    ] {
        lab.post("pods", &asking(name, requests, limits)).compare().await;
    }
    let both = asking(
        "both",
        json!({"cpu": "600m", "memory": "10Mi"}),
        json!({"cpu": "600m", "memory": "1Gi"}),
    );
    let container = both["spec"]["containers"][0]
        .clone()
        .with("name", json!("second"));
    let sidecar = container.clone().with("restartPolicy", json!("Always"));
    lab.post("pods", &both).is("201").await;
    let mut list = both["spec"]["containers"].clone();
    list.as_array_mut().unwrap().push(container.clone());
    lab.post(
        "pods",
        &both
            .clone()
            .with("metadata/name", json!("two"))
            .with("spec/containers", list),
    )
    .is("403 Forbidden")
    .await;
    for (name, init) in [("first", container), ("beside", sidecar)] {
        let with_init = both
            .clone()
            .with("metadata/name", json!(name))
            .with("spec/initContainers", json!([init]));
        lab.post("pods", &with_init).compare().await;
    }
}

#[tokio::test]
async fn a_limit_range_bounds_claims() {
    let mut lab = Lab::open("limiting").await;
    let limits =
        json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}}]);
    lab.post("limitranges", &range("a", limits)).is("201").await;
    known(&mut lab, "a").await;
    lab.post("persistentvolumeclaims", &claim("a", "1Gi"))
        .is("201")
        .await;
    lab.post("persistentvolumeclaims", &claim("b", "1G"))
        .is("403 Forbidden")
        .await;
    lab.post("persistentvolumeclaims", &claim("c", "11Gi"))
        .is("403 Forbidden")
        .await;
    lab.merge_patch(
        "persistentvolumeclaims/a",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .is("200")
    .await;
}

#[tokio::test]
async fn a_quota_counts_what_comes_and_goes() {
    let mut lab = Lab::open("limiting").await;
    let hard = json!({"pods": "2", "count/pods": "3", "configmaps": "10", "count/deployments.apps": "1",
                      "services": "2", "services.nodeports": "2", "secrets": "1", "count/leases.coordination.k8s.io": "0"});
    lab.post("resourcequotas", &quota("q", hard)).is("201").await;
    counted(&mut lab, "q", &[("pods", "0"), ("configmaps", "1")]).await;
    lab.post("pods", &pod("a")).is("201").await;
    lab.post("pods?dryRun=All", &pod("dry")).is("201").await;
    lab.post("configmaps", &config("a")).is("201").await;
    lab.post("deployments", &deployment("a")).is("201").await;
    counted(
        &mut lab,
        "q",
        &[
            ("pods", "1"),
            ("configmaps", "2"),
            ("count/deployments.apps", "1"),
        ],
    )
    .await;
    lab.post("deployments", &deployment("b"))
        .is("403 Forbidden")
        .await;
    lab.post("leases", &super::objects::lease("a"))
        .is("403 Forbidden")
        .await;
    lab.post("pods", &pod("b")).is("201").await;
    lab.post("pods", &pod("c")).is("403 Forbidden").await;
    lab.post("pods?dryRun=All", &pod("c")).is("403 Forbidden").await;
    lab.delete("pods/a?gracePeriodSeconds=0").is("200").await;
    counted(&mut lab, "q", &[("pods", "1"), ("count/pods", "1")]).await;
    lab.post("pods", &pod("c")).is("201").await;
    lab.post("services", &service("a")).is("201").await;
    lab.merge_patch("services/a", &json!({"spec": {"type": "NodePort"}}))
        .is("200")
        .await;
    counted(&mut lab, "q", &[("services.nodeports", "2"), ("services", "1")]).await;
    lab.post("services", &service("b").with("spec/type", json!("NodePort")))
        .is("403 Forbidden")
        .await;
    lab.merge_patch(
        "resourcequotas/q",
        &json!({"spec": {"hard": {"pods": "1", "secrets": null}}}),
    )
    .is("200")
    .await;
    // What is used is the same as before: only the new bound shows that a real server has counted again.
    bounded(&mut lab, "q", &[("pods", "1")]).await;
    lab.post("pods", &pod("d")).is("403 Forbidden").await;
    lab.delete("resourcequotas/q").is("200").await;
}

#[tokio::test]
async fn a_quota_adds_up_what_is_asked_for() {
    let mut lab = Lab::open("limiting").await;
    lab.post("nodes", &node("n")).is("201").await;
    let hard = json!({"cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "requests.example.com/gpu": "1",
                      "requests.storage": "5Gi", "none.storageclass.storage.k8s.io/persistentvolumeclaims": "2"});
    lab.post("resourcequotas", &quota("q", hard)).is("201").await;
    counted(&mut lab, "q", &[("cpu", "0"), ("requests.storage", "0")]).await;
    lab.post("pods", &pod("silent")).is("403 Forbidden").await;
    let modest = |name: &str| {
        asking(
            name,
            json!({"cpu": "400m", "memory": "256Mi", "example.com/gpu": "1"}),
            json!({"cpu": "1", "example.com/gpu": "1"}),
        )
        .with("spec/nodeName", json!("$ns-n"))
    };
    lab.post("pods", &modest("a")).is("201").await;
    counted(
        &mut lab,
        "q",
        &[
            ("cpu", "400m"),
            ("limits.cpu", "1"),
            ("requests.example.com/gpu", "1"),
        ],
    )
    .await;
    lab.post("pods", &modest("b")).is("403 Forbidden").await;
    lab.post(
        "pods",
        &asking("c", json!({"cpu": "700m", "memory": "0"}), json!({"cpu": "700m"})),
    )
    .is("403 Forbidden")
    .await;
    lab.post(
        "pods",
        &asking("c", json!({"cpu": "600m", "memory": "1M"}), json!({"cpu": "1"})),
    )
    .is("201")
    .await;
    counted(&mut lab, "q", &[("cpu", "1"), ("limits.cpu", "2")]).await;
    lab.merge_patch("pods/a/status", &json!({"status": {"phase": "Succeeded"}}))
        .is("200")
        .await;
    counted(&mut lab, "q", &[("cpu", "600m"), ("requests.memory", "1M")]).await;
    lab.post("persistentvolumeclaims", &claim("a", "3Gi"))
        .is("201")
        .await;
    lab.post("persistentvolumeclaims", &claim("b", "3Gi"))
        .is("403 Forbidden")
        .await;
    lab.post("persistentvolumeclaims", &claim("c", "1500M"))
        .is("201")
        .await;
    counted(&mut lab, "q", &[("requests.storage", "4721225472")]).await;
    lab.post("persistentvolumeclaims", &claim("d", "1k"))
        .is("403 Forbidden")
        .await;
}

#[tokio::test]
async fn a_quota_may_be_for_some_pods_only() {
    let mut lab = Lab::open("limiting").await;
    for (name, scopes) in [
        ("ending", json!(["Terminating"])),
        ("lasting", json!(["NotTerminating"])),
        ("lowly", json!(["BestEffort"])),
        ("better", json!(["NotBestEffort", "NotTerminating"])),
    ] {
        let scoped = quota(name, json!({"pods": "1"})).with("spec/scopes", scopes);
        lab.post("resourcequotas", &scoped).is("201").await;
        counted(&mut lab, name, &[("pods", "0")]).await;
    }
    let expression = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In",
                                                  "values": ["system-node-critical"]}]});
    lab.post(
        "resourcequotas",
        &quota("critical", json!({"pods": "0"})).with("spec/scopeSelector", expression),
    )
    .is("201")
    .await;
    counted(&mut lab, "critical", &[("pods", "0")]).await;
    lab.post("pods", &pod("a")).is("201").await;
    counted(&mut lab, "lasting", &[("pods", "1")]).await;
    counted(&mut lab, "lowly", &[("pods", "1")]).await;
    counted(&mut lab, "ending", &[("pods", "0")]).await;
    lab.post("pods", &pod("b")).is("403 Forbidden").await;
    let ending = asking("b", json!({"cpu": "1"}), json!({})).with("spec/activeDeadlineSeconds", json!(5));
    lab.post("pods", &ending).is("201").await;
    counted(&mut lab, "ending", &[("pods", "1")]).await;
    lab.post("pods", &ending.with("metadata/name", json!("c")))
        .is("403 Forbidden")
        .await;
    lab.delete("resourcequotas/ending").is("200").await;
    lab.delete("resourcequotas/lasting").is("200").await;
    lab.delete("resourcequotas/lowly").is("200").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    lab.post(
        "pods",
        &pod("d").with("spec/priorityClassName", json!("system-node-critical")),
    )
    .is("403 Forbidden")
    .await;
}
