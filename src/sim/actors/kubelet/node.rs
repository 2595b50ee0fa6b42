//! The Node that a kubelet makes of its machine: what there is, what pods get of it, and how it is called.
//!
//! A guest never sees all the memory that a profile promises: firmware and kernel keep about 2 % of it and the
//! crash kernel another 2 % but no more than 160 MiB. So `memory = M − M/50 − min(M/50, 160 MiB)`: 4 % less on small
//! machines and 2 % on large ones.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::behavior::Missing;
use super::machine::Machine;
use super::settings::Settings;
use crate::quantity::Quantity;

/// Amounts by resource: processors in thousandths, everything else in units.
pub type Amounts = BTreeMap<String, i64>;

const MIB: i64 = 1 << 20;

/// What a machine has, and what of it pods get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// What there is.
    pub total: Amounts,
    /// What pods get.
    pub allocatable: Amounts,
}

impl Capacity {
    /// The capacity of a machine of which `missing` percent of the memory are missing.
    pub fn of(machine: &Machine, settings: &Settings, missing: u8) -> Self {
        let missing = Missing {
            memory: missing,
            ..Missing::default()
        };
        Self::lacking(machine, settings, missing)
    }

    /// The capacity of a machine of which so much is missing.
    pub fn lacking(machine: &Machine, settings: &Settings, missing: Missing) -> Self {
        let profile = machine.profile;
        let memory = visible_memory(i64::from(profile.memory_gib) * 1024 * MIB);
        let memory = memory / 100 * left(missing.memory);
        // What a file system leaves of a volume.
        let storage = i64::try_from(machine.storage_gb).unwrap_or(0) * 1_000_000_000 / 100 * 95;
        let storage = storage / 100 * left(missing.disk);
        let pods = i64::from(settings.pods_max) * left(missing.pods) / 100;
        let mut total: Amounts = [
            ("cpu", i64::from(profile.vcpu) * 1000),
            ("memory", memory / 1024 * 1024),
            ("ephemeral-storage", storage / 1024 * 1024),
            ("pods", pods),
            ("hugepages-1Gi", 0),
            ("hugepages-2Mi", 0),
        ]
        .map(|(name, amount)| (name.to_owned(), amount))
        .into();
        // As if the image came with the device plugin of its cards.
        if let Some(gpu) = &profile.gpu {
            let maker = gpu.manufacturer.to_lowercase();
            let name = match maker.as_str() {
                "intel" => "habana.ai/gaudi".to_owned(),
                _ => format!("{maker}.com/gpu"),
            };
            total.insert(name, i64::from(gpu.count));
        }
        let allocatable = allocatable(&total, settings);
        Self { total, allocatable }
    }
}

/// How many percent are left without so many.
fn left(missing: u8) -> i64 {
    i64::from(100 - missing.min(100))
}

fn visible_memory(promised: i64) -> i64 {
    let share = promised / 50;
    promised - share - share.min(160 * MIB)
}

fn allocatable(total: &Amounts, settings: &Settings) -> Amounts {
    let reserved = &settings.reserved;
    let mut left = total.clone();
    for (resource, amount) in reserved.kube.iter().chain(&reserved.system) {
        take(&mut left, resource, amount_of(resource, amount));
    }
    let thresholds = [
        ("memory.available", "memory"),
        ("nodefs.available", "ephemeral-storage"),
    ];
    for (signal, resource) in thresholds {
        let Some(threshold) = reserved.eviction.get(signal) else {
            continue;
        };
        let all = total.get(resource).copied().unwrap_or(0);
        take(&mut left, resource, threshold_of(threshold, all));
    }
    left
}

fn take(from: &mut Amounts, resource: &str, amount: i64) {
    if let Some(left) = from.get_mut(resource) {
        *left = left.saturating_sub(amount).max(0);
    }
}

fn threshold_of(text: &str, all: i64) -> i64 {
    match text.strip_suffix('%').map(str::parse::<i64>) {
        Some(Ok(percent)) => all / 100 * percent.clamp(0, 100),
        Some(Err(_)) => 0,
        None => amount_of("memory", text),
    }
}

/// An amount as it is counted here; what cannot be read is nothing.
pub fn amount_of(resource: &str, text: &str) -> i64 {
    let Ok(quantity) = text.parse::<Quantity>() else {
        return 0;
    };
    if resource == "cpu" {
        quantity.millis_ceil()
    } else {
        quantity.units_ceil()
    }
}

/// Amounts as a Node shows them.
fn shown(amounts: &Amounts) -> Value {
    let shown = amounts.iter().map(|(resource, amount)| {
        let text = match resource.as_str() {
            "cpu" if amount % 1000 == 0 => format!("{}", amount / 1000),
            "cpu" => format!("{amount}m"),
            "memory" => format!("{}Ki", amount / 1024),
            _ => amount.to_string(),
        };
        (resource.clone(), Value::String(text))
    });
    Value::Object(shown.collect())
}

/// The Node as it is registered, without conditions.
pub fn registration(machine: &Machine, settings: &Settings, capacity: &Capacity) -> Value {
    let mut labels = settings.labels.clone();
    for (label, value) in own_labels(settings) {
        labels.entry(label.to_owned()).or_insert(value);
    }
    let mut spec = json!({});
    if let Some(id) = &settings.provider_id {
        spec["providerID"] = json!(id);
    }
    if !settings.taints.is_empty() {
        spec["taints"] = json!(settings.taints);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": settings.node_name, "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": spec,
        "status": facts(machine, settings, capacity),
    })
}

