//! Nodes, namespaces, leases, events, budgets and classes of priority.

use serde_json::Value;

use super::findings::{Findings, amount};
use super::{each, is_set, placement, text, words};
use crate::quantity::Quantity;
use crate::sim::kube::schema::Cause;

/// The greatest value of a class that users make; above it are the system's own.
const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn node(found: &mut Findings, node: &Value) {
    // A real server blames the metadata for the taints.
    placement::taints(found, "metadata.taints", &node["spec"]);
    for list in ["capacity", "allocatable"] {
        for (resource, value) in node["status"][list].as_object().into_iter().flatten() {
            if amount(value) < Quantity::ZERO {
                let at = format!("status.{list}.{resource}");
                found.invalid(&at, value, "must be greater than or equal to 0");
            }
        }
    }
    for (index, range) in each(&node["spec"], "podCIDRs").enumerate() {
        let text = range.as_str().unwrap_or_default();
        let holds = text.split_once('/').is_some_and(|(address, length)| {
            address.parse::<std::net::IpAddr>().is_ok()
                && length.parse::<u8>().is_ok_and(|length| length <= 128)
        });
        if !holds {
            let at = format!("spec.podCIDRs[{index}]");
            found.invalid(
                &at,
                range,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            );
        }
    }
}

pub(super) fn namespace(found: &mut Findings, spec: &Value) {
    for finalizer in each(spec, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        found.word("spec.finalizers", finalizer, words::qualified_name);
        if !name.contains('/') && name != "kubernetes" {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            found.invalid("spec.finalizers", finalizer, detail);
        }
    }
}

pub(super) fn lease(found: &mut Findings, spec: &Value) {
    let seconds = &spec["leaseDurationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
        found.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    found.at_least("spec.leaseTransitions", &spec["leaseTransitions"], 0);
    if let Some(strategy) = spec["strategy"].as_str() {
        let holder = Value::from(strategy);
        found.word("spec.strategy", &holder, words::qualified_name);
    }
}

pub(super) fn event(found: &mut Findings, event: &Value) {
    let (own, about) = (
        text(&event["metadata"], "namespace"),
        text(&event["involvedObject"], "namespace"),
    );
    // What is about the cluster lives in the default namespace.
    if own != about && !(about.is_empty() && own == "default") {
        found.invalid(
            "involvedObject.namespace",
            &event["involvedObject"]["namespace"],
            "does not match event.namespace",
        );
    }
    if !is_set(event, "eventTime") {
        return;
    }
    for (field, most) in [("reportingComponent", usize::MAX), ("reportingInstance", 128)] {
        let value = text(event, field);
        if value.is_empty() {
            found.required(field, "");
        } else if value.len() > most {
            let detail = format!("can have at most {most} characters");
            found.invalid(field, &event[field], detail);
        }
    }
    found.word(
        "reportingComponent",
        &event["reportingComponent"],
        words::qualified_name,
    );
    for (field, most) in [("action", 128), ("reason", 128)] {
        let value = text(event, field);
        if value.is_empty() {
            found.required(field, "");
        } else if value.len() > most {
            let detail = format!("can have at most {most} characters");
            found.invalid(field, &event[field], detail);
        }
    }
    if text(event, "message").len() > 1024 {
        found.invalid("message", &event["message"], "can have at most 1024 characters");
    }
}

/// What `events.k8s.io` says of an event that was judged as a core event: it has other words, asks more of a new one,
/// and does not mind where the object is.
pub fn new_event(causes: Vec<Cause>, event: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut found = Findings(causes);
    found.0.retain(|cause| cause.field != "involvedObject.namespace");
    for cause in &mut found.0 {
        if cause.field == "reportingComponent" {
            "reportingController".clone_into(&mut cause.field);
        }
    }
    if old.is_some() {
        return found.0;
    }
    if !is_set(event, "eventTime") {
        found.required("eventTime", "");
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        found.invalid("type", &event["type"], "has invalid value");
    }
    for (field, shown) in [
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
    ] {
        if is_set(event, field) {
            found.invalid(shown, &event[field], "needs to be unset");
        }
    }
    found.0
}

pub(super) fn budget(found: &mut Findings, spec: &Value) {
    if is_set(spec, "minAvailable") && is_set(spec, "maxUnavailable") {
        found.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if is_set(spec, field) {
            found.count_or_share(&format!("spec.{field}"), &spec[field]);
        }
    }
    found.selector("spec.selector", &spec["selector"]);
    found.optional_one_of(
        "spec.unhealthyPodEvictionPolicy",
        &spec["unhealthyPodEvictionPolicy"],
        &["AlwaysAllow", "IfHealthyBudget"],
    );
}

pub(super) fn priority_class(found: &mut Findings, class: &Value) {
    let name = text(&class["metadata"], "name");
    let value = class["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-") {
        let known = crate::sim::kube::builtin::priority_classes();
        let is_known = known
            .iter()
            .any(|known| known["metadata"]["name"] == name && known["value"] == class["value"]);
        if !is_known {
            let detail = "priority class names with 'system-' prefix are reserved for system use only";
            found.forbidden("metadata.name", detail);
        }
    } else if value > PRIORITY_MAX {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        found.forbidden("value", detail);
    }
    found.optional_one_of(
        "preemptionPolicy",
        &class["preemptionPolicy"],
        &["Never", "PreemptLowerPriority"],
    );
}
