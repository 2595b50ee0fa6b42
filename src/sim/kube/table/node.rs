//! Nodes: ready or not, and what they run on.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::column::{Printer, age, condition, list, named, or_none, text, text_or};
use crate::sim::kube::object;

pub(super) fn printer(group: &str, plural: &str) -> Option<Printer> {
    (group.is_empty() && plural == "nodes").then_some(Printer {
        columns: "Name/name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* \
                  | Container-Runtime*",
        cells,
    })
}

fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        named(node),
        status(node).into(),
        roles(node).into(),
        age(node, now),
        text(node, "status.nodeInfo.kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        text_or(node, "status.nodeInfo.osImage", "<unknown>").into(),
        text_or(node, "status.nodeInfo.kernelVersion", "<unknown>").into(),
        text_or(node, "status.nodeInfo.containerRuntimeVersion", "<unknown>").into(),
    ]
}

fn status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node["spec"]["unschedulable"] == true {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// From `node-role.kubernetes.io/<role>` and `kubernetes.io/role: <role>`.
fn roles(node: &Value) -> String {
    let roles: BTreeSet<String> = object::labels(node)
        .into_iter()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role.to_owned()),
                None => (key == "kubernetes.io/role").then_some(value),
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    or_none(roles.into_iter().collect::<Vec<_>>().join(","))
}

fn address<'a>(node: &'a Value, type_name: &str) -> &'a str {
    list(node, "status.addresses")
        .iter()
        .find(|address| address["type"] == type_name)
        .map_or("<none>", |address| text(address, "address"))
}
