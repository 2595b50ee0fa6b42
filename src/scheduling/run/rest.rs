//! What is done once all classes had their turn: what comes later can make room for what came before.
//!
//! Claims that were opened with room for more than came become the cheapest type that holds what did (`roomy`). Pods that are
//! left out at a spread are measured anew (`domains`), and may open claims with room for more in their turn. And with limits,
//! a claim that grows into a dearer type may count less against a limit, and then a pod that was left out may have a place
//! after all, and a claim that had to be a dear type may be a cheaper one; and whoever could have no claim of its own may
//! join one that another had opened later. Where no limit was met, this last cannot be.

use super::super::Budget;
use super::super::bits;
use super::super::class::Class;
use super::search::Becomes;
use super::shapes::{Before, Step};
use super::{Rest, Run};

/// After so many claims it is asked again whether there is time left. A claim takes some microseconds, and where pools ask for
/// a number of different values up to a millisecond.
const CLAIMS_AT_ONCE: usize = 64;

impl Run<'_, '_> {
    /// Gives what became possible since its turn to whoever is left out, and then to the claims.
    pub(super) fn settle_rest(&mut self, rest: &mut Rest, budget: Budget<'_>) {
        loop {
            if self.opens_roomy() {
                self.cheapen(rest, budget);
            }
            self.freed |= self.met_limit.get() && !rest.classes.is_empty();
            while std::mem::take(&mut self.freed) {
                let before = self.placed.len();
                self.retry(rest, budget, |_| true);
                self.cheapen(rest, budget);
                // Each time there is somebody less, so there is an end.
                self.freed |= self.placed.len() > before && !rest.classes.is_empty();
            }
            if !self.let_in(rest, budget) {
                return;
            }
        }
    }

    /// Tries pods of these classes that have no place once more.
    pub(super) fn retry(&mut self, rest: &mut Rest, budget: Budget<'_>, whom: impl Fn(&Class) -> bool) {
        for (class, pods) in std::mem::take(&mut rest.classes) {
            if !whom(&self.problem.classes[class]) {
                rest.classes.push((class, pods));
                continue;
            }
            rest.out_of_time = rest.out_of_time || !budget();
            let before = self.placed.len();
            let left = if rest.out_of_time {
                pods
            } else {
                self.place_class(class, &pods, budget, rest)
            };
            if self.placed.len() > before {
                self.note_let_in(class);
            }
            if !left.is_empty() {
                rest.classes.push((class, left));
            }
        }
    }

    /// Makes claims the cheapest type that limits allow now, until nothing changes. Each step makes one claim cheaper, so
    /// there is an end; and what is there after each is a plan, so it may end when there is no time left.
    fn cheapen(&mut self, rest: &mut Rest, budget: Budget<'_>) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for claim in 0..self.claims.len() {
                if claim.is_multiple_of(CLAIMS_AT_ONCE) && (rest.out_of_time || !budget()) {
                    rest.out_of_time = true;
                    return;
                }
                if let Some((kind, price)) = self.cheaper(claim) {
                    self.turn_into(claim, kind, price);
                    changed = true;
                    // It has more to choose from now, so others can take more of the limits.
                    let template = self.claims[claim].template;
                    self.freed |= !self.problem.templates[template].min_values.is_empty();
                }
            }
        }
    }

    /// The cheapest type that a claim could be, and that leaves other claims what they need, if that is not what it is.
    fn cheaper(&self, claim: usize) -> Option<(usize, u64)> {
        let held = &self.claims[claim];
        let template = &self.problem.templates[held.template];
        if self.left[held.template].is_empty() && !self.opens_roomy() {
            return None;
        }
        let row = template.known_row(self.bins.req[self.nodes() + claim]);
        // Types are in order of their price; of those that cost the same the one with the lowest number is taken.
        let before = row
            .by_price
            .partition_point(|sold| *sold < (held.price, held.kind));
        let mut types = self.types_of(claim);
        template.keep_allowed(&mut types, &self.left[held.template], Some(held.kind));
        let spares = |kind: usize| {
            template.min_values.is_empty()
                || self
                    .starved_by(held.template, Some(claim), (Some(held.kind), kind))
                    .is_none()
        };
        let mut cheaper = row.by_price[..before].iter();
        let found = cheaper.find(|(_, kind)| bits::has(&types, *kind) && spares(*kind));
        found.map(|(price, kind)| (*kind, *price))
    }

    fn turn_into(&mut self, claim: usize, kind: usize, price: u64) {
        let bin = self.nodes() + claim;
        let held = &self.claims[claim];
        let becomes = Becomes {
            req: self.bins.req[bin],
            part: super::super::space::ANYTHING,
            kind,
            price,
        };
        let shape = self
            .shapes
            .after(Before::Shape(held.shape), Step::Change, becomes);
        self.count_limits(claim, held.template, kind);
        self.price = self.price - self.claims[claim].price + price;
        let held = &mut self.claims[claim];
        (held.kind, held.price, held.shape) = (kind, price, shape);
        self.measure(bin);
    }
}
