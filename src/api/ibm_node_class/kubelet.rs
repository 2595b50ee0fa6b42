//! How the kubelet of every node of a class is configured. The names and their meaning are those of the kubelet's own
//! configuration file, as far as a class may choose them.

use std::collections::{BTreeMap, BTreeSet};

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::api::condition::at_most;
use crate::api::pattern;
use crate::api::violation::{Field, Violations};
use crate::api::wire;

/// What can be kept from pods.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// What a kubelet can be told to watch.
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
/// Most name servers that a pod can have: glibc reads no more.
const NAME_SERVERS_MAX: usize = 3;
/// Longest text of an address.
const ADDRESS_LENGTH_MAX: usize = 45;
/// Where the kubelet begins to remove images, and where it stops, in percent of the disk, unless it is told.
const IMAGE_GC_DEFAULT: (i64, i64) = (85, 80);
const PERCENT: (i64, i64) = (0, 100);
/// The kubelet's own numbers have 32 bits.
const NUMBER: (i64, i64) = (0, i32::MAX as i64);
const PODS: (i64, i64) = (1, i32::MAX as i64);

/// How the kubelet of every node is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "(has(self.imageGCHighThresholdPercent) ? self.imageGCHighThresholdPercent : 85) > \
     (has(self.imageGCLowThresholdPercent) ? self.imageGCLowThresholdPercent : 80)",
    "'imageGCHighThresholdPercent' (default 85) must be greater than 'imageGCLowThresholdPercent' (default 80)",
))]
#[x_kube(validation = (
    "has(self.evictionSoft) == has(self.evictionSoftGracePeriod) && (!has(self.evictionSoft) || \
     (self.evictionSoft.all(s, s in self.evictionSoftGracePeriod) && \
     self.evictionSoftGracePeriod.all(s, s in self.evictionSoft)))",
    "'evictionSoft' and 'evictionSoftGracePeriod' must name the same signals",
))]
pub struct KubeletSettings {
    /// Addresses of the name servers of pods. The cluster's own if absent.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "addresses")]
    pub cluster_dns: Option<Vec<String>>,
    /// How many pods fit at most.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = PODS.0, "maximum" = PODS.1))]
    pub max_pods: Option<i64>,
    /// How many pods fit for each processor, at most `maxPods` in all. No such limit if absent or 0.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = NUMBER.0, "maximum" = NUMBER.1))]
    pub pods_per_core: Option<i64>,
    /// What is kept for the system's own processes.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "reserved")]
    pub system_reserved: Option<BTreeMap<String, String>>,
    /// What is kept for Kubernetes' own processes.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "reserved")]
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// What must stay free, or pods are evicted at once.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "thresholds")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// What must stay free, or pods are evicted after a grace period.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "thresholds")]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    /// The grace period of each signal of `evictionSoft`.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "grace_periods")]
    pub eviction_soft_grace_period: Option<BTreeMap<String, String>>,
    /// How many seconds a pod gets at most when `evictionSoft` evicts it.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = NUMBER.0, "maximum" = NUMBER.1))]
    pub eviction_max_pod_grace_period: Option<i64>,
    /// How full the disk is, in percent, when images begin to be removed.
    #[serde(
        default,
        rename = "imageGCHighThresholdPercent",
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = PERCENT.0, "maximum" = PERCENT.1))]
    pub image_gc_high_threshold_percent: Option<i64>,
    /// How full the disk is, in percent, when that ends.
    #[serde(
        default,
        rename = "imageGCLowThresholdPercent",
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = PERCENT.0, "maximum" = PERCENT.1))]
    pub image_gc_low_threshold_percent: Option<i64>,
    /// Whether limits on processors are enforced by quota, as they are if absent.
    #[serde(default, rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

