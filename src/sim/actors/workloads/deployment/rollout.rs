//! The arithmetic of a rollout: how many replicas each set may have now.
//!
//! Never more than `replicas + maxSurge` pods are asked for, and never fewer than `replicas - maxUnavailable` stay
//! available by what is done here. Pods that are not available anyway go first.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DeploymentSpec, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::scaled::{Rounding, scaled};
use super::sets::{key, replicas};
use crate::sim::actors::view::Key;

/// The replicas that sets are to have.
pub(super) type Sizes = BTreeMap<Key, i32>;

/// How a deployment gets from one version to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All old pods go before new ones come.
    Recreate { desired: i32 },
    /// New ones come as old ones go.
    Rolling(Rolling),
}

/// The bounds of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rolling {
    /// How many pods there are to be.
    pub(super) desired: i32,
    /// How many more there may be meanwhile.
    pub(super) surge: i32,
    /// How many fewer may be available meanwhile.
    pub(super) unavailable: i32,
}

impl Strategy {
    /// What a deployment asks for.
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        let desired = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Self::Recreate { desired };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".to_owned());
        let surge = rolling
            .and_then(|rolling| rolling.max_surge.as_ref())
            .unwrap_or(&quarter);
        let unavailable = rolling
            .and_then(|rolling| rolling.max_unavailable.as_ref())
            .unwrap_or(&quarter);
        Self::Rolling(Rolling::new(desired, surge, unavailable))
    }

    /// How many pods there are to be.
    pub(super) fn desired(&self) -> i32 {
        match self {
            Self::Recreate { desired } | Self::Rolling(Rolling { desired, .. }) => *desired,
        }
    }

    /// How many of them may be missing while the deployment still counts as available.
    pub(super) fn unavailable(&self) -> i32 {
        match self {
            Self::Recreate { .. } => 0,
            Self::Rolling(rolling) => rolling.unavailable.min(rolling.desired),
        }
    }
}

impl Rolling {
    fn new(desired: i32, surge: &IntOrString, unavailable: &IntOrString) -> Self {
        let surge = scaled(surge, desired, Rounding::Up);
        let unavailable = scaled(unavailable, desired, Rounding::Down);
        Self {
            desired,
            surge,
            // Two shares that both come to nothing would never move.
            unavailable: if surge == 0 && unavailable == 0 {
                1
            } else {
                unavailable
            },
        }
    }

    fn least_available(&self) -> i32 {
        self.desired - self.unavailable.min(self.desired)
    }

    /// How many pods a new set may begin with.
    pub(super) fn first(&self, old: &[&ReplicaSet]) -> i32 {
        let others: i32 = old.iter().map(|set| replicas(set)).sum();
        (self.desired + self.surge - others).clamp(0, self.desired)
    }

    /// The next step: the new set grows while there is room; only when it cannot, the old ones shrink.
    pub(super) fn steps(&self, new: &ReplicaSet, old: &[&ReplicaSet]) -> Sizes {
        let size = self.size_of_new(new, old);
        if size != replicas(new) {
            return [(key(new), size)].into();
        }
        self.sizes_of_old(new, old)
    }

    fn size_of_new(&self, new: &ReplicaSet, old: &[&ReplicaSet]) -> i32 {
        let has = replicas(new);
        if has >= self.desired {
            return self.desired;
        }
        let room = self.desired + self.surge - has - old.iter().map(|set| replicas(set)).sum::<i32>();
        has + room.clamp(0, self.desired - has)
    }

    fn sizes_of_old(&self, new: &ReplicaSet, old: &[&ReplicaSet]) -> Sizes {
        let all: i32 = replicas(new) + old.iter().map(|set| replicas(set)).sum::<i32>();
        let new_missing = replicas(new) - available(new);
        let mut spare = (all - self.least_available() - new_missing).max(0);
        let mut sizes = Sizes::new();
        for set in old {
            let idle = replicas(set) - available(set);
            let cut = idle.min(spare);
            sizes.insert(key(set), replicas(set) - cut);
            spare -= cut;
        }
        let standing: i32 = available(new) + old.iter().map(|set| available(set)).sum::<i32>();
        let mut spare = spare.min(standing - self.least_available()).max(0);
        for size in old
            .iter()
            .filter_map(|set| Some((*set, *sizes.get(&key(set))?)))
            .collect::<Vec<_>>()
        {
            let cut = size.1.min(spare);
            sizes.insert(key(size.0), size.1 - cut);
            spare -= cut;
        }
        sizes
    }
}

