//! Looks for the place where a pod adds least to the price.

use super::super::bins::{BLOCK, Left};
use super::super::bits;
use super::super::space::ReqId;
use super::super::template::UNSOLD;
use super::shapes::Look;
use super::{Growth, Run, Turn};
use crate::model::host_port;

/// How many claims with enough left are compared for the tightest.
const TIGHTEST_OF: usize = 8;

/// From so many pods of a class on, claims that are too dear for one are remembered for the next.
const MANY: usize = 16;

/// A place for a pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling) enum Spot {
    /// On a node.
    Node {
        /// Its bin.
        bin: usize,
    },
    /// On a claim that is there.
    Claim {
        /// Its bin.
        bin: usize,
        /// What it becomes.
        becomes: Becomes,
    },
    /// On a claim of its own.
    New {
        /// Its template.
        template: usize,
        /// What it becomes.
        becomes: Becomes,
    },
}

/// What a claim becomes by taking a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) struct Becomes {
    /// What its labels can be.
    pub(in crate::scheduling) req: ReqId,
    /// What the pod itself asked of labels.
    pub(in crate::scheduling) part: ReqId,
    /// Its cheapest type.
    pub(in crate::scheduling) kind: usize,
    /// The price of that.
    pub(in crate::scheduling) price: u64,
}

/// What comes of a claim that takes a pod.
struct Joined {
    spot: Spot,
    /// How much more it costs.
    more: u64,
    /// How much room it wastes.
    rest: i64,
}

/// One of the alternatives of a pod that labels can meet.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling) struct Met {
    /// Its place among them.
    at: usize,
    /// What the labels become.
    req: ReqId,
    /// What the pod itself asked of them.
    part: ReqId,
}

/// What the labels and taints of a bin say to a pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling) enum Verdict {
    /// That it is welcome, by this alternative first.
    Met(Met),
    /// That others stand in its way now.
    NotNow,
    /// That it will never be.
    Never,
}

impl Run<'_, '_> {
    pub(super) fn search(&mut self, turn: &mut Turn<'_>) -> Option<Spot> {
        if turn.wanted.is_empty() {
            return None;
        }
        match self.policy.growth {
            Growth::First => {
                let first = self.scan(turn, Left::Reach, 1, UNSOLD).map(|(spot, _)| spot);
                first.or_else(|| self.open(turn).map(|(spot, _)| spot))
            }
            Growth::Cheapest { look } => {
                if let Some((spot, 0)) = self.scan(turn, Left::Slack, TIGHTEST_OF, 0) {
                    return Some(spot);
                }
                let opened = self.open(turn);
                let most = opened.as_ref().map_or(UNSOLD, |(_, price)| *price);
                turn.known.compare_with(most);
                let grown = self.scan(turn, Left::Reach, look, most);
                match (grown, opened) {
                    (Some((grown, more)), Some((opened, price))) => {
                        Some(if more <= price { grown } else { opened })
                    }
                    (grown, opened) => grown.or(opened).map(|(spot, _)| spot),
                }
            }
        }
    }

    /// Looks through the bins in order. The first node wins; of the first `look` claims the one that adds least to the
    /// price, and of those the tightest. Claims that would add more than `most` are passed over; where a class has many pods
    /// they are not counted, now and for the next of them: else the first that are grown up would keep all others small.
    fn scan(&mut self, turn: &mut Turn<'_>, left: Left, look: usize, most: u64) -> Option<(Spot, u64)> {
        let mut best: Option<Joined> = None;
        let mut seen = 0;
        let shapes_tell = self.shapes_tell(turn.class);
        self.shapes.begin_search();
        for block in 0..self.bins.blocks() {
            let mut fitting = self.fitting(turn, left, block);
            while fitting != 0 {
                let bin = block * BLOCK + fitting.trailing_zeros() as usize;
                fitting &= fitting - 1;
                let Some(met) = self.admit(turn, bin) else {
                    continue;
                };
                if bin < self.nodes() {
                    return Some((Spot::Node { bin }, 0));
                }
                let shape = self.claims[bin - self.nodes()].shape;
                let tells = shapes_tell && !self.volumes.has_some_of(turn.class, bin);
                let looked = match self.shapes.seen(shape).filter(|_| tells) {
                    Some(known) => known,
                    None => self.look(turn, bin, met, (left, most), &mut best),
                };
                if tells {
                    self.shapes.note(shape, looked);
                }
                match looked {
                    Look::Impossible => continue,
                    Look::Dear => {
                        bits::put_growing(&mut turn.known.dear, bin);
                        continue;
                    }
                    Look::Possible => seen += 1,
                }
                if seen >= look {
                    return best.map(|best| (best.spot, best.more));
                }
            }
        }
        best.map(|best| (best.spot, best.more))
    }

