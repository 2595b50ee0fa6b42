//! Patches through the whole server. What is expected was seen on kube-apiserver 1.35.4.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::sim::kube::identity::Keys;
use crate::sim::kube::{ApiServer, Options};

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct Cluster {
    server: ApiServer,
    client: kube::Client,
}

impl Cluster {
    fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        let server = ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        });
        Self {
            client: server.admin(),
            server,
        }
    }

    /// With a custom kind whose lists and maps are of all types.
    async fn with_foos() -> Self {
        let cluster = Self::new();
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": text, "d": {"type": "string", "default": "dd"}, "n": {"type": "integer"},
                "m": {"type": "object", "additionalProperties": text},
                "at": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": text, "y": text}},
                "l": {"type": "array", "items": text},
                "s": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "lm": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "p"],
                       "items": {"type": "object", "required": ["name"], "properties": {
                            "name": text, "p": {"type": "string", "default": "TCP"}, "v": text}}},
            }},
            "status": {"type": "object", "properties": {
                "phase": text,
                "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type"], "properties": {"type": text, "status": text}}},
            }},
        }});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Foo", "plural": "foos"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                              "schema": {"openAPIV3Schema": schema}}]},
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(
            cluster.send("POST", path, "application/json", &crd).await.code,
            201
        );
        cluster
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        self.send_text(method, path, content_type, body.to_string()).await
    }

    async fn send_text(&self, method: &str, path: &str, content_type: &str, body: String) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "probe/1.0")
            .body(kube::client::Body::from(body.into_bytes()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
        let body = response.into_body().collect_bytes().await.unwrap();
        Answer {
            code,
            warnings,
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    async fn config(&self, name: &str, data: Value) -> Answer {
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.send("POST", CONFIGS, "application/json", &config).await
    }

    async fn foo(&self, spec: Value) -> Answer {
        let foo =
            json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec});
        self.send("POST", FOOS, "application/json", &foo).await
    }

    async fn patch(&self, path: &str, content_type: &str, patch: Value) -> Answer {
        self.send("PATCH", path, content_type, &patch).await
    }

    /// Applies to the foo `a`.
    async fn apply_foo(&self, query: &str, rest: Value) -> Answer {
        let mut foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}});
        foo = super::merge::apply(&foo, &rest);
        self.patch(&format!("{FOOS}/a?{query}"), APPLY, foo).await
    }

    async fn apply_config(&self, manager: &str, rest: Value) -> Answer {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let config = super::merge::apply(&config, &rest);
        self.patch(&format!("{CONFIGS}/c?fieldManager={manager}"), APPLY, config)
            .await
    }
}

struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Answer {
    /// Status, reason, and the reasons and fields of the causes.
    fn refusal(&self) -> String {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.filter_map(|cause| {
            let (reason, field) = (cause["reason"].as_str()?, cause["field"].as_str()?);
            Some(format!(" {reason}@{field}"))
        });
        let reason = self.body["reason"].as_str().unwrap_or("-");
        format!("{} {reason}{}", self.code, causes.collect::<String>())
    }

    fn ok(self) -> Value {
        assert!(self.code < 300, "{}", self.body);
        self.body
    }

    fn version(&self) -> &str {
        self.body["metadata"]["resourceVersion"].as_str().unwrap()
    }
}

/// `manager operation subresource: fields`, one line per entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let line = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let fields = super::fieldset::FieldSet::parse(&entry["fieldsV1"]).unwrap();
        let fields: Vec<_> = fields
            .paths()
            .iter()
            .map(|path| super::fieldset::path_text(path))
            .collect();
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
async fn each_kind_of_patch_changes_an_object() {
    let cluster = Cluster::new();
    cluster.config("a", json!({"k": "1"})).await.ok();
    let configs: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
    let params = PatchParams::apply("tests");
    let data = |config: ConfigMap| config.data.unwrap_or_default();
    let json: json_patch::Patch =
        serde_json::from_value(json!([{"op": "add", "path": "/data/j", "value": "1"}])).unwrap();
    let patched = configs
        .patch("a", &params, &Patch::<()>::Json(json))
        .await
        .unwrap();
    assert_eq!(data(patched)["j"], "1");
    let merge = json!({"data": {"m": "1", "j": null}});
    let patched = data(configs.patch("a", &params, &Patch::Merge(merge)).await.unwrap());
    assert!(patched["m"] == "1" && !patched.contains_key("j"));
    let strategic = json!({"data": {"$patch": "replace", "s": "1"}});
    let patched = configs
        .patch("a", &params, &Patch::Strategic(strategic))
        .await
        .unwrap();
    assert_eq!(data(patched), [("s".to_owned(), "1".to_owned())].into());
    let apply =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": "1"}});
    let made = configs.patch("b", &params, &Patch::Apply(apply)).await.unwrap();
    assert!(made.metadata.uid.is_some());
}

