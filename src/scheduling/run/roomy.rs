//! Claims that are opened with room for more than their first pod.
//!
//! Where prices follow size, what every machine keeps for itself makes small ones dear for what is left of them: a machine
//! of two processors has room for one pod of one, a machine of sixteen for fifteen. From one size to the next the growth of
//! a claim is then never worth it, though several sizes are. So the type is chosen that costs least for each pod, if it is
//! filled with those that are left; in the end it becomes the cheapest that holds what came.

use super::super::template::UNPRICED;
use super::search::Becomes;
use super::{Filling, Opening, Run, Turn};
use crate::scheduling::limits;

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
        &self,
        turn: &Turn<'_>,
        template: usize,
        becomes: Becomes,
        filling: Filling,
    ) -> (Becomes, u64) {
        let of = &self.problem.templates[template];
        let class = &self.problem.classes[turn.class];
        let is_picky = !class.ports.is_empty() || !class.volumes.is_empty() || !of.min_values.is_empty();
        if is_picky || becomes.price >= UNPRICED {
            return (becomes, becomes.price);
        }
        let most = self.left_to_fill(turn.class, filling);
        let left = &self.left[template];
        let is_allowed = |kind: usize| left.is_empty() || limits::allow(left, None, &of.types[kind].counted);
        let row = of.known_row(becomes.req);
        let from = row.by_price.partition_point(|(price, _)| *price < becomes.price);
        let sold = row.by_price[from..]
            .iter()
            .take_while(|(price, _)| *price < UNPRICED);
        let mut best: Option<(u64, u64, usize)> = None;
        for (price, kind) in sold {
            // Even if it held all who may come, each would pay as much, and so for everything that is dearer.
            if best.is_some_and(|(least, _, _)| share(*price, most) >= least) {
                break;
            }
            let pods = holds(of.room(*kind), &class.requests).min(most);
            if pods > 0 && is_allowed(*kind) {
                let this = (share(*price, pods), *price, *kind);
                best = Some(best.map_or(this, |best| best.min(this)));
            }
        }
        let (share, price, kind) = best.unwrap_or((becomes.price, becomes.price, becomes.kind));
        (
            Becomes {
                kind,
                price,
                ..becomes
            },
            share,
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

/// What each of so many pays, rounded up: who pays less in truth must not seem to pay as much.
fn share(price: u64, pods: i64) -> u64 {
    price.div_ceil(u64::try_from(pods).unwrap_or(1).max(1))
}
