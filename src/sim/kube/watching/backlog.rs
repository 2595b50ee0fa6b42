//! Changes that a watcher has yet to be told: in the order in which they happened, each when its time has come.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::sim::kube::store::{Change, ObjectKey};

/// What waits to be told.
#[derive(Debug, Default)]
pub(super) struct Backlog(VecDeque<(Instant, Change)>);

impl Backlog {
    /// Takes up a change, not to be told before `due`. Nothing overtakes what happened before it.
    pub(super) fn push(&mut self, due: Instant, change: Change) {
        let due = self.0.back().map_or(due, |(last, _)| due.max(*last));
        self.0.push_back((due, change));
    }

    /// Takes up a change to be told together with the one before it, if there is one.
    pub(super) fn join(&mut self, due: Instant, change: Change) {
        let due = self.0.back().map_or(due, |(last, _)| *last);
        self.0.push_back((due, change));
    }

    /// Lets nothing wait longer than `delay` from now: the rule that kept it back was lifted or eased.
    pub(super) fn hurry(&mut self, now: Instant, delay: Duration) {
        for (due, _) in &mut self.0 {
            *due = (*due).min(now + delay);
        }
    }

    /// When the next change is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.front().map(|(due, _)| *due)
    }

    /// The revision of the next change.
    pub(super) fn revision(&self) -> Option<u64> {
        self.0.front().map(|(_, change)| change.revision)
    }

    /// What is due, in order.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Change> {
        let due = self.0.partition_point(|(due, _)| *due <= now);
        self.0.drain(..due).map(|(_, change)| change).collect()
    }
}

/// Of several changes of one object only what came of them is kept, as somebody sees it who looks now and then. What
/// came and went in between was never there; what went and came back has changed.
pub(super) fn coalesce(changes: Vec<Change>) -> Vec<Change> {
    let mut net: BTreeMap<ObjectKey, Change> = BTreeMap::new();
    for change in changes {
        let key = change.after.key.clone();
        let before = match net.remove(&key) {
            Some(earlier) => earlier.before,
            None => change.before.clone(),
        };
        net.insert(key, Change { before, ..change });
    }
    let mut changes: Vec<Change> = net
        .into_values()
        .filter(|change| !(change.deleted && change.before.is_none()))
        .collect();
    changes.sort_by_key(|change| change.revision);
    changes
}
