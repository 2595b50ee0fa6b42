//! Patches that are refused, and how.

use super::*;

#[tokio::test(start_paused = true)]
async fn patches_of_built_in_kinds_are_refused_as_a_real_server_does() {
    let cluster = Cluster::new();
    cluster.config("a", json!({"k": "1"})).await.ok();
    let table = [
        (
            "a",
            JSON,
            json!([{"op": "test", "path": "/data/k", "value": "2"}]),
            "422 Invalid",
        ),
        ("a", JSON, json!({}), "400 BadRequest"),
        (
            "a",
            JSON,
            json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
            "422 Invalid FieldValueInvalid@patch",
        ),
        ("a", MERGE, json!([]), "400 BadRequest"),
        (
            "a",
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
            "409 Conflict",
        ),
        (
            "a",
            MERGE,
            json!({"metadata": {"uid": "1"}}),
            "422 Invalid FieldValueInvalid@metadata.uid FieldValueInvalid@metadata.uid",
        ),
        ("a", MERGE, json!({"metadata": {"name": "b"}}), "400 BadRequest"),
        (
            "a",
            MERGE,
            json!({"metadata": {"namespace": "b"}}),
            "400 BadRequest",
        ),
        (
            "a",
            MERGE,
            json!({"metadata": {"labels": {"a": 5}}}),
            "422 Invalid FieldValueInvalid@patch",
        ),
        ("a", STRATEGIC, json!({"$patch": "delete"}), "400 BadRequest"),
        ("a", "text/plain", json!({}), "415 UnsupportedMediaType"),
        ("a", "application/json", json!({}), "415 UnsupportedMediaType"),
        (
            "a?force=false",
            MERGE,
            json!({}),
            "422 Invalid FieldValueForbidden@force",
        ),
        ("nope", JSON, json!("nonsense"), "404 NotFound"),
        ("nope", STRATEGIC, json!({}), "404 NotFound"),
    ];
    for (name, content_type, patch, expected) in table {
        let answer = cluster
            .patch(&format!("{CONFIGS}/{name}"), content_type, patch.clone())
            .await;
        assert_eq!(answer.refusal(), expected, "{content_type} {patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_of_custom_kinds_are_refused_as_a_real_server_does() {
    let cluster = Cluster::with_foos().await;
    cluster.foo(json!({"a": "1"})).await.ok();
    let path = format!("{FOOS}/a");
    let table = [
        ("", STRATEGIC, json!({}), "415 UnsupportedMediaType"),
        (
            "",
            MERGE,
            json!({"metadata": {"resourceVersion": null}}),
            "422 Invalid FieldValueInvalid@metadata.resourceVersion",
        ),
        (
            "",
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
            "409 Conflict",
        ),
        (
            "",
            MERGE,
            json!({"spec": {"a": 5}}),
            "422 Invalid FieldValueTypeInvalid@spec.a",
        ),
        (
            "",
            MERGE,
            json!({"kind": "Bar"}),
            "422 Invalid FieldValueInvalid@kind",
        ),
        (
            "",
            MERGE,
            json!({"kind": null}),
            "422 Invalid FieldValueInvalid@patch",
        ),
        (
            "",
            MERGE,
            json!({"apiVersion": "example.com/v2"}),
            "422 Invalid FieldValueInvalid@apiVersion",
        ),
        (
            "?fieldValidation=Strict",
            MERGE,
            json!({"spec": {"zz": 5}}),
            "422 Invalid FieldValueInvalid@patch",
        ),
    ];
    for (query, content_type, patch, expected) in table {
        let answer = cluster
            .patch(&format!("{path}{query}"), content_type, patch.clone())
            .await;
        assert_eq!(answer.refusal(), expected, "{query} {patch}");
    }
    let warned = cluster.patch(&path, MERGE, json!({"spec": {"zz": 5}})).await;
    assert_eq!((warned.code, warned.warnings.len()), (200, 1));
    let ignored = cluster
        .patch(
            &format!("{path}?fieldValidation=Ignore"),
            MERGE,
            json!({"spec": {"zz": 5}}),
        )
        .await;
    assert_eq!((ignored.code, ignored.warnings.len()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn fields_that_a_patch_has_twice_are_complained_about() {
    let cluster = Cluster::new();
    cluster.config("a", json!({"k": "1"})).await.ok();
    let merge = r#"{"data": {"k": "1", "k": "2"}}"#;
    let operations = r#"[{"op": "test", "op": "add", "path": "/data/k", "value": "2"}]"#;
    let applied = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"z": "1", "z": "2"}}"#;
    for (content_type, body, expected) in [
        (MERGE, merge, "422 Invalid FieldValueInvalid@patch"),
        (STRATEGIC, merge, "422 Invalid FieldValueInvalid@patch"),
        (JSON, operations, "422 Invalid FieldValueInvalid@patch"),
        (APPLY, applied, "400 BadRequest"),
    ] {
        let path = |validation: &str| format!("{CONFIGS}/a?fieldManager=m&fieldValidation={validation}");
        let strict = cluster
            .send_text("PATCH", &path("Strict"), content_type, body.to_owned())
            .await;
        assert_eq!(strict.refusal(), expected);
        let warned = cluster
            .send_text("PATCH", &path("Warn"), content_type, body.to_owned())
            .await;
        assert_eq!((warned.code, warned.warnings.len()), (200, 1), "{content_type}");
        let ignored = cluster
            .send_text("PATCH", &path("Ignore"), content_type, body.to_owned())
            .await;
        assert_eq!((ignored.code, ignored.warnings.len()), (200, 0), "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn applications_are_refused_as_a_real_server_does() {
    let cluster = Cluster::with_foos().await;
    cluster.foo(json!({"a": "1"})).await.ok();
    let m = "fieldManager=m";
    let table = [
        ("", json!({}), "422 Invalid FieldValueRequired@fieldManager"),
        (m, json!({"metadata": {"name": "zz"}}), "400 BadRequest"),
        (m, json!({"metadata": {"namespace": "zz"}}), "400 BadRequest"),
        (m, json!({"metadata": {"managedFields": []}}), "400 BadRequest"),
        (m, json!({"metadata": {"managedFields": [{}]}}), "400 BadRequest"),
        (
            m,
            json!({"metadata": {"resourceVersion": "1"}, "spec": {"n": 1}}),
            "409 Conflict",
        ),
        (
            m,
            json!({"metadata": {"uid": "1"}, "spec": {"n": 1}}),
            "422 Invalid FieldValueInvalid@metadata.uid FieldValueInvalid@metadata.uid",
        ),
        (m, json!({"apiVersion": "example.com/v2"}), "400 BadRequest"),
        (m, json!({"kind": "Bar"}), "400 BadRequest"),
        (m, json!({"kind": null}), "400 BadRequest"),
        (m, json!({"spec": {"zz": "7"}}), "500 -"),
        (m, json!({"spec": {"n": "7"}}), "500 -"),
        (m, json!({"spec": {"s": ["1", "1"]}}), "500 -"),
        (
            m,
            json!({"spec": {"lm": [{"name": "1"}, {"name": "1"}]}}),
            "500 -",
        ),
        (
            m,
            json!({"spec": {"lm": [{"v": "1"}]}}),
            "422 Invalid FieldValueRequired@spec.lm[0].name",
        ),
    ];
    for (query, rest, expected) in table {
        let answer = cluster.apply_foo(query, rest.clone()).await;
        assert_eq!(answer.refusal(), expected, "{query} {rest}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_there_is_made_only_under_its_own_name() {
    let cluster = Cluster::with_foos().await;
    let m = "fieldManager=m";
    let new = |rest: Value| {
        merge::apply(
            &json!({"apiVersion": "example.com/v1", "kind": "Foo", "spec": {"n": 1}}),
            &rest,
        )
    };
    let path = format!("{FOOS}/new?{m}");
    let nameless = cluster.patch(&path, APPLY, new(json!({}))).await;
    assert_eq!(nameless.refusal(), "400 BadRequest");
    let with_uid = cluster
        .patch(
            &path,
            APPLY,
            new(json!({"metadata": {"name": "new", "uid": "1"}})),
        )
        .await;
    assert_eq!(with_uid.refusal(), "409 Conflict");
    let status = cluster
        .patch(
            &format!("{FOOS}/new/status?{m}"),
            APPLY,
            new(json!({"metadata": {"name": "new"}})),
        )
        .await;
    assert_eq!(status.refusal(), "404 NotFound");
    let with_version = cluster
        .patch(
            &path,
            APPLY,
            new(json!({"metadata": {"name": "new", "resourceVersion": "1"}})),
        )
        .await;
    assert_eq!(with_version.code, 201);
    for body in ["", "[]", "{:"] {
        let answer = cluster.send_text("PATCH", &path, APPLY, body.to_owned()).await;
        assert_eq!(answer.refusal(), "400 BadRequest", "{body:?}");
    }
}
