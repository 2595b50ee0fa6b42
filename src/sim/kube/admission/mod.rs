//! What happens to an object between the request and the store.
//!
//! In the order of a real server: mutating plugins and defaults, mutating webhooks, validation of the kind's own rules,
//! validating plugins, validating webhooks.

mod addresses;
mod lifecycle;
mod limits;
mod pods;
pub mod quota;
mod storage;
pub mod webhooks;

use serde_json::{Value, json};

use super::certificates;
use super::identity::{User, escalation, node_restriction};
use super::kind::{Custom, Kind};
use super::refusal::{About, Refusal};
use super::schema::Cause;
use super::server::{ApiServer, State, about};
use super::{builtin, decode, metadata, object};

pub use pods::label_topology;

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
}

/// A write that asks for admission.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// Of which kind.
    pub kind: &'a Kind,
    /// By whom.
    pub user: &'a User,
    /// What is being done.
    pub operation: Operation,
    /// `status`, `scale`, or nothing.
    pub subresource: Option<&'a str>,
    /// What it was before.
    pub old: Option<&'a Value>,
    /// Whether it will not be stored.
    pub dry_run: bool,
}

/// Plugins that change the object. It is settled already.
pub fn mutate(state: &State, admission: &Admission<'_>, object: &mut Value) -> Result<(), Refusal> {
    node_restriction::check(state, admission, object)?;
    lifecycle::check(state, admission, object::namespace(object), object::name(object))?;
    if admission.kind.custom().is_some() {
        return Ok(());
    }
    match admission.kind.kind.as_str() {
        "Pod" => {
            limits::complete(state, admission, object);
            pods::complete(state, admission, object)?;
        }
        "Node" => taint_new_node(admission, object),
        "Service" => addresses::allocate(state, admission, object)?,
        "PersistentVolume" | "PersistentVolumeClaim" => storage::protect(state, admission, object),
        _ => {}
    }
    if admission.operation == Operation::Create {
        builtin::strategy::begin(object);
    }
    Ok(())
}

/// An object as its kind has it: without unknown fields, in canonical form, with defaults. To be repeated after
/// somebody else has changed it.
pub fn settle(kind: &Kind, object: &mut Value) -> Result<(), Refusal> {
    if let Some(custom) = kind.custom() {
        round_numbers(object);
        custom.schema.prune(object);
        custom.schema.apply_defaults(object);
        return Ok(());
    }
    // Events of both groups are stored as core events, so the object says itself what it is.
    let said = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    builtin::conform(&said("apiVersion"), &said("kind"), object)
        .map_err(|mismatch| decode::mistyped(kind, &mismatch))?;
    builtin::apply_defaults(object);
    Ok(())
}

/// Writes whole numbers as integers: the encoder of a real server knows no `1.0`.
fn round_numbers(value: &mut Value) {
    /// Up to here every whole float is one integer.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Object(fields) => fields.values_mut().for_each(round_numbers),
        Value::Array(items) => items.iter_mut().for_each(round_numbers),
        Value::Number(number) => {
            let float = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0);
            if let Some(float) = float.filter(|float| float.abs() <= EXACT_MAX) {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// TaintNodesByCondition: a node is not ready until somebody says so.
fn taint_new_node(admission: &Admission<'_>, node: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let is_it = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    let there = builtin::fields::each(&node["spec"], "taints").any(is_it);
    if admission.operation != Operation::Create || there {
        return;
    }
    builtin::fields::fill(&mut node["spec"], "taints", json!([]));
    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

/// The kind's own rules, and plugins that only look.
pub fn validate(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    let kind = admission.kind;
    // Nothing is mutated on deletion, so this is the first that is seen of it.
    if admission.operation == Operation::Delete {
        node_restriction::check(state, admission, object)?;
    }
    escalation::check(state, admission, object)?;
    certificates::check(state, admission, object)?;
    if admission.operation == Operation::Delete {
        return lifecycle::check(state, admission, object::namespace(object), object::name(object));
    }
    let mut causes = metadata::problems(kind, object);
    causes.extend(match kind.custom() {
        Some(custom) => {
            let mut causes = custom.schema.validate(object, admission.old);
            causes.extend(scale_problems(custom, object));
            causes
        }
        None => builtin::problems(object, admission.old, admission.subresource),
    });
    if kind.group == "events.k8s.io" {
        causes = builtin::new_event(causes, object, admission.old);
    }
    if !causes.is_empty() {
        let about = About {
            // Events of both groups are the core's.
            group: if kind.plural == "events" { "" } else { &kind.group },
            kind: &kind.kind,
            name: object::name(object),
        };
        return Err(Refusal::invalid(about, causes));
    }
    limits::check(state, admission, object)?;
    match kind.kind.as_str() {
        "PriorityClass" if kind.custom().is_none() => one_default_class(state, admission, object),
        "PersistentVolumeClaim" if kind.custom().is_none() => storage::check_growth(state, admission, object),
        _ => Ok(()),
    }
}

/// The numbers behind a scale are numbers, none of them below nothing, whatever the schema says.
fn scale_problems(custom: &Custom, object: &Value) -> Vec<Cause> {
    let Some(paths) = &custom.scale else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    for path in [&paths.spec, &paths.status] {
        let (value, reached) = reach(object, path);
        match value.as_i64() {
            Some(count) if count < 0 => {
                causes.push(Cause::invalid(path, value, "should be a non-negative integer"));
            }
            Some(count) if count > i64::from(i32::MAX) => {
                causes.push(Cause::invalid(
                    path,
                    value,
                    "should be less than or equal to 2147483647",
                ));
            }
            None if !reached || !value.is_null() => {
                causes.push(Cause::invalid(path, &0.into(), "accessor error"));
            }
            _ => {}
        }
    }
    if let Some(path) = &paths.selector
        && let (value, reached) = reach(object, path)
        && (!reached || !value.is_null() && !value.is_string())
    {
        causes.push(Cause::invalid(path, &json!(""), "accessor error"));
    }
    causes
}

/// What is at the end of a path, and whether nothing but objects led there.
fn reach<'a>(object: &'a Value, path: &str) -> (&'a Value, bool) {
    let mut at = object;
    for name in path.trim_start_matches('.').split('.') {
        match at {
            Value::Object(fields) => at = fields.get(name).unwrap_or(&Value::Null),
            Value::Null => return (&Value::Null, true),
            _ => return (&Value::Null, false),
        }
    }
    (at, true)
}

/// Priority: one class at most is meant for everything.
fn one_default_class(state: &State, admission: &Admission<'_>, class: &Value) -> Result<(), Refusal> {
    let other = pods::default_class(state).filter(|_| class["globalDefault"] == true);
    match other {
        Some(other) if object::name(&other) != object::name(class) || admission.old.is_none() => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                object::name(&other)
            );
            Err(Refusal::forbidden(
                about(admission.kind, object::name(class)),
                why,
            ))
        }
        _ => Ok(()),
    }
}

/// Mutating webhooks, as configured.
pub async fn mutating_webhooks(
    server: &ApiServer,
    admission: &Admission<'_>,
    object: Value,
) -> Result<Value, Refusal> {
    webhooks::mutate(server, admission, object).await
}

/// Whether anybody wants to be asked about anything.
pub fn has_webhooks(state: &State) -> bool {
    webhooks::are_configured(state)
}

/// Validating webhooks, as configured.
pub async fn validating_webhooks(
    server: &ApiServer,
    admission: &Admission<'_>,
    object: &Value,
) -> Result<(), Refusal> {
    webhooks::validate(server, admission, object).await
}

#[cfg(test)]
mod tests;
