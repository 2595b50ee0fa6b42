//! Taints that Nodes get.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern::QUALIFIED_NAME;
use super::requirement::name_problem;
use super::schema;
use super::time::Time;
use super::violation::{Field, Violations};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Keeps pods that do not tolerate it off a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint.
    #[schemars(extend("minLength" = 1, "pattern" = QUALIFIED_NAME.text))]
    pub key: String,
    /// Value of the taint, which a toleration may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = QUALIFIED_NAME.text))]
    pub value: Option<String>,
    /// What happens to pods that do not tolerate it: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[schemars(extend("enum" = EFFECTS))]
    pub effect: String,
    /// When the taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub time_added: Option<Time>,
}

impl Taint {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        QUALIFIED_NAME.check(&self.key, at.at("key"), found);
        if let Some(value) = &self.value {
            QUALIFIED_NAME.check(value, at.at("value"), found);
        }
        if !EFFECTS.contains(&self.effect.as_str()) {
            found.blame(
                at.at("effect"),
                format!("{:?} is none of {}", self.effect, EFFECTS.join(", ")),
            );
        }
    }
}

/// Judges each taint as the schema does.
pub(super) fn validate(taints: Option<&Vec<Taint>>, at: Field<'_>, found: &mut Violations) {
    for (index, taint) in taints.into_iter().flatten().enumerate() {
        taint.validate(at.nth(index), found);
    }
}

/// Judges what a schema cannot: the lengths inside qualified names, and that no key and effect occur twice in
/// `taints` and `startup_taints` together.
pub(super) fn validate_runtime(
    taints: Option<&Vec<Taint>>,
    startup_taints: Option<&Vec<Taint>>,
    at: Field<'_>,
    found: &mut Violations,
) {
    let mut seen = BTreeSet::new();
    for (name, list) in [("taints", taints), ("startupTaints", startup_taints)] {
        let at = at.at(name);
        for (index, taint) in list.into_iter().flatten().enumerate() {
            let at = at.nth(index);
            if let Some(problem) = name_problem(&taint.key) {
                found.blame(at.at("key"), problem);
            }
            if let Some(problem) = taint
                .value
                .as_deref()
                .filter(|value| !value.is_empty())
                .and_then(name_problem)
            {
                found.blame(at.at("value"), problem);
            }
            if !seen.insert((&taint.key, &taint.effect)) {
                found.blame(
                    at,
                    format!(
                        "a second taint with key {:?} and effect {:?}",
                        taint.key, taint.effect
                    ),
                );
            }
        }
    }
}
