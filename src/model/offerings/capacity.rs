//! What a node of a class will report: a safe share of what is sold, corrected by what nodes were seen to have.
//!
//! What a node reports is a kubelet's word. More than is sold would plan pods onto nodes that cannot hold them, next to
//! nothing would make every node look too small for any pod; so one machine that lies could spoil a profile, or a class,
//! for everybody. It is believed within bounds ([`credible`]): the shares below are policies, not measurements.

use super::{ClassFacts, MIB};
use crate::model::kind::Kind;
use crate::model::reservation;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

const GIB: i64 = 1 << 30;

/// What is learnt from nodes. The rest is as certain as the profile.
pub const LEARNT: [&str; 3] = [EPHEMERAL_STORAGE, MEMORY, PODS];

/// The smallest share of the memory sold that a node is believed to see, in percent; less only where the safe share is
/// less, as it is below 1.6 GiB. Well below the safe share of larger profiles (92.5 %), so that an image which keeps
/// more than was thought of is still learnt, and a lie costs a fifth.
const MEMORY_PERCENT_MIN: i64 = 80;

/// The smallest share of the disk, and of the pods, that a node is believed to have, in percent. Both can be far less
/// than was promised without a lie: an image whose root does not grow has some GB of any volume, and user data can
/// write the kubelet another limit. Whoever asks for no disk loses nothing by a lie about it.
const OTHERS_PERCENT_MIN: i64 = 10;

/// What a node of the class will report, at least.
///
/// Memory is a matter of the profile. The disk is a volume of the class, which it boots by the same image on every
/// profile, and without `podsPerCore` all its kubelets have one limit: of these, what one node has too little of, nodes of
/// no other profile have more of. Else a pod that does not fit would be bought one machine of each profile.
pub fn capacity(kind: &Kind, class: &ClassFacts) -> Resources {
    let mut capacity = promised(kind, class);
    let own = class
        .observed
        .get(&kind.name)
        .map(|seen| credible(kind, class, seen));
    for resource in LEARNT {
        let seen = own
            .as_ref()
            .map(|seen| seen.get(resource))
            .filter(|seen| *seen > 0);
        let shared = is_shared(resource, class).then(|| least_of_others(resource, kind, class));
        let known = [seen, shared.flatten()].into_iter().flatten().min();
        if let Some(known) = known {
            capacity.set(resource, known);
        }
    }
    capacity
}

/// What is assumed before a node was seen.
fn promised(kind: &Kind, class: &ClassFacts) -> Resources {
    let mut promised = Resources::new()
        .with(CPU, kind.vcpu.saturating_mul(1000))
        .with(MEMORY, unseen_memory(kind.memory_bytes))
        .with(EPHEMERAL_STORAGE, unseen_disk(class.boot_volume_bytes))
        .with(PODS, reservation::pods(&class.kubelet, kind.vcpu));
    if let Some(cards) = &kind.gpus {
        promised.set(&cards.resource(), cards.count);
    }
    promised
}

/// What a guest sees of the memory that is sold, at least.
///
/// The kernel keeps 64 bytes for each page of 4 KiB (1.6 %), its own image and the firmware's tables; where a crash
/// kernel is set up (RHEL 9: 192 MiB up to 4 GiB, 256 MiB up to 64 GiB, 512 MiB above) that is gone too. 7.5 % covers
/// this from 5 GiB on and is what Karpenter assumes on AWS; below, 320 MiB do.
fn unseen_memory(sold: i64) -> i64 {
    let kept = (sold / 40 * 3).max(320 * MIB);
    // Kubelets count memory in KiB.
    (sold - kept).max(0) / 1024 * 1024
}

/// What a file system leaves of the boot volume: a GiB goes to the partitions for booting, and less than 5 % of the rest
/// to tables and journal (ext4 with its usual 256 bytes for each 16 KiB: 1.6 %, and at most 1 GiB of journal).
fn unseen_disk(volume_bytes: i64) -> i64 {
    (volume_bytes - GIB).max(0) / 100 * 95
}

/// What is believed of what a node of a kind reports, with nothing of what is no observation.
pub fn credible(kind: &Kind, class: &ClassFacts, reported: &Resources) -> Resources {
    let promised = promised(kind, class);
    let mut believed = Resources::new();
    for resource in LEARNT {
        let (least, most) = bounds(resource, kind, class, &promised);
        let said = reported.get(resource);
        if (1..=most).contains(&said) {
            believed.set(resource, said.max(least));
        }
    }
    believed
}

/// The least and the most that a node of a kind is believed to have.
fn bounds(resource: &str, kind: &Kind, class: &ClassFacts, promised: &Resources) -> (i64, i64) {
    let share = |of: i64, percent: i64| of.saturating_mul(percent) / 100;
    let promise = promised.get(resource);
    match resource {
        MEMORY => {
            let sold = kind.memory_bytes;
            (share(sold, MEMORY_PERCENT_MIN).min(promise), sold)
        }
        EPHEMERAL_STORAGE => (share(promise, OTHERS_PERCENT_MIN), class.boot_volume_bytes),
        _ => (share(promise, OTHERS_PERCENT_MIN).max(1), promise),
    }
}

/// Whether nodes of a class have the same of a resource, whatever their profile.
fn is_shared(resource: &str, class: &ClassFacts) -> bool {
    match resource {
        EPHEMERAL_STORAGE => true,
        PODS => class.kubelet.pods_per_core.is_none_or(|per_core| per_core == 0),
        _ => false,
    }
}

/// The least that nodes of other profiles reported of what all have the same of.
fn least_of_others(resource: &str, kind: &Kind, class: &ClassFacts) -> Option<i64> {
    let others = class
        .observed
        .iter()
        .filter(|(profile, _)| **profile != kind.name);
    // Their bounds are those of this kind, as the promise is the same.
    let believed = others.map(|(_, seen)| credible(kind, class, seen).get(resource));
    believed.filter(|seen| *seen > 0).min()
}
