//! `scale`: every way to write it, and who owns the replicas afterwards.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, deployment};
use super::widgets::widget;

/// What has a scale.
const SCALED: [(&str, &str); 4] = [
    ("deployments", "Deployment"),
    ("replicasets", "ReplicaSet"),
    ("statefulsets", "StatefulSet"),
    ("widgets", "Widget"),
];

/// An object of such a kind that its controller can do nothing for: pods without an account are refused, so that the
/// status never counts any.
fn resting(kind: &str) -> Value {
    if kind == "Widget" {
        return widget("a").with("spec/replicas", json!(0));
    }
    let mut object = deployment("a")
        .with("kind", json!(kind))
        .with("spec/template/spec/serviceAccountName", json!("missing"));
    let spec = object["spec"].as_object_mut().unwrap();
    if kind != "Deployment" {
        spec.remove("paused");
    }
    if kind == "StatefulSet" {
        spec.insert("serviceName".to_owned(), json!("none"));
    }
    object
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}})
}

/// Looks at both views.
async fn look(lab: &mut Lab, plural: &str) {
    lab.get(&format!("{plural}/a/scale")).is("200").await;
    lab.get(&format!("{plural}/a")).is("200").await;
}

async fn lab_with(plural: &str, kind: &str) -> Lab {
    let mut lab = Lab::with_widgets("scaling").await;
    lab.compare_ownership();
    lab.post(&format!("{plural}?fieldManager=maker"), &resting(kind))
        .is("201")
        .await;
    lab
}

#[tokio::test]
async fn each_patch_of_a_scale_leaves_the_replicas_to_its_writer() {
    for (plural, kind) in SCALED {
        let mut lab = lab_with(plural, kind).await;
        let path = format!("{plural}/a/scale");
        let by = |manager: &str| format!("{path}?fieldManager={manager}");
        // Where nothing changes an updater is recorded twice, until its controller writes the next time: only the
        // suite's own kind has none.
        if kind == "Widget" {
            lab.merge_patch(&by("merger"), &json!({"spec": {"replicas": 0}}))
                .is("200")
                .await;
            look(&mut lab, plural).await;
        }
        lab.merge_patch(
            &by("merger"),
            &json!({"spec": {"replicas": 1}, "status": {"replicas": 9}}),
        )
        .is("200")
        .await;
        look(&mut lab, plural).await;
        let replace = json!([{"op": "replace", "path": "/spec/replicas", "value": 0}]);
        lab.json_patch(&by("jsoner"), &replace).is("200").await;
        look(&mut lab, plural).await;
        lab.strategic_patch(&by("strategist"), &json!({"spec": {"replicas": 2}}))
            .compare()
            .await;
        look(&mut lab, plural).await;
        lab.put(&by("updater"), &scale(0).with("metadata/namespace", json!("$ns")))
            .is("200")
            .await;
        look(&mut lab, plural).await;
        lab.put(&by("updater"), &scale(0).with("metadata/namespace", json!("$ns")))
            .is("200")
            .await;
        look(&mut lab, plural).await;
        // Who takes it back at the object itself owns it there.
        lab.merge_patch(
            &format!("{plural}/a?fieldManager=owner"),
            &json!({"spec": {"replicas": 1}}),
        )
        .is("200")
        .await;
        lab.merge_patch(&by("merger"), &json!({"spec": {"replicas": 2}}))
            .is("200")
            .await;
        look(&mut lab, plural).await;
    }
}

#[tokio::test]
async fn a_scale_is_applied() {
    for (plural, kind) in SCALED {
        let mut lab = lab_with(plural, kind).await;
        let path = format!("{plural}/a/scale");
        let forced = format!("{path}?force=true");
        lab.apply("a", &path, &scale(0)).compare().await;
        look(&mut lab, plural).await;
        lab.apply("b", &path, &scale(1)).compare().await;
        lab.apply("b", &forced, &scale(1)).compare().await;
        look(&mut lab, plural).await;
        lab.apply("b", &forced, &scale(1)).compare().await;
        look(&mut lab, plural).await;
        lab.apply("c", &path, &scale(0)).compare().await;
        lab.apply("c", &path, &scale(1)).compare().await;
        look(&mut lab, plural).await;
        // What nobody applies any more is as if it had never been said.
        let nothing = json!({"apiVersion": "autoscaling/v1", "kind": "Scale"});
        lab.apply("b", &path, &nothing).compare().await;
        look(&mut lab, plural).await;
        lab.apply("c", &path, &nothing).compare().await;
        look(&mut lab, plural).await;
        lab.apply("d", &path, &scale(0).with("spec/replicas", json!(-1)))
            .compare()
            .await;
        lab.apply("d", &path, &json!({"apiVersion": "v1", "kind": "Scale"}))
            .compare()
            .await;
        lab.apply("d", &path, &resting(kind)).compare().await;
        lab.apply("d", &path, &scale(0).with("metadata/name", json!("b")))
            .compare()
            .await;
        lab.apply(
            "d",
            &format!("{plural}/missing/scale"),
            &scale(0).with("metadata/name", json!("missing")),
        )
        .is("404 NotFound")
        .await;
        look(&mut lab, plural).await;
    }
}

