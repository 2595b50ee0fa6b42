//! What a pod asks of its node: resources and host ports.
//!
//! CPU is counted in thousandths, everything else in whole units, both rounded up once per pod, as the real scheduler
//! does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

use crate::quantity::Quantity;

/// The processor's name among resources.
pub(in crate::sim::actors) const CPU: &str = "cpu";
/// Memory's name among resources.
pub(in crate::sim::actors) const MEMORY: &str = "memory";
/// The name under which pods themselves are counted.
pub(in crate::sim::actors) const PODS: &str = "pods";

/// What a container that asks for no CPU is taken to use when nodes are compared: 100 thousandths.
const CPU_ASSUMED: i64 = 100;
/// What a container that asks for no memory is taken to use when nodes are compared: 200 MB.
const MEMORY_ASSUMED: i64 = 200 * 1024 * 1024;

/// Amounts by resource name.
pub(in crate::sim::actors) type Amounts = BTreeMap<String, i64>;

type Nanos = BTreeMap<String, i128>;

/// What a list of quantities amounts to. One that cannot be read counts as nothing; the API server lets none through.
pub(in crate::sim::actors) fn amounts(list: Option<&BTreeMap<String, Written>>) -> Amounts {
    rounded(nanos(list))
}

/// The requests of a pod: its containers and restartable init containers together, or the most that its other init
/// containers need while they run, plus overhead. Requests of the pod as a whole replace those of its containers.
pub(in crate::sim::actors) fn requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let mut total = of_containers(spec, requested);
    for (name, amount) in requested(spec.resources.as_ref()) {
        total.insert(name, amount);
    }
    add(&mut total, &nanos(spec.overhead.as_ref()));
    rounded(total)
}

/// What a pod is taken to use when nodes are compared: its requests, or an assumption where a container has none.
pub(super) fn usage(pod: &Pod) -> Amounts {
    let assume = |resources: Option<&ResourceRequirements>| {
        let mut asked = requested(resources);
        asked
            .entry(CPU.to_owned())
            .or_insert(i128::from(CPU_ASSUMED) * 1_000_000);
        asked
            .entry(MEMORY.to_owned())
            .or_insert(i128::from(MEMORY_ASSUMED) * 1_000_000_000);
        asked
    };
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let mut total = of_containers(spec, assume);
    add(&mut total, &nanos(spec.overhead.as_ref()));
    rounded(total)
}

