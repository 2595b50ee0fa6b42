//! Pods and pod templates.

use serde_json::{Value, json};

use super::{each, each_mut, fill, has_only, inside, is_set, storage, text};
use crate::quantity::Quantity;

/// What a pod has beyond what its specification has in a template too.
pub(super) fn pod(object: &mut Value) {
    template(object);
    if let Some(status) = inside(object, &["status"]) {
        agree(status, "podIP", "podIPs", |address| json!({"ip": address}));
    }
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    fill(spec, "enableServiceLinks", true);
    for list in ["containers", "initContainers"] {
        for container in each_mut(spec, list) {
            requests_from_limits(&mut container["resources"]);
        }
    }
    pod_requests(spec);
    if spec["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            for port in each_mut(spec, list).flat_map(|container| each_mut(container, "ports")) {
                let port_number = port["containerPort"].clone();
                fill(port, "hostPort", port_number);
            }
        }
    }
}

/// A field that became a list: its first element is the field, and the field wins.
pub(super) fn agree(object: &mut Value, one: &str, many: &str, element: fn(&str) -> Value) {
    let first = object[many].get(0).cloned();
    if let Some(text) = object[one].as_str().filter(|text| !text.is_empty()) {
        let wanted = element(text);
        if first != Some(wanted.clone()) {
            object[many] = json!([wanted]);
        }
    } else if let Some(first) = first {
        let text = first["ip"].as_str().or(first.as_str()).unwrap_or_default();
        object[one] = text.into();
    }
}

/// Who limits a resource and does not ask for some asks for as much.
fn requests_from_limits(resources: &mut Value) {
    for (resource, amount) in resources["limits"].as_object().cloned().unwrap_or_default() {
        fill(resources, "requests", json!({}));
        fill(&mut resources["requests"], &resource, amount);
    }
}

/// A pod that limits itself as a whole asks for what its containers ask for together, or for as much as it may have.
fn pod_requests(spec: &mut Value) {
    let limits = spec["resources"]["limits"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    fill(&mut spec["resources"], "requests", json!({}));
    for resource in ["cpu", "memory"] {
        if let Some(sum) = together(spec, resource) {
            fill(&mut spec["resources"]["requests"], resource, sum.to_string());
        }
    }
    for (resource, amount) in limits {
        fill(&mut spec["resources"]["requests"], &resource, amount);
    }
}

/// What all containers ask for: those that run together added up, or the greatest that runs before them.
fn together(spec: &Value, resource: &str) -> Option<Quantity> {
    let asked = |container: &Value| {
        let text = container["resources"]["requests"][resource].as_str();
        text.and_then(|text| text.parse::<Quantity>().ok())
    };
    let plus = |sum: Option<Quantity>, more: Quantity| {
        let notation = sum.map_or(more.notation(), Quantity::notation);
        let nanos = sum.map_or(0, Quantity::nanos) + more.nanos();
        Some(Quantity::from_nanos(nanos, notation))
    };
    let (mut sum, mut peak) = (None, None);
    for container in each(spec, "initContainers") {
        let Some(amount) = asked(container) else { continue };
        if container["restartPolicy"] == "Always" {
            sum = plus(sum, amount);
            peak = peak.max(sum);
        } else {
            peak = peak.max(plus(sum, amount));
        }
    }
    let running = each(spec, "containers").filter_map(asked).fold(sum, plus);
    running.max(peak)
}

/// Anything with a pod's specification.
pub(super) fn template(object: &mut Value) {
    if let Some(spec) = inside(object, &["spec"]) {
        specification(spec);
    }
}

/// A pod's specification, wherever it stands.
pub(super) fn specification(spec: &mut Value) {
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    if spec["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|grace| grace < 0)
    {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    fill(spec, "securityContext", json!({}));
    // The account has two names; the older one follows the newer, and is heard where the newer is not given.
    let account = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|field| is_set(spec, field).then(|| spec[*field].clone()));
    if let Some(account) = account {
        spec["serviceAccountName"] = account.clone();
        spec["serviceAccount"] = account;
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each_mut(spec, list).for_each(container);
    }
    each_mut(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = inside(container, &[probe]) else {
            continue;
        };
        fill(probe, "timeoutSeconds", 1);
        fill(probe, "periodSeconds", 10);
        fill(probe, "successThreshold", 1);
        fill(probe, "failureThreshold", 3);
        inside(probe, &["httpGet"]).map(http_get);
    }
    for hook in ["postStart", "preStop"] {
        inside(container, &["lifecycle", hook, "httpGet"]).map(http_get);
    }
    for variable in each_mut(container, "env") {
        inside(variable, &["valueFrom", "fieldRef"]).map(field_reference);
    }
}

fn http_get(action: &mut Value) {
    fill(action, "path", "/");
    fill(action, "scheme", "HTTP");
}

fn field_reference(reference: &mut Value) {
    fill(reference, "apiVersion", "v1");
}

/// Images that move are pulled each time. What is no image name at all has no tag, so it does not move.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image
        .split_once('@')
        .map_or((image, None), |(name, digest)| (name, Some(digest)));
    if !is_image_name(name) {
        return "IfNotPresent";
    }
    let tag = name
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) => "Always",
        (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

/// Whether each part of a name is in small letters and digits, with dots, dashes and underscores between them. The
/// first part may be a host, and the last may have a tag.
fn is_image_name(name: &str) -> bool {
    let untagged = match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    };
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part = |part: &str| part.bytes().all(inner) && edge(part.bytes().next()) && edge(part.bytes().last());
    match untagged.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path.split('/').all(part),
        _ => untagged.split('/').all(part),
    }
}

