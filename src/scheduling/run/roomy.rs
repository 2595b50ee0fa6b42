//! Claims that are opened with room for more than their first pod.
//!
//! Where prices follow size, what every machine keeps for itself makes small ones dear for what is left of them: a machine
//! of two processors has room for one pod of one, a machine of sixteen for fifteen. From one size to the next the growth of
//! a claim is then never worth it, though several sizes are. So the type is chosen that costs least for each pod, if it is
//! filled with those that are left; in the end it becomes the cheapest that holds what came.

use std::collections::BTreeMap;

use super::super::space::ReqId;
use super::super::template::UNPRICED;
use super::search::Becomes;
use super::{Filling, Opening, Run, Turn};
use crate::scheduling::limits;

/// How many pods of one size the types hold that templates sell under certain requirements, in the order of their prices. It
/// is asked for each claim that is opened, which hundreds of types would make slow; and classes of a size come together.
#[derive(Debug, Default)]
pub(super) struct Held {
    size: usize,
    by_row: BTreeMap<(usize, ReqId), Vec<i64>>,
}

impl Held {
    /// What is known of this size.
    fn of_size(&mut self, size: usize) -> &mut BTreeMap<(usize, ReqId), Vec<i64>> {
        if self.size != size {
            self.size = size;
            self.by_row.clear();
        }
        &mut self.by_row
    }
}

impl Run<'_, '_> {
    /// Whether claims of this pass are opened so.
    pub(super) fn opens_roomy(&self) -> bool {
        matches!(self.policy.opening, Opening::Roomy(_))
    }

    /// What the pass will have cost at least with what is placed now: the price, where claims are no larger than they must be.
    pub(super) fn reckoned(&self) -> u64 {
        if self.opens_roomy() {
            self.least
        } else {
            self.price
        }
    }

    /// Takes note that a claim takes another pod.
    pub(super) fn reckon(&mut self, claim: usize, class: usize) {
        if !self.opens_roomy() {
            return;
        }
        let (held, more) = (&self.claims[claim], &self.problem.classes[class].requests);
        let template = &self.problem.templates[held.template];
        let before = if held.pods.is_empty() {
            0
        } else {
            template.floor_for(held.used.iter().copied())
        };
        let after = template.floor_for(held.used.iter().zip(more).map(|(used, more)| used + more));
        self.least = self.least - before + after;
    }

    /// What a claim of its own is opened as instead, and what that costs for each pod that it is filled with. Ports, volumes
    /// and numbers of values that must stay possible depend on who comes: with them it stays as it is.
    pub(super) fn roomier(
        &mut self,
        turn: &Turn<'_>,
        template: usize,
        becomes: Becomes,
        filling: Filling,
    ) -> (Becomes, u64) {
        let most = self.left_to_fill(turn.class, filling);
        let of = &self.problem.templates[template];
        let class = &self.problem.classes[turn.class];
        let is_picky = !class.ports.is_empty() || !class.volumes.is_empty() || !of.min_values.is_empty();
        if is_picky || most <= 1 || becomes.price >= UNPRICED {
            return (becomes, becomes.price);
        }
        let row = of.known_row(becomes.req);
        let known = self.held.of_size(class.size);
        let held = known.entry((template, becomes.req)).or_insert_with(|| {
            let sold = row.by_price.iter();
            sold.map(|(_, kind)| holds(of.room(*kind), &class.requests))
                .collect()
        });
        let left = &self.left[template];
        let is_allowed = |kind: usize| left.is_empty() || limits::allow(left, None, &of.types[kind].counted);
        let from = row.by_price.partition_point(|(price, _)| *price < becomes.price);
        let sold = row.by_price.iter().zip(held.iter()).skip(from);
        let mut best = (becomes.price, 1, becomes.kind);
        for ((price, kind), held) in sold.take_while(|((price, _), _)| *price < UNPRICED) {
            // Even with room for all who may come, each would pay as much, and so for everything that is dearer.
            if !costs_less((*price, most), best) {
                break;
            }
            let pods = (*held).min(most);
            if pods > 0 && costs_less((*price, pods), best) && is_allowed(*kind) {
                best = (*price, pods, *kind);
            }
        }
        let (price, pods, kind) = best;
        (
            Becomes {
                kind,
                price,
                ..becomes
            },
            share(price, pods),
        )
    }

    /// How many pods like these a claim may be filled with, at least one.
    fn left_to_fill(&self, class: usize, filling: Filling) -> i64 {
        let of = &self.problem.classes[class];
        match filling {
            Filling::Alike => self.alike.min(of.most_on_a_node(&self.problem.groups)).max(1),
            Filling::Everybody => holds(&self.unplaced, &of.requests).max(1),
        }
    }
}

/// How many pods that ask for so much there is room for.
fn holds(room: &[i64], requests: &[i64]) -> i64 {
    let asked = room.iter().zip(requests).filter(|(_, asked)| **asked > 0);
    asked.map(|(room, asked)| room / asked).min().unwrap_or(1)
}

/// Whether each of so many pays less than each of others, for a type and for that of the others.
fn costs_less((price, pods): (u64, i64), (other, by, _): (u64, i64, usize)) -> bool {
    let pays = |price: u64, others: i64| u128::from(price) * u128::try_from(others).unwrap_or_default();
    pays(price, by) < pays(other, pods)
}

/// What each of so many pays, rounded up: who pays less in truth must not seem to pay as much.
fn share(price: u64, pods: i64) -> u64 {
    price.div_ceil(u64::try_from(pods).unwrap_or(1).max(1))
}
