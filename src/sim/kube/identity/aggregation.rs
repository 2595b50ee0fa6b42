//! ClusterRoles that gather the rules of others by label.
//!
//! On a real cluster a controller writes the gathered rules into the role, a moment after anything changes; here they
//! are there with the answer to the change.

use serde_json::{Value, json};

use super::policy::GROUP;
use super::rbac;
use crate::sim::kube::kind::{Kind, TableKey};
use crate::sim::kube::object;
use crate::sim::kube::selector::LabelSelector;
use crate::sim::kube::server::State;

/// How deep roles may gather from roles that gather; `admin` from `edit` from `view` is two.
const ROUNDS_MAX: usize = 8;

/// Brings the rules of all gathering roles up to date.
pub fn gather(state: &mut State) {
    let Some(kind) = state.registry.find(GROUP, "v1", "clusterroles") else {
        return;
    };
    for _ in 0..ROUNDS_MAX {
        let stale = stale(state, &kind);
        if stale.is_empty() {
            return;
        }
        for role in stale {
            state.store.put(&kind, role);
        }
    }
}

/// The gathering roles that lack a rule or have one too many, as they should be.
fn stale(state: &State, kind: &Kind) -> Vec<Value> {
    let table: TableKey = kind.table();
    let roles: Vec<Value> = state
        .store
        .list(&table, None)
        .map(|stored| stored.value())
        .collect();
    roles
        .iter()
        .filter(|role| gathers(role))
        .filter_map(|role| {
            let wanted = gathered(role, &roles);
            (role["rules"] != wanted).then(|| {
                let mut role = role.clone();
                role["rules"] = wanted;
                role
            })
        })
        .collect()
}

/// Whether a role gathers the rules of others.
pub fn gathers(role: &Value) -> bool {
    selectors(role).next().is_some()
}

fn selectors(role: &Value) -> impl Iterator<Item = &Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.into_iter().flatten()
}

fn gathered(role: &Value, roles: &[Value]) -> Value {
    let mut rules = Vec::new();
    for selector in selectors(role).map(selector) {
        for other in roles {
            let itself = object::name(other) == object::name(role);
            if itself
                || !selector
                    .as_ref()
                    .is_some_and(|it| it.matches(&object::labels(other)))
            {
                continue;
            }
            for rule in rbac::rules(other) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    json!(rules)
}

/// A selector object as the selector it stands for. One that cannot be read selects nothing.
fn selector(selector: &Value) -> Option<LabelSelector> {
    let labels = object::texts(&selector["matchLabels"]);
    let mut terms: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str()?;
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        terms.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    LabelSelector::parse(&terms.join(",")).ok()
}