/// 0644.
const MODE: i64 = 420;

fn volume(volume: &mut Value) {
    if has_only(volume, "name") {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = inside(volume, &[source]) {
            fill(source, "defaultMode", MODE);
        }
    }
    if let Some(path) = inside(volume, &["hostPath"]) {
        host_path(path);
    }
    if let Some(image) = inside(volume, &["image"]) {
        let policy = pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
    if let Some(spec) = inside(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        storage::claim_specification(spec);
    }
    if let Some(downward) = inside(volume, &["downwardAPI"]) {
        downward_items(downward);
    }
    if let Some(projected) = inside(volume, &["projected"]) {
        for source in each_mut(projected, "sources") {
            if let Some(token) = inside(source, &["serviceAccountToken"]) {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = inside(source, &["downwardAPI"]) {
                downward_items(downward);
            }
        }
    }
}

/// A path of the host of no particular type: told apart from one whose type is not given.
pub(super) fn host_path(path: &mut Value) {
    if path.get("type").is_none_or(Value::is_null) {
        path["type"] = "".into();
    }
}

fn downward_items(downward: &mut Value) {
    for item in each_mut(downward, "items") {
        inside(item, &["fieldRef"]).map(field_reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_move_are_pulled_each_time() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry:5000/nginx", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
            ("nginx-", "IfNotPresent"),
            ("Registry.io:5000/team/nginx", "Always"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn limits_become_requests_of_pods_but_not_of_templates() {
        let object = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
        let (mut a_pod, mut a_template) = (object.clone(), object);
        pod(&mut a_pod);
        template(&mut a_template);
        assert_eq!(
            a_pod["spec"]["containers"][0]["resources"]["requests"],
            json!({"cpu": "1"})
        );
        assert!(
            a_template["spec"]["containers"][0]["resources"]
                .get("requests")
                .is_none()
        );
    }

    #[test]
    fn on_the_network_of_the_host_container_ports_are_host_ports() {
        let mut object = json!({"spec": {"hostNetwork": true,
            "containers": [{"name": "c", "resources": {}, "ports": [{"containerPort": 80}]}]}});
        pod(&mut object);
        assert_eq!(object["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }
}
