//! Replacing objects: versions, identity, status and generation.

use serde_json::json;

use super::Lab;
use super::objects::{With, config, deployment, lease, node, pod, version_of};
use super::widgets::widget;

#[tokio::test]
async fn a_stale_version_is_refused_and_none_is_fine() {
    let mut lab = Lab::with_widgets("updating").await;
    lab.post("configmaps", &config("a")).keep("made").is("201").await;
    let changed = config("a").with("data/k", json!("2"));
    let versioned = changed
        .clone()
        .with("metadata/resourceVersion", version_of("made"));
    lab.put("configmaps/a", &versioned).is("200").await;
    lab.put("configmaps/a", &versioned).is("409 Conflict").await;
    lab.put("configmaps/a", &changed.with("data/k", json!("3")))
        .is("200")
        .await;
    lab.put(
        "configmaps/a",
        &config("a").with("metadata/resourceVersion", json!("x")),
    )
    .compare()
    .await;
    lab.post("widgets", &widget("a")).keep("widget").is("201").await;
    lab.put("widgets/a", &widget("a").with("spec/size", json!(2)))
        .is("422 Invalid metadata.resourceVersion")
        .await;
    let versioned = widget("a")
        .with("spec/size", json!(2))
        .with("metadata/resourceVersion", version_of("widget"));
    lab.put("widgets/a", &versioned).is("200").await;
    lab.put("widgets/a", &versioned).is("409 Conflict").await;
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_version() {
    let mut lab = Lab::with_widgets("updating").await;
    for (path, object) in [
        ("configmaps/a", config("a")),
        ("roles/a", json!({"metadata": {"name": "a"}, "rules": []})),
        ("leases/a", lease("a")),
        ("widgets/a", widget("a")),
    ] {
        let (plural, _) = path.split_once('/').unwrap();
        lab.post(plural, &object).keep("made").is("201").await;
        let again = object.with("metadata/resourceVersion", version_of("made"));
        lab.put(path, &again).is("200").await;
        lab.merge_patch(path, &json!({})).is("200").await;
        lab.json_patch(path, &json!([])).is("200").await;
        lab.get(path).is("200").await;
    }
}

#[tokio::test]
async fn the_name_and_the_uid_must_be_the_objects() {
    let mut lab = Lab::open("updating").await;
    lab.post("configmaps", &config("a")).is("201").await;
    lab.put("configmaps/a", &config("b")).is("400 BadRequest").await;
    lab.put("configmaps/a", &json!({"data": {"k": "5"}}))
        .compare()
        .await;
    lab.put(
        "configmaps/a",
        &config("a").with("metadata/namespace", json!("other")),
    )
    .is("400 BadRequest")
    .await;
    let foreign = json!("0b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11");
    lab.put("configmaps/a", &config("a").with("metadata/uid", foreign.clone()))
        .is("409 Conflict")
        .await;
    lab.merge_patch("configmaps/a", &json!({"metadata": {"uid": foreign}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("configmaps/a", &json!({"metadata": {"name": "b"}}))
        .compare()
        .await;
    lab.merge_patch("configmaps/a", &json!({"metadata": {"namespace": "b"}}))
        .compare()
        .await;
    lab.merge_patch(
        "configmaps/a",
        &json!({"metadata": {"creationTimestamp": null, "uid": null}}),
    )
    .compare()
    .await;
    lab.merge_patch(
        "configmaps/a",
        &json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z"}}),
    )
    .compare()
    .await;
    lab.merge_patch("configmaps/a", &json!({"kind": "Secret"}))
        .compare()
        .await;
    lab.merge_patch("configmaps/a", &json!({"apiVersion": "v2"}))
        .compare()
        .await;
}

#[tokio::test]
async fn some_kinds_are_made_by_a_put() {
    let mut lab = Lab::with_widgets("updating").await;
    lab.put("configmaps/new", &config("new")).compare().await;
    lab.put("leases/new", &lease("new")).is("201").await;
    lab.put("pods/new", &pod("new")).is("404 NotFound").await;
    lab.put("deployments/new", &deployment("new")).compare().await;
    lab.put("widgets/new", &widget("new")).compare().await;
    lab.put("nodes/$ns-new", &node("new")).compare().await;
    let version = json!("1");
    lab.put(
        "leases/newer",
        &lease("newer").with("metadata/resourceVersion", version),
    )
    .compare()
    .await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "new"}, "rules": []});
    lab.put("roles/new", &role).compare().await;
}

#[tokio::test]
async fn status_and_the_rest_are_written_on_paths_of_their_own() {
    let mut lab = Lab::with_widgets("updating").await;
    lab.post("widgets", &widget("a").with("status/phase", json!("New")))
        .keep("made")
        .is("201")
        .await;
    let both = widget("a")
        .with("metadata/resourceVersion", version_of("made"))
        .with("metadata/labels", json!({"a": "b"}))
        .with("spec/size", json!(7))
        .with("status/phase", json!("Old"));
    lab.put("widgets/a/status", &both).keep("status").is("200").await;
    let main = both
        .clone()
        .with("metadata/resourceVersion", version_of("status"));
    lab.put("widgets/a", &main.clone().with("status/phase", json!("New")))
        .is("200")
        .await;
    lab.merge_patch(
        "widgets/a/status",
        &json!({"spec": {"size": 9}, "status": {"phase": "New"}}),
    )
    .is("200")
    .await;
    lab.merge_patch(
        "widgets/a",
        &json!({"spec": {"size": 9}, "status": {"phase": "Old"}}),
    )
    .is("200")
    .await;
    lab.merge_patch("widgets/a/status", &json!({"status": {"phase": "Ancient"}}))
        .is("422 Invalid")
        .await;
    lab.get("widgets/a/status").is("200").await;
    lab.post("pods", &pod("a")).keep("pod").is("201").await;
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    lab.merge_patch(
        "pods/a/status",
        &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}, "status": running}),
    )
    .is("200")
    .await;
    lab.merge_patch("pods/a", &json!({"status": {"phase": "Failed"}}))
        .is("200")
        .await;
    lab.put(
        "pods/a/status",
        &pod("a").with("status/phase", json!("Succeeded")),
    )
    .is("200")
    .await;
    lab.delete("pods/a/status").compare().await;
    lab.post("pods/a/status", &pod("a")).compare().await;
}

