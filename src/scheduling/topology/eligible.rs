//! On which nodes pods are counted, and over which values of a label they are to be spread: those of nodes that are there and
//! of nodes that could be bought.

use std::collections::BTreeMap;

use super::super::bits;
use super::super::hosts::Host;
use super::super::space::{ANYTHING, ReqId, Space};
use super::super::template::{Template, offer_columns};
use super::super::tolerance::Tolerance;
use super::group::{Filter, Group, Kind, Over};

/// Works out the values for every spread over a label.
pub(in crate::scheduling) fn settle(
    groups: &mut [Group],
    space: &mut Space,
    templates: &mut [Template],
    hosts: &[Host],
    tolerance: &Tolerance,
) {
    let mut known: BTreeMap<(usize, Filter), Vec<u64>> = BTreeMap::new();
    for group in groups {
        let (Kind::Spread { .. }, Over::Label(column)) = (group.kind, group.over) else {
            continue;
        };
        let key = (column, group.filter.clone());
        let values = known.entry(key).or_insert_with(|| {
            let mut values = space.no_states(column);
            for template in templates.iter_mut() {
                of_template(template, column, &group.filter, space, tolerance, &mut values);
            }
            for host in hosts {
                let place = (host.req, host.taints);
                if group.filter.includes(space, tolerance, place)
                    && let Some(state) = space.single(host.req, column)
                {
                    bits::put(&mut values, state);
                }
            }
            values
        });
        group.eligible.clone_from(values);
    }
}

fn of_template(
    template: &mut Template,
    column: usize,
    filter: &Filter,
    space: &mut Space,
    tolerance: &Tolerance,
    values: &mut [u64],
) {
    if filter
        .tolerations
        .is_some_and(|tolerations| !tolerance.covers(tolerations, template.taints))
    {
        return;
    }
    let anything = [ANYTHING];
    let wanted = if filter.requirements.is_empty() {
        &anything[..]
    } else {
        &filter.requirements
    };
    for wanted in wanted {
        let Some(req) = space.and(template.req, *wanted) else {
            continue;
        };
        for state in 0..space.columns()[column].values.len() {
            if bits::has(values, state) || !bits::has(space.states(req, column), state) {
                continue;
            }
            let pinned = space.pinned(req, column, state);
            if pinned.is_some_and(|pinned| !bits::is_empty(&template.row(space, pinned).types)) {
                bits::put(values, state);
            }
        }
    }
}

impl Filter {
    /// Whether pods on a node with these labels and taints are counted.
    pub(in crate::scheduling) fn includes(
        &self,
        space: &mut Space,
        tolerance: &Tolerance,
        (labels, taints): (ReqId, u32),
    ) -> bool {
        let mut wanted = self.requirements.iter();
        (self.requirements.is_empty() || wanted.any(|wanted| space.and(labels, *wanted).is_some()))
            && self
                .tolerations
                .is_none_or(|tolerations| tolerance.covers(tolerations, taints))
    }

    /// The columns of which a claim for pods that ask for these labels must have one value known before it counts: those that
    /// tell whether its node is among those on which pods are counted, where pools and labels leave that open. Such a claim
    /// could become either later, with what was counted on it.
    ///
    /// Only zone and capacity type are among them: every type has one whichever is chosen, so it costs nothing to know it.
    /// What the type itself tells stays open. To know it a claim would have to be of one type, dear and without another to
    /// choose from; so a pod that makes it one of other types takes what was counted there out of the count. Where a pool asks
    /// for a number of different zones or capacity types, launch decides on them as well.
    pub(in crate::scheduling) fn open(
        &self,
        space: &Space,
        templates: &[Template],
        nodes: &[ReqId],
    ) -> Vec<usize> {
        let (zone, capacity_type) = offer_columns(space);
        let is_narrowed = |column: &usize| {
            let mut wanted = self.requirements.iter();
            wanted.any(|wanted| space.states(*wanted, *column) != space.states(ANYTHING, *column))
        };
        let is_free = |column: &usize| {
            let mut asked = templates.iter().flat_map(|template| &template.min_values);
            asked.all(|(of, _)| of != column)
        };
        let leave_open = |column: &usize| {
            templates.iter().any(|template| {
                let of_template = |node: &ReqId| both(space, template.req, *node);
                let mut claims = nodes.iter().filter_map(of_template);
                claims.any(|claim| self.leaves_open(space, &claim, *column))
            })
        };
        let told_by_offers = [zone, capacity_type].into_iter();
        told_by_offers
            .filter(|column| is_narrowed(column) && is_free(column) && leave_open(column))
            .collect()
    }

    /// Whether a claim with these labels may be among those on which pods are counted with some values of a column, and is not
    /// with others.
    fn leaves_open(&self, space: &Space, claim: &[u64], column: usize) -> bool {
        let wanted = self.requirements.iter().map(|wanted| space.bits(*wanted));
        let met: Vec<&[u64]> = wanted.filter(|wanted| space.meet(claim, wanted)).collect();
        let told = space.columns()[column].values.len();
        let values = || bits::iter(space.part(claim, column)).filter(move |value| *value < told);
        let counts = |value: usize| {
            met.iter()
                .any(|wanted| bits::has(space.part(wanted, column), value))
        };
        values().any(counts) && !values().all(counts)
    }
}

/// What both require, if that contradicts nothing.
fn both(space: &Space, one: ReqId, other: ReqId) -> Option<Vec<u64>> {
    let mut both = space.bits(one).to_vec();
    bits::keep(&mut both, space.bits(other));
    space.meet(&both, &both).then_some(both)
}
