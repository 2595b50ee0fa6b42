//! What must hold, whatever goes wrong: judged on the cloud and the cluster as they are and on what was sent, never on
//! what the operator believes.
//!
//! The [`Judge`] is shown every entry of the history right after it happened, together with both servers. It keeps a
//! [`Book`] of what it saw (requests under way, machines, changes of claims, whom a third party touched) and asks each
//! check in turn. Safety (S) is judged at once; liveness (L) when the world has been healed and has had its time.
//!
//! S12, that two overlapping leaders break nothing, is blamed beside what they broke. What belongs to voluntary
//! disruption (S5, S10, S19, L12, and of L6 the half that is about drift) comes with it. A1 is the second look at plans for
//! pods.

mod book;
mod ceilings;
mod changes;
mod claims;
mod deadlines;
mod departures;
mod holds;
mod leases;
mod leftovers;
mod limits;
mod machine;
mod manners;
mod overdue;
mod overlap;
mod ownership;
mod plans;
mod pods;
mod poison;
mod purchases;
mod quiet;
mod release;
mod removals;
mod replaced;
mod replicas;
mod runaway;
mod secrets;
mod shown;
#[cfg(test)]
pub(super) mod stage;
mod synced;
mod told;
mod trust;
mod unbought;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

pub use book::{Book, ClaimFacts, Sent};
pub(super) use claims::is_true;
pub(super) use limits::is_reached_exactly;
pub use machine::Machine;
pub(super) use manners::service;
pub(super) use ownership::target;
pub use plans::ILLEGAL_PLAN;
pub(super) use purchases::bought_for;

use super::history::Entry;
use super::ibm::Cloud;
use super::kube::ApiServer;
use super::probes::Probes;

/// How soon after healing everything must be as it should, at the latest; leaks, claims that go and pods that wait have
/// less time than that (`deadlines`). A machine that was bought last under faults may never join: it has five minutes to
/// run and fifteen to join, and the one that is bought in its place four to be a node.
pub const SETTLES_WITHIN: Duration = Duration::from_mins(25);

/// The most violations of one invariant that are kept: after so many the rest says nothing new. The others are kept all
/// the same, so that one that is broken all the time hides none.
const VIOLATIONS_MAX: usize = 50;

/// How things are.
#[derive(Clone, Copy)]
pub struct Truth<'a> {
    /// The cluster.
    pub kube: &'a ApiServer,
    /// The account.
    pub cloud: &'a Cloud,
    /// The right time.
    pub now: Timestamp,
    /// How long the run has been going.
    pub since_start: Duration,
}

/// Something that must never happen did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant: `S1`.
    pub id: &'static str,
    /// When, since the start of the run.
    pub at: Duration,
    /// What happened.
    pub message: String,
}

/// What a judge must know of the operator it judges.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The resource group that the operator buys in.
    pub resource_group: String,
    /// Texts that must never leave: keys and tokens.
    pub canaries: Vec<String>,
    /// Requests to the cloud per second and replica, on average.
    pub requests_per_second: f64,
    /// Requests to the cloud at once.
    pub burst: f64,
    /// How long a machine may take to run before it may be given up; the longest of all profiles.
    pub launch_limit: Duration,
    /// How long a machine may take to join before it may be given up.
    pub registration_limit: Duration,
    /// How long a Lease holds after it was renewed.
    pub lease: Duration,
    /// How many machines there may be in all, if it was told.
    pub machines_max: Option<u64>,
}

impl Settings {
    /// The operator's defaults, in that resource group.
    pub fn new(resource_group: impl Into<String>) -> Self {
        Self {
            resource_group: resource_group.into(),
            canaries: Vec::new(),
            requests_per_second: 10.0,
            burst: 50.0,
            launch_limit: Duration::from_mins(5),
            registration_limit: Duration::from_mins(15),
            lease: Duration::from_secs(15),
            machines_max: None,
        }
    }
}

/// What a check has found.
#[derive(Debug, Default)]
pub struct Findings(Vec<Violation>);

impl Findings {
    fn blame(&mut self, id: &'static str, at: Duration, message: impl Into<String>) {
        let message = message.into();
        let mut same = self.0.iter().filter(|known| known.id == id);
        let count = same.clone().count();
        if count < VIOLATIONS_MAX && !same.any(|known| known.message == message) {
            self.0.push(Violation { id, at, message });
        }
    }
}

