//! ClusterRoles that gather the rules of others by label.
//!
//! On a real cluster a controller writes the gathered rules into the role, a moment after anything changes; here they
//! are there with the answer to the change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::policy::GROUP;
use super::rbac;
use crate::sim::kube::kind::{Kind, TableKey};
use crate::sim::kube::object;
use crate::sim::kube::selector::LabelSelector;
use crate::sim::kube::server::State;
use crate::sim::kube::store::Stored;

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
    let roles: Vec<&Arc<Stored>> = state.store.list(&table, None).collect();
    let others: Vec<Other<'_>> = roles
        .iter()
        .map(|role| Other {
            name: &role.key.name,
            labels: &role.labels,
            rules: Box::new(|| rbac::rules(&role.value())),
        })
        .collect();
    roles
        .iter()
        .filter(|role| may_gather(role))
        .map(|role| role.value())
        .filter(gathers)
        .filter_map(|mut role| {
            let wanted = gathered(&role, &others);
            let differs = role["rules"] != wanted;
            role["rules"] = wanted;
            differs.then_some(role)
        })
        .collect()
}

/// Fills in the rules of all gathering roles among some objects that are not stored yet.
pub fn gather_among(objects: &mut [Value]) {
    for _ in 0..ROUNDS_MAX {
        let labels: Vec<BTreeMap<String, String>> = objects.iter().map(object::labels).collect();
        let others: Vec<Other<'_>> = objects
            .iter()
            .zip(&labels)
            .filter(|(object, _)| object["kind"] == "ClusterRole")
            .map(|(object, labels)| Other {
                name: object::name(object),
                labels,
                rules: Box::new(|| rbac::rules(object)),
            })
            .collect();
        let gathered: Vec<(usize, Value)> = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| gathers(object))
            .map(|(index, object)| (index, gathered(object, &others)))
            .collect();
        drop(others);
        for (index, rules) in gathered {
            objects[index]["rules"] = rules;
        }
    }
}

/// Most roles do not gather; this is seen without decoding them.
fn may_gather(role: &Stored) -> bool {
    std::str::from_utf8(&role.body).is_ok_and(|text| text.contains("\"aggregationRule\""))
}

/// A role whose rules may be gathered. They are only read if its labels fit.
struct Other<'a> {
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
    rules: Box<dyn Fn() -> Vec<rbac::Rule> + 'a>,
}

/// Whether a role gathers the rules of others.
pub fn gathers(role: &Value) -> bool {
    selectors(role).next().is_some()
}

fn selectors(role: &Value) -> impl Iterator<Item = &Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.into_iter().flatten()
}

fn gathered(role: &Value, others: &[Other<'_>]) -> Value {
    let mut rules = Vec::new();
    for selector in selectors(role).filter_map(selector) {
        let fits = |other: &&Other<'_>| other.name != object::name(role) && selector.matches(other.labels);
        for rule in others.iter().filter(fits).flat_map(|other| (other.rules)()) {
            if !rules.contains(&rule) {
                rules.push(rule);
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
