//! What is refused, and which field is blamed.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, budget, config, deployment, lease, node, pod};
use super::widgets::widget;

#[tokio::test]
async fn labels_and_annotations_must_be_well_formed() {
    let mut lab = Lab::open("validating").await;
    for labels in [
        json!({"a": "b"}),
        json!({"example.com/a": "b"}),
        json!({"": "b"}),
        json!({"a b": "c"}),
        json!({"a": "b c"}),
        json!({"-a": "b"}),
        json!({"a": "-b"}),
        json!({"a/b/c": "d"}),
        json!({"/a": "b"}),
        json!({"A.com/x": "b"}),
        json!({"a": "x".repeat(63)}),
        json!({"a": "x".repeat(64)}),
        json!({"x".repeat(64): "a"}),
        json!({"a": ""}),
        json!({"a": 1}),
        json!([]),
        json!({"a": null}),
    ] {
        lab.post(
            "configmaps?dryRun=All",
            &config("a").with("metadata/labels", labels),
        )
        .compare()
        .await;
    }
    for annotations in [
        json!({"a": "b c/ö"}),
        json!({"A_b": ""}),
        json!({"a b": "c"}),
        json!({"Example.COM/a": "b"}),
        json!({"a": "x".repeat(262_145)}),
    ] {
        lab.post(
            "configmaps?dryRun=All",
            &config("a").with("metadata/annotations", annotations),
        )
        .compare()
        .await;
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_told_or_ignored_as_asked() {
    let mut lab = Lab::with_widgets("validating").await;
    lab.compare_warnings();
    for (plural, object) in [
        ("configmaps", config("a").with("typo", json!(1))),
        ("configmaps", config("a").with("metadata/typo", json!(1))),
        (
            "pods",
            pod("a")
                .with("spec/containers/0/typo", json!(1))
                .with("spec/typo", json!({"a": 1})),
        ),
        ("widgets", widget("a").with("spec/typo", json!(1))),
        ("widgets", widget("a").with("metadata/typo", json!(1))),
        ("widgets", widget("a").with("typo", json!(1))),
        (
            "widgets",
            widget("a").with("spec/anything", json!({"goes": {"deep": [1]}})),
        ),
    ] {
        for validation in ["", "Strict", "Warn", "Ignore", "Sometimes"] {
            lab.post(
                &format!("{plural}?dryRun=All&fieldValidation={validation}"),
                &object,
            )
            .compare()
            .await;
        }
        lab.post(&format!("{plural}?dryRun=All"), &object).compare().await;
    }
    let twice = br#"{"metadata": {"name": "a", "name": "b"}, "data": {"k": "1", "k": "2"}}"#;
    for validation in ["Strict", "Warn", "Ignore"] {
        lab.step(
            http::Method::POST,
            &format!("configmaps?dryRun=All&fieldValidation={validation}"),
            twice.to_vec(),
        )
        .compare()
        .await;
    }
    lab.post("widgets", &widget("a")).is("201").await;
    for validation in ["Strict", "Warn", "Ignore"] {
        let query = format!("fieldValidation={validation}");
        lab.merge_patch(&format!("widgets/a?{query}"), &json!({"spec": {"typo": 1}}))
            .compare()
            .await;
        lab.json_patch(
            &format!("widgets/a?{query}"),
            &json!([{"op": "add", "path": "/spec/typo", "value": 1}]),
        )
        .compare()
        .await;
        lab.apply(
            "me",
            &format!("widgets/a?force=true&{query}"),
            &widget("a").with("spec/typo", json!(1)),
        )
        .compare()
        .await;
    }
}

#[tokio::test]
async fn a_schema_is_enforced() {
    let mut lab = Lab::with_widgets("validating").await;
    for (path, value) in [
        ("spec/size", json!(-1)),
        ("spec/size", json!(101)),
        ("spec/size", json!("1")),
        ("spec/size", json!(1.5)),
        ("spec/size", json!(1.0)),
        ("spec/size", json!(null)),
        ("spec/color", json!("pink")),
        ("spec/color", json!(1)),
        ("spec/note", json!("UPPER")),
        ("spec/note", json!("abcdefghijk")),
        ("spec/note", json!("UPPER AND LONG")),
        ("spec/since", json!("yesterday")),
        ("spec/since", json!("2026-11-16T10:00:00Z")),
        ("spec/ratio", json!(0)),
        ("spec/ratio", json!(0.5)),
        ("spec/ratio", json!(1)),
        ("spec/limits", json!({"a": 1, "b": "2"})),
        ("spec/limits", json!({"a": 1, "b": 2, "c": 3})),
        ("spec/limits", json!({"a": true})),
        ("spec/limits", json!({"a": 1.5})),
        ("spec/parts", json!([{"name": "x"}, {"name": "x"}])),
        ("spec/parts", json!([{}])),
        (
            "spec/parts",
            json!([{"name": "1"}, {"name": "2"}, {"name": "3"}, {"name": "4"}, {"name": "5"}]),
        ),
        ("spec/parts", json!({})),
        ("spec/tags", json!(["a", "a"])),
        ("spec/tags", json!(["a", 1])),
        ("spec/tags", json!([null])),
        ("spec/steps", json!(["a", "a"])),
        ("spec/nested", json!({"level": null})),
        ("spec/nested", json!(null)),
        ("spec/nested", json!({"level": 5})),
        ("spec/maybe", json!(null)),
        ("spec/shape", json!(null)),
        ("spec/anything", json!({"x": null})),
        ("spec/anything", json!([])),
        ("spec", json!({})),
        ("spec", json!(null)),
        ("spec", json!([])),
        ("spec", json!({"size": 60, "color": "red"})),
        ("spec", json!({"size": 60, "color": "pink"})),
        ("status", json!({"phase": "Ancient"})),
        ("metadata/labels", json!({"a": 1})),
        ("metadata/name", json!("A")),
        ("metadata/name", json!(5)),
        ("metadata", json!([])),
        ("apiVersion", json!("conformance.example.com/v2")),
        ("kind", json!("Gadget")),
        ("kind", json!("")),
    ] {
        lab.post("widgets?dryRun=All", &widget("a").with(path, value))
            .compare()
            .await;
    }
    lab.post(
        "widgets?dryRun=All",
        &json!({"metadata": {"name": "a"}, "spec": {"size": 1}}),
    )
    .compare()
    .await;
}

#[tokio::test]
async fn rules_compare_with_what_was_before() {
    let mut lab = Lab::with_widgets("validating").await;
    lab.post("widgets", &widget("a").with("spec/origin", json!("here")))
        .is("201")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"origin": "there"}}))
        .is("422 Invalid spec.origin")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"origin": null}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 99}}))
        .is("200")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"color": "red"}}))
        .is("422 Invalid")
        .await;
    lab.merge_patch("widgets/a", &json!({"spec": {"size": 400, "origin": "there"}}))
        .is("422 Invalid")
        .await;
    lab.apply("me", "widgets/a", &widget("a").with("spec/size", json!(400)))
        .compare()
        .await;
}

