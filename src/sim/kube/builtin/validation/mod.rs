//! What a server refuses about an object of a built-in kind, besides its metadata: the rules that manifests and
//! clients run into, with the fields and reasons that a real one names.
//!
//! Not judged: statuses, windows options, SELinux and seccomp profiles, volumes of clouds other than by their being
//! there, and the finer points of autoscalers and quotas.

mod change;
mod cluster;
mod config;
mod container;
mod findings;
mod job;
mod placement;
mod pod;
mod pod_paths;
mod rbac;
mod resources;
mod service;
mod storage;
mod volume;
mod webhook;
mod workload;

use serde_json::Value;

use findings::Findings;

pub use cluster::new_event;

use super::fields::{each, is_set, text};
use super::words;
use crate::sim::kube::definitions;
use crate::sim::kube::schema::Cause;

/// Everything that is wrong with a new object, or with the change of an old one.
pub fn problems(object: &Value, old: Option<&Value>, subresource: Option<&str>) -> Vec<Cause> {
    let mut found = Findings::default();
    let pods_own = matches!(subresource, Some("ephemeralcontainers" | "resize"));
    if subresource.is_some() && !pods_own {
        return found.0;
    }
    match (text(object, "kind"), old) {
        ("Pod", Some(old)) if pods_own => {
            rules(&mut found, "Pod", object, Some(old));
            if subresource == Some("resize") {
                pod_paths::resize(&mut found, old, object);
            } else {
                pod_paths::ephemeral(&mut found, old, object);
            }
        }
        ("Pod", Some(old)) => {
            rules(&mut found, "Pod", object, Some(old));
            change::pod(&mut found, old, object);
        }
        (kind, old) => {
            rules(&mut found, kind, object, old);
            if let Some(old) = old {
                change::judge(&mut found, kind, old, object);
            }
        }
    }
    found.0
}

fn rules(found: &mut Findings, kind: &str, object: &Value, old: Option<&Value>) {
    let spec = &object["spec"];
    match kind {
        "Pod" => {
            pod::annotations(found, "metadata.annotations", &object["metadata"]["annotations"]);
            let of = if old.is_some() {
                pod::Of::Pod
            } else {
                pod::Of::NewPod
            };
            pod::specification(found, "spec", spec, of);
        }
        "PodTemplate" => pod::template(found, "template", &object["template"]),
        "Deployment" => workload::deployment(found, spec),
        "ReplicaSet" => workload::replica_set(found, spec),
        "StatefulSet" => workload::stateful_set(found, spec),
        "DaemonSet" => workload::daemon_set(found, spec),
        "ReplicationController" => workload::replication_controller(found, spec),
        "Job" => job::job(found, object, old),
        "CronJob" => job::cron_job(found, object),
        "HorizontalPodAutoscaler" => workload::autoscaler(found, spec),
        "Service" => service::service(found, spec),
        "Endpoints" => service::endpoints(found, object),
        "EndpointSlice" => service::endpoint_slice(found, object),
        "ConfigMap" => config::config_map(found, object),
        "Secret" => config::secret(found, object),
        "ControllerRevision" if !object["data"].is_object() => {
            found.required("data", "data must be a valid JSON object");
        }
        "ResourceQuota" => config::quota(found, spec),
        "LimitRange" => config::limit_range(found, spec),
        "PersistentVolume" => storage::volume(found, spec),
        "PersistentVolumeClaim" => storage::claim(found, "spec", spec),
        "StorageClass" => storage::class(found, object),
        "CSINode" => storage::node(found, spec),
        "CSIDriver" => storage::driver(found, spec),
        "VolumeAttachment" => storage::attachment(found, spec),
        "PodDisruptionBudget" => cluster::budget(found, spec),
        "PriorityClass" => cluster::priority_class(found, object),
        "RuntimeClass" => found.word("handler", &object["handler"], words::label),
        "Node" => cluster::node(found, object),
        "Namespace" => cluster::namespace(found, spec),
        "Lease" => cluster::lease(found, spec),
        "Event" => cluster::event(found, object),
        "Role" | "ClusterRole" => rbac::role(found, kind, object),
        "RoleBinding" | "ClusterRoleBinding" => rbac::binding(found, kind, object),
        "CustomResourceDefinition" => found.0.extend(definitions::problems(object)),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            webhook::configuration(found, object);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
