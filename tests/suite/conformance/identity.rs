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

/// A lab in which alice may read ConfigMaps, change one, and scale deployments.
async fn lab_with_reader() -> Lab {
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
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "reader"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": group}],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"}});
    lab.post("rolebindings", &binding).is("201").await;
    // A real server hears of it a moment later.
    lab.get("configmaps/a")
        .on_behalf_of("alice")
        .eventually()
        .is("200")
        .await;
    lab
}

#[tokio::test]
async fn roles_say_who_may_do_what() {
    let mut lab = lab_with_reader().await;
    lab.get("configmaps/a")
        .on_behalf_of("bob")
        .is("403 Forbidden")
        .await;
    let change = json!({"data": {"k": "2"}});
    lab.merge_patch("configmaps/a", &change)
        .on_behalf_of("alice")
        .is("200")
        .await;
    lab.merge_patch("configmaps/b", &change)
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    lab.post("configmaps", &config("b"))
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
    for path in ["configmaps/a", "configmaps"] {
        lab.get(path).on_behalf_of("alice").is("200").await;
        lab.delete(path).on_behalf_of("alice").is("403 Forbidden").await;
    }
    for path in [
        "configmaps?watch=true&timeoutSeconds=1",
        "/api/v1/configmaps",
        "secrets",
        "nodes",
    ] {
        lab.get(path).on_behalf_of("alice").is("403 Forbidden").await;
    }
    lab.get("deployments/x/scale")
        .on_behalf_of("alice")
        .is("404 NotFound")
        .await;
    lab.merge_patch("rolebindings/reader", &json!({"roleRef": {"name": "other"}}))
        .is("422 Invalid")
        .await;
    // Nobody may give what they do not have.
    let more = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    lab.post("roles", &json!({"metadata": {"name": "more"}, "rules": more}))
        .on_behalf_of("alice")
        .is("403 Forbidden")
        .await;
}

#[tokio::test]
async fn reviews_say_who_may_do_what() {
    let mut lab = lab_with_reader().await;
    for (verb, resource) in [
        ("get", "configmaps"),
        ("delete", "configmaps"),
        ("get", "secrets"),
    ] {
        let what = json!({"namespace": "$ns", "verb": verb, "resource": resource});
        lab.post(
            "subjectaccessreviews",
            &json!({"spec": {"user": "alice", "resourceAttributes": what}}),
        )
        .is("201")
        .await;
        lab.post(
            "selfsubjectaccessreviews",
            &json!({"spec": {"resourceAttributes": what}}),
        )
        .on_behalf_of("alice")
        .is("201")
        .await;
    }
    lab.post("subjectaccessreviews", &json!({"spec": {"user": "alice"}}))
        .compare()
        .await;
    let nobodys = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    lab.post("subjectaccessreviews", &nobodys).compare().await;
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}});
    lab.post("selfsubjectaccessreviews", &path)
        .on_behalf_of("alice")
        .is("201")
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

/// Kubelets' own requests are approved by a controller; those to this signer by nobody.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const USAGES: [&str; 2] = ["digital signature", "client auth"];
const REQUESTS: &str = "certificatesigningrequests";
/// The token of an account that may ask for certificates, and no more.
const LIMITED: &str = "$token.status.token";

/// A lab with such an account.
async fn lab_with_applicant() -> Lab {
    let mut lab = Lab::open("identity").await;
    lab.post("serviceaccounts/default/token", &token_request(600))
        .keep("token")
        .is("201")
        .await;
    lab.post(REQUESTS, &signing_request("early", SIGNER, &USAGES))
        .bearing(LIMITED)
        .is("403 Forbidden")
        .await;
    let may_ask =
        json!([{"apiGroups": ["certificates.k8s.io"], "resources": [REQUESTS], "verbs": ["create", "get"]}]);
    lab.post(
        "clusterroles",
        &json!({"metadata": {"name": "$ns"}, "rules": may_ask}),
    )
    .is("201")
    .await;
    let binding = json!({"metadata": {"name": "$ns"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "$ns"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "$ns"}});
    lab.post("clusterrolebindings", &binding).is("201").await;
    // A real server hears of it a moment later.
    lab.get(&format!("{REQUESTS}/$ns-none"))
        .bearing(LIMITED)
        .eventually()
        .is("404 NotFound")
        .await;
    lab
}

#[tokio::test]
async fn a_certificate_is_asked_for_properly() {
    let mut lab = lab_with_applicant().await;
    let sound = signing_request("bad", SIGNER, &USAGES);
    for (path, value) in [
        ("spec/usages", json!(["sing"])),
        ("spec/usages", json!([])),
        ("spec/signerName", json!("")),
        ("spec/signerName", json!("nodomain")),
        ("spec/request", json!("eA==")),
        ("spec/expirationSeconds", json!(599)),
    ] {
        let spoilt = sound.clone().with(path, value);
        lab.post(REQUESTS, &spoilt).bearing(LIMITED).compare().await;
    }
}

#[tokio::test]
async fn a_certificate_is_approved_or_denied_once_and_on_its_own_path() {
    let mut lab = lab_with_applicant().await;
    let forged = signing_request("good", SIGNER, &USAGES).with("spec/username", json!("forged"));
    lab.post(REQUESTS, &forged).bearing(LIMITED).is("201").await;
    let say = |kind: &str| {
        let condition = json!({"type": kind, "status": "True", "reason": "Test", "message": "m"});
        json!({"status": {"conditions": [condition]}})
    };
    let good = format!("{REQUESTS}/$ns-good");
    lab.merge_patch(&good, &say("Approved")).compare().await;
    lab.merge_patch(&good, &json!({"spec": {"usages": ["any"]}}))
        .compare()
        .await;
    lab.merge_patch(&format!("{good}/status"), &say("Approved"))
        .is("422 Invalid")
        .await;
    let approval = format!("{good}/approval");
    lab.merge_patch(&approval, &say("Approved"))
        .bearing(LIMITED)
        .is("403 Forbidden")
        .await;
    lab.merge_patch(&approval, &say("Approved")).is("200").await;
    lab.merge_patch(&approval, &say("Denied")).is("422 Invalid").await;
    let other = format!("{REQUESTS}/$ns-other/approval");
    lab.post(REQUESTS, &signing_request("other", SIGNER, &USAGES))
        .bearing(LIMITED)
        .is("201")
        .await;
    lab.merge_patch(&other, &say("Denied")).is("200").await;
    lab.merge_patch(&other, &say("Approved")).is("422 Invalid").await;
}

#[tokio::test]
async fn an_approved_certificate_is_signed() {
    let mut lab = lab_with_applicant().await;
    let approve =
        json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}});
    lab.post(REQUESTS, &signing_request("signed", SIGNER, &USAGES))
        .bearing(LIMITED)
        .is("201")
        .await;
    lab.merge_patch(&format!("{REQUESTS}/$ns-signed/approval"), &approve)
        .compare()
        .await;
    lab.get(&format!("{REQUESTS}/$ns-signed"))
        .until("/status/certificate")
        .is("200")
        .await;
}
