//! Where pending pods go, and which nodes are bought for them.
//!
//! [`solve`] is a function from a [`Snapshot`] to a [`Plan`]: it does no I/O, reads no clock and draws no chance, and the
//! order of the snapshot's lists changes nothing. Every pending pod is in the plan once: with a place, or left out with
//! what stood in the way at every pool and at what is there already.
//!
//! How it is fast: pods that ask for the same are one class; labels and their values are bits, so that requirements are
//! compared a word at a time and each pair once; what types with enough room cost at least is looked up; and for each block
//! of nodes it is known at most how much any has left. How it is cheap: several passes under different policies are
//! made, first fit among them, and the plan that leaves out fewest pods, then costs least, then has fewest nodes wins.

mod bins;
mod bits;
mod catalog;
mod class;
mod dims;
mod explain;
mod finish;
mod hosts;
mod limits;
mod plan;
mod problem;
mod remedy;
mod run;
mod space;
mod template;
mod tolerance;
mod topology;
mod why;

pub use plan::{
    Cheapest, Completeness, Destination, LeftOut, MinValues, NewClaim, Placement, Plan, Refusal, Where, Why,
};
pub use remedy::{Bond, Change, Remedy, remedy};

use crate::model::Snapshot;
use problem::Problem;
use run::{Done, Growth, Mark, Order, Policy, Rest, Run};

/// What the user has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether preferences of pods count.
    pub preferences: Preferences,
    /// Whether too few different values keep a node from being bought.
    pub min_values: MinValuesPolicy,
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

/// How many claims are looked at for every pod that makes one grow.
const LOOK: usize = 16;
/// How many claims are looked at in all by the pass that looks at more: at a tenth of a microsecond each, a twentieth of a
/// second. Where types double in size, as IBM's do, looking at all claims instead of 16 saves about a tenth of the price.
const LOOKS_MAX: usize = 500_000;

/// The policies that are tried for so many pods, in this order. When time runs out, the passes made so far count, and if it
/// was the first, as far as it came.
fn policies(pods: usize) -> [Policy; 4] {
    let policy = |order, growth| Policy { order, growth };
    let more = (LOOKS_MAX / pods.max(1)).max(2 * LOOK);
    [
        policy(Order::Apart, Growth::Cheapest { look: LOOK }),
        policy(Order::Apart, Growth::Cheapest { look: more }),
        policy(Order::Size, Growth::Cheapest { look: LOOK }),
        policy(Order::Size, Growth::First),
    ]
}

/// Where the pending pods of a snapshot go, and what is bought for them.
///
/// `budget` is asked from time to time whether there is time left; once it says no, what is placed so far is the plan.
pub fn solve(snapshot: &Snapshot, options: Options, budget: &mut dyn FnMut() -> bool) -> Plan {
    let mut problem = Problem::new(snapshot, options);
    let mut best: Option<(Score, Done, Rest)> = None;
    let mut pace: Option<(Order, Vec<u64>)> = None;
    // Where nobody wants to be apart, both orders are one, and what was tried in it need not be tried again.
    let one_order = problem.classes.iter().all(|class| class.keeps.is_empty());
    let repeats =
        |policy: &Policy| one_order && policy.order == Order::Size && policy.growth != Growth::First;
    for policy in policies(snapshot.pending.members.len()) {
        if repeats(&policy) {
            continue;
        }
        let mut run = Run::new(&mut problem, policy);
        // First fit is made to its end, unless it is beaten for certain: no plan is dearer.
        let same_order = pace
            .as_ref()
            .filter(|(order, _)| *order == policy.order && policy.growth != Growth::First);
        let mark = Mark {
            best: best.as_ref().map(|(score, _, _)| (score.left_out, score.price)),
            pace: same_order.map_or(&[], |(_, pace)| pace),
        };
        let mut rest = run.place_all(budget, mark);
        if rest.given_up {
            continue;
        }
        let score = Score {
            left_out: rest.classes.iter().map(|(_, pods)| pods.len()).sum(),
            price: run.price,
            nodes: run.claims.len(),
        };
        let out_of_time = rest.out_of_time;
        if same_order.is_none() {
            pace = Some((policy.order, std::mem::take(&mut rest.pace)));
        }
        if best.as_ref().is_none_or(|(known, _, _)| score < *known) {
            best = Some((score, run.done(), rest));
        }
        if out_of_time {
            break;
        }
    }
    match best {
        Some((_, done, rest)) => finish::plan(&mut Run::again(&mut problem, done), &rest),
        None => Plan::default(),
    }
}

/// How good a pass is; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    left_out: usize,
    price: u64,
    nodes: usize,
}

#[cfg(test)]
mod tests;
