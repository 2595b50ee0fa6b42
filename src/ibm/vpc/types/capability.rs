//! What a profile permits: the API's union of fixed, range, enum and dependent values, modelled once.

use serde::{Deserialize, Serialize};

use super::{Extra, null_as_empty};

/// The permitted values of one property. The same property has different shapes on different profiles, version dates
/// and recordings, so every shape is accepted everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    from = "Wire<T>",
    into = "Wire<T>",
    bound(serialize = "T: Clone + Serialize", deserialize = "T: Deserialize<'de>")
)]
pub enum Capability<T> {
    /// Exactly this value.
    Fixed(T),
    /// One of these, `default` if nothing is asked.
    Enum { values: Vec<T>, default: Option<T> },
    /// Anything between the bounds in steps; either bound may be missing.
    Range {
        min: Option<T>,
        max: Option<T>,
        step: Option<T>,
        default: Option<T>,
    },
    /// Depends on the rest of the configuration.
    Dependent,
    /// A range that depends on the rest of the configuration (volume profiles).
    DependentRange {
        min: Option<T>,
        max: Option<T>,
        step: Option<T>,
    },
    /// A shape this program does not know; it permits nothing that can be relied upon.
    Other(Box<Wire<T>>),
}

/// The union as it is sent: a tag and whatever fields belong to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Wire<T> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    value: Option<T>,
    #[serde(
        default = "Vec::new",
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    values: Vec<T>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    default: Option<T>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    min: Option<T>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    max: Option<T>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    step: Option<T>,
    #[serde(flatten)]
    extra: Extra,
}

impl<T> From<Wire<T>> for Capability<T> {
    fn from(wire: Wire<T>) -> Self {
        match wire {
            Wire {
                kind,
                value: Some(value),
                ..
            } if kind == "fixed" => Self::Fixed(value),
            // The live API has sent enums without `values` (s390x profiles); a known issue on its side.
            Wire {
                kind,
                values,
                default,
                ..
            } if kind == "enum" => Self::Enum { values, default },
            Wire {
                kind,
                min,
                max,
                step,
                default,
                ..
            } if kind == "range" => Self::Range {
                min,
                max,
                step,
                default,
            },
            Wire { kind, .. } if kind == "dependent" => Self::Dependent,
            Wire {
                kind, min, max, step, ..
            } if kind == "dependent_range" => Self::DependentRange { min, max, step },
            other => Self::Other(Box::new(other)),
        }
    }
}

impl<T> From<Capability<T>> for Wire<T> {
    fn from(capability: Capability<T>) -> Self {
        match capability {
            Capability::Fixed(value) => Self {
                value: Some(value),
                ..Self::of("fixed")
            },
            Capability::Enum { values, default } => Self {
                values,
                default,
                ..Self::of("enum")
            },
            Capability::Range {
                min,
                max,
                step,
                default,
            } => Self {
                default,
                min,
                max,
                step,
                ..Self::of("range")
            },
            Capability::Dependent => Self::of("dependent"),
            Capability::DependentRange { min, max, step } => Self {
                min,
                max,
                step,
                ..Self::of("dependent_range")
            },
            Capability::Other(wire) => *wire,
        }
    }
}

impl<T> Wire<T> {
    fn of(kind: &str) -> Self {
        let kind = kind.to_owned();
        Self {
            kind,
            value: None,
            values: Vec::new(),
            default: None,
            min: None,
            max: None,
            step: None,
            extra: Extra::new(),
        }
    }
}

impl<T: PartialOrd> Capability<T> {
    /// What one gets without asking for anything in particular, if that is certain.
    pub fn usual(&self) -> Option<&T> {
        match self {
            Self::Fixed(value) => Some(value),
            Self::Enum {
                default: Some(default),
                ..
            }
            | Self::Range {
                default: Some(default),
                ..
            } => Some(default),
            Self::Enum {
                values,
                default: None,
            } => match values.as_slice() {
                [only] => Some(only),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether `value` may be asked for. What is not certain is not permitted.
    pub fn permits(&self, value: &T) -> bool {
        match self {
            Self::Fixed(only) => only == value,
            Self::Enum { values, .. } => values.contains(value),
            Self::Range { min, max, .. } => {
                min.as_ref().is_none_or(|min| min <= value) && max.as_ref().is_none_or(|max| value <= max)
            }
            Self::Dependent | Self::DependentRange { .. } | Self::Other(_) => false,
        }
    }

    /// The largest value that may be asked for, if there is a certain one.
    pub fn largest(&self) -> Option<&T> {
        match self {
            Self::Fixed(value) => Some(value),
            Self::Enum { values, .. } => values.iter().fold(None, |best, value| match best {
                Some(best) if best >= value => Some(best),
                _ => Some(value),
            }),
            Self::Range { max, .. } => max.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Capability<u64> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn all_four_shapes_of_a_count_are_understood() {
        assert_eq!(of(r#"{"type":"fixed","value":4}"#).usual(), Some(&4));
        assert_eq!(
            of(r#"{"type":"enum","default":8,"values":[4,8]}"#).usual(),
            Some(&8)
        );
        assert_eq!(of(r#"{"type":"enum","values":[16]}"#).usual(), Some(&16));
        assert_eq!(of(r#"{"type":"enum","values":[4,8]}"#).usual(), None);
        assert_eq!(of(r#"{"type":"range","min":1,"max":5}"#).largest(), Some(&5));
        assert_eq!(of(r#"{"type":"dependent"}"#).usual(), None);
    }

    #[test]
    fn what_is_not_certain_is_not_permitted() {
        assert!(of(r#"{"type":"range","min":1}"#).permits(&7));
        assert!(!of(r#"{"type":"range","min":1,"max":5}"#).permits(&7));
        assert!(!of(r#"{"type":"dependent"}"#).permits(&7));
        assert!(!of(r#"{"type":"enum"}"#).permits(&7));
        assert!(!of(r#"{"type":"fixed"}"#).permits(&7));
        assert!(!of(r#"{"type":"tomorrow","value":7}"#).permits(&7));
    }

    #[test]
    fn a_shape_of_tomorrow_survives() {
        let tomorrow = r#"{"type":"tomorrow","value":7,"curve":[1,2]}"#;
        let again = serde_json::to_string(&of(tomorrow)).unwrap();
        assert_eq!(again, tomorrow);
    }
}
