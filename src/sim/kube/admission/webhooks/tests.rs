//! Webhooks in this process, asked through the whole server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::matching::{self, selects};
use crate::clock::Clock;
use crate::sim::kube::admission::{Admission, Operation};
use crate::sim::kube::identity::{Keys, User};
use crate::sim::kube::{ApiServer, Options, write};

/// A server, and what its webhooks were asked.
struct World {
    server: ApiServer,
    asked: Arc<Mutex<Vec<Value>>>,
}

/// An answer: status, `Warning` headers, body.
struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        Self {
            server: ApiServer::new(Options {
                clock,
                seed: 1,
                keys: Keys::Fixed,
            }),
            asked: Arc::default(),
        }
    }

    /// A webhook server behind the service `hooks/name` that answers with what `respond` makes of the request.
    fn serve(&self, name: &str, respond: impl Fn(&Value) -> Value + Clone + Send + Sync + 'static) {
        let asked = Arc::clone(&self.asked);
        let handler = move |Json(review): Json<Value>| async move {
            let mut response = respond(&review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            asked.lock().unwrap().push(review["request"].clone());
            Json(
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}),
            )
        };
        let router = Router::new().route("/review", post(handler));
        self.server.webhooks().serve_service("hooks", name, router);
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .extension(User::admin())
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = self.server.router().oneshot(request).await.unwrap();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
        let code = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Answer {
            code,
            warnings,
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    /// Stores a configuration with one webhook on config maps, changed by `with`.
    async fn configure(&self, kind: &str, name: &str, with: Value) {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
        let answer = self.send("POST", &path, &configuration(kind, name, &with)).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }

    async fn create(&self, name: &str) -> Answer {
        self.send("POST", CONFIG_MAPS, &config_map(name)).await
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "web"}}, "data": {}})
}

/// A configuration with one webhook on config maps, changed by `with`.
fn configuration(kind: &str, name: &str, with: &Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"service": {"namespace": "hooks", "name": name, "path": "/review"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    });
    for (field, value) in with.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
           "webhooks": [webhook]})
}

fn allowed() -> Value {
    json!({"allowed": true})
}

fn patching(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch.to_string())})
}

/// Appends a letter to `data.trail`.
fn leaving(letter: &str, request: &Value) -> Value {
    let trail = request["object"]["data"]["trail"].as_str().unwrap_or_default();
    let data = json!({"trail": format!("{trail}{letter}")});
    patching(&json!([{"op": "add", "path": "/data", "value": data}]))
}

