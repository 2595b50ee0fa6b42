//! Containers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::findings::Findings;
use super::{each, is_set, resources, text, words};

/// Which list a container stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Main,
    Init,
    Ephemeral,
}

/// What the containers of a pod share.
pub(super) struct Surroundings<'a> {
    pub(super) volumes: BTreeSet<&'a str>,
    pub(super) host_network: bool,
}

/// A list of containers. Their names are told apart across lists.
pub(super) fn list<'a>(
    found: &mut Findings,
    at: &str,
    containers: impl Iterator<Item = &'a Value>,
    role: Role,
    around: &Surroundings<'_>,
    names: &mut BTreeSet<String>,
) {
    let mut host_ports = BTreeSet::new();
    for (index, container) in containers.enumerate() {
        let at = format!("{at}[{index}]");
        one(found, &at, container, role, around);
        let name = text(container, "name");
        if !name.is_empty() && !names.insert(name.to_owned()) {
            found.duplicate(&format!("{at}.name"), &json!(name));
        }
        if role == Role::Main {
            clashing_host_ports(found, &at, container, &mut host_ports);
        }
    }
}

fn one(found: &mut Findings, at: &str, container: &Value, role: Role, around: &Surroundings<'_>) {
    match text(container, "name") {
        "" => found.required(&format!("{at}.name"), ""),
        _ => found.word(&format!("{at}.name"), &container["name"], words::label),
    }
    match text(container, "image") {
        "" => found.required(&format!("{at}.image"), ""),
        image if image != image.trim() => found.invalid(
            &format!("{at}.image"),
            &container["image"],
            "must not have leading or trailing whitespace",
        ),
        _ => {}
    }
    found.one_of(
        &format!("{at}.terminationMessagePolicy"),
        &container["terminationMessagePolicy"],
        &["File", "FallbackToLogsOnError"],
    );
    found.one_of(
        &format!("{at}.imagePullPolicy"),
        &container["imagePullPolicy"],
        &["Always", "IfNotPresent", "Never"],
    );
    ports(found, at, container, around);
    environment(found, at, container);
    mounts(found, at, container, around);
    if role == Role::Ephemeral {
        unfit_for_debugging(found, at, container);
    }
    let sidecar = role == Role::Init && container["restartPolicy"] == "Always";
    if role == Role::Main || sidecar {
        hooks(found, at, container);
        probes(found, at, container);
    } else if role == Role::Init {
        for unfit in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(container, unfit) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                found.forbidden(&format!("{at}.{unfit}"), detail);
            }
        }
    }
    resources::requirements(found, &format!("{at}.resources"), &container["resources"]);
    security(
        found,
        &format!("{at}.securityContext"),
        &container["securityContext"],
    );
}

/// An ephemeral container looks at another one, if at all, that is not ephemeral.
pub(super) fn targets<'a>(
    found: &mut Findings,
    at: &str,
    containers: impl Iterator<Item = &'a Value>,
    names: &BTreeSet<String>,
) {
    for (index, container) in containers.enumerate() {
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !names.contains(target) {
            let field = format!("{at}[{index}].targetContainerName");
            found.not_found(&field, &container["targetContainerName"]);
        }
    }
}

/// What is for looking around is not to be relied on.
fn unfit_for_debugging(found: &mut Findings, at: &str, container: &Value) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    for unfit in [
        "ports",
        "resources",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
        "restartPolicy",
    ] {
        let is_empty = match &container[unfit] {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            value => value.is_null() || value == "",
        };
        if !is_empty {
            found.forbidden(&format!("{at}.{unfit}"), DETAIL);
        }
    }
    for (index, mount) in each(container, "volumeMounts").enumerate() {
        for unfit in ["subPath", "subPathExpr"] {
            if is_set(mount, unfit) {
                found.forbidden(&format!("{at}.volumeMounts[{index}].{unfit}"), DETAIL);
            }
        }
    }
}

fn ports(found: &mut Findings, at: &str, container: &Value, around: &Surroundings<'_>) {
    let mut names = BTreeSet::new();
    for (index, port) in each(container, "ports").enumerate() {
        let at = format!("{at}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let at = format!("{at}.name");
            let before = found.0.len();
            found.word(&at, &port["name"], words::port_name);
            if found.0.len() == before && !names.insert(name) {
                found.duplicate(&at, &port["name"]);
            }
        }
        match port["containerPort"].as_i64().unwrap_or_default() {
            0 => found.required(&format!("{at}.containerPort"), ""),
            _ => found.port(&format!("{at}.containerPort"), &port["containerPort"]),
        }
        if is_set(port, "hostPort") {
            found.port(&format!("{at}.hostPort"), &port["hostPort"]);
            if around.host_network && port["hostPort"] != port["containerPort"] {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                found.invalid(&format!("{at}.hostPort"), &port["hostPort"], detail);
            }
        }
        found.one_of(
            &format!("{at}.protocol"),
            &port["protocol"],
            &["SCTP", "TCP", "UDP"],
        );
    }
}

