//! Several passes under different policies, of which the best counts.
//!
//! Passes know of each other how good the best one is that was made so far, and give up once they cannot be better; and some
//! are held to the pace of the first, even when they were made before that. So it does not matter in which order they are
//! made, or at the same time.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::class::Class;
use super::problem::Problem;
use super::run::{Done, Filling, Gait, Growth, Opening, Order, Policy, Rest, Run};
use super::topology::GroupId;
use super::{Budget, Options};
use crate::model::Snapshot;

/// How many claims are looked at for every pod that makes one grow.
const LOOK: usize = 16;
/// How many claims are looked at in all by the pass that looks at more: at a tenth of a microsecond each, a twentieth of a
/// second. Where types double in size, as IBM's do, looking at all claims instead of 16 saves about a tenth of the price.
const LOOKS_MAX: usize = 500_000;

/// With fewer classes than this a pass takes less than a millisecond, and there is no time to be saved.
const CLASSES_PACED: usize = 64;

/// With fewer pods than this a plan takes a few milliseconds, and every pass that may win is worth its time: what is behind a
/// while may yet be ahead in the end. With more, claims that were opened with room for others have company by the first
/// quarter of the way, and whether that pays is seen there.
const PODS_PACED: usize = 500;

/// With more classes than this one hand makes all passes, where there could be two: each has a problem of its own, whose memory
/// grows with the classes, and 20,000 of them twice are more than the operator is to need. Nobody is known to have so many at
/// once: 20,000 diverse pods are of 3,194.
const CLASSES_SHARED_OUT: usize = 8_000;

/// With fewer pods of a class than this, how many are left of it says little about who will fill a claim: with room for three
/// it is one of the two smallest sizes, and growth from one to the next reaches that.
const COMPANY: usize = 4;

/// With so many sizes of pods there is one for nearly every rest of a machine.
const SIZES_MANY: usize = 16;

/// The policies that are tried, in this order, each by the next hand that is free. When time runs out, the passes made so
/// far count, and if none was, as far as they came.
fn policies(snapshot: &Snapshot) -> Vec<Policy> {
    let policy = |order, growth| Policy {
        order,
        growth,
        opening: Opening::Cheapest,
        gait: Gait::Free,
    };
    let pods = snapshot.pending.members.len();
    let more = (LOOKS_MAX / pods.max(1)).max(2 * LOOK);
    let first_fit = policy(Order::Size, Growth::First);
    let mut all = vec![
        Policy {
            gait: Gait::Sets,
            ..policy(Order::Apart, Growth::Cheapest { look: LOOK })
        },
        Policy {
            gait: Gait::Leads,
            ..policy(Order::Apart, Growth::Cheapest { look: more })
        },
        policy(Order::Size, Growth::Cheapest { look: LOOK }),
        first_fit,
    ];
    let gait = if pods < PODS_PACED {
        Gait::Free
    } else {
        Gait::Keeps
    };
    all.extend([Filling::Alike, Filling::Everybody].map(|filling| Policy {
        opening: Opening::Roomy(filling),
        gait,
        ..policy(Order::Apart, Growth::Cheapest { look: LOOK })
    }));
    // A claim from the pool that is cheapest for its first pod can only become what that pool has, so where there is a
    // choice of pools, first fit is made in the order of their names as well, either way round.
    let mut weights = BTreeSet::new();
    if !snapshot.pools.iter().all(|pool| weights.insert(pool.weight)) {
        let from = |opening| Policy { opening, ..first_fit };
        all.extend([Opening::First, Opening::Last].map(from));
    }
    all
}

/// Whether what comes of a policy is known from another that comes before it, or is hardly worth its time.
fn is_needless(problem: &Problem<'_>, policy: Policy) -> bool {
    match policy.opening {
        // Where nobody wants to be apart, both orders are one.
        Opening::Cheapest if policy.order == Order::Size && policy.growth != Growth::First => {
            problem.classes.iter().all(|class| class.keeps.is_empty())
        }
        Opening::Roomy(Filling::Alike) => lacks_company(problem),
        Opening::Roomy(Filling::Everybody) => is_alone(problem) || is_motley(problem),
        Opening::Cheapest | Opening::First | Opening::Last => false,
    }
}

