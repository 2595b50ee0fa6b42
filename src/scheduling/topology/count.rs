//! How many pods each group counts where.
//!
//! Of 20,000 groups with one pod each, on thousands of nodes, nearly every place has none; of a few groups with thousands
//! of pods, nearly every place has some. So the places of a group are a list of those that have any, until enough do.

use super::super::bits;
use super::super::space::{ReqId, Space};
use super::group::{Group, GroupId, Over};

/// A list becomes a table when there is one in so many places: the table then takes 264 bytes for each at most.
const APART_MAX: usize = 64;

/// The counts of all groups.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduling) struct Counts(Vec<Count>);

/// The counts of one group, by node or by the state of a label.
#[derive(Clone, Debug, Default)]
struct Count {
    /// Pods that are selected.
    matched: Places,
    /// Pods that must be far from those selected.
    owned: Places,
    /// Selected pods in all.
    total: u64,
}

/// How many pods there are at which places.
#[derive(Clone, Debug)]
enum Places {
    /// The places that have any, in order.
    Few(Vec<(u32, u32)>),
    /// All places up to the last that has any, and those that have any as a set.
    Many { counts: Vec<u32>, at: Vec<u64> },
}

/// Whom is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) enum Counted {
    /// A pod that is selected.
    Selected,
    /// A pod that must be far from those selected.
    Keeper,
}

impl Counts {
    /// Nothing counted yet.
    pub(in crate::scheduling) fn new(groups: usize) -> Self {
        Self(vec![Count::default(); groups])
    }

    /// Selected pods at a place.
    pub(in crate::scheduling) fn matched(&self, group: GroupId, place: usize) -> i64 {
        self.0[group].matched.count(place)
    }

    /// Pods at a place that must be far from those selected.
    pub(in crate::scheduling) fn owned(&self, group: GroupId, place: usize) -> i64 {
        self.0[group].owned.count(place)
    }

    /// Which of 64 places have selected pods.
    pub(in crate::scheduling) fn matched_at(&self, group: GroupId, block: usize) -> u64 {
        self.0[group].matched.block(block)
    }

    /// Which of 64 places have pods that must be far from those selected.
    pub(in crate::scheduling) fn owned_at(&self, group: GroupId, block: usize) -> u64 {
        self.0[group].owned.block(block)
    }

    /// Selected pods in all.
    pub(in crate::scheduling) fn total(&self, group: GroupId) -> u64 {
        self.0[group].total
    }

    /// Counts a pod on a node, whose labels are these. A node without the label is no place.
    pub(in crate::scheduling) fn add(
        &mut self,
        space: &Space,
        (id, group): (GroupId, &Group),
        (host, labels): (Option<usize>, ReqId),
        counted: Counted,
    ) {
        let place = match group.over {
            Over::Hosts => host,
            Over::Label(column) => space.single(labels, column),
        };
        let count = &mut self.0[id];
        if counted == Counted::Selected && (place.is_some() || group.over == Over::Hosts) {
            count.total += 1;
        }
        let Some(place) = place else { return };
        match counted {
            Counted::Selected => count.matched.add(place),
            Counted::Keeper => count.owned.add(place),
        }
    }

    /// For how many places there is a number.
    #[cfg(test)]
    pub(in crate::scheduling) fn cells(&self) -> usize {
        let cells = |places: &Places| match places {
            Places::Few(list) => list.len(),
            Places::Many { counts, .. } => counts.len(),
        };
        let counts = self.0.iter();
        counts
            .map(|count| cells(&count.matched) + cells(&count.owned))
            .sum()
    }
}

impl Default for Places {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Places {
    fn count(&self, place: usize) -> i64 {
        let count = match self {
            Self::Many { counts, .. } => counts.get(place).copied(),
            Self::Few(list) => find(list, place).ok().map(|at| list[at].1),
        };
        i64::from(count.unwrap_or_default())
    }

    /// Which of 64 places have any.
    fn block(&self, block: usize) -> u64 {
        match self {
            Self::Many { at, .. } => at.get(block).copied().unwrap_or_default(),
            Self::Few(list) => {
                let begin = find(list, block * 64).unwrap_or_else(|at| at);
                let places = list[begin..].iter().map(|(place, _)| *place as usize);
                let here = places.take_while(|place| place / 64 == block);
                here.fold(0, |set, place| set | 1 << (place % 64))
            }
        }
    }

    fn add(&mut self, place: usize) {
        match self {
            Self::Few(list) => {
                match find(list, place) {
                    Ok(at) => list[at].1 += 1,
                    Err(at) => list.insert(at, (u32::try_from(place).unwrap_or(u32::MAX), 1)),
                }
                let last = list.last().map_or(0, |(last, _)| *last as usize);
                if last < APART_MAX * list.len() {
                    *self = Self::table(list, last + 1);
                }
            }
            Self::Many { counts, at } => {
                // Twice as far apart as where a table begins, so that it is not made and unmade in turns.
                if place >= counts.len() && place >= 2 * APART_MAX * (bits::count(at) as usize + 1) {
                    let list =
                        bits::iter(at).map(|place| (u32::try_from(place).unwrap_or(u32::MAX), counts[place]));
                    *self = Self::Few(list.collect());
                    return self.add(place);
                }
                bits::put_growing(at, place);
                if counts.len() <= place {
                    counts.resize(place + 1, 0);
                }
                counts[place] += 1;
            }
        }
    }

    fn table(list: &[(u32, u32)], places: usize) -> Self {
        let (mut counts, mut at) = (vec![0; places], vec![0; bits::words(places)]);
        for (place, count) in list {
            bits::put(&mut at, *place as usize);
            counts[*place as usize] = *count;
        }
        Self::Many { counts, at }
    }
}

/// Where a place is in a list, or would be.
fn find(list: &[(u32, u32)], place: usize) -> Result<usize, usize> {
    list.binary_search_by(|(known, _)| (*known as usize).cmp(&place))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_say_how_many_were_added_in_memory_for_those_that_have_any(
            added in prop::collection::vec(prop_oneof![0_usize..200, 0_usize..20_000], 0..300),
        ) {
            let (mut places, mut naive) = (Places::default(), BTreeMap::new());
            for place in added {
                places.add(place);
                *naive.entry(place).or_insert(0_i64) += 1;
                let cells = match &places {
                    Places::Few(list) => list.len(),
                    Places::Many { counts, .. } => counts.len(),
                };
                prop_assert!(cells <= 2 * APART_MAX * (naive.len() + 1), "{} cells for {}", cells, naive.len());
            }
            for place in (0..256).chain(naive.keys().copied()).chain([20_001]) {
                let counted = naive.get(&place).copied().unwrap_or_default();
                prop_assert_eq!(places.count(place), counted);
                prop_assert_eq!(places.block(place / 64) >> (place % 64) & 1 == 1, counted > 0);
            }
        }
    }
}
