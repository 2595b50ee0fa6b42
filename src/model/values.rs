//! Which states of one label are allowed: being absent, or having one of these values.
//!
//! Absence is a state like any other, so the whole algebra is that of sets: `NotIn` allows absence, `In` does not, and
//! two requirements are compatible if some state is allowed by both.

use std::collections::BTreeSet;
use std::fmt;

use crate::api::{Operator, Requirement};

/// A set of states of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Values {
    absence: Absence,
    present: Present,
}

/// Whether the label may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// It may.
    Allowed,
    /// It must be there.
    Refused,
}

/// The values that the label may have where it is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Present {
    /// One of these.
    Only(BTreeSet<String>),
    /// Any but these, and if there are bounds a whole number within them.
    AllBut {
        excluded: BTreeSet<String>,
        bounds: Bounds,
    },
}

/// Between which numbers a value must be, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Bounds {
    least: Option<i64>,
    most: Option<i64>,
}

impl Bounds {
    fn none(self) -> bool {
        self.least.is_none() && self.most.is_none()
    }

    fn hold(self, value: &str) -> bool {
        if self.none() {
            return true;
        }
        value.parse().is_ok_and(|number| self.include(number))
    }

    fn include(self, number: i64) -> bool {
        self.least.is_none_or(|least| number >= least) && self.most.is_none_or(|most| number <= most)
    }

    fn narrowed(self, other: Self) -> Self {
        let max = |a: Option<i64>, b: Option<i64>| a.into_iter().chain(b).max();
        let min = |a: Option<i64>, b: Option<i64>| a.into_iter().chain(b).min();
        Self {
            least: max(self.least, other.least),
            most: min(self.most, other.most),
        }
    }

    /// How many numbers are within, if that is a finite number.
    fn count(self) -> Option<u64> {
        let (least, most) = (self.least?, self.most?);
        Some(u64::try_from(i128::from(most) - i128::from(least) + 1).unwrap_or(0))
    }
}

impl Values {
    /// Every state.
    pub fn anything() -> Self {
        Self {
            absence: Absence::Allowed,
            present: Present::AllBut {
                excluded: BTreeSet::new(),
                bounds: Bounds::default(),
            },
        }
    }

    /// The label is absent.
    pub fn absent() -> Self {
        Self {
            absence: Absence::Allowed,
            present: Present::Only(BTreeSet::new()),
        }
    }

