//! Who sends a request: by client certificate, by bearer token, or nobody in particular.
//!
//! As on a real server the certificate is looked at first, a bad one is forgiven if there is a good token, and a
//! request without any credential is `system:anonymous`.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;
use serde_json::Value;

use super::token::{self, Claims, Distrust, Reference};
use super::{CREDENTIAL_ID, User, impersonate, service_account};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{ApiServer, State};
use crate::sim::kube::store::ObjectKey;

/// The certificate that a client has shown, as DER. The TLS server attaches it to each request; in process whoever
/// holds a certificate may attach it as well.
#[derive(Clone, Debug)]
pub struct ClientCertificate(pub Vec<u8>);

/// Who sends a request, or as whom they want to be seen.
pub fn authenticate(server: &ApiServer, parts: &Parts) -> Result<User, Refusal> {
    let user = match parts.extensions.get::<User>() {
        Some(user) => user.clone(),
        None => by_credential(server, parts)?,
    };
    impersonate::apply(server, user, &parts.headers)
}

fn by_credential(server: &ApiServer, parts: &Parts) -> Result<User, Refusal> {
    let certificate = parts.extensions.get::<ClientCertificate>();
    let shown = certificate.map(|ClientCertificate(der)| {
        let authority = &server.identity().authority;
        authority.recognize(der, server.clock().now())
    });
    let distrusted = match shown {
        Some(Ok(Some(user))) => return Ok(user),
        Some(Err(_)) => true,
        Some(Ok(None)) | None => false,
    };
    match bearer(&parts.headers) {
        Some(token) => by_token(server, token, &[token::ISSUER.to_owned()])
            .map(|(user, _)| user)
            .map_err(|_| Refusal::unauthorized()),
        None if distrusted => Err(Refusal::unauthorized()),
        None => Ok(User::anonymous()),
    }
}

/// The bearer token of a request; other schemes are no credential at all.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.split_whitespace();
    let scheme = words.next()?;
    words.next().filter(|_| scheme.eq_ignore_ascii_case("bearer"))
}

/// Whose token it is, and for which of the audiences.
pub fn by_token(
    server: &ApiServer,
    token: &str,
    audiences: &[String],
) -> Result<(User, Vec<String>), Distrust> {
    let now = server.clock().now();
    let (claims, meant) = server.identity().tokens.read(token, now, audiences)?;
    still_bound(&server.state(), &claims, now)?;
    Ok((user_of(&claims), meant))
}

/// A token dies with the account, and with the pod, node or secret it was made for.
fn still_bound(state: &State, claims: &Claims, now: Timestamp) -> Result<(), Distrust> {
    let binding = &claims.kubernetes;
    let lives = |plural: &str, namespace: &str, reference: &Reference| {
        let table = TableKey::of("", plural);
        let key = ObjectKey::new(namespace, &reference.name);
        let stored = state.store.get(&table, &key);
        stored
            .map(|stored| stored.shared())
            .is_some_and(|object| object::uid(&object) == reference.uid && !is_long_gone(&object, now))
    };
    let namespaced = [
        ("serviceaccounts", Some(&binding.serviceaccount)),
        ("secrets", binding.secret.as_ref()),
        ("pods", binding.pod.as_ref()),
    ];
    for (plural, reference) in namespaced {
        if reference.is_some_and(|reference| !lives(plural, &binding.namespace, reference)) {
            return Err(Distrust::Invalidated);
        }
    }
    match (&binding.pod, &binding.node) {
        // The node of a pod is only told, not checked.
        (None, Some(node)) if !lives("nodes", "", node) => Err(Distrust::Invalidated),
        _ => Ok(()),
    }
}

/// Whether its deletion was due longer ago than clocks may disagree.
fn is_long_gone(object: &Value, now: Timestamp) -> bool {
    let due = object::meta(object, "deletionTimestamp").parse::<Timestamp>();
    due.is_ok_and(|due| due.as_second() < now.as_second() - token::LEEWAY_SECONDS)
}

fn user_of(claims: &Claims) -> User {
    let binding = &claims.kubernetes;
    let mut user = service_account(&binding.namespace, &binding.serviceaccount.name);
    user.uid.clone_from(&binding.serviceaccount.uid);
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        }
    };
    say(CREDENTIAL_ID, &format!("JTI={}", claims.jti));
    for (what, reference) in [("pod", &binding.pod), ("node", &binding.node)] {
        if let Some(reference) = reference {
            say(
                &format!("authentication.kubernetes.io/{what}-name"),
                &reference.name,
            );
            say(
                &format!("authentication.kubernetes.io/{what}-uid"),
                &reference.uid,
            );
        }
    }
    user
}
