//! Requirements as bits.
//!
//! Every label that anybody asks about gets a column, with one bit for each value that is mentioned anywhere, one for
//! all other values together and one for absence. Where numbers are compared, a number that nobody mentions stands for
//! the others between two bounds. Requirements are one vector over all columns; two of them are
//! compatible if in every column some bit is in both. Different vectors get a number, and what two of them make together
//! is remembered, as far as there is room: where each of many pods asks for something else, no pair comes twice.

use std::collections::{BTreeMap, BTreeSet};

use super::bits;
use super::memo::{Memo, hash};
use crate::model::{Requirements, Values};

/// The number of an interned set of requirements.
pub(super) type ReqId = u32;
/// Requirements that everything meets.
pub(super) const ANYTHING: ReqId = 0;

/// No value of a label looks like this, so it stands for those that nobody mentions.
const NOT_A_NUMBER: &str = "\0";
/// So many pairs are remembered, at 32 bytes each: 4 MB. Workloads of a few hundred kinds of pods make a few thousand.
const PAIRS_MAX: usize = 1 << 17;
const UNKNOWN: u32 = u32::MAX;
const CONFLICT: u32 = u32::MAX - 1;

/// The labels that matter, and the values that are told apart.
#[derive(Debug, Default)]
pub(super) struct Labels(BTreeMap<String, Mentioned>);

/// What is said of one label.
#[derive(Debug, Default)]
struct Mentioned {
    values: BTreeSet<String>,
    /// The numbers at which some comparison begins or ceases to hold.
    steps: BTreeSet<i64>,
}

/// One label.
#[derive(Debug)]
pub(super) struct Column {
    /// Its name.
    pub(super) key: String,
    /// The values that are told apart, in order; the state of a value is its place here.
    pub(super) values: Vec<String>,
    start: usize,
    words: usize,
}

/// Interned requirements.
#[derive(Debug)]
pub(super) struct Space {
    columns: Vec<Column>,
    by_key: BTreeMap<String, usize>,
    all: Vec<Box<[u64]>>,
    ids: Memo,
    both: Memo,
    /// Requirements that leave one state of one column, by column and state.
    pins: Vec<Vec<ReqId>>,
}

impl Labels {
    /// Takes note of every label and value that requirements mention.
    pub(super) fn mention(&mut self, requirements: &Requirements) {
        self.mention_where(requirements, &|_, _| true);
    }

    /// The same but for values that need not be told apart.
    pub(super) fn mention_where(
        &mut self,
        requirements: &Requirements,
        matters: &dyn Fn(&str, &str) -> bool,
    ) {
        for (key, values) in requirements.iter() {
            self.mention_key(key);
            self.mention_values_where(key, values, &|value| matters(key, value));
        }
    }

    /// Takes note of values, if their label is noted.
    pub(super) fn mention_values(&mut self, key: &str, values: &Values) {
        self.mention_values_where(key, values, &|_| true);
    }

    fn mention_values_where(&mut self, key: &str, values: &Values, matters: &dyn Fn(&str) -> bool) {
        let Some(known) = self.0.get_mut(key) else { return };
        for value in values.mentioned() {
            if !known.values.contains(value) && matters(value) {
                known.values.insert(value.clone());
            }
        }
        let (least, most) = values.bounds();
        known.steps.extend(least);
        known.steps.extend(most.and_then(|most| most.checked_add(1)));
    }

    /// Takes note of a label.
    pub(super) fn mention_key(&mut self, key: &str) {
        self.0.entry(key.to_owned()).or_default();
    }

    /// Takes note of a value, if its label is noted.
    pub(super) fn mention_value(&mut self, key: &str, value: &str) {
        if let Some(known) = self.0.get_mut(key)
            && !known.values.contains(value)
        {
            known.values.insert(value.to_owned());
        }
    }

    /// Whether any label is compared with numbers, as far as that is noted by now.
    pub(super) fn compare_numbers(&self) -> bool {
        self.0.values().any(|known| !known.steps.is_empty())
    }

