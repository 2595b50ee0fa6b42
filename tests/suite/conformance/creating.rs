//! Creating objects: names, duplicates, what the server decides, dry runs.

use serde_json::json;

use super::Lab;
use super::objects::{With, config, deployment, lease, node, pod, secret};

#[tokio::test]
async fn a_name_is_taken_once() {
    let mut lab = Lab::open("creating").await;
    lab.post("configmaps", &config("a")).is("201").await;
    lab.post("configmaps", &config("a")).is("409 AlreadyExists").await;
    lab.post("configmaps?dryRun=All", &config("a"))
        .is("409 AlreadyExists")
        .await;
    lab.delete("configmaps/a").is("200").await;
    lab.post("configmaps", &config("a")).is("201").await;
}

#[tokio::test]
async fn a_name_is_made_from_a_prefix_where_none_is_given() {
    let mut lab = Lab::open("creating").await;
    let prefixed = json!({"metadata": {"generateName": "a-"}});
    lab.post("configmaps", &prefixed).keep("made").is("201").await;
    lab.get("configmaps/$made.metadata.name").is("200").await;
    lab.post("configmaps", &prefixed.clone().with("metadata/name", json!("b")))
        .is("201")
        .await;
    lab.post("configmaps", &json!({"metadata": {"generateName": "A-"}}))
        .is("422 Invalid")
        .await;
    lab.post(
        "configmaps",
        &json!({"metadata": {"generateName": "A-", "name": "c"}}),
    )
    .compare()
    .await;
    lab.post("configmaps", &json!({"metadata": {}}))
        .is("422 Invalid")
        .await;
    lab.post("configmaps", &json!({})).is("422 Invalid").await;
}

#[tokio::test]
async fn a_name_must_fit_its_kind() {
    let mut lab = Lab::open("creating").await;
    for name in ["A", "a_b", "-a", "a-", "a..b", ".", "a/b", "%", "ü"] {
        lab.post("configmaps", &config(name))
            .is("422 Invalid metadata.name")
            .await;
    }
    for name in ["a.b", "1", "a-1.b-2"] {
        lab.post("configmaps", &config(name)).is("201").await;
        lab.post("leases", &lease(name)).is("201").await;
        lab.post("pods", &pod(name)).compare().await;
        lab.post("deployments", &deployment(name)).compare().await;
    }
    for length in [63, 64, 253, 254] {
        let name = "a".repeat(length);
        lab.post("configmaps", &config(&name)).compare().await;
        lab.post("pods", &pod(&name)).compare().await;
    }
}

#[tokio::test]
async fn the_server_decides_over_identity_and_time() {
    let mut lab = Lab::open("creating").await;
    let presumptuous = config("a")
        .with("metadata/uid", json!("mine"))
        .with("metadata/creationTimestamp", json!("2001-01-01T00:00:00Z"))
        .with("metadata/deletionTimestamp", json!("2001-01-01T00:00:00Z"))
        .with("metadata/deletionGracePeriodSeconds", json!(5))
        .with("metadata/generation", json!(7))
        .with("metadata/selfLink", json!("x"));
    lab.post("configmaps", &presumptuous).is("201").await;
    lab.post(
        "configmaps",
        &config("b").with("metadata/resourceVersion", json!("1")),
    )
    .is("500")
    .await;
    lab.post(
        "deployments",
        &deployment("a").with("status", json!({"replicas": 3})),
    )
    .is("201")
    .await;
    lab.post("pods", &pod("a").with("status", json!({"phase": "Running"})))
        .is("201")
        .await;
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"});
    lab.post("nodes", &node("n").with("status", ready))
        .compare()
        .await;
}

