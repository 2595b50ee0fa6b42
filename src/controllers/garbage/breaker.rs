//! Stops a sweep that would remove more than a few machines.

use kube::ResourceExt;

use super::Garbage;
use crate::api::{IBMNodeClass, names};
use crate::hash::fnv1a;

/// Up to so many are the work of crashes; reasons to stop begin above.
const ORPHANS_MIN: usize = 3;

/// Whether a sweep may remove what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controllers) enum Verdict {
    /// It may.
    Go,
    /// A person must confirm it.
    Stop,
}

/// Whether what was found among so many machines may be removed: not when more than three of them, and more than a
/// tenth, belong to nobody, unless somebody has confirmed exactly these.
pub(super) fn judge(garbage: &Garbage, machines: usize, classes: &[IBMNodeClass]) -> Verdict {
    // Those that work count too: they show as well that the cluster has forgotten something.
    let orphans = garbage.machines.len() + garbage.working.len();
    let confirmed = fingerprint(garbage);
    let is_confirmed =
        |class: &IBMNodeClass| class.annotations().get(names::CONFIRM_COLLECTION) == Some(&confirmed);
    if orphans > ORPHANS_MIN.max(machines / 10) && !classes.iter().any(is_confirmed) {
        Verdict::Stop
    } else {
        Verdict::Go
    }
}

/// What a person confirms: these machines and no others.
pub(super) fn fingerprint(garbage: &Garbage) -> String {
    let mut ids: Vec<&str> = garbage
        .machines
        .iter()
        .map(|machine| machine.id.as_str())
        .collect();
    ids.sort_unstable();
    format!("{:016x}", fnv1a(ids.join("\n").as_bytes()))
}