/// Whether there are many pods of many sizes, few of them alike: what one leaves of a machine another fills, so claims grow
/// without room that was made for them, while a pass that makes it takes as long as all others.
fn is_motley(problem: &Problem<'_>) -> bool {
    let pods = problem.snapshot.pending.members.len();
    let sizes: BTreeSet<usize> = problem.classes.iter().map(|class| class.size).collect();
    pods >= PODS_PACED && sizes.len() >= SIZES_MANY && pods < COMPANY * problem.classes.len()
}

/// Whether pods have hardly anybody of their class to fill a claim with. Where nobody has, claims are opened as the cheapest
/// anyway. Where few of many have, they mostly are, and with whom else they would be filled the other roomy pass knows.
fn lacks_company(problem: &Problem<'_>) -> bool {
    let with_company = |least: usize| -> usize {
        let classes = problem.classes.iter();
        let shares =
            |class: &&Class| class.members.len() >= least && class.most_on_a_node(&problem.groups) > 1;
        classes.filter(shares).map(|class| class.members.len()).sum()
    };
    let pods = problem.snapshot.pending.members.len();
    with_company(2) == 0 || (pods >= PODS_PACED && 2 * with_company(COMPANY) < pods)
}

/// Whether pods have nobody to fill a claim with but those of their class: if there is no other, or if one question keeps
/// every pod from every other's node. That a class is kept from its own pods keeps no other away.
fn is_alone(problem: &Problem<'_>) -> bool {
    let mut classes = problem.classes.iter().filter(|class| !class.stages.is_empty());
    let Some(first) = classes.next() else {
        return true;
    };
    let others: Vec<&Class> = classes.collect();
    let keeps = |class: &Class, group: GroupId| {
        let mut crowds = class.crowds(&problem.groups);
        crowds.any(|crowd| crowd == (group, 1))
    };
    let mut groups = first.crowds(&problem.groups).map(|(group, _)| group);
    others.is_empty()
        || groups.any(|group| keeps(first, group) && others.iter().all(|other| keeps(other, group)))
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
    pub(super) problem: Problem<'a>,
    pub(super) done: Done,
    pub(super) rest: Rest,
}

/// What passes know of each other.
#[derive(Debug, Default)]
pub(super) struct Best {
    /// How many pods the best pass so far leaves out, and what it costs.
    score: Mutex<Option<(usize, u64)>>,
    /// What the pass that sets the pace had cost after each class, once it is made.
    pace: OnceLock<Vec<u64>>,
}

impl Best {
    /// Whether a pass that leaves out so many pods and costs so much cannot win.
    pub(super) fn beats(&self, left_out: usize, price: u64) -> bool {
        let best = *self.score.lock().unwrap_or_else(PoisonError::into_inner);
        best.is_some_and(|best| (left_out, price) > best)
    }

    /// Whether a pass that has cost so much after each class was too slow for its gait at some quarter of the way, as far as
    /// both have come. `None` while nobody knows the pace.
    pub(super) fn falls_behind(&self, gait: Gait, own: &[u64]) -> Option<bool> {
        let set = self.pace.get()?;
        let quarters = (1..).map(|quarter| quarter * (set.len() / 4));
        let mut marks = quarters.take_while(|mark| set.len() >= CLASSES_PACED && *mark < set.len());
        let is_too_slow = |own: u64, set: u64| match gait {
            Gait::Leads => own >= set,
            Gait::Keeps => own > set,
            Gait::Sets | Gait::Free => false,
        };
        let behind = |mark: usize| {
            let own = own.get(mark - 1);
            own.is_some_and(|own| is_too_slow(*own, set[mark - 1]))
        };
        Some(marks.any(behind))
    }

    fn take_in(&self, score: Score) {
        let mut best = self.score.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (score.left_out, score.price);
        *best = Some(best.map_or(new, |best| best.min(new)));
    }
}

/// What is to be done, and what has come of it.
struct Work<'a, 'b> {
    snapshot: &'a Snapshot,
    options: Options,
    budget: Budget<'b>,
    policies: Vec<Policy>,
    /// The policy that is tried next.
    next: AtomicUsize,
    best: Best,
}

/// A pass that was made.
struct Made {
    score: Score,
    done: Done,
    rest: Rest,
}

/// What one hand has made.
struct Hand<'a> {
    problem: Problem<'a>,
    best: Option<Made>,
    /// Passes that were made before the pace was known to which they are held.
    unjudged: Vec<Made>,
}

/// All passes, one after another.
pub(super) fn alone<'a>(snapshot: &'a Snapshot, options: Options, budget: Budget<'_>) -> Option<Found<'a>> {
    let work = Work::new(snapshot, options, budget);
    work.choose([work.make()])
}