    /// Whether a pod of a class gets the same of claims of the same shape that have none of its volumes. Ports are no part of
    /// it, nor is which volumes there are.
    fn shapes_tell(&self, class: usize) -> bool {
        let mut templates = self.problem.templates.iter();
        self.problem.classes[class].ports.is_empty()
            && templates.all(|template| template.daemon_ports.is_empty())
    }

    /// Looks at one claim, which becomes the best if it is.
    fn look(
        &mut self,
        turn: &Turn<'_>,
        bin: usize,
        met: Met,
        (left, most): (Left, u64),
        best: &mut Option<Joined>,
    ) -> Look {
        #[cfg(test)]
        super::looks::count();
        let floor = (left == Left::Reach).then(|| self.grown_at_least(turn, bin - self.nodes()));
        let beyond = |most: u64| floor.is_some_and(|(_, more)| more > most);
        let many = self.problem.classes[turn.class].members.len() >= MANY;
        if many && beyond(most) {
            return Look::Dear;
        }
        // What cannot be the cheapest need not be worked out.
        if beyond(best.as_ref().map_or(most, |best| best.more)) {
            return Look::Possible;
        }
        let Some(joined) = self.join(turn, bin, met, floor.map(|(floor, _)| floor)) else {
            return Look::Impossible;
        };
        if best
            .as_ref()
            .is_none_or(|best| (joined.more, joined.rest) < (best.more, best.rest))
        {
            *best = Some(joined);
        }
        Look::Possible
    }

    /// The bins of a block that have room for a pod and are not known to be out of the question.
    fn fitting(&mut self, turn: &Turn<'_>, left: Left, block: usize) -> u64 {
        let requests = &self.problem.classes[turn.class].requests;
        let dead = turn.known.dead.get(block).copied().unwrap_or_default();
        let dear = match left {
            Left::Reach => turn.known.dear.get(block).copied().unwrap_or_default(),
            Left::Slack => 0,
        };
        let refused = turn.hosts.refused_of(&self.counts, block) | self.volumes.full_of(turn.class, block);
        let alive = !(dead | dear | refused);
        if alive == 0 || !self.bins.block_may_fit(left, block, requests) {
            return 0;
        }
        let fitting = self.bins.fitting(left, block, alive, requests);
        if fitting == 0 {
            self.bins.mend(left, block);
        }
        fitting
    }

    /// How many bins are nodes or claims in flight.
    pub(in crate::scheduling) fn nodes(&self) -> usize {
        self.bins.len() - self.claims.len()
    }

    /// What comes of a claim that takes a pod, by the first of the pod's alternatives for which there is a type. Where it may
    /// grow, `floor` says what it costs then at least; else it must not cost more.
    fn join(&mut self, turn: &Turn<'_>, bin: usize, first: Met, floor: Option<u64>) -> Option<Joined> {
        let mut met = first;
        loop {
            let joined = self.join_by(turn, bin, met, floor);
            if joined.is_some() {
                return joined;
            }
            met = self.met_from(turn, self.bins.req[bin], met.at + 1)?;
        }
    }

