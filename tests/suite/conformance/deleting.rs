//! Deleting: preconditions, finalizers, grace, propagation, collections.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, deployment, node, pod};
use super::widgets::widget;

#[tokio::test]
async fn preconditions_must_hold() {
    let mut lab = Lab::open("deleting").await;
    lab.post("configmaps", &config("a")).keep("made").is("201").await;
    let only = |preconditions: Value| json!({"preconditions": preconditions});
    lab.delete_with(
        "configmaps/a",
        &only(json!({"uid": "0b6e45a5-3b5c-4f0b-9d0f-3f4cbd9f9c11"})),
    )
    .is("409 Conflict")
    .await;
    lab.delete_with("configmaps/a", &only(json!({"resourceVersion": "1"})))
        .is("409 Conflict")
        .await;
    lab.delete("configmaps/a?dryRun=All").is("200").await;
    lab.delete_with("configmaps/a", &json!({"dryRun": ["All"]}))
        .is("200")
        .await;
    lab.delete_with(
        "configmaps/a",
        &only(json!({"uid": "$made.metadata.uid", "resourceVersion": "$made.metadata.resourceVersion"})),
    )
    .is("200")
    .await;
    lab.delete_with("configmaps/a", &json!({}))
        .is("404 NotFound")
        .await;
    lab.post("configmaps", &config("b")).is("201").await;
    // Where there is a body, nobody looks at the query.
    lab.delete_with("configmaps/b?dryRun=All", &json!({}))
        .is("200")
        .await;
    lab.get("configmaps/b").is("404 NotFound").await;
    lab.delete_with("configmaps/kube-root-ca.crt", &json!({"kind": "Thing"}))
        .compare()
        .await;
    lab.delete_with("configmaps/missing", &json!({"propagationPolicy": "Sometimes"}))
        .compare()
        .await;
    lab.delete_with("configmaps/missing", &json!({"gracePeriodSeconds": -1}))
        .compare()
        .await;
    lab.delete("configmaps/missing?propagationPolicy=Sometimes")
        .compare()
        .await;
    lab.delete_with(
        "configmaps/missing",
        &json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
    )
    .compare()
    .await;
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let mut lab = Lab::with_widgets("deleting").await;
    for (plural, object) in [
        ("configmaps", config("a")),
        ("widgets", widget("a")),
        ("deployments", deployment("a")),
    ] {
        let path = format!("{plural}/a");
        let held = object.with("metadata/finalizers", json!(["example.com/a", "example.com/b"]));
        lab.post(plural, &held).is("201").await;
        lab.delete(&path).is("200").await;
        lab.delete(&path).is("200").await;
        lab.get(&path).is("200").await;
        lab.merge_patch(
            &path,
            &json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}),
        )
        .is("422 Invalid")
        .await;
        lab.merge_patch(&path, &json!({"metadata": {"finalizers": ["example.com/b"]}}))
            .is("200")
            .await;
        lab.merge_patch(&path, &json!({"metadata": {"deletionTimestamp": null}}))
            .compare()
            .await;
        lab.merge_patch(&path, &json!({"metadata": {"labels": {"still": "here"}}}))
            .is("200")
            .await;
        lab.post(plural, &held).is("409 AlreadyExists").await;
        lab.merge_patch(&path, &json!({"metadata": {"finalizers": null}}))
            .is("200")
            .await;
        lab.get(&path).is("404 NotFound").await;
    }
}

#[tokio::test]
async fn pods_get_the_grace_that_they_or_the_request_ask_for() {
    let mut lab = Lab::open("deleting").await;
    // A pod on a node that does not exist is soon collected.
    lab.post("nodes", &node("n")).is("201").await;
    let bound = |name: &str| pod(name).with("spec/nodeName", json!("$ns-n"));
    lab.post("pods", &pod("pending")).is("201").await;
    lab.delete("pods/pending").is("200").await;
    lab.get("pods/pending").is("404 NotFound").await;
    lab.post("pods", &bound("a")).is("201").await;
    lab.delete("pods/a").is("200").await;
    lab.get("pods/a").is("200").await;
    lab.delete_with("pods/a", &json!({"gracePeriodSeconds": 60}))
        .is("200")
        .await;
    lab.delete_with("pods/a", &json!({"gracePeriodSeconds": 5}))
        .is("200")
        .await;
    lab.delete_with("pods/a", &json!({"gracePeriodSeconds": 0}))
        .is("200")
        .await;
    lab.get("pods/a").is("404 NotFound").await;
    lab.post(
        "pods",
        &bound("b").with("spec/terminationGracePeriodSeconds", json!(7)),
    )
    .is("201")
    .await;
    lab.delete_with("pods/b", &json!({"gracePeriodSeconds": -5}))
        .compare()
        .await;
    lab.delete("pods/b").compare().await;
    lab.post("pods", &bound("c")).is("201").await;
    lab.merge_patch("pods/c/status", &json!({"status": {"phase": "Succeeded"}}))
        .is("200")
        .await;
    lab.delete("pods/c").is("200").await;
    lab.get("pods/c").is("404 NotFound").await;
    lab.post(
        "pods",
        &bound("d").with("metadata/finalizers", json!(["example.com/a"])),
    )
    .is("201")
    .await;
    lab.delete_with("pods/d", &json!({"gracePeriodSeconds": 0}))
        .is("200")
        .await;
    lab.get("pods/d").is("200").await;
    lab.merge_patch("pods/d", &json!({"metadata": {"finalizers": null}}))
        .is("200")
        .await;
    lab.get("pods/d").is("404 NotFound").await;
}

