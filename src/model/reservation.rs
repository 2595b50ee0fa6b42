//! What of a node is kept from pods: by the kubelet for itself, for the system, and as a margin before it evicts.
//!
//! One computation serves both sides. Instance types subtract it from capacity, and the kubelet's configuration is
//! rendered from it, so what is planned with is what the node reports: `allocatable = capacity − kube − system −
//! eviction`. Only hard eviction thresholds count, as in the kubelet; soft ones change nothing that a node reports.

use std::collections::BTreeMap;

use crate::api::KubeletSettings;
use crate::quantity::Quantity;
use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, amount_of};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// The signals of hard eviction that lower what a node reports, and the resource each is about.
const SIGNALS: [(&str, &str); 2] = [
    ("memory.available", MEMORY),
    ("nodefs.available", EPHEMERAL_STORAGE),
];

/// Pods of a node when nothing else is said: the kubelet's own default.
pub const PODS_MAX_DEFAULT: i64 = 110;

/// What is kept from pods, in amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// For the kubelet and the container runtime.
    pub kube: Resources,
    /// For everything else that is not a pod.
    pub system: Resources,
    /// The margin at which pods are evicted.
    pub eviction: Resources,
}

/// How many pods a node with so many processors takes.
pub fn pods(kubelet: &KubeletSettings, vcpu: i64) -> i64 {
    let most = kubelet.max_pods.unwrap_or(PODS_MAX_DEFAULT);
    // Zero turns the limit per processor off, as in the kubelet.
    let per_core = kubelet.pods_per_core.filter(|per_core| *per_core > 0);
    per_core.map_or(most, |per_core| most.min(per_core.saturating_mul(vcpu)))
}

impl Reservation {
    /// What is kept of `capacity`: what the settings say, and usual amounts of what they do not mention. An amount that
    /// cannot be read, which the schema of a class refuses, counts as not mentioned.
    pub fn of(capacity: &Resources, kubelet: &KubeletSettings) -> Self {
        Self {
            kube: written_over(usual_kube(capacity), kubelet.kube_reserved.as_ref()),
            system: written_over(usual_system(), kubelet.system_reserved.as_ref()),
            eviction: eviction(capacity, kubelet.eviction_hard.as_ref()),
        }
    }

    /// Everything that is kept.
    pub fn total(&self) -> Resources {
        let mut total = self.kube.clone();
        total.add(&self.system);
        total.add(&self.eviction);
        total
    }

    /// What is left of `capacity` for pods.
    pub fn allocatable(&self, capacity: &Resources) -> Resources {
        capacity.minus(&self.total())
    }
}

/// As the larger providers reserve: processors by a scale that flattens, memory by the number of pods that the kubelet
/// must look after (255 MiB and 11 MiB for each), but never more than a quarter of a small machine.
fn usual_kube(capacity: &Resources) -> Resources {
    let by_pods = 255 * MIB + 11 * MIB * capacity.get(PODS);
    let memory = by_pods.min(capacity.get(MEMORY) / 4 / MIB * MIB);
    Resources::new()
        .with(CPU, kubelet_millis(capacity.get(CPU)))
        .with(MEMORY, memory)
        .with(EPHEMERAL_STORAGE, GIB)
}

/// 6 % of the first processor, 1 % of the second, 0.5 % of the next two, 0.25 % of all others; rounded up.
fn kubelet_millis(capacity_millis: i64) -> i64 {
    const STEPS: [(i64, i64); 4] = [(1000, 600), (1000, 100), (2000, 50), (i64::MAX, 25)];
    let mut left = capacity_millis;
    let mut ten_thousandths = 0;
    for (width, share) in STEPS {
        let part = left.min(width);
        ten_thousandths += part * share;
        left -= part;
    }
    (ten_thousandths + 9_999) / 10_000
}

/// systemd, the journal, ssh and the like.
fn usual_system() -> Resources {
    Resources::new().with(CPU, 100).with(MEMORY, 100 * MIB)
}

fn written_over(mut usual: Resources, written: Option<&BTreeMap<String, String>>) -> Resources {
    for (resource, text) in written.into_iter().flatten() {
        if let Ok(quantity) = text.parse::<Quantity>() {
            usual.set(resource, amount_of(resource, quantity).max(0));
        }
    }
    usual
}