    /// What comes of a claim that takes a pod by one of the pod's alternatives.
    fn join_by(
        &mut self,
        turn: &Turn<'_>,
        bin: usize,
        Met { req, part, .. }: Met,
        floor: Option<u64>,
    ) -> Option<Joined> {
        let claim = bin - self.nodes();
        let before = (self.claims[claim].kind, self.claims[claim].price);
        let class = &self.problem.classes[turn.class];
        let picky = !class.ports.is_empty() || !class.volumes.is_empty();
        let same = req == self.bins.req[bin] && floor.is_none() && !picky;
        let plain = self.problem.templates[self.claims[claim].template]
            .min_values
            .is_empty();
        let becomes = if same && plain && self.pinned(turn, req) {
            Becomes {
                req,
                part,
                kind: before.0,
                price: before.1,
            }
        } else {
            self.become_with(turn, claim, (req, part), floor)?
        };
        let more = becomes.price.saturating_sub(before.1);
        if floor.is_none() && more > 0 {
            return None;
        }
        Some(Joined {
            spot: Spot::Claim { bin, becomes },
            more,
            rest: self.waste(claim, turn.class, becomes.kind),
        })
    }

    /// How much of a type would stay unused, in thousandths of processors and memory together.
    fn waste(&self, claim: usize, class: usize, kind: usize) -> i64 {
        let claim = &self.claims[claim];
        let room = self.problem.templates[claim.template].room(kind);
        let requests = &self.problem.classes[class].requests;
        let part = |dim: usize| {
            let rest = (room[dim] - claim.used[dim] - requests[dim]).max(0);
            rest.saturating_mul(1000) / room[dim].max(1)
        };
        part(0).saturating_add(part(1))
    }

    /// Whether a bin can take a pod as far as room and price are not concerned, and what its labels are then.
    fn admit(&mut self, turn: &mut Turn<'_>, bin: usize) -> Option<Met> {
        let bare = (self.bins.req[bin], self.bins.taints[bin]);
        let verdict = match turn.last {
            Some((last, verdict)) if last == bare => verdict,
            _ => self.judge(turn, bare),
        };
        turn.last = Some((bare, verdict));
        let class = &self.problem.classes[turn.class];
        let met = match verdict {
            Verdict::Met(met) => met,
            Verdict::NotNow => return None,
            Verdict::Never => {
                bits::put_growing(&mut turn.known.dead, bin);
                return None;
            }
        };
        if turn.hosts.refuse(&self.counts, bin).is_some()
            || (!class.ports.is_empty() && host_port::conflict(&class.ports, &self.bins.ports[bin]).is_some())
            || self.volumes.exceeded(turn.class, bin).is_some()
        {
            bits::put_growing(&mut turn.known.dead, bin);
            return None;
        }
        turn.hosts.lonely(&self.counts, bin).is_none().then_some(met)
    }

    /// What labels and taints make of a bin. Many have the same, so that it is seldom asked anew.
    fn judge(&mut self, turn: &Turn<'_>, (own, taints): (ReqId, u32)) -> Verdict {
        let tolerations = self.problem.classes[turn.class].stages[turn.stage].tolerations;
        if !self.problem.tolerance.covers(tolerations, taints) {
            return Verdict::Never;
        }
        if let Some(met) = self.met_from(turn, own, 0) {
            return Verdict::Met(met);
        }
        let problem = &mut *self.problem;
        let stage = &problem.classes[turn.class].stages[turn.stage];
        let mut nodes = stage.nodes.iter();
        if nodes.any(|nodes| problem.space.and(own, *nodes).is_some()) {
            Verdict::NotNow
        } else {
            Verdict::Never
        }
    }

    /// The first alternative of a pod, from one of them on, that labels can meet.
    fn met_from(&mut self, turn: &Turn<'_>, own: ReqId, from: usize) -> Option<Met> {
        let space = &mut self.problem.space;
        let mut wanted = turn.wanted.iter().enumerate().skip(from);
        wanted.find_map(|(at, (both, part))| {
            let req = space.and(own, *both)?;
            Some(Met { at, req, part: *part })
        })
    }
}
