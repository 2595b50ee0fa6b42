//! Requirements as bits.
//!
//! Every label that anybody asks about gets a column, with one bit for each value that is mentioned anywhere, one for
//! all other values together and one for absence. Where numbers are compared, a number that nobody mentions stands for
//! the others between two bounds. Requirements are one vector over all columns; two of them are
//! compatible if in every column some bit is in both. Different vectors get a number, and what two of them make together
//! is remembered, as far as there is room: where each of many pods asks for something else, no pair comes twice.
//!
//! Labels that no node has or could have are absent everywhere, so their columns share their bits: were there room for each
//! of them in each vector, pods of which each asks about a label of its own would take the square of how many there are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::bits;
use super::labels::Labels;
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
    /// Those of labels that nodes have or could have, and then the others.
    columns: Vec<Column>,
    /// How many there are of the former.
    somewhere: usize,
    /// How many words the bits of all columns take.
    width: usize,
    by_key: BTreeMap<String, usize>,
    all: Vec<Box<[u64]>>,
    ids: Memo,
    both: Memo,
    /// Requirements that leave one state of one column, by column and state.
    pins: Vec<Vec<ReqId>>,
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

    /// Whether some state is in both sets.
    fn meet(&self, one: &[u64], two: &[u64]) -> bool {
        let range = self.start..self.start + self.words;
        let mut words = one[range.clone()].iter().zip(&two[range]);
        words.any(|(one, two)| one & two != 0)
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
        let (told_apart, nowhere) = labels.settled();
        let mut width = 0;
        let mut columns = Vec::with_capacity(told_apart.len() + nowhere.len());
        for (key, values) in told_apart {
            let words = bits::words(values.len() + 2);
            let start = width;
            columns.push(Column {
                key,
                values,
                start,
                words,
            });
            width += words;
        }
        let somewhere = columns.len();
        let start = width;
        width += usize::from(!nowhere.is_empty());
        columns.extend(nowhere.into_iter().map(|key| Column {
            key,
            values: Vec::new(),
            start,
            words: 1,
        }));
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
            somewhere,
            width,
        };
        let everything: Vec<u64> = space
            .told_apart()
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

    /// The columns that have bits of their own, and one of those that share theirs.
    pub(super) fn told_apart(&self) -> &[Column] {
        &self.columns[..self.columns.len().min(self.somewhere + 1)]
    }

    /// Requirements on nothing, to be narrowed.
    pub(super) fn anything(&self) -> Vec<u64> {
        self.all[ANYTHING as usize].to_vec()
    }

    /// The bits of requirements; whatever they do not mention may be anything. If they ask for a label that no node has or
    /// could have, the number of its column comes after them, since its bits tell only that it is one of those.
    pub(super) fn bits_of(&self, requirements: &Requirements) -> Vec<u64> {
        let mut set = self.wanted(requirements);
        let missing = requirements
            .iter()
            .filter(|(_, values)| !values.allows_absence())
            .find_map(|(key, _)| self.column(key).filter(|at| *at >= self.somewhere));
        set.extend(missing.and_then(|at| u64::try_from(at).ok()));
        set
    }

    /// The bits of requirements alone.
    pub(super) fn wanted(&self, requirements: &Requirements) -> Vec<u64> {
        let mut set = self.anything();
        for (key, values) in requirements.iter() {
            if let Some(at) = self.column(key) {
                self.restrict(&mut set, at, &self.columns[at].bits_of(values));
            }
        }
        set
    }

    /// What requirements mean beside what every node meets in any case: that labels are absent which are so everywhere.
    pub(super) fn meaning<'r>(&self, requirements: &'r Requirements) -> Cow<'r, Requirements> {
        if self.somewhere == self.columns.len() {
            return Cow::Borrowed(requirements);
        }
        let is_idle = |(key, values): &(&'r String, &'r Values)| {
            values.allows_absence() && self.column(key).is_some_and(|at| at >= self.somewhere)
        };
        let idle: Vec<&str> = requirements
            .iter()
            .filter(is_idle)
            .map(|(key, _)| key.as_str())
            .collect();
        if idle.is_empty() {
            return Cow::Borrowed(requirements);
        }
        Cow::Owned(requirements.clone().without(&idle))
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
        self.told_apart().iter().all(|column| column.meet(one, two))
    }

    /// The first label, by name, of which no state is in both, where the second is the bits of requirements.
    pub(super) fn clash(&self, one: &[u64], two: &[u64]) -> Option<usize> {
        let mut somewhere = self.columns[..self.somewhere].iter();
        let clash = somewhere.position(|column| !column.meet(one, two));
        let missing = two.get(self.width).and_then(|at| usize::try_from(*at).ok());
        let either = clash.into_iter().chain(missing);
        either.min_by_key(|at| &self.columns[*at].key)
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
        let set = self.wanted(requirements);
        self.meet(&set, &set).then(|| self.intern(&set))
    }

    /// How many sets have a number, and how many words each of them takes.
    #[cfg(test)]
    pub(super) fn interned(&self) -> (usize, usize) {
        (self.all.len(), self.width)
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
    fn labels_that_no_node_has_share_their_bits_and_are_named_all_the_same() {
        let asks = |all: &[(&str, Values)]| {
            let mut requirements = Requirements::new();
            for (key, values) in all {
                requirements.narrow(key, values);
            }
            requirements
        };
        let (some, absent) = (Values::some, Values::absent);
        let mut labels = Labels::default();
        labels.mention(&asks(&[("c", some())]));
        for key in ["b", "c", "d", "e"] {
            labels.mention_nowhere(key);
        }
        let mut space = Space::new(labels);
        assert_eq!((space.width, space.told_apart().len()), (2, 2));
        let mut own = space.anything();
        for (at, column) in space.told_apart().iter().enumerate() {
            space.pin(&mut own, at, column.absent());
        }
        let named = |wanted: &[(&str, Values)]| {
            let clash = space.clash(&own, &space.bits_of(&asks(wanted)));
            clash.map(|at| space.columns()[at].key.clone())
        };
        assert_eq!(named(&[("b", absent()), ("d", Values::none_of(["1"]))]), None);
        assert_eq!(
            named(&[("b", absent()), ("d", some()), ("e", some())]).as_deref(),
            Some("d")
        );
        assert_eq!(named(&[("c", some()), ("d", some())]).as_deref(), Some("c"));
        assert_eq!(
            named(&[("b", Values::one_of(["1"])), ("c", some())]).as_deref(),
            Some("b")
        );
        let own = space.intern(&own);
        let mut met = |wanted: &[(&str, Values)]| {
            let id = space.id_of(&asks(wanted));
            id.is_some_and(|id| space.and(own, id).is_some())
        };
        assert!(met(&[("b", absent()), ("d", Values::none_of(["1"]))]));
        for asked in [some(), Values::one_of(["1"]), Values::within(Some(1), None)] {
            assert!(!met(&[("b", absent()), ("d", asked)]));
        }
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
