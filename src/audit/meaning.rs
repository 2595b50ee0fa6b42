//! What requirements, selectors and tolerations mean, said once more in few words.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::pod::Namespaces;
use crate::model::selector::Condition;
use crate::model::{Effect, Selector, Taint, Toleration, Values};

/// Whether a state of a label, a value or absence, is among those allowed.
pub(super) fn allows(values: &Values, state: Option<&str>) -> bool {
    let Some(value) = state else {
        return values.allows_absence();
    };
    if let Some(listed) = values.listed() {
        return listed.contains(value);
    }
    if values.mentioned().contains(value) {
        return false;
    }
    match values.bounds() {
        (None, None) => true,
        (least, most) => value.parse::<i64>().is_ok_and(|number| {
            least.is_none_or(|least| least <= number) && most.is_none_or(|most| number <= most)
        }),
    }
}

/// States that tell these sets apart where they differ: all values that they mention, the numbers around their bounds and
/// the nearest beyond those that none of them mentions, a word and a number that none of them mentions, and absence.
pub(super) fn telling_states<'a>(sets: impl Iterator<Item = &'a Values> + Clone) -> BTreeSet<Option<String>> {
    let mut all: BTreeSet<Option<String>> = [None, Some("~".to_owned()), Some(i64::MAX.to_string())].into();
    let mentioned: BTreeSet<&String> = sets.clone().flat_map(Values::mentioned).collect();
    all.extend(mentioned.iter().map(|value| Some((*value).clone())));
    for values in sets {
        let (least, most) = values.bounds();
        for bound in least.into_iter().chain(most) {
            all.insert(Some(bound.to_string()));
            for step in [-1, 1] {
                let beyond = (1..).map(|steps: i64| bound.saturating_add(steps * step).to_string());
                // There are fewer that are mentioned than numbers to look at.
                let mut unsaid = beyond.take(mentioned.len() + 1);
                all.extend(unsaid.find(|number| !mentioned.contains(number)).map(Some));
            }
        }
    }
    all
}

/// Whether a selector means these labels.
pub(super) fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let Selector::All(conditions) = selector else {
        return false;
    };
    conditions.iter().all(|condition| match condition {
        Condition::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
        Condition::NotIn(key, values) => !labels.get(key).is_some_and(|value| values.contains(value)),
        Condition::Exists(key) => labels.get(key).is_some(),
        Condition::DoesNotExist(key) => labels.get(key).is_none(),
    })
}

/// Whether a namespace is meant.
pub(super) fn names(
    namespaces: &Namespaces,
    name: &str,
    known: &BTreeMap<String, BTreeMap<String, String>>,
) -> bool {
    let unlabelled = BTreeMap::new();
    namespaces.names.contains(name) || selects(&namespaces.selector, known.get(name).unwrap_or(&unlabelled))
}

/// The first taint that keeps pods away and that nothing tolerates.
pub(super) fn repelled<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    let covered = |taint: &Taint| {
        tolerations.iter().any(|toleration| {
            toleration.key.as_ref().is_none_or(|key| *key == taint.key)
                && toleration
                    .value
                    .as_ref()
                    .is_none_or(|value| *value == taint.value)
                && toleration.effect.is_none_or(|effect| effect == taint.effect)
        })
    };
    taints
        .iter()
        .find(|taint| taint.effect != Effect::PreferNoSchedule && !covered(taint))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::Operator;
    use crate::model::taint::{Preferring, untolerated};

    const WORDS: [&str; 6] = ["1", "2", "3", "9", "a", "b"];

    fn word() -> impl Strategy<Value = String> {
        prop::sample::select(&WORDS[..]).prop_map(str::to_owned)
    }

    fn values() -> impl Strategy<Value = Values> {
        let listed = prop::collection::vec(word(), 1..4);
        let number = prop::sample::select(vec!["1", "2", "3"]).prop_map(str::to_owned);
        let one = prop_oneof![
            (prop_oneof![Just(Operator::In), Just(Operator::NotIn)], listed),
            (
                prop_oneof![Just(Operator::Exists), Just(Operator::DoesNotExist)],
                Just(Vec::new())
            ),
            (
                prop_oneof![
                    Just(Operator::Gt),
                    Just(Operator::Lt),
                    Just(Operator::Gte),
                    Just(Operator::Lte)
                ],
                number.prop_map(|number| vec![number])
            ),
        ];
        let one = one.prop_map(|(operator, values)| Values::of(operator, &values).unwrap());
        prop::collection::vec(one, 1..4)
            .prop_map(|all| all.iter().fold(Values::anything(), |sum, one| sum.and(one)))
    }

    fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map(word(), word(), 0..4)
    }

    fn selector() -> impl Strategy<Value = Selector> {
        let some = || prop::collection::btree_set(word(), 1..3);
        let condition = prop_oneof![
            (word(), some()).prop_map(|(key, values)| Condition::In(key, values)),
            (word(), some()).prop_map(|(key, values)| Condition::NotIn(key, values)),
            word().prop_map(Condition::Exists),
            word().prop_map(Condition::DoesNotExist),
        ];
        prop_oneof![
            1 => Just(Selector::Nothing),
            5 => prop::collection::btree_set(condition, 0..3).prop_map(Selector::All),
        ]
    }

    fn effect() -> impl Strategy<Value = Effect> {
        prop_oneof![
            Just(Effect::NoSchedule),
            Just(Effect::PreferNoSchedule),
            Just(Effect::NoExecute)
        ]
    }

    #[test]
    fn the_one_number_between_two_bounds_tells() {
        let of = |operator: Operator, value: &str| Values::of(operator, &[value.to_owned()]).unwrap();
        let two = of(Operator::Gte, "2").and(&of(Operator::Lte, "2"));
        let word = of(Operator::In, "a");
        let telling = telling_states([&two, &word].into_iter());
        assert!(telling.iter().any(|state| allows(&two, state.as_deref())));
    }

    proptest! {
        #[test]
        fn both_say_the_same_of_a_label(values in values(), state in prop::option::of(word())) {
            prop_assert_eq!(allows(&values, state.as_deref()), values.allows_state(state.as_deref()));
        }

        #[test]
        fn what_tells_two_sets_apart_is_among_what_tells(one in values(), two in values()) {
            let apart = |state: &Option<String>| allows(&one, state.as_deref()) && !allows(&two, state.as_deref());
            let words = WORDS.iter().chain(&["c", "-7", "0", "4", "8"]).map(|word| Some((*word).to_owned()));
            let differ: Vec<Option<String>> = words.chain([None]).filter(apart).collect();
            let told = telling_states([&one, &two].into_iter()).iter().any(apart);
            prop_assert!(differ.is_empty() || told, "{:?}", differ);
        }

        #[test]
        fn both_say_the_same_of_a_selector(selector in selector(), labels in labels()) {
            prop_assert_eq!(selects(&selector, &labels), selector.matches(&labels));
        }

        #[test]
        fn both_say_the_same_of_taints(
            taints in prop::collection::vec((word(), word(), effect()), 0..3),
            tolerations in prop::collection::vec((prop::option::of(word()), prop::option::of(word()), prop::option::of(effect())), 0..3),
        ) {
            let taints: Vec<Taint> = taints.iter().map(|(key, value, effect)| Taint::new(key, value, *effect)).collect();
            let tolerations: Vec<Toleration> = tolerations
                .into_iter()
                .map(|(key, value, effect)| Toleration { key, value, effect })
                .collect();
            prop_assert_eq!(repelled(&taints, &tolerations), untolerated(&taints, &tolerations, Preferring::Ignored));
        }
    }
}
