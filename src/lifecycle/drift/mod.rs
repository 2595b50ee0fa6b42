//! Whether a machine is still what its class asks for, and if not, in which fields.
//!
//! Pure. Judged against the class's resolution, and only while that is current and the class can be used: what could not
//! be resolved proves nothing about machines. Subnets are judged also where the class cannot be used, since that may be for
//! want of the very subnet that a machine stands in. Images, subnets and security groups are compared with the machine itself,
//! whatever a claim was stamped with; the rest by hash, and only hashes that were computed in the same way.

mod pool;

use std::collections::BTreeSet;

use kube::ResourceExt;

use crate::api::{IBMNodeClass, Ingredients, NODE_CLASS_HASH_VERSION, NodeClaim, names};
use crate::model::Machine;

pub use pool::pool_drift;

/// How a machine differs from what its class asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which kind of difference: one of the `DRIFT_*` names.
    pub reason: &'static str,
    /// The fields that differ, as they were and as they are.
    pub message: String,
}

/// The first difference of `machine` from what `class` asks for. `groups` are the security groups that the machine is
/// in, if they could be read.
pub fn drift(
    claim: &NodeClaim,
    class: &IBMNodeClass,
    machine: &Machine,
    groups: Option<&BTreeSet<String>>,
) -> Option<Drift> {
    class_drift(claim, class)
        .or_else(|| image_drift(class, machine))
        .or_else(|| subnet_drift(class, machine))
        .or_else(|| security_group_drift(class, groups?))
}

fn class_drift(claim: &NodeClaim, class: &IBMNodeClass) -> Option<Drift> {
    let annotation = |key: &str| claim.annotations().get(key);
    let hash = annotation(names::NODE_CLASS_HASH)?;
    let is_comparable =
        annotation(names::NODE_CLASS_HASH_VERSION).is_some_and(|it| it == NODE_CLASS_HASH_VERSION);
    if !is_comparable || *hash == class.hash() {
        return None;
    }
    let before: Ingredients = annotation(names::NODE_CLASS_FIELDS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    Some(Drift {
        reason: names::DRIFT_NODE_CLASS,
        message: differences(&before, &class.ingredients()),
    })
}

/// Every field that differs. A claim that does not say what it was made of tells only that it was something else.
fn differences(before: &Ingredients, now: &Ingredients) -> String {
    if before.is_empty() {
        return "the class was different when the machine was made".to_owned();
    }
    let fields: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let differing: Vec<String> = fields
        .into_iter()
        .filter(|field| before.get(*field) != now.get(*field))
        .map(|field| changed(field, before.get(field), now.get(field)))
        .collect();
    differing.join("; ")
}

fn changed(field: &str, before: Option<&String>, now: Option<&String>) -> String {
    let told = |value: Option<&String>| value.map_or("absent", String::as_str).to_owned();
    format!("{field}: was {}, is {}", told(before), told(now))
}

fn image_drift(class: &IBMNodeClass, machine: &Machine) -> Option<Drift> {
    let (before, now) = (
        machine.image.as_ref()?,
        class.resolution()?.resolved_image_id.as_ref()?,
    );
    (before != now).then(|| Drift {
        reason: names::DRIFT_IMAGE,
        message: changed("image", Some(before), Some(now)),
    })
}

fn subnet_drift(class: &IBMNodeClass, machine: &Machine) -> Option<Drift> {
    let subnet = machine.subnet.as_ref()?;
    let usable = class.usable_subnets()?;
    let ids: Vec<&str> = usable.iter().map(|subnet| subnet.id.as_str()).collect();
    let now = match ids.as_slice() {
        [] => "no subnet of the class can be used".to_owned(),
        ids => format!("is one of {}", ids.join(", ")),
    };
    (!ids.contains(&subnet.as_str())).then(|| Drift {
        reason: names::DRIFT_SUBNET,
        message: format!("subnet: was {subnet}, {now}"),
    })
}

fn security_group_drift(class: &IBMNodeClass, before: &BTreeSet<String>) -> Option<Drift> {
    let now = class.resolution()?.resolved_security_groups.as_ref()?;
    let now: BTreeSet<String> = now.iter().cloned().collect();
    let told = |groups: &BTreeSet<String>| {
        let ids: Vec<&str> = groups.iter().map(String::as_str).collect();
        ids.join(", ")
    };
    (*before != now).then(|| Drift {
        reason: names::DRIFT_SECURITY_GROUP,
        message: changed("securityGroups", Some(&told(before)), Some(&told(&now))),
    })
}

#[cfg(test)]
mod tests;