impl KubeletSettings {
    pub(super) fn validate(&self, at: Field<'_>, found: &mut Violations) {
        self.validate_numbers(at, found);
        self.validate_name_servers(at.at("clusterDNS"), found);
        for (name, amounts) in [
            ("systemReserved", &self.system_reserved),
            ("kubeReserved", &self.kube_reserved),
        ] {
            entries(
                amounts.as_ref(),
                &RESERVABLE,
                &pattern::AMOUNT,
                at.at(name),
                found,
            );
        }
        for (name, thresholds, grammar) in [
            ("evictionHard", &self.eviction_hard, &pattern::THRESHOLD),
            ("evictionSoft", &self.eviction_soft, &pattern::THRESHOLD),
            (
                "evictionSoftGracePeriod",
                &self.eviction_soft_grace_period,
                &pattern::DURATION,
            ),
        ] {
            entries(thresholds.as_ref(), &SIGNALS, grammar, at.at(name), found);
        }
        let signals = |map: &Option<BTreeMap<String, String>>| {
            map.as_ref()
                .map(|map| map.keys().cloned().collect::<BTreeSet<_>>())
        };
        found.require(
            signals(&self.eviction_soft) == signals(&self.eviction_soft_grace_period),
            at,
            "'evictionSoft' and 'evictionSoftGracePeriod' must name the same signals",
        );
    }

    fn validate_numbers(&self, at: Field<'_>, found: &mut Violations) {
        for (name, (min, max), number) in [
            ("maxPods", PODS, self.max_pods),
            ("podsPerCore", NUMBER, self.pods_per_core),
            (
                "evictionMaxPodGracePeriod",
                NUMBER,
                self.eviction_max_pod_grace_period,
            ),
            (
                "imageGCHighThresholdPercent",
                PERCENT,
                self.image_gc_high_threshold_percent,
            ),
            (
                "imageGCLowThresholdPercent",
                PERCENT,
                self.image_gc_low_threshold_percent,
            ),
        ] {
            if number.is_some_and(|number| !(min..=max).contains(&number)) {
                found.blame(at.at(name), format!("is not between {min} and {max}"));
            }
        }
        let high = self.image_gc_high_threshold_percent.unwrap_or(IMAGE_GC_DEFAULT.0);
        let low = self.image_gc_low_threshold_percent.unwrap_or(IMAGE_GC_DEFAULT.1);
        found.require(
            high > low,
            at,
            "'imageGCHighThresholdPercent' (default 85) must be greater than 'imageGCLowThresholdPercent' (default 80)",
        );
    }

    fn validate_name_servers(&self, at: Field<'_>, found: &mut Violations) {
        let servers = self.cluster_dns.as_deref().unwrap_or_default();
        found.require(servers.len() <= NAME_SERVERS_MAX, at, "has more than 3 elements");
        let mut seen = BTreeSet::new();
        for (index, server) in servers.iter().enumerate() {
            pattern::ADDRESS.check(server, at.nth(index), found);
            at_most(ADDRESS_LENGTH_MAX, server, at.nth(index), found);
            found.require(seen.insert(server), at.nth(index), "occurs twice");
        }
    }
}

/// Blames keys that are not `known` and values that do not follow the grammar.
fn entries(
    map: Option<&BTreeMap<String, String>>,
    known: &[&str],
    grammar: &pattern::Pattern,
    at: Field<'_>,
    found: &mut Violations,
) {
    let Some(map) = map else { return };
    for (key, value) in map {
        grammar.check(value, at.at(key), found);
    }
    let are_known = map.keys().all(|key| known.contains(&key.as_str()));
    if !are_known {
        found.blame(at, one_of(known));
    }
    let max = known.len();
    if map.len() > max {
        found.blame(at, format!("has more than {max} entries"));
    }
}

fn one_of(known: &[&str]) -> String {
    format!("every key is one of {}", known.join(", "))
}

fn reserved(_: &mut SchemaGenerator) -> Schema {
    map_of(pattern::AMOUNT.text, &RESERVABLE)
}

fn thresholds(_: &mut SchemaGenerator) -> Schema {
    map_of(pattern::THRESHOLD.text, &SIGNALS)
}

fn grace_periods(_: &mut SchemaGenerator) -> Schema {
    map_of(pattern::DURATION.text, &SIGNALS)
}

fn map_of(grammar: &str, known: &[&str]) -> Schema {
    let list = known
        .iter()
        .map(|key| format!("'{key}'"))
        .collect::<Vec<_>>()
        .join(", ");
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "pattern": grammar},
        "maxProperties": known.len(),
        "x-kubernetes-validations": [
            {"message": one_of(known), "rule": format!("self.all(k, k in [{list}])")},
        ],
    })
}

fn addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": ADDRESS_LENGTH_MAX, "pattern": pattern::ADDRESS.text},
        "maxItems": NAME_SERVERS_MAX,
        "x-kubernetes-list-type": "set",
    })
}
