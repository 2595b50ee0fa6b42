//! Everything the cloud knows, and the queue of what will happen to it.
//!
//! There are no tasks and no timers here: what is due is applied, in order of (time, sequence), before anything else
//! is looked at. So the state at any time is a function of the seed and of the requests up to then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;

use super::capacity::Offering;
use super::faults::{FaultKind, Faults};
use super::iam::Identity;
use super::ids;
use super::images::Image;
use super::instances::{Instance, Step};
use super::interfaces::VirtualInterface;
use super::network::{SecurityGroup, Subnet, Vpc};
use super::options::{Options, Span};
use super::placement::PlacementTarget;
use super::search::Document;
use super::volumes::Volume;
use crate::clock::later;

/// The whole cloud.
pub(super) struct State {
    pub(super) region: String,
    pub(super) options: Options,
    /// The time of the request that is being handled.
    pub(super) now: Timestamp,
    /// Ids, names and tokens.
    pub(super) rng: Rng,
    /// How long things take.
    pub(super) chance: Rng,
    pub(super) faults: Faults,
    pub(super) identity: Identity,
    pub(super) resource_groups: Vec<ResourceGroup>,
    pub(super) vpcs: BTreeMap<String, Vpc>,
    pub(super) subnets: BTreeMap<String, Subnet>,
    pub(super) security_groups: BTreeMap<String, SecurityGroup>,
    pub(super) interfaces: BTreeMap<String, VirtualInterface>,
    pub(super) images: BTreeMap<String, Image>,
    pub(super) keys: BTreeMap<String, Key>,
    pub(super) placement: BTreeMap<String, PlacementTarget>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) instances: BTreeMap<String, Instance>,
    /// Instances that are gone, for lists that lag.
    pub(super) departed: BTreeMap<String, (Timestamp, Instance)>,
    /// Names that outlive a slow rename.
    pub(super) held_names: BTreeSet<String>,
    /// Where the stock of an offering differs from the default.
    pub(super) stock: BTreeMap<Offering, u32>,
    /// Profiles that were withdrawn.
    pub(super) removed_profiles: BTreeSet<String>,
    /// Profiles whose price was withdrawn.
    pub(super) removed_prices: BTreeSet<String>,
    /// How the next starts of a VM fail, by id or name.
    pub(super) doomed: BTreeMap<String, String>,
    /// User tags by CRN.
    pub(super) tags: BTreeMap<String, BTreeSet<String>>,
    /// What Global Search knows, by CRN.
    pub(super) index: BTreeMap<String, Document>,
    /// CRNs of what it is to learn later than usual.
    pub(super) unlearned: BTreeSet<String>,
    /// How often an instance appeared, changed its status or vanished.
    pub(super) moves: u64,
    events: BTreeMap<(Timestamp, u64), Event>,
    sequence: u64,
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The next step of an instance, unless its course changed since (`turn`).
    Instance { id: String, turn: u32, step: Step },
    /// A name is free again.
    NameFreed(String),
    /// A deleted network interface is gone.
    InterfaceGone(String),
    /// Global Search catches up with a resource.
    Indexed(String),
}

/// A resource group of the account.
#[derive(Clone, Debug)]
pub(super) struct ResourceGroup {
    pub(super) id: String,
    pub(super) name: String,
}

/// An SSH key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) fingerprint: String,
    pub(super) created_at: Timestamp,
}

impl State {
    /// An empty region, in which [`super::seeding`] puts the first things.
    pub(super) fn new(options: Options) -> Self {
        let (now, seed) = (options.clock.now(), options.seed);
        // Streams of their own, so that a draw more in one changes nothing in another.
        let mut root = Rng::with_seed(seed);
        let (rng, chance) = (root.fork(), root.fork());
        let faults = Faults::new(options.faults.clone(), root.u64(..), now);
        Self {
            region: options.region.clone(),
            now,
            rng,
            chance,
            faults,
            identity: Identity::new(&options.api_keys),
            resource_groups: Vec::new(),
            vpcs: BTreeMap::new(),
            subnets: BTreeMap::new(),
            security_groups: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            images: BTreeMap::new(),
            keys: BTreeMap::new(),
            placement: BTreeMap::new(),
            volumes: BTreeMap::new(),
            instances: BTreeMap::new(),
            departed: BTreeMap::new(),
            held_names: BTreeSet::new(),
            stock: BTreeMap::new(),
            removed_profiles: BTreeSet::new(),
            removed_prices: BTreeSet::new(),
            doomed: BTreeMap::new(),
            tags: BTreeMap::new(),
            index: BTreeMap::new(),
            unlearned: BTreeSet::new(),
            moves: 0,
            events: BTreeMap::new(),
            sequence: 0,
            options,
        }
    }

    /// Lets everything happen that is due by the clock.
    pub(super) fn advance(&mut self) {
        let until = self.options.clock.now();
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((due, _), event) = entry.remove_entry();
            // Consequences are counted from when the event was due, not from when somebody looked.
            self.now = due;
            self.faults.advance(due);
            self.apply(event);
        }
        self.now = until;
        self.faults.advance(until);
        let lag = self.options.timings.read_lag;
        self.departed
            .retain(|_, (gone_at, _)| later(*gone_at, lag) > until);
    }

    /// When the next thing happens, if nobody asks for anything.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.events.first_key_value().map(|((due, _), _)| *due)
    }

    /// Puts an event into the queue.
    pub(super) fn after(&mut self, delay: Duration, event: Event) {
        let sequence = self.next_sequence();
        self.events.insert((later(self.now, delay), sequence), event);
    }

    /// How long something takes this time.
    pub(super) fn draw(&mut self, span: Span) -> Duration {
        span.draw(&mut self.chance)
    }

    /// A number that grows with everything that is made; lists are in its order.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// A regional id.
    pub(super) fn regional_id(&mut self) -> String {
        ids::regional(&self.region, &mut self.rng)
    }

    /// A zonal id.
    pub(super) fn zonal_id(&mut self, zone: &str) -> String {
        ids::zonal(zone, &mut self.rng)
    }

    /// The account's default resource group.
    pub(super) fn default_group(&self) -> String {
        self.resource_groups
            .first()
            .map(|group| group.id.clone())
            .unwrap_or_default()
    }

    /// Lets Global Search learn of a change, in its own time.
    pub(super) fn reindex(&mut self, crn: &str) {
        /// Long enough for a client that trusts search to do harm.
        const LAG: Duration = Duration::from_mins(10);
        let search = self.options.timings.search;
        let usual = self.draw(search);
        let delay = if self.faults.may_hit(FaultKind::SearchLag, "search.index") {
            self.unlearned.insert(crn.to_owned());
            LAG
        } else {
            usual
        };
        self.after(delay, Event::Indexed(crn.to_owned()));
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Instance { id, turn, step } => self.step(&id, turn, step),
            Event::NameFreed(name) => {
                self.held_names.remove(&name);
            }
            Event::InterfaceGone(id) => self.remove_interface(&id),
            Event::Indexed(crn) => self.index_resource(&crn),
        }
    }
}

/// A list in order of sequence, as [`super::page::cut`] wants it.
pub(super) fn in_order<'a, T: 'a>(items: impl Iterator<Item = (&'a T, u64, &'a str)>) -> Vec<(u64, String)> {
    let mut ordered: Vec<(u64, String)> = items.map(|(_, sequence, id)| (sequence, id.to_owned())).collect();
    ordered.sort_unstable();
    ordered
}
