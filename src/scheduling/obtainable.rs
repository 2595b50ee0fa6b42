//! Which values of labels a node can have at all.
//!
//! Values that are told apart take a bit in every set of requirements. Where each of many pods asks for a value of its own,
//! sets would take the square of how many there are; and if no node has or could have it, all of these pods are told the
//! same: that it cannot be had. So such a value is not told apart from no value.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{HOSTNAME, INITIALIZED, REGISTERED, WELL_KNOWN_LABELS};
use crate::model::pod::NODE_NAME;
use crate::model::{Requirements, Snapshot, Values};

/// With more labels than this, pools and types are not asked about each.
const KEYS_MAX: usize = 64;

/// What nodes can have of the labels that pods ask about.
#[derive(Debug, Default)]
pub(super) struct Obtainable<'a> {
    by_key: BTreeMap<&'a str, Can<'a>>,
}

/// What a label can be.
#[derive(Debug, Default)]
struct Can<'a> {
    /// One of these.
    listed: BTreeSet<&'a str>,
    /// Whatever one of these allows.
    open: Vec<&'a Values>,
}

impl<'a> Obtainable<'a> {
    /// What nodes can have of the labels that these requirements mention.
    pub(super) fn of(snapshot: &'a Snapshot, asked: impl Iterator<Item = &'a Requirements>) -> Self {
        let keys = asked.flat_map(|asked| asked.iter().map(|(key, _)| key.as_str()));
        // What nobody says anything about may be anything there, or a node gets it by itself.
        let is_own = |key: &&str| {
            ![HOSTNAME, NODE_NAME, INITIALIZED, REGISTERED].contains(key) && !WELL_KNOWN_LABELS.contains(key)
        };
        let keys: BTreeSet<&str> = keys.filter(is_own).collect();
        if keys.len() > KEYS_MAX {
            return Self::default();
        }
        let can = |key: &'a str| (key, Can::of(snapshot, key));
        Self {
            by_key: keys.into_iter().map(can).collect(),
        }
    }

    /// Whether some node has, or could have, this value.
    pub(super) fn has(&self, key: &str, value: &str) -> bool {
        self.by_key.get(key).is_none_or(|can| {
            can.listed.contains(value) || can.open.iter().any(|values| values.allows(value))
        })
    }
}

impl<'a> Can<'a> {
    fn of(snapshot: &'a Snapshot, key: &str) -> Self {
        let mut can = Self::default();
        for pool in &snapshot.pools {
            let types = pool.types.iter().map(|kind| &kind.requirements);
            for values in types.chain([&pool.requirements]).filter_map(|all| all.get(key)) {
                match values.listed() {
                    Some(listed) => can.listed.extend(listed.iter().map(String::as_str)),
                    None if can.open.contains(&values) => {}
                    None => can.open.push(values),
                }
            }
        }
        let nodes = snapshot.nodes.iter().filter_map(|node| node.labels.get(key));
        can.listed.extend(nodes.map(String::as_str));
        can
    }
}
