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
use crate::sim::kube::patch::merge;
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
        foo = merge::apply(&foo, &rest);
        self.patch(&format!("{FOOS}/a?{query}"), APPLY, foo).await
    }

    async fn apply_config(&self, manager: &str, rest: Value) -> Answer {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let config = merge::apply(&config, &rest);
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
    /// Status, reason, and the reasons and fields of the causes, but for remarks on the whole.
    fn refusal(&self) -> String {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let causes = causes.filter_map(|cause| {
            let (reason, field) = (cause["reason"].as_str()?, cause["field"].as_str()?);
            (field != "<nil>").then(|| format!(" {reason}@{field}"))
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
async fn a_patch_that_changes_nothing_writes_nothing() {
    let cluster = Cluster::new();
    let made = cluster.config("a", json!({"k": "1"})).await;
    cluster.server.clock().sleep(Duration::from_mins(1)).await;
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

mod ownership;
mod refusals;
