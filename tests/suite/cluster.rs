//! A cluster to test against: the embedded one, or the real one that `hack/control-plane` starts.
//!
//! A test is written once and sees only HTTP. The embedded cluster is there always; the real one where the environment
//! says how to reach it (`eval "$(hack/control-plane env)"`), which `hack/test` takes care of.

use std::env;
use std::fs;

use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::{Keys, User};
use karpenter_ibm::sim::kube::{ApiServer, Options};
use serde_json::Value;
use tower::ServiceExt;

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
