//! The life of a request for a certificate, from a token to a kubelet.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::request::write;
use crate::sim::kube::identity::keys::Key;
use crate::sim::kube::identity::tests::{Cluster, somebody};
use crate::sim::kube::identity::{CREDENTIAL_ID, ClientCertificate, Keys, User};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

fn pkcs10(name: &str, groups: &[&str]) -> String {
    BASE64_STANDARD.encode(write(&Key::new(Keys::Fixed, "kubelet"), name, groups, &[]))
}

fn csr(name: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
           "spec": {"request": pkcs10("system:node:a", &["system:nodes"]), "signerName": SIGNER,
                    "usages": ["digital signature", "client auth"]}})
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Checked", "message": "by hand"})
}

/// Decides about a request as somebody.
async fn decide(cluster: &Cluster, user: &User, name: &str, conditions: Value) -> (u16, Value) {
    let path = format!("{REQUESTS}/{name}");
    let mut csr = cluster.admin("GET", &path, Value::Null).await;
    csr["status"]["conditions"] = conditions;
    cluster.ask(user, "PUT", &format!("{path}/approval"), csr).await
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_with_a_token_and_becomes_a_kubelet() {
    let cluster = Cluster::new();
    let account = "system:serviceaccount:default:default";
    let ask = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get"]});
    cluster.allow(account, "ask", ask).await;
    let token = cluster.token(json!({"expirationSeconds": 600})).await;

    let machine: Api<CertificateSigningRequest> = Api::all(cluster.server.client_with_token(&token));
    let mut request = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: k8s_openapi::ByteString(
                BASE64_STANDARD
                    .decode(pkcs10("system:node:a", &["system:nodes"]))
                    .unwrap(),
            ),
            signer_name: SIGNER.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            username: Some("system:masters-in-disguise".to_owned()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    request.metadata.name = Some("join".to_owned());
    let made = machine.create(&PostParams::default(), &request).await.unwrap();
    assert_eq!(made.spec.username.as_deref(), Some(account));
    let credential = &made.spec.extra.unwrap()[CREDENTIAL_ID][0];
    assert!(credential.starts_with("JTI="), "{credential}");

    let approver: Api<CertificateSigningRequest> = Api::all(cluster.server.admin());
    let mut approved = approver.get("join").await.unwrap();
    approved.status.get_or_insert_default().conditions = Some(vec![CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        ..CertificateSigningRequestCondition::default()
    }]);
    let answered = approver
        .replace_subresource("approval", "join", &PostParams::default(), &approved)
        .await
        .unwrap();
    let status = answered.status.unwrap();
    assert!(
        status.certificate.is_none(),
        "the approval is one write, the certificate another"
    );
    assert!(status.conditions.unwrap()[0].last_update_time.is_some());

    let certificate = machine
        .get("join")
        .await
        .unwrap()
        .status
        .unwrap()
        .certificate
        .unwrap();
    let certificate = ClientCertificate::from_pem(&certificate.0).unwrap();
    let nodes: Api<Node> = Api::all(cluster.server.client_with_certificate(certificate));
    let node = |name: &str| {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node
    };
    nodes.create(&PostParams::default(), &node("a")).await.unwrap();
    let other = nodes
        .create(&PostParams::default(), &node("b"))
        .await
        .unwrap_err();
    assert!(matches!(other, kube::Error::Api(status) if status.is_forbidden()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_approved_or_signed_by_itself() {
    let cluster = Cluster::new();
    let mut with_approval = csr("x");
    with_approval["status"] = json!({"conditions": [condition("Approved")], "certificate": "eA=="});
    cluster.admin("POST", REQUESTS, with_approval).await;
    let stored = cluster.admin("GET", &format!("{REQUESTS}/x"), Value::Null).await;
    assert_eq!(stored["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn an_approval_needs_permission_for_the_signer() {
    let cluster = Cluster::new();
    cluster.admin("POST", REQUESTS, csr("x")).await;
    let approve = async || decide(&cluster, &somebody(), "x", json!([condition("Approved")])).await;
    let change = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]});
    cluster.allow("jane", "change", change).await;
    let (status, answer) = approve().await;
    assert_eq!(status, 403, "{answer}");
    assert_eq!(
        answer["message"],
        format!(
            "certificatesigningrequests.certificates.k8s.io \"x\" is forbidden: user not permitted to approve requests \
             with signerName \"{SIGNER}\""
        )
    );
    for (name, signer, expected) in [
        ("other", "example.com/*", 403),
        ("domain", "kubernetes.io/*", 200),
    ] {
        let rule = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer], "verbs": ["approve"]});
        cluster.allow("jane", name, rule).await;
        assert_eq!(approve().await.0, expected, "{signer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_stays_decided() {
    let cluster = Cluster::new();
    let admin = User::admin();
    cluster.admin("POST", REQUESTS, csr("x")).await;
    let both = json!([condition("Approved"), condition("Denied")]);
    assert_eq!(decide(&cluster, &admin, "x", both.clone()).await.0, 422);
    assert_eq!(
        decide(&cluster, &admin, "x", json!([condition("Denied")]))
            .await
            .0,
        200
    );
    assert_eq!(decide(&cluster, &admin, "x", json!([])).await.0, 422);
    assert_eq!(decide(&cluster, &admin, "x", both).await.0, 422);
    let denied = cluster.admin("GET", &format!("{REQUESTS}/x"), Value::Null).await;
    assert!(denied["status"]["certificate"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_plain_update_changes_neither_question_nor_answer() {
    let cluster = Cluster::new();
    let mut asked = cluster.admin("POST", REQUESTS, csr("x")).await;
    asked["spec"]["username"] = json!("root");
    asked["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
    asked["status"] = json!({"conditions": [condition("Approved")]});
    asked["metadata"]["labels"] = json!({"kept": "yes"});
    let after = cluster.admin("PUT", &format!("{REQUESTS}/x"), asked).await;
    assert_eq!(after["spec"]["username"], "kubernetes-admin");
    assert_eq!(after["spec"]["signerName"], SIGNER);
    assert_eq!(after["status"], json!({}));
    assert_eq!(after["metadata"]["labels"]["kept"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_request_is_refused_field_by_field() {
    let cluster = Cluster::new();
    let table = [
        ("/spec/request", json!("bm90IHBlbQ=="), "spec.request"),
        ("/spec/usages", json!([]), "spec.usages"),
        (
            "/spec/usages",
            json!(["client auth", "nonsense"]),
            "spec.usages[1]",
        ),
        (
            "/spec/usages",
            json!(["client auth", "client auth"]),
            "spec.usages[1]",
        ),
        ("/spec/signerName", json!(""), "spec.signerName"),
        ("/spec/signerName", json!("one-word"), "spec.signerName"),
        ("/spec/signerName", json!("nodots/name"), "spec.signerName"),
        (
            "/spec/signerName",
            json!("kubernetes.io/legacy-unknown"),
            "spec.signerName",
        ),
        ("/spec/expirationSeconds", json!(599), "spec.expirationSeconds"),
    ];
    for (path, value, field) in table {
        let mut bad = csr("x");
        bad["spec"]["expirationSeconds"] = json!(600);
        *bad.pointer_mut(path).unwrap() = value.clone();
        let (status, answer) = cluster.ask(&User::admin(), "POST", REQUESTS, bad).await;
        assert_eq!(status, 422, "{value}: {answer}");
        assert_eq!(answer["details"]["causes"][0]["field"], field, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_becomes_a_master_by_certificate() {
    let cluster = Cluster::new();
    let mut masters = csr("x");
    masters["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
    masters["spec"]["request"] = json!(pkcs10("jane", &["system:masters"]));
    let (status, answer) = cluster.ask(&User::admin(), "POST", REQUESTS, masters).await;
    assert_eq!(status, 403, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_asks_for_itself_only() {
    let cluster = Cluster::new();
    for (node, expected) in [("b", 403), ("a", 201)] {
        let (status, answer) = cluster.ask(&User::node(node), "POST", REQUESTS, csr("x")).await;
        assert_eq!(status, expected, "{answer}");
    }
}