/// The labels that a kubelet keeps on its Node, also on one that was there before.
pub fn own_labels(settings: &Settings) -> [(&'static str, String); 5] {
    [
        ("kubernetes.io/hostname", settings.node_name.clone()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("beta.kubernetes.io/os", "linux".to_owned()),
        ("beta.kubernetes.io/arch", "amd64".to_owned()),
    ]
}

/// The part of the status that stays the same as long as the machine runs.
pub fn facts(machine: &Machine, settings: &Settings, capacity: &Capacity) -> Value {
    json!({
        "capacity": shown(&capacity.total),
        "allocatable": shown(&capacity.allocatable),
        "addresses": [
            {"type": "InternalIP", "address": machine.address.to_string()},
            {"type": "Hostname", "address": settings.node_name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": machine.id.replace(['_', '-'], ""),
            "systemUUID": machine.id,
            "bootID": format!("{}-{}", machine.id, machine.boots),
            "kernelVersion": "6.8.0-1022-ibm",
            "osImage": "Ubuntu 24.04.3 LTS",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.35.4",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::ibm::builtin::find_profile;
    use crate::sim::actors::kubelet::disk::Disk;

    pub(in crate::sim::actors::kubelet) fn machine(profile: &str) -> Machine {
        Machine {
            id: "0717_a-b".to_owned(),
            name: "kib-1".to_owned(),
            zone: "us-south-1".to_owned(),
            profile: find_profile(profile).unwrap(),
            address: Ipv4Addr::new(10, 240, 0, 4),
            storage_gb: 100,
            user_data: String::new(),
            metadata_service: true,
            boots: 0,
        }
    }

    pub(in crate::sim::actors::kubelet) fn settings(line: &str) -> Settings {
        let arguments: Vec<String> = format!("--kubeconfig=/k --hostname-override=a {line}")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Settings::read(&arguments, &Disk::default(), "vm", 2).unwrap()
    }

    #[test]
    fn every_machine_shows_two_to_four_percent_less_memory_than_its_profile() {
        for profile in crate::ibm::builtin::profiles() {
            let capacity = Capacity::of(&machine(profile.name), &settings(""), 0);
            let promised = i64::from(profile.memory_gib) << 30;
            let less = promised - capacity.total["memory"];
            assert!(less * 100 >= promised * 2 - promised / 100, "{}", profile.name);
            assert!(less * 100 <= promised * 4 + promised / 100, "{}", profile.name);
        }
    }

    #[test]
    fn pods_get_what_is_not_reserved() {
        let line = "--kube-reserved=cpu=100m,memory=512Mi --system-reserved=memory=256Mi --eviction-hard=memory.available<100Mi,nodefs.available<10% --max-pods=50";
        let capacity = Capacity::of(&machine("bxf-2x8"), &settings(line), 0);
        let (total, left) = (&capacity.total, &capacity.allocatable);
        assert_eq!(left["cpu"], 1900);
        assert_eq!(total["memory"] - left["memory"], (512 + 256 + 100) * MIB);
        assert_eq!(
            left["ephemeral-storage"],
            total["ephemeral-storage"] - total["ephemeral-storage"] / 100 * 10
        );
        assert_eq!(left["pods"], 50);
        assert_eq!(shown(left)["cpu"], "1900m");
    }

    #[test]
    fn a_machine_can_have_less_memory_than_it_should() {
        let usual = Capacity::of(&machine("bxf-2x8"), &settings(""), 0).total["memory"];
        let less = Capacity::of(&machine("bxf-2x8"), &settings(""), 10).total["memory"];
        assert!(less <= usual / 10 * 9 + 1024 && less > usual / 10 * 8);
    }

    #[test]
    fn a_machine_can_have_less_disk_than_it_should_and_take_fewer_pods() {
        let (machine, settings) = (machine("bxf-2x8"), settings("--max-pods=110"));
        let usual = Capacity::of(&machine, &settings, 0);
        let lacking = |disk, pods| {
            let missing = Missing {
                disk,
                pods,
                ..Missing::default()
            };
            Capacity::lacking(&machine, &settings, missing)
        };
        assert_eq!(lacking(0, 0), usual);
        let less = lacking(40, 85);
        for amounts in [&less.total, &less.allocatable] {
            assert_eq!(amounts["pods"], 16);
        }
        let disk = |capacity: &Capacity| capacity.total["ephemeral-storage"];
        assert!(disk(&less) <= disk(&usual) / 10 * 6 + 1024 && disk(&less) > disk(&usual) / 10 * 5);
        for whole in ["cpu", "memory"] {
            assert_eq!(less.total[whole], usual.total[whole], "{whole}");
        }
        assert_eq!(lacking(200, 200).total["pods"], 0);
    }

    #[test]
    fn a_node_says_who_and_where_it_is() {
        let settings = settings(
            "--provider-id=ibm:///us-south/0717_a-b --node-labels=team=x --register-with-taints=a:NoExecute",
        );
        let machine = machine("bxf-2x8");
        let node = registration(&machine, &settings, &Capacity::of(&machine, &settings, 0));
        assert_eq!(node["metadata"]["name"], "a");
        assert_eq!(node["metadata"]["labels"]["team"], "x");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "a");
        assert_eq!(node["spec"]["providerID"], "ibm:///us-south/0717_a-b");
        assert_eq!(node["spec"]["taints"][0]["effect"], "NoExecute");
        assert_eq!(node["status"]["addresses"][0]["address"], "10.240.0.4");
    }
}
