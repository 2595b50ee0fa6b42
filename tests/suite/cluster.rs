//! A cluster to test against: the embedded one, or the real one that `hack/control-plane` starts.
//!
//! A test is written once and sees only HTTP. The embedded cluster is there always; the real one where the environment
//! says how to reach it (`eval "$(hack/control-plane env)"`), which `hack/test` takes care of.

#![cfg(feature = "sim")]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::{Keys, User};
use karpenter_ibm::sim::kube::{ApiServer, Options};
use serde_json::Value;
use tower::ServiceExt;

/// How often a new kind is asked for, every 50 ms: a real server takes a second or two.
const TRIES_MAX: usize = 400;

/// A Kubernetes API that is reached over HTTP.
pub(crate) struct Cluster(Reached);

enum Reached {
    Embedded(Box<ApiServer>),
    Real(Box<Real>),
}

/// Where the real one is, and two ways to talk to it: with the administrator's certificate, and with none.
struct Real {
    url: String,
    admin: reqwest::Client,
    nobody: reqwest::Client,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A member of `system:masters`, by certificate.
    Admin,
    /// Whoever holds this bearer token.
    Bearer(String),
    /// Somebody without any credential.
    Nobody,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as one JSON value, or null.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Cluster {
    /// A fresh embedded cluster.
    pub(crate) fn embedded() -> Self {
        let server = ApiServer::new(Options {
            clock: Clock::system(),
            seed: 1,
            keys: Keys::Fresh,
        });
        Self(Reached::Embedded(Box::new(server)))
    }

    /// The real cluster, where the environment names one; says so on stderr where it does not.
    pub(crate) fn real() -> Option<Self> {
        let Ok(url) = env::var("CONTROL_PLANE_URL") else {
            eprintln!("not run against a real control plane: CONTROL_PLANE_URL is not set");
            return None;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = |variable: &str| {
            let path = env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
            fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let root = reqwest::Certificate::from_pem(&file("CONTROL_PLANE_CA")).unwrap();
        let mut admin = file("CONTROL_PLANE_ADMIN_CERT");
        admin.extend(file("CONTROL_PLANE_ADMIN_KEY"));
        let client = || {
            let builder = reqwest::Client::builder().tls_certs_only([root.clone()]);
            builder.no_proxy()
        };
        let identity = reqwest::Identity::from_pem(&admin).unwrap();
        Some(Self(Reached::Real(Box::new(Real {
            url,
            admin: client().identity(identity).build().unwrap(),
            nobody: client().build().unwrap(),
        }))))
    }

    /// Which of the two it is.
    pub(crate) fn name(&self) -> &'static str {
        match self.0 {
            Reached::Embedded(_) => "embedded",
            Reached::Real(_) => "real",
        }
    }

    /// Defines a custom kind, or changes its definition, and waits until it is served.
    pub(crate) async fn define(&self, definition: &Value) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let request = |method: &str, uri: String, body: &Value| {
            let request = Request::builder().method(method).uri(uri);
            let request = request.header("content-type", "application/apply-patch+yaml");
            request.body(body.to_string().into_bytes()).unwrap()
        };
        let name = text(&definition["metadata"]["name"]);
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=suite&force=true"
        );
        let answer = self.send(&Who::Admin, request("PATCH", path, definition)).await;
        assert!(
            answer.status.is_success(),
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let path = format!("/apis/{group}/{}/{plural}", text(&spec["versions"][0]["name"]));
        for _ in 0..TRIES_MAX {
            let listed = request("GET", path.clone(), &Value::Null);
            if self.send(&Who::Admin, listed).await.status == StatusCode::OK {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is not served on the {} cluster", self.name());
    }

    /// Sends a request, its URI without scheme and host, and reads the whole answer.
    pub(crate) async fn send(&self, who: &Who, mut request: Request<Vec<u8>>) -> Answer {
        if let Who::Bearer(token) = who {
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
        }
        match &self.0 {
            Reached::Embedded(server) => send_in_process(server, who, request).await,
            Reached::Real(real) => real.send(who, request).await,
        }
    }
}

/// Says how many requests were compared, and adds it to the file that `hack/test` sums up, where it names one.
pub(crate) fn report_compared(subject: &str, compared: usize) {
    println!("{subject}: {compared} requests compared, equal");
    let Some(path) = env::var_os("CONFORMANCE_REPORT") else {
        return;
    };
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // One write, so that tests at the same time do not mix their lines.
    file.write_all(format!("{subject} {compared}\n").as_bytes())
        .unwrap();
}

async fn send_in_process(server: &ApiServer, who: &Who, mut request: Request<Vec<u8>>) -> Answer {
    if *who == Who::Admin {
        request.extensions_mut().insert(User::admin());
    }
    let response = server.router().oneshot(request.map(Body::from)).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    }
}

impl Real {
    async fn send(&self, who: &Who, request: Request<Vec<u8>>) -> Answer {
        let client = if *who == Who::Admin {
            &self.admin
        } else {
            &self.nobody
        };
        let (parts, body) = request.into_parts();
        let url = format!("{}{}", self.url, parts.uri);
        let sent = client
            .request(parts.method, url)
            .headers(parts.headers)
            .body(body);
        let response = sent.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }
}
