//! Claims that we made and that no watch has told of.
//!
//! A claim that is made and deleted again before the watch tells of it may never be told of at all: streams are cut, lists
//! fall between, and what came and went is left out of what is told later. Its pods would be left to it for good.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;

/// How long a watch may take to tell of a claim that we made: far longer than it ever does.
const PATIENCE: Duration = Duration::from_secs(30);

/// Since when each claim is in doubt.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    since: BTreeMap<String, Instant>,
}

impl Doubt {
    /// Takes note of what is unconfirmed now; when somebody must look, if at all.
    pub(super) fn look_at(
        &mut self,
        unconfirmed: &BTreeSet<String>,
        now: Instant,
        clock: &Clock,
    ) -> Option<Instant> {
        self.since.retain(|name, _| unconfirmed.contains(name));
        for name in unconfirmed {
            self.since.entry(name.clone()).or_insert(now);
        }
        let first = self.since.values().min()?;
        Some(*first + clock.real(PATIENCE))
    }

    /// Somebody looks: whoever is still in doubt afterwards has as long again.
    pub(super) fn begin_anew(&mut self) {
        self.since.clear();
    }
}
