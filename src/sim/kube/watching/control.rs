//! How clients are shown the past on purpose: held back, sent back in time, cut off, told late, less or twice.
//!
//! A rule concerns some user, some kind, both or everybody, and is in force until it is lifted. What it does stays
//! within what a real server may do: one watch tells the changes of a kind in order and leaves none out but for a newer
//! one of the same object; different watches know nothing of each other.
//!
//! A rule that is in force has done nothing yet: it is known which of them met somebody, so that nobody takes one that
//! never did for a test of anything.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
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

/// How lists are broken off: in short pages, as a server may answer whoever asks for pages at all, whose next one it has
/// forgotten.
#[derive(Clone, Debug)]
pub struct Forgetting {
    /// No page is longer.
    pub items_max: usize,
    /// Of so many in a hundred pages the next one is forgotten.
    pub percent: u8,
    /// So often at most; then lists are whole again.
    pub times: Option<u32>,
    /// Which.
    pub rng: Rng,
}

impl Forgetting {
    fn is_over(&self) -> bool {
        self.times == Some(0)
    }

    /// Whether the page that is asked for now is forgotten.
    fn strikes(&mut self) -> bool {
        if self.is_over() || self.rng.u8(..100) >= self.percent {
            return false;
        }
        self.times = self.times.map(|times| times - 1);
        true
    }
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
    /// By which rule.
    pub(super) held_by: Option<RuleId>,
    /// How long changes are kept back.
    pub(super) delay: Duration,
    /// By which rule, if that is all that it does.
    pub(super) delayed_by: Option<RuleId>,
    /// By which rule only what came of changes is told, if by any.
    pub(super) coalesced_by: Option<RuleId>,
    /// By which rule each change is told twice, if by any.
    pub(super) doubled_by: Option<RuleId>,
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
    /// What met somebody and was not asked for yet.
    met: Vec<RuleId>,
    /// What has met somebody before.
    known: BTreeSet<RuleId>,
}

#[derive(Debug)]
enum Rule {
    Hold(Hold),
    Deliver(Delivery),
    ForgetPages(Forgetting),
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

    /// Cuts lists of `who` into short pages and answers 410 when the next one is asked for, until [`Control::lift`].
    pub fn forget_pages(&self, who: Who, forgetting: Forgetting) -> RuleId {
        self.add(who, Rule::ForgetPages(forgetting))
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
    pub fn end(&self, who: Who, ending: Ending) -> RuleId {
        self.change(|rules, id| {
            // A later ending of the same streams says all that an earlier one did.
            rules
                .endings
                .retain(|(_, whose, how)| (whose, *how) != (&who, ending));
            rules.endings.push((id, who, ending));
        })
    }

    /// The rules and endings that met somebody since this was last asked: each once, but for forgotten pages, of which
    /// each counts.
    pub fn take_met(&self) -> Vec<RuleId> {
        std::mem::take(&mut self.rules().met)
    }

    /// Notes that a rule or an ending made a difference to somebody.
    pub(super) fn meet(&self, rule: RuleId) {
        self.rules().meet(rule);
    }

    /// Notes that a user was shown a kind as it was before something happened to it.
    pub(crate) fn meet_hold(&self, user: &str, table: &TableKey) {
        if let Some(rule) = self.standing(user, table).held_by {
            self.meet(rule);
        }
    }

    /// Whether anybody is shown things late, in part or not at all by now. What is shown twice is shown.
    pub(crate) fn keeps_things_back(&self) -> bool {
        let keeps_back = |rule: &Rule| match rule {
            Rule::Hold(_) => true,
            Rule::Deliver(delivery) => *delivery != Delivery::Twice,
            Rule::ForgetPages(forgetting) => !forgetting.is_over(),
        };
        self.rules().lasting.iter().any(|(_, _, rule)| keeps_back(rule))
    }

    /// How far a user sees a kind, if not to the end. The strictest rule counts.
    pub fn hold(&self, user: &str, table: &TableKey) -> Option<Hold> {
        let rules = self.rules();
        let holds = rules.of(user, table).filter_map(|(_, rule)| match rule {
            Rule::Hold(hold) => Some(hold),
            _ => None,
        });
        holds.min_by_key(|hold| hold.revision).cloned()
    }

    /// How long a page of a user's list may be, if that is restricted.
    pub(crate) fn page_items_max(&self, user: &str, table: &TableKey) -> Option<usize> {
        let rules = self.rules();
        let longest = rules.of(user, table).filter_map(|(_, rule)| match rule {
            Rule::ForgetPages(forgetting) if !forgetting.is_over() => Some(forgetting.items_max),
            _ => None,
        });
        longest.min()
    }

    /// Whether the page of a user's list that is asked for now is no longer known.
    pub(crate) fn forgets_page(&self, user: &str, table: &TableKey) -> bool {
        let mut rules = self.rules();
        let its_own = rules.lasting.iter_mut().filter(|(_, who, _)| who.is(user, table));
        let struck: Vec<RuleId> = its_own
            .filter_map(|(id, _, rule)| match rule {
                Rule::ForgetPages(forgetting) => forgetting.strikes().then_some(*id),
                _ => None,
            })
            .collect();
        rules.met.extend(&struck);
        !struck.is_empty()
    }

    /// What the rules mean for a user's watch of a kind.
    pub(super) fn standing(&self, user: &str, table: &TableKey) -> Standing {
        let mut standing = Standing {
            horizon: u64::MAX,
            held_by: None,
            delay: Duration::ZERO,
            delayed_by: None,
            coalesced_by: None,
            doubled_by: None,
        };
        for (id, rule) in self.rules().of(user, table) {
            match rule {
                Rule::Hold(hold) if hold.revision < standing.horizon => {
                    standing.horizon = hold.revision;
                    standing.held_by = Some(id);
                }
                Rule::Deliver(Delivery::Late(delay)) if *delay > Duration::ZERO => {
                    standing.delay = standing.delay.max(*delay);
                    standing.delayed_by = Some(id);
                }
                Rule::Deliver(Delivery::Coalesced(delay)) => {
                    standing.delay = standing.delay.max(*delay);
                    standing.coalesced_by = Some(id);
                }
                Rule::Deliver(Delivery::Twice) => standing.doubled_by = Some(id),
                Rule::Hold(_) | Rule::Deliver(Delivery::Late(_)) | Rule::ForgetPages(_) => {}
            }
        }
        standing
    }

    /// How a stream ended that was opened at `opened`, if it did, and by what.
    pub(super) fn ending(&self, user: &str, table: &TableKey, opened: RuleId) -> Option<(RuleId, Ending)> {
        let rules = self.rules();
        let later = rules.endings.iter().filter(|(id, ..)| *id > opened);
        later
            .filter(|(_, who, _)| who.is(user, table))
            .map(|(id, _, ending)| (*id, *ending))
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
    fn of<'a>(&'a self, user: &'a str, table: &'a TableKey) -> impl Iterator<Item = (RuleId, &'a Rule)> {
        self.lasting
            .iter()
            .filter(move |(_, who, _)| who.is(user, table))
            .map(|(id, _, rule)| (*id, rule))
    }

    fn meet(&mut self, rule: RuleId) {
        if self.known.insert(rule) {
            self.met.push(rule);
        }
    }
}
