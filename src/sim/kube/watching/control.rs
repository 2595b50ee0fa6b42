//! How clients are shown the past on purpose: held back, sent back in time, cut off, told late, less or twice.
//!
//! A rule concerns some user, some kind, both or everybody, and is in force until it is lifted. What it does stays
//! within what a real server may do: one watch tells the changes of a kind in order and leaves none out but for a newer
//! one of the same object; different watches know nothing of each other.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Everybody, about everything.
    pub fn everyone() -> Self {
        Self::default()
    }

    /// A user, about everything.
    pub fn user(name: &str) -> Self {
        Self {
            user: Some(name.to_owned()),
            table: None,
        }
    }

    /// Everybody, about one kind.
    pub fn kind(group: &str, plural: &str) -> Self {
        Self {
            user: None,
            table: Some(TableKey::of(group, plural)),
        }
    }

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
    /// Gets and lists that may be answered from a cache see the past too: a stale API server. Consistent ones, that
    /// name no revision, are never stale.
    Stale,
}

/// How changes reach a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// So long after they happened.
    Late(Duration),
    /// Gathered for so long, and then only what came of it: the last state of each object, and nothing of one that came
    /// and went meanwhile. One that was replaced by another of its name has changed.
    Coalesced(Duration),
    /// Each of them twice.
    Twice,
}

/// How streams end before their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The connection closes; the client goes on where it was.
    Closed,
    /// The server has forgotten where the client was, and says so with 410; the client begins anew.
    Expired,
}

/// Names a rule, to lift it.
pub type RuleId = u64;

/// What the rules in force mean for a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Nothing after this revision is shown.
    pub(super) horizon: u64,
    /// How long changes are kept back.
    pub(super) delay: Duration,
    /// Whether only what came of changes is told.
    pub(super) coalesced: bool,
    /// How often each change is told.
    pub(super) copies: usize,
}

/// The rules in force.
#[derive(Debug)]
pub struct Control {
    rules: Mutex<Rules>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Rules {
    /// Counts rules and endings, so that it is known which came first.
    last: RuleId,
    lasting: Vec<(RuleId, Who, Rule)>,
    endings: Vec<(RuleId, Who, Ending)>,
}

#[derive(Debug)]
enum Rule {
    Hold(Hold),
    Deliver(Delivery),
    ForgetPages,
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
    pub fn hold_back(&self, who: Who, hold: Hold) -> RuleId {
        self.add(who, Rule::Hold(hold))
    }

    /// Delivers to `who` in another way, until [`Control::lift`].
    pub fn deliver(&self, who: Who, delivery: Delivery) -> RuleId {
        self.add(who, Rule::Deliver(delivery))
    }

    /// Answers 410 when `who` asks for the next page of a list, until [`Control::lift`].
    pub fn forget_pages(&self, who: Who) -> RuleId {
        self.add(who, Rule::ForgetPages)
    }

    /// Ends a rule.
    pub fn lift(&self, rule: RuleId) {
        self.change(|rules, _| rules.lasting.retain(|(id, ..)| *id != rule));
    }

    /// Closes every stream that is open now.
    pub fn cut(&self) {
        self.end(Who::everyone(), Ending::Closed);
    }

    /// Ends the streams of `who` that are open now.
    pub fn end(&self, who: Who, ending: Ending) {
        self.change(|rules, id| {
            // A later ending of the same streams says all that an earlier one did.
            rules
                .endings
                .retain(|(_, whose, how)| (whose, *how) != (&who, ending));
            rules.endings.push((id, who, ending));
        });
    }

    /// How far a user sees a kind, if not to the end. The strictest rule counts.
    pub fn hold(&self, user: &str, table: &TableKey) -> Option<Hold> {
        let rules = self.rules();
        let holds = rules.of(user, table).filter_map(|rule| match rule {
            Rule::Hold(hold) => Some(hold),
            _ => None,
        });
        holds.min_by_key(|hold| hold.revision).cloned()
    }

    /// Whether the next page of a user's list is no longer known.
    pub(crate) fn forgets_pages(&self, user: &str, table: &TableKey) -> bool {
        let rules = self.rules();
        rules
            .of(user, table)
            .any(|rule| matches!(rule, Rule::ForgetPages))
    }

    /// What the rules mean for a user's watch of a kind.
    pub(super) fn standing(&self, user: &str, table: &TableKey) -> Standing {
        let mut standing = Standing {
            horizon: u64::MAX,
            delay: Duration::ZERO,
            coalesced: false,
            copies: 1,
        };
        for rule in self.rules().of(user, table) {
            match rule {
                Rule::Hold(hold) => standing.horizon = standing.horizon.min(hold.revision),
                Rule::Deliver(Delivery::Late(delay)) => standing.delay = standing.delay.max(*delay),
                Rule::Deliver(Delivery::Coalesced(delay)) => {
                    standing.delay = standing.delay.max(*delay);
                    standing.coalesced = true;
                }
                Rule::Deliver(Delivery::Twice) => standing.copies = 2,
                Rule::ForgetPages => {}
            }
        }
        standing
    }

    /// How a stream ended that was opened at `opened`, if it did.
    pub(super) fn ending(&self, user: &str, table: &TableKey, opened: RuleId) -> Option<Ending> {
        let rules = self.rules();
        let later = rules.endings.iter().filter(|(id, ..)| *id > opened);
        later
            .filter(|(_, who, _)| who.is(user, table))
            .map(|(_, _, ending)| *ending)
            .next()
    }

    /// Stands for this moment: endings later than it concern a stream that is opened now.
    pub(super) fn moment(&self) -> RuleId {
        self.rules().last
    }

    /// Moves whenever a rule changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn add(&self, who: Who, rule: Rule) -> RuleId {
        self.change(|rules, id| rules.lasting.push((id, who, rule)))
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Rules, RuleId)) -> RuleId {
        let id = {
            let mut rules = self.rules();
            rules.last += 1;
            let id = rules.last;
            change(&mut rules, id);
            id
        };
        self.changes.send_replace(id);
        id
    }
}

impl Rules {
    fn of<'a>(&'a self, user: &'a str, table: &'a TableKey) -> impl Iterator<Item = &'a Rule> {
        self.lasting
            .iter()
            .filter(move |(_, who, _)| who.is(user, table))
            .map(|(_, _, rule)| rule)
    }
}