#[tokio::test]
async fn generation_counts_changes_of_what_is_wanted() {
    let mut lab = Lab::with_widgets("updating").await;
    lab.post("deployments", &deployment("a")).is("201").await;
    lab.post("widgets", &widget("a")).is("201").await;
    for path in ["deployments/a", "widgets/a"] {
        lab.merge_patch(path, &json!({"metadata": {"labels": {"a": "b"}}}))
            .is("200")
            .await;
    }
    lab.merge_patch("deployments/a", &json!({"spec": {"minReadySeconds": 5}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 5}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a/status", &json!({"status": {"replicas": 5}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"metadata": {"generation": 50}}))
        .is("200")
        .await;
    lab.post("pods", &pod("a")).is("201").await;
    lab.merge_patch("pods/a", &json!({"spec": {"activeDeadlineSeconds": 5}}))
        .is("200")
        .await;
}

#[tokio::test]
async fn what_may_not_change_does_not() {
    let mut lab = Lab::open("updating").await;
    lab.post("deployments", &deployment("a")).is("201").await;
    lab.merge_patch(
        "deployments/a",
        &json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
    )
    .is("422 Invalid")
    .await;
    lab.post("pods", &pod("a")).is("201").await;
    lab.merge_patch("pods/a", &json!({"spec": {"nodeName": "x"}}))
        .is("422 Invalid spec")
        .await;
    lab.strategic_patch(
        "pods/a",
        &json!({"spec": {"containers": [{"name": "main", "image": "other"}]}}),
    )
    .is("200")
    .await;
    lab.merge_patch(
        "pods/a",
        &json!({"spec": {"containers": [{"name": "other", "image": "other"}]}}),
    )
    .is("422 Invalid")
    .await;
    lab.merge_patch(
        "pods/a",
        &json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
    )
    .compare()
    .await;
    lab.post("configmaps", &config("a").with("immutable", json!(true)))
        .is("201")
        .await;
    lab.merge_patch("configmaps/a", &json!({"data": {"k": "2"}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("configmaps/a", &json!({"immutable": false}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("configmaps/a", &json!({"metadata": {"labels": {"a": "b"}}}))
        .is("200")
        .await;
    lab.post("nodes", &node("a").with("spec/providerID", json!("ibm:///a/b")))
        .is("201")
        .await;
    lab.merge_patch("nodes/$ns-a", &json!({"spec": {"providerID": "ibm:///a/c"}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("nodes/$ns-a", &json!({"spec": {"podCIDR": "10.0.0.0/24"}}))
        .compare()
        .await;
}