#[tokio::test]
async fn the_object_is_applied_to_beside_its_scale() {
    for (plural, kind) in SCALED {
        let mut lab = Lab::with_widgets("scaling").await;
        lab.compare_ownership();
        let object = resting(kind);
        let path = format!("{plural}/a");
        lab.apply("deployer", &path, &object).is("201").await;
        lab.merge_patch(
            &format!("{path}/scale?fieldManager=scaler"),
            &json!({"spec": {"replicas": 1}}),
        )
        .is("200")
        .await;
        look(&mut lab, plural).await;
        lab.apply("deployer", &path, &object)
            .is("409 Conflict .spec.replicas")
            .await;
        let mut without = object.clone();
        without["spec"].as_object_mut().unwrap().remove("replicas");
        lab.apply("deployer", &path, &without).is("200").await;
        look(&mut lab, plural).await;
        lab.apply("scaler", &format!("{path}/scale?force=true"), &scale(0))
            .compare()
            .await;
        look(&mut lab, plural).await;
        lab.apply("deployer", &format!("{path}?force=true"), &object)
            .is("200")
            .await;
        look(&mut lab, plural).await;
    }
}

#[tokio::test]
async fn what_is_no_scale_is_refused() {
    for (plural, kind) in SCALED {
        let mut lab = lab_with(plural, kind).await;
        let path = format!("{plural}/a/scale");
        for patch in [
            json!([]),
            json!({"spec": {"replicas": "one"}}),
            json!({"spec": 1}),
            json!({"kind": "Other"}),
            json!({"metadata": {"name": "b"}}),
            json!({"metadata": {"uid": "wrong"}}),
            json!({"metadata": {"namespace": "other"}}),
            json!({"spec": null}),
            json!({"spec": {"replicas": null}}),
            json!({"spec": {"unknown": 1}}),
        ] {
            lab.merge_patch(&path, &patch).compare().await;
        }
        for operations in [
            json!({}),
            json!([{"op": "test", "path": "/spec/replicas", "value": 7}]),
            json!([{"op": "replace", "path": "/spec/missing", "value": 7}]),
            json!([{"op": "remove", "path": "/spec"}]),
            json!([{"op": "frob", "path": "/spec"}]),
        ] {
            lab.json_patch(&path, &operations).compare().await;
        }
        let strict = format!("{path}?fieldValidation=Strict");
        lab.merge_patch(&strict, &json!({"spec": {"unknown": 1}}))
            .compare()
            .await;
        lab.put(&strict, &scale(0).with("spec/unknown", json!(1)))
            .compare()
            .await;
        lab.apply("a", &strict, &scale(0).with("spec/unknown", json!(1)))
            .compare()
            .await;
        lab.apply("a", &path, &scale(0).with("metadata/uid", json!("wrong")))
            .compare()
            .await;
        lab.put(&path, &resting(kind)).compare().await;
        lab.put(&path, &scale(0).with("metadata/uid", json!("wrong")))
            .compare()
            .await;
        lab.put(&format!("{path}?dryRun=All"), &scale(3)).compare().await;
        lab.step(http::Method::PATCH, &path, b"{}".to_vec())
            .header("content-type", "application/json")
            .compare()
            .await;
        lab.merge_patch(&format!("{path}?force=true"), &json!({}))
            .compare()
            .await;
        lab.step(http::Method::PATCH, &path, b"{}".to_vec())
            .header("content-type", "application/apply-patch+yaml")
            .compare()
            .await;
        look(&mut lab, plural).await;
    }
}
