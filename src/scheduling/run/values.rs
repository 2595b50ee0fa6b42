//! How many different values of a label a claim leaves to choose from, where its pool asks for a number of them.
//!
//! Only types count that limits still allow when the plan is whole: a claim that others leave no room to become anything
//! else would be refused for having too few. So each step looks at the claims that are there already as well.

use std::collections::BTreeSet;

use super::super::MinValuesPolicy;
use super::super::bits;
use super::super::limits;
use super::super::space::ReqId;
use super::super::template::{Template, offer_columns};
use super::Run;
use super::offer::Load;

/// A label of which too few different values are left: column, number asked for, number left.
pub(in crate::scheduling) type TooFew = (usize, u32, u32);

impl Run<'_, '_> {
    /// Whether the types that have room leave as many different values as are asked for, or need not.
    pub(super) fn enough_values(&self, load: &Load, req: ReqId) -> bool {
        if self.problem.options.min_values == MinValuesPolicy::BestEffort {
            return true;
        }
        let template = &self.problem.templates[load.template];
        let mut types = template.known_row(req).types.clone();
        template.keep_fitting(&mut types, &load.total);
        load.keep(template, &mut types);
        let before = load.before.map(|(kind, _)| kind);
        template.keep_allowed(&mut types, &self.left[load.template], before);
        self.too_few(load.template, req, &types).is_empty()
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
        // Claims of one shape have the same types, but for ports and volumes.
        let shapes_tell = self.volumes.is_empty() && of.daemon_ports.is_empty();
        let mut seen = BTreeSet::new();
        let mut others = self.claims.iter().enumerate().filter(|(at, claim)| {
            claim.template == template && Some(*at) != by && (!shapes_tell || seen.insert(claim.shape))
        });
        others.find_map(|(at, claim)| {
            let mut types = self.types_of(at);
            of.keep_allowed(&mut types, &left, Some(claim.kind));
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
