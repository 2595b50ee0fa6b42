//! What a claim would be, and for how much, if it took a pod.

use std::cell::OnceCell;
use std::ops::Range;

use super::super::MinValuesPolicy;
use super::super::bits;
use super::super::limits;
use super::super::space::ReqId;
use super::super::template::Template;
use super::super::topology::Over;
use super::search::{Becomes, Spot};
use super::{Opening, Run, Turn};
use crate::model::HostPort;

/// What a claim must have room for.
pub(super) struct Load {
    pub(super) template: usize,
    /// The claim, if it is there already.
    pub(super) claim: Option<usize>,
    pub(super) total: Vec<i64>,
    /// What anything with so much room costs at least, once somebody has asked.
    floor: OnceCell<u64>,
    ports: Vec<HostPort>,
    /// How many volumes of each driver, where that is limited.
    volumes: Vec<(String, u32)>,
    /// The type that is counted against limits already, and its price.
    pub(super) before: Option<(usize, u64)>,
}

impl Load {
    /// Whether ports or volumes rule types out.
    fn is_picky(&self) -> bool {
        !self.ports.is_empty() || !self.volumes.is_empty()
    }

    /// Leaves only types with these ports free that can attach these volumes.
    pub(super) fn keep(&self, template: &Template, types: &mut [u64]) {
        template.keep_without_ports(types, &self.ports);
        let volumes: Vec<(&str, u32)> = self
            .volumes
            .iter()
            .map(|(driver, count)| (driver.as_str(), *count))
            .collect();
        template.keep_attaching(types, &volumes);
    }
}

impl Run<'_, '_> {
    /// What a claim that is there becomes by taking a pod, where `floor`, if known, is what it costs then at least.
    pub(super) fn become_with(
        &mut self,
        turn: &Turn<'_>,
        claim: usize,
        (req, part): (ReqId, ReqId),
        floor: Option<u64>,
    ) -> Option<Becomes> {
        let bin = self.nodes() + claim;
        let mut total = std::mem::take(&mut self.total);
        total.clear();
        let class = &self.problem.classes[turn.class];
        let held = &self.claims[claim];
        let sums = held.used.iter().zip(&class.requests);
        total.extend(sums.map(|(used, more)| used + more));
        let mut load = Load {
            template: held.template,
            claim: Some(claim),
            total,
            floor: floor.map_or_else(OnceCell::new, OnceCell::from),
            ports: Vec::new(),
            volumes: self.load_of(held.template, turn.class, Some(bin)),
            before: Some((held.kind, held.price)),
        };
        if !self.problem.templates[load.template].daemon_ports.is_empty() {
            load.ports = [&self.bins.ports[bin][..], &class.ports].concat();
        }
        let becomes = self.settle(turn, &load, req, part);
        self.total = load.total;
        becomes
    }

    /// What a claim of its own must have room for.
    pub(super) fn load_alone(&self, template: usize, class: usize) -> Load {
        let of = &self.problem.classes[class];
        Load {
            template,
            claim: None,
            total: of.requests.clone(),
            floor: OnceCell::new(),
            ports: of.ports.clone(),
            volumes: self.load_of(template, class, None),
            before: None,
        }
    }

    /// The volumes that a claim would attach with a pod.
    fn load_of(&self, template: usize, class: usize, bin: Option<usize>) -> Vec<(String, u32)> {
        let all = self.attached(template, Some(class), bin).into_iter();
        all.map(|(driver, count)| (driver.to_owned(), count)).collect()
    }

    /// What a claim that is there costs at least if it takes a pod, whatever labels are asked for, and how much more.
    pub(super) fn grown_at_least(&self, turn: &Turn<'_>, claim: usize) -> (u64, u64) {
        let held = &self.claims[claim];
        let requests = &self.problem.classes[turn.class].requests;
        let sums = held.used.iter().zip(requests).map(|(used, more)| used + more);
        let floor = self.problem.templates[held.template].floor_for(sums);
        (floor, floor.saturating_sub(held.price))
    }

    /// A claim of its own, from the pools with most weight that can have one, and what it costs for this pod.
    pub(super) fn open(&mut self, turn: &Turn<'_>) -> Option<(Spot, u64)> {
        if !turn.hosts.empty_will_do() {
            return None;
        }
        let mut begin = 0;
        while begin < self.problem.templates.len() {
            let of_pool = |at: usize| self.problem.snapshot.pools[self.problem.templates[at].pool].weight;
            let same = (begin..self.problem.templates.len()).take_while(|at| of_pool(*at) == of_pool(begin));
            let end = begin + same.count();
            let opened = self.open_among(turn, begin..end);
            if opened.is_some() {
                return opened;
            }
            begin = end;
        }
        None
    }

    /// A claim of its own from one of these templates, whose pools have the same weight.
    fn open_among(&mut self, turn: &Turn<'_>, mut among: Range<usize>) -> Option<(Spot, u64)> {
        let opening = self.policy.opening;
        let open = |template: usize| {
            let becomes = self.open_from(turn, template)?;
            let (becomes, price) = match opening {
                Opening::Roomy(filling) => self.roomier(turn, template, becomes, filling),
                _ => (becomes, becomes.price),
            };
            Some((Spot::New { template, becomes }, price))
        };
        match opening {
            Opening::Cheapest | Opening::Roomy(_) => among.filter_map(open).min_by_key(|(_, price)| *price),
            Opening::First => among.find_map(open),
            Opening::Last => among.rev().find_map(open),
        }
    }

