//! Several passes under different policies, of which the best counts.
//!
//! Passes know nothing of each other but how good the best one is that was made so far, and give up once they cannot be
//! better. So it does not matter in which order they are made, or at the same time.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use super::problem::Problem;
use super::run::{Done, Growth, Mark, Opening, Order, Policy, Rest, Run};
use super::{Budget, Options};
use crate::model::Snapshot;

/// How many claims are looked at for every pod that makes one grow.
const LOOK: usize = 16;
/// How many claims are looked at in all by the pass that looks at more: at a tenth of a microsecond each, a twentieth of a
/// second. Where types double in size, as IBM's do, looking at all claims instead of 16 saves about a tenth of the price.
const LOOKS_MAX: usize = 500_000;

/// The policies that are tried, in this order: the first two by one hand, the others by the other, if there is one. When
/// time runs out, the passes made so far count, and if it was the first, as far as it came.
fn policies(snapshot: &Snapshot) -> Vec<(usize, Policy)> {
    let policy = |order, growth| Policy {
        order,
        growth,
        opening: Opening::Cheapest,
    };
    let pods = snapshot.pending.members.len();
    let more = (LOOKS_MAX / pods.max(1)).max(2 * LOOK);
    let first_fit = policy(Order::Size, Growth::First);
    let mut all = vec![
        policy(Order::Apart, Growth::Cheapest { look: LOOK }),
        policy(Order::Apart, Growth::Cheapest { look: more }),
        policy(Order::Size, Growth::Cheapest { look: LOOK }),
        first_fit,
    ];
    // A claim from the pool that is cheapest for its first pod can only become what that pool has, so where there is a
    // choice of pools, first fit is made in the order of their names as well, either way round.
    let mut weights = BTreeSet::new();
    if !snapshot.pools.iter().all(|pool| weights.insert(pool.weight)) {
        let from = |opening| Policy { opening, ..first_fit };
        all.extend([Opening::First, Opening::Last].map(from));
    }
    all.into_iter().enumerate().collect()
}

/// How good a pass is; less is better. Of equals the first policy wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    left_out: usize,
    price: u64,
    nodes: usize,
    policy: usize,
}

/// The best pass, and the problem in whose numbers it speaks.
pub(super) struct Found<'a> {
    score: Score,
    pub(super) problem: Problem<'a>,
    pub(super) done: Done,
    pub(super) rest: Rest,
}

/// How many pods the best pass so far leaves out, and what it costs.
#[derive(Debug, Default)]
pub(super) struct Best(Mutex<Option<(usize, u64)>>);

impl Best {
    /// Whether a pass that leaves out so many pods and costs so much cannot win.
    pub(super) fn beats(&self, left_out: usize, price: u64) -> bool {
        let best = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        best.is_some_and(|best| (left_out, price) > best)
    }

    fn take_in(&self, score: Score) {
        let mut best = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (score.left_out, score.price);
        *best = Some(best.map_or(new, |best| best.min(new)));
    }
}

/// All passes, one after another.
pub(super) fn alone<'a>(snapshot: &'a Snapshot, options: Options, budget: Budget<'_>) -> Option<Found<'a>> {
    make(snapshot, options, budget, (&policies(snapshot), &Best::default()))
}

/// Half of the passes here, the others on a thread of their own.
pub(super) fn together<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    budget: Budget<'_>,
) -> Option<Found<'a>> {
    let all = policies(snapshot);
    let (ours, theirs) = all.split_at(2);
    let best = Best::default();
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| make(snapshot, options, budget, (theirs, &best)));
        let one = make(snapshot, options, budget, (ours, &best));
        // A panic there is one here, with the same words.
        (one, other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    one.into_iter().chain(other).min_by_key(|found| found.score)
}

/// Makes some of the passes, one after another.
fn make<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    budget: Budget<'_>,
    (policies, best): (&[(usize, Policy)], &Best),
) -> Option<Found<'a>> {
    let mut problem = Problem::new(snapshot, options);
    let mut found: Option<(Score, Done, Rest)> = None;
    let mut pace: Option<(Order, Vec<u64>)> = None;
    // Where nobody wants to be apart, both orders are one, and what is tried in it need not be tried again.
    let one_order = problem.classes.iter().all(|class| class.keeps.is_empty());
    let repeats = |policy: Policy| one_order && policy.order == Order::Size && policy.growth != Growth::First;
    for (number, policy) in policies.iter().filter(|(_, policy)| !repeats(*policy)) {
        let mut run = Run::new(&mut problem, *policy);
        // First fit is made to its end, unless it is beaten for certain: no plan is dearer.
        let same_order = pace
            .as_ref()
            .filter(|(order, _)| *order == policy.order && policy.growth != Growth::First);
        let mark = Mark {
            best,
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
            policy: *number,
        };
        let out_of_time = rest.out_of_time;
        if same_order.is_none() {
            pace = Some((policy.order, std::mem::take(&mut rest.pace)));
        }
        best.take_in(score);
        if found.as_ref().is_none_or(|(known, _, _)| score < *known) {
            found = Some((score, run.done(), rest));
        }
        if out_of_time {
            break;
        }
    }
    found.map(|(score, done, rest)| Found {
        score,
        problem,
        done,
        rest,
    })
}