fn clashing_host_ports(found: &mut Findings, at: &str, container: &Value, taken: &mut BTreeSet<String>) {
    for (index, port) in each(container, "ports").enumerate() {
        let Some(number) = port["hostPort"].as_i64() else {
            continue;
        };
        let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
        if !taken.insert(place.clone()) {
            found.duplicate(&format!("{at}.ports[{index}].hostPort"), &json!(place));
        }
    }
}

fn environment(found: &mut Findings, at: &str, container: &Value) {
    for (index, variable) in each(container, "env").enumerate() {
        let at = format!("{at}.env[{index}]");
        match text(variable, "name") {
            "" => found.required(&format!("{at}.name"), ""),
            _ => found.word(&format!("{at}.name"), &variable["name"], words::variable_name),
        }
        if variable["valueFrom"].is_object() {
            source(found, &format!("{at}.valueFrom"), variable);
        }
    }
    for (index, from) in each(container, "envFrom").enumerate() {
        let path = format!("{at}.envFrom[{index}]");
        if is_set(from, "prefix") {
            found.word(&format!("{path}.prefix"), &from["prefix"], words::variable_name);
        }
        let given: Vec<&str> = ["configMapRef", "secretRef"]
            .into_iter()
            .filter(|source| is_set(from, source))
            .collect();
        match given.as_slice() {
            [] => found.invalid(
                &format!("{at}.envFrom"),
                &json!(""),
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            [one] if text(&from[*one], "name").is_empty() => {
                found.required(&format!("{path}.{one}.name"), "");
            }
            [_] => {}
            _ => found.invalid(
                &path,
                &json!(""),
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// Downward fields of pods, besides single labels and annotations.
const POD_FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.schedulerName",
];

fn source(found: &mut Findings, at: &str, variable: &Value) {
    const SOURCES: [&str; 5] = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    let from = &variable["valueFrom"];
    let given: Vec<&str> = SOURCES
        .into_iter()
        .filter(|source| is_set(from, source))
        .collect();
    for source in &given {
        let (at, from) = (format!("{at}.{source}"), &from[*source]);
        match *source {
            "fieldRef" => field_reference(found, &at, from),
            "resourceFieldRef" => resource_reference(found, &at, from),
            "configMapKeyRef" | "secretKeyRef" => {
                found.word(&format!("{at}.name"), &from["name"], words::subdomain);
                match text(from, "key") {
                    "" => found.required(&format!("{at}.key"), ""),
                    _ => found.word(&format!("{at}.key"), &from["key"], words::config_key),
                }
            }
            _ => {}
        }
    }
    if given.is_empty() {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        found.invalid(at, &json!(""), detail);
    } else if is_set(variable, "value") {
        found.invalid(at, &json!(""), "may not be specified when `value` is not empty");
    } else if given.len() > 1 {
        found.invalid(
            at,
            &json!(""),
            "may not have more than one field specified at a time",
        );
    }
}

fn field_reference(found: &mut Findings, at: &str, reference: &Value) {
    let path = text(reference, "fieldPath");
    let subscripted = ["metadata.labels['", "metadata.annotations['"];
    let single = path.ends_with("']") && subscripted.iter().any(|start| path.starts_with(start));
    if path.is_empty() {
        found.required(&format!("{at}.fieldPath"), "");
    } else if !POD_FIELDS.contains(&path) && !single {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        found.invalid(&format!("{at}.fieldPath"), &reference["fieldPath"], detail);
    }
}

fn resource_reference(found: &mut Findings, at: &str, reference: &Value) {
    let name = text(reference, "resource");
    if name.is_empty() {
        found.required(&format!("{at}.resource"), "");
    } else if !name.starts_with("limits.hugepages-") && !name.starts_with("requests.hugepages-") {
        const KNOWN: [&str; 6] = [
            "limits.cpu",
            "limits.ephemeral-storage",
            "limits.memory",
            "requests.cpu",
            "requests.ephemeral-storage",
            "requests.memory",
        ];
        found.one_of(&format!("{at}.resource"), &reference["resource"], &KNOWN);
    }
}

fn mounts(found: &mut Findings, at: &str, container: &Value, around: &Surroundings<'_>) {
    let mut places = BTreeSet::new();
    for (index, mount) in each(container, "volumeMounts").enumerate() {
        let path = format!("{at}.volumeMounts[{index}]");
        let name = text(mount, "name");
        if name.is_empty() {
            found.required(&format!("{path}.name"), "");
        }
        if !around.volumes.contains(name) {
            found.not_found(&format!("{path}.name"), &mount["name"]);
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            found.required(&format!("{path}.mountPath"), "");
        } else if !places.insert(place) {
            found.invalid(
                &format!("{path}.mountPath"),
                &mount["mountPath"],
                "must be unique",
            );
        }
        // A real server forgets which of the mounts it is.
        inner_path(found, &format!("{at}.volumeMounts.subPath"), &mount["subPath"]);
    }
}

/// A path below another: relative, and not out of it.
pub(super) fn inner_path(found: &mut Findings, at: &str, value: &Value) {
    let path = value.as_str().unwrap_or_default();
    if path.starts_with('/') {
        found.invalid(at, value, "must be a relative path");
    }
    no_way_up(found, at, value);
}

/// A path without steps up.
pub(super) fn no_way_up(found: &mut Findings, at: &str, value: &Value) {
    let path = value.as_str().unwrap_or_default();
    if path.split('/').any(|part| part == "..") {
        found.invalid(at, value, "must not contain '..'");
    }
}

fn hooks(found: &mut Findings, at: &str, container: &Value) {
    for hook in ["postStart", "preStop"] {
        let value = &container["lifecycle"][hook];
        if value.is_object() {
            handler(
                found,
                &format!("{at}.lifecycle.{hook}"),
                value,
                &["exec", "httpGet", "tcpSocket", "sleep"],
            );
        }
    }
}

fn probes(found: &mut Findings, at: &str, container: &Value) {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[kind];
        if !probe.is_object() {
            continue;
        }
        let at = format!("{at}.{kind}");
        handler(found, &at, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            found.at_least(&format!("{at}.{field}"), &probe[field], 0);
        }
        let grace = &probe["terminationGracePeriodSeconds"];
        if kind == "readinessProbe" {
            if !grace.is_null() {
                let at = format!("{at}.terminationGracePeriodSeconds");
                found.invalid(&at, grace, "must not be set for readinessProbes");
            }
        } else {
            if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
                found.invalid(
                    &format!("{at}.terminationGracePeriodSeconds"),
                    grace,
                    "must be greater than 0",
                );
            }
            if probe["successThreshold"].as_i64().is_some_and(|times| times != 1) {
                found.invalid(
                    &format!("{at}.successThreshold"),
                    &probe["successThreshold"],
                    "must be 1",
                );
            }
        }
    }
}

/// What a probe or hook does: one thing.
fn handler(found: &mut Findings, at: &str, handler: &Value, kinds: &[&str]) {
    let given: Vec<&&str> = kinds.iter().filter(|kind| handler[**kind].is_object()).collect();
    for (index, kind) in given.iter().enumerate() {
        let at = format!("{at}.{kind}");
        if index > 0 {
            found.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        let action = &handler[**kind];
        match **kind {
            "exec" if each(action, "command").next().is_none() => {
                found.required(&format!("{at}.command"), "");
            }
            "httpGet" => {
                found.port_or_name(&format!("{at}.port"), &action["port"]);
                found.one_of(&format!("{at}.scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => found.port_or_name(&format!("{at}.port"), &action["port"]),
            "grpc" => found.port(&format!("{at}.port"), &action["port"]),
            _ => {}
        }
    }
    if given.is_empty() {
        found.required(at, "must specify a handler type");
    }
}

fn security(found: &mut Findings, at: &str, context: &Value) {
    for field in ["runAsUser", "runAsGroup"] {
        identity(found, &format!("{at}.{field}"), &context[field]);
    }
    if context["allowPrivilegeEscalation"] == false && context["privileged"] == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        found.invalid(at, context, detail);
    }
}

/// A user or group number.
pub(super) fn identity(found: &mut Findings, at: &str, value: &Value) {
    if value
        .as_i64()
        .is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id))
    {
        found.invalid(at, value, "must be between 0 and 2147483647, inclusive");
    }
}
