//! Requirements on several labels at once.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

use super::values::Values;
use crate::api::names::current_label;
use crate::api::{Operator, Requirement};

/// For each label the states that are allowed; a label that is not mentioned may be in any.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirements {
    by_key: BTreeMap<String, Values>,
    min_values: BTreeMap<String, u32>,
}

/// Two requirements that cannot both be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The label.
    pub key: String,
    /// What is offered.
    pub offered: Values,
    /// What is wanted.
    pub wanted: Values,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "label {} must be {}, but is {}",
            self.key, self.wanted, self.offered
        )
    }
}

/// A requirement that has no meaning: an unknown operator, or a comparison without exactly one number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requirement on label {key} with operator {operator:?} and values {values:?} has no meaning")]
pub struct Meaningless {
    /// The label.
    pub key: String,
    /// The operator.
    pub operator: String,
    /// The values.
    pub values: Vec<String>,
}

impl Requirements {
    /// Nothing is required.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of a NodePool or a NodeClaim.
    pub fn from_api(requirements: &[Requirement]) -> Result<Self, Meaningless> {
        let mut all = Self::new();
        for requirement in requirements {
            let operator = requirement.operator.as_str();
            all.require(&requirement.key, operator, requirement.values())?;
            if let Some(least) = requirement.min_values.and_then(|least| u32::try_from(least).ok()) {
                let key = current_label(&requirement.key).to_owned();
                let known = all.min_values.entry(key).or_insert(least);
                *known = least.max(*known);
            }
        }
        Ok(all)
    }

