//! In which zones this process may allocate: where Leases are required, those whose Lease it holds.
//!
//! Leases save conflicts between processes; correctness never rests on them, since every purchase rests on a check that
//! counts the intents of all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The zones of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Zones(Arc<Mutex<Rule>>);

#[derive(Clone, Debug, Default)]
struct Rule {
    /// Zones that need a Lease.
    leased: BTreeSet<String>,
    /// Those of them whose Lease is ours.
    held: BTreeSet<String>,
}

impl Zones {
    /// From now on these zones count only while their Lease is held; none is yet.
    pub fn require_leases(&self, leased: BTreeSet<String>) {
        *self.rule() = Rule {
            leased,
            held: BTreeSet::new(),
        };
    }

    /// The Lease of a zone is ours.
    pub fn gain(&self, zone: &str) {
        self.rule().held.insert(zone.to_owned());
    }

    /// The Lease of a zone is not ours any more.
    pub fn lose(&self, zone: &str) {
        self.rule().held.remove(zone);
    }

    /// Whether this process may allocate there.
    pub fn allow(&self, zone: &str) -> bool {
        let rule = self.rule();
        !rule.leased.contains(zone) || rule.held.contains(zone)
    }

    fn rule(&self) -> std::sync::MutexGuard<'_, Rule> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_leases_are_required_only_held_zones_are_allowed() {
        let zones = Zones::default();
        assert!(zones.allow("us-south-1"));
        zones.require_leases(["us-south-1".to_owned(), "us-south-2".to_owned()].into());
        assert!(!zones.allow("us-south-1"));
        zones.gain("us-south-1");
        assert!(zones.allow("us-south-1") && !zones.allow("us-south-2"));
        zones.lose("us-south-1");
        assert!(!zones.allow("us-south-1"));
    }
}
