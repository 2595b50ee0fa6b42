//! What the solver answers: where each pod goes, which claims are made, and why some pods are left out.

use crate::api::CapacityType;
use crate::model::Requirements;
use crate::model::pod::Member;
use crate::model::{Pool, Snapshot};
use crate::money::Price;
use crate::resources::Resources;

use super::why::gist;
pub use super::why::{Chooser, Refusal, Where, Why};

/// Where each pod of a snapshot goes. Every pending pod is in `placements` or in `left_out`, and in one of them once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The pods that have a place, in the order in which they were given one: each placement is legal given those before
    /// it, which is how spreads are judged.
    pub placements: Vec<Placement>,
    /// The claims to be made.
    pub claims: Vec<NewClaim>,
    /// The pods without a place, by class.
    pub left_out: Vec<LeftOut>,
    /// Whether all that could be tried was tried, or time ran out before.
    pub completeness: Completeness,
}

/// Whether a plan is all that could be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// It is.
    #[default]
    Whole,
    /// Time ran out; what was placed until then stands.
    OutOfTime,
}

/// One pod with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod, by its place among the pending ones of the snapshot.
    pub pod: usize,
    /// Its place.
    pub on: Destination,
}

/// Where a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// On a node or a claim in flight, by its place in the snapshot.
    Existing(usize),
    /// On a claim to be made, by its place in the plan.
    New(usize),
}

/// A claim to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// The NodePool, by its place in the snapshot.
    pub pool: usize,
    /// What labels its node must have: the pool's requirements, its pods', and the values that spreads and affinities
    /// count on.
    pub requirements: Requirements,
    /// What its pods and the daemons that will come ask for together.
    pub requests: Resources,
    /// Its pods, by their place among the pending ones of the snapshot.
    pub pods: Vec<usize>,
    /// The types that fit, the cheapest first, by their place in the pool. Launch may choose any of them.
    pub options: Vec<u32>,
    /// What it costs if bought as planned.
    pub cheapest: Cheapest,
    /// Whether the number of different values that the pool asks for was given up.
    pub min_values: MinValues,
}

/// The cheapest way to buy a claim's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cheapest {
    /// The type, by its place in the pool.
    pub instance_type: usize,
    /// Where.
    pub zone: String,
    /// How.
    pub capacity_type: CapacityType,
    /// For how much, if that is known.
    pub price: Option<Price>,
}

/// Whether a pool's `minValues` hold for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValues {
    /// They do.
    Kept,
    /// They were given up, as the settings allow.
    Relaxed,
}

/// NodePools of which a reason is kept for each class of pods that has no place, however many there are: 20,000 classes and
/// 63 pools would make more than a million reasons, of which nobody reads more than the first few of a class.
const POOLS_TOLD: usize = 8;
/// So many reasons are kept in any case, of all classes together: all of them where 300 classes have no place among 63 pools.
/// At 300 bytes each that is 6 MB, where 20,000 classes with eight each take 48.
const REASONS_KEPT: usize = 20_000;

/// Of how many NodePools a reason is kept for each of so many classes that have no place.
pub(super) fn pools_told(classes: usize) -> usize {
    (REASONS_KEPT / classes.max(1)).max(POOLS_TOLD)
}

/// Pods of one class without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The pods, by their place among the pending ones of the snapshot.
    pub pods: Vec<usize>,
    /// What stood in the way at what is there already and at the NodePools, the nearest first: at all of them where few classes
    /// have no place, else at those that came nearest.
    pub refusals: Vec<Refusal>,
    /// How many NodePools more have refused them, none of which came nearer.
    pub more: usize,
    /// What tells these reasons from others, those of all NodePools counted: the same for as long as only amounts differ.
    pub gist: u64,
}

impl LeftOut {
    /// Pods with what stood in their way at the pools that came nearest, of all that did, the nearest first.
    pub fn of(pods: Vec<usize>, refusals: Vec<Refusal>) -> Self {
        Self::telling(pods, refusals, POOLS_TOLD)
    }

    /// The same, with the reasons of so many pools.
    pub(super) fn telling(pods: Vec<usize>, mut refusals: Vec<Refusal>, most: usize) -> Self {
        let gist = gist(&refusals);
        let all = refusals.len();
        let mut pools = 0;
        refusals.retain(|refusal| {
            pools += usize::from(matches!(refusal.place, Where::Pool(_)));
            pools <= most || !matches!(refusal.place, Where::Pool(_))
        });
        refusals.shrink_to_fit();
        Self {
            pods,
            more: all - refusals.len(),
            refusals,
            gist,
        }
    }

    /// What is to be said of the NodePools whose reasons are not kept.
    pub fn others(&self) -> Option<String> {
        match self.more {
            0 => None,
            1 => Some("1 more NodePool came no nearer".to_owned()),
            more => Some(format!("{more} more NodePools came no nearer")),
        }
    }
}

impl Plan {
    /// What all claims cost an hour, in nano-dollars, as far as prices are known.
    pub fn price_nanos(&self) -> u64 {
        let prices = self.claims.iter().filter_map(|claim| claim.cheapest.price);
        prices.fold(0, |sum, price| sum.saturating_add(price.nanos()))
    }

    /// How many pods have no place.
    pub fn pods_left_out(&self) -> usize {
        self.left_out.iter().map(|class| class.pods.len()).sum()
    }
}

impl NewClaim {
    /// The pool it is made from.
    pub fn pool<'a>(&self, snapshot: &'a Snapshot) -> &'a Pool {
        &snapshot.pools[self.pool]
    }

    /// The names of the types that fit, the cheapest first.
    pub fn option_names<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a str> {
        let types = &self.pool(snapshot).types;
        self.options
            .iter()
            .map(|option| types[*option as usize].name.as_str())
    }

    /// Its pods.
    pub fn members<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Member> {
        self.pods.iter().map(|pod| &snapshot.pending.members[*pod])
    }
}
