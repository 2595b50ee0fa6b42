//! Which labels a node can have at all, and which values of them.
//!
//! Values that are told apart take a bit in every set of requirements. Where each of many pods asks for a value of its own,
//! sets would take the square of how many there are; and if no node has or could have it, all of these pods are told the
//! same: that it cannot be had. So such a value is not told apart from no value. Labels that no node has or could have are
//! not told apart from each other: all of them are absent everywhere.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::Labels;
use crate::api::names::{HOSTNAME, INITIALIZED, REGISTERED, WELL_KNOWN_LABELS};
use crate::model::pod::NODE_NAME;
use crate::model::{Requirements, Snapshot, Values};

/// What nodes can have of the labels that are asked about, but for those that every node may get by itself.
#[derive(Debug)]
pub(super) struct Obtainable<'a> {
    by_key: BTreeMap<&'a str, Can<'a>>,
}

/// What a label can be.
#[derive(Debug, Default)]
struct Can<'a> {
    /// Whether a node has it, or a pool or a type says anything about it.
    somewhere: bool,
    /// One of these.
    listed: BTreeSet<&'a str>,
    /// Whatever one of these allows.
    open: Vec<&'a Values>,
}

impl<'a> Obtainable<'a> {
    /// What nodes can have of these labels.
    pub(super) fn of(snapshot: &'a Snapshot, asked: impl Iterator<Item = &'a str>) -> Self {
        // What nobody says anything about may be anything there, or a node gets it by itself.
        let is_own = |key: &&str| {
            ![HOSTNAME, NODE_NAME, INITIALIZED, REGISTERED].contains(key) && !WELL_KNOWN_LABELS.contains(key)
        };
        let own = asked.filter(is_own).map(|key| (key, Can::default()));
        let mut all = Self {
            by_key: own.collect(),
        };
        if !all.by_key.is_empty() {
            all.look_around(snapshot);
        }
        all
    }

    fn look_around(&mut self, snapshot: &'a Snapshot) {
        for pool in &snapshot.pools {
            let types = pool.types.iter().map(|kind| &kind.requirements);
            for (key, values) in types.chain([&pool.requirements]).flat_map(Requirements::iter) {
                if let Some(can) = self.by_key.get_mut(key.as_str()) {
                    can.be(values);
                }
            }
        }
        for (key, value) in snapshot.nodes.iter().flat_map(|node| &node.labels) {
            if let Some(can) = self.by_key.get_mut(key.as_str()) {
                can.somewhere = true;
                can.listed.insert(value);
            }
        }
    }

    /// Takes note of a label.
    pub(super) fn mention_key(&self, labels: &mut Labels, key: &str) {
        if self.by_key.get(key).is_none_or(|can| can.somewhere) {
            labels.mention_key(key);
        } else {
            labels.mention_nowhere(key);
        }
    }

    /// Takes note of what requirements mention, as far as a node can have it.
    pub(super) fn mention(&self, labels: &mut Labels, requirements: &Requirements) {
        for (key, values) in requirements.iter() {
            self.mention_key(labels, key);
            labels.mention_values_where(key, values, |value| self.has(key, value));
        }
    }

    /// Whether some node has, or could have, this value.
    fn has(&self, key: &str, value: &str) -> bool {
        self.by_key.get(key).is_none_or(|can| {
            can.listed.contains(value) || can.open.iter().any(|values| values.allows(value))
        })
    }
}

impl<'a> Can<'a> {
    fn be(&mut self, values: &'a Values) {
        self.somewhere = true;
        match values.listed() {
            Some(listed) => self.listed.extend(listed.iter().map(String::as_str)),
            None if self.open.contains(&values) => {}
            None => self.open.push(values),
        }
    }
}
