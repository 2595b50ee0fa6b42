//! Joining: a key, a request for a certificate, and the client that comes of it.
//!
//! The bootstrap credential is good for asking only. What the kubelet then is, it is by a certificate that somebody
//! approved; key and certificate stay on the disk, so a machine that is switched on again asks for nothing.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Guest;
use super::settings::Settings;
use crate::clock::{between, later};
use crate::sim::actors::network::NetworkError;
use crate::sim::kube::certificates::request::write;
use crate::sim::kube::identity::keys::{Key, sha256_hex};

/// The signer of kubelets' client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// How long a kubelet waits for its certificate before it begins anew.
const PATIENCE: Duration = Duration::from_mins(15);

/// Why a machine is not in the cluster yet.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("loading the kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("connecting to the cluster: {0}")]
    Network(#[from] NetworkError),
    #[error("cannot create certificate signing request: {0}")]
    Request(#[source] Box<kube::Error>),
    #[error("certificate signing request {0} was denied: {1}")]
    Denied(String, String),
    #[error("timed out waiting for the certificate")]
    Patience,
    #[error("the certificate cannot be read")]
    Certificate,
}

/// A kubelet's own credential.
pub struct Credential {
    /// A client that is the node.
    pub client: kube::Client,
    /// When a new one is asked for.
    pub renew_at: Timestamp,
}

/// The credential on the disk, if there is one that still holds.
pub fn stored(guest: &Guest, settings: &Settings) -> Option<Credential> {
    let now = guest.clock.now();
    let certificate = guest.disk.read(&current_path(settings))?;
    let (from, until) = validity(&certificate)?;
    if now >= until {
        return None;
    }
    let kubeconfig = guest.disk.kubeconfig(&settings.kubeconfig).ok()?;
    let client = guest.network.client(&kubeconfig).ok()?;
    Some(Credential {
        client,
        renew_at: renewal(from, until),
    })
}

/// Asks for the first certificate, with the bootstrap credential.
pub async fn bootstrap(guest: &Guest, settings: &Settings, attempt: u32) -> Result<Credential, JoinError> {
    let kubeconfig = guest
        .disk
        .kubeconfig(&settings.bootstrap_kubeconfig)
        .map_err(JoinError::Kubeconfig)?;
    let client = guest.network.client(&kubeconfig)?;
    let key = pending_key(guest, settings, attempt);
    let name = format!("node-csr-{}", &sha256_hex(key.public())[..43]);
    let credential = obtain(guest, settings, &kubeconfig, client, &key, &name).await?;
    guest.disk.remove(&pending_path(settings));
    Ok(credential)
}

/// The key of the request that is under way, as a real kubelet keeps it until it has its certificate: whoever tries again
/// asks with the same key, and so finds the request that it made before, also one that was denied.
fn pending_key(guest: &Guest, settings: &Settings, attempt: u32) -> Key {
    let path = pending_path(settings);
    if let Some(key) = guest.disk.text(&path).and_then(|pem| Key::parse(&pem)) {
        return key;
    }
    let purpose = format!("kubelet {} {} {attempt}", guest.machine.id, guest.machine.boots);
    let key = Key::new(guest.keys, &purpose);
    guest.disk.write(&path, key.pem());
    key
}

fn pending_path(settings: &Settings) -> String {
    format!("{}/kubelet-client.key.tmp", settings.cert_dir)
}

/// Asks for the next certificate, with the present one.
pub async fn renew(
    guest: &Guest,
    settings: &Settings,
    client: kube::Client,
    number: u32,
) -> Result<Credential, JoinError> {
    let kubeconfig = guest
        .disk
        .kubeconfig(&settings.kubeconfig)
        .map_err(JoinError::Kubeconfig)?;
    let purpose = format!(
        "kubelet {} {} renewal {number}",
        guest.machine.id, guest.machine.boots
    );
    let key = Key::new(guest.keys, &purpose);
    let name = format!("csr-{}", &sha256_hex(key.public())[..43]);
    obtain(guest, settings, &kubeconfig, client, &key, &name).await
}

async fn obtain(
    guest: &Guest,
    settings: &Settings,
    kubeconfig: &Kubeconfig,
    client: kube::Client,
    key: &Key,
    name: &str,
) -> Result<Credential, JoinError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    ask(&requests, key, name, &settings.node_name).await?;
    guest.say(&format!("certificate signing request {name} waits for approval"));
    let certificate = tokio::select! {
        biased;
        certificate = issued(guest, &requests, name) => certificate?,
        () = guest.clock.sleep(PATIENCE) => return Err(JoinError::Patience),
    };
    let (from, until) = validity(&certificate).ok_or(JoinError::Certificate)?;
    keep(guest, settings, kubeconfig, &certificate, key);
    let kubeconfig = guest
        .disk
        .kubeconfig(&settings.kubeconfig)
        .map_err(JoinError::Kubeconfig)?;
    Ok(Credential {
        client: guest.network.client(&kubeconfig)?,
        renew_at: renewal(from, until),
    })
}

