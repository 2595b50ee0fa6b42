//! The specification of a pod, in a pod or in a template.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::container::{self, Role, Surroundings, identity};
use super::findings::Findings;
use super::{each, is_set, placement, resources, text, volume, words};

/// Whose specification it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    NewPod,
    Pod,
    Template,
}

/// A pod template: its labels and annotations, and the specification.
/// Annotations that mean something.
pub(super) fn annotations(found: &mut Findings, at: &str, annotations: &Value) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let cost = text(annotations, COST);
    if annotations.get(COST).is_some() && cost.parse::<i32>().is_err() {
        let at = format!("{at}[{COST}]");
        found.invalid(&at, &annotations[COST], "must be a 32bit integer");
    }
}

pub(super) fn template(found: &mut Findings, at: &str, template: &Value) {
    let metadata = &template["metadata"];
    found.labels(&format!("{at}.labels"), &metadata["labels"]);
    for key in metadata["annotations"]
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
    {
        found.word(
            &format!("{at}.annotations"),
            &json!(key.to_lowercase()),
            words::qualified_name,
        );
    }
    specification(found, &format!("{at}.spec"), &template["spec"], Of::Template);
}

/// A pod's specification.
pub(super) fn specification(found: &mut Findings, at: &str, spec: &Value, of: Of) {
    let volumes = volume::list(found, &format!("{at}.volumes"), spec);
    let around = Surroundings {
        volumes,
        host_network: spec["hostNetwork"] == true,
    };
    let mut names = BTreeSet::new();
    if each(spec, "containers").next().is_none() {
        found.required(&format!("{at}.containers"), "");
    }
    for (list, role) in [("containers", Role::Main), ("initContainers", Role::Init)] {
        let path = format!("{at}.{list}");
        container::list(found, &path, each(spec, list), role, &around, &mut names);
    }
    let path = format!("{at}.ephemeralContainers");
    if of == Of::NewPod && each(spec, "ephemeralContainers").next().is_some() {
        found.forbidden(&path, "cannot be set on create");
    }
    let targets = names.clone();
    let containers = each(spec, "ephemeralContainers");
    container::list(found, &path, containers, Role::Ephemeral, &around, &mut names);
    container::targets(found, &path, each(spec, "ephemeralContainers"), &targets);
    if spec["resources"].is_object() {
        resources::requirements(found, &format!("{at}.resources"), &spec["resources"]);
    }
    policies(found, at, spec);
    found.labels(&format!("{at}.nodeSelector"), &spec["nodeSelector"]);
    placement::tolerations(found, &format!("{at}.tolerations"), spec);
    placement::affinity(found, &format!("{at}.affinity"), &spec["affinity"]);
    placement::spread(found, &format!("{at}.topologySpreadConstraints"), spec);
    gates(found, at, spec);
    naming(found, at, spec);
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        let value = &spec["securityContext"][field];
        identity(found, &format!("{at}.securityContext.{field}"), value);
    }
    for (index, setting) in each(&spec["securityContext"], "sysctls").enumerate() {
        let path = format!("{at}.securityContext.sysctls[{index}].name");
        let name = text(setting, "name");
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_./".contains(&byte);
        if name.is_empty() {
            found.required(&path, "");
        } else if !name.bytes().all(allowed) {
            found.invalid(&path, &setting["name"], "must be a sysctl name");
        }
    }
}

fn policies(found: &mut Findings, at: &str, spec: &Value) {
    found.one_of(
        &format!("{at}.restartPolicy"),
        &spec["restartPolicy"],
        &["Always", "OnFailure", "Never"],
    );
    found.one_of(
        &format!("{at}.dnsPolicy"),
        &spec["dnsPolicy"],
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    if spec["dnsPolicy"] == "None" && each(&spec["dnsConfig"], "nameservers").next().is_none() {
        if spec["dnsConfig"].is_object() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            found.required(&format!("{at}.dnsConfig.nameservers"), detail);
        } else {
            found.required(
                &format!("{at}.dnsConfig"),
                "must provide `dnsConfig` when `dnsPolicy` is None",
            );
        }
    }
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline
        .as_i64()
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        found.invalid(&format!("{at}.activeDeadlineSeconds"), deadline, detail);
    }
    found.optional_one_of(
        &format!("{at}.preemptionPolicy"),
        &spec["preemptionPolicy"],
        &["Never", "PreemptLowerPriority"],
    );
    for (index, gate) in each(spec, "readinessGates").enumerate() {
        found.word(
            &format!("{at}.readinessGates[{index}].conditionType"),
            &gate["conditionType"],
            words::qualified_name,
        );
    }
}

fn gates(found: &mut Findings, at: &str, spec: &Value) {
    let mut seen = BTreeSet::new();
    for (index, gate) in each(spec, "schedulingGates").enumerate() {
        let path = format!("{at}.schedulingGates[{index}]");
        found.word(&path, &gate["name"], words::qualified_name);
        if !seen.insert(text(gate, "name")) {
            found.duplicate(&path, &gate["name"]);
        }
    }
    if !seen.is_empty() && is_set(spec, "nodeName") {
        let detail = "cannot be set until all schedulingGates have been cleared";
        found.forbidden(&format!("{at}.nodeName"), detail);
    }
}

fn naming(found: &mut Findings, at: &str, spec: &Value) {
    for (field, judge) in [
        ("nodeName", words::subdomain as fn(&str) -> Vec<&'static str>),
        ("serviceAccountName", words::subdomain),
        ("priorityClassName", words::subdomain),
        ("runtimeClassName", words::subdomain),
        ("hostname", words::label),
        ("subdomain", words::label),
    ] {
        if is_set(spec, field) {
            found.word(&format!("{at}.{field}"), &spec[field], judge);
        }
    }
    for (index, alias) in each(spec, "hostAliases").enumerate() {
        let at = format!("{at}.hostAliases[{index}]");
        found.word(&format!("{at}.ip"), &alias["ip"], words::address);
        for (index, name) in each(alias, "hostnames").enumerate() {
            found.word(&format!("{at}.hostnames[{index}]"), name, words::subdomain);
        }
    }
}