#[tokio::test(start_paused = true)]
async fn patches_are_applied_in_the_order_of_names_and_stored() {
    let world = World::new();
    for name in ["b", "a"] {
        world.serve(name, move |request| leaving(name, request));
        world.configure(MUTATING, name, json!({})).await;
    }
    let answer = world.create("x").await;
    assert_eq!((answer.code, &answer.body["data"]["trail"]), (201, &json!("ab")));
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_it_is_asked_again_after_a_later_change_and_only_once() {
    let world = World::new();
    for (name, policy) in [("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")] {
        world.serve(name, move |request| leaving(name, request));
        world
            .configure(MUTATING, name, json!({"reinvocationPolicy": policy}))
            .await;
    }
    // What a changes the second time, c hears of, and with that it ends.
    assert_eq!(world.create("x").await.body["data"]["trail"], "abcac");
}

#[tokio::test(start_paused = true)]
async fn a_denial_carries_the_status_that_the_webhook_gave() {
    let table = [
        (
            json!({"code": 403, "reason": "Forbidden", "message": "no"}),
            403,
            json!("Forbidden"),
            ": no",
        ),
        (json!({"message": "no"}), 400, Value::Null, ": no"),
        (
            json!({"reason": "Conflict", "code": 409}),
            409,
            json!("Conflict"),
            ": Conflict",
        ),
        (Value::Null, 400, Value::Null, " without explanation"),
        (json!({"code": 200}), 400, Value::Null, " without explanation"),
    ];
    for (status, code, reason, ending) in table {
        let world = World::new();
        let given = status.clone();
        world.serve("v", move |_| json!({"allowed": false, "status": given}));
        world.configure(VALIDATING, "v", json!({})).await;
        let answer = world.create("x").await;
        let message = format!("admission webhook \"v.example.com\" denied the request{ending}");
        assert_eq!(
            (answer.code, &answer.body["message"]),
            (code, &json!(message)),
            "{status}"
        );
        assert_eq!(answer.body["reason"], reason, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_cannot_be_reached_fails_the_request_or_is_ignored_as_configured() {
    let world = World::new();
    world
        .configure(VALIDATING, "gone", json!({"failurePolicy": "Ignore"}))
        .await;
    assert_eq!(world.create("ignored").await.code, 201);
    world
        .configure(VALIDATING, "lost", json!({"failurePolicy": "Fail"}))
        .await;
    let answer = world.create("failed").await;
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (500, &json!("InternalError"))
    );
    let message = answer.body["message"].as_str().unwrap();
    let expected = "Internal error occurred: failed calling webhook \"lost.example.com\": failed to call webhook: \
                    Post \"https://lost.hooks.svc:443/review?timeout=10s\": service \"lost\" not found";
    assert_eq!(message, expected);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_has_its_time_on_the_servers_clock() {
    let world = World::new();
    let slow = post(|| async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        Json(json!({}))
    });
    world
        .server
        .webhooks()
        .serve_service("hooks", "slow", Router::new().route("/review", slow));
    world
        .configure(VALIDATING, "slow", json!({"timeoutSeconds": 3}))
        .await;
    let before = world.server.clock().now();
    let answer = world.create("x").await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.body["message"]
            .as_str()
            .unwrap()
            .ends_with("context deadline exceeded")
    );
    assert_eq!(world.server.clock().now().duration_since(before).as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_is_a_failure() {
    let answers = [
        json!({}),
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}),
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "x", "allowed": true}}),
    ];
    for answer in answers {
        let world = World::new();
        let given = answer.clone();
        let router = Router::new().route("/review", post(|| async { Json(given) }));
        world.server.webhooks().serve_service("hooks", "odd", router);
        world.configure(MUTATING, "odd", json!({})).await;
        let refused = world.create("x").await;
        assert_eq!(refused.code, 500, "{answer}");
        let message = refused.body["message"].as_str().unwrap().to_owned();
        assert!(message.contains("received invalid webhook response"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_validating_webhook_may_not_patch_and_nobody_may_patch_a_deletion() {
    let world = World::new();
    let patch = json!([{"op": "add", "path": "/data", "value": {}}]);
    world.serve("m", move |_| patching(&patch));
    world.configure(VALIDATING, "m", json!({})).await;
    assert_eq!(world.create("x").await.code, 500);
    world
        .send(
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/m",
            &json!({}),
        )
        .await;
    world.configure(MUTATING, "m", json!({})).await;
    assert_eq!(world.create("x").await.code, 201);
    let answer = world
        .send(
            "DELETE",
            &format!("{CONFIG_MAPS}/x"),
            &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
        )
        .await;
    assert_eq!(answer.code, 500);
    assert!(
        answer.body["message"]
            .as_str()
            .unwrap()
            .contains("attempted to modify the object")
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_asks_only_webhooks_without_side_effects() {
    let world = World::new();
    world.serve("v", |_| allowed());
    // No such configuration can be made any more; one made through an older version of the API may still be there.
    write::insert(
        &world.server,
        configuration(VALIDATING, "v", &json!({"sideEffects": "Some"})),
    );
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let answer = world.send("POST", &path, &config_map("x")).await;
    assert_eq!(answer.code, 400);
    assert_eq!(
        answer.body["message"],
        "admission webhook \"v.example.com\" does not support dry run"
    );
    assert!(world.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn warnings_reach_the_client() {
    let world = World::new();
    world.serve(
        "v",
        |_| json!({"allowed": true, "warnings": ["old field", "old field", "another"]}),
    );
    world.configure(VALIDATING, "v", json!({})).await;
    let answer = world.create("x").await;
    assert_eq!(answer.warnings, ["299 - \"old field\"", "299 - \"another\""]);
}

#[tokio::test(start_paused = true)]
async fn a_review_says_who_does_what_to_which_object() {
    let world = World::new();
    world.serve("v", |_| allowed());
    world.configure(VALIDATING, "v", json!({})).await;
    world.create("x").await;
    let mut changed = config_map("x");
    changed["data"]["k"] = "v".into();
    world.send("PUT", &format!("{CONFIG_MAPS}/x"), &changed).await;
    world
        .send(
            "DELETE",
            &format!("{CONFIG_MAPS}/x"),
            &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
        )
        .await;
    let asked = world.asked();
    let operations: Vec<_> = asked
        .iter()
        .map(|request| request["operation"].as_str().unwrap())
        .collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "DELETE"]);
    let [create, update, delete] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!(
        create["kind"],
        json!({"group": "", "version": "v1", "kind": "ConfigMap"})
    );
    assert_eq!(
        create["resource"],
        json!({"group": "", "version": "v1", "resource": "configmaps"})
    );
    assert_eq!(
        (create["name"].as_str(), create["namespace"].as_str()),
        (Some("x"), Some("default"))
    );
    assert_eq!(create["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(create["options"]["kind"], "CreateOptions");
    assert_eq!(
        (&create["oldObject"], &create["object"]["kind"]),
        (&Value::Null, &json!("ConfigMap"))
    );
    assert_eq!(update["object"]["data"]["k"], "v");
    assert_eq!(
        update["oldObject"]["metadata"]["uid"],
        update["object"]["metadata"]["uid"]
    );
    assert_eq!(
        (&delete["object"], &delete["oldObject"]["data"]["k"]),
        (&Value::Null, &json!("v"))
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_and_conditions_decide_who_is_asked() {
    let table = [
        (json!({"objectSelector": {"matchLabels": {"app": "web"}}}), 1),
        (json!({"objectSelector": {"matchLabels": {"app": "db"}}}), 0),
        (
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            1,
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}}),
            0,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'x'"}]}),
            1,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "request.operation == 'DELETE'"}]}),
            0,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "oldObject == null"},
                                    {"name": "b", "expression": "!('system:nodes' in request.userInfo.groups)"}]}),
            1,
        ),
        (
            json!({"failurePolicy": "Ignore", "matchConditions": [{"name": "a", "expression": "object.none.deeper"}]}),
            0,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object.none.deeper"}, {"name": "b", "expression": "false"}]}),
            0,
        ),
        (
            json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["CREATE"]}]}),
            1,
        ),
        (
            json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"],
                           "scope": "Cluster"}]}),
            0,
        ),
    ];
    for (with, times) in table {
        let world = World::new();
        world.serve("v", |_| allowed());
        world.configure(VALIDATING, "v", with.clone()).await;
        assert_eq!(world.create("x").await.code, 201, "{with}");
        assert_eq!(world.asked().len(), times, "{with}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_evaluated_refuses_the_request() {
    let world = World::new();
    world.serve("v", |_| allowed());
    let conditions = json!([{"name": "a", "expression": "object.none.deeper"}]);
    world
        .configure(VALIDATING, "v", json!({ "matchConditions": conditions }))
        .await;
    let answer = world.create("x").await;
    assert_eq!((answer.code, &answer.body["reason"]), (403, &json!("Forbidden")));
    assert!(world.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_equivalent_group_is_asked_in_its_own_words_unless_the_match_is_exact() {
    for (policy, asked) in [("Equivalent", 1), ("Exact", 0)] {
        let world = World::new();
        world.serve("m", |_| {
            patching(&json!([{"op": "add", "path": "/note", "value": "changed"}]))
        });
        let rule = json!({"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"], "operations": ["*"]});
        world
            .configure(MUTATING, "m", json!({"rules": [rule], "matchPolicy": policy}))
            .await;
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "sent",
                           "involvedObject": {"namespace": "default"}});
        let answer = world
            .send("POST", "/api/v1/namespaces/default/events", &event)
            .await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let requests = world.asked();
        assert_eq!(requests.len(), asked);
        for request in requests {
            assert_eq!(request["resource"]["group"], "events.k8s.io");
            assert_eq!(request["requestResource"]["group"], "");
            assert_eq!(request["object"]["note"], "sent");
            assert_eq!(request["object"]["apiVersion"], "events.k8s.io/v1");
        }
        let expected = if asked == 1 { "changed" } else { "sent" };
        assert_eq!(
            (&answer.body["message"], &answer.body["apiVersion"]),
            (&json!(expected), &json!("v1"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_configurations_themselves_are_never_asked_about() {
    let world = World::new();
    let everything =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]);
    world
        .configure(VALIDATING, "broken", json!({ "rules": everything }))
        .await;
    assert_eq!(world.create("x").await.code, 500);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/broken";
    assert_eq!(world.send("DELETE", path, &json!({})).await.code, 200);
    assert_eq!(world.create("x").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn rules_match_operations_groups_versions_resources_and_subresources() {
    let world = World::new();
    let rule = |resources: Value, operations: Value| json!({"rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources, "operations": operations}]});
    let deployment = world
        .server
        .state()
        .registry
        .by_plural("apps", "deployments")
        .unwrap();
    let user = User::admin();
    let object = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d", "namespace": "default"}});
    let table = [
        (rule(json!(["deployments"]), json!(["UPDATE"])), None, true),
        (
            rule(json!(["deployments"]), json!(["CREATE", "DELETE"])),
            None,
            false,
        ),
        (rule(json!(["deployments"]), json!(["*"])), Some("scale"), false),
        (
            rule(json!(["deployments/scale"]), json!(["*"])),
            Some("scale"),
            true,
        ),
        (rule(json!(["deployments/scale"]), json!(["*"])), None, false),
        (rule(json!(["deployments/*"]), json!(["*"])), Some("status"), true),
        (rule(json!(["deployments/*"]), json!(["*"])), None, true),
        (rule(json!(["*/scale"]), json!(["*"])), Some("scale"), true),
        (rule(json!(["*"]), json!(["*"])), Some("scale"), false),
        (rule(json!(["*/*"]), json!(["*"])), Some("scale"), true),
        (rule(json!(["replicasets"]), json!(["*"])), None, false),
    ];
    for (webhook, subresource, expected) in table {
        let admission = Admission {
            kind: &deployment,
            user: &user,
            operation: Operation::Update,
            subresource,
            old: Some(&object),
            dry_run: false,
        };
        let hook = &matching::Hook::all(&json!({"webhooks": [webhook]}))[0];
        let invocation = matching::invocation(&world.server, &admission, &object, hook).unwrap();
        assert_eq!(invocation.is_some(), expected, "{webhook} {subresource:?}");
    }
}

#[test]
fn label_selectors_select_as_kubernetes_means_them() {
    let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    let by = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let table = [
        (json!({}), true),
        (json!({"matchLabels": {"a": "1"}}), true),
        (json!({"matchLabels": {"a": "2"}}), false),
        (by("a", "In", json!(["1", "2"])), true),
        (by("b", "In", json!(["1"])), false),
        (by("a", "NotIn", json!(["1"])), false),
        (by("b", "NotIn", json!(["1"])), true),
        (by("a", "Exists", json!([])), true),
        (by("b", "DoesNotExist", json!([])), true),
        (by("a", "Sometimes", json!([])), false),
    ];
    for (selector, expected) in table {
        assert_eq!(selects(&selector, &labels), expected, "{selector}");
    }
}