/// Creates the request. One of that name was made with the same key, so it is this machine's own.
async fn ask(
    requests: &Api<CertificateSigningRequest>,
    key: &Key,
    name: &str,
    node: &str,
) -> Result<(), JoinError> {
    let text = write(key, &format!("system:node:{node}"), &["system:nodes"], &[]);
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": BASE64_STANDARD.encode(text),
            "signerName": SIGNER,
            "usages": ["digital signature", "client auth"],
        },
    });
    let request = serde_json::from_value(request).map_err(|_| JoinError::Certificate)?;
    match requests.create(&PostParams::default(), &request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(JoinError::Request(Box::new(error))),
    }
}

/// Waits for the certificate, as PEM.
async fn issued(
    guest: &Guest,
    requests: &Api<CertificateSigningRequest>,
    name: &str,
) -> Result<Vec<u8>, JoinError> {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(requests.clone(), only).applied_objects().boxed();
    while let Some(change) = changes.next().await {
        let Ok(request) = change else {
            guest.clock.sleep(Duration::from_secs(1)).await;
            continue;
        };
        let status = request.status.unwrap_or_default();
        if let Some(certificate) = status.certificate {
            return Ok(certificate.0);
        }
        let refused = status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition.type_ == "Denied" || condition.type_ == "Failed");
        if let Some(refused) = refused {
            let why = refused.message.or(refused.reason).unwrap_or_default();
            return Err(JoinError::Denied(name.to_owned(), why));
        }
    }
    Err(JoinError::Patience)
}

/// Key and certificate in one file, and a kubeconfig that refers to it, where a real kubelet keeps them.
fn keep(guest: &Guest, settings: &Settings, from: &Kubeconfig, certificate: &[u8], key: &Key) {
    let path = current_path(settings);
    let mut both = certificate.to_vec();
    both.extend_from_slice(key.pem().as_bytes());
    guest.disk.write(&path, both);
    let mut kubeconfig = from.clone();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo {
            client_certificate: Some(path.clone()),
            client_key: Some(path.clone()),
            ..AuthInfo::default()
        });
    }
    // JSON is YAML.
    if let Ok(text) = serde_json::to_string(&kubeconfig) {
        guest.disk.write(&settings.kubeconfig, text);
    }
}

fn current_path(settings: &Settings) -> String {
    format!("{}/kubelet-client-current.pem", settings.cert_dir)
}

/// From when until when the first certificate of a PEM file holds.
fn validity(text: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let pem = Pem::iter_from_buffer(text).next()?.ok()?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents).ok()?;
    let validity = certificate.validity();
    let instant = |seconds| Timestamp::from_second(seconds).ok();
    Some((
        instant(validity.not_before.timestamp())?,
        instant(validity.not_after.timestamp())?,
    ))
}

/// Four fifths through its time: a real kubelet draws between seven and nine tenths.
fn renewal(from: Timestamp, until: Timestamp) -> Timestamp {
    later(from, between(from, until).mul_f64(0.8))
}