#[tokio::test(start_paused = true)]
async fn kubes_finalizer_helper_works() {
    let cluster = Cluster::new();
    cluster.config("a", json!({})).await.ok();
    let configs: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
    let get = || async { Arc::new(configs.get("a").await.unwrap()) };
    let run = |config: Arc<ConfigMap>| {
        finalizer(&configs, "example.com/hold", config, |event| async move {
            match event {
                Event::Apply(_) => Ok(Action::requeue(Duration::from_secs(1))),
                Event::Cleanup(_) => Ok::<_, std::io::Error>(Action::await_change()),
            }
        })
    };
    run(get().await).await.unwrap();
    assert_eq!(
        get().await.metadata.finalizers.as_deref().unwrap(),
        ["example.com/hold"]
    );
    configs.delete("a", &DeleteParams::default()).await.unwrap();
    run(get().await).await.unwrap();
    assert!(configs.get_opt("a").await.unwrap().is_none());
}

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
async fn a_patch_that_changes_nothing_writes_nothing() {
    let cluster = Cluster::new();
    let made = cluster.config("a", json!({"k": "1"})).await;
    cluster.server.clock().sleep(Duration::from_secs(60)).await;
    for (content_type, patch) in [
        (JSON, json!([])),
        (JSON, json!([{"op": "replace", "path": "/data/k", "value": "1"}])),
        (MERGE, json!({"data": {"k": "1"}})),
        (STRATEGIC, json!({"data": {"k": "1"}})),
    ] {
        let again = cluster
            .patch(&format!("{CONFIGS}/a?fieldManager=other"), content_type, patch)
            .await;
        assert_eq!(again.body, made.body);
    }
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
    cluster.server.clock().sleep(Duration::from_secs(60)).await;
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
    let new = |rest: Value| {
        super::merge::apply(
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

#[tokio::test(start_paused = true)]
async fn a_configuration_may_be_yaml() {
    let cluster = Cluster::with_foos().await;
    let yaml = "apiVersion: example.com/v1\nkind: Foo\nmetadata:\n  name: yaml\nspec:\n  a: \"1\"\n  lm:\n  - name: q\n";
    let made = cluster
        .send_text(
            "PATCH",
            &format!("{FOOS}/yaml?fieldManager=m"),
            APPLY,
            yaml.to_owned(),
        )
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["spec"]["lm"], json!([{"name": "q", "p": "TCP"}]));
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
async fn a_dry_run_answers_and_stores_nothing() {
    let cluster = Cluster::with_foos().await;
    let made = cluster.foo(json!({"a": "1"})).await;
    let path = format!("{FOOS}/a?dryRun=All&fieldManager=m");
    let dry = cluster
        .patch(&path, MERGE, json!({"spec": {"a": "2"}}))
        .await
        .ok();
    assert_eq!(dry["spec"]["a"], "2");
    let dry = cluster
        .apply_foo("dryRun=All&fieldManager=m", json!({"spec": {"n": 5}}))
        .await
        .ok();
    assert_eq!(dry["spec"]["n"], 5);
    let foos = cluster.send("GET", &format!("{FOOS}/a"), "", &json!(null)).await;
    assert_eq!(foos.body, made.body);
}

#[tokio::test(start_paused = true)]
async fn patches_that_race_all_count() {
    let cluster = Cluster::new();
    cluster.config("a", json!({})).await.ok();
    let configs: Api<ConfigMap> = Api::default_namespaced(cluster.client.clone());
    let patches = (0..20).map(|index| {
        let configs = configs.clone();
        async move {
            let patch = json!({"data": {format!("k{index}"): "1"}});
            configs
                .patch("a", &PatchParams::default(), &Patch::Merge(patch))
                .await
        }
    });
    futures::future::try_join_all(patches).await.unwrap();
    assert_eq!(configs.get("a").await.unwrap().data.unwrap().len(), 20);
    let applied = (0..5).map(|index| {
        let configs = configs.clone();
        async move {
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {format!("k{index}"): "1"}});
            let manager = format!("m{index}");
            configs.patch("new", &PatchParams::apply(&manager), &Patch::Apply(config)).await
        }
    });
    futures::future::try_join_all(applied).await.unwrap();
    assert_eq!(configs.get("new").await.unwrap().data.unwrap().len(), 5);
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
