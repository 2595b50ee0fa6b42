//! One pass over all classes of pods under one policy.
//!
//! Each pod goes where it adds least to the price: on a node or a claim in flight, into what a new claim has left anyway,
//! else into the claim that grows for least or a claim of its own. Pods of one class are placed one after another, so
//! that what failed for one need not be tried for the next.

mod commit;
mod domains;
mod offer;
mod rest;
mod roomy;
mod search;
mod shapes;
mod values;
mod volumes;

use super::Budget;
use super::bins::Bins;
use super::bits;
use super::passes::Best;
use super::problem::Problem;
use super::space::ReqId;
use super::topology::{Counts, Obstacle, Question};
use search::Verdict;

/// After so many pods of a class it is asked again whether there is time left. A pod takes some microseconds, and a tenth of a
/// millisecond where it looks at thousands of claims, so at most some hundredths of a second go by.
const PODS_AT_ONCE: usize = 256;

/// How a pass decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// In which order classes come.
    pub(super) order: Order,
    /// When claims grow.
    pub(super) growth: Growth,
    /// Where claims come from.
    pub(super) opening: Opening,
    /// When it is given up.
    pub(super) gait: Gait,
}

/// When a pass is given up before its end. What it is reckoned to cost only grows, unless a limit is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gait {
    /// Never: others are held to its pace.
    Sets,
    /// When it cannot win any more, or was not ahead of the pace at some quarter of the way: it looks further than the pass
    /// that sets it, which takes its time.
    Leads,
    /// When it cannot win any more, or was behind the pace at some quarter of the way. It does otherwise than the pass that
    /// sets it, so where both have bought the same so far it may yet be ahead.
    Keeps,
    /// When it cannot win any more.
    Free,
}

/// In which order classes come, those with more priority always first, and of those the ones that ask for what not every
/// machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest first.
    Size,
    /// Those that need nodes for themselves first, then the largest.
    Apart,
}

/// When claims grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Whenever one can: first fit.
    First,
    /// When that is cheaper than a claim of its own, and then the one that grows for least of so many looked at.
    Cheapest {
        /// How many are looked at.
        look: usize,
    },
}

/// From which of the pools that have the same weight a claim comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// From the one where it costs least.
    Cheapest,
    /// From the first by name that can have one.
    First,
    /// From the last by name that can have one.
    Last,
    /// From the one where it costs least for each pod, if it is filled with so many of those that are left.
    Roomy(Filling),
}

/// With whom a claim is expected to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// Pods of the same class.
    Alike,
    /// Everybody who has no place yet, as far as amounts go.
    Everybody,
}

/// A pass.
#[derive(Debug)]
pub(super) struct Run<'p, 'a> {
    pub(super) problem: &'p mut Problem<'a>,
    policy: Policy,
    pub(super) bins: Bins,
    pub(super) claims: Vec<Claim>,
    pub(super) counts: Counts,
    /// What is left of each template's limits.
    pub(super) left: Vec<Vec<i64>>,
    /// Pods with their bins, in order.
    pub(super) placed: Vec<(usize, usize)>,
    volumes: volumes::Volumes,
    pub(super) price: u64,
    /// Whether a limit kept anything from being as cheap as it could be, or from being at all.
    met_limit: std::cell::Cell<bool>,
    /// Whether a claim counts less against a limit than before, since one was met.
    freed: bool,
    measured: domains::Measured,
    /// The types that templates sell under certain requirements, as far as reasons have asked.
    pub(super) sold: std::collections::BTreeMap<(usize, ReqId), Vec<usize>>,
    /// What keeps some of them from being had, as far as reasons have asked.
    pub(super) withheld: std::collections::BTreeMap<(usize, ReqId, Vec<u64>), super::plan::Why>,
    shapes: shapes::Shapes,
    held: roomy::Held,
    types: Vec<u64>,
    /// What a claim would have to have room for; kept so that looking needs no memory of its own.
    total: Vec<i64>,
    /// How many pods of the class whose turn it is have no place yet.
    alike: i64,
    /// What all pods without a place ask for together.
    unplaced: Vec<i64>,
    /// Where claims have room for more than came: what they cost at least, once they have not.
    least: u64,
}

/// What a pass has done, without the problem.
#[derive(Debug)]
pub(super) struct Done {
    bins: Bins,
    claims: Vec<Claim>,
    counts: Counts,
    left: Vec<Vec<i64>>,
    placed: Vec<(usize, usize)>,
    volumes: volumes::Volumes,
    price: u64,
    measured: domains::Measured,
    policy: Policy,
}

/// A new claim.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) template: usize,
    /// The type it is planned to be, and for how much.
    pub(super) kind: usize,
    pub(super) price: u64,
    shape: shapes::ShapeId,
    /// What its pods ask for together.
    pub(super) used: Vec<i64>,
    pub(super) pods: Vec<usize>,
    /// What its pods ask of labels.
    pub(super) parts: Vec<ReqId>,
    /// The columns of which its value must be known.
    pub(super) pins: Vec<usize>,
}

