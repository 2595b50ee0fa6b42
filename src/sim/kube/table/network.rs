//! Services and the addresses behind them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::column::{Cells, Printer, age, first_few, labels, list, named, number, or_none, text};

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    let (columns, cells): (&'static str, Cells) = match (group, plural) {
        ("", "services") => (
            "Name/name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*",
            service,
        ),
        ("", "endpoints") => ("Name/name | Endpoints | Age", endpoints),
        ("discovery.k8s.io", "endpointslices") => (
            "Name/name | AddressType | Ports | Endpoints | Age",
            endpoint_slice,
        ),
        _ => return None,
    };
    Some(Printer { columns, cells })
}

/// How many addresses a cell shows.
const SHOWN: usize = 3;

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let inside = list(object, "spec.clusterIPs").first().and_then(Value::as_str);
    vec![
        named(object),
        text(object, "spec.type").into(),
        inside.unwrap_or("<none>").into(),
        outside(object).into(),
        ports(object).into(),
        age(object, now),
        labels(object, "spec.selector").into(),
    ]
}

fn outside(object: &Value) -> String {
    let mut addresses: Vec<String> = Vec::new();
    let balanced = match text(object, "spec.type") {
        "ClusterIP" | "NodePort" => false,
        "LoadBalancer" => true,
        "ExternalName" => return text(object, "spec.externalName").to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    if balanced {
        let ingress: BTreeSet<&str> = list(object, "status.loadBalancer.ingress")
            .iter()
            .map(|ingress| match text(ingress, "ip") {
                "" => text(ingress, "hostname"),
                address => address,
            })
            .filter(|address| !address.is_empty())
            .collect();
        addresses.extend(ingress.into_iter().map(str::to_owned));
    }
    let own = list(object, "spec.externalIPs").iter().filter_map(Value::as_str);
    addresses.extend(own.map(str::to_owned));
    match addresses.join(",") {
        text if !text.is_empty() => text,
        _ if balanced => "<pending>".to_owned(),
        _ => "<none>".to_owned(),
    }
}

fn ports(object: &Value) -> String {
    let ports: Vec<String> = list(object, "spec.ports")
        .iter()
        .map(|port| {
            let on_node = match number(port, "nodePort") {
                0 => String::new(),
                number => format!(":{number}"),
            };
            format!("{}{on_node}/{}", number(port, "port"), text(port, "protocol"))
        })
        .collect();
    or_none(ports.join(","))
}

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = Vec::new();
    for subset in list(object, "subsets") {
        let addresses = list(subset, "addresses")
            .iter()
            .map(|address| text(address, "ip"));
        match list(subset, "ports") {
            // A headless service may have no ports at all.
            [] => shown.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports {
                    shown.extend(
                        addresses
                            .clone()
                            .map(|address| host_port(address, number(port, "port"))),
                    );
                }
            }
        }
    }
    let cell = match list(object, "subsets") {
        [] => "<none>".to_owned(),
        _ => first_few(&shown, SHOWN, ","),
    };
    vec![named(object), cell.into(), age(object, now)]
}

fn host_port(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "ports")
        .iter()
        .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = list(object, "endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        named(object),
        text(object, "addressType").into(),
        some(&ports).into(),
        some(&addresses).into(),
        age(object, now),
    ]
}

fn some(items: &[String]) -> String {
    match first_few(items, SHOWN, ",") {
        text if text.is_empty() => "<unset>".to_owned(),
        text => text,
    }
}
