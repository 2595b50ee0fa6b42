//! Over which values of a label pods are to be spread: those of nodes that are there and of nodes that could be bought.

use std::collections::BTreeMap;

use super::super::bits;
use super::super::hosts::Host;
use super::super::space::{ANYTHING, ReqId, Space};
use super::super::template::Template;
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
    /// The columns that tell whether nodes with some of these labels are among those on which pods are counted, where the
    /// labels alone leave that open: such a node could become either later, with what was counted on it.
    pub(in crate::scheduling) fn open(&self, space: &Space, nodes: &[ReqId]) -> Vec<usize> {
        let within = |node: &ReqId, wanted: &ReqId| {
            let bits = space.bits(*node).iter().zip(space.bits(*wanted));
            bits.into_iter().all(|(node, wanted)| node & !wanted == 0)
        };
        let is_certain = |node: &ReqId| self.requirements.iter().any(|wanted| within(node, wanted));
        if self.requirements.is_empty() || nodes.iter().all(is_certain) {
            return Vec::new();
        }
        let columns = 0..space.columns().len();
        let narrowed = |column: &usize| {
            let mut wanted = self.requirements.iter();
            wanted.any(|wanted| space.states(*wanted, *column) != space.states(ANYTHING, *column))
        };
        columns.filter(narrowed).collect()
    }
}
