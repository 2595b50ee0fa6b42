//! Who asks, and whether they may.
//!
//! A request is somebody's by certificate, by token, or (in this process only) by a [`User`] attached to it. What they
//! may do is decided as on a real server with `--authorization-mode=Node,RBAC`: members of `system:masters` may do
//! everything, kubelets what the Node authorizer allows, everyone what roles and bindings say.

pub mod aggregation;
pub mod attempt;
pub mod authenticate;
pub mod authority;
pub mod bootstrap;
pub mod client;
pub mod der;
pub mod escalation;
pub mod impersonate;
pub mod keys;
pub mod mentions;
pub mod node;
pub mod node_restriction;
pub mod policy;
pub mod rbac;
pub mod reviews;
pub mod token;
pub mod token_request;

use std::collections::BTreeMap;

pub use authenticate::{ClientCertificate, authenticate};
pub use keys::Keys;

use attempt::{Attempt, Decision};
use authority::{Authority, Credential};
use keys::Key;

use serde_json::Value;

use super::certificates::signer;
use super::kind::Kind;
use super::object;
use super::refusal::Refusal;
use super::request::Ask;
use super::server::{ApiServer, State};

/// Under which key a user's extra tells which credential was used.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const MASTERS: &str = "system:masters";

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
        Self::named("kubernetes-admin", &[MASTERS, AUTHENTICATED])
    }

    /// Whoever shows no credential.
    pub fn anonymous() -> Self {
        Self::named(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// The kubelet of a node.
    pub fn node(name: &str) -> Self {
        Self::named(&format!("system:node:{name}"), &["system:nodes", AUTHENTICATED])
    }

    /// Somebody by name and groups.
    pub fn named(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Whether they are in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|its| its == group)
    }

    /// The node that they are the kubelet of, if they are one.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.name.strip_prefix("system:node:")?;
        self.is_in("system:nodes").then_some(node)
    }
}

/// A ServiceAccount as a user.
pub fn service_account(namespace: &str, name: &str) -> User {
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let own = format!("system:serviceaccounts:{namespace}");
    User::named(&user, &["system:serviceaccounts", &own, AUTHENTICATED])
}

/// The namespace and name of the ServiceAccount that a user name stands for.
fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let fits = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    fits.then_some((namespace, name))
}

/// The keys of the cluster.
pub struct Identity {
    pub(super) authority: Authority,
    tokens: token::Signer,
    serving: Key,
    admin: Key,
}

impl Identity {
    /// The keys of a new cluster.
    pub fn new(keys: Keys) -> Self {
        Self {
            authority: Authority::new(keys),
            tokens: token::Signer::new(keys),
            serving: Key::new(keys, "serving certificate"),
            admin: Key::new(keys, "administrator"),
        }
    }

    /// The certificate of the cluster's authority as PEM: what clients trust.
    pub fn root_certificate(&self) -> String {
        self.authority.pem()
    }

    /// The certificate and key of an administrator.
    pub fn admin_credential(&self) -> Credential {
        self.authority.client(&self.admin, "kubernetes-admin", &[MASTERS])
    }

    /// The certificate that the API server shows, as DER, and its key as PKCS#8.
    pub fn serving_credential(&self) -> (Vec<u8>, Vec<u8>) {
        (self.authority.serving(&self.serving), self.serving.pkcs8())
    }
}

/// Whether somebody may do what a request asks for.
pub fn authorize(server: &ApiServer, user: &User, ask: &Ask) -> Result<(), Refusal> {
    authorize_attempt(&server.state(), user, &Attempt::of(ask))
}

/// Whether somebody may ask for a path that is no object.
pub fn authorize_path(
    server: &ApiServer,
    user: &User,
    method: &http::Method,
    path: &str,
) -> Result<(), Refusal> {
    let verb = method.as_str().to_lowercase();
    authorize_attempt(&server.state(), user, &Attempt::on_path(&verb, path))
}

fn authorize_attempt(state: &State, user: &User, attempt: &Attempt<'_>) -> Result<(), Refusal> {
    match decide(state, user, attempt) {
        Decision::Allowed(_) => Ok(()),
        Decision::NoOpinion(why) => Err(attempt.refused(user, &why)),
    }
}

/// Asks each authorizer in turn, until one allows it.
pub fn decide(state: &State, user: &User, attempt: &Attempt<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision::allowed();
    }
    let by_node = node::decide(state, user, attempt);
    if by_node.is_allowed() {
        return by_node;
    }
    match (by_node, policy::current(state).decide(user, attempt)) {
        (Decision::NoOpinion(first), Decision::NoOpinion(second)) => {
            let reasons = [first, second];
            let said: Vec<String> = reasons.into_iter().filter(|why| !why.is_empty()).collect();
            Decision::NoOpinion(said.join("\n"))
        }
        (_, by_role) => by_role,
    }
}

/// Does what the controllers of a real cluster do, in matters of identity, after an object was written or deleted.
pub fn follow(server: &ApiServer, kind: &Kind, object: &Value) {
    let name = object::name(object);
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => bootstrap::furnish(server, name),
        ("", "serviceaccounts" | "configmaps") if bootstrap::FURNITURE.contains(&name) => {
            bootstrap::furnish(server, object::namespace(object));
        }
        (policy::GROUP, "clusterroles") => {
            aggregation::gather(&mut server.state());
            server.announce();
        }
        ("certificates.k8s.io", "certificatesigningrequests") => signer::fulfil(server, name),
        _ => {}
    }
}

#[cfg(test)]
pub(in crate::sim::kube) mod tests;
