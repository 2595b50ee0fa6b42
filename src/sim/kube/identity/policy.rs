//! All roles and bindings of a cluster, folded into an index by subject.
//!
//! The index is made again when a role or binding was written, and kept otherwise: most requests find it ready.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;

use super::User;
use super::attempt::{Attempt, Decision, On};
use super::rbac::{self, Rule};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::server::State;
use crate::sim::kube::store::ObjectKey;

/// The API group of roles.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Where roles and bindings stand.
static TABLES: LazyLock<[TableKey; 4]> = LazyLock::new(|| {
    ["clusterrolebindings", "rolebindings", "clusterroles", "roles"].map(|plural| TableKey::of(GROUP, plural))
});

/// Who may do what.
#[derive(Debug, Default)]
pub struct Policy {
    grants: Vec<Grant>,
    /// For each subject the grants to it, and as which of their subjects.
    to_users: BTreeMap<String, Vec<(usize, usize)>>,
    to_groups: BTreeMap<String, Vec<(usize, usize)>>,
}

/// What a binding gives.
#[derive(Debug)]
struct Grant {
    /// In which namespace; everywhere if in none.
    namespace: Option<String>,
    /// `ClusterRoleBinding "a" of ClusterRole "b"`
    source: String,
    /// How its subjects are called: `Group "system:masters"`.
    subjects: Vec<String>,
    /// The rules of its role, or why there are none.
    rules: Result<Vec<Rule>, String>,
}

/// The last index, and the revisions that it was made from.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<([u64; 4], Arc<Policy>)>>);

/// The policy as it is now.
pub fn current(state: &State) -> Arc<Policy> {
    let revisions = TABLES.each_ref().map(|table| state.store.changed_at(table));
    let mut cached = state.policy.0.lock().unwrap_or_else(PoisonError::into_inner);
    match &*cached {
        Some((known, policy)) if *known == revisions => Arc::clone(policy),
        _ => {
            let policy = Arc::new(Policy::read(state));
            *cached = Some((revisions, Arc::clone(&policy)));
            policy
        }
    }
}

/// The rules of the role that a binding refers to, or why there are none.
pub fn role_rules(state: &State, reference: &Value, namespace: &str) -> Result<Vec<Rule>, String> {
    let (kind, name) = (reference["kind"].as_str(), reference["name"].as_str());
    let name = name.unwrap_or_default();
    let (plural, singular, namespace) = match kind {
        Some("ClusterRole") => ("clusterroles", "clusterrole", ""),
        Some("Role") => ("roles", "role", namespace),
        other => {
            let kind = other.unwrap_or_default();
            return Err(format!("unsupported role reference kind: \"{kind}\""));
        }
    };
    let stored = state
        .store
        .get(&TableKey::of(GROUP, plural), &ObjectKey::new(namespace, name));
    stored
        .map(|role| rbac::rules(&role.value()))
        .ok_or_else(|| format!("{singular}.{GROUP} \"{name}\" not found"))
}

impl Policy {
    fn read(state: &State) -> Self {
        let mut policy = Self::default();
        for (plural, kind) in [
            ("clusterrolebindings", "ClusterRoleBinding"),
            ("rolebindings", "RoleBinding"),
        ] {
            for stored in state.store.list(&TableKey::of(GROUP, plural), None) {
                policy.add(state, kind, &stored.value());
            }
        }
        policy
    }

    fn add(&mut self, state: &State, kind: &str, binding: &Value) {
        let namespace = object::namespace(binding);
        let name = match namespace {
            "" => object::name(binding).to_owned(),
            namespace => format!("{}/{namespace}", object::name(binding)),
        };
        let role = &binding["roleRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut grant = Grant {
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            source: format!(
                "{kind} \"{name}\" of {} \"{}\"",
                text(&role["kind"]),
                text(&role["name"])
            ),
            subjects: Vec::new(),
            rules: role_rules(state, role, namespace),
        };
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
            let (grants, key, called) = match kind.as_str() {
                "ServiceAccount" => {
                    let own = text(&subject["namespace"]);
                    let its = if own.is_empty() { namespace } else { &own };
                    let user = format!("system:serviceaccount:{its}:{name}");
                    (&mut self.to_users, user, format!("{name}/{its}"))
                }
                "Group" => (&mut self.to_groups, name.clone(), name),
                _ => (&mut self.to_users, name.clone(), name),
            };
            let place = (self.grants.len(), grant.subjects.len());
            grants.entry(key).or_default().push(place);
            grant.subjects.push(format!("{kind} \"{called}\""));
        }
        self.grants.push(grant);
    }

    /// The grants to a user that count in a namespace, and as whom they have them.
    fn grants<'a>(&'a self, user: &User, namespace: &'a str) -> impl Iterator<Item = (&'a Grant, &'a str)> {
        let as_user = self.to_users.get(&user.name).into_iter();
        let as_groups = user.groups.iter().filter_map(|group| self.to_groups.get(group));
        let mut places: Vec<(usize, usize)> = as_user.chain(as_groups).flatten().copied().collect();
        places.sort_unstable();
        places.dedup_by_key(|(grant, _)| *grant);
        places
            .into_iter()
            .map(|(grant, subject)| (&self.grants[grant], self.grants[grant].subjects[subject].as_str()))
            .filter(move |(grant, _)| grant.namespace.as_deref().is_none_or(|its| its == namespace))
    }

    /// Whether any binding allows it.
    pub fn decide(&self, user: &User, attempt: &Attempt<'_>) -> Decision {
        let namespace = match &attempt.on {
            On::Resource(resource) => resource.namespace,
            On::Path(_) => "",
        };
        let mut problems: Vec<&str> = Vec::new();
        for (grant, subject) in self.grants(user, namespace) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attempt)) => {
                    return Decision::Allowed(format!("RBAC: allowed by {} to {subject}", grant.source));
                }
                Ok(_) => {}
                Err(problem) if problems.contains(&problem.as_str()) => {}
                Err(problem) => problems.push(problem),
            }
        }
        Decision::NoOpinion(match problems.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        })
    }

    /// Every rule that a user has in a namespace.
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.grants(user, namespace)
            .filter_map(|(grant, _)| grant.rules.as_ref().ok())
            .flatten()
            .cloned()
            .collect()
    }
}
