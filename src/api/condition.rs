//! Conditions: what is true of an object, since when, and why.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::{CONDITION_TYPE, OPTIONAL_REASON, REASON};
use super::time::Time;
use super::violation::{Field, Violations};
use super::{schema, wire};

const TYPE_LENGTH_MAX: usize = 316;
const REASON_LENGTH_MAX: usize = 1024;
const MESSAGE_LENGTH_MAX: usize = 32_768;

/// One statement about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is stated, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(extend("maxLength" = TYPE_LENGTH_MAX, "pattern" = CONDITION_TYPE.text))]
    pub type_: String,
    /// Whether it holds: `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = STATUSES))]
    pub status: String,
    /// Why, as one word in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = REASON_LENGTH_MAX, "pattern" = OPTIONAL_REASON.text))]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = MESSAGE_LENGTH_MAX))]
    pub message: Option<String>,
    /// Since when the status is what it is.
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Time,
    /// The generation of the object that was looked at.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: Option<i64>,
}

const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// How much a kind's conditions must say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Reason and message are given.
    Required,
    /// Reason and message may be absent, and the reason empty.
    Optional,
}

/// Judges a list of conditions as the schema does.
pub(super) fn validate(
    conditions: Option<&Vec<Condition>>,
    detail: Detail,
    at: Field<'_>,
    found: &mut Violations,
) {
    let mut types = BTreeSet::new();
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let at = at.nth(index);
        if !types.insert(&condition.type_) {
            found.blame(at, format!("a second condition of type {:?}", condition.type_));
        }
        condition.validate(detail, at, found);
    }
}

impl Condition {
    fn validate(&self, detail: Detail, at: Field<'_>, found: &mut Violations) {
        CONDITION_TYPE.check(&self.type_, at.at("type"), found);
        at_most(TYPE_LENGTH_MAX, &self.type_, at.at("type"), found);
        if !STATUSES.contains(&self.status.as_str()) {
            found.blame(
                at.at("status"),
                format!("{:?} is none of {}", self.status, STATUSES.join(", ")),
            );
        }
        if detail == Detail::Required {
            found.require(self.reason.is_some(), at.at("reason"), "is required");
            found.require(self.message.is_some(), at.at("message"), "is required");
        }
        if let Some(reason) = &self.reason {
            let grammar = if detail == Detail::Required {
                &REASON
            } else {
                &OPTIONAL_REASON
            };
            grammar.check(reason, at.at("reason"), found);
            at_most(REASON_LENGTH_MAX, reason, at.at("reason"), found);
        }
        if let Some(message) = &self.message {
            at_most(MESSAGE_LENGTH_MAX, message, at.at("message"), found);
        }
        let generation = self.observed_generation.unwrap_or_default();
        found.require(generation >= 0, at.at("observedGeneration"), "is less than 0");
    }
}

/// Blames a text of more than `max` characters, counted as an API server counts them.
pub(super) fn at_most(max: usize, text: &str, at: Field<'_>, found: &mut Violations) {
    if text.chars().count() > max {
        found.blame(at, format!("is longer than {max} characters"));
    }
}