    /// Takes note of what a node has, if its label is compared with numbers and this is one. Were it not told apart, it would
    /// be among the others, of which no comparison holds.
    pub(super) fn mention_number(&mut self, key: &str, value: &str) {
        let compared = self.0.get(key).is_some_and(|known| !known.steps.is_empty());
        if compared && value.parse::<i64>().is_ok() {
            self.mention_value(key, value);
        }
    }
}

impl Mentioned {
    /// The values to be told apart: those mentioned, and between any two steps a number that stands for the numbers
    /// there that nobody mentions.
    fn told_apart(self) -> BTreeSet<String> {
        let mut values = self.values;
        let steps: Vec<i64> = self.steps.into_iter().collect();
        let unmentioned = |numbers: &mut dyn Iterator<Item = i64>, values: &BTreeSet<String>| {
            numbers
                .map(|number| number.to_string())
                .find(|number| !values.contains(number))
        };
        if let Some(first) = steps.first() {
            let below = unmentioned(&mut (i64::MIN..*first).rev(), &values);
            values.extend(below);
        }
        for (at, step) in steps.iter().enumerate() {
            let end = steps.get(at + 1).map_or(i64::MAX, |next| next - 1);
            let between = unmentioned(&mut (*step..=end), &values);
            values.extend(between);
        }
        values
    }
}

impl Column {
    /// The state of a value; that of all others if it is not told apart.
    pub(super) fn state_of(&self, value: &str) -> usize {
        self.values
            .binary_search_by(|known| known.as_str().cmp(value))
            .unwrap_or(self.values.len())
    }

    /// The state of a label that is not there.
    pub(super) fn absent(&self) -> usize {
        self.values.len() + 1
    }

    /// The state that stands for all values that are not told apart.
    pub(super) fn other(&self) -> usize {
        self.values.len()
    }

    fn states(&self) -> usize {
        self.values.len() + 2
    }

    fn bits_of(&self, values: &Values) -> Vec<u64> {
        let mut set = vec![0; self.words];
        if let Some(listed) = values.listed() {
            // Few of many values, as of a type that has one name of hundreds.
            let known = listed
                .iter()
                .filter_map(|value| self.values.binary_search(value).ok());
            known.for_each(|state| bits::put(&mut set, state));
        } else {
            for (state, value) in self.values.iter().enumerate() {
                if values.allows(value) {
                    bits::put(&mut set, state);
                }
            }
        }
        // Where numbers are compared, those that nobody mentions have states of their own.
        if values.allows(NOT_A_NUMBER) {
            bits::put(&mut set, self.other());
        }
        if values.allows_absence() {
            bits::put(&mut set, self.absent());
        }
        set
    }
}

impl Space {
    /// A space in which these labels are told apart.
    pub(super) fn new(labels: Labels) -> Self {
        let mut start = 0;
        let mut columns = Vec::new();
        for (key, mentioned) in labels.0 {
            let values: Vec<String> = mentioned.told_apart().into_iter().collect();
            let words = bits::words(values.len() + 2);
            columns.push(Column {
                key,
                values,
                start,
                words,
            });
            start += words;
        }
        let by_key = columns
            .iter()
            .enumerate()
            .map(|(at, column)| (column.key.clone(), at));
        let mut space = Self {
            by_key: by_key.collect(),
            all: Vec::new(),
            ids: Memo::whole(),
            both: Memo::of(PAIRS_MAX),
            pins: columns
                .iter()
                .map(|column| vec![UNKNOWN; column.states()])
                .collect(),
            columns,
        };
        let everything: Vec<u64> = space
            .columns
            .iter()
            .flat_map(|column| bits::full(column.states()))
            .collect();
        space.intern(&everything);
        space
    }

