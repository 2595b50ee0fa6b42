//! Services and endpoint slices.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::Findings;
use super::{each, is_set, text, words};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn service(found: &mut Findings, spec: &Value) {
    let (kind, headless) = (text(spec, "type"), spec["clusterIP"] == "None");
    let ports = each(spec, "ports").count();
    if ports == 0 && !headless && kind != "ExternalName" {
        found.required("spec.ports", "");
    }
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {kind} services");
        found.invalid("spec.clusterIPs[0]", &spec["clusterIP"], detail);
    }
    if kind == "ExternalName" {
        match text(spec, "externalName") {
            "" => found.required("spec.externalName", ""),
            name => {
                let name = json!(name.trim_end_matches('.'));
                found.word("spec.externalName", &name, words::subdomain);
            }
        }
    }
    let mut names = BTreeSet::new();
    for (index, port) in each(spec, "ports").enumerate() {
        service_port(
            found,
            &format!("spec.ports[{index}]"),
            port,
            ports > 1,
            &mut names,
        );
        if kind == "ClusterIP" && is_set(port, "nodePort") {
            let detail = "may not be used when `type` is 'ClusterIP'";
            found.forbidden(&format!("spec.ports[{index}].nodePort"), detail);
        }
    }
    found.labels("spec.selector", &spec["selector"]);
    found.one_of(
        "spec.sessionAffinity",
        &spec["sessionAffinity"],
        &["ClientIP", "None"],
    );
    for (index, address) in each(spec, "clusterIPs").enumerate() {
        if *address != "None" {
            found.word(&format!("spec.clusterIPs[{index}]"), address, words::address);
        }
    }
    for (index, address) in each(spec, "externalIPs").enumerate() {
        found.word(&format!("spec.externalIPs[{index}]"), address, words::address);
    }
    found.one_of(
        "spec.type",
        &spec["type"],
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    duplicate_ports(found, spec);
}

fn service_port<'a>(
    found: &mut Findings,
    at: &str,
    port: &'a Value,
    named: bool,
    names: &mut BTreeSet<&'a str>,
) {
    let name = text(port, "name");
    if name.is_empty() {
        if named {
            found.required(&format!("{at}.name"), "");
        }
    } else {
        found.word(&format!("{at}.name"), &port["name"], words::label);
        if !names.insert(name) {
            found.duplicate(&format!("{at}.name"), &port["name"]);
        }
    }
    found.port(&format!("{at}.port"), &port["port"]);
    found.one_of(&format!("{at}.protocol"), &port["protocol"], &PROTOCOLS);
    found.port_or_name(&format!("{at}.targetPort"), &port["targetPort"]);
}

fn duplicate_ports(found: &mut Findings, spec: &Value) {
    let mut seen = BTreeSet::new();
    for (index, port) in each(spec, "ports").enumerate() {
        if !seen.insert((text(port, "protocol"), port["port"].as_i64())) {
            let pair = json!({"protocol": port["protocol"], "port": port["port"]});
            found.duplicate(&format!("spec.ports[{index}]"), &pair);
        }
    }
}

pub(super) fn endpoints(found: &mut Findings, object: &Value) {
    for (index, subset) in each(object, "subsets").enumerate() {
        let at = format!("subsets[{index}]");
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| each(subset, list).next().is_none()) {
            found.required(&at, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            for (index, address) in each(subset, list).enumerate() {
                found.word(
                    &format!("{at}.{list}[{index}].ip"),
                    &address["ip"],
                    words::address,
                );
            }
        }
        let several = each(subset, "ports").count() > 1;
        for (index, port) in each(subset, "ports").enumerate() {
            let at = format!("{at}.ports[{index}]");
            match text(port, "name") {
                "" if several => found.required(&format!("{at}.name"), ""),
                "" => {}
                _ => found.word(&format!("{at}.name"), &port["name"], words::label),
            }
            found.port(&format!("{at}.port"), &port["port"]);
            found.one_of(&format!("{at}.protocol"), &port["protocol"], &PROTOCOLS);
        }
    }
}

pub(super) fn endpoint_slice(found: &mut Findings, slice: &Value) {
    let family = text(slice, "addressType");
    match family {
        "" => found.required("addressType", ""),
        _ => found.one_of("addressType", &slice["addressType"], &["FQDN", "IPv4", "IPv6"]),
    }
    for (index, endpoint) in each(slice, "endpoints").enumerate() {
        let at = format!("endpoints[{index}].addresses");
        if each(endpoint, "addresses").next().is_none() {
            found.required(&at, "must contain at least 1 address");
        }
        for (index, address) in each(endpoint, "addresses").enumerate() {
            let text = address.as_str().unwrap_or_default();
            let holds = match family {
                "IPv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => true,
            };
            if !holds {
                let detail = format!("must be a valid {family} address");
                found.invalid(&format!("{at}[{index}]"), address, detail);
            }
        }
    }
    let mut names = BTreeSet::new();
    for (index, port) in each(slice, "ports").enumerate() {
        found.one_of(&format!("ports[{index}].protocol"), &port["protocol"], &PROTOCOLS);
        if !names.insert(text(port, "name")) {
            found.duplicate(&format!("ports[{index}].name"), &port["name"]);
        }
        if is_set(port, "name") {
            found.word(&format!("ports[{index}].name"), &port["name"], words::label);
        }
    }
}
