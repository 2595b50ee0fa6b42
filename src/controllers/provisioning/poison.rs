//! Finds what no plan can be made with, by halving.
//!
//! A kind of thing without which a plan can be made is at fault; of several such kinds the one of which fewest things must
//! be left out: a bad DaemonSet is cured by leaving out every pool as well. Where no kind alone is at fault, everything is
//! let in bit by bit, and what cannot be let in stays out. So with what is left a plan has been made.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use crate::panics::Panicked;

/// Plans that are tried for one kind: enough to find ten things among ten thousand (twice the binary logarithm for
/// each). After that what is together is left out together.
const TRIALS_MAX: usize = 256;

/// What a plan is made from, the more likely culprit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Pods that wait and ask for the same.
    Pods,
    /// A DaemonSet.
    Daemon,
    /// A node with the pods on it.
    Node,
    /// A claim to a volume, a volume or a storage class.
    Storage,
    /// A NodePool.
    Pool,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Pods, Self::Daemon, Self::Node, Self::Storage, Self::Pool];
    /// Each after what it is only looked at with.
    const LET_IN: [Self; 5] = [Self::Storage, Self::Pool, Self::Daemon, Self::Node, Self::Pods];
}

/// One thing, by its place among those of its kind.
pub(super) type Thing = (Kind, usize);
/// The things that a plan is made from.
pub(super) type Kept = BTreeSet<Thing>;
/// Makes a plan from these things only.
pub(super) type Trial<'a> = &'a (dyn Fn(Kept) -> BoxFuture<'a, Result<(), Panicked>> + Send + Sync);

/// The fewest things to leave out of `all`, with which no plan can be made, and what the panic said at each.
pub(super) async fn find(all: &Kept, trial: Trial<'_>) -> Vec<(Thing, Panicked)> {
    let mut fewest: Option<Vec<(Thing, Panicked)>> = None;
    for kind in Kind::ALL {
        let (group, mut base) = all.iter().partition::<Kept, _>(|thing| thing.0 == kind);
        if group.is_empty() || trial(base.clone()).await.is_err() {
            continue;
        }
        let bad = let_in(&mut base, group, trial).await;
        if bad.len() == 1 {
            return bad;
        }
        if fewest.as_ref().is_none_or(|fewest| bad.len() < fewest.len()) {
            fewest = Some(bad);
        }
    }
    match fewest {
        Some(bad) => bad,
        None => bit_by_bit(all, trial).await,
    }
}

async fn bit_by_bit(all: &Kept, trial: Trial<'_>) -> Vec<(Thing, Panicked)> {
    let (mut base, mut bad) = (Kept::new(), Vec::new());
    for kind in Kind::LET_IN {
        let group = all.iter().filter(|thing| thing.0 == kind).copied();
        bad.extend(let_in(&mut base, group.collect(), trial).await);
    }
    bad
}

/// Adds to `base` what can be added; says what cannot.
async fn let_in(base: &mut Kept, group: Kept, trial: Trial<'_>) -> Vec<(Thing, Panicked)> {
    let mut bad = Vec::new();
    let mut groups: Vec<Vec<Thing>> = vec![group.into_iter().collect()];
    let mut trials = 0;
    while let Some(group) = groups.pop() {
        let with: Kept = base.iter().chain(&group).copied().collect();
        trials += 1;
        match trial(with.clone()).await {
            Ok(()) => *base = with,
            Err(panicked) if group.len() < 2 || trials > TRIALS_MAX => {
                bad.extend(group.into_iter().map(|thing| (thing, panicked.clone())));
            }
            Err(_) => {
                let (one, other) = group.split_at(group.len() / 2);
                groups.extend([other.to_vec(), one.to_vec()]);
            }
        }
    }
    bad
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;

    const PODS: Thing = (Kind::Pods, 700);
    const DAEMON: Thing = (Kind::Daemon, 1);
    const NODE: Thing = (Kind::Node, 3);

    fn everything() -> Kept {
        let counts = [1000, 3, 50, 20, 4];
        let all = Kind::ALL.into_iter().zip(counts);
        all.flat_map(|(kind, count)| (0..count).map(move |at| (kind, at)))
            .collect()
    }

    /// What is left out where plans panic at such things, after how many plans.
    fn found(panics: impl Fn(&Kept) -> bool + Send + Sync) -> (Vec<Thing>, usize) {
        let trials = AtomicUsize::new(0);
        let trial = |kept: Kept| {
            trials.fetch_add(1, Ordering::Relaxed);
            let answer = if panics(&kept) {
                Err(Panicked("poison".to_owned()))
            } else {
                Ok(())
            };
            async move { answer }.boxed()
        };
        let all = everything();
        let bad = find(&all, &trial).now_or_never().unwrap();
        let bad: Vec<Thing> = bad.into_iter().map(|(thing, _)| thing).collect();
        let rest: Kept = all.iter().filter(|thing| !bad.contains(thing)).copied().collect();
        assert!(!panics(&rest) || panics(&Kept::new()), "the rest is sound");
        (bad, trials.into_inner())
    }

    #[test]
    fn one_bad_thing_of_any_kind_is_found_with_few_plans() {
        for bad in [PODS, DAEMON, NODE, (Kind::Storage, 19), (Kind::Pool, 0)] {
            let (found, trials) = found(|kept| kept.contains(&bad));
            assert_eq!(found, [bad]);
            assert!(trials < 40, "{bad:?}: {trials} plans");
        }
    }

    #[test]
    fn a_daemon_that_shows_at_pools_only_is_blamed_and_no_pool_is() {
        let has_pool = |kept: &Kept| kept.iter().any(|thing| thing.0 == Kind::Pool);
        assert_eq!(found(|kept| kept.contains(&DAEMON) && has_pool(kept)).0, [DAEMON]);
    }

    #[test]
    fn a_pool_that_shows_at_pods_only_is_blamed_and_no_pod_is() {
        let bad = (Kind::Pool, 2);
        let has_pods = |kept: &Kept| kept.iter().any(|thing| thing.0 == Kind::Pods);
        assert_eq!(found(|kept| kept.contains(&bad) && has_pods(kept)).0, [bad]);
    }

    #[test]
    fn bad_things_of_several_kinds_are_all_found() {
        let mut bad = found(|kept| kept.contains(&NODE) || kept.contains(&PODS)).0;
        bad.sort_unstable();
        assert_eq!(bad, [PODS, NODE]);
    }

    #[test]
    fn of_two_that_are_bad_together_one_stays() {
        let other = (Kind::Pods, 3);
        let bad = found(|kept| kept.contains(&PODS) && kept.contains(&other)).0;
        assert_eq!(bad, [PODS]);
    }

    #[test]
    fn where_nothing_works_the_search_ends() {
        let (_, trials) = found(|_| true);
        assert!(trials < 2 * Kind::ALL.len() * TRIALS_MAX, "{trials} plans");
    }
}
