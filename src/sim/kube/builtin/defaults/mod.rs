//! What a server writes where an object of a built-in kind says nothing, whatever else is stored.
//!
//! Defaults that are a constant for one field, such as a port's protocol, come with the shapes (see `conform`); here
//! are those that depend on the rest of the object. Filling in twice is filling in once.

mod extension;
mod pod;
mod service;
mod storage;
mod workload;

use serde_json::{Value, json};

pub(super) use workload::label_job;

use super::fields::{each, each_mut, fill, inside, is_set, text};

/// Fills in the defaults of an object's kind.
pub fn apply(object: &mut Value) {
    let kind = text(object, "kind").to_owned();
    match kind.as_str() {
        "Pod" => {
            pod::pod(object);
            if let Some(status) = inside(object, &["status"]) {
                first_and_all(status, "podIP", "podIPs", Some("ip"));
            }
        }
        "PodTemplate" => {
            if let Some(template) = inside(object, &["template"]) {
                pod::template(template);
            }
        }
        "Endpoints" => service::endpoints(object),
        "ReplicationController" => workload::replication_controller(object),
        "Deployment" => workload::deployment(object),
        "ReplicaSet" => workload::replica_set(object),
        "StatefulSet" => workload::stateful_set(object),
        "DaemonSet" => workload::daemon_set(object),
        "Job" => workload::job(object),
        "CronJob" => workload::cron_job(object),
        "HorizontalPodAutoscaler" => workload::autoscaler(object),
        "Service" => service::service(object),
        "EndpointSlice" => service::endpoint_slice(object),
        "PersistentVolume" => storage::volume(object),
        "PersistentVolumeClaim" => storage::claim(object),
        "StorageClass" => storage::class(object),
        "CSIDriver" => storage::driver(object),
        "Secret" => secret(object),
        "Namespace" => namespace(object),
        "Node" => {
            node(object);
            if let Some(spec) = inside(object, &["spec"]) {
                first_and_all(spec, "podCIDR", "podCIDRs", None);
            }
        }
        "LimitRange" => limit_range(object),
        "PriorityClass" => fill(object, "preemptionPolicy", "PreemptLowerPriority"),
        "RoleBinding" | "ClusterRoleBinding" => binding(object),
        "MutatingWebhookConfiguration" => extension::webhooks(object, extension::Changes::Object),
        "ValidatingWebhookConfiguration" => extension::webhooks(object, extension::Changes::Nothing),
        "CustomResourceDefinition" => extension::definition(object),
        _ => {}
    }
}

/// A field that was one value before it became a list: either makes the other.
fn first_and_all(object: &mut Value, first: &str, all: &str, inside: Option<&str>) {
    let one = text(object, first).to_owned();
    let listed = |item: &Value| match inside {
        Some(field) => text(item, field).to_owned(),
        None => item.as_str().unwrap_or_default().to_owned(),
    };
    let first_listed = each(object, all).next().map(listed);
    match (one.is_empty(), first_listed) {
        (true, Some(listed)) if !listed.is_empty() => object[first] = listed.into(),
        (false, None) => {
            object[all] = match inside {
                Some(field) => json!([{ field: one }]),
                None => json!([one]),
            };
        }
        _ => {}
    }
}

/// What is given as text is stored as bytes.
fn secret(object: &mut Value) {
    use base64::Engine;
    fill(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|o| o.remove("stringData")) else {
        return;
    };
    fill(object, "data", json!({}));
    for (key, value) in texts {
        let bytes = value.as_str().unwrap_or_default();
        object["data"][key] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
    }
}