/// The passes shared out between this thread and another, unless there are so many classes that two problems would be too much.
pub(super) fn together<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    budget: Budget<'_>,
) -> Option<Found<'a>> {
    if snapshot.pending.classes.len() > CLASSES_SHARED_OUT {
        return alone(snapshot, options, budget);
    }
    let work = Work::new(snapshot, options, budget);
    let hands = std::thread::scope(|scope| {
        let other = scope.spawn(|| work.make());
        let one = work.make();
        // A panic there is one here, with the same words.
        [one, other.join().unwrap_or_else(|panic| resume_unwind(panic))]
    });
    work.choose(hands)
}

/// All passes by one hand, the last first: the one that sets the pace is made when all that are held to it were.
#[cfg(test)]
pub(super) fn backwards<'a>(
    snapshot: &'a Snapshot,
    options: Options,
    budget: Budget<'_>,
) -> Option<Found<'a>> {
    let work = Work::new(snapshot, options, budget);
    let mut hand = work.hand();
    for (number, policy) in work.policies.iter().copied().enumerate().rev() {
        if !is_needless(&hand.problem, policy) {
            work.pass(&mut hand, (number, policy));
        }
    }
    work.choose([Some(hand)])
}

impl<'a, 'b> Work<'a, 'b> {
    fn new(snapshot: &'a Snapshot, options: Options, budget: Budget<'b>) -> Self {
        Self {
            snapshot,
            options,
            budget,
            policies: policies(snapshot),
            next: AtomicUsize::new(0),
            best: Best::default(),
        }
    }

    fn next(&self) -> Option<(usize, Policy)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Some((number, *self.policies.get(number)?))
    }

    /// A hand that has made nothing yet.
    fn hand(&self) -> Hand<'a> {
        Hand {
            problem: Problem::new(self.snapshot, self.options),
            best: None,
            unjudged: Vec::new(),
        }
    }

    /// Makes one pass after another for as long as there are any that nobody makes.
    fn make(&self) -> Option<Hand<'a>> {
        let mut next = self.next()?;
        let mut hand = self.hand();
        loop {
            let (_, policy) = next;
            if !is_needless(&hand.problem, policy) && self.pass(&mut hand, next) == Time::Over {
                return Some(hand);
            }
            let Some(other) = self.next() else {
                return Some(hand);
            };
            next = other;
        }
    }

    /// Makes one pass.
    fn pass(&self, hand: &mut Hand<'a>, (number, policy): (usize, Policy)) -> Time {
        let mut run = Run::new(&mut hand.problem, policy);
        let rest = run.place_all(self.budget, &self.best);
        let time = if rest.out_of_time { Time::Over } else { Time::Left };
        if policy.gait == Gait::Sets {
            // There is one such pass, so nobody has set it before.
            self.best.pace.get_or_init(|| rest.pace.clone());
        }
        if rest.given_up {
            return time;
        }
        let score = Score {
            left_out: rest.classes.iter().map(|(_, pods)| pods.len()).sum(),
            price: run.price,
            nodes: run.claims.len(),
            policy: number,
        };
        let done = run.done();
        let made = Made { score, done, rest };
        if matches!(policy.gait, Gait::Leads | Gait::Keeps) {
            match self.best.falls_behind(policy.gait, &made.rest.pace) {
                Some(false) => {}
                Some(true) => return time,
                None => {
                    hand.unjudged.push(made);
                    return time;
                }
            }
        }
        self.best.take_in(score);
        if hand.best.as_ref().is_none_or(|best| score < best.score) {
            hand.best = Some(made);
        }
        time
    }

    /// The best pass of all.
    fn choose<const N: usize>(&self, hands: [Option<Hand<'a>>; N]) -> Option<Found<'a>> {
        let all = hands.into_iter().flatten().filter_map(|hand| {
            let in_time = |made: &Made| {
                let gait = self.policies[made.score.policy].gait;
                self.best.falls_behind(gait, &made.rest.pace) != Some(true)
            };
            let made = hand
                .best
                .into_iter()
                .chain(hand.unjudged.into_iter().filter(in_time));
            Some((made.min_by_key(|made| made.score)?, hand.problem))
        });
        all.min_by_key(|(made, _)| made.score)
            .map(|(made, problem)| Found {
                problem,
                done: made.done,
                rest: made.rest,
            })
    }
}

/// Whether there is time for another pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Left,
    Over,
}
