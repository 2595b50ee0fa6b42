//! Who asks, and whether they may: tokens, certificates, roles, reviews.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config};

fn token_request(seconds: i64) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}})
}

#[tokio::test]
async fn a_token_makes_its_bearer_the_account() {
    let mut lab = Lab::open("identity").await;
    lab.post("serviceaccounts", &json!({"metadata": {"name": "robot"}}))
        .keep("robot")
        .is("201")
        .await;
    lab.post("serviceaccounts/robot/token", &token_request(600))
        .keep("token")
        .is("201")
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .bearing("$token.status.token")
        .is("201")
        .await;
    lab.post("tokenreviews", &json!({"spec": {"token": "$token.status.token"}}))
        .is("201")
        .await;
    lab.post("tokenreviews", &json!({"spec": {"token": "nonsense"}}))
        .is("201")
        .await;
    lab.post("tokenreviews", &json!({"spec": {}})).compare().await;
    lab.get("configmaps")
        .bearing("$token.status.token")
        .is("403 Forbidden")
        .await;
    lab.get("configmaps")
        .bearing("nonsense")
        .is("401 Unauthorized")
        .await;
    lab.delete("serviceaccounts/robot").is("200").await;
    lab.get("configmaps")
        .bearing("$token.status.token")
        .eventually()
        .is("401 Unauthorized")
        .await;
}

#[tokio::test]
async fn a_token_is_asked_for_properly() {
    let mut lab = Lab::open("identity").await;
    let path = "serviceaccounts/default/token";
    lab.post(path, &token_request(599)).is("422 Invalid").await;
    lab.post(path, &token_request(1 << 33)).compare().await;
    lab.post(path, &json!({})).compare().await;
    lab.post(path, &json!({"spec": {}})).compare().await;
    lab.post("serviceaccounts/missing/token", &token_request(600))
        .is("404 NotFound")
        .await;
    lab.post(path, &token_request(600).with("spec/audiences", json!(["other"])))
        .keep("other")
        .is("201")
        .await;
    lab.get("configmaps")
        .bearing("$other.status.token")
        .is("401 Unauthorized")
        .await;
    lab.post(
        "tokenreviews",
        &json!({"spec": {"token": "$other.status.token", "audiences": ["other"]}}),
    )
    .is("201")
    .await;
    lab.post("tokenreviews", &json!({"spec": {"token": "$other.status.token"}}))
        .is("201")
        .await;
    let bound = |kind: &str, name: &str| json!({"kind": kind, "apiVersion": "v1", "name": name});
    lab.post(
        path,
        &token_request(600).with("spec/boundObjectRef", bound("Pod", "missing")),
    )
    .compare()
    .await;
    lab.post(
        path,
        &token_request(600).with("spec/boundObjectRef", bound("ConfigMap", "x")),
    )
    .compare()
    .await;
    lab.get(path).compare().await;
}

