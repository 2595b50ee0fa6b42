//! ServiceAccounts and their tokens.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ACCOUNTS, Cluster, PODS, pod, token_request};
use crate::sim::kube::identity::{Keys, User};
use crate::sim::kube::{ApiServer, Options};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn who() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

/// Who a token says one is.
async fn whoami(cluster: &Cluster, token: &str) -> (u16, Value) {
    let bearer = format!("Bearer {token}");
    let request = super::request("POST", WHO, &who(), |request| {
        request.header("authorization", bearer)
    });
    let (status, answer) = cluster.send(request).await;
    (status, answer["status"]["userInfo"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_token_makes_its_bearer_the_account_and_tells_which_token_it_was() {
    let cluster = Cluster::new();
    let (status, user) = whoami(&cluster, &cluster.token(json!({})).await).await;
    assert_eq!(
        (status, &user["username"]),
        (201, &json!("system:serviceaccount:default:default"))
    );
    assert_eq!(
        user["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    let id = user["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap();
    assert!(id.starts_with("JTI="), "{id}");
    let (_, other) = whoami(&cluster, &cluster.token(json!({})).await).await;
    assert_ne!(user["extra"], other["extra"]);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_the_same_in_every_run() {
    assert_eq!(
        Cluster::new().token(json!({})).await,
        Cluster::new().token(json!({})).await
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_when_the_clock_says_so() {
    let cluster = Cluster::new();
    let token = cluster.token(json!({"expirationSeconds": 600})).await;
    tokio::time::sleep(Duration::from_mins(10 + 1)).await;
    assert_eq!(whoami(&cluster, &token).await.0, 201);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(whoami(&cluster, &token).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_dies_with_its_account_and_the_account_of_the_same_name_does_not_revive_it() {
    let cluster = Cluster::new();
    let token = cluster.token(json!({})).await;
    let path = format!("{ACCOUNTS}/default");
    let before = cluster.admin("GET", &path, Value::Null).await;
    cluster.admin("DELETE", &path, Value::Null).await;
    let after = cluster.admin("GET", &path, Value::Null).await;
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(whoami(&cluster, &token).await.0, 401);
    assert_eq!(whoami(&cluster, &cluster.token(json!({})).await).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_token_for_others_or_of_another_cluster_is_refused() {
    let cluster = Cluster::new();
    let token = cluster.token(json!({"audiences": ["vault"]})).await;
    assert_eq!(whoami(&cluster, &token).await.0, 401);
    let elsewhere = Cluster {
        server: ApiServer::new(Options {
            clock: cluster.server.clock().clone(),
            seed: 1,
            keys: Keys::Fresh,
        }),
    };
    let token = elsewhere.token(json!({})).await;
    assert_eq!(whoami(&elsewhere, &token).await.0, 201);
    assert_eq!(whoami(&cluster, &token).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_bound_to_a_pod_tells_pod_and_node_and_dies_with_the_pod() {
    let cluster = Cluster::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
    cluster.admin("POST", "/api/v1/nodes", node).await;
    let pod = cluster.admin("POST", PODS, pod("p", "a")).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]});
    let token = cluster.token(json!({"boundObjectRef": bound})).await;
    let (_, user) = whoami(&cluster, &token).await;
    let extra = |key: &str| user["extra"][format!("authentication.kubernetes.io/{key}")][0].clone();
    assert_eq!((extra("pod-name"), extra("node-name")), (json!("p"), json!("a")));
    assert_eq!(extra("pod-uid"), pod["metadata"]["uid"]);
    cluster
        .admin("DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), Value::Null)
        .await;
    assert_eq!(whoami(&cluster, &token).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_token_bound_to_a_secret_or_node_dies_with_it() {
    let cluster = Cluster::new();
    let secrets = "/api/v1/namespaces/default/secrets";
    for (kind, path) in [("Secret", secrets), ("Node", "/api/v1/nodes")] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
        cluster.admin("POST", path, object).await;
        let bound = json!({"apiVersion": "v1", "kind": kind, "name": "x"});
        let token = cluster.token(json!({"boundObjectRef": bound})).await;
        assert_eq!(whoami(&cluster, &token).await.0, 201, "{kind}");
        cluster.admin("DELETE", &format!("{path}/x"), Value::Null).await;
        assert_eq!(whoami(&cluster, &token).await.0, 401, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_token_is_refused_as_a_real_server_does() {
    let cluster = Cluster::new();
    cluster.admin("POST", PODS, pod("p", "a")).await;
    let bound = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}});
    let table = [
        ("default", json!({"expirationSeconds": 599}), 422),
        ("default", json!({"expirationSeconds": 4_294_967_297_u64}), 422),
        ("default", json!({"expirationSeconds": 4_294_967_296_u64}), 201),
        ("default", bound("Pod", "nope", ""), 404),
        ("default", bound("Pod", "p", "other"), 409),
        ("default", bound("Node", "nope", ""), 404),
        ("default", bound("ConfigMap", "x", ""), 400),
        ("nope", json!({}), 404),
    ];
    for (account, spec, expected) in table {
        let path = format!("{ACCOUNTS}/{account}/token");
        let (status, answer) = cluster
            .ask(&User::admin(), "POST", &path, token_request(&spec))
            .await;
        assert_eq!(status, expected, "{spec}: {answer}");
    }
    let (status, _) = cluster
        .ask(
            &User::admin(),
            "GET",
            &format!("{ACCOUNTS}/default/token"),
            Value::Null,
        )
        .await;
    assert_eq!(status, 405);
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_has_an_account_and_the_certificate_to_trust() {
    let cluster = Cluster::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.admin("POST", "/api/v1/namespaces", namespace).await;
    cluster
        .admin(
            "GET",
            "/api/v1/namespaces/team/serviceaccounts/default",
            Value::Null,
        )
        .await;
    let certificate = cluster
        .admin(
            "GET",
            "/api/v1/namespaces/team/configmaps/kube-root-ca.crt",
            Value::Null,
        )
        .await;
    assert_eq!(
        certificate["data"]["ca.crt"],
        json!(cluster.server.identity().root_certificate())
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_only_tried_has_nothing() {
    let cluster = Cluster::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster
        .admin("POST", "/api/v1/namespaces?dryRun=All", namespace)
        .await;
    let path = "/api/v1/namespaces/team/serviceaccounts/default";
    let (status, _) = cluster.ask(&User::admin(), "GET", path, Value::Null).await;
    assert_eq!(status, 404);
}
