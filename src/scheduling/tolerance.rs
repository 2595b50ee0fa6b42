//! Which pods tolerate the taints of which nodes, each pair of lists compared once.

use std::collections::BTreeMap;

use crate::model::taint::{Preferring, Taint, Toleration, untolerated};

/// Lists of taints and of tolerations by number, and the verdicts on their pairs.
#[derive(Debug, Default)]
pub(super) struct Tolerance {
    taints: BTreeMap<Vec<Taint>, u32>,
    taint_lists: Vec<Vec<Taint>>,
    tolerations: BTreeMap<(Vec<Toleration>, Preferring), u32>,
    toleration_lists: Vec<(Vec<Toleration>, Preferring)>,
    verdicts: Vec<Vec<bool>>,
}

impl Tolerance {
    /// The number of a list of taints.
    pub(super) fn taints(&mut self, list: &[Taint]) -> u32 {
        if let Some(id) = self.taints.get(list) {
            return *id;
        }
        let id = u32::try_from(self.taint_lists.len()).unwrap_or(u32::MAX);
        self.taint_lists.push(list.to_vec());
        self.taints.insert(list.to_vec(), id);
        id
    }

    /// The number of a list of tolerations.
    pub(super) fn tolerations(&mut self, list: &[Toleration], preferring: Preferring) -> u32 {
        let key = (list.to_vec(), preferring);
        if let Some(id) = self.tolerations.get(&key) {
            return *id;
        }
        let id = u32::try_from(self.toleration_lists.len()).unwrap_or(u32::MAX);
        self.toleration_lists.push(key.clone());
        self.tolerations.insert(key, id);
        id
    }

    /// Compares every pair, once all lists are known.
    pub(super) fn settle(&mut self) {
        let verdict = |(tolerations, preferring): &(Vec<Toleration>, Preferring)| {
            let lists = self.taint_lists.iter();
            lists
                .map(|taints| untolerated(taints, tolerations, *preferring).is_none())
                .collect()
        };
        self.verdicts = self.toleration_lists.iter().map(verdict).collect();
    }

    /// Whether these tolerations cover these taints.
    pub(super) fn covers(&self, tolerations: u32, taints: u32) -> bool {
        self.verdicts[tolerations as usize][taints as usize]
    }

    /// Whether any list has a taint that only prefers.
    pub(super) fn some_prefer(&self) -> bool {
        let mut all = self.taint_lists.iter().flatten();
        all.any(|taint| taint.effect == crate::model::Effect::PreferNoSchedule)
    }
}