    /// The column of a label that is told apart.
    pub(super) fn column(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// All columns.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Requirements on nothing, to be narrowed.
    pub(super) fn anything(&self) -> Vec<u64> {
        self.all[ANYTHING as usize].to_vec()
    }

    /// The bits of requirements; whatever they do not mention may be anything.
    pub(super) fn bits_of(&self, requirements: &Requirements) -> Vec<u64> {
        let mut set = self.anything();
        for (key, values) in requirements.iter() {
            if let Some(at) = self.column(key) {
                let column = &self.columns[at];
                let part = &mut set[column.start..column.start + column.words];
                part.copy_from_slice(&column.bits_of(values));
            }
        }
        set
    }

    /// Leaves only these states of a column.
    pub(super) fn restrict(&self, set: &mut [u64], column: usize, states: &[u64]) {
        let column = &self.columns[column];
        bits::keep(&mut set[column.start..column.start + column.words], states);
    }

    /// Leaves only one state of a column.
    pub(super) fn pin(&self, set: &mut [u64], column: usize, state: usize) {
        let mut one = vec![0; self.columns[column].words];
        bits::put(&mut one, state);
        self.restrict(set, column, &one);
    }

    /// Interned requirements with only one state of a column left, if they allow it.
    pub(super) fn pinned(&mut self, id: ReqId, column: usize, state: usize) -> Option<ReqId> {
        if self.pins[column][state] == UNKNOWN {
            let mut set = self.anything();
            self.pin(&mut set, column, state);
            self.pins[column][state] = self.intern(&set);
        }
        self.and(id, self.pins[column][state])
    }

    /// No states of a column, to be added to.
    pub(super) fn no_states(&self, column: usize) -> Vec<u64> {
        vec![0; self.columns[column].words]
    }

    /// The states of a column that a set allows.
    pub(super) fn part<'a>(&self, set: &'a [u64], column: usize) -> &'a [u64] {
        let column = &self.columns[column];
        &set[column.start..column.start + column.words]
    }

    /// The states of a column that interned requirements allow.
    pub(super) fn states(&self, id: ReqId, column: usize) -> &[u64] {
        self.part(&self.all[id as usize], column)
    }

    /// The value of a label where requirements leave exactly one.
    pub(super) fn single(&self, id: ReqId, column: usize) -> Option<usize> {
        let states = self.states(id, column);
        if bits::count(states) != 1 {
            return None;
        }
        bits::iter(states)
            .next()
            .filter(|state| *state < self.columns[column].values.len())
    }

    /// The bits of interned requirements.
    pub(super) fn bits(&self, id: ReqId) -> &[u64] {
        &self.all[id as usize]
    }

    /// Whether in every column some state is in both.
    pub(super) fn meet(&self, one: &[u64], two: &[u64]) -> bool {
        self.columns.iter().all(|column| {
            let range = column.start..column.start + column.words;
            one[range.clone()]
                .iter()
                .zip(&two[range])
                .any(|(one, two)| one & two != 0)
        })
    }

    /// The first column in which no state is in both.
    pub(super) fn clash(&self, one: &[u64], two: &[u64]) -> Option<usize> {
        self.columns.iter().position(|column| {
            let range = column.start..column.start + column.words;
            one[range.clone()]
                .iter()
                .zip(&two[range])
                .all(|(one, two)| one & two == 0)
        })
    }

    /// The number of a set.
    pub(super) fn intern(&mut self, set: &[u64]) -> ReqId {
        let next = u32::try_from(self.all.len()).unwrap_or(CONFLICT - 1);
        let all = &self.all;
        let is_it = |id: u32| *all[id as usize] == *set;
        let id = self.ids.number(hash(set.iter().copied()), next, is_it);
        if id == next {
            self.all.push(set.into());
        }
        id
    }

    /// What both require, if anything meets it.
    pub(super) fn and(&mut self, one: ReqId, two: ReqId) -> Option<ReqId> {
        if two == ANYTHING {
            return Some(one);
        }
        match self.both.get(pair(one, two)) {
            Some(CONFLICT) => None,
            Some(id) => Some(id),
            None => self.compute_and(one, two),
        }
    }

    fn compute_and(&mut self, one: ReqId, two: ReqId) -> Option<ReqId> {
        let (a, b) = (&self.all[one as usize], &self.all[two as usize]);
        let result = self.meet(a, b).then(|| {
            let both: Vec<u64> = a.iter().zip(b).map(|(a, b)| a & b).collect();
            both
        });
        let result = result.map(|both| self.intern(&both));
        self.both.put(pair(one, two), result.unwrap_or(CONFLICT));
        result
    }

    /// The number of requirements whose own parts contradict nothing; `None` if some label has no state left.
    pub(super) fn id_of(&mut self, requirements: &Requirements) -> Option<ReqId> {
        let set = self.bits_of(requirements);
        self.meet(&set, &set).then(|| self.intern(&set))
    }

    /// How many sets have a number, and how many words each of them takes.
    #[cfg(test)]
    pub(super) fn interned(&self) -> (usize, usize) {
        (self.all.len(), self.all[ANYTHING as usize].len())
    }
}

