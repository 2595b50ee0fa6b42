//! Reviews: the same answers as the requests themselves would get.

use serde_json::{Value, json};

use super::{Answer, Cluster, somebody};
use crate::sim::kube::identity::User;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

async fn access(cluster: &Cluster, spec: Value) -> Answer {
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    cluster.ask(&User::admin(), "POST", &path, body).await
}

#[tokio::test(start_paused = true)]
async fn an_access_review_tells_whether_and_because_of_what() {
    let cluster = Cluster::new();
    let discover = json!({"verb": "get", "path": "/apis"});
    let (_, answer) = access(
        &cluster,
        json!({"user": "jane", "groups": ["system:authenticated"], "nonResourceAttributes": discover}),
    )
    .await;
    assert_eq!(
        answer["status"],
        json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \
                                           \"system:discovery\" to Group \"system:authenticated\""})
    );
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let (_, answer) = access(&cluster, json!({"user": "jane", "resourceAttributes": pods})).await;
    assert_eq!(answer["status"], json!({"allowed": false}));
    let other = json!({"verb": "get", "resource": "nodes", "name": "b"});
    let kubelet = json!({"user": "system:node:a", "groups": ["system:nodes"], "resourceAttributes": other});
    let (_, answer) = access(&cluster, kubelet).await;
    assert_eq!(
        answer["status"],
        json!({"allowed": false, "reason": "node 'a' cannot read 'b', only its own Node object"})
    );
}

#[tokio::test(start_paused = true)]
async fn an_access_review_without_a_question_or_a_person_is_refused() {
    let cluster = Cluster::new();
    let pods = json!({"verb": "get", "resource": "pods"});
    for (spec, fields) in [
        (json!({}), vec!["spec.resourceAttributes", "spec.user"]),
        (json!({"user": "jane"}), vec!["spec.resourceAttributes"]),
        (json!({"resourceAttributes": pods}), vec!["spec.user"]),
        (
            json!({"user": "jane", "resourceAttributes": pods, "nonResourceAttributes": {"verb": "get", "path": "/"}}),
            vec!["spec.nonResourceAttributes"],
        ),
    ] {
        let (status, answer) = access(&cluster, spec).await;
        assert_eq!(status, 422, "{answer}");
        let causes = answer["details"]["causes"].as_array().unwrap().iter();
        let named: Vec<&str> = causes.filter_map(|cause| cause["field"].as_str()).collect();
        assert_eq!(named, fields);
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_who_is_known_may_ask_about_themselves() {
    let cluster = Cluster::new();
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    cluster.allow("jane", "list", rule.clone()).await;
    let own = |verb: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
               "spec": {"resourceAttributes": {"verb": verb, "resource": "pods"}}})
    };
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for (verb, allowed) in [("list", true), ("delete", false)] {
        let (status, answer) = cluster.ask(&somebody(), "POST", &path, own(verb)).await;
        assert_eq!((status, &answer["status"]["allowed"]), (201, &json!(allowed)));
    }
    let (status, _) = cluster.ask(&User::anonymous(), "POST", &path, own("list")).await;
    assert_eq!(status, 403);
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let (_, answer) = cluster.ask(&somebody(), "POST", &path, rules).await;
    assert!(
        answer["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&rule),
        "{answer}"
    );
    assert_eq!(answer["status"]["incomplete"], false);
}

#[tokio::test(start_paused = true)]
async fn a_token_review_tells_whose_it_is_and_for_whom() {
    let cluster = Cluster::new();
    let token = cluster.token(json!({"audiences": ["vault"]})).await;
    let review = async |spec: Value| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        cluster.ask(&User::admin(), "POST", path, body).await
    };
    let (_, answer) = review(json!({"token": token, "audiences": ["vault", "else"]})).await;
    assert_eq!(answer["status"]["authenticated"], true);
    assert_eq!(answer["status"]["audiences"], json!(["vault"]));
    let (_, answer) = review(json!({"token": token})).await;
    assert_eq!(answer["status"]["authenticated"], Value::Null);
    assert!(answer["status"]["error"].is_string());
    assert_eq!(review(json!({})).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_review_is_never_stored() {
    let cluster = Cluster::new();
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let before = cluster.server.state().store.revision();
    let pods = json!({"verb": "get", "resource": "pods"});
    assert_eq!(
        access(&cluster, json!({"user": "jane", "resourceAttributes": pods}))
            .await
            .0,
        201
    );
    assert_eq!(cluster.server.state().store.revision(), before);
    assert_eq!(
        cluster.ask(&User::admin(), "GET", &path, Value::Null).await.0,
        405
    );
}
