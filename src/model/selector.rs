//! Selectors of pods and namespaces by their labels.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Which labels are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// None at all: no selector was given, or one that has no meaning.
    Nothing,
    /// Labels that meet all of these; all labels if there are none.
    All(BTreeSet<Condition>),
}

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// It has one of these values.
    In(String, BTreeSet<String>),
    /// It is absent or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// It is there.
    Exists(String),
    /// It is absent.
    DoesNotExist(String),
}

impl Selector {
    /// What a selector of the API means. An absent one means nothing, an empty one everything.
    pub fn from_api(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else {
            return Self::Nothing;
        };
        let mut all = BTreeSet::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            all.insert(Condition::In(key.clone(), [value.clone()].into()));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let key = expression.key.clone();
            let values: BTreeSet<String> = expression.values.iter().flatten().cloned().collect();
            all.insert(match expression.operator.as_str() {
                "In" => Condition::In(key, values),
                "NotIn" => Condition::NotIn(key, values),
                "Exists" => Condition::Exists(key),
                "DoesNotExist" => Condition::DoesNotExist(key),
                // The API server lets none through; one that is met anyway selects nobody.
                _ => return Self::Nothing,
            });
        }
        Self::All(all)
    }

    /// The same, and this too.
    #[must_use]
    pub fn and(self, condition: Condition) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::All(mut all) => {
                all.insert(condition);
                Self::All(all)
            }
        }
    }

    /// Whether these labels are meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(all) => all.iter().all(|condition| condition.holds(labels)),
        }
    }

    /// A label with its value that everything meant here has, where there is one: what an index can be asked for.
    pub fn certain_label(&self) -> Option<(&str, &str)> {
        let Self::All(all) = self else {
            return None;
        };
        all.iter().find_map(|condition| match condition {
            Condition::In(key, values) if values.len() == 1 => {
                values.first().map(|value| (key.as_str(), value.as_str()))
            }
            _ => None,
        })
    }
}

impl Condition {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            }]),
        }
    }

    #[test]
    fn an_absent_selector_means_nothing_and_an_empty_one_everything() {
        assert!(!Selector::from_api(None).matches(&labels(&[])));
        assert!(Selector::from_api(Some(&LabelSelector::default())).matches(&labels(&[("a", "b")])));
    }

    #[test]
    fn expressions_mean_what_kubernetes_says() {
        let with = labels(&[("app", "web")]);
        let without = labels(&[]);
        let verdicts = |operator: &str, values: &[&str]| {
            let selector = Selector::from_api(Some(&expression("app", operator, values)));
            (selector.matches(&with), selector.matches(&without))
        };
        assert_eq!(verdicts("In", &["web", "api"]), (true, false));
        assert_eq!(verdicts("NotIn", &["web"]), (false, true));
        assert_eq!(verdicts("Exists", &[]), (true, false));
        assert_eq!(verdicts("DoesNotExist", &[]), (false, true));
        assert_eq!(verdicts("Resembles", &["web"]), (false, false));
    }

    #[test]
    fn a_label_with_one_value_can_be_looked_up() {
        let selector = Selector::from_api(Some(&LabelSelector {
            match_labels: Some(labels(&[("app", "web")])),
            match_expressions: None,
        }));
        assert_eq!(selector.certain_label(), Some(("app", "web")));
        assert_eq!(
            Selector::from_api(Some(&expression("app", "Exists", &[]))).certain_label(),
            None
        );
    }
}
