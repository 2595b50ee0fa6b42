//! How a webhook is reached: over HTTPS by its URL, or in this process by the service that it stands behind.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tower::ServiceExt;

use super::matching::Hook;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::server::ApiServer;
use crate::sim::kube::store::ObjectKey;

/// The longest answer that is read: the largest object, a patch of it in base64, and the words around them.
const ANSWER_BYTES_MAX: usize = 10 << 20;

/// Why a webhook gave no answer that counts.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// It was not reached, or not in time.
    #[error("failed to call webhook: {0}")]
    Call(String),
    /// It said something that is not an answer.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// It cannot even be asked, or its answer cannot be carried out.
    #[error("{0}")]
    Other(String),
}

/// The webhook servers that a server can reach without a network.
#[derive(Default)]
pub struct Webhooks {
    services: Mutex<BTreeMap<(String, String), Router>>,
    /// By the bundle of authorities that they trust.
    clients: Mutex<BTreeMap<String, reqwest::Client>>,
}

impl Webhooks {
    /// Puts a router behind a service, whatever its port. A service with nothing behind it refuses connections.
    pub fn serve_service(&self, namespace: &str, name: &str, router: Router) {
        let key = (namespace.to_owned(), name.to_owned());
        self.services().insert(key, router);
    }

    /// Takes it away again.
    pub fn stop_service(&self, namespace: &str, name: &str) {
        self.services().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn services(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Router>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self, bundle: &str) -> Result<reqwest::Client, Failure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(bundle) {
            return Ok(client.clone());
        }
        let client = client(bundle)
            .map_err(|problem| Failure::Other(format!("could not get REST client: {problem}")))?;
        clients.insert(bundle.to_owned(), client.clone());
        Ok(client)
    }
}

/// Sends a question and waits for the answer, for as long as the webhook is given on the server's clock.
pub(super) async fn post(server: &ApiServer, hook: &Hook, review: &Value) -> Result<Value, Failure> {
    let seconds = hook.timeout_seconds();
    let target = Target::of(hook.client(), seconds)?;
    let body = Bytes::from(review.to_string());
    let limit = server.clock().real(Duration::from_secs(seconds));
    let failed = |problem: String| Failure::Call(format!("Post \"{}\": {problem}", target.url));
    let answer = match tokio::time::timeout(limit, target.send(server, body)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(failed("context deadline exceeded".to_owned())),
    };
    match answer {
        (code, body) if code.is_success() => serde_json::from_slice(&body)
            .map_err(|error| Failure::Call(format!("couldn't get version/kind; json parse error: {error}"))),
        (StatusCode::NOT_FOUND, _) => Err(Failure::Call(
            "the server could not find the requested resource".to_owned(),
        )),
        (_, body) => {
            let said = String::from_utf8_lossy(&body).into_owned();
            let problem =
                format!("an error on the server ({said:?}) has prevented the request from succeeding");
            Err(Failure::Call(problem))
        }
    }
}

/// Where a webhook is.
struct Target {
    url: String,
    path: String,
    service: Option<(String, String)>,
    bundle: String,
}

impl Target {
    fn of(client: &Value, seconds: u64) -> Result<Self, Failure> {
        let bundle = client["caBundle"].as_str().unwrap_or_default().to_owned();
        let query = format!("timeout={seconds}s");
        if let Some(url) = client["url"].as_str() {
            let mut url = url::Url::parse(url).map_err(|error| Failure::Other(error.to_string()))?;
            url.set_query(Some(&query));
            return Ok(Self {
                url: url.to_string(),
                path: String::new(),
                service: None,
                bundle,
            });
        }
        let service = &client["service"];
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let port = service["port"].as_u64().unwrap_or(443);
        let path = format!("/{}?{query}", text("path").trim_start_matches('/'));
        Ok(Self {
            url: format!("https://{name}.{namespace}.svc:{port}{path}"),
            path,
            service: Some((namespace, name)),
            bundle,
        })
    }

    async fn send(&self, server: &ApiServer, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        match &self.service {
            Some(service) => self.send_inside(server, service, body).await,
            None => self.send_outside(server, body).await,
        }
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> Failure {
        Failure::Call(format!("Post \"{}\": {problem}", self.url))
    }

    async fn send_inside(
        &self,
        server: &ApiServer,
        service: &(String, String),
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let router = server.webhooks().services().get(service).cloned();
        let router = router.ok_or_else(|| self.failed(&unreachable(server, service)))?;
        let request = Request::post(&self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| self.failed(&error))?;
        let Ok(response) = router.oneshot(request).await;
        let code = response.status();
        let body = to_bytes(response.into_body(), ANSWER_BYTES_MAX)
            .await
            .map_err(|error| self.failed(&error))?;
        Ok((code, body))
    }

    async fn send_outside(&self, server: &ApiServer, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let client = server.webhooks().client(&self.bundle)?;
        let request = client
            .post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        let response = request
            .send()
            .await
            .map_err(|error| self.failed(&chain(&error.without_url())))?;
        let code = response.status();
        let body = response
            .bytes()
            .await
            .map_err(|error| self.failed(&chain(&error.without_url())))?;
        Ok((code, body))
    }
}

/// Why nobody is behind a service.
fn unreachable(server: &ApiServer, (namespace, name): &(String, String)) -> String {
    let state = server.state();
    let key = ObjectKey::new(namespace, name);
    match state.store.get(&TableKey::of("", "services"), &key) {
        Some(_) => "connect: connection refused".to_owned(),
        None => format!("service \"{name}\" not found"),
    }
}

/// An error with everything below it: reqwest keeps the reason to itself.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A client that trusts the authorities of a bundle (base64 of PEM) and no other.
fn client(bundle: &str) -> Result<reqwest::Client, String> {
    let pem = BASE64_STANDARD
        .decode(bundle)
        .map_err(|error| format!("caBundle: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("caBundle: {error}"))?;
    }
    let provider = rustls::crypto::ring::default_provider();
    let tls = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .build()
        .map_err(|error| chain(&error))
}