fn of_containers(spec: &PodSpec, ask: impl Fn(Option<&ResourceRequirements>) -> Nanos) -> Nanos {
    let mut running = Nanos::new();
    for container in &spec.containers {
        add(&mut running, &ask(container.resources.as_ref()));
    }
    // A restartable init container runs beside all that start after it; another one only beside the restartable ones
    // that were started before.
    let (mut sidecars, mut most) = (Nanos::new(), Nanos::new());
    for container in spec.init_containers.iter().flatten() {
        let asked = ask(container.resources.as_ref());
        if is_sidecar(container) {
            add(&mut running, &asked);
            add(&mut sidecars, &asked);
            raise(&mut most, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &asked);
            raise(&mut most, &beside);
        }
    }
    raise(&mut running, &most);
    running
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn requested(resources: Option<&ResourceRequirements>) -> Nanos {
    nanos(resources.and_then(|resources| resources.requests.as_ref()))
}

fn nanos(list: Option<&BTreeMap<String, Written>>) -> Nanos {
    let read = |written: &Written| written.0.parse::<Quantity>().map_or(0, Quantity::nanos);
    let list = list.into_iter().flatten();
    list.map(|(name, written)| (name.clone(), read(written)))
        .collect()
}

fn add(to: &mut Nanos, more: &Nanos) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

fn raise(to: &mut Nanos, at_least: &Nanos) {
    for (name, amount) in at_least {
        let entry = to.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn rounded(exact: Nanos) -> Amounts {
    let round = |name: &str, nanos: i128| {
        let unit = if name == CPU { 1_000_000 } else { 1_000_000_000 };
        i64::try_from((nanos + unit - 1).div_euclid(unit)).unwrap_or(i64::MAX)
    };
    exact
        .into_iter()
        .map(|(name, nanos)| {
            let amount = round(&name, nanos);
            (name, amount)
        })
        .collect()
}

/// A port of the node itself: protocol, address, number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort {
    protocol: String,
    address: String,
    number: i32,
}

/// Every address.
const ANY: &str = "0.0.0.0";

impl HostPort {
    fn of(port: &ContainerPort) -> Option<Self> {
        let number = port.host_port.filter(|number| *number > 0)?;
        let text = |field: &Option<String>, otherwise: &str| {
            let given = field.clone().filter(|text| !text.is_empty());
            given.unwrap_or_else(|| otherwise.to_owned())
        };
        Some(Self {
            protocol: text(&port.protocol, "TCP"),
            address: text(&port.host_ip, ANY),
            number,
        })
    }

    /// Whether two pods cannot have both on one node.
    fn conflicts(&self, other: &Self) -> bool {
        self.protocol == other.protocol
            && self.number == other.number
            && (self.address == other.address || self.address == ANY || other.address == ANY)
    }
}

/// The ports of its node that a pod takes.
pub(super) fn host_ports(pod: &Pod) -> BTreeSet<HostPort> {
    let Some(spec) = &pod.spec else {
        return BTreeSet::new();
    };
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|one| is_sidecar(one));
    let containers = spec.containers.iter().chain(sidecars);
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(HostPort::of)
        .collect()
}

/// Whether any wanted port is taken.
pub(super) fn collide(wanted: &BTreeSet<HostPort>, taken: &BTreeSet<HostPort>) -> bool {
    wanted
        .iter()
        .any(|one| taken.iter().any(|other| one.conflicts(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut pod = json!({});
        pod["spec"] = spec;
        serde_json::from_value(pod).unwrap()
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        let mut sidecar = container(cpu);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    }

    #[test]
    fn init_containers_count_by_what_runs_beside_them() {
        let table = [
            (json!({"containers": [container("1"), container("500m")]}), 1500),
            (
                json!({"containers": [container("1")], "initContainers": [container("3"), container("2")]}),
                3000,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("2")]}),
                3000,
            ),
            (
                json!({"containers": [container("4")], "initContainers": [sidecar("1"), container("2")]}),
                5000,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("1")]}),
                2000,
            ),
            (
                json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}),
                1250,
            ),
            (
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}),
                2000,
            ),
            (json!({"containers": [container("1u")]}), 1),
        ];
        for (spec, cpu) in table {
            assert_eq!(requests(&pod(spec.clone()))[CPU], cpu, "{spec}");
        }
    }

    #[test]
    fn every_resource_name_counts() {
        let asked = json!({"memory": "1Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "1k"});
        let asking = pod(json!({"containers": [{"name": "c", "resources": {"requests": asked}}]}));
        let expected = [
            ("ephemeral-storage", 1000),
            (MEMORY, 1 << 30),
            ("nvidia.com/gpu", 2),
        ];
        assert_eq!(
            requests(&asking),
            expected.map(|(name, amount)| (name.to_owned(), amount)).into()
        );
    }

    #[test]
    fn a_container_without_requests_is_assumed_to_use_something() {
        let silent = pod(json!({"containers": [{"name": "c"}, container("1")]}));
        assert_eq!(usage(&silent)[CPU], 1100);
        assert_eq!(usage(&silent)[MEMORY], 2 * MEMORY_ASSUMED);
    }

    #[test]
    fn ports_collide_by_protocol_number_and_address() {
        let port = |protocol: &str, ip: &str, number: i32| {
            let port = json!({"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol});
            host_ports(&pod(json!({"containers": [{"name": "c", "ports": [port]}]})))
        };
        let table = [
            (port("TCP", "", 80), port("TCP", "", 80), true),
            (port("TCP", "", 80), port("UDP", "", 80), false),
            (port("TCP", "", 80), port("TCP", "", 81), false),
            (port("TCP", "10.0.0.1", 80), port("TCP", "10.0.0.2", 80), false),
            (port("TCP", "10.0.0.1", 80), port("TCP", "", 80), true),
            (port("TCP", "", 0), port("TCP", "", 0), false),
        ];
        for (one, other, collision) in table {
            assert_eq!(collide(&one, &other), collision, "{one:?} and {other:?}");
        }
    }
}
