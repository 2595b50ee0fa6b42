//! How many pods each group counts where.

use super::super::bits;
use super::super::space::{ReqId, Space};
use super::group::{Group, GroupId, Over};

/// The counts of all groups.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduling) struct Counts(Vec<Count>);

/// The counts of one group, by node or by the state of a label.
#[derive(Clone, Debug, Default)]
struct Count {
    /// Pods that are selected.
    matched: Vec<u32>,
    /// Pods that must be far from those selected.
    owned: Vec<u32>,
    /// The places with selected pods, and those with pods that must be far from them, as sets.
    matched_at: Vec<u64>,
    owned_at: Vec<u64>,
    /// Selected pods in all.
    total: u64,
}

/// Whom is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduling) enum Counted {
    /// A pod that is selected.
    Selected,
    /// A pod that must be far from those selected.
    Keeper,
}

impl Counts {
    /// Nothing counted yet.
    pub(in crate::scheduling) fn new(groups: usize) -> Self {
        Self(vec![Count::default(); groups])
    }

    /// Selected pods at a place.
    pub(in crate::scheduling) fn matched(&self, group: GroupId, place: usize) -> i64 {
        i64::from(self.0[group].matched.get(place).copied().unwrap_or_default())
    }

    /// Pods at a place that must be far from those selected.
    pub(in crate::scheduling) fn owned(&self, group: GroupId, place: usize) -> i64 {
        i64::from(self.0[group].owned.get(place).copied().unwrap_or_default())
    }

    /// Which of 64 places have selected pods.
    pub(in crate::scheduling) fn matched_at(&self, group: GroupId, block: usize) -> u64 {
        self.0[group].matched_at.get(block).copied().unwrap_or_default()
    }

    /// Which of 64 places have pods that must be far from those selected.
    pub(in crate::scheduling) fn owned_at(&self, group: GroupId, block: usize) -> u64 {
        self.0[group].owned_at.get(block).copied().unwrap_or_default()
    }

    /// Selected pods in all.
    pub(in crate::scheduling) fn total(&self, group: GroupId) -> u64 {
        self.0[group].total
    }

    /// Counts a pod on a node, whose labels are these. A node without the label is no place.
    pub(in crate::scheduling) fn add(
        &mut self,
        space: &Space,
        (id, group): (GroupId, &Group),
        (host, labels): (Option<usize>, ReqId),
        counted: Counted,
    ) {
        let place = match group.over {
            Over::Hosts => host,
            Over::Label(column) => space.single(labels, column),
        };
        let count = &mut self.0[id];
        if counted == Counted::Selected && (place.is_some() || group.over == Over::Hosts) {
            count.total += 1;
        }
        let Some(place) = place else { return };
        let (list, at) = match counted {
            Counted::Selected => (&mut count.matched, &mut count.matched_at),
            Counted::Keeper => (&mut count.owned, &mut count.owned_at),
        };
        bits::put_growing(at, place);
        if list.len() <= place {
            list.resize(place + 1, 0);
        }
        list[place] += 1;
    }
}
