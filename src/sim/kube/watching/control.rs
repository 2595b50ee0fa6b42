//! How clients are shown the past on purpose: held back, sent back in time, cut off, or given less than happened.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::sim::kube::kind::TableKey;

/// Whom a rule concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Only this user.
    pub user: Option<String>,
    /// Only this kind.
    pub table: Option<TableKey>,
}

impl Who {
    fn is(&self, user: &str, table: &TableKey) -> bool {
        self.user.as_deref().is_none_or(|known| known == user)
            && self.table.as_ref().is_none_or(|known| known == table)
    }
}

/// How far a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Nothing after this revision is shown.
    pub revision: u64,
    /// Whether reads are held back as well as watches.
    pub reads: Reads,
}

/// Which reads are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Gets and lists see everything: only watches lag.
    Live,
    /// Gets and lists see the past too: a stale API server.
    Stale,
}

/// How changes reach a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Each of them.
    #[default]
    Every,
    /// Only the last of each object.
    Coalesced,
}

/// The rules in force.
#[derive(Debug)]
pub struct Control {
    rules: Mutex<Rules>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Rules {
    next: u64,
    epoch: u64,
    holds: Vec<(u64, Who, Hold)>,
    deliveries: Vec<(u64, Who, Delivery)>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Control {
    /// Shows `who` nothing after the revision of `hold`, until [`Control::lift`].
    pub fn hold_back(&self, who: Who, hold: Hold) -> u64 {
        self.change(|rules, id| rules.holds.push((id, who, hold)))
    }

    /// Delivers to `who` in another way, until [`Control::lift`].
    pub fn deliver(&self, who: Who, delivery: Delivery) -> u64 {
        self.change(|rules, id| rules.deliveries.push((id, who, delivery)))
    }

    /// Ends a rule.
    pub fn lift(&self, rule: u64) {
        self.change(|rules, _| {
            rules.holds.retain(|(id, ..)| *id != rule);
            rules.deliveries.retain(|(id, ..)| *id != rule);
        });
    }

    /// Ends every stream that is open now.
    pub fn cut(&self) {
        self.change(|rules, _| rules.epoch += 1);
    }

    /// How far a user sees a kind, if not to the end. The strictest rule counts.
    pub fn hold(&self, user: &str, table: &TableKey) -> Option<Hold> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = rules.holds.iter().filter(|(_, who, _)| who.is(user, table));
        matching
            .map(|(_, _, hold)| hold)
            .min_by_key(|hold| hold.revision)
            .cloned()
    }

    /// How changes of a kind reach a user.
    pub fn delivery(&self, user: &str, table: &TableKey) -> Delivery {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules
            .deliveries
            .iter()
            .find(|(_, who, _)| who.is(user, table))
            .map(|(_, _, delivery)| *delivery)
            .unwrap_or_default()
    }

    /// Streams of an older epoch are over.
    pub fn epoch(&self) -> u64 {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).epoch
    }

    /// Moves whenever a rule changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut Rules, u64)) -> u64 {
        let id = {
            let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
            rules.next += 1;
            let id = rules.next;
            change(&mut rules, id);
            id
        };
        self.changes.send_modify(|count| *count += 1);
        id
    }
}