fn owned(name: &str, block: bool) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "$owner.metadata.uid", "blockOwnerDeletion": block});
    config(name).with("metadata/ownerReferences", json!([owner]))
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() {
    let mut lab = Lab::open("deleting").await;
    lab.post("configmaps", &config("owner"))
        .keep("owner")
        .is("201")
        .await;
    lab.post("configmaps", &owned("a", true)).is("201").await;
    lab.post("configmaps", &owned("b", false)).is("201").await;
    lab.delete_with("configmaps/owner", &json!({"propagationPolicy": "Background"}))
        .is("200")
        .await;
    lab.get("configmaps/a").eventually().is("404 NotFound").await;
    lab.get("configmaps/b").eventually().is("404 NotFound").await;
}

#[tokio::test]
async fn a_foreground_deletion_waits_for_what_is_owned() {
    let mut lab = Lab::open("deleting").await;
    lab.post("configmaps", &config("owner"))
        .keep("owner")
        .is("201")
        .await;
    lab.post(
        "configmaps",
        &owned("a", true).with("metadata/finalizers", json!(["example.com/a"])),
    )
    .is("201")
    .await;
    lab.post("configmaps", &owned("b", false)).is("201").await;
    lab.delete_with("configmaps/owner", &json!({"propagationPolicy": "Foreground"}))
        .is("200")
        .await;
    lab.get("configmaps/b").eventually().is("404 NotFound").await;
    lab.get("configmaps/owner").is("200").await;
    lab.merge_patch(
        "configmaps/a",
        &json!({"metadata": {"finalizers": ["example.com/a"]}}),
    )
    .compare()
    .await;
    lab.json_patch(
        "configmaps/a",
        &json!([{"op": "remove", "path": "/metadata/finalizers"}]),
    )
    .compare()
    .await;
    lab.get("configmaps/owner").eventually().is("404 NotFound").await;
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let mut lab = Lab::open("deleting").await;
    lab.post("configmaps", &config("owner"))
        .keep("owner")
        .is("201")
        .await;
    lab.post("configmaps", &owned("a", true)).is("201").await;
    lab.delete_with("configmaps/owner", &json!({"propagationPolicy": "Orphan"}))
        .is("200")
        .await;
    lab.get("configmaps/owner").eventually().is("404 NotFound").await;
    lab.get("configmaps/a").is("200").await;
}

#[tokio::test]
async fn owners_must_be_well_formed() {
    let mut lab = Lab::open("deleting").await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"});
    for (index, (field, value)) in [
        ("apiVersion", json!("")),
        ("apiVersion", json!("a/b/c")),
        ("kind", json!("")),
        ("name", json!("")),
        ("uid", json!("")),
        ("controller", json!("yes")),
    ]
    .into_iter()
    .enumerate()
    {
        let owner = owner.clone().with(field, value);
        lab.post(
            "configmaps",
            &config(&format!("o{index}")).with("metadata/ownerReferences", json!([owner])),
        )
        .compare()
        .await;
    }
    let controller = owner.with("controller", json!(true));
    let two = json!([controller.clone(), controller.with("uid", json!("v"))]);
    lab.post("configmaps", &config("two").with("metadata/ownerReferences", two))
        .compare()
        .await;
    for finalizer in [
        "a",
        "example.com/a",
        "a b",
        "foregroundDeletion",
        "orphan",
        "",
        "UPPER/x",
    ] {
        lab.post(
            "configmaps?dryRun=All",
            &config("f").with("metadata/finalizers", json!([finalizer])),
        )
        .compare()
        .await;
    }
    let both = json!(["foregroundDeletion", "orphan"]);
    lab.post(
        "configmaps?dryRun=All",
        &config("f").with("metadata/finalizers", both),
    )
    .compare()
    .await;
}

#[tokio::test]
async fn a_collection_is_deleted_by_selection() {
    let mut lab = Lab::with_widgets("deleting").await;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let labels = json!({"app": app});
        lab.post("leases", &json!({"metadata": {"name": name, "labels": labels}}))
            .is("201")
            .await;
        lab.post("widgets", &widget(name).with("metadata/labels", labels))
            .is("201")
            .await;
    }
    for plural in ["leases", "widgets"] {
        lab.delete(&format!("{plural}?labelSelector=app%3Dx"))
            .is("200")
            .await;
        lab.get(plural).is("200").await;
        lab.delete(&format!("{plural}?fieldSelector=metadata.name%3Dzzz"))
            .is("200")
            .await;
        lab.delete(plural).is("200").await;
        lab.get(plural).is("200").await;
    }
    lab.delete("/apis/coordination.k8s.io/v1/leases").compare().await;
    lab.delete("namespaces").compare().await;
}

#[tokio::test]
async fn a_namespace_takes_everything_in_it_along() {
    let mut lab = Lab::open("deleting").await;
    lab.post(
        "configmaps",
        &config("a").with("metadata/finalizers", json!(["example.com/a"])),
    )
    .is("201")
    .await;
    lab.delete("namespaces/$ns").is("200").await;
    lab.post("configmaps", &config("b"))
        .is("403 Forbidden metadata.namespace")
        .await;
    lab.delete("configmaps/a").is("200").await;
    lab.json_patch(
        "configmaps/a",
        &json!([{"op": "remove", "path": "/metadata/finalizers"}]),
    )
    .compare()
    .await;
    lab.get("namespaces/$ns").eventually().is("404 NotFound").await;
    lab.get("configmaps").is("200").await;
}