#[tokio::test]
async fn an_object_belongs_where_its_path_says() {
    let mut lab = Lab::open("creating").await;
    lab.post(
        "configmaps",
        &config("a").with("metadata/namespace", json!("$ns")),
    )
    .is("201")
    .await;
    lab.post(
        "configmaps",
        &config("b").with("metadata/namespace", json!("other")),
    )
    .is("400 BadRequest")
    .await;
    lab.post("/api/v1/namespaces/missing/configmaps", &config("a"))
        .is("404 NotFound")
        .await;
    lab.post("/api/v1/configmaps", &config("a")).compare().await;
    lab.post("nodes", &node("a").with("metadata/namespace", json!("$ns")))
        .compare()
        .await;
    lab.post("configmaps/a", &config("a"))
        .is("405 MethodNotAllowed")
        .await;
}

#[tokio::test]
async fn a_body_is_of_the_kind_that_its_path_says() {
    let mut lab = Lab::open("creating").await;
    lab.post("configmaps", &pod("a")).is("400 BadRequest").await;
    lab.post("configmaps", &config("a").with("apiVersion", json!("v2")))
        .is("400 BadRequest")
        .await;
    lab.post("configmaps", &json!({"metadata": {"name": "a"}}))
        .is("201")
        .await;
    lab.post("configmaps", &json!([])).is("400 BadRequest").await;
    lab.post("configmaps", &json!("text")).is("400 BadRequest").await;
    lab.post("configmaps", &config("b").with("data", json!({"k": 1})))
        .is("400 BadRequest")
        .await;
    lab.post("configmaps", &config("b").with("data", json!([])))
        .is("400 BadRequest")
        .await;
    lab.step(http::Method::POST, "configmaps", b"{".to_vec())
        .is("400 BadRequest")
        .await;
    lab.step(http::Method::POST, "configmaps", Vec::new())
        .header("content-type", "application/json")
        .is("400 BadRequest")
        .await;
    lab.post("configmaps", &config("b"))
        .header("content-type", "text/plain")
        .is("415 UnsupportedMediaType")
        .await;
    let yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {k: '1'}\n".to_vec();
    lab.step(http::Method::POST, "configmaps", yaml)
        .header("content-type", "application/yaml")
        .is("201")
        .await;
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let mut lab = Lab::open("creating").await;
    lab.post("configmaps?dryRun=All", &config("a")).is("201").await;
    lab.get("configmaps/a").is("404 NotFound").await;
    lab.post("configmaps?dryRun=Some", &config("a"))
        .is("422 Invalid dryRun")
        .await;
    lab.post("configmaps?dryRun=", &config("a")).compare().await;
}

#[tokio::test]
async fn secrets_are_written_as_text_and_read_as_base64() {
    let mut lab = Lab::open("creating").await;
    lab.post("secrets", &secret("a")).is("201").await;
    lab.post(
        "secrets",
        &secret("b").with("data", json!({"k": "eA==", "l": "eQ=="})),
    )
    .is("201")
    .await;
    lab.post("secrets", &secret("c").with("data", json!({"k": "not base64"})))
        .is("400 BadRequest")
        .await;
    lab.post("secrets", &secret("d").with("immutable", json!(true)))
        .is("201")
        .await;
    lab.merge_patch("secrets/d", &json!({"data": {"k": "eA=="}}))
        .is("422 Invalid data")
        .await;
}

#[tokio::test]
async fn paths_that_lead_nowhere_are_told_apart() {
    let mut lab = Lab::open("creating").await;
    lab.get("/api/v1/namespaces/$ns/gadgets").is("404 NotFound").await;
    lab.get("/apis/none.example.com/v1/gadgets").is("404").await;
    lab.get("/api/v7/pods").is("404 NotFound").await;
    lab.get("configmaps/missing").is("404 NotFound").await;
    lab.get("configmaps/missing/status").is("404 NotFound").await;
    lab.get("pods/missing/status").is("404 NotFound").await;
    lab.delete("configmaps/missing").is("404 NotFound").await;
    lab.put("configmaps/missing", &config("missing")).compare().await;
    lab.merge_patch("configmaps/missing", &json!({}))
        .is("404 NotFound")
        .await;
    lab.get("/healthz").compare().await;
    lab.get("/nowhere").compare().await;
}
