//! How a machine reaches its cluster: a kubeconfig in, a client out.
//!
//! In process the requests go straight to the embedded server, and the credential of the kubeconfig travels with each
//! of them; over TCP it is a client like any other. Neither looks at this computer's files or environment, or runs
//! anything: a kubeconfig comes out of a VM's user data.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use secrecy::ExposeSecret;

use crate::sim::kube::ApiServer;
use crate::sim::kube::identity::ClientCertificate;

/// What machines are connected to.
pub trait Network: Send + Sync {
    /// A client of the cluster that a kubeconfig names, with its credential.
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, NetworkError>;
}

/// Why a kubeconfig leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("the kubeconfig has no {0}")]
    Missing(&'static str),
    #[error("{0} of the kubeconfig is not base64 of PEM")]
    Unreadable(&'static str),
    #[error("dial {0}: connect: connection refused")]
    Refused(String),
    #[error("tls: failed to verify certificate: x509: certificate signed by unknown authority")]
    UnknownAuthority,
    #[error("making a client: {0}")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An embedded server without a socket, known under one URL.
pub struct InProcess {
    server: ApiServer,
    url: String,
}

impl InProcess {
    /// The network on which `server` is reached at `url`.
    pub fn new(server: ApiServer, url: &str) -> Self {
        Self {
            server,
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    fn check(&self, access: &Access) -> Result<(), NetworkError> {
        if access.server != self.url {
            return Err(NetworkError::Refused(access.server.clone()));
        }
        let root = self.server.identity().root_certificate();
        if access.authority.trim() == root.trim() {
            Ok(())
        } else {
            Err(NetworkError::UnknownAuthority)
        }
    }
}

impl Network for InProcess {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, NetworkError> {
        let access = Access::of(kubeconfig)?;
        self.check(&access)?;
        if let Some(certificate) = access.certificate()? {
            return Ok(self.server.client_with_certificate(certificate));
        }
        let token = access.user.token.as_ref().map(ExposeSecret::expose_secret);
        Ok(self.server.client_with_token(token.unwrap_or_default()))
    }
}

/// Sockets: for a cluster that is served, embedded or real.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Network for Tcp {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, NetworkError> {
        let kubeconfig = Access::of(kubeconfig)?.alone();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .now_or_never()
            .ok_or(NetworkError::Missing("credential that is at hand"))?;
        let mut config = config.map_err(|error| NetworkError::Client(error.into()))?;
        // Taken from the environment of this process; a VM has none of it.
        config.proxy_url = None;
        kube::Client::try_from(config).map_err(|error| NetworkError::Client(error.into()))
    }
}

/// The part of a kubeconfig that its current context is about.
struct Access {
    server: String,
    /// PEM.
    authority: String,
    user: AuthInfo,
}

impl Access {
    fn of(kubeconfig: &Kubeconfig) -> Result<Self, NetworkError> {
        let current = kubeconfig.current_context.as_ref();
        let contexts = kubeconfig.contexts.iter();
        let context = contexts
            .filter(|named| Some(&named.name) == current)
            .find_map(|named| named.context.as_ref())
            .ok_or(NetworkError::Missing("current context"))?;
        let clusters = kubeconfig.clusters.iter();
        let cluster = clusters
            .filter(|named| named.name == context.cluster)
            .find_map(|named| named.cluster.as_ref())
            .ok_or(NetworkError::Missing("cluster of its context"))?;
        let users = kubeconfig.auth_infos.iter();
        let user = users
            .filter(|named| Some(&named.name) == context.user.as_ref())
            .find_map(|named| named.auth_info.clone())
            .unwrap_or_default();
        let server = cluster.server.as_ref().ok_or(NetworkError::Missing("server"))?;
        let authority = cluster.certificate_authority_data.as_ref();
        let authority = authority.ok_or(NetworkError::Missing("certificate-authority-data"))?;
        Ok(Self {
            server: server.trim_end_matches('/').to_owned(),
            authority: String::from_utf8(decode(authority, "certificate-authority-data")?)
                .map_err(|_| NetworkError::Unreadable("certificate-authority-data"))?,
            user,
        })
    }

    fn certificate(&self) -> Result<Option<ClientCertificate>, NetworkError> {
        const FIELD: &str = "client-certificate-data";
        let Some(data) = &self.user.client_certificate_data else {
            return Ok(None);
        };
        if self.user.client_key_data.is_none() {
            return Err(NetworkError::Missing("client-key-data"));
        }
        let certificate = ClientCertificate::from_pem(&decode(data, FIELD)?);
        certificate.map(Some).ok_or(NetworkError::Unreadable(FIELD))
    }

    /// A kubeconfig of nothing but this: no files of this computer, no programs to run.
    fn alone(&self) -> Kubeconfig {
        let user = AuthInfo {
            token: self.user.token.clone(),
            client_certificate_data: self.user.client_certificate_data.clone(),
            client_key_data: self.user.client_key_data.clone(),
            ..AuthInfo::default()
        };
        kubeconfig(&self.server, &self.authority, user)
    }
}

/// A kubeconfig for one cluster and one user; `authority` is PEM.
pub fn kubeconfig(server: &str, authority: &str, user: AuthInfo) -> Kubeconfig {
    use kube::config::{Cluster, Context, NamedAuthInfo, NamedCluster, NamedContext};
    let name = || "default".to_owned();
    Kubeconfig {
        current_context: Some(name()),
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context {
                cluster: name(),
                user: Some(name()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        clusters: vec![NamedCluster {
            name: name(),
            cluster: Some(Cluster {
                server: Some(server.to_owned()),
                certificate_authority_data: Some(BASE64_STANDARD.encode(authority)),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        ..Kubeconfig::default()
    }
}

/// Base64, in which line breaks do not count.
fn decode(text: &str, field: &'static str) -> Result<Vec<u8>, NetworkError> {
    let text: String = text.split_whitespace().collect();
    BASE64_STANDARD
        .decode(text)
        .map_err(|_| NetworkError::Unreadable(field))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::SelfSubjectReview;
    use kube::api::{Api, PostParams};

    use super::*;
    use crate::clock::Clock;
    use crate::sim::kube::Options;
    use crate::sim::kube::identity::{Identity, Keys};

    const URL: &str = "https://cluster.example:6443";

    fn server() -> ApiServer {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        ApiServer::new(Options {
            clock,
            seed: 1,
            keys: Keys::Fixed,
        })
    }

    fn admin(server: &ApiServer) -> AuthInfo {
        let admin = server.identity().admin_credential();
        AuthInfo {
            client_certificate_data: Some(BASE64_STANDARD.encode(&admin.certificate)),
            client_key_data: Some(BASE64_STANDARD.encode(&admin.key).into()),
            ..AuthInfo::default()
        }
    }

    async fn whoami(client: kube::Client) -> Result<String, kube::Error> {
        let api: Api<SelfSubjectReview> = Api::all(client);
        let answer = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let user = answer.status.unwrap_or_default().user_info;
        Ok(user.unwrap_or_default().username.unwrap_or_default())
    }

    #[tokio::test(start_paused = true)]
    async fn in_process_the_credential_of_the_kubeconfig_decides_who_asks() {
        let server = server();
        let network = InProcess::new(server.clone(), URL);
        let root = server.identity().root_certificate();
        let client = network.client(&kubeconfig(URL, &root, admin(&server))).unwrap();
        assert_eq!(whoami(client).await.unwrap(), "kubernetes-admin");
        let stranger = AuthInfo {
            token: Some("nonsense".to_owned().into()),
            ..AuthInfo::default()
        };
        let client = network.client(&kubeconfig(URL, &root, stranger)).unwrap();
        let refused = whoami(client).await.unwrap_err();
        assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));
    }

    #[tokio::test(start_paused = true)]
    async fn another_address_is_refused_and_another_authority_is_not_trusted() {
        let server = server();
        let network = InProcess::new(server.clone(), URL);
        let root = server.identity().root_certificate();
        let elsewhere = network.client(&kubeconfig("https://10.0.0.1", &root, AuthInfo::default()));
        assert!(matches!(elsewhere, Err(NetworkError::Refused(_))));
        let foreign = Identity::new(Keys::Fresh).root_certificate();
        let foreign = network.client(&kubeconfig(URL, &foreign, AuthInfo::default()));
        assert!(matches!(foreign, Err(NetworkError::UnknownAuthority)));
        let nowhere = network.client(&Kubeconfig::default());
        assert!(matches!(nowhere, Err(NetworkError::Missing("current context"))));
    }

    #[test]
    fn files_and_programs_of_this_computer_stay_out_of_reach() {
        let user = AuthInfo {
            token_file: Some("/etc/passwd".to_owned()),
            client_certificate: Some("/etc/passwd".to_owned()),
            ..AuthInfo::default()
        };
        let access = Access::of(&kubeconfig(URL, "pem", user)).unwrap();
        let user = access.alone().auth_infos.remove(0).auth_info.unwrap();
        assert_eq!((user.token_file, user.client_certificate), (None, None));
    }
}
