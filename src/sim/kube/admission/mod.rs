//! What happens to an object between the request and the store.
//!
//! In the order of a real server: mutating plugins and defaults, mutating webhooks, validation of the kind's own rules,
//! validating plugins, validating webhooks.

use serde_json::Value;

use super::certificates;
use super::identity::{User, escalation, node_restriction};
use super::kind::Kind;
use super::refusal::{About, Refusal};
use super::server::{ApiServer, State};

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

/// Plugins that change the object, and defaults.
pub fn mutate(state: &State, admission: &Admission<'_>, object: &mut Value) -> Result<(), Refusal> {
    node_restriction::check(state, admission, object)?;
    if let Some(custom) = admission.kind.custom() {
        custom.schema.prune(object);
        custom.schema.apply_defaults(object);
    }
    Ok(())
}

/// The kind's own rules, and plugins that only look.
pub fn validate(state: &State, admission: &Admission<'_>, object: &Value) -> Result<(), Refusal> {
    // Nothing is mutated on deletion, so this is the first that is seen of it.
    if admission.operation == Operation::Delete {
        node_restriction::check(state, admission, object)?;
    }
    escalation::check(state, admission, object)?;
    certificates::check(state, admission, object)?;
    if let Some(custom) = admission.kind.custom() {
        let causes = custom.schema.validate(object, admission.old);
        if !causes.is_empty() {
            let name = super::object::name(object);
            return Err(Refusal::invalid(
                About {
                    group: &admission.kind.group,
                    kind: &admission.kind.kind,
                    name,
                },
                causes,
            ));
        }
    }
    Ok(())
}

/// Mutating webhooks, as configured.
#[expect(clippy::unused_async, reason = "webhooks are asked over a network")]
pub async fn mutating_webhooks(
    _server: &ApiServer,
    _admission: &Admission<'_>,
    object: Value,
) -> Result<Value, Refusal> {
    Ok(object)
}

/// Validating webhooks, as configured.
#[expect(clippy::unused_async, reason = "webhooks are asked over a network")]
pub async fn validating_webhooks(
    _server: &ApiServer,
    _admission: &Admission<'_>,
    _object: &Value,
) -> Result<(), Refusal> {
    Ok(())
}