    /// Exactly these labels.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let mut all = Self::new();
        for (key, value) in labels {
            all.narrow(key, &Values::one_of([value]));
        }
        all
    }

    /// One term of a node selector; its fields are not labels, and are left to whoever knows the node.
    pub fn from_term(term: &NodeSelectorTerm) -> Result<Self, Meaningless> {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        Self::from_expressions(expressions)
    }

    /// Expressions of a node selector.
    pub fn from_expressions(expressions: &[NodeSelectorRequirement]) -> Result<Self, Meaningless> {
        let mut all = Self::new();
        for expression in expressions {
            let values = expression.values.as_deref().unwrap_or_default();
            all.require(&expression.key, &expression.operator, values)?;
        }
        Ok(all)
    }

    fn require(&mut self, key: &str, operator: &str, values: &[String]) -> Result<(), Meaningless> {
        let meaning = operator.parse::<Operator>().ok();
        let meaning = meaning.and_then(|operator| Values::of(operator, values));
        let Some(meaning) = meaning else {
            return Err(Meaningless {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: values.to_vec(),
            });
        };
        self.narrow(key, &meaning);
        Ok(())
    }

    /// Requires this of a label, besides what is required already.
    pub fn narrow(&mut self, key: &str, values: &Values) {
        let key = current_label(key);
        match self.by_key.get_mut(key) {
            Some(known) => *known = known.and(values),
            None => {
                self.by_key.insert(key.to_owned(), values.clone());
            }
        }
    }

    /// What is required of a label, if anything.
    pub fn get(&self, key: &str) -> Option<&Values> {
        self.by_key.get(key)
    }

    /// The labels that something is required of, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Values)> {
        self.by_key.iter()
    }

    /// How many different values of a label must stay possible.
    pub fn min_values(&self) -> &BTreeMap<String, u32> {
        &self.min_values
    }

    /// Asks for no more than so many different values of a label to stay possible.
    pub fn lower_min_values(&mut self, key: &str, most: u32) {
        if let Some(least) = self.min_values.get_mut(key) {
            *least = most.min(*least);
        }
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// What both require.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (key, values) in &other.by_key {
            all.narrow(key, values);
        }
        for (key, least) in &other.min_values {
            let known = all.min_values.entry(key.clone()).or_insert(*least);
            *known = (*known).max(*least);
        }
        all
    }

    /// The same without what is required of these labels.
    #[must_use]
    pub fn without(mut self, keys: &[&str]) -> Self {
        self.by_key.retain(|key, _| !keys.contains(&key.as_str()));
        self.min_values.retain(|key, _| !keys.contains(&key.as_str()));
        self
    }

    /// The first label for which no state is left when `wanted` is required as well.
    pub fn conflict(&self, wanted: &Self) -> Option<Conflict> {
        let clash = |(key, wanted): (&String, &Values)| {
            let offered = self.by_key.get(key)?;
            (!offered.meets(wanted)).then(|| Conflict {
                key: key.clone(),
                offered: offered.clone(),
                wanted: wanted.clone(),
            })
        };
        wanted.by_key.iter().find_map(clash)
    }

    /// The first requirement that these labels do not meet.
    pub fn unmet_by(&self, labels: &BTreeMap<String, String>) -> Option<Conflict> {
        let unmet = |(key, wanted): (&String, &Values)| {
            let state = labels.get(key).map(String::as_str);
            (!wanted.allows_state(state)).then(|| Conflict {
                key: key.clone(),
                offered: state.map_or_else(Values::absent, |value| Values::one_of([value])),
                wanted: wanted.clone(),
            })
        };
        self.by_key.iter().find_map(unmet)
    }

    /// As requirements of the API, in order of their labels.
    pub fn to_api(&self) -> Vec<Requirement> {
        let mut all = Vec::new();
        for (key, values) in &self.by_key {
            let mut requirements = values.to_requirements(key);
            if let (Some(first), Some(least)) = (requirements.first_mut(), self.min_values.get(key)) {
                first.min_values = Some(i64::from(*least));
            }
            all.append(&mut requirements);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            min_values: None,
        }
    }

    fn of(requirements: &[Requirement]) -> Requirements {
        Requirements::from_api(requirements).unwrap()
    }

    #[test]
    fn several_requirements_on_one_label_hold_together() {
        let both = of(&[
            requirement("zone", "In", &["a", "b"]),
            requirement("zone", "NotIn", &["a"]),
        ]);
        assert_eq!(both.get("zone"), Some(&Values::one_of(["b"])));
    }

    #[test]
    fn an_old_name_of_a_label_means_the_new_one() {
        let old = of(&[requirement("beta.kubernetes.io/arch", "In", &["amd64"])]);
        assert!(old.get("kubernetes.io/arch").is_some());
    }

    #[test]
    fn a_conflict_names_the_label_and_both_sides() {
        let offered = of(&[
            requirement("zone", "In", &["a"]),
            requirement("arch", "In", &["amd64"]),
        ]);
        let wanted = of(&[requirement("zone", "In", &["b"])]);
        let conflict = offered.conflict(&wanted).unwrap();
        assert_eq!(conflict.to_string(), "label zone must be in [b], but is in [a]");
    }

    #[test]
    fn labels_meet_requirements_or_the_first_unmet_is_told() {
        let labels = [("zone".to_owned(), "a".to_owned())].into();
        assert_eq!(of(&[requirement("zone", "In", &["a"])]).unmet_by(&labels), None);
        let unmet = of(&[requirement("gpu", "Exists", &[])])
            .unmet_by(&labels)
            .unwrap();
        assert_eq!(unmet.to_string(), "label gpu must be present, but is absent");
        assert_eq!(
            of(&[requirement("gpu", "NotIn", &["a100"])]).unmet_by(&labels),
            None
        );
    }

    #[test]
    fn the_larger_number_of_different_values_counts() {
        let mut few = requirement("size", "In", &["a", "b", "c"]);
        few.min_values = Some(2);
        let mut many = few.clone();
        many.min_values = Some(3);
        let all = of(&[few, many]);
        assert_eq!(all.min_values().get("size"), Some(&3));
        assert_eq!(all.to_api()[0].min_values, Some(3));
    }

    #[test]
    fn a_requirement_without_meaning_is_refused_by_name() {
        let refused = Requirements::from_api(&[requirement("size", "Gt", &["large"])]).unwrap_err();
        assert!(refused.to_string().contains("label size"), "{refused}");
    }
}
