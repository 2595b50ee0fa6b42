//! The paths that pods alone have: `ephemeralcontainers` and `resize`.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, node, pod};

fn asking(name: &str) -> Value {
    pod(name).with(
        "spec/containers/0/resources",
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "example.com/gpu": "1"}}),
    )
}

/// A change of the first container's resources, as strategic merge patch.
fn resources(requests: Value, limits: Value) -> Value {
    json!({"spec": {"containers": [{"name": "main"}]}})
        .with("spec/containers/0/resources/requests", requests)
        .with("spec/containers/0/resources/limits", limits)
}

#[tokio::test]
async fn containers_for_debugging_come_and_stay() {
    let mut lab = Lab::open("debugging").await;
    lab.compare_ownership();
    lab.post("nodes", &node("n")).is("201").await;
    lab.post(
        "pods?fieldManager=maker",
        &pod("a").with("spec/nodeName", json!("$ns-n")),
    )
    .is("201")
    .await;
    let path = "pods/a/ephemeralcontainers";
    lab.get(path).is("200").await;
    let debug =
        |name: &str| json!({"name": name, "image": "debug", "stdin": true, "targetContainerName": "main"});
    let added = |container: Value| json!({"spec": {"ephemeralContainers": [container]}});
    lab.strategic_patch(&format!("{path}?fieldManager=debugger"), &added(debug("one")))
        .is("200")
        .await;
    lab.get("pods/a").keep("a").is("200").await;
    // The rest of the pod is out of reach here.
    lab.merge_patch(
        path,
        &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "other"}}),
    )
    .is("200")
    .await;
    lab.get("pods/a").is("200").await;
    for container in [
        debug("one").with("image", json!("other")),
        debug("main"),
        debug("two").with("targetContainerName", json!("nobody")),
        debug("two").with("ports", json!([{"containerPort": 80}])),
        debug("two").with("resources", json!({"requests": {"cpu": "1"}})),
        debug("two").with("livenessProbe", json!({"tcpSocket": {"port": 80}})),
        debug("two").with("image", json!("")),
        debug("Two"),
    ] {
        lab.strategic_patch(path, &added(container))
            .is("422 Invalid")
            .await;
    }
    lab.merge_patch(path, &json!({"spec": {"ephemeralContainers": []}}))
        .is("422 Invalid")
        .await;
    let operations = json!([{"op": "add", "path": "/spec/ephemeralContainers/-", "value": debug("three")}]);
    lab.json_patch(path, &operations).is("200").await;
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}},
                         "spec": {"ephemeralContainers": [debug("four")]}});
    lab.apply("applier", path, &applied).compare().await;
    lab.get("pods/a").is("200").await;
    lab.put(path, &pod("a")).is("422 Invalid").await;
    lab.put("pods/missing/ephemeralcontainers", &pod("missing"))
        .is("404 NotFound")
        .await;
    lab.post(path, &pod("a")).compare().await;
    lab.delete(path).compare().await;
    // At the pod itself they can be neither set nor changed.
    lab.strategic_patch("pods/a", &added(debug("five")))
        .is("422 Invalid")
        .await;
    lab.merge_patch("pods/a", &json!({"metadata": {"labels": {"c": "d"}}}))
        .is("200")
        .await;
    lab.post(
        "pods",
        &pod("b").with("spec/ephemeralContainers", json!([debug("one")])),
    )
    .is("422 Invalid")
    .await;
}

