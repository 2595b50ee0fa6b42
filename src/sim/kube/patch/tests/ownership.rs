//! Who owns what after which write.

use super::*;
use crate::sim::kube::patch::fieldset::{FieldSet, path_text};

/// `manager operation subresource: fields`, one line per entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let line = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let fields = FieldSet::parse(&entry["fieldsV1"]).unwrap();
        let fields: Vec<_> = fields.paths().iter().map(|path| path_text(path)).collect();
        format!(
            "{} {} {}: {}",
            text("manager"),
            text("operation"),
            text("subresource"),
            fields.join(" ")
        )
    };
    entries.map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn whoever_changes_a_field_owns_it() {
    let cluster = Cluster::with_foos().await;
    let made = cluster
        .foo(json!({"a": "1", "s": ["1"], "lm": [{"name": "q"}]}))
        .await
        .ok();
    assert_eq!(
        owners(&made),
        [
            "probe Update : .spec .spec.a .spec.d .spec.lm .spec.lm[name=\"q\",p=\"TCP\"] \
          .spec.lm[name=\"q\",p=\"TCP\"].name .spec.lm[name=\"q\",p=\"TCP\"].p .spec.s .spec.s[=\"1\"]"
        ]
    );
    cluster.server.clock().sleep(Duration::from_secs(5)).await;
    let path = format!("{FOOS}/a");
    let changed = cluster
        .patch(
            &format!("{path}?fieldManager=other"),
            MERGE,
            json!({"spec": {"a": "2", "lm": null}, "status": {"phase": "x"}}),
        )
        .await
        .ok();
    assert_eq!(
        owners(&changed),
        [
            "probe Update : .spec .spec.d .spec.s .spec.s[=\"1\"]",
            "other Update : .spec.a"
        ]
    );
    let entries = &changed["metadata"]["managedFields"];
    assert_eq!(entries[0]["time"], "2026-11-16T10:00:00Z");
    assert_eq!(entries[1]["time"], "2026-11-16T10:00:05Z");
    let status = json!({"status": {"phase": "x"}, "spec": {"a": "9"}});
    let changed = cluster
        .patch(&format!("{path}/status?fieldManager=other"), MERGE, status)
        .await
        .ok();
    assert_eq!(owners(&changed)[2], "other Update status: .status .status.phase");
    assert_eq!(changed["spec"]["a"], "2");
    let wiped = cluster
        .patch(
            &path,
            MERGE,
            json!({"metadata": {"managedFields": [{}]}, "spec": {"a": "3"}}),
        )
        .await
        .ok();
    assert_eq!(owners(&wiped), [""; 0]);
    let still = cluster
        .patch(&path, MERGE, json!({"spec": {"a": "4"}}))
        .await
        .ok();
    assert_eq!(
        owners(&still),
        [""; 0],
        "a record that nobody keeps is not begun again by an update"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_owned_and_goes_when_it_is_no_longer_applied() {
    let cluster = Cluster::with_foos().await;
    let first = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x/y"]}, "spec": {"m": {"n": "1"}}});
    let made = cluster.apply_foo("fieldManager=m2", first.clone()).await;
    assert_eq!(made.code, 201);
    assert_eq!(
        owners(&made.body),
        ["m2 Apply : .metadata.finalizers[=\"x/y\"] .metadata.labels.a .spec.m.n"]
    );
    cluster.server.clock().sleep(Duration::from_mins(1)).await;
    let again = cluster.apply_foo("fieldManager=m2", first).await;
    assert_eq!((again.code, &again.body), (200, &made.body));

    let refused = cluster
        .apply_foo("fieldManager=m3", json!({"spec": {"m": {"n": "2"}}}))
        .await;
    assert_eq!(refused.refusal(), "409 Conflict FieldManagerConflict@.spec.m.n");
    assert_eq!(
        refused.body["details"]["causes"][0]["message"],
        "conflict with \"m2\""
    );

    let shared = json!({"metadata": {"finalizers": ["z/z"]}, "spec": {"m": {"n": "1", "o": "2"}}});
    let shared = cluster.apply_foo("fieldManager=m3", shared).await.ok();
    assert_eq!(shared["metadata"]["finalizers"], json!(["x/y", "z/z"]));

    let dropped = cluster
        .apply_foo("fieldManager=m2", json!({"metadata": {"finalizers": ["x/y"]}}))
        .await
        .ok();
    assert_eq!(
        dropped["spec"]["m"],
        json!({"n": "1", "o": "2"}),
        "m3 still wants n"
    );
    assert!(dropped["metadata"].get("labels").is_none());

    let gone = cluster.apply_foo("fieldManager=m2", json!({})).await.ok();
    assert_eq!(gone["metadata"]["finalizers"], json!(["z/z"]));
    assert_eq!(owners(&gone).len(), 1);
    let empty = cluster.apply_foo("fieldManager=m3", json!({})).await.ok();
    assert!(empty["metadata"].get("managedFields").is_none());
    assert!(
        empty.get("spec").is_none(),
        "with all that was applied in it a structure goes, its defaults included"
    );
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_named_field_by_field_and_force_takes_them() {
    let cluster = Cluster::with_foos().await;
    let spec = json!({"a": "1", "m": {"k": "1"}, "at": {"x": "1"}, "l": ["1"], "s": ["1", "2"], "lm": [{"name": "q", "v": "1"}]});
    cluster.foo(spec).await.ok();
    let wanted = json!({"spec": {"a": "7", "m": {"k": "2", "z": "1"}, "at": {"x": "5"}, "l": ["5"], "s": ["3"],
                                 "lm": [{"name": "q", "v": "5"}, {"name": "r"}]}});
    let refused = cluster.apply_foo("fieldManager=m1", wanted.clone()).await;
    let at = |field: &str| format!(" FieldManagerConflict@.spec.{field}");
    let expected: String = ["a", "at", "l", "lm[name=\"q\",p=\"TCP\"].v", "m.k"]
        .map(at)
        .concat();
    assert_eq!(refused.refusal(), format!("409 Conflict{expected}"));
    assert!(refused.body["details"].get("name").is_none());

    let forced = cluster.apply_foo("fieldManager=m1&force=true", wanted).await.ok();
    let expected = json!({"a": "7", "d": "dd", "m": {"k": "2", "z": "1"}, "at": {"x": "5"}, "l": ["5"], "s": ["1", "2", "3"],
                          "lm": [{"name": "q", "p": "TCP", "v": "5"}, {"name": "r", "p": "TCP"}]});
    assert_eq!(forced["spec"], expected);
    assert_eq!(
        owners(&forced),
        [
            "m1 Apply : .spec.a .spec.at .spec.l .spec.lm[name=\"q\",p=\"TCP\"] .spec.lm[name=\"q\",p=\"TCP\"].name \
             .spec.lm[name=\"q\",p=\"TCP\"].v .spec.lm[name=\"r\",p=\"TCP\"] .spec.lm[name=\"r\",p=\"TCP\"].name \
             .spec.m.k .spec.m.z .spec.s[=\"3\"]",
            "probe Update : .spec .spec.d .spec.lm .spec.lm[name=\"q\",p=\"TCP\"] .spec.lm[name=\"q\",p=\"TCP\"].name \
             .spec.lm[name=\"q\",p=\"TCP\"].p .spec.m .spec.s .spec.s[=\"1\"] .spec.s[=\"2\"]",
        ]
    );
    // The creator still owns the map m, but nobody owns anything in it.
    let emptied = cluster
        .apply_foo("fieldManager=m1", json!({"spec": {"a": "7"}}))
        .await;
    assert_eq!(emptied.refusal(), "422 Invalid FieldValueTypeInvalid@spec.m");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_the_same_already_is_shared() {
    let cluster = Cluster::with_foos().await;
    let made = cluster.foo(json!({"a": "1"})).await;
    let shared = cluster
        .apply_foo("fieldManager=m1", json!({"spec": {"a": "1"}}))
        .await;
    assert_ne!(
        shared.version(),
        made.version(),
        "the record of ownership changed"
    );
    assert_eq!(
        owners(&shared.body),
        ["m1 Apply : .spec.a", "probe Update : .spec .spec.a .spec.d"]
    );
    assert!(shared.body["metadata"]["managedFields"][0].get("time").is_none());
    let dropped = cluster.apply_foo("fieldManager=m1", json!({})).await.ok();
    assert_eq!(dropped["spec"]["a"], "1");
}

#[tokio::test(start_paused = true)]
async fn conditions_are_applied_each_by_its_own_controller() {
    let cluster = Cluster::with_foos().await;
    cluster.foo(json!({})).await.ok();
    let foos: Api<DynamicObject> = Api::default_namespaced_with(
        cluster.client.clone(),
        &kube::api::ApiResource {
            group: "example.com".into(),
            version: "v1".into(),
            api_version: "example.com/v1".into(),
            kind: "Foo".into(),
            plural: "foos".into(),
        },
    );
    let condition = |name: &str, status: &str| {
        Patch::Apply(
            json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"},
                            "status": {"conditions": [{"type": name, "status": status}]}}),
        )
    };
    for (manager, name) in [("c1", "Launched"), ("c2", "Registered")] {
        foos.patch_status("a", &PatchParams::apply(manager), &condition(name, "False"))
            .await
            .unwrap();
    }
    let foo = foos
        .patch_status("a", &PatchParams::apply("c1"), &condition("Launched", "True"))
        .await
        .unwrap();
    let conditions =
        json!([{"type": "Launched", "status": "True"}, {"type": "Registered", "status": "False"}]);
    assert_eq!(foo.data["status"]["conditions"], conditions);
    let meddling = foos
        .patch_status("a", &PatchParams::apply("c2"), &condition("Launched", "False"))
        .await;
    assert!(matches!(meddling, Err(kube::Error::Api(status)) if status.code == 409));
    let absent = foos
        .patch_status("nope", &PatchParams::apply("c1"), &condition("Launched", "True"))
        .await;
    assert!(matches!(absent, Err(kube::Error::Api(status)) if status.code == 400 || status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_record_belongs_to_whoever_was_before() {
    let cluster = Cluster::new();
    cluster.config("c", json!({"n": "2"})).await.ok();
    let wipe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "managedFields": []}, "data": {"n": "2"}});
    let wiped = cluster
        .send("PUT", &format!("{CONFIGS}/c"), "application/json", &wipe)
        .await
        .ok();
    assert_eq!(owners(&wiped), [""; 0]);
    let refused = cluster.apply_config("m2", json!({"data": {"n": "3"}})).await;
    assert_eq!(
        refused.body["details"]["causes"][0]["message"],
        "conflict with \"before-first-apply\" using v1"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_without_a_record_keeps_the_old_one() {
    let cluster = Cluster::new();
    cluster.config("a", json!({"k": "1", "l": "1"})).await.ok();
    let configs: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
    let mut config = configs.get("a").await.unwrap();
    config.metadata.managed_fields = None;
    config.data = Some([("k".to_owned(), "2".to_owned())].into());
    let params = PostParams {
        field_manager: Some("other".to_owned()),
        ..PostParams::default()
    };
    let replaced = serde_json::to_value(configs.replace("a", &params, &config).await.unwrap()).unwrap();
    assert_eq!(
        owners(&replaced),
        ["other Update : .data.k", "probe Update : .data"]
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_owns_what_the_path_cannot_change() {
    let cluster = Cluster::with_foos().await;
    let whole = json!({"spec": {"a": "1"}, "status": {"phase": "x"}});
    let made = cluster.apply_foo("fieldManager=m", whole).await.ok();
    assert_eq!(owners(&made), ["m Apply : .spec.a"]);
    assert!(made.get("status").is_none());
    let path = format!("{FOOS}/a/status?fieldManager=m");
    let status = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"},
                        "spec": {"a": "2"}, "status": {"phase": "x"}});
    let shown = cluster.patch(&path, APPLY, status).await.ok();
    assert_eq!(
        owners(&shown),
        ["m Apply : .spec.a", "m Apply status: .status.phase"]
    );
    assert_eq!(shown["spec"]["a"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_new_time_alone_is_no_change() {
    let cluster = Cluster::with_foos().await;
    // Go clients write the null; it differs from the live object and yet means nothing.
    let wanted = json!({"apiVersion": "example.com/v1", "kind": "Foo", "spec": {"a": "1"},
                        "metadata": {"name": "a", "creationTimestamp": null}});
    let path = format!("{FOOS}/a?fieldManager=m");
    let made = cluster.patch(&path, APPLY, wanted.clone()).await;
    cluster.server.clock().sleep(Duration::from_mins(1)).await;
    let again = cluster.patch(&path, APPLY, wanted).await;
    assert_eq!((again.code, again.body), (200, made.body));
}