/// What a pass leaves undone.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Classes with the pods that have no place.
    pub(super) classes: Vec<(usize, Vec<usize>)>,
    /// Classes that did not have their turn.
    pub(super) untried: std::collections::BTreeSet<usize>,
    /// Whether time ran out.
    pub(super) out_of_time: bool,
    /// Whether the pass was given up, since it would not have won.
    pub(super) given_up: bool,
    /// What the pass had cost after each class.
    pub(super) pace: Vec<u64>,
}

/// The turn of one pod: what it asks at one stage, with what others allow now.
pub(super) struct Turn<'t> {
    pub(super) class: usize,
    pub(super) stage: usize,
    /// What labels its node must have, one of these: with what others allow, and as the pod itself says.
    pub(super) wanted: Vec<(ReqId, ReqId)>,
    pub(super) hosts: super::topology::Hosts,
    /// What the turns of other pods of this class have shown of bins.
    pub(super) known: &'t mut Known,
    /// The labels and taints that were looked at last, and what came of it.
    last: Option<((ReqId, u32), Verdict)>,
}

/// What is known of bins from pods of the same class at the same stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Bins that cannot take such a pod, and never will.
    pub(super) dead: Vec<u64>,
    /// Claims that would cost more by taking such a pod than a claim of its own does, as they are now.
    pub(super) dear: Vec<u64>,
    /// What a claim of its own cost then.
    own: u64,
}

impl Known {
    /// A claim of its own costs so much now: what was too dear compared with less may not be any more.
    pub(super) fn compare_with(&mut self, own: u64) {
        if own > self.own {
            self.dear.clear();
        }
        self.own = own;
    }

    /// A bin is not as it was.
    fn changed(&mut self, bin: usize) {
        if bits::has(&self.dear, bin) {
            bits::drop(&mut self.dear, bin);
        }
    }
}

impl<'p, 'a> Run<'p, 'a> {
    /// A pass that is about to begin.
    pub(super) fn new(problem: &'p mut Problem<'a>, policy: Policy) -> Self {
        let mut bins = Bins::new(problem.dims.len());
        for host in problem.hosts.iter().filter(|host| host.bin.is_some()) {
            bins.push(host.req, host.taints, &host.room, &host.room);
        }
        for (bin, host) in problem.hosts.iter().enumerate().take(bins.len()) {
            bins.ports[bin].clone_from(&host.ports);
        }
        let nodes = bins.len();
        let left = |template: &super::template::Template| {
            template
                .limits
                .as_ref()
                .map_or(Vec::new(), super::limits::Limits::left)
        };
        Self {
            left: problem.templates.iter().map(left).collect(),
            counts: problem.counts.clone(),
            policy,
            bins,
            claims: Vec::new(),
            placed: Vec::new(),
            volumes: volumes::Volumes::of(problem, nodes),
            price: 0,
            met_limit: std::cell::Cell::new(false),
            freed: false,
            measured: domains::Measured::default(),
            sold: std::collections::BTreeMap::new(),
            withheld: std::collections::BTreeMap::new(),
            shapes: shapes::Shapes::default(),
            held: roomy::Held::default(),
            types: Vec::new(),
            total: Vec::new(),
            alike: 0,
            unplaced: Vec::new(),
            least: 0,
            problem,
        }
    }

    /// Lets go of the problem, so that another pass can be made.
    pub(super) fn done(mut self) -> Done {
        self.exchange_values();
        Done {
            bins: self.bins,
            claims: self.claims,
            counts: self.counts,
            left: self.left,
            placed: self.placed,
            volumes: self.volumes,
            price: self.price,
            measured: self.measured,
            policy: self.policy,
        }
    }

    /// A pass that was made before.
    pub(super) fn again(problem: &'p mut Problem<'a>, done: Done) -> Self {
        let mut run = Self {
            problem,
            policy: done.policy,
            bins: done.bins,
            claims: done.claims,
            counts: done.counts,
            left: done.left,
            placed: done.placed,
            volumes: done.volumes,
            price: done.price,
            met_limit: std::cell::Cell::new(false),
            freed: false,
            measured: done.measured,
            sold: std::collections::BTreeMap::new(),
            withheld: std::collections::BTreeMap::new(),
            shapes: shapes::Shapes::default(),
            held: roomy::Held::default(),
            types: Vec::new(),
            total: Vec::new(),
            alike: 0,
            unplaced: Vec::new(),
            least: 0,
        };
        run.exchange_values();
        run
    }