/// An object that is fine, to be spoilt.
fn sound(plural: &str) -> Value {
    let never = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    match plural {
        "pods" => pod("a"),
        "deployments" => deployment("a"),
        "leases" => lease("a"),
        "nodes" => node("a"),
        "poddisruptionbudgets" => budget("a", "x"),
        "configmaps" => config("a"),
        "services" => json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}),
        "priorityclasses" => json!({"metadata": {"name": "$ns-p"}, "value": 5}),
        "namespaces" => json!({"metadata": {"name": "$ns-x"}}),
        "jobs" => json!({"metadata": {"name": "a"}, "spec": {"template": never}}),
        "storageclasses" => json!({"metadata": {"name": "$ns-s"}, "provisioner": "p"}),
        "persistentvolumeclaims" => json!({"metadata": {"name": "a"}, "spec": storage}),
        "rolebindings" => json!({"metadata": {"name": "a"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}}),
        "roles" => json!({"metadata": {"name": "a"}, "rules": []}),
        "events" => json!({"metadata": {"name": "a"},
            "involvedObject": {"kind": "Pod", "namespace": "$ns", "name": "a"}}),
        "customresourcedefinitions" => gadgets(),
        other => panic!("nobody knows how {other} go wrong"),
    }
}

/// A definition of a kind that nobody has.
fn gadgets() -> Value {
    json!({"metadata": {"name": "gadgets.conformance.example.com"}, "spec": {
        "group": "conformance.example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

#[tokio::test]
async fn every_fault_is_blamed_on_its_field() {
    let mut lab = Lab::open("validating").await;
    let faults = include_str!("faults.txt");
    for line in faults.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("{line}"));
        let (plural, path) = (word(), word());
        let value = serde_json::from_str(word()).unwrap_or_else(|error| panic!("{line}: {error}"));
        lab.post(&format!("{plural}?dryRun=All"), &sound(plural).with(path, value))
            .compare()
            .await;
    }
}