    /// The label has one of these values.
    pub fn one_of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self {
            absence: Absence::Refused,
            present: Present::Only(values.into_iter().map(Into::into).collect()),
        }
    }

    /// The label is absent, or has none of these values.
    pub fn none_of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        let excluded = values.into_iter().map(Into::into).collect();
        Self {
            absence: Absence::Allowed,
            present: Present::AllBut {
                excluded,
                bounds: Bounds::default(),
            },
        }
    }

    /// The label is there, with any value.
    pub fn some() -> Self {
        Self::within(None, None)
    }

    /// The label is a whole number between these, both included.
    pub fn within(least: Option<i64>, most: Option<i64>) -> Self {
        let bounds = Bounds { least, most };
        let present = Present::AllBut {
            excluded: BTreeSet::new(),
            bounds,
        };
        Self {
            absence: Absence::Refused,
            present,
        }
        .tidy()
    }

    /// What an operator with its values means. `None` if they do not go together.
    pub fn of(operator: Operator, values: &[String]) -> Option<Self> {
        let number = || match values {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        Some(match operator {
            Operator::In => Self::one_of(values),
            Operator::NotIn => Self::none_of(values),
            Operator::Exists => Self::some(),
            Operator::DoesNotExist => Self::absent(),
            // Nothing is above the largest number and nothing below the smallest.
            Operator::Gt => number()?.checked_add(1).map_or_else(Self::never, Self::at_least),
            Operator::Lt => number()?.checked_sub(1).map_or_else(Self::never, Self::at_most),
            Operator::Gte => Self::at_least(number()?),
            Operator::Lte => Self::at_most(number()?),
        })
    }

    /// No state at all.
    pub fn never() -> Self {
        Self::one_of::<String>([])
    }

    fn at_least(least: i64) -> Self {
        Self::within(Some(least), None)
    }

    fn at_most(most: i64) -> Self {
        Self::within(None, Some(most))
    }

    /// The states that both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let absence = self.absence.max(other.absence);
        let present = match (&self.present, &other.present) {
            (Present::Only(these), _) => Present::Only(
                these
                    .iter()
                    .filter(|value| other.allows(value))
                    .cloned()
                    .collect(),
            ),
            (_, Present::Only(those)) => {
                Present::Only(those.iter().filter(|value| self.allows(value)).cloned().collect())
            }
            (
                Present::AllBut { excluded, bounds },
                Present::AllBut {
                    excluded: also,
                    bounds: within,
                },
            ) => Present::AllBut {
                excluded: excluded | also,
                bounds: bounds.narrowed(*within),
            },
        };
        Self { absence, present }.tidy()
    }

    /// Whether some state is allowed by both.
    pub fn meets(&self, other: &Self) -> bool {
        !self.and(other).is_never()
    }

    /// Whether a value is allowed.
    pub fn allows(&self, value: &str) -> bool {
        match &self.present {
            Present::Only(values) => values.contains(value),
            Present::AllBut { excluded, bounds } => !excluded.contains(value) && bounds.hold(value),
        }
    }

    /// Whether the label may be absent.
    pub fn allows_absence(&self) -> bool {
        self.absence == Absence::Allowed
    }

    /// Whether a state is allowed: a value, or absence.
    pub fn allows_state(&self, state: Option<&str>) -> bool {
        state.map_or(self.allows_absence(), |value| self.allows(value))
    }

    /// Whether no state is left.
    pub fn is_never(&self) -> bool {
        !self.allows_absence() && matches!(&self.present, Present::Only(values) if values.is_empty())
    }

    /// Whether every state is allowed.
    pub fn is_anything(&self) -> bool {
        *self == Self::anything()
    }

    /// The values, if they can be counted.
    pub fn listed(&self) -> Option<&BTreeSet<String>> {
        match &self.present {
            Present::Only(values) => Some(values),
            Present::AllBut { .. } => None,
        }
    }

    /// Every value that is mentioned, allowed or not.
    pub fn mentioned(&self) -> &BTreeSet<String> {
        match &self.present {
            Present::Only(values) => values,
            Present::AllBut { excluded, .. } => excluded,
        }
    }

    /// The lower and the upper bound.
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        match &self.present {
            Present::Only(_) => (None, None),
            Present::AllBut { bounds, .. } => (bounds.least, bounds.most),
        }
    }

    /// Whether a value is allowed that is neither mentioned here nor in `known`.
    pub fn allows_another_than(&self, known: &BTreeSet<String>) -> bool {
        let Present::AllBut { excluded, bounds } = &self.present else {
            return false;
        };
        let numbers = known
            .union(excluded)
            .filter_map(|value| value.parse::<i64>().ok());
        let taken: BTreeSet<i64> = numbers.filter(|number| bounds.include(*number)).collect();
        bounds
            .count()
            .is_none_or(|numbers| numbers > u64::try_from(taken.len()).unwrap_or(u64::MAX))
    }

    /// As requirements of the API; two where there is a lower and an upper bound.
    pub fn to_requirements(&self, key: &str) -> Vec<Requirement> {
        let requirement = |operator: Operator, values: Vec<String>| Requirement {
            key: key.to_owned(),
            operator: operator.to_string(),
            values: (!values.is_empty()).then_some(values),
            min_values: None,
        };
        let texts = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>();
        match (&self.present, self.absence) {
            (Present::Only(values), Absence::Allowed) if values.is_empty() => {
                vec![requirement(Operator::DoesNotExist, Vec::new())]
            }
            (Present::Only(values), _) => vec![requirement(Operator::In, texts(values))],
            (Present::AllBut { excluded, bounds }, absence) => {
                let mut all = Vec::new();
                let number = |bound: i64| vec![bound.to_string()];
                all.extend(
                    bounds
                        .least
                        .map(|least| requirement(Operator::Gte, number(least))),
                );
                all.extend(bounds.most.map(|most| requirement(Operator::Lte, number(most))));
                if absence == Absence::Refused && all.is_empty() {
                    all.push(requirement(Operator::Exists, Vec::new()));
                }
                if !excluded.is_empty() {
                    all.push(requirement(Operator::NotIn, texts(excluded)));
                }
                all
            }
        }
    }

    /// One way to write the same set: no bounds that hold nothing, no exclusion of what the bounds exclude.
    fn tidy(mut self) -> Self {
        if let Present::AllBut { excluded, bounds } = &mut self.present
            && !bounds.none()
        {
            excluded.retain(|value| bounds.hold(value));
            // A number as it is usually written: without `07` there still is a seven.
            let is_plain = |value: &&String| {
                value
                    .parse::<i64>()
                    .is_ok_and(|number| number.to_string() == **value)
            };
            let all = u64::try_from(excluded.iter().filter(is_plain).count()).unwrap_or(u64::MAX);
            if bounds.count().is_some_and(|count| count <= all) {
                self.present = Present::Only(BTreeSet::new());
            }
        }
        self
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(", ");
        match (&self.present, self.absence) {
            (Present::Only(values), Absence::Refused) if values.is_empty() => f.write_str("impossible"),
            (Present::Only(values), Absence::Allowed) if values.is_empty() => f.write_str("absent"),
            (Present::Only(values), Absence::Refused) => write!(f, "in [{}]", join(values)),
            (Present::Only(values), Absence::Allowed) => write!(f, "absent or in [{}]", join(values)),
            (Present::AllBut { excluded, bounds }, absence) => {
                let mut parts = Vec::new();
                parts.extend(bounds.least.map(|least| format!("at least {least}")));
                parts.extend(bounds.most.map(|most| format!("at most {most}")));
                if !excluded.is_empty() {
                    parts.push(format!("not in [{}]", join(excluded)));
                }
                if parts.is_empty() {
                    parts.push(
                        if absence == Absence::Refused {
                            "present"
                        } else {
                            "anything"
                        }
                        .to_owned(),
                    );
                }
                f.write_str(&parts.join(" and "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every state that matters for values made from `-2..=12`, `a`, `b`: absence, those, and one nobody mentions.
    fn states() -> Vec<Option<String>> {
        let numbers = (-3..=13).map(|number: i64| number.to_string());
        let words = ["a", "b", "z"].map(str::to_owned);
        std::iter::once(None)
            .chain(numbers.chain(words).map(Some))
            .collect()
    }

    fn operator() -> impl Strategy<Value = (Operator, Vec<String>)> {
        let value = prop_oneof![
            (-2_i64..=12).prop_map(|n| n.to_string()),
            Just("a".to_owned()),
            Just("b".to_owned())
        ];
        let several = prop::collection::vec(value, 1..4);
        let number = (-2_i64..=12).prop_map(|number| vec![number.to_string()]);
        prop_oneof![
            several.clone().prop_map(|values| (Operator::In, values)),
            several.prop_map(|values| (Operator::NotIn, values)),
            Just((Operator::Exists, Vec::new())),
            Just((Operator::DoesNotExist, Vec::new())),
            number.clone().prop_map(|values| (Operator::Gt, values)),
            number.clone().prop_map(|values| (Operator::Lt, values)),
            number.clone().prop_map(|values| (Operator::Gte, values)),
            number.prop_map(|values| (Operator::Lte, values)),
        ]
    }

    /// The meaning of an operator, written down a second time and without sets.
    fn holds((operator, values): &(Operator, Vec<String>), state: Option<&str>) -> bool {
        let compare = |with: fn(i64, i64) -> bool| {
            let number = state.and_then(|value| value.parse().ok());
            number.is_some_and(|number: i64| with(number, values[0].parse().unwrap()))
        };
        match operator {
            Operator::In => state.is_some_and(|value| values.iter().any(|known| known == value)),
            Operator::NotIn => state.is_none_or(|value| values.iter().all(|known| known != value)),
            Operator::Exists => state.is_some(),
            Operator::DoesNotExist => state.is_none(),
            Operator::Gt => compare(|a, b| a > b),
            Operator::Lt => compare(|a, b| a < b),
            Operator::Gte => compare(|a, b| a >= b),
            Operator::Lte => compare(|a, b| a <= b),
        }
    }

    fn values((operator, values): &(Operator, Vec<String>)) -> Values {
        Values::of(*operator, values).unwrap()
    }

    proptest! {
        #[test]
        fn an_operator_allows_the_states_it_means(it in operator()) {
            for state in states() {
                prop_assert_eq!(values(&it).allows_state(state.as_deref()), holds(&it, state.as_deref()), "{:?}", state);
            }
        }

        #[test]
        fn what_several_allow_together_is_what_each_allows(all in prop::collection::vec(operator(), 1..5)) {
            let together = all.iter().fold(Values::anything(), |set, it| set.and(&values(it)));
            for state in states() {
                let each = all.iter().all(|it| holds(it, state.as_deref()));
                prop_assert_eq!(together.allows_state(state.as_deref()), each, "{:?} {:?}", state, together);
            }
        }

        #[test]
        fn what_allows_no_state_is_never(all in prop::collection::vec(operator(), 1..5)) {
            let together = all.iter().fold(Values::anything(), |set, it| set.and(&values(it)));
            // Numbers far outside what is mentioned stand for all the others.
            let far = ["-1000", "1000", "word"].map(|value| Some(value.to_owned()));
            let some = states().into_iter().chain(far).any(|state| together.allows_state(state.as_deref()));
            prop_assert_eq!(together.is_never(), !some, "{:?}", together);
        }

        #[test]
        fn the_order_does_not_matter(a in operator(), b in operator(), c in operator()) {
            let (a, b, c) = (values(&a), values(&b), values(&c));
            prop_assert_eq!(a.and(&b), b.and(&a));
            prop_assert_eq!(a.and(&b).and(&c), a.and(&b.and(&c)));
            prop_assert_eq!(a.and(&a), a);
        }

        #[test]
        fn what_is_written_to_the_api_is_read_back(all in prop::collection::vec(operator(), 1..4)) {
            let together = all.iter().fold(Values::anything(), |set, it| set.and(&values(it)));
            prop_assume!(!together.is_never());
            let read = together.to_requirements("k").iter().fold(Values::anything(), |set, requirement| {
                set.and(&Values::of(requirement.operator().unwrap(), requirement.values()).unwrap())
            });
            for state in states() {
                let (state, mixed) = (state.as_deref(), together.allows_absence() && together.listed().is_some_and(|l| !l.is_empty()));
                prop_assert!(mixed || read.allows_state(state) == together.allows_state(state), "{:?} {}", state, together);
            }
        }
    }

    #[test]
    fn nothing_is_above_the_largest_number() {
        let most = [i64::MAX.to_string()];
        assert!(Values::of(Operator::Gt, &most).unwrap().is_never());
        assert!(
            Values::of(Operator::Lt, &[i64::MIN.to_string()])
                .unwrap()
                .is_never()
        );
    }

    #[test]
    fn a_number_that_is_excluded_in_an_odd_spelling_is_still_there() {
        let only_seven = [(Operator::Gt, "6"), (Operator::Lt, "8")];
        for (excluded, leaves) in [("07", true), ("7", false)] {
            let all = only_seven.into_iter().chain([(Operator::NotIn, excluded)]);
            let set = all
                .map(|(operator, value)| values(&(operator, vec![value.to_owned()])))
                .fold(Values::anything(), |set, it| set.and(&it));
            assert_eq!(set.allows_state(Some("7")), leaves, "{excluded}");
        }
    }

    #[test]
    fn a_comparison_needs_one_number() {
        for values in [&[][..], &["a".to_owned()], &["1".to_owned(), "2".to_owned()]] {
            assert_eq!(Values::of(Operator::Gt, values), None);
        }
    }

    #[test]
    fn sets_are_told_in_words() {
        let told = |values: Values| values.to_string();
        assert_eq!(told(Values::one_of(["b", "a"])), "in [a, b]");
        assert_eq!(told(Values::none_of(["a"])), "not in [a]");
        assert_eq!(told(Values::within(Some(4), Some(8))), "at least 4 and at most 8");
        assert_eq!(told(Values::absent()), "absent");
        assert_eq!(told(Values::some()), "present");
    }
}
