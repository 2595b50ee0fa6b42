//! A run under faults against the run of the same seed without any.
//!
//! A controller that deletes and rebuys a healthy machine ends in the right state and is still wrong: only the count of
//! what it did shows it. So creates and deletes are counted by kind, and what exceeds the calm run must be explained by
//! machines or claims that really were lost.

use super::Outcome;
use super::effects::{Deed, Verb};
use crate::sim::invariants::Violation;

/// Faults each strike of which may cost a machine or bring a claim more: another purchase and another return follow.
const COSTLY: &[&str] = &[
    "c9-start-fails",
    "c10-preemption",
    "c11-host-failure",
    "c13-partial-create",
    "c16-wrong-profile",
    "k9-created-and-deleted",
    "k10-recreated",
    "k14-delete-machine",
    "k14-strip-finalizer",
];

/// What a run did more of than the calm one, without a reason.
pub fn compare(calm: &Outcome, outcome: &Outcome) -> Vec<Violation> {
    let losses = |name: &&str| outcome.faults.get(*name).copied().unwrap_or_default();
    let excused: u64 = COSTLY.iter().map(losses).sum();
    let deeds = outcome
        .counts
        .iter()
        .filter(|(deed, _)| deed.verb != Verb::Update);
    let excess = deeds.filter_map(|(deed, &count)| {
        let calm = calm.counts.get(deed).copied().unwrap_or_default();
        // Whether a machine had become a Node when it was given back is a matter of minutes, which faults cost.
        let usual = if deed.kind == "nodes" {
            calm.max(returned(outcome))
        } else {
            calm
        };
        (count > usual + excused).then(|| Violation {
            id: "R1",
            at: outcome.simulated,
            message: format!(
                "{} {}: {count} times, {usual} without faults, {excused} excused by losses",
                deed.verb.as_str(),
                deed.kind
            ),
        })
    });
    excess.collect()
}

/// Machines that were given back, each of which may have left a Node behind.
fn returned(outcome: &Outcome) -> u64 {
    let returns = |(deed, _): &(&Deed, &u64)| deed.kind == "instances" && deed.verb == Verb::Delete;
    outcome
        .counts
        .iter()
        .filter(returns)
        .map(|(_, count)| count)
        .sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::sim::history::{History, Keep};
    use crate::sim::probes::Probes;
    use crate::sim::world::Verdict;

    fn outcome(bought: u64, preempted: u64) -> Outcome {
        let deed = Deed {
            kind: "instances".to_owned(),
            verb: Verb::Create,
        };
        Outcome {
            verdict: Verdict::Passed,
            violations: Vec::new(),
            probes: Probes::default(),
            faults: BTreeMap::from([("c10-preemption", preempted)]),
            requests: 0,
            effects: bought,
            events: 0,
            simulated: Duration::ZERO,
            trace: 0,
            counts: BTreeMap::from([(deed, bought)]),
            history: History::new(Keep::All),
        }
    }

    #[test]
    fn a_purchase_too_many_is_a_violation_and_one_for_a_lost_machine_is_not() {
        assert_eq!(compare(&outcome(3, 0), &outcome(3, 0)), []);
        assert_eq!(compare(&outcome(3, 0), &outcome(2, 0)), []);
        assert_eq!(compare(&outcome(3, 0), &outcome(4, 1)), []);
        let excess = compare(&outcome(3, 0), &outcome(5, 1));
        assert_eq!(excess.len(), 1);
        assert!(
            excess[0].message.starts_with("create instances: 5 times"),
            "{excess:?}"
        );
    }
}
