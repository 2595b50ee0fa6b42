//! Webhooks over TLS, on a socket of this machine: who is trusted, what they change and refuse, and what becomes of a
//! request that they do not answer.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::Lab;
use super::objects::{With, config};

/// Longer than the webhook that waits is given.
const TOO_LONG: Duration = Duration::from_secs(3);

/// A webhook server, gone when it is dropped.
struct Hooks {
    port: u16,
    /// Its authority, as a `caBundle`.
    bundle: String,
    task: JoinHandle<()>,
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Somebody with an authority of its own, and a certificate for this machine by it.
fn stranger() -> ApiServer {
    ApiServer::new(Options {
        clock: Clock::system(),
        seed: 2,
        keys: Keys::Fresh,
    })
}

fn bundle_of(server: &ApiServer) -> String {
    BASE64_STANDARD.encode(server.identity().root_certificate())
}

impl Hooks {
    async fn serve() -> Self {
        let owner = stranger();
        let (certificate, key) = owner.identity().serving_credential();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key)),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = TowerToHyperService::new(router());
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            port,
            bundle: bundle_of(&owner),
            task,
        }
    }

    /// A client configuration that trusts the server.
    fn at(&self, path: &str) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/{path}", self.port), "caBundle": self.bundle})
    }
}

fn router() -> Router {
    let answer = |review: &Value, mut response: Value| {
        response["uid"] = review["request"]["uid"].clone();
        Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}))
    };
    let mark = move |Json(review): Json<Value>| async move {
        let patch = json!([{"op": "add", "path": "/data/marked", "value": "yes"}]);
        let patch = BASE64_STANDARD.encode(patch.to_string());
        answer(
            &review,
            json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}),
        )
    };
    let judge = move |Json(review): Json<Value>| async move {
        let object = &review["request"]["object"];
        let marked = object["data"]["marked"] == "yes";
        let allowed = marked && object["data"]["k"] != "bad";
        answer(
            &review,
            json!({"allowed": allowed, "status": {"code": 422, "message": "it is bad"}}),
        )
    };
    let wait = move |Json(review): Json<Value>| async move {
        tokio::time::sleep(TOO_LONG).await;
        answer(&review, json!({"allowed": true}))
    };
    let babble = || async { "what?" };
    Router::new()
        .route("/mark", post(mark))
        .route("/judge", post(judge))
        .route("/wait", post(wait))
        .route("/babble", post(babble))
}

/// A configuration with one webhook on the config maps of the lab.
fn configuration(kind: &str, name: &str, client: &Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": format!("$ns-{name}")},
    "webhooks": [{
        "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "timeoutSeconds": 1, "clientConfig": client,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}},
        "objectSelector": {"matchLabels": {"hook": name}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                   "operations": ["CREATE"]}],
    }]})
}

fn for_hook(name: &str, hook: &str) -> Value {
    config(name).with("metadata/labels", json!({"hook": hook}))
}

/// A real server hears of a configuration a moment later.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(1500)).await;
}

#[tokio::test]
async fn webhooks_over_tls_change_and_refuse() {
    let hooks = Hooks::serve().await;
    let mut lab = Lab::open("hooking").await;
    for (kind, plural, path) in [
        (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "mark",
        ),
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "judge",
        ),
    ] {
        let both = configuration(kind, path, &hooks.at(path)).with(
            "webhooks/0/objectSelector",
            json!({"matchLabels": {"hook": "both"}}),
        );
        lab.post(plural, &both).is("201").await;
    }
    settled().await;
    lab.post("configmaps", &for_hook("good", "both")).is("201").await;
    lab.get("configmaps/good").is("200").await;
    lab.post(
        "configmaps",
        &for_hook("bad", "both").with("data/k", json!("bad")),
    )
    .is("422")
    .await;
    lab.post("configmaps", &config("other")).is("201").await;
    lab.delete("mutatingwebhookconfigurations/$ns-mark")
        .is("200")
        .await;
    settled().await;
    lab.post("configmaps", &for_hook("unmarked", "both"))
        .is("422")
        .await;
    lab.delete("validatingwebhookconfigurations/$ns-judge")
        .is("200")
        .await;
}

#[tokio::test]
async fn a_webhook_that_gives_no_answer_counts_as_its_policy_says() {
    let hooks = Hooks::serve().await;
    let mut lab = Lab::open("hooking").await;
    let untrusted = hooks.at("mark").with("caBundle", json!(bundle_of(&stranger())));
    let nobody = {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = free.local_addr().unwrap().port();
        json!({"url": format!("https://127.0.0.1:{port}/mark"), "caBundle": hooks.bundle})
    };
    let cases = [
        ("untrusted", untrusted),
        ("slow", hooks.at("wait")),
        ("nobody", nobody),
        ("nowhere", hooks.at("missing")),
        ("babbling", hooks.at("babble")),
    ];
    let kinds = [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
    ];
    for (kind, plural) in kinds {
        for policy in ["Fail", "Ignore"] {
            for (name, client) in &cases {
                let webhook =
                    configuration(kind, name, client).with("webhooks/0/failurePolicy", json!(policy));
                lab.post(plural, &webhook).is("201").await;
            }
            settled().await;
            for (name, _) in &cases {
                let expected = if policy == "Fail" {
                    "500 InternalError"
                } else {
                    "201"
                };
                let object = format!("{name}-{}", kind.to_lowercase());
                lab.post("configmaps", &for_hook(&object, name))
                    .is(expected)
                    .await;
            }
            for (name, _) in &cases {
                lab.delete(&format!("{plural}/$ns-{name}")).is("200").await;
            }
            settled().await;
        }
    }
}
