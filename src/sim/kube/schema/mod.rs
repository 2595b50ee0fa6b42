//! Structural schemas: what an API server does with a custom resource before storing it.
//!
//! From a CRD's `openAPIV3Schema`, for any CRD: fields that the schema does not know are reported and pruned, `null`s
//! that mean absence are dropped, defaults are filled in, values are validated, then the CEL rules run, with the old
//! object for transition rules. Causes carry the field paths, reasons and messages of a real API server.
//!
//! As there, CEL rules run only on an object of the right shape: a wrong type, a missing field, an unknown enum value
//! or a list too long stops them. Ratcheting: an update may keep what breaks a rule. Not done: that it may keep what breaks
//! a keyword, the cost budget of CEL rules, metadata inside embedded resources, and `format`s other than `date-time`,
//! `date`, `duration`, `byte`, `uuid`, `ipv4`, `ipv6` and `cidr`, which are not checked. One mistake of API servers is not
//! repeated: they let a list pass where a text with a format is asked for.

use serde_json::Value;

mod cause;
mod compile;
mod format;
mod go_regex;
mod keywords;
mod rules;
mod shape;

pub use cause::{Cause, Reason};
pub use compile::SchemaError;

use compile::Node;

/// A compiled schema. Compile once, use for every object.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Compiles a CRD's `openAPIV3Schema`.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self {
            root: Node::compile(open_api_v3_schema, "")?,
        })
    }

    /// The paths of fields that the schema does not know, sorted: what strict field validation complains about.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        shape::prune(&mut object.clone(), &self.root, &mut unknown);
        unknown.sort();
        unknown
    }

    /// Removes the fields that the schema does not know, and `null`s where they mean absence.
    pub fn prune(&self, object: &mut Value) {
        shape::prune(object, &self.root, &mut Vec::new());
        shape::drop_nulls(object, &self.root);
    }

    /// Fills in the defaults.
    pub fn apply_defaults(&self, object: &mut Value) {
        shape::default(object, &self.root);
    }

    /// What is wrong with a pruned and defaulted object, in the order of its fields; nothing if it may be stored.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        keywords::validate(object, &self.root, "", &mut causes);
        keywords::validate_list_types(object, &self.root, "", &mut causes);
        if causes.iter().any(|cause| cause.reason.stops_rules()) {
            causes.push(Cause::rules_not_checked());
        } else {
            rules::validate(object, old, &self.root, "", &mut causes);
        }
        causes
    }

    /// Prunes, fills in defaults and validates: the object is what would be stored if no cause comes back.
    pub fn admit(&self, object: &mut Value, old: Option<&Value>) -> Vec<Cause> {
        self.prune(object);
        self.apply_defaults(object);
        self.validate(object, old)
    }
}

#[cfg(test)]
mod tests;