/// One invariant, or a small family of them.
trait Check: Send {
    /// Looks at what just happened; the book knows of it already.
    fn observe(&mut self, entry: &Entry, book: &Book, truth: &Truth<'_>, found: &mut Findings);

    /// Looks at how things get well after healing, every few seconds.
    fn look(&mut self, _book: &Book, _truth: &Truth<'_>, _found: &mut Findings) {}

    /// Looks at how things are after healing.
    fn settled(&self, _book: &Book, _truth: &Truth<'_>, _found: &mut Findings) {}
}

/// Judges a run.
pub struct Judge {
    book: Book,
    checks: Vec<Box<dyn Check>>,
    overlap: overlap::Overlap,
    secrets: secrets::Secrets,
    found: Findings,
    probes: Probes,
}

impl Judge {
    /// Knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            checks: vec![
                Box::new(purchases::Purchases),
                Box::new(limits::Limits::default()),
                Box::new(ownership::Ownership),
                Box::new(removals::Removals),
                Box::new(unbought::Unbought),
                Box::new(release::Release),
                Box::new(departures::Departures::default()),
                Box::new(leases::Leases),
                Box::new(claims::Claims),
                Box::new(writes::Writes::default()),
                Box::new(manners::Manners::new(&settings)),
                Box::new(trust::Trust),
                Box::new(leftovers::Leftovers),
                Box::new(overdue::Overdue),
                Box::new(pods::Pods),
                Box::new(deadlines::Deadlines::default()),
                Box::new(poison::Poison),
                Box::new(shown::Shown::default()),
                Box::new(plans::Plans),
                Box::new(replaced::Replaced::default()),
                Box::new(synced::Synced::default()),
                Box::new(holds::Holds::default()),
                Box::new(told::Told::default()),
                Box::new(runaway::Runaway::default()),
                Box::new(replicas::Replicas),
                Box::new(quiet::Quiet::default()),
                Box::new(ceilings::Ceilings::default()),
            ],
            overlap: overlap::Overlap::default(),
            secrets: secrets::Secrets::new(&settings),
            book: Book::new(settings),
            found: Findings::default(),
            probes: Probes::default(),
        }
    }

    /// Looks at what just happened.
    pub fn observe(&mut self, entry: &Entry, truth: &Truth<'_>) {
        self.book.take_in(entry, truth);
        let before = self.found.0.len();
        for check in &mut self.checks {
            check.observe(entry, &self.book, truth, &mut self.found);
        }
        self.secrets.observe(entry, &self.book, &mut self.found);
        let broken = self.found.0[before..].to_vec();
        self.overlap.judge(entry, &self.book, &broken, &mut self.found);
        self.probes.observe(entry, &self.book, truth);
        self.book.turn_page(entry);
    }

    /// Faults are off, clocks are right, replicas run: from now on things must get well.
    pub fn healed(&mut self, at: Duration) {
        self.book.healed_at = Some(at);
    }

    /// Looks at how things get well.
    pub fn look(&mut self, truth: &Truth<'_>) {
        for check in &mut self.checks {
            check.look(&self.book, truth, &mut self.found);
        }
    }

    /// What is not yet as it must be after healing: empty when liveness holds.
    pub fn unmet(&self, truth: &Truth<'_>) -> Vec<Violation> {
        let mut found = Findings::default();
        for check in &self.checks {
            check.settled(&self.book, truth, &mut found);
        }
        found.0
    }

    /// Takes what is still not as it must be for violations. From here on nothing may change any more.
    pub fn settled(&mut self, truth: &Truth<'_>) {
        self.must_be_met(truth);
        self.book.quiet_since = Some(truth.since_start);
    }

    /// Takes what is not as it must be for violations: after healing has had its time, and again in the end.
    pub fn must_be_met(&mut self, truth: &Truth<'_>) {
        for unmet in self.unmet(truth) {
            self.found.blame(unmet.id, unmet.at, unmet.message);
        }
    }

    /// Looks at what was written into logs, for secrets.
    pub fn read_log(&mut self, at: Duration, line: &str) {
        self.secrets.read_log(at, line, &mut self.found);
    }

    /// Everything that was found, in order.
    pub fn violations(&self) -> &[Violation] {
        &self.found.0
    }

    /// The names of claims to which nothing happened.
    pub fn sound(&self) -> BTreeSet<String> {
        self.book.sound()
    }

    /// How often each claim lost something, by name.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        self.book.losses()
    }

    /// What rare things were seen.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }
}
