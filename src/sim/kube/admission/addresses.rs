//! Addresses and node ports of services: the lowest that is free, so that the same requests get the same ones.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Admission;
use crate::sim::kube::builtin::fields::{each, each_mut, fill, is_set, text};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::{About, Refusal};
use crate::sim::kube::schema::Cause;
use crate::sim::kube::server::State;

/// The first address of services that is given out: 10.96.0.1 is the API server's own.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 2);
/// The range 10.96.0.0/16.
const LAST: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 254);
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Gives a service what it lacks; on update it keeps what it has.
pub(super) fn allocate(state: &State, admission: &Admission<'_>, service: &mut Value) -> Result<(), Refusal> {
    if admission.subresource.is_some() {
        return Ok(());
    }
    if let Some(old) = admission.old {
        keep(old, service);
    }
    if service["spec"]["type"] == "ExternalName" {
        return Ok(());
    }
    let taken = taken(state, service);
    address(admission, &taken, service)?;
    families(service);
    ports(&taken, service);
    Ok(())
}

#[derive(Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

fn taken(state: &State, service: &Value) -> Taken {
    let mut taken = Taken::default();
    for stored in state.store.list(&TableKey::of("", "services"), None) {
        if stored.key.name == object::name(service) && stored.key.namespace == object::namespace(service) {
            continue;
        }
        let other = stored.value();
        taken
            .addresses
            .insert(text(&other["spec"], "clusterIP").to_owned());
        taken
            .ports
            .extend(each(&other["spec"], "ports").filter_map(|port| port["nodePort"].as_i64()));
    }
    taken
}

/// An update that does not mention what was given out does not give it back.
fn keep(old: &Value, service: &mut Value) {
    if old["spec"]["type"] == "ExternalName" || service["spec"]["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs"] {
        if is_set(&old["spec"], field) {
            fill(&mut service["spec"], field, old["spec"][field].clone());
        }
    }
    if !matches!(text(&service["spec"], "type"), "NodePort" | "LoadBalancer") {
        return;
    }
    for port in each_mut(&mut service["spec"], "ports") {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let before = each(&old["spec"], "ports").find(same);
        if let Some(number) = before.and_then(|before| before["nodePort"].as_i64()) {
            fill(port, "nodePort", number);
        }
    }
}

fn address(admission: &Admission<'_>, taken: &Taken, service: &mut Value) -> Result<(), Refusal> {
    let name = object::name(service).to_owned();
    let spec = &mut service["spec"];
    if !is_set(spec, "clusterIP") && is_set(&spec["clusterIPs"], "0") {
        spec["clusterIP"] = spec["clusterIPs"][0].clone();
    }
    match text(spec, "clusterIP") {
        "" => {
            let mut free = (u32::from(FIRST)..=u32::from(LAST)).map(|bits| Ipv4Addr::from(bits).to_string());
            let free = free.find(|address| !taken.addresses.contains(address));
            spec["clusterIP"] = free.unwrap_or_default().into();
        }
        "None" => {}
        // Validation says what is wrong with what is no address at all.
        wanted if wanted.parse::<std::net::IpAddr>().is_err() => {}
        wanted => {
            let parsed = wanted.parse::<Ipv4Addr>();
            // What is no address at all is refused by validation.
            let in_range = parsed.map_or(true, |ip| ip >= Ipv4Addr::new(10, 96, 0, 1) && ip <= LAST);
            let problem = if !in_range {
                "failed to allocate IP: the provided network does not match the current range"
            } else if taken.addresses.contains(wanted) {
                "failed to allocate IP: provided IP is already allocated"
            } else {
                ""
            };
            if !problem.is_empty() && admission.old.is_none_or(|old| old["spec"]["clusterIP"] != wanted) {
                let cause = Cause::invalid("spec.clusterIPs", &json!([wanted]), problem);
                let about = About {
                    group: "",
                    kind: "Service",
                    name: &name,
                };
                return Err(Refusal::invalid(about, vec![cause]));
            }
        }
    }
    let address = spec["clusterIP"].clone();
    fill(spec, "clusterIPs", json!([address]));
    Ok(())
}

/// One family is what this cluster has; a headless service without pods of its own may point anywhere.
fn families(service: &mut Value) {
    let spec = &mut service["spec"];
    let selects = spec["selector"]
        .as_object()
        .is_some_and(|selector| !selector.is_empty());
    let anywhere = spec["clusterIP"] == "None" && !selects;
    if anywhere && !is_set(spec, "ipFamilyPolicy") {
        fill(spec, "ipFamilyPolicy", "RequireDualStack");
        fill(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    }
    fill(spec, "ipFamilyPolicy", "SingleStack");
    fill(spec, "ipFamilies", json!(["IPv4"]));
}

fn ports(taken: &Taken, service: &mut Value) {
    let spec = &mut service["spec"];
    let wants = match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    };
    if !wants {
        return;
    }
    let mut used = taken.ports.clone();
    used.extend(each(spec, "ports").filter_map(|port| port["nodePort"].as_i64()));
    for port in each_mut(spec, "ports") {
        if is_set(port, "nodePort") {
            continue;
        }
        if let Some(free) = NODE_PORTS.clone().find(|number| !used.contains(number)) {
            used.insert(free);
            port["nodePort"] = free.into();
        }
    }
}
