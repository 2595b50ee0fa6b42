//! Who asks, and whether they may.

use std::collections::BTreeMap;

use http::request::Parts;

use super::refusal::Refusal;
use super::request::Ask;
use super::server::ApiServer;
use crate::clock::Clock;

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// `system:serviceaccount:kube-system:default`
    pub name: String,
    /// The uid of the ServiceAccount, if it is one.
    pub uid: String,
    /// `system:authenticated` and others.
    pub groups: Vec<String>,
    /// What else the credential says: `authentication.kubernetes.io/credential-id`.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An administrator, who may do everything.
    pub fn admin() -> Self {
        let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
        Self {
            name: "kubernetes-admin".to_owned(),
            groups,
            ..Self::default()
        }
    }
}

/// The keys of the cluster.
pub struct Identity {}

impl Identity {
    /// Keys drawn from a seed.
    pub fn new(_clock: &Clock, _seed: u64) -> Self {
        Self {}
    }
}

/// Who sends a request.
pub fn authenticate(_server: &ApiServer, parts: &Parts) -> Result<User, Refusal> {
    parts
        .extensions
        .get::<User>()
        .cloned()
        .ok_or_else(Refusal::unauthorized)
}

/// Whether they may.
pub fn authorize(_server: &ApiServer, _user: &User, _ask: &Ask) -> Result<(), Refusal> {
    Ok(())
}
