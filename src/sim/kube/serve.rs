//! The API server on a socket: HTTP/1.1 over TLS, on this machine only.
//!
//! Clients may show a certificate and need not. Which one a client has shown travels with each of its requests, and
//! whether it is worth anything is judged there, by the cluster's own clock.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tower::util::MapRequestLayer;

use super::identity::ClientCertificate;
use super::server::ApiServer;

/// Connections at a time: 20 clients with a watch on each of the 50 kinds.
const CONNECTIONS_MAX: usize = 1000;
/// How long a client may take to agree on TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests get to end when the server stops. Watches never end by themselves.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Why the server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{0} is not an address of this machine alone")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
}

/// Listens on an address of this machine; anybody who can reach the port can try to use the cluster.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    TcpListener::bind(address)
        .await
        .map_err(|error| ServeError::Listen(address, error))
}

/// Serves until told to stop.
pub async fn serve(
    server: &ApiServer,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    serve_through(server, server.router(), listener, stop).await
}

/// Like [`serve`], where requests reach the server through `router`, which may lead to another runtime.
pub async fn serve_through(
    server: &ApiServer,
    router: Router,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let acceptor = TlsAcceptor::from(Arc::new(tls(server)?));
    let (graceful, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, place)) = accepted else {
            // Out of file descriptors, most likely: others must close theirs first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (router, acceptor, watcher) = (router.clone(), acceptor.clone(), graceful.watcher());
        connections.spawn(async move {
            connection(router, acceptor, watcher, stream).await;
            drop(place);
        });
    }
    drop(listener);
    // What is not done by then is cut; each request runs in a task of its own, so no write is halved.
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
    connections.shutdown().await;
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Without this a watch event waits for the acknowledgement of the one before.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

/// Serves one client. That it breaks the connection is its own affair.
async fn connection(router: Router, acceptor: TlsAcceptor, watcher: Watcher, stream: TcpStream) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let shown = stream.get_ref().1.peer_certificates();
    let certificate = shown
        .and_then(<[CertificateDer<'_>]>::first)
        .map(|certificate| ClientCertificate(certificate.to_vec()));
    let service = tower::ServiceBuilder::new()
        .layer(MapRequestLayer::new(
            move |mut request: Request<hyper::body::Incoming>| {
                if let Some(certificate) = &certificate {
                    request.extensions_mut().insert(certificate.clone());
                }
                request.map(Body::new)
            },
        ))
        .service(router)
        .map_err(|never| match never {});
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let _: Result<(), hyper::Error> = watcher.watch(connection).await;
}

fn tls(server: &ApiServer) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = server.identity().serving_credential();
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(Anybody(provider)))
        .with_single_cert(
            vec![CertificateDer::from(certificate)],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
        )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Lets a client show any certificate that it has the key of. Like a real server, which answers 401 to a bad one