#[tokio::test]
async fn roles_say_who_may_do_what() {
    let mut lab = Lab::open("identity").await;
    lab.post("configmaps", &config("a")).is("201").await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["*"]},
    ]);
    lab.post("roles", &json!({"metadata": {"name": "reader"}, "rules": rules}))
        .is("201")
        .await;
    let binding = json!({"metadata": {"name": "reader"}, "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}});
    lab.post("rolebindings", &binding).is("201").await;
    lab.get("configmaps/a")
        .on_behalf_of("alice")
        .eventually()
        .is("200")
        .await;
    lab.get("configmaps/a")
        .on_behalf_of("bob")
        .is("403 Forbidden")
        .await;
    lab.get("configmaps")
        .on_behalf_of("alice")
        .eventually()
        .is("200")
        .await;
    lab.get("configmaps?watch=true&timeoutSeconds=1")
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.post("configmaps", &config("b"))
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.merge_patch("configmaps/a", &json!({"data": {"k": "2"}}))
        .on_behalf_of("alice")
        .is("200")
        .await;
    lab.merge_patch("configmaps/b", &json!({"data": {"k": "2"}}))
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.delete("configmaps/a")
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.delete("configmaps")
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.get("/api/v1/configmaps")
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.get("secrets").on_behalf_of("alice").is("403 Forbidden").await;
    lab.get("deployments/x/scale")
        .on_behalf_of("alice")
        .is("404 NotFound")
        .await;
    lab.get("nodes").on_behalf_of("alice").is("403 Forbidden").await;
    lab.merge_patch("rolebindings/reader", &json!({"roleRef": {"name": "other"}}))
        .is("422 Invalid")
        .await;
    for (verb, resource) in [
        ("get", "configmaps"),
        ("delete", "configmaps"),
        ("get", "secrets"),
    ] {
        let review = json!({"spec": {"user": "alice", "resourceAttributes": {"namespace": "$ns", "verb": verb, "resource": resource}}});
        lab.post("subjectaccessreviews", &review).is("201").await;
        let own =
            json!({"spec": {"resourceAttributes": {"namespace": "$ns", "verb": verb, "resource": resource}}});
        lab.post("selfsubjectaccessreviews", &own)
            .on_behalf_of("alice")
            .is("201")
            .await;
    }
    lab.post("subjectaccessreviews", &json!({"spec": {"user": "alice"}}))
        .compare()
        .await;
    lab.post(
        "subjectaccessreviews",
        &json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    )
    .compare()
    .await;
    lab.post(
        "selfsubjectaccessreviews",
        &json!({"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}}),
    )
    .on_behalf_of("alice")
    .is("201")
    .await;
    // Nobody may give what they do not have.
    let more = json!({"metadata": {"name": "more"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    lab.post("roles", &more)
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
}

#[tokio::test]
async fn nobody_may_do_next_to_nothing() {
    let mut lab = Lab::open("identity").await;
    lab.get("configmaps").by_nobody().is("403 Forbidden").await;
    lab.get("/healthz").by_nobody().compare().await;
    lab.get("/apis").by_nobody().compare().await;
    lab.post("selfsubjectreviews", &json!({}))
        .by_nobody()
        .compare()
        .await;
    lab.get("configmaps")
        .header("authorization", "Basic eDp5")
        .by_nobody()
        .compare()
        .await;
    lab.get("/nowhere").by_nobody().compare().await;
    lab.get("/api/v1/namespaces/$ns/gadgets")
        .by_nobody()
        .compare()
        .await;
}

#[tokio::test]
async fn the_administrator_may_speak_for_others() {
    let mut lab = Lab::open("identity").await;
    lab.post("selfsubjectreviews", &json!({}))
        .on_behalf_of("alice")
        .is("201")
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .on_behalf_of("alice")
        .header("impersonate-group", "friends")
        .is("201")
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .on_behalf_of("alice")
        .header("impersonate-extra-scopes", "x")
        .is("201")
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .header("impersonate-group", "friends")
        .compare()
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .on_behalf_of("system:serviceaccount:$ns:default")
        .is("201")
        .await;
    lab.post("selfsubjectreviews", &json!({}))
        .on_behalf_of("system:node:n")
        .header("impersonate-group", "system:nodes")
        .is("201")
        .await;
    lab.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .compare()
        .await;
}

/// A request for a certificate, signed with a P-256 key: `CN=system:node:n, O=system:nodes`.
const REQUEST: &str = include_str!("node.csr");

fn signing_request(name: &str, signer: &str, usages: &[&str]) -> Value {
    use base64::Engine;
    let request = base64::prelude::BASE64_STANDARD.encode(REQUEST);
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": format!("$ns-{name}")},
           "spec": {"request": request, "signerName": signer, "usages": usages}})
}

#[tokio::test]
async fn a_certificate_is_asked_for_approved_and_signed() {
    let mut lab = Lab::open("identity").await;
    // Kubelets' own requests are approved by a controller; those to this signer by nobody.
    let client = "kubernetes.io/kube-apiserver-client";
    let usages = ["digital signature", "client auth"];
    let path = "certificatesigningrequests";
    lab.post("serviceaccounts/default/token", &token_request(600))
        .keep("token")
        .is("201")
        .await;
    let limited = "$token.status.token";
    lab.post(path, &signing_request("limited", client, &usages))
        .bearing(limited)
        .is("403 Forbidden")
        .await;
    let may_ask =
        json!([{"apiGroups": ["certificates.k8s.io"], "resources": [path], "verbs": ["create", "get"]}]);
    lab.post(
        "clusterroles",
        &json!({"metadata": {"name": "$ns"}, "rules": may_ask}),
    )
    .is("201")
    .await;
    let binding = json!({"metadata": {"name": "$ns"}, "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "$ns"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "$ns"}});
    lab.post("clusterrolebindings", &binding).is("201").await;
    lab.get(&format!("{path}/$ns-none"))
        .bearing(limited)
        .eventually()
        .is("404 NotFound")
        .await;
    lab.post(path, &signing_request("bad", client, &["sing"]))
        .compare()
        .await;
    lab.post(path, &signing_request("bad", "", &usages))
        .compare()
        .await;
    lab.post(path, &signing_request("bad", "nodomain", &usages))
        .compare()
        .await;
    lab.post(path, &signing_request("bad", client, &[]))
        .compare()
        .await;
    lab.post(
        path,
        &signing_request("bad", client, &usages).with("spec/request", json!("eA==")),
    )
    .compare()
    .await;
    lab.post(
        path,
        &signing_request("bad", client, &usages).with("spec/expirationSeconds", json!(599)),
    )
    .compare()
    .await;
    let forged = signing_request("good", client, &usages).with("spec/username", json!("forged"));
    lab.post(path, &forged).bearing(limited).is("201").await;
    let condition = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Test", "message": "m"}]}});
    let good = format!("{path}/$ns-good");
    lab.merge_patch(&good, &condition("Approved")).compare().await;
    lab.merge_patch(&good, &json!({"spec": {"usages": ["any"]}}))
        .compare()
        .await;
    lab.merge_patch(&format!("{good}/status"), &condition("Approved"))
        .is("422 Invalid")
        .await;
    lab.merge_patch(&format!("{good}/approval"), &condition("Approved"))
        .bearing(limited)
        .is("403 Forbidden")
        .await;
    lab.merge_patch(&format!("{good}/approval"), &condition("Approved"))
        .is("200")
        .await;
    lab.merge_patch(&format!("{good}/approval"), &condition("Denied"))
        .is("422 Invalid")
        .await;
    let other = format!("{path}/$ns-other");
    lab.post(path, &signing_request("other", client, &usages))
        .bearing(limited)
        .is("201")
        .await;
    lab.merge_patch(&format!("{other}/approval"), &condition("Denied"))
        .is("200")
        .await;
    lab.merge_patch(&format!("{other}/approval"), &condition("Approved"))
        .is("422 Invalid")
        .await;
}
