//! Where pending pods go, and which nodes are bought for them.
//!
//! [`solve`] is a function from a [`Snapshot`] to a [`Plan`]: it does no I/O, reads no clock and draws no chance, and the
//! order of the snapshot's lists changes nothing. Every pending pod is in the plan once: with a place, or left out with
//! what stood in the way at the nearest pools and at what is there already.
//!
//! How it is fast: pods that ask for the same are one class; labels and their values are bits, so that requirements are
//! compared a word at a time and each pair once; what types with enough room cost at least is looked up; and for each block
//! of nodes it is known at most how much any has left. How it is cheap: several passes under different policies are
//! made, first fit among them, and the plan that leaves out fewest pods, then costs least, then has fewest nodes wins.

mod after;
mod alike;
mod bins;
mod bits;
mod catalog;
mod change;
mod class;
mod dims;
mod explain;
mod finish;
mod hosts;
mod labels;
mod limits;
mod memo;
mod obtainable;
mod passes;
mod plan;
mod problem;
mod remedy;
mod run;
mod space;
mod template;
mod tolerance;
mod topology;
mod ways;
mod why;

pub use change::{Bond, Change};
pub use plan::{
    Cheapest, Chooser, Completeness, Destination, LeftOut, MinValues, NewClaim, Placement, Plan, Refusal,
    Where, Why,
};
pub use remedy::{Remedy, remedy};

use crate::model::Snapshot;
use run::Run;

/// What the user has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether preferences of pods count.
    pub preferences: Preferences,
    /// Whether too few different values keep a node from being bought.
    pub min_values: MinValuesPolicy,
    /// How many threads it may use.
    pub hands: Hands,
}

/// Whether preferences of pods count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// They are kept to as far as possible, even where that needs more nodes.
    #[default]
    Respect,
    /// They are not looked at.
    Ignore,
}

/// Whether too few different values keep a node from being bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// They do.
    #[default]
    Strict,
    /// As many as there are will do.
    BestEffort,
}

/// How many threads a plan may be computed on. The plan is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hands {
    /// The one that asks for it.
    #[default]
    One,
    /// That one and another.
    Two,
}

/// Says whether there is time left.
pub type Budget<'b> = &'b (dyn Fn() -> bool + Sync);

/// Where the pending pods of a snapshot go, and what is bought for them.
///
/// `budget` is asked from time to time whether there is time left; once it says no, what is placed so far is the plan, and of
/// whoever has no place only the first are told what stood in their way.
pub fn solve(snapshot: &Snapshot, options: Options, budget: Budget<'_>) -> Plan {
    let found = match options.hands {
        Hands::One => passes::alone(snapshot, options, budget),
        Hands::Two => passes::together(snapshot, options, budget),
    };
    found.map_or_else(Plan::default, |found| plan_of(found, budget))
}

fn plan_of(mut found: passes::Found<'_>, budget: Budget<'_>) -> Plan {
    finish::plan(
        &mut Run::again(&mut found.problem, found.done),
        &found.rest,
        budget,
    )
}

#[cfg(test)]
mod tests;
