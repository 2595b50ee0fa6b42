//! Stops a sweep that would remove more than a few machines, or what is left of them, or give up more than a few claims.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::Garbage;
use super::view::End;
use crate::api::{IBMNodeClass, NodeClaim, names};
use crate::hash::fnv1a;

/// Up to so many are the work of crashes; reasons to stop begin above.
const FEW: usize = 3;

/// Whether a sweep may remove what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controllers) enum Verdict {
    /// It may.
    Go,
    /// A person must confirm it.
    Stop,
}

/// Among how many garbage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Population {
    /// Machines of ours.
    pub(super) machines: usize,
    /// Claims whose machine ran.
    pub(super) claims: usize,
}

/// Whether what was found may be removed: not when more than three machines, and more than a tenth, belong to nobody, with
/// what is left of others counted; nor when so many claims have a machine that the cloud does not know, or have lost their
/// Node; unless somebody has confirmed exactly these.
pub(super) fn judge(garbage: &Garbage, all: Population, classes: &[IBMNodeClass]) -> Verdict {
    let confirmed = fingerprint(garbage);
    let is_confirmed =
        |class: &IBMNodeClass| class.annotations().get(names::CONFIRM_COLLECTION) == Some(&confirmed);
    let machines = orphans(garbage) + remains(garbage);
    let claims = vanished(garbage) + nodeless(garbage);
    let are_many = exceeds(machines, all.machines) || exceeds(claims, all.claims);
    if are_many && !classes.iter().any(is_confirmed) {
        Verdict::Stop
    } else {
        Verdict::Go
    }
}

fn exceeds(found: usize, all: usize) -> bool {
    found > FEW.max(all / 10)
}

/// Machines of nobody. Those that work count too: they show as well that the cluster has forgotten something.
pub(super) fn orphans(garbage: &Garbage) -> usize {
    garbage.machines.len() + garbage.working.len()
}

/// Claims that are not there and that something was made for which is left, one for all its attempts. What is left of a claim
/// that is there shows that an order failed half way, and not that the cluster has forgotten something.
pub(super) fn remains(garbage: &Garbage) -> usize {
    let owners = garbage.leftovers.iter().map(|it| it.made_for.claim_uid());
    let forgotten: BTreeSet<String> = owners.filter(|uid| garbage.forgotten.contains(uid)).collect();
    forgotten.len()
}

/// Claims whose machine the cloud does not know. Those whose Node is ready count too: they show that the cloud is not asked
/// as it should be.
pub(super) fn vanished(garbage: &Garbage) -> usize {
    ended_by(garbage, &End::Vanished) + garbage.contradicted.len()
}

/// Claims whose machine runs and whose Node somebody has forced out.
pub(super) fn nodeless(garbage: &Garbage) -> usize {
    ended_by(garbage, &End::NodeGone)
}

fn ended_by(garbage: &Garbage, how: &End) -> usize {
    garbage.claims.values().filter(|(_, end)| end == how).count()
}

/// The claims that would go for the want of something that may be there after all, by uid. Those of machines that the cloud
/// shows to be off or broken are not among them.
pub(super) fn given_up(garbage: &Garbage) -> impl Iterator<Item = (&String, &NodeClaim)> {
    let missing = garbage
        .claims
        .iter()
        .filter(|(_, (_, end))| matches!(end, End::Vanished | End::NodeGone));
    missing.map(|(uid, (claim, _))| (uid, claim))
}