fn namespace(object: &mut Value) {
    let name = text(&object["metadata"], "name").to_owned();
    if !name.is_empty() {
        fill(&mut object["metadata"], "labels", json!({}));
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
    if let Some(status) = inside(object, &["status"]) {
        fill(status, "phase", "Active");
    }
}

fn node(object: &mut Value) {
    if let Some(spec) = inside(object, &["spec"]) {
        pod::agree(spec, "podCIDR", "podCIDRs", |range| json!(range));
    }
    if let Some(status) = inside(object, &["status"])
        && is_set(status, "capacity")
    {
        let capacity = status["capacity"].clone();
        fill(status, "allocatable", capacity);
    }
}

fn limit_range(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    for item in each_mut(spec, "limits").filter(|item| item["type"] == "Container") {
        for (to, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let amounts = item[from].as_object().cloned().unwrap_or_default();
            for (resource, amount) in amounts {
                fill(item, to, json!({}));
                fill(&mut item[to], &resource, amount);
            }
        }
    }
}

fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = inside(object, &["roleRef"]) {
        fill(role, "apiGroup", GROUP);
    }
    for subject in each_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

/// Whether none of the fields that start with something else than `ignored` is set.
fn has_only(object: &Value, ignored: &str) -> bool {
    object
        .as_object()
        .is_some_and(|fields| fields.keys().all(|field| field == ignored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::builtin::conform;

    fn defaulted(mut object: Value) -> Value {
        let (api_version, kind) = (
            text(&object, "apiVersion").to_owned(),
            text(&object, "kind").to_owned(),
        );
        conform(&api_version, &kind, &mut object).unwrap();
        apply(&mut object);
        object
    }

    /// One object per kind that has defaults, saying as little as it may.
    fn examples() -> Vec<Value> {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i:1", "readinessProbe": {"httpGet": {"port": 80}},
                            "env": [{"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}, {"name": "h", "hostPath": {"path": "/"}}],
        }});
        let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        let object = |api_version: &str, kind: &str, spec: &Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let webhooks = json!([{"name": "a.b.c", "rules": [{"operations": ["*"]}],
                               "clientConfig": {"service": {"name": "s", "namespace": "n"}}}]);
        vec![
            object("v1", "Pod", &template["spec"]),
            object("apps/v1", "Deployment", &spec),
            object("apps/v1", "ReplicaSet", &spec),
            object("apps/v1", "StatefulSet", &spec),
            object("apps/v1", "DaemonSet", &spec),
            object("batch/v1", "Job", &spec),
            object("batch/v1", "CronJob", &json!({"jobTemplate": {"spec": spec}})),
            object("v1", "ReplicationController", &json!({"template": template})),
            object(
                "v1",
                "Service",
                &json!({"ports": [{"port": 80}], "type": "LoadBalancer"}),
            ),
            object("v1", "PersistentVolume", &json!({"hostPath": {"path": "/"}})),
            object("v1", "PersistentVolumeClaim", &json!({})),
            object("v1", "Namespace", &json!({})),
            object(
                "v1",
                "LimitRange",
                &json!({"limits": [{"type": "Container", "max": {"cpu": "1"}}]}),
            ),
            object("storage.k8s.io/v1", "CSIDriver", &json!({})),
            object(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                &json!({"behavior": {"scaleUp": {"policies": []}}}),
            ),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "stringData": {"a": "b"}, "data": {"a": "eA=="}}),
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {}, "roleRef": {"kind": "Role"},
                   "subjects": [{"kind": "User", "name": "u"}]}),
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {},
                   "webhooks": webhooks}),
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &json!({"names": {"kind": "K"}, "versions": [{"name": "v1", "storage": true}]}),
            ),
        ]
    }

    #[test]
    fn filling_in_twice_is_filling_in_once() {
        for example in examples() {
            let once = defaulted(example.clone());
            assert_eq!(defaulted(once.clone()), once, "{}", example["kind"]);
            assert_ne!(once, example, "{}", example["kind"]);
        }
    }

    #[test]
    fn a_text_in_a_secret_becomes_bytes_and_wins() {
        let secret = defaulted(examples()[15].clone());
        assert_eq!(secret["data"], json!({"a": "Yg=="}));
        assert_eq!(secret["type"], "Opaque");
        assert!(secret.get("stringData").is_none());
    }

    #[test]
    fn a_limit_is_also_the_default_and_the_default_request() {
        let range = defaulted(examples()[12].clone());
        assert_eq!(
            range["spec"]["limits"][0],
            json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}})
        );
    }
}
