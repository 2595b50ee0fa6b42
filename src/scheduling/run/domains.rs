//! Over which values of a label pods are spread in the end.
//!
//! Pods are to be spread over all values that are there or can be bought. But the kube-scheduler knows those alone that
//! have a node, so a zone that is sold and cannot be had, since a limit is reached or all its types are too small, is no
//! reason to leave a pod out for good. Whoever is left out once all had their turn is measured against the values that
//! the plan has come to. For that every claim is where it is planned to be, though launch might have chosen; and from then
//! on none brings a value that those who were let in so were not measured against.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Budget;
use super::super::bits;
use super::super::class::Class;
use super::super::space::{ANYTHING, ReqId};
use super::super::topology::{GroupId, Over};
use super::offer::Load;
use super::search::Becomes;
use super::shapes::{Before, ShapeId, Step};
use super::{Rest, Run};

/// Which values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Those of nodes and claims, and those that somebody left out could still bring.
    Possible,
    /// Those of nodes and claims.
    There,
}

/// The spreads that are measured against other values than at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// The values that counted at first; while the pass has the problem, those that count now are there instead.
    before: BTreeMap<GroupId, Vec<u64>>,
    /// The spreads by which somebody was let in so.
    by: BTreeSet<GroupId>,
    /// The columns over which those spread.
    pub(super) columns: Vec<usize>,
}

/// A claim before it was pinned to a value.
struct Unpinned {
    claim: usize,
    req: ReqId,
    shape: ShapeId,
    pins: usize,
}

impl Run<'_, '_> {
    /// Measures whoever is left out against what is there. Whether that let anybody in is what comes back.
    pub(super) fn let_in(&mut self, rest: &mut Rest, budget: Budget<'_>) -> bool {
        let before = self.placed.len();
        let pinned = self.pin_claims(rest);
        for values in [Values::Possible, Values::There] {
            if !rest.out_of_time && self.measure_by(values, rest) {
                self.retry(rest, budget, Class::may_improve);
            }
            if self.placed.len() > before {
                return true;
            }
        }
        self.forget_unused();
        for unpinned in pinned.into_iter().rev() {
            let held = &mut self.claims[unpinned.claim];
            held.pins.truncate(unpinned.pins);
            held.shape = unpinned.shape;
            let bin = self.nodes() + unpinned.claim;
            self.bins.req[bin] = unpinned.req;
            self.measure(bin);
        }
        false
    }

    /// Pins claims that may come to have one of several values to the one that they are planned to have, of the labels over
    /// which somebody left out is spread.
    fn pin_claims(&mut self, rest: &Rest) -> Vec<Unpinned> {
        let left_out = rest.classes.iter();
        let groups: BTreeSet<GroupId> = left_out.flat_map(|(class, _)| self.spreads_of(*class)).collect();
        let columns: BTreeSet<usize> = groups.iter().filter_map(|group| self.column_of(*group)).collect();
        let mut pinned = Vec::new();
        for column in columns {
            for claim in 0..self.claims.len() {
                pinned.extend(self.pin_claim(claim, column));
            }
        }
        pinned
    }

    fn pin_claim(&mut self, claim: usize, column: usize) -> Option<Unpinned> {
        let (bin, held) = (self.nodes() + claim, &self.claims[claim]);
        let (req, problem) = (self.bins.req[bin], &mut *self.problem);
        let template = &problem.templates[held.template];
        // Where a number of different values must stay possible, launch decides.
        if problem.space.single(req, column).is_some() || !template.min_values.is_empty() {
            return None;
        }
        let state = template.types[held.kind].planned_state(&problem.space, (req, column))?;
        let unpinned = Unpinned {
            claim,
            req,
            shape: held.shape,
            pins: held.pins.len(),
        };
        let becomes = Becomes {
            req: problem.space.pinned(req, column, state)?,
            part: ANYTHING,
            kind: held.kind,
            price: held.price,
        };
        problem.templates[held.template].row(&problem.space, becomes.req);
        self.bins.req[bin] = becomes.req;
        let shape = self
            .shapes
            .after(Before::Shape(held.shape), Step::Change, becomes);
        let held = &mut self.claims[claim];
        held.shape = shape;
        if !held.pins.contains(&column) {
            held.pins.push(column);
        }
        self.measure(bin);
        Some(unpinned)
    }

    fn column_of(&self, group: GroupId) -> Option<usize> {
        match self.problem.groups[group].over {
            Over::Label(column) => Some(column),
            Over::Hosts => None,
        }
    }