#[tokio::test]
async fn a_pod_is_resized_on_a_path_of_its_own() {
    let mut lab = Lab::open("resizing").await;
    lab.compare_ownership();
    lab.post("pods?fieldManager=maker", &asking("a")).is("201").await;
    let path = "pods/a/resize";
    lab.get(path).is("200").await;
    lab.strategic_patch("pods/a", &resources(json!({"cpu": "500m"}), json!({})))
        .is("422 Invalid")
        .await;
    lab.strategic_patch(
        &format!("{path}?fieldManager=sizer"),
        &resources(json!({"cpu": "500m"}), json!({"cpu": "1"})),
    )
    .is("200")
    .await;
    lab.get("pods/a").is("200").await;
    lab.strategic_patch(path, &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "other", "containers": [{"name": "main", "image": "other"}]}}))
        .is("200")
        .await;
    lab.get("pods/a").is("200").await;
    for (requests, limits) in [
        (json!({"cpu": null}), json!({})),
        (json!({}), json!({"cpu": null})),
        (json!({"cpu": "3"}), json!({})),
        (json!({"cpu": "-1"}), json!({})),
        (json!({}), json!({"example.com/gpu": "2"})),
        (
            json!({"cpu": "1", "memory": "1Gi"}),
            json!({"cpu": "1", "memory": "1Gi"}),
        ),
    ] {
        lab.strategic_patch(path, &resources(requests, limits))
            .compare()
            .await;
    }
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    lab.strategic_patch(
        path,
        &json!({"spec": {"containers": [{"name": "main", "resizePolicy": policy}]}}),
    )
    .compare()
    .await;
    lab.json_patch(
        path,
        &json!([{"op": "replace", "path": "/spec/containers/0/name", "value": "other"}]),
    )
    .is("422 Invalid")
    .await;
    let second = json!({"name": "second", "image": "none"});
    lab.json_patch(
        path,
        &json!([{"op": "add", "path": "/spec/containers/-", "value": second}]),
    )
    .is("422 Invalid")
    .await;
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}},
                         "spec": {"containers": [{"name": "main", "image": "no", "resources": {"requests": {"cpu": "700m"}}}]}});
    lab.apply("applier", path, &applied).compare().await;
    lab.apply("applier", &format!("{path}?force=true"), &applied)
        .compare()
        .await;
    lab.get("pods/a").is("200").await;
    lab.put(path, &pod("a")).compare().await;
    lab.post(path, &pod("a")).compare().await;
}

#[tokio::test]
async fn what_runs_where_it_cannot_grow_is_not_resized() {
    let mut lab = Lab::open("resizing").await;
    lab.post("nodes", &node("n")).is("201").await;
    let init = json!([{"name": "init", "image": "none", "resources": {"requests": {"cpu": "1"}}},
                      {"name": "side", "image": "none", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]);
    let made = asking("a")
        .with("spec/nodeName", json!("$ns-n"))
        .with("spec/initContainers", init);
    lab.post("pods", &made).is("201").await;
    let path = "pods/a/resize";
    let of_init = |name: &str| json!({"spec": {"initContainers": [{"name": name, "resources": {"requests": {"cpu": "2"}}}]}});
    lab.strategic_patch(path, &of_init("init"))
        .is("422 Invalid spec")
        .await;
    lab.strategic_patch(path, &of_init("side")).is("200").await;
    let running = |resources: Value| {
        let status = json!({"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
                            "state": {"running": {"startedAt": "2026-11-16T10:00:00Z"}}, "resources": resources});
        json!({"status": {"phase": "Running", "containerStatuses": [status]}})
    };
    lab.merge_patch("pods/a/status", &running(Value::Null))
        .is("200")
        .await;
    let more = resources(json!({"cpu": "1500m"}), json!({}));
    lab.strategic_patch(path, &more).is("422 Invalid spec").await;
    lab.merge_patch("pods/a/status", &running(json!({})))
        .compare()
        .await;
    lab.strategic_patch(path, &more).is("200").await;
}

#[tokio::test]
async fn a_resized_pod_stays_within_its_namespaces_limits() {
    let mut lab = Lab::open("resizing").await;
    let limits = json!([{"type": "Container", "max": {"cpu": "2"}}]);
    lab.post("limitranges", &json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": limits}}))
        .is("201")
        .await;
    lab.post("resourcequotas", &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1500m"}}}))
        .is("201")
        .await;
    lab.get("resourcequotas/q")
        .until_like(json!({"status": {"used": {"requests.cpu": "0"}}}))
        .is("200")
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    lab.post("pods", &asking("a")).is("201").await;
    let path = "pods/a/resize";
    lab.strategic_patch(path, &resources(json!({}), json!({"cpu": "3"})))
        .is("403 Forbidden")
        .await;
    lab.strategic_patch(path, &resources(json!({"cpu": "1600m"}), json!({})))
        .is("403 Forbidden")
        .await;
    lab.strategic_patch(path, &resources(json!({"cpu": "1200m"}), json!({})))
        .is("200")
        .await;
    lab.get("resourcequotas/q")
        .until_like(json!({"status": {"used": {"requests.cpu": "1200m"}}}))
        .is("200")
        .await;
}