/// The available pods of a set, of those that it is still asked for: its status may not know yet that it shrinks.
fn available(set: &ReplicaSet) -> i32 {
    let status = set.status.as_ref().and_then(|status| status.available_replicas);
    status.unwrap_or(0).min(replicas(set))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::super::trial::named;
    use super::*;

    fn set(name: &str, replicas: i32, available: i32) -> ReplicaSet {
        named(
            name,
            json!({"spec": {"replicas": replicas, "selector": {}},
                   "status": {"replicas": replicas, "availableReplicas": available}}),
        )
    }

    fn rolling(desired: i32, surge: i32, unavailable: i32) -> Rolling {
        Rolling {
            desired,
            surge,
            unavailable,
        }
    }

    fn sizes(plan: &Sizes) -> Vec<(&str, i32)> {
        plan.iter()
            .map(|(key, size)| (key.name.as_str(), *size))
            .collect()
    }

    #[test]
    fn shares_are_rounded_so_that_a_rollout_always_moves() {
        let share = |percent: &str| IntOrString::String(percent.to_owned());
        assert_eq!(Rolling::new(3, &share("25%"), &share("25%")), rolling(3, 1, 0));
        assert_eq!(Rolling::new(10, &share("25%"), &share("25%")), rolling(10, 3, 2));
        assert_eq!(
            Rolling::new(3, &IntOrString::Int(0), &share("10%")),
            rolling(3, 0, 1)
        );
    }

    #[test]
    fn the_new_set_grows_into_the_surge_and_then_waits() {
        let step = rolling(3, 1, 0);
        let (new, old) = (set("new", 0, 0), set("old", 3, 3));
        assert_eq!(sizes(&step.steps(&new, &[&old])), [("new", 1)]);
        let new = set("new", 1, 0);
        assert_eq!(
            sizes(&step.steps(&new, &[&old])),
            [("old", 3)],
            "not available yet"
        );
        let new = set("new", 1, 1);
        assert_eq!(sizes(&step.steps(&new, &[&old])), [("old", 2)]);
        let (new, old) = (set("new", 3, 3), set("old", 1, 1));
        assert_eq!(sizes(&step.steps(&new, &[&old])), [("old", 0)]);
    }

    #[test]
    fn pods_that_do_not_work_anyway_go_first_and_cost_nothing() {
        let step = rolling(4, 1, 1);
        let (new, broken, sound) = (set("new", 1, 0), set("broken", 2, 0), set("sound", 2, 2));
        assert_eq!(
            sizes(&step.steps(&new, &[&broken, &sound])),
            [("broken", 1), ("sound", 2)]
        );
    }

    #[test]
    fn fewer_replicas_are_taken_from_the_new_set_first() {
        let step = rolling(2, 1, 0);
        assert_eq!(sizes(&step.steps(&set("new", 5, 5), &[])), [("new", 2)]);
    }

    proptest! {
        /// Steps are taken, pods become available at random, until nothing is left to do.
        #[test]
        fn a_rollout_keeps_its_bounds_and_ends(
            desired in 0i32..12, surge in 0i32..4, unavailable in 0i32..4, started in 0i32..12, luck in proptest::collection::vec(0i32..3, 200),
        ) {
            let step = Rolling::new(desired, &IntOrString::Int(surge), &IntOrString::Int(unavailable));
            let (mut old, mut new) = ((started.min(desired), started.min(desired)), (0, 0));
            for lucky in luck {
                let sets = (set("new", new.0, new.1), set("old", old.0, old.1));
                let plan = step.steps(&sets.0, &[&sets.1]);
                let before = new.1 + old.1;
                for (key, size) in &plan {
                    let which = if key.name == "new" { &mut new } else { &mut old };
                    *which = (*size, which.1.min(*size));
                }
                prop_assert!(new.0 + old.0 <= desired + step.surge);
                prop_assert!(new.1 + old.1 >= before.min(step.least_available()));
                new.1 = (new.1 + lucky).min(new.0);
            }
            prop_assert_eq!((new.0, old.0), (desired, 0));
        }
    }
}
