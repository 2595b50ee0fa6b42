//! Stops a sweep that would remove more than a few machines, or give up more than a few claims.

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

/// Whether what was found may be removed: not when more than three machines, and more than a tenth, belong to nobody, nor
/// when so many claims have a machine that the cloud does not know, unless somebody has confirmed exactly these.
pub(super) fn judge(garbage: &Garbage, all: Population, classes: &[IBMNodeClass]) -> Verdict {
    let confirmed = fingerprint(garbage);
    let is_confirmed =
        |class: &IBMNodeClass| class.annotations().get(names::CONFIRM_COLLECTION) == Some(&confirmed);
    let are_many = exceeds(orphans(garbage), all.machines) || exceeds(vanished(garbage), all.claims);
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

/// Claims whose machine the cloud does not know. Those whose Node is ready count too: they show that the cloud is not asked
/// as it should be.
pub(super) fn vanished(garbage: &Garbage) -> usize {
    given_up(garbage).count() + garbage.contradicted.len()
}

/// The claims that would go since their machine has vanished, by uid.
pub(super) fn given_up(garbage: &Garbage) -> impl Iterator<Item = (&String, &NodeClaim)> {
    let vanished = garbage
        .claims
        .iter()
        .filter(|(_, (_, end))| *end == End::Vanished);
    vanished.map(|(uid, (claim, _))| (uid, claim))
}

/// What a person confirms: these machines and claims and no others.
pub(super) fn fingerprint(garbage: &Garbage) -> String {
    let machines = garbage.machines.iter().map(|machine| machine.id.as_str());
    let claims = given_up(garbage).map(|(uid, _)| uid.as_str());
    let mut ids: Vec<&str> = machines.chain(claims).collect();
    ids.sort_unstable();
    format!("{:016x}", fnv1a(ids.join("\n").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
