//! From client-side apply to server-side apply, request by request as kubectl sends them.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, deployment};
use super::widgets::widget;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object as `kubectl apply` makes it: with a copy of itself.
fn applied_by_client(object: &Value) -> Value {
    let annotations = json!({LAST_APPLIED: format!("{object}\n")});
    object.clone().with("metadata/annotations", annotations)
}

/// What the client applied, and the same with another value.
fn cases() -> [(&'static str, Value, Value); 3] {
    [
        (
            "configmaps",
            config("a"),
            config("a").with("data/k", json!("<2> & \"3\"")),
        ),
        (
            "deployments",
            deployment("a"),
            deployment("a").with("spec/template/spec/containers/0/image", json!("other")),
        ),
        ("widgets", widget("a"), widget("a").with("spec/size", json!(2))),
    ]
}

#[tokio::test]
async fn kubectl_takes_over_what_it_applied_on_the_clients_side() {
    for (plural, object, changed) in cases() {
        let mut lab = Lab::with_widgets("upgrading").await;
        lab.compare_ownership();
        let made = applied_by_client(&object);
        lab.post(&format!("{plural}?fieldManager=kubectl-client-side-apply"), &made)
            .is("201")
            .await;
        let path = format!("{plural}/a");
        // Anybody else has a conflict.
        lab.apply("somebody", &path, &changed).is("409 Conflict").await;
        lab.apply("kubectl", &format!("{path}?dryRun=All"), &changed)
            .is("200")
            .await;
        lab.apply("kubectl", &path, &changed).is("200").await;
        lab.get(&path).is("200").await;
        lab.apply("kubectl", &path, &object).is("200").await;
        lab.get(&path).is("200").await;
        lab.apply("kubectl", &path, &applied_by_client(&changed))
            .compare()
            .await;
        lab.get(&path).is("200").await;
    }
}

#[tokio::test]
async fn what_others_changed_since_is_theirs() {
    for (plural, object, changed) in cases() {
        let mut lab = Lab::with_widgets("upgrading").await;
        lab.compare_ownership();
        let path = format!("{plural}/a");
        lab.post(
            &format!("{plural}?fieldManager=kubectl-client-side-apply"),
            &applied_by_client(&object),
        )
        .is("201")
        .await;
        lab.merge_patch(
            &format!("{path}?fieldManager=somebody"),
            &json!({"spec": changed["spec"], "data": changed["data"]}),
        )
        .is("200")
        .await;
        lab.apply("kubectl", &path, &object).is("409 Conflict").await;
        lab.apply("kubectl", &path, &changed).is("200").await;
        lab.get(&path).is("200").await;
        lab.apply("kubectl", &format!("{path}?force=true"), &object)
            .is("200")
            .await;
        lab.get(&path).is("200").await;
    }
}

#[tokio::test]
async fn an_annotation_that_is_no_configuration_excuses_nothing() {
    for text in [
        "",
        "{",
        "[]",
        "{\"apiVersion\": \"v2\", \"kind\": \"ConfigMap\", \"data\": {\"k\": \"1\"}}",
    ] {
        let mut lab = Lab::open("upgrading").await;
        lab.compare_ownership();
        let made = config("a").with("metadata/annotations", json!({LAST_APPLIED: text}));
        lab.post("configmaps?fieldManager=kubectl-client-side-apply", &made)
            .is("201")
            .await;
        lab.apply("kubectl", "configmaps/a", &config("a").with("data/k", json!("2")))
            .is("409 Conflict .data.k")
            .await;
        lab.apply("kubectl", "configmaps/a", &config("a")).is("200").await;
    }
}

/// kubectl then moves the fields of its older self to its new one, if nobody wrote meanwhile.
#[tokio::test]
async fn the_record_is_rewritten_in_one_patch_or_not_at_all() {
    let mut lab = Lab::open("upgrading").await;
    lab.compare_ownership();
    lab.post(
        "configmaps?fieldManager=kubectl-client-side-apply",
        &applied_by_client(&config("a")),
    )
    .is("201")
    .await;
    lab.apply("kubectl", "configmaps/a", &config("a"))
        .keep("applied")
        .is("200")
        .await;
    let record = json!([{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}, "f:metadata": {"f:annotations": {".": {}, format!("f:{LAST_APPLIED}"): {}}}}}]);
    let patch = |version: &str| {
        json!([{"op": "replace", "path": "/metadata/managedFields", "value": record},
               {"op": "replace", "path": "/metadata/resourceVersion", "value": version}])
    };
    lab.json_patch("configmaps/a?fieldManager=kubectl", &patch("1"))
        .is("409 Conflict")
        .await;
    let current = patch("$applied.metadata.resourceVersion");
    lab.json_patch("configmaps/a?fieldManager=kubectl", &current)
        .is("200")
        .await;
    lab.get("configmaps/a").is("200").await;
    // Nothing but kubectl owns the key any more, so that it goes with it.
    let without = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    lab.apply("kubectl", "configmaps/a", &without).compare().await;
    lab.get("configmaps/a").is("200").await;
}
