//! What all nodes of a NodePool may have together.
//!
//! A claim counts with the capacity of its cheapest type, since that is what is bought unless it cannot be had. Types
//! that would exceed what is left are not offered to launch, and launch checks the limits once more against everything
//! that is in flight then; so nothing is counted pessimistically here.

use crate::model::{Node, Pool};
use crate::resources::Resources;

/// The limit that counts nodes.
const NODES: &str = "nodes";

/// The limits of a pool, by resource.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// The resources.
    pub(super) names: Vec<String>,
    /// How much is allowed.
    pub(super) allowed: Vec<i64>,
    /// How much there is already, with what is in flight and what is leaving.
    pub(super) used: Vec<i64>,
}

impl Limits {
    /// Those of a pool, given all nodes. `None` if it has none.
    pub(super) fn of(pool: &Pool, nodes: &[Node]) -> Option<Self> {
        let limits = pool.limits.as_ref().filter(|limits| !limits.is_empty())?;
        let names: Vec<String> = limits.iter().map(|(name, _)| name.clone()).collect();
        let mut used = vec![0_i64; names.len()];
        for node in nodes
            .iter()
            .filter(|node| node.pool.as_deref() == Some(&pool.name))
        {
            for (sum, amount) in used.iter_mut().zip(counted(&names, &node.capacity)) {
                *sum = sum.saturating_add(amount);
            }
        }
        Some(Self {
            allowed: limits.iter().map(|(_, amount)| *amount).collect(),
            used,
            names,
        })
    }

    /// What a node with this capacity counts.
    pub(super) fn count(&self, capacity: &Resources) -> Vec<i64> {
        counted(&self.names, capacity)
    }

    /// How much is left of each.
    pub(super) fn left(&self) -> Vec<i64> {
        let left = |(allowed, used): (&i64, &i64)| allowed.saturating_sub(*used);
        self.allowed.iter().zip(&self.used).map(left).collect()
    }
}

fn counted(names: &[String], capacity: &Resources) -> Vec<i64> {
    let amount = |name: &String| if name == NODES { 1 } else { capacity.get(name) };
    names.iter().map(amount).collect()
}

/// Whether what is left allows this much more, where `before` is counted already. Less is always allowed.
pub(super) fn allow(left: &[i64], before: Option<&[i64]>, after: &[i64]) -> bool {
    left.iter().enumerate().all(|(at, left)| {
        let more = after[at] - before.map_or(0, |before| before[at]);
        more <= 0 || more <= *left
    })
}

/// What is left after this much more, where `before` is counted already.
pub(super) fn less(left: &[i64], before: Option<&[i64]>, after: &[i64]) -> Vec<i64> {
    let more = |at: usize| after[at] - before.map_or(0, |before| before[at]);
    let left = left.iter().enumerate();
    left.map(|(at, left)| left.saturating_sub(more(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::CPU;

    #[test]
    fn what_is_in_flight_or_leaving_counts_and_nodes_are_counted() {
        let pool = Pool {
            name: "p".to_owned(),
            weight: 0,
            requirements: crate::model::Requirements::new(),
            taints: Vec::new(),
            limits: Some(Resources::new().with(CPU, 10_000).with(NODES, 3)),
            types: std::sync::Arc::default(),
        };
        let node = |pool: &str| Node {
            pool: Some(pool.to_owned()),
            capacity: Resources::new().with(CPU, 4000),
            ..Node::default()
        };
        let limits = Limits::of(&pool, &[node("p"), node("other"), node("p")]).unwrap();
        assert_eq!(limits.left(), [2000, 1]);
        let four = limits.count(&Resources::new().with(CPU, 4000));
        assert!(!allow(&limits.left(), None, &four));
        let two = limits.count(&Resources::new().with(CPU, 2000));
        assert!(allow(&limits.left(), None, &two));
        assert!(
            allow(&limits.left(), Some(&two), &four),
            "two more of which two are left"
        );
        assert!(allow(&[-5, -5], Some(&four), &two), "less is always allowed");
    }
}