/// What a person confirms: these machines, what is left of others, and claims, and no others.
pub(super) fn fingerprint(garbage: &Garbage) -> String {
    let machines = garbage.machines.iter().map(|machine| machine.id.as_str());
    let leftovers = garbage.leftovers.iter().map(|leftover| leftover.id.as_str());
    let claims = given_up(garbage).map(|(uid, _)| uid.as_str());
    let mut ids: Vec<&str> = machines.chain(leftovers).chain(claims).collect();
    ids.sort_unstable();
    format!("{:016x}", fnv1a(ids.join("\n").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cloud::{ClusterId, InstanceName, Leftover, LeftoverKind};

    fn class(confirmed: &str) -> IBMNodeClass {
        let class = json!({
            "metadata": {"name": "default", "annotations": {names::CONFIRM_COLLECTION: confirmed}},
            "spec": {"region": "us-south", "vpc": "v", "image": "i"},
        });
        serde_json::from_value(class).unwrap()
    }

    /// So many claims whose machine has vanished; of these, so many have a Node that is ready.
    fn gone(vanished: usize, ready: usize) -> Garbage {
        let claim = |number: usize| -> NodeClaim {
            let claim = json!({
                "metadata": {"name": format!("a-{number}"), "uid": format!("u-{number}")},
                "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            });
            serde_json::from_value(claim).unwrap()
        };
        let uid = |number: usize| format!("u-{number}");
        Garbage {
            claims: (ready..vanished)
                .map(|it| (uid(it), (claim(it), End::Vanished)))
                .collect(),
            contradicted: (0..ready).map(|it| (uid(it), claim(it))).collect(),
            ..Garbage::default()
        }
    }

    #[test]
    fn more_than_three_and_more_than_a_tenth_stop_a_sweep() {
        for (found, all, verdict) in [
            (0, 0, Verdict::Go),
            (3, 3, Verdict::Go),
            (4, 4, Verdict::Stop),
            (4, 39, Verdict::Stop),
            (4, 40, Verdict::Go),
            (5, 40, Verdict::Stop),
            (10, 100, Verdict::Go),
            (11, 100, Verdict::Stop),
        ] {
            let all = Population {
                machines: 0,
                claims: all,
            };
            for ready in [0, found] {
                assert_eq!(
                    judge(&gone(found, ready), all, &[]),
                    verdict,
                    "{found} of {all:?}"
                );
            }
        }
    }

    /// What is left of so many claims, two things of each; of these, so many are there.
    fn left(claims: usize, there: usize) -> Garbage {
        let cluster = ClusterId::from_kube_system_uid("a");
        let uid = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
        let leftover = |number: usize, kind: LeftoverKind| Leftover {
            id: format!("{kind} {number}"),
            name: String::new(),
            made_for: InstanceName::new(cluster, &uid(number)).unwrap(),
            stem: String::new(),
            kind,
            created_at: None,
        };
        let both = [LeftoverKind::Interface, LeftoverKind::BootVolume];
        Garbage {
            leftovers: (0..claims)
                .flat_map(|number| both.map(|kind| leftover(number, kind)))
                .collect(),
            forgotten: (there..claims).map(uid).collect(),
            ..Garbage::default()
        }
    }

    #[test]
    fn what_is_left_of_many_forgotten_claims_stops_a_sweep_and_of_claims_that_are_there_does_not() {
        let all = Population {
            machines: 9,
            claims: 9,
        };
        for (claims, there, verdict) in [
            (3, 0, Verdict::Go),
            (4, 0, Verdict::Stop),
            (4, 1, Verdict::Go),
            (9, 9, Verdict::Go),
        ] {
            assert_eq!(
                judge(&left(claims, there), all, &[]),
                verdict,
                "{claims}, {there}"
            );
        }
        let four = left(4, 0);
        let confirmed = [class(&fingerprint(&four))];
        assert_eq!(judge(&four, all, &confirmed), Verdict::Go);
        assert_eq!(judge(&left(5, 0), all, &confirmed), Verdict::Stop, "one more");
    }

    #[test]
    fn many_claims_that_have_lost_their_node_stop_a_sweep_and_many_whose_machine_is_off_do_not() {
        let all = Population {
            machines: 9,
            claims: 9,
        };
        for (end, found, verdict) in [
            (End::NodeGone, 3, Verdict::Go),
            (End::NodeGone, 4, Verdict::Stop),
            (End::Stopped(String::new()), 9, Verdict::Go),
            (End::Failed(String::new()), 9, Verdict::Go),
        ] {
            let mut garbage = gone(found, 0);
            for (_, was) in garbage.claims.values_mut() {
                *was = end.clone();
            }
            assert_eq!(judge(&garbage, all, &[]), verdict, "{found} {end:?}");
        }
    }

    #[test]
    fn a_person_confirms_exactly_these() {
        let all = Population {
            machines: 0,
            claims: 9,
        };
        let four = gone(4, 0);
        let confirmed = [class("true"), class(&fingerprint(&four))];
        assert_eq!(judge(&four, all, &confirmed[..1]), Verdict::Stop);
        assert_eq!(judge(&four, all, &confirmed), Verdict::Go);
        assert_eq!(judge(&gone(5, 0), all, &confirmed), Verdict::Stop, "one more");
    }
}
