//! Requirements: which values of a label a Node may have.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::at_most;
use super::names;
use super::pattern::{LABEL_VALUE, QUALIFIED_NAME};
use super::schema::{LABEL_VALUE_LENGTH_MAX, REQUIREMENTS_MAX};
use super::violation::{Field, Violations};
use super::wire;

const KEY_LENGTH_MAX: usize = 316;
const MIN_VALUES_MAX: i64 = 50;
/// Twice as many as there are profiles. Upstream's CRD has no bound, and ours is upstream's, so this is judged at runtime.
const VALUES_MAX: usize = 1000;

/// Which values of one label are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label.
    #[schemars(extend("maxLength" = KEY_LENGTH_MAX, "pattern" = QUALIFIED_NAME.text))]
    pub key: String,
    /// How the label's value relates to `values`: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte`, `Lte`.
    #[schemars(extend("enum" = OPERATORS))]
    pub operator: String,
    /// The values: at least one for `In`, exactly one non-negative integer for `Gt`, `Lt`, `Gte`, `Lte`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
    /// How many different values must stay possible when machines are chosen.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 1, "maximum" = MIN_VALUES_MAX))]
    pub min_values: Option<i64>,
}

const OPERATORS: [&str; 8] = ["Gte", "Lte", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// How a label's value relates to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// It is one of them.
    In,
    /// It is none of them, or absent.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// It is greater.
    Gt,
    /// It is less.
    Lt,
    /// It is greater or equal.
    Gte,
    /// It is less or equal.
    Lte,
}

impl Operator {
    /// Whether it compares with exactly one number.
    pub fn compares(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// There is no such operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no operator")]
pub struct UnknownOperator(String);

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(text: &str) -> Result<Self, UnknownOperator> {
        Ok(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            other => return Err(UnknownOperator(other.to_owned())),
        })
    }
}

/// Whether a requirement may name the NodePool: a NodeClaim's may, a NodePool's own may not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePoolKey {
    Allowed,
    Restricted,
}

/// Judges requirements as schema and CEL rules do.
pub(super) fn validate(
    requirements: &[Requirement],
    pool_key: NodePoolKey,
    at: Field<'_>,
    found: &mut Violations,
) {
    if requirements.len() > REQUIREMENTS_MAX {
        found.blame(at, format!("has more than {REQUIREMENTS_MAX} elements"));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        requirement.validate(pool_key, at.nth(index), found);
    }
    // The three rules about values belong to the list in the CRD, so the list is blamed.
    let each = |rule: fn(&Requirement, Operator) -> bool| {
        requirements
            .iter()
            .all(|it| it.operator().is_none_or(|operator| rule(it, operator)))
    };
    found.require(
        each(|it, operator| operator != Operator::In || !it.values().is_empty()),
        at,
        "requirements with operator 'In' must have a value defined",
    );
    found.require(
        each(|it, operator| !operator.compares() || it.bound().is_some()),
        at,
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    );
    found.require(
        each(|it, operator| operator != Operator::In || it.has_min_values()),
        at,
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    );
}

impl Requirement {
    /// The operator, unless it is unknown.
    pub fn operator(&self) -> Option<Operator> {
        self.operator.parse().ok()
    }

    /// The values, none if absent.
    pub fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }

    /// The number that Gt, Lt, Gte and Lte compare with: a single value that is a non-negative integer.
    pub fn bound(&self) -> Option<i64> {
        let [value] = self.values() else { return None };
        value.parse().ok().filter(|bound| *bound >= 0)
    }

    fn has_min_values(&self) -> bool {
        let enough = |min| usize::try_from(min).is_ok_and(|min| self.values().len() >= min);
        self.min_values.is_none_or(|min| min < 0 || enough(min))
    }

    fn validate(&self, pool_key: NodePoolKey, at: Field<'_>, found: &mut Violations) {
        let key = at.at("key");
        QUALIFIED_NAME.check(&self.key, key, found);
        at_most(KEY_LENGTH_MAX, &self.key, key, found);
        found.require(
            !in_restricted_domain(&self.key),
            key,
            "label domain \"karpenter.sh\" is restricted",
        );
        let is_pool_key = pool_key == NodePoolKey::Restricted && self.key == names::NODE_POOL;
        found.require(!is_pool_key, key, "label \"karpenter.sh/nodepool\" is restricted");
        found.require(
            self.key != names::HOSTNAME,
            key,
            "label \"kubernetes.io/hostname\" is restricted",
        );
        if self.operator().is_none() {
            found.blame(
                at.at("operator"),
                format!("{:?} is none of {}", self.operator, OPERATORS.join(", ")),
            );
        }
        let in_range = self
            .min_values
            .is_none_or(|min| (1..=MIN_VALUES_MAX).contains(&min));
        found.require(in_range, at.at("minValues"), "is not between 1 and 50");
    }

    /// Judges what a CRD cannot express; also holds for the selectors of pods.
    pub(super) fn validate_runtime(&self, at: Field<'_>, found: &mut Violations) {
        let key = names::current_label(&self.key);
        if self.operator().is_none() {
            found.blame(
                at.at("operator"),
                format!("{:?} is none of {}", self.operator, OPERATORS.join(", ")),
            );
        }
        if let Some(problem) = restriction(key).or_else(|| name_problem(key)) {
            found.blame(at.at("key"), problem);
        }
        let values = at.at("values");
        if self.values().len() > VALUES_MAX {
            return found.blame(values, format!("has more than {VALUES_MAX} elements"));
        }
        for (index, value) in self.values().iter().enumerate() {
            if !is_label_value(value) {
                found.blame(values.nth(index), format!("{value:?} is not a label value"));
            }
        }
        match self.operator() {
            Some(Operator::In) => self.validate_values(key, values, found),
            Some(operator) if operator.compares() && self.bound().is_none() => {
                found.blame(values, format!("{operator} needs a single non-negative integer"));
            }
            _ => {}
        }
    }

    fn validate_values(&self, key: &str, at: Field<'_>, found: &mut Violations) {
        found.require(!self.values().is_empty(), at, "In needs at least one value");
        if !self.has_min_values() {
            found.blame(at, "are fewer than minValues");
        }
        if key != names::CAPACITY_TYPE {
            return;
        }
        let known = [
            names::CAPACITY_TYPE_ON_DEMAND,
            names::CAPACITY_TYPE_SPOT,
            names::CAPACITY_TYPE_RESERVED,
        ];
        let valid = self
            .values()
            .iter()
            .filter(|value| known.contains(&value.as_str()))
            .count();
        if valid == 0 {
            found.blame(
                at,
                format!("none of them is a capacity type ({})", known.join(", ")),
            );
        } else if self
            .min_values
            .is_some_and(|min| usize::try_from(min).is_ok_and(|min| valid < min))
        {
            found.blame(at, "fewer of them than minValues are capacity types");
        }
    }
}

