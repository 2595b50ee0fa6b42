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

/// States that tell these sets apart where they differ: all values that they mention, the numbers around their bounds,
/// a word and a number that none of them mentions, and absence.
pub(super) fn telling_states<'a>(sets: impl Iterator<Item = &'a Values>) -> BTreeSet<Option<String>> {
    let mut all: BTreeSet<Option<String>> = [None, Some("~".to_owned()), Some(i64::MAX.to_string())].into();
    for values in sets {
        all.extend(values.mentioned().iter().cloned().map(Some));
        let (least, most) = values.bounds();
        for bound in least.into_iter().chain(most) {
            for number in [bound.saturating_sub(1), bound, bound.saturating_add(1)] {
                all.insert(Some(number.to_string()));
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