    fn open_from(&mut self, turn: &Turn<'_>, template: usize) -> Option<Becomes> {
        let class = &self.problem.classes[turn.class];
        let taints = self.problem.templates[template].taints;
        if !self
            .problem
            .tolerance
            .covers(class.stages[turn.stage].tolerations, taints)
        {
            return None;
        }
        let load = self.load_alone(template, turn.class);
        let own = self.problem.templates[template].req;
        for (both, part) in &turn.wanted {
            let req = self.problem.space.and(own, *both);
            let becomes = req.and_then(|req| self.settle(turn, &load, req, *part));
            if becomes.is_some() {
                return becomes;
            }
        }
        None
    }

    /// Whether requirements leave one value of every label by which the pod is counted.
    pub(super) fn pinned(&self, turn: &Turn<'_>, req: ReqId) -> bool {
        let stage = &self.problem.classes[turn.class].stages[turn.stage];
        let single = |column: &usize| bits::count(self.problem.space.states(req, *column)) == 1;
        stage.pins.iter().all(single)
    }

    /// Pins the labels by which the pod is counted, and finds the cheapest type.
    fn settle(&mut self, turn: &Turn<'_>, load: &Load, req: ReqId, part: ReqId) -> Option<Becomes> {
        let (mut req, mut found) = (req, None);
        let own = self.problem.classes[turn.class].stages[turn.stage].pins.len();
        for at in 0..own + self.measured.columns.len() {
            let column = match at.checked_sub(own) {
                Some(at) => self.measured.columns[at],
                None => self.problem.classes[turn.class].stages[turn.stage].pins[at],
            };
            let states = self.problem.space.states(req, column);
            if bits::count(states) > 1 {
                (req, found) = self.pin(turn, load, req, column)?;
            }
        }
        let (kind, price) = match found {
            Some(found) => found,
            None if self.brings_value(load, req) => return None,
            None => self.cheapest(load, req)?,
        };
        Some(Becomes {
            req,
            part,
            kind,
            price,
        })
    }

    /// The value of a label that is least used and then cheapest, among those for which a type is left, with that type.
    fn pin(
        &mut self,
        turn: &Turn<'_>,
        load: &Load,
        req: ReqId,
        column: usize,
    ) -> Option<(ReqId, Option<(usize, u64)>)> {
        let mut best: Option<((i64, u64), ReqId, usize)> = None;
        let mut valued = false;
        for state in 0..self.problem.space.columns()[column].values.len() {
            if !bits::has(self.problem.space.states(req, column), state) {
                continue;
            }
            valued = true;
            let crowd = self.crowd(turn, column, state);
            if best.as_ref().is_some_and(|(known, _, _)| crowd > known.0) {
                continue;
            }
            let pinned = self.problem.space.pinned(req, column, state);
            let pinned = pinned.filter(|pinned| !self.brings_value(load, *pinned));
            let sold = pinned.and_then(|pinned| Some((pinned, self.cheapest(load, pinned)?)));
            if let Some((pinned, (kind, price))) = sold
                && best.as_ref().is_none_or(|(known, _, _)| (crowd, price) < *known)
            {
                best = Some(((crowd, price), pinned, kind));
            }
        }
        match best {
            Some(((_, price), pinned, kind)) => Some((pinned, Some((kind, price)))),
            // Nodes that do not have the label at all are no place where pods are counted.
            None => (!valued).then_some((req, None)),
        }
    }

    /// How many pods are counted at a value already: by the pod's own spreads, else by those that count it.
    fn crowd(&self, turn: &Turn<'_>, column: usize, state: usize) -> i64 {
        let class = &self.problem.classes[turn.class];
        let over = |group: &usize| self.problem.groups[*group].over == Over::Label(column);
        let matched = |group: usize| self.counts.matched(group, state);
        let spreads = class.stages[turn.stage].asks.spreads.iter();
        let mut own = spreads.map(|ask| ask.group).filter(over).peekable();
        if own.peek().is_some() {
            return own.map(matched).sum();
        }
        class.counted.iter().copied().filter(over).map(matched).sum()
    }

    /// The cheapest type that requirements leave, that has room, and that limits allow; where a number of different values
    /// must stay possible, one with which they do.
    pub(super) fn cheapest(&mut self, load: &Load, req: ReqId) -> Option<(usize, u64)> {
        let problem = &mut *self.problem;
        problem.templates[load.template].row(&problem.space, req);
        let template = &self.problem.templates[load.template];
        let row = template.known_row(req);
        let left = &self.left[load.template];
        let unlimited = left.is_empty();
        if !template.min_values.is_empty() && self.problem.options.min_values == MinValuesPolicy::Strict {
            return self.sparing(load, req).ok();
        }
        // A claim that takes more pods only becomes dearer, so the type that it is planned to be stays the cheapest for as
        // long as it will do; unless limits leave more than they did, which is looked at in the end.
        if let Some(before) = load.before
            && !load.is_picky()
            && template.still_is(row, before, &load.total)
        {
            return Some(before);
        }
        if load.is_picky() {
            self.types.clone_from(&row.types);
            load.keep(template, &mut self.types);
        }
        let counted = |kind: usize| &template.types[kind].counted[..];
        let within = |kind: usize| {
            let before = load.before.map(|(kind, _)| counted(kind));
            let within = unlimited || limits::allow(left, before, counted(kind));
            if !within {
                self.met_limit.set(true);
            }
            within
        };
        let free = |kind: usize| !load.is_picky() || bits::has(&self.types, kind);
        let allowed = |kind: usize| free(kind) && within(kind);
        // Unless what limits allow has changed, nothing cheaper than what it was will do.
        let least = load.before.filter(|_| unlimited).map_or(0, |(_, price)| price);
        let floor = load
            .floor
            .get_or_init(|| template.floor_for(load.total.iter().copied()));
        template.cheapest(row, &load.total, least.max(*floor), allowed)
    }
}