fn pair(one: ReqId, two: ReqId) -> u64 {
    u64::from(one) << 32 | u64::from(two)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requirement() -> impl Strategy<Value = (String, Values)> {
        let value = prop_oneof![
            Just("a".to_owned()),
            Just("b".to_owned()),
            (0_i64..6).prop_map(|n| n.to_string())
        ];
        let several = prop::collection::vec(value, 0..3);
        let bound = prop::option::of(0_i64..6);
        let values = prop_oneof![
            several.clone().prop_map(Values::one_of),
            several.prop_map(Values::none_of),
            Just(Values::some()),
            Just(Values::absent()),
            (bound.clone(), bound).prop_map(|(least, most)| Values::within(least, most)),
        ];
        ("[xy]", values)
    }

    fn requirements() -> impl Strategy<Value = Requirements> {
        prop::collection::vec(requirement(), 0..4).prop_map(|all| {
            let mut requirements = Requirements::new();
            for (key, values) in &all {
                requirements.narrow(key, values);
            }
            requirements
        })
    }

    proptest! {
        #[test]
        fn bits_say_the_same_as_sets(all in prop::collection::vec(requirements(), 2..6)) {
            let mut labels = Labels::default();
            for one in &all {
                labels.mention(one);
            }
            let mut space = Space::new(labels);
            for one in &all {
                for two in &all {
                    let both = one.and(two);
                    let possible = both.iter().all(|(_, values)| !values.is_never());
                    let ids = (space.id_of(one), space.id_of(two));
                    let met = match ids {
                        (Some(a), Some(b)) => space.and(a, b).is_some(),
                        _ => false,
                    };
                    prop_assert_eq!(met, possible, "{:?} and {:?}", one, two);
                    if let (Some(a), Some(b)) = ids && let Some(id) = space.and(a, b) {
                        prop_assert_eq!(Some(id), space.id_of(&both));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_remembered_of_pairs_does_not_grow_with_their_number() {
        let mut labels = Labels::default();
        let value = |number: usize| {
            let mut one = Requirements::new();
            one.narrow("team", &Values::one_of([number.to_string()]));
            one
        };
        let all: Vec<Requirements> = (0..600).map(value).collect();
        for one in &all {
            labels.mention(one);
        }
        let mut space = Space::new(labels);
        let ids: Vec<ReqId> = all.iter().map(|one| space.id_of(one).unwrap()).collect();
        for one in &ids {
            for two in &ids {
                assert_eq!(space.and(*one, *two).is_some(), one == two);
            }
        }
        assert!(space.both.len() <= PAIRS_MAX);
        assert_eq!(space.all.len(), 601, "each of them, and anything");
    }

    #[test]
    fn a_value_nobody_mentions_is_one_of_the_others() {
        let mut labels = Labels::default();
        let mut wanted = Requirements::new();
        wanted.narrow("zone", &Values::one_of(["a", "b"]));
        labels.mention(&wanted);
        let space = Space::new(labels);
        let column = &space.columns()[space.column("zone").unwrap()];
        assert_eq!((column.state_of("b"), column.state_of("z")), (1, column.other()));
    }
}