/// Thresholds as the kubelet has them when nothing is written: 100 MiB of memory, a tenth of the disk.
fn eviction(capacity: &Resources, written: Option<&BTreeMap<String, String>>) -> Resources {
    let mut margins = Resources::new();
    for (signal, resource) in SIGNALS {
        let all = capacity.get(resource);
        let usual = if resource == MEMORY { 100 * MIB } else { all / 10 };
        let text = written.and_then(|written| written.get(signal));
        let margin = text.and_then(|text| threshold(text, all));
        margins.set(resource, margin.unwrap_or(usual));
    }
    margins
}

/// A threshold in units: an amount, or a percentage of all there is.
fn threshold(text: &str, all: i64) -> Option<i64> {
    /// 100 %, in billionths of a percent.
    const WHOLE: i128 = 100_000_000_000;
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse::<Quantity>().ok().map(|it| it.units_ceil().max(0));
    };
    let share = percent.parse::<Quantity>().ok()?.nanos().clamp(0, WHOLE);
    i64::try_from(i128::from(all) * share / WHOLE).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capacity(vcpu: i64, gib: i64) -> Resources {
        Resources::new()
            .with(CPU, vcpu * 1000)
            .with(MEMORY, gib * GIB)
            .with(EPHEMERAL_STORAGE, 100 * GIB)
            .with(PODS, PODS_MAX_DEFAULT)
    }

    fn written(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn the_usual_reservation_grows_slower_than_the_machine() {
        let millis = |vcpu| {
            Reservation::of(&capacity(vcpu, 64), &KubeletSettings::default())
                .kube
                .get(CPU)
        };
        assert_eq!([1, 2, 4, 8, 64].map(millis), [60, 70, 80, 90, 230]);
        let small = Reservation::of(&capacity(1, 1), &KubeletSettings::default());
        assert_eq!(small.kube.get(MEMORY), 256 * MIB, "a quarter and no more");
        let large = Reservation::of(&capacity(4, 16), &KubeletSettings::default());
        assert_eq!(large.kube.get(MEMORY), (255 + 110 * 11) * MIB);
    }

    #[test]
    fn what_is_written_replaces_the_usual_amount_of_that_resource_alone() {
        let kubelet = KubeletSettings {
            kube_reserved: Some(written(&[("cpu", "250m")])),
            system_reserved: Some(written(&[("memory", "1Gi"), ("pid", "1000")])),
            eviction_hard: Some(written(&[
                ("memory.available", "5%"),
                ("imagefs.available", "15%"),
            ])),
            ..KubeletSettings::default()
        };
        let kept = Reservation::of(&capacity(4, 16), &kubelet);
        assert_eq!(kept.kube.get(CPU), 250);
        assert_eq!(kept.kube.get(MEMORY), (255 + 110 * 11) * MIB);
        assert_eq!((kept.system.get(MEMORY), kept.system.get(CPU)), (GIB, 100));
        assert_eq!(kept.eviction.get(MEMORY), 16 * GIB / 20);
        assert_eq!(kept.eviction.get(EPHEMERAL_STORAGE), 10 * GIB);
    }

    #[test]
    fn thresholds_are_amounts_or_percentages_with_fractions() {
        assert_eq!(threshold("100Mi", 0), Some(100 * MIB));
        assert_eq!(threshold("7.5%", 1000), Some(75));
        assert_eq!(threshold("200%", 1000), Some(1000));
        assert_eq!(threshold("much", 1000), None);
    }

    #[test]
    fn pods_are_limited_by_the_node_and_by_the_processor() {
        let settings = |max_pods, pods_per_core| KubeletSettings {
            max_pods,
            pods_per_core,
            ..KubeletSettings::default()
        };
        assert_eq!(pods(&settings(None, None), 2), 110);
        assert_eq!(pods(&settings(Some(50), Some(10)), 2), 20);
        assert_eq!(pods(&settings(Some(50), Some(10)), 16), 50);
        assert_eq!(pods(&settings(Some(50), Some(0)), 2), 50);
    }

    proptest! {
        #[test]
        fn what_is_left_and_what_is_kept_never_exceed_what_there_is(vcpu in 1i64..300, gib in 1i64..4000, percent in 0u32..100) {
            let capacity = capacity(vcpu, gib);
            let kubelet = KubeletSettings {
                eviction_hard: Some(written(&[("memory.available", &format!("{percent}%"))])),
                ..KubeletSettings::default()
            };
            let kept = Reservation::of(&capacity, &kubelet);
            let left = kept.allocatable(&capacity);
            for (resource, all) in &capacity {
                prop_assert!(left.get(resource) >= 0 && left.get(resource) <= *all);
                let whole = left.get(resource) + kept.total().get(resource);
                prop_assert!(whole == *all || left.get(resource) == 0, "{}", resource);
            }
        }
    }
}
