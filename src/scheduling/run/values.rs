//! How many different values of a label a claim leaves to choose from, where its pool asks for a number of them.
//!
//! Only types count that limits still allow when the plan is whole: a claim that others leave no room to become anything
//! else would be refused for having too few. So each step looks at the claims that are there already as well. Where the
//! cheapest type takes too much of the limits, a dearer one that counts less is taken. Launch must not be offered the
//! cheaper ones then, so they are nothing that the claim has to choose from either.

use std::collections::BTreeSet;

use super::super::MinValuesPolicy;
use super::super::bits;
use super::super::limits;
use super::super::plan::Chooser;
use super::super::space::ReqId;
use super::super::template::{Template, offer_columns};
use super::Run;
use super::offer::Load;

/// A label of which too few different values are left: column, number asked for, number left.
pub(in crate::scheduling) type TooFew = (usize, u32, u32);

/// Who would have too little to choose from, and of what.
pub(in crate::scheduling) type Starved = (Chooser, TooFew);

impl Run<'_, '_> {
    /// What stands in the way first where a claim of its own would leave somebody too few different values.
    pub(in crate::scheduling) fn starvation(
        &mut self,
        class: usize,
        template: usize,
        req: ReqId,
    ) -> Option<Starved> {
        let problem = &mut *self.problem;
        problem.templates[template].row(&problem.space, req);
        self.sparing(&self.load_alone(template, class), req).err()?
    }

    /// The cheapest type with which everybody has enough different values to choose from, or what is in its way.
    pub(super) fn sparing(&self, load: &Load, req: ReqId) -> Result<(usize, u64), Option<Starved>> {
        let mut types = self.choices(load, req);
        // Of dearer types there are still fewer.
        if let Some(own) = self.lacking(load, req, &types) {
            return Err(Some(own));
        }
        if let Some(before) = self.still_spares(load, req, &types) {
            return Ok(before);
        }
        let template = &self.problem.templates[load.template];
        let (mut first, mut starving) = (None, Vec::new());
        for (price, kind) in template.known_row(req).by_price.iter().copied() {
            if !bits::has(&types, kind) {
                continue;
            }
            // What counts as much as a type that starves somebody does so as well.
            let counted = &template.types[kind].counted[..];
            let as_much = |less: &&[i64]| counted.iter().zip(*less).all(|(counted, less)| counted >= less);
            if !starving.iter().any(as_much) {
                let Some(few) = self.starved(load, kind) else {
                    let own = first.and_then(|_| self.lacking(load, req, &types));
                    return own.map_or(Ok((kind, price)), |_| Err(first));
                };
                self.met_limit.set(true);
                first = first.or(Some((Chooser::Another, few)));
                starving.push(counted);
            }
            bits::drop(&mut types, kind);
        }
        Err(first)
    }

    /// What a claim is planned to be already, if it will still do: nobody has less to choose from than before but itself.
    fn still_spares(&self, load: &Load, req: ReqId, types: &[u64]) -> Option<(usize, u64)> {
        let (kind, price) = load.before?;
        let template = &self.problem.templates[load.template];
        if !bits::has(types, kind) || template.known_row(req).prices[kind] != price {
            return None;
        }
        let mut types = types.to_vec();
        template.drop_cheaper(&mut types, req, (kind, price));
        self.lacking(load, req, &types).is_none().then_some((kind, price))
    }

    /// The types that have room and that limits allow.
    fn choices(&self, load: &Load, req: ReqId) -> Vec<u64> {
        let template = &self.problem.templates[load.template];
        let mut types = template.known_row(req).types.clone();
        template.keep_fitting(&mut types, &load.total);
        load.keep(template, &mut types);
        let fitting = bits::count(&types);
        let before = load.before.map(|(kind, _)| kind);
        template.keep_allowed(&mut types, &self.left[load.template], before);
        if bits::count(&types) < fitting {
            self.met_limit.set(true);
        }
        types
    }

    /// What a claim has too few of if it can become these types alone.
    fn lacking(&self, load: &Load, req: ReqId, types: &[u64]) -> Option<Starved> {
        let few = self.too_few(load.template, req, types).into_iter().next()?;
        Some((Chooser::Own, few))
    }

    /// The types that launch may choose for a claim that is there, where limits leave so much. Where minValues and limits
    /// are there, it is planned to be the cheapest that leaves others what they need, so it is offered no cheaper one.
    pub(in crate::scheduling) fn options_of(&self, claim: usize, left: &[i64]) -> Vec<u64> {
        let held = &self.claims[claim];
        let template = &self.problem.templates[held.template];
        let mut types = self.types_of(claim);
        template.keep_allowed(&mut types, left, Some(held.kind));
        let req = self.bins.req[self.nodes() + claim];
        template.drop_cheaper(&mut types, req, (held.kind, held.price));
        types
    }

    /// What another claim would have too few of, if this one became a type: so much less would be left of the limits.
    pub(super) fn starved(&self, load: &Load, kind: usize) -> Option<TooFew> {
        let before = load.before.map(|(kind, _)| kind);
        self.starved_by(load.template, load.claim, (before, kind))
    }

    /// What a claim would have too few of, if another than it (`by`, or a new one) became another type.
    pub(in crate::scheduling) fn starved_by(
        &self,
        template: usize,
        by: Option<usize>,
        (before, after): (Option<usize>, usize),
    ) -> Option<TooFew> {
        if self.problem.options.min_values == MinValuesPolicy::BestEffort {
            return None;
        }
        let of = &self.problem.templates[template];
        let counted = |kind: usize| &of.types[kind].counted[..];
        let left = limits::less(&self.left[template], before.map(counted), counted(after));
        // With so much left, everything may still become everything.
        if left
            .iter()
            .zip(&of.counted_range)
            .all(|(left, range)| range <= left)
        {
            return None;
        }
        // Claims of one shape have the same types, but for ports.
        let shapes_tell = of.daemon_ports.is_empty();
        let mut seen = BTreeSet::new();
        let mut others = self.claims.iter().enumerate().filter(|(at, claim)| {
            claim.template == template && Some(*at) != by && (!shapes_tell || seen.insert(claim.shape))
        });
        others.find_map(|(at, _)| {
            let types = self.options_of(at, &left);
            let req = self.bins.req[self.nodes() + at];
            self.too_few(template, req, &types).into_iter().next()
        })
    }

    /// The labels of which too few different values are left by these types.
    pub(in crate::scheduling) fn too_few(&self, template: usize, req: ReqId, types: &[u64]) -> Vec<TooFew> {
        let template = &self.problem.templates[template];
        let mut few = Vec::new();
        for (column, least) in &template.min_values {
            let found = self.values_left(template, (req, *column), types);
            if found < *least {
                few.push((*column, *least, found));
            }
        }
        few
    }

    fn values_left(&self, template: &Template, (req, column): (ReqId, usize), types: &[u64]) -> u32 {
        let space = &self.problem.space;
        let columns = offer_columns(space);
        let mut found = space.no_states(column);
        for kind in bits::iter(types) {
            let kind = &template.types[kind];
            if column == columns.0 || column == columns.1 {
                kind.states_sold(space, columns, (req, column), &mut found);
            } else {
                let states = space
                    .part(&kind.set, column)
                    .iter()
                    .zip(space.states(req, column));
                found
                    .iter_mut()
                    .zip(states)
                    .for_each(|(found, (kind, req))| *found |= kind & req);
            }
        }
        let values = space.columns()[column].values.len();
        u32::try_from(bits::iter(&found).filter(|state| *state < values).count()).unwrap_or(u32::MAX)
    }
}
