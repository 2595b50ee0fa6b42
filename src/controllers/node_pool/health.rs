//! Whether the machines that a pool bought lately have joined.
//!
//! Of the last four machines that joined, or were given up before they did, two failures are too many. What was found
//! stands in the pool's condition; the count itself is memory that a restart may lose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kube::ResourceExt;

use crate::api::{NodeClaim, names};
use crate::lifecycle::facts::Facts;

/// So many machines are looked back at.
const LOOK_BACK: usize = 4;
/// So many failures among them are too many.
const FAILURES_MAX: usize = 2;

/// What the last machines of a pool tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// They join.
    Healthy,
    /// They do not; this is the last failure.
    Unhealthy(String),
}

/// What became of the last machines, by the uid of their pool.
#[derive(Debug, Default)]
pub(super) struct Record(BTreeMap<String, Ring>);

#[derive(Debug, Default)]
struct Ring {
    last: VecDeque<Outcome>,
    /// Claims that are there and were counted.
    counted: BTreeSet<String>,
}

/// What became of a machine.
#[derive(Debug)]
enum Outcome {
    /// It has joined.
    Joined,
    /// It was given up before, and why.
    Failed(String),
}

impl Record {
    /// Counts what became of the claims of a pool since the last look; says how it stands, if anything is known.
    pub(super) fn look(&mut self, pool: &str, claims: &[&NodeClaim]) -> Option<Health> {
        let ring = self.0.entry(pool.to_owned()).or_default();
        let present: BTreeSet<String> = claims.iter().filter_map(|claim| claim.uid()).collect();
        ring.counted.retain(|uid| present.contains(uid));
        for claim in claims {
            let Some((uid, outcome)) = claim.uid().zip(outcome(claim)) else {
                continue;
            };
            if ring.counted.insert(uid) {
                ring.last.push_back(outcome);
            }
        }
        while ring.last.len() > LOOK_BACK {
            ring.last.pop_front();
        }
        ring.health()
    }

    /// Keeps only these pools.
    pub(super) fn keep(&mut self, pools: &BTreeSet<String>) {
        self.0.retain(|pool, _| pools.contains(pool));
    }
}

impl Ring {
    fn health(&self) -> Option<Health> {
        let failures = self.last.iter().filter_map(|outcome| match outcome {
            Outcome::Joined => None,
            Outcome::Failed(why) => Some(why),
        });
        let failures: Vec<&String> = failures.collect();
        let last = failures.last().filter(|_| failures.len() >= FAILURES_MAX);
        match last {
            Some(last) => Some(Health::Unhealthy((*last).clone())),
            None if self.last.len() > failures.len() => Some(Health::Healthy),
            None => None,
        }
    }
}

/// What became of a claim's machine: `None` while that is open. Want of capacity says nothing about joining.
fn outcome(claim: &NodeClaim) -> Option<Outcome> {
    if claim.is(names::NODE_REGISTERED) {
        return Some(Outcome::Joined);
    }
    let end = claim.end()?;
    (end.reason != names::REASON_INSUFFICIENT_CAPACITY)
        .then(|| Outcome::Failed(format!("{}: {}", end.reason, end.message)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(uid: &str, type_: &str, status: &str, reason: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"conditions": [{
                "type": type_, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            }]},
        }))
        .unwrap()
    }

    fn joined(uid: &str) -> NodeClaim {
        claim(uid, "Registered", "True", "Registered")
    }

    fn failed(uid: &str) -> NodeClaim {
        claim(uid, "Registered", "False", names::REASON_REGISTRATION_TIMEOUT)
    }

    #[test]
    fn nothing_is_said_before_a_machine_has_joined_or_failed() {
        let mut record = Record::default();
        let open = claim("a", "Launched", "True", "Launched");
        assert_eq!(record.look("p", &[&open]), None);
        assert_eq!(record.look("p", &[&joined("a")]), Some(Health::Healthy));
    }

    #[test]
    fn two_failures_among_the_last_four_are_too_many_and_later_success_makes_up_for_them() {
        let mut record = Record::default();
        assert_eq!(
            record.look("p", &[&failed("a")]),
            None,
            "one failure alone says little"
        );
        let unhealthy = record.look("p", &[&failed("a"), &failed("b")]);
        assert!(matches!(unhealthy, Some(Health::Unhealthy(_))), "{unhealthy:?}");
        let all: Vec<NodeClaim> = ["c", "d", "e"].map(joined).into();
        assert_eq!(
            record.look("p", &all.iter().collect::<Vec<_>>()),
            Some(Health::Healthy)
        );
    }

    #[test]
    fn each_machine_counts_once() {
        let mut record = Record::default();
        for _ in 0..5 {
            assert_eq!(record.look("p", &[&failed("a")]), None);
        }
    }
}