/// Whether the CRD's rule takes a label for one of Karpenter's own: its domain, or the label itself if it has none,
/// ends in `karpenter.sh`.
pub(super) fn in_restricted_domain(label: &str) -> bool {
    let domain = if label.starts_with('/') {
        ""
    } else {
        label.split('/').next().unwrap_or_default()
    };
    domain.ends_with(names::GROUP) && ![names::CAPACITY_TYPE, names::NODE_POOL].contains(&label)
}

/// Why a label may not be set, if it may not.
pub(super) fn restriction(label: &str) -> Option<String> {
    if names::WELL_KNOWN_LABELS.contains(&label) {
        return None;
    }
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let karpenters = domain == names::GROUP || domain.ends_with(".karpenter.sh");
    (karpenters || label == names::HOSTNAME).then(|| format!("label {label:?} is restricted"))
}

/// Why a text is not a qualified name, if it is not: `[domain/]name`, 253 and 63 characters at most.
pub(super) fn name_problem(text: &str) -> Option<String> {
    let (domain, name) = text.rsplit_once('/').unwrap_or(("", text));
    let problem = if !QUALIFIED_NAME.matches(text) {
        "is not a qualified name"
    } else if name.len() > 63 {
        "has a name of more than 63 characters"
    } else if domain.len() > 253 {
        "has a domain of more than 253 characters"
    } else {
        return None;
    };
    Some(format!("{text:?} {problem}"))
}

/// Whether a text may be a label's value.
pub(super) fn is_label_value(text: &str) -> bool {
    text.len() <= LABEL_VALUE_LENGTH_MAX && LABEL_VALUE.matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crd_restricts_every_domain_that_ends_in_karpenter_sh() {
        for restricted in [
            "karpenter.sh/x",
            "a.karpenter.sh/x",
            "mykarpenter.sh/x",
            "karpenter.sh",
        ] {
            assert!(in_restricted_domain(restricted), "{restricted}");
        }
        for free in [
            "karpenter.sh/capacity-type",
            "karpenter.sh/nodepool",
            "karpenter-ibm.sh/x",
            "/karpenter.sh",
            "x",
        ] {
            assert!(!in_restricted_domain(free), "{free}");
        }
    }

    #[test]
    fn operators_read_as_they_print() {
        for text in OPERATORS {
            assert_eq!(text.parse::<Operator>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bound_is_a_single_non_negative_integer() {
        let bound = |values: &[&str]| {
            let values = Some(values.iter().map(ToString::to_string).collect());
            Requirement {
                key: "k".into(),
                operator: "Gt".into(),
                values,
                min_values: None,
            }
            .bound()
        };
        assert_eq!(bound(&["4"]), Some(4));
        assert_eq!(bound(&["+4"]), Some(4));
        for wrong in [
            &[][..],
            &["-1"],
            &["1", "2"],
            &["four"],
            &["4.0"],
            &["99999999999999999999"],
        ] {
            assert_eq!(bound(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn more_than_a_thousand_values_are_one_mistake_that_the_crd_lets_pass() {
        let too_many = "spec.values: has more than 1000 elements";
        for (operator, count, value, mistakes) in [
            ("In", 1000, "a", 0),
            ("In", 1001, "a", 1),
            ("NotIn", 10_000, "a", 1),
            ("In", 10_000, "no value", 1),
        ] {
            let values = (0..count).map(|number| format!("{value}{number}")).collect();
            let requirement = Requirement {
                key: "team".into(),
                operator: operator.into(),
                values: Some(values),
                min_values: None,
            };
            let (mut by_crd, mut at_runtime) = (Violations::default(), Violations::default());
            let at = Field::root("spec");
            validate(
                std::slice::from_ref(&requirement),
                NodePoolKey::Restricted,
                at,
                &mut by_crd,
            );
            assert_eq!(by_crd.verdict(), Ok(()), "the CRD is upstream's");
            requirement.validate_runtime(at, &mut at_runtime);
            let found = at_runtime.verdict().err().unwrap_or_default();
            let told: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(told, vec![too_many; mistakes], "{operator} {count}");
        }
    }
}