    /// Places what can be placed while `budget` allows it, and while that may win against the best of other passes.
    pub(super) fn place_all(&mut self, budget: Budget<'_>, best: &Best) -> Rest {
        let mut waiting: Vec<(usize, Vec<usize>)> = self
            .order()
            .into_iter()
            .map(|class| (class, self.problem.classes[class].members.clone()))
            .collect();
        self.unplaced = self.asked_for(&waiting);
        let mut done = Rest::default();
        let classes = waiting.len();
        let mut left_out = 0;
        loop {
            let before = self.placed.len();
            let mut next = Vec::new();
            for (class, pods) in waiting {
                if done.out_of_time || !budget() {
                    done.out_of_time = true;
                    done.untried.insert(class);
                    done.classes.push((class, pods));
                    continue;
                }
                let rest = self.place_class(class, &pods, budget, &mut done);
                if done.out_of_time && !rest.is_empty() {
                    done.untried.insert(class);
                }
                // Only where others are can make a place possible that was not.
                if !rest.is_empty() && self.problem.classes[class].may_improve() {
                    next.push((class, rest));
                } else if !rest.is_empty() {
                    left_out += rest.len();
                    done.classes.push((class, rest));
                }
                if done.pace.len() < classes {
                    done.pace.push(self.reckoned());
                }
                // Where a limit was met, more may become possible later, and for less.
                let beaten = || !self.met_limit.get() && best.beats(left_out, self.reckoned());
                let out_of_reach = match self.policy.gait {
                    Gait::Sets => false,
                    gait @ (Gait::Leads | Gait::Keeps) => {
                        beaten() || best.falls_behind(gait, &done.pace) == Some(true)
                    }
                    Gait::Free => beaten(),
                };
                if out_of_reach {
                    done.given_up = true;
                    return done;
                }
            }
            if next.is_empty() || self.placed.len() == before || done.out_of_time {
                done.classes.append(&mut next);
                done.classes.sort_unstable();
                self.settle_rest(&mut done, budget);
                return done;
            }
            waiting = next;
        }
    }

    /// What all these pods ask for together.
    fn asked_for(&self, waiting: &[(usize, Vec<usize>)]) -> Vec<i64> {
        let mut sum = vec![0_i64; self.problem.dims.len()];
        for (class, pods) in waiting {
            let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            let requests = &self.problem.classes[*class].requests;
            for (sum, asked) in sum.iter_mut().zip(requests) {
                *sum = sum.saturating_add(asked.saturating_mul(count));
            }
        }
        sum
    }

    fn order(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.problem.classes.len()).collect();
        if self.policy.order == Order::Apart {
            let apart = |class: &usize| {
                let class = &self.problem.classes[*class];
                (
                    std::cmp::Reverse(class.priority),
                    !class.is_special,
                    class.keeps.is_empty(),
                )
            };
            all.sort_by_key(apart);
        }
        all
    }

    /// Places the pods of one class; those without a place remain. Where time runs out meanwhile, `done` takes note.
    fn place_class(
        &mut self,
        class: usize,
        pods: &[usize],
        budget: Budget<'_>,
        done: &mut Rest,
    ) -> Vec<usize> {
        let stages = self.problem.classes[class].stages.len();
        let mut known = vec![Known::default(); stages];
        for (at, pod) in pods.iter().enumerate() {
            if at > 0 && at.is_multiple_of(PODS_AT_ONCE) && !budget() {
                done.out_of_time = true;
                return pods[at..].to_vec();
            }
            self.alike = i64::try_from(pods.len() - at).unwrap_or(i64::MAX);
            let placed = (0..stages).any(|stage| self.place(class, stage, *pod, &mut known[stage]).is_ok());
            let Some((_, bin)) = self.placed.last().filter(|_| placed) else {
                return pods[at..].to_vec();
            };
            for known in &mut known {
                known.changed(*bin);
            }
        }
        Vec::new()
    }

    fn place(
        &mut self,
        class: usize,
        stage: usize,
        pod: usize,
        known: &mut Known,
    ) -> Result<(), Option<Obstacle>> {
        #[cfg(test)]
        looks::count();
        let mut turn = self.turn(class, stage, known).map_err(Some)?;
        let spot = self.search(&mut turn).ok_or(None)?;
        self.commit(&turn, pod, &spot);
        Ok(())
    }

    /// What a class asks at a stage, given where others are now.
    pub(super) fn turn<'t>(
        &mut self,
        class: usize,
        stage: usize,
        known: &'t mut Known,
    ) -> Result<Turn<'t>, Obstacle> {
        let problem = &mut *self.problem;
        let (asked, of) = (&problem.classes[class].stages[stage], &problem.classes[class]);
        let mut turn = Turn {
            class,
            stage,
            wanted: Vec::with_capacity(asked.nodes.len()),
            hosts: super::topology::Hosts::default(),
            known,
            last: None,
        };
        if asked.pins.is_empty() && of.feared.is_empty() && asked.asks.is_empty() {
            turn.wanted
                .extend(asked.nodes.iter().map(|nodes| (*nodes, *nodes)));
            return Ok(turn);
        }
        let question = Question {
            asks: &asked.asks,
            feared: &of.feared,
        };
        let mut set = problem.space.anything();
        turn.hosts = question.answer(&problem.space, &problem.groups, &self.counts, &mut set)?;
        let mask = problem.space.intern(&set);
        for nodes in &asked.nodes {
            turn.wanted
                .extend(problem.space.and(*nodes, mask).map(|both| (both, *nodes)));
        }
        Ok(turn)
    }
}

/// How often a place was looked for and a claim looked at on this thread: what work grows with.
#[cfg(test)]
pub(super) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// One more.
    pub(super) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// How many there were since this was asked last.
    pub(in crate::scheduling) fn take() -> usize {
        LOOKS.take()
    }
}
