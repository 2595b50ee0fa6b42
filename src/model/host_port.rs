//! Ports of the node that a pod takes for itself.

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

/// A port on an address of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address; every address if absent.
    pub address: Option<String>,
    /// The number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// How every address of a node is written.
const EVERY_ADDRESS: [&str; 3] = ["", "0.0.0.0", "::"];

impl HostPort {
    /// Those of a pod, in order.
    pub fn of_spec(spec: &PodSpec) -> Vec<Self> {
        let init = spec.init_containers.iter().flatten();
        // An init container that ends gives its ports back; one that keeps running does not.
        let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let ports = spec
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| container.ports.iter().flatten());
        // On the network of the node every port is the node's. The API server writes that into pods, and since 1.28 not into
        // the templates of DaemonSets.
        let on_the_nodes = |port: &ContainerPort| {
            let shares = spec.host_network == Some(true);
            shares.then_some(port.container_port)
        };
        let taken = |port: &ContainerPort| {
            let said = port.host_port.filter(|number| *number != 0);
            let number = said.or_else(|| on_the_nodes(port))?;
            Some(Self::of_port(port, number))
        };
        let mut all: Vec<Self> = ports.filter_map(taken).collect();
        all.sort();
        all.dedup();
        all
    }

    fn of_port(port: &ContainerPort, number: i32) -> Self {
        let address = port.host_ip.clone();
        Self {
            address: address.filter(|address| !EVERY_ADDRESS.contains(&address.as_str())),
            port: number,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        }
    }

    /// Whether both cannot be on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        let addresses = match (&self.address, &other.address) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        addresses && self.port == other.port && self.protocol == other.protocol
    }
}

/// The first of `wanted` that conflicts with one of `taken`.
pub fn conflict<'a>(wanted: &'a [HostPort], taken: &[HostPort]) -> Option<&'a HostPort> {
    wanted
        .iter()
        .find(|port| taken.iter().any(|other| port.conflicts(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn port(address: &str, port: i32, protocol: &str) -> HostPort {
        let written = ContainerPort {
            host_ip: Some(address.to_owned()),
            protocol: Some(protocol.to_owned()),
            ..ContainerPort::default()
        };
        HostPort::of_port(&written, port)
    }

    #[test]
    fn on_the_network_of_the_node_ports_of_containers_are_the_nodes() {
        let ports = |network: Value| {
            let spec = serde_json::from_value(json!({"hostNetwork": network,
                "containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 0},
                    {"containerPort": 82, "hostPort": 8082}]}],
                "initContainers": [{"name": "i", "ports": [{"containerPort": 83}]},
                    {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 84, "protocol": "UDP"}]}]}));
            let all = HostPort::of_spec(&spec.unwrap());
            all.into_iter()
                .map(|port| (port.port, port.protocol))
                .collect::<Vec<_>>()
        };
        let tcp = |port: i32| (port, "TCP".to_owned());
        assert_eq!(
            ports(true.into()),
            [tcp(80), tcp(81), (84, "UDP".to_owned()), tcp(8082)]
        );
        for own in [false.into(), Value::Null] {
            assert_eq!(ports(own), [tcp(8082)]);
        }
    }

    #[test]
    fn the_same_port_conflicts_unless_address_or_protocol_differ() {
        let web = port("10.0.0.1", 80, "TCP");
        assert!(web.conflicts(&web));
        assert!(!web.conflicts(&port("10.0.0.2", 80, "TCP")));
        assert!(!web.conflicts(&port("10.0.0.1", 80, "UDP")));
        assert!(!web.conflicts(&port("10.0.0.1", 81, "TCP")));
    }

    #[test]
    fn an_unspecified_address_conflicts_with_every_address() {
        for unspecified in ["0.0.0.0", "::", ""] {
            assert!(
                port(unspecified, 80, "TCP").conflicts(&port("10.0.0.1", 80, "TCP")),
                "{unspecified}"
            );
        }
    }
}
