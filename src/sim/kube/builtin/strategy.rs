//! Which parts of an object a write may change, what a server adds to a new one, and when the generation counts.
//!
//! The general form: the main path never changes the status where there is a path for it, `/status` never changes the
//! specification, and neither changes what the server alone decides. The tables and matches below are where a kind
//! differs.

use serde_json::{Value, json};

use super::defaults::label_job;
use super::fields::{each, each_mut, fill, is_set};
use super::qos;
use crate::sim::kube::kind::Kind;
use crate::sim::kube::object;

/// Metadata that only the server writes.
const DECIDED: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
];

/// Whether a new object may bring its own status. A kubelet registers its node with one.
pub fn takes_status(kind: &Kind) -> bool {
    !kind.has_subresource("status") || kind.plural == "nodes" && kind.group.is_empty()
}

/// Whether a replacement must say which version it replaces.
pub fn needs_version(kind: &Kind) -> bool {
    const CAREFUL: [&str; 9] = [
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "PodDisruptionBudget",
        "RuntimeClass",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    ];
    kind.custom().is_some() || CAREFUL.contains(&kind.kind.as_str())
}

/// Whether replacing an object that is not there makes it.
pub fn is_made_by_update(kind: &Kind) -> bool {
    let made = matches!(
        kind.plural.as_str(),
        "clusterrolebindings"
            | "clusterroles"
            | "endpoints"
            | "events"
            | "leases"
            | "limitranges"
            | "rolebindings"
            | "roles"
            | "runtimeclasses"
            | "services"
    );
    made && kind.custom().is_none()
}

/// What a server adds to a new object of a built-in kind, when defaults are in.
pub fn begin(object: &mut Value) {
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => begin_pod(object),
        "Namespace" => {
            fill(&mut object["spec"], "finalizers", json!([]));
            if let Some(list) = object["spec"]["finalizers"].as_array_mut()
                && !list.contains(&json!("kubernetes"))
            {
                list.push("kubernetes".into());
            }
            object["status"] = json!({"phase": "Active"});
        }
        "Job" => {
            select_own_pods(object);
            label_job(object);
        }
        "DaemonSet" => write_template_generation(object, 1),
        "PersistentVolume" => {
            let now = object["metadata"]["creationTimestamp"].clone();
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        _ => {}
    }
}

fn begin_pod(pod: &mut Value) {
    // Less than no time is as little as there is.
    const GRACE: &str = "terminationGracePeriodSeconds";
    if pod["spec"][GRACE].as_i64().is_some_and(|seconds| seconds < 0) {
        pod["spec"][GRACE] = 1.into();
    }
    let now = pod["metadata"]["creationTimestamp"].clone();
    let mut status = json!({"phase": "Pending", "qosClass": qos::class(&pod["spec"])});
    if each(&pod["spec"], "schedulingGates").next().is_some() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": now,
        }]);
    }
    pod["status"] = status;
}