    /// Takes other values for the spreads of whoever is left out; false if they are the same.
    fn measure_by(&mut self, values: Values, rest: &Rest) -> bool {
        let mut asked: BTreeMap<GroupId, Vec<usize>> = BTreeMap::new();
        for (class, _) in &rest.classes {
            for group in self.spreads_of(*class) {
                asked.entry(group).or_default().push(*class);
            }
        }
        let (mut known, mut changed) = (BTreeMap::new(), false);
        for (group, classes) in asked {
            let Some(column) = self.column_of(group) else {
                continue;
            };
            let mut now = self.values_there(group, column);
            for class in classes.into_iter().filter(|_| values == Values::Possible) {
                let more: &Vec<u64> = known
                    .entry((class, column))
                    .or_insert_with(|| self.values_possible(class, column));
                now.iter_mut().zip(more).for_each(|(now, more)| *now |= more);
            }
            let current = &mut self.problem.groups[group].eligible;
            let first = self
                .measured
                .before
                .entry(group)
                .or_insert_with(|| current.clone());
            let most = if self.measured.by.contains(&group) {
                &*current
            } else {
                &*first
            };
            bits::keep(&mut now, most);
            changed |= now != *current;
            *current = now;
        }
        changed
    }

    /// The spreads over labels that a class asks for.
    fn spreads_of(&self, class: usize) -> BTreeSet<GroupId> {
        let stages = self.problem.classes[class].stages.iter();
        let asks = stages.flat_map(|stage| &stage.asks.spreads);
        asks.map(|ask| ask.group).collect()
    }

    /// The values of the nodes and claims that a spread counts. Where launch decides, it may be any.
    fn values_there(&mut self, group: GroupId, column: usize) -> Vec<u64> {
        let problem = &mut *self.problem;
        let filter = problem.groups[group].filter.clone();
        let mut there = problem.space.no_states(column);
        let hosts = problem.hosts.iter().map(|host| (host.req, host.taints));
        let new = self.bins.len() - self.claims.len()..self.bins.len();
        let claims = new.map(|bin| (self.bins.req[bin], self.bins.taints[bin]));
        let places: BTreeSet<(ReqId, u32)> = hosts.chain(claims).collect();
        let values = problem.space.columns()[column].values.len();
        for place in places {
            if filter.includes(&mut problem.space, &problem.tolerance, place) {
                let states = bits::iter(problem.space.states(place.0, column));
                for state in states.filter(|state| *state < values) {
                    bits::put(&mut there, state);
                }
            }
        }
        there
    }

    /// The values at which a claim could be opened for a pod of a class, wherever others are.
    fn values_possible(&mut self, class: usize, column: usize) -> Vec<u64> {
        let mut values = self.problem.space.no_states(column);
        let Some(stage) = self.problem.classes[class].stages.last() else {
            return values;
        };
        let (tolerations, nodes) = (stage.tolerations, stage.nodes.clone());
        for template in 0..self.problem.templates.len() {
            let of = &self.problem.templates[template];
            if !self.problem.tolerance.covers(tolerations, of.taints) {
                continue;
            }
            let (own, load) = (of.req, self.load_alone(template, class));
            for nodes in &nodes {
                let Some(req) = self.problem.space.and(own, *nodes) else {
                    continue;
                };
                for state in 0..self.problem.space.columns()[column].values.len() {
                    let pinned = self.problem.space.pinned(req, column, state);
                    if pinned.is_some_and(|pinned| self.cheapest(&load, pinned).is_some()) {
                        bits::put(&mut values, state);
                    }
                }
            }
        }
        values
    }

    /// Takes note that a pod of a class was let in, if its spreads are measured so.
    pub(super) fn note_let_in(&mut self, class: usize) {
        for group in self.spreads_of(class) {
            if self.measured.before.contains_key(&group) && self.measured.by.insert(group) {
                let column = self.column_of(group);
                let columns = &mut self.measured.columns;
                columns.extend(column.filter(|column| !columns.contains(column)));
            }
        }
    }

    /// Whether a claim with these labels would bring a value that somebody was let in without.
    pub(super) fn brings_value(&mut self, load: &Load, req: ReqId) -> bool {
        if self.measured.by.is_empty() {
            return false;
        }
        let before = load.claim.map(|claim| self.bins.req[self.nodes() + claim]);
        let taints = self.problem.templates[load.template].taints;
        let problem = &mut *self.problem;
        self.measured.by.iter().any(|group| {
            let Over::Label(column) = problem.groups[*group].over else {
                return false;
            };
            let at = |req: ReqId| problem.space.single(req, column);
            let Some(state) = at(req).filter(|_| before.and_then(at).is_none()) else {
                return false;
            };
            let asked = &problem.groups[*group];
            !bits::has(&asked.eligible, state)
                && asked
                    .filter
                    .includes(&mut problem.space, &problem.tolerance, (req, taints))
        })
    }

    /// Goes back to the first values where nobody was let in by others, so that reasons tell what is wanted.
    fn forget_unused(&mut self) {
        let by = &self.measured.by;
        let groups = &mut self.problem.groups;
        self.measured.before.retain(|group, before| {
            let used = by.contains(group);
            if !used {
                std::mem::swap(&mut groups[*group].eligible, before);
            }
            used
        });
    }

    /// Gives the problem back its own values, or takes them again.
    pub(super) fn exchange_values(&mut self) {
        for (group, other) in &mut self.measured.before {
            std::mem::swap(&mut self.problem.groups[*group].eligible, other);
        }
    }
}
