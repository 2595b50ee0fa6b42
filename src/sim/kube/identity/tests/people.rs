//! People: certificates, nobody in particular, and being seen as somebody else.

use serde_json::{Value, json};

use super::{Answer, Cluster, PODS, request, somebody};
use crate::sim::kube::identity::{ClientCertificate, User};

async fn whoami_as(cluster: &Cluster, user: &User, headers: &[(&str, &str)]) -> Answer {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = request("POST", path, &body, |mut request| {
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.extension(user.clone())
    });
    let (status, answer) = cluster.send(request).await;
    let info = &answer["status"]["userInfo"];
    (status, if info.is_null() { answer } else { info.clone() })
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_nothing_is_anonymous_and_whoever_shows_nonsense_is_refused() {
    let cluster = Cluster::new();
    let plain = request("GET", PODS, &Value::Null, |request| request);
    let (status, answer) = cluster.send(plain).await;
    assert_eq!((status, &answer["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        answer["message"],
        "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \
         \"default\""
    );
    let (status, answer) = cluster.with_token("nonsense", "GET", PODS).await;
    assert_eq!((status, &answer["reason"]), (401, &json!("Unauthorized")));
    let basic = request("GET", PODS, &Value::Null, |request| {
        request.header("authorization", "Basic eDp5")
    });
    assert_eq!(cluster.send(basic).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_the_cluster_is_believed_and_no_other() {
    let cluster = Cluster::new();
    let admin = cluster.server.identity().admin_credential().certificate;
    let admin = ClientCertificate::from_pem(admin.as_bytes()).unwrap();
    let show = |certificate: ClientCertificate| {
        request("GET", PODS, &Value::Null, |request| {
            request.extension(certificate)
        })
    };
    assert_eq!(cluster.send(show(admin)).await.0, 200);
    let root = cluster.server.identity().root_certificate();
    let elsewhere = crate::sim::kube::identity::Identity::new(crate::sim::kube::identity::Keys::Fresh);
    for (what, foreign) in [
        ("a foreign certificate", elsewhere.admin_credential().certificate),
        ("the authority's own, which is not for clients in any group", root),
    ] {
        let foreign = ClientCertificate::from_pem(foreign.as_bytes()).unwrap();
        let status = cluster.send(show(foreign)).await.0;
        assert!(status == 401 || status == 403, "{what}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_certificate_is_forgiven_if_there_is_a_good_token() {
    let cluster = Cluster::new();
    let token = cluster.token(json!({})).await;
    let both = request("GET", PODS, &Value::Null, |request| {
        request
            .extension(ClientCertificate(b"nonsense".to_vec()))
            .header("authorization", format!("Bearer {token}"))
    });
    let (status, answer) = cluster.send(both).await;
    assert_eq!(status, 403);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("system:serviceaccount:default:default"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_may_not_ask_does_not_learn_what_there_is() {
    let cluster = Cluster::new();
    for path in ["/api/v1/nodes/x", "/apis/nope/v1/things", "/nope"] {
        let (status, answer) = cluster.ask(&somebody(), "GET", path, Value::Null).await;
        assert_eq!(status, 403, "{answer}");
    }
    let (_, answer) = cluster.ask(&somebody(), "GET", "/nope", Value::Null).await;
    assert_eq!(
        answer["message"],
        "forbidden: User \"jane\" cannot get path \"/nope\""
    );
}

#[tokio::test(start_paused = true)]
async fn an_administrator_can_be_seen_as_anybody() {
    let cluster = Cluster::new();
    let seen = |user: &str, groups: Value| json!({"username": user, "groups": groups});
    let table: [(&[(&str, &str)], Value); 5] = [
        (
            &[("impersonate-user", "jane")],
            seen("jane", json!(["system:authenticated"])),
        ),
        (
            &[
                ("impersonate-user", "jane"),
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
            ],
            seen("jane", json!(["a", "b", "system:authenticated"])),
        ),
        (
            &[("impersonate-user", "system:serviceaccount:x:y")],
            seen(
                "system:serviceaccount:x:y",
                json!([
                    "system:serviceaccounts",
                    "system:serviceaccounts:x",
                    "system:authenticated"
                ]),
            ),
        ),
        (
            &[
                ("impersonate-user", "jane"),
                ("impersonate-extra-a%2fb", "c"),
                ("impersonate-uid", "u"),
            ],
            json!({"username": "jane", "uid": "u", "groups": ["system:authenticated"], "extra": {"a/b": ["c"]}}),
        ),
        (
            &[],
            seen(
                "kubernetes-admin",
                json!(["system:masters", "system:authenticated"]),
            ),
        ),
    ];
    for (headers, expected) in table {
        assert_eq!(
            whoami_as(&cluster, &User::admin(), headers).await,
            (201, expected),
            "{headers:?}"
        );
    }
    let nobody = [("impersonate-user", "system:anonymous")];
    assert_eq!(whoami_as(&cluster, &User::admin(), &nobody).await.0, 403);
    let group_of_nobody = [("impersonate-group", "a")];
    assert_eq!(whoami_as(&cluster, &User::admin(), &group_of_nobody).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn others_are_seen_only_as_whom_they_may_impersonate() {
    let cluster = Cluster::new();
    let headers = [("impersonate-user", "bob")];
    let (status, answer) = whoami_as(&cluster, &somebody(), &headers).await;
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "users \"bob\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API group \"\" at the \
         cluster scope"
    );
    let rule = json!({"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]});
    cluster.allow("jane", "be-bob", rule).await;
    assert_eq!(whoami_as(&cluster, &somebody(), &headers).await.0, 201);
    let root = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "system:masters"),
    ];
    assert_eq!(whoami_as(&cluster, &somebody(), &root).await.0, 403);
}