/// A job finds its pods by its own uid, unless it says that it knows better.
fn select_own_pods(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let spec = &mut job["spec"];
    fill(&mut spec["template"], "metadata", json!({}));
    fill(&mut spec["template"]["metadata"], "labels", json!({}));
    let labels = &mut spec["template"]["metadata"]["labels"];
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        fill(labels, label, value.clone());
    }
    fill(spec, "selector", json!({}));
    fill(&mut spec["selector"], "matchLabels", json!({}));
    fill(
        &mut spec["selector"]["matchLabels"],
        "batch.kubernetes.io/controller-uid",
        uid,
    );
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A daemon set counts changes of its template in an annotation, where older clients look for it.
fn write_template_generation(set: &mut Value, generation: i64) {
    fill(&mut set["metadata"], "annotations", json!({}));
    set["metadata"]["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
}

/// The new object with everything that this request cannot change taken from the old.
pub fn carry_over(kind: &Kind, subresource: Option<&str>, old: &Value, sent: Value) -> Value {
    let mut object = match subresource {
        // Of a custom resource the status alone changes.
        Some("status") if kind.custom().is_some() => {
            let mut object = old.clone();
            replace(&mut object, "status", &sent);
            object
        }
        Some("status") => status_change(kind, old, &sent),
        Some("finalize") => {
            let mut object = sent;
            replace(&mut object, "status", old);
            object
        }
        Some("ephemeralcontainers") => {
            let mut object = old.clone();
            replace(&mut object["spec"], "ephemeralContainers", &sent["spec"]);
            object
        }
        Some("resize") => resized(old, sent),
        Some(_) => sent,
        None => main_change(kind, old, sent),
    };
    let metadata = object::metadata_mut(&mut object);
    for decided in DECIDED {
        match old["metadata"].get(decided) {
            Some(value) => metadata.insert(decided.to_owned(), value.clone()),
            None => metadata.remove(decided),
        };
    }
    object
}

/// A pod whose containers have the resources that were sent. Where they are others, the rules say so.
fn resized(old: &Value, sent: Value) -> Value {
    let lists = ["containers", "initContainers"];
    let are_same = |list: &str| {
        let names = |pod: &Value| -> Vec<Value> {
            each(&pod["spec"], list)
                .map(|container| container["name"].clone())
                .collect()
        };
        names(old) == names(&sent)
    };
    let count = |pod: &Value, list: &str| each(&pod["spec"], list).count();
    if lists.iter().any(|list| count(old, list) != count(&sent, list)) {
        return sent;
    }
    let mut object = old.clone();
    for list in lists {
        if !are_same(list) {
            replace(&mut object["spec"], list, &sent["spec"]);
            continue;
        }
        for (container, new) in each_mut(&mut object["spec"], list).zip(each(&sent["spec"], list)) {
            for field in ["resources", "resizePolicy"] {
                replace(container, field, new);
            }
        }
    }
    object
}

fn main_change(kind: &Kind, old: &Value, mut object: Value) -> Value {
    if kind.has_subresource("status") {
        replace(&mut object, "status", old);
    }
    if kind.custom().is_none() && kind.kind == "Namespace" {
        fill(&mut object, "spec", json!({}));
        replace(&mut object["spec"], "finalizers", &old["spec"]);
    }
    object
}

fn status_change(kind: &Kind, old: &Value, sent: &Value) -> Value {
    let mut object = old.clone();
    replace(&mut object, "status", sent);
    // Of built-in kinds the metadata may change with the status, save what was found to be abused.
    if !matches!(
        kind.kind.as_str(),
        "VolumeAttachment" | "CustomResourceDefinition"
    ) {
        replace(&mut object, "metadata", sent);
    }
    match kind.kind.as_str() {
        "Pod" => {
            replace(&mut object["metadata"], "ownerReferences", &old["metadata"]);
            fill(&mut object, "status", json!({}));
            let class = old["status"]["qosClass"].clone();
            if !class.is_null() {
                fill(&mut object["status"], "qosClass", class);
            }
        }
        "Deployment" => replace(&mut object["metadata"], "labels", &old["metadata"]),
        _ => {}
    }
    object
}

/// Sets a field of `object` as it is in `source`, or takes it away.
fn replace(object: &mut Value, field: &str, source: &Value) {
    let fields = object::object_mut(object);
    match source.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// Counts the change in the generation, if the kind counts and the change does.
pub fn count(kind: &Kind, old: &Value, object: &mut Value) {
    if kind.custom().is_none() && kind.kind == "DaemonSet" {
        let generation: i64 = old["metadata"]["annotations"][TEMPLATE_GENERATION]
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let changed = old["spec"]["template"] != object["spec"]["template"];
        write_template_generation(object, generation + i64::from(changed));
    }
    if kind.has_generation() && counts(kind, old, object) {
        let next = object::generation(old) + 1;
        object::metadata_mut(object).insert("generation".to_owned(), next.into());
    }
}

fn counts(kind: &Kind, old: &Value, new: &Value) -> bool {
    let metadata = |field: &str| old["metadata"][field] != new["metadata"][field];
    if kind.custom().is_none() {
        match kind.kind.as_str() {
            "PriorityClass" => return false,
            "Deployment" if metadata("annotations") => return true,
            "EndpointSlice" if metadata("labels") => return true,
            _ => {}
        }
    }
    let ignored = |field: &str| field == "metadata" || (field == "status" && kind.has_subresource("status"));
    let same = |one: &Value, other: &Value| {
        let fields = one.as_object().into_iter().flatten();
        let mut fields = fields.filter(|(field, _)| !ignored(field));
        fields.all(|(field, value)| {
            other.get(field) == Some(value) || !is_set(one, field) && !is_set(other, field)
        })
    };
    !same(old, new) || !same(new, old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::kube::registry::Registry;

    fn kind(group: &str, plural: &str) -> std::sync::Arc<Kind> {
        Registry::default().by_plural(group, plural).unwrap()
    }

    #[test]
    fn the_main_path_leaves_the_status_and_status_leaves_the_rest() {
        let old = json!({"metadata": {"name": "n", "uid": "u", "labels": {"a": "1"}}, "spec": {"x": 1}, "status": {"y": 1}});
        let sent = json!({"metadata": {"name": "n", "uid": "v", "labels": {"a": "2"}}, "spec": {"x": 2}, "status": {"y": 2}});
        let nodes = kind("", "nodes");
        assert_eq!(
            carry_over(&nodes, None, &old, sent.clone()),
            json!({"metadata": {"name": "n", "uid": "u", "labels": {"a": "2"}}, "spec": {"x": 2}, "status": {"y": 1}})
        );
        assert_eq!(
            carry_over(&nodes, Some("status"), &old, sent.clone()),
            json!({"metadata": {"name": "n", "uid": "u", "labels": {"a": "2"}}, "spec": {"x": 1}, "status": {"y": 2}})
        );
        let deployments = kind("apps", "deployments");
        let status = carry_over(&deployments, Some("status"), &old, sent);
        assert_eq!(status["metadata"]["labels"], json!({"a": "1"}));
    }

    #[test]
    fn a_pod_keeps_its_owners_whatever_its_kubelet_says() {
        let old =
            json!({"metadata": {"ownerReferences": [{"uid": "o"}]}, "status": {"qosClass": "Burstable"}});
        let sent = json!({"metadata": {}, "status": {"phase": "Running"}});
        let status = carry_over(&kind("", "pods"), Some("status"), &old, sent);
        assert_eq!(status["metadata"]["ownerReferences"][0]["uid"], "o");
        assert_eq!(
            status["status"],
            json!({"phase": "Running", "qosClass": "Burstable"})
        );
    }

    #[test]
    fn generations_count_specifications_and_of_deployments_annotations() {
        let generation = |group: &str, plural: &str, old: Value, mut new: Value| {
            count(&kind(group, plural), &old, &mut new);
            new["metadata"]["generation"].as_i64().unwrap_or_default()
        };
        let of = |spec: i64, annotation: &str| json!({"metadata": {"generation": 1, "annotations": {"a": annotation}}, "spec": {"x": spec}, "status": {}});
        assert_eq!(generation("apps", "deployments", of(1, "a"), of(2, "a")), 2);
        assert_eq!(generation("apps", "deployments", of(1, "a"), of(1, "b")), 2);
        assert_eq!(generation("apps", "replicasets", of(1, "a"), of(1, "b")), 1);
        assert_eq!(
            generation("scheduling.k8s.io", "priorityclasses", of(1, "a"), of(2, "a")),
            1
        );
    }

    #[test]
    fn a_job_selects_the_pods_that_carry_its_uid() {
        let mut job = json!({"kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
        begin(&mut job);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u"})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    }

    #[test]
    fn a_gated_pod_says_that_it_waits() {
        let mut pod = json!({"kind": "Pod", "spec": {"schedulingGates": [{"name": "g"}], "containers": []}});
        begin(&mut pod);
        assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
        assert_eq!(pod["status"]["qosClass"], "BestEffort");
    }
}