/// where a failed handshake would leave the client guessing.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A kubeconfig of an administrator of a cluster that is reached at `url`.
pub fn kubeconfig(server: &ApiServer, url: &str) -> String {
    let admin = server.identity().admin_credential();
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    format!(
        "apiVersion: v1
kind: Config
current-context: karpenter-ibm
contexts:
- name: karpenter-ibm
  context:
    cluster: karpenter-ibm
    user: kubernetes-admin
clusters:
- name: karpenter-ibm
  cluster:
    server: {url}
    certificate-authority-data: {}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {}
    client-key-data: {}
",
        encoded(&server.identity().root_certificate()),
        encoded(&admin.certificate),
        encoded(&admin.key)
    )
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use k8s_openapi::api::authentication::v1::SelfSubjectReview;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::api::{Api, ListParams, PostParams, WatchParams};
    use kube::config::{KubeConfigOptions, Kubeconfig};
    use kube::{Client, Config};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::Options;
    use crate::sim::kube::identity::{Identity, Keys};

    struct Served {
        server: ApiServer,
        url: String,
        stop: CancellationToken,
        ended: JoinHandle<Result<(), ServeError>>,
    }

    impl Served {
        async fn start() -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let server = ApiServer::new(Options {
                clock: Clock::system(),
                seed: 1,
                keys: Keys::Fresh,
            });
            let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let url = format!("https://{}", listener.local_addr().unwrap());
            let stop = CancellationToken::new();
            let (serving, told) = (server.clone(), stop.clone());
            let ended = tokio::spawn(async move { serve(&serving, listener, told).await });
            Self {
                server,
                url,
                stop,
                ended,
            }
        }

        async fn config(&self) -> Config {
            let text = kubeconfig(&self.server, &self.url);
            let config = Kubeconfig::from_yaml(&text).unwrap();
            Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
                .await
                .unwrap()
        }
    }

    async fn whoami(client: Client) -> Result<(String, String), kube::Error> {
        let api: Api<SelfSubjectReview> = Api::all(client);
        let answer = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let user = answer.status.unwrap_or_default().user_info.unwrap_or_default();
        let extra = user.extra.unwrap_or_default();
        let id = extra.values().flatten().next().cloned().unwrap_or_default();
        Ok((user.username.unwrap_or_default(), id))
    }

    #[tokio::test]
    async fn the_kubeconfig_makes_its_bearer_an_administrator_by_certificate() {
        let served = Served::start().await;
        let client = Client::try_from(served.config().await).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        assert_eq!(
            namespaces.list(&ListParams::default()).await.unwrap().items.len(),
            4
        );
        let (name, id) = whoami(client).await.unwrap();
        assert_eq!(name, "kubernetes-admin");
        assert!(id.starts_with("X509SHA256="), "{id}");
    }

    #[tokio::test]
    async fn another_clusters_certificate_is_answered_with_401() {
        let served = Served::start().await;
        let mut config = served.config().await;
        let foreign = Identity::new(Keys::Fresh).admin_credential();
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        config.auth_info.client_certificate_data = Some(encoded(&foreign.certificate));
        config.auth_info.client_key_data = Some(encoded(&foreign.key).into());
        let refused = whoami(Client::try_from(config).unwrap()).await.unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));
    }

    #[tokio::test]
    async fn a_certificate_without_its_key_is_worthless() {
        let served = Served::start().await;
        let mut config = served.config().await;
        let other = Identity::new(Keys::Fresh).admin_credential();
        config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(&other.key).into());
        let client = Client::try_from(config);
        match client {
            Err(_) => {}
            Ok(client) => assert!(whoami(client).await.is_err()),
        }
    }

    #[tokio::test]
    async fn a_client_without_a_certificate_is_anonymous_and_one_that_trusts_others_stays_away() {
        let served = Served::start().await;
        let mut config = served.config().await;
        config.auth_info.client_certificate_data = None;
        config.auth_info.client_key_data = None;
        let refused = whoami(Client::try_from(config.clone()).unwrap())
            .await
            .unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
        let foreign = Identity::new(Keys::Fresh);
        config.root_cert = Some(vec![foreign.authority.certificate().to_vec()]);
        let away = whoami(Client::try_from(config).unwrap()).await.unwrap_err();
        assert!(!matches!(away, kube::Error::Api(_)), "{away}");
    }

    #[tokio::test]
    async fn stopping_cuts_watches_and_frees_the_port() {
        let served = Served::start().await;
        let client = Client::try_from(served.config().await).unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let watch = maps.watch(&WatchParams::default(), "0").await.unwrap();
        let mut watch = watch.boxed();
        assert!(watch.next().await.is_some());
        served.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(5), served.ended).await;
        assert!(matches!(ended, Ok(Ok(Ok(())))));
        while let Some(event) = watch.next().await {
            drop(event);
        }
        let address = served.url.trim_start_matches("https://").parse().unwrap();
        assert!(listen(address).await.is_ok());
    }

    #[tokio::test]
    async fn nobody_outside_this_machine_is_served() {
        let refused = listen("0.0.0.0:0".parse().unwrap()).await;
        assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
        let taken = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let again = listen(taken.local_addr().unwrap()).await;
        assert!(matches!(again, Err(ServeError::Listen(..))));
    }
}
