//! The labels that somebody asks about, and which values of each must be told apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Requirements, Values};

/// The labels that matter, and the values that are told apart.
#[derive(Debug, Default)]
pub(super) struct Labels {
    by_key: BTreeMap<String, Mentioned>,
    /// Those that are asked about, and that no node has or could have.
    nowhere: BTreeSet<String>,
}

/// What is said of one label.
#[derive(Debug, Default)]
struct Mentioned {
    values: BTreeSet<String>,
    /// The numbers at which some comparison begins or ceases to hold.
    steps: BTreeSet<i64>,
}

impl Labels {
    /// Takes note of every label and value that requirements mention.
    pub(super) fn mention(&mut self, requirements: &Requirements) {
        for (key, values) in requirements.iter() {
            self.mention_key(key);
            self.mention_values(key, values);
        }
    }

    /// Takes note of a label.
    pub(super) fn mention_key(&mut self, key: &str) {
        if !self.by_key.contains_key(key) {
            self.by_key.insert(key.to_owned(), Mentioned::default());
        }
    }

    /// Takes note of a label that no node has or could have. If others say that one could, they are right.
    pub(super) fn mention_nowhere(&mut self, key: &str) {
        if !self.nowhere.contains(key) {
            self.nowhere.insert(key.to_owned());
        }
    }

    /// Takes note of values, if their label is noted.
    pub(super) fn mention_values(&mut self, key: &str, values: &Values) {
        self.mention_values_where(key, values, |_| true);
    }

    /// The same but for values that need not be told apart.
    pub(super) fn mention_values_where(
        &mut self,
        key: &str,
        values: &Values,
        matters: impl Fn(&str) -> bool,
    ) {
        let Some(known) = self.by_key.get_mut(key) else {
            return;
        };
        for value in values.mentioned() {
            if !known.values.contains(value) && matters(value) {
                known.values.insert(value.clone());
            }
        }
        let (least, most) = values.bounds();
        known.steps.extend(least);
        known.steps.extend(most.and_then(|most| most.checked_add(1)));
    }

    /// Takes note of a value, if its label is noted.
    pub(super) fn mention_value(&mut self, key: &str, value: &str) {
        if let Some(known) = self.by_key.get_mut(key)
            && !known.values.contains(value)
        {
            known.values.insert(value.to_owned());
        }
    }

    /// Whether any label is compared with numbers, as far as that is noted by now.
    pub(super) fn compare_numbers(&self) -> bool {
        self.by_key.values().any(|known| !known.steps.is_empty())
    }

    /// Takes note of what a node has, if its label is compared with numbers and this is one. Were it not told apart, it would
    /// be among the others, of which no comparison holds.
    pub(super) fn mention_number(&mut self, key: &str, value: &str) {
        let compared = self.by_key.get(key).is_some_and(|known| !known.steps.is_empty());
        if compared && value.parse::<i64>().is_ok() {
            self.mention_value(key, value);
        }
    }

    /// The labels with the values to be told apart, in order, and those that no node has or could have.
    pub(super) fn settled(self) -> (Vec<(String, Vec<String>)>, Vec<String>) {
        let unknown = |key: &String| !self.by_key.contains_key(key);
        let nowhere = self.nowhere.into_iter().filter(unknown).collect();
        let values = |known: Mentioned| known.told_apart().into_iter().collect();
        let columns = self.by_key.into_iter();
        (
            columns.map(|(key, known)| (key, values(known))).collect(),
            nowhere,
        )
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
