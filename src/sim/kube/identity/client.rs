//! Clients in this process that prove who they are, as they would have to over TCP.

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use tower::ServiceExt;
use tower::util::MapRequestLayer;
use x509_parser::pem::parse_x509_pem;

use super::ClientCertificate;
use crate::operator::slim;
use crate::sim::kube::server::ApiServer;

impl ClientCertificate {
    /// A certificate from PEM, as the status of a CertificateSigningRequest holds it.
    pub fn from_pem(text: &[u8]) -> Option<Self> {
        let (_, block) = parse_x509_pem(text).ok()?;
        (block.label == "CERTIFICATE").then_some(Self(block.contents))
    }
}

impl ApiServer {
    /// A client with a bearer token.
    pub fn client_with_token(&self, token: &str) -> kube::Client {
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).ok();
        self.client_after(move |request| {
            if let Some(bearer) = &bearer {
                request.headers_mut().insert(AUTHORIZATION, bearer.clone());
            }
        })
    }

    /// A client with a certificate. Nobody asks it for the key: whoever is in this process may have it.
    pub fn client_with_certificate(&self, certificate: ClientCertificate) -> kube::Client {
        self.client_after(move |request| {
            request.extensions_mut().insert(certificate.clone());
        })
    }

    fn client_after(
        &self,
        mark: impl Fn(&mut Request<kube::client::Body>) + Clone + Send + Sync + 'static,
    ) -> kube::Client {
        let service = tower::ServiceBuilder::new()
            .layer(MapRequestLayer::new(
                move |mut request: Request<kube::client::Body>| {
                    mark(&mut request);
                    request
                },
            ))
            .map_response(slim)
            .service(self.router())
            .map_err(|never| match never {});
        kube::Client::new(service, "default")
    }
}
