//! What makes pods: deployments, sets, jobs, and what scales them.

use serde_json::{Value, json};

use super::{each_mut, fill, inside, is_set, pod, storage};

fn template(spec: &mut Value) {
    if let Some(template) = inside(spec, &["template"]) {
        pod::template(template);
    }
}

pub(super) fn replication_controller(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    template(spec);
    let labels = spec["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        fill(spec, "selector", labels.clone());
        fill(&mut object["metadata"], "labels", labels);
    }
}

pub(super) fn deployment(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    template(spec);
    fill(spec, "replicas", 1);
    fill(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        fill(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn replica_set(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    template(spec);
    fill(spec, "replicas", 1);
}

pub(super) fn stateful_set(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    template(spec);
    fill(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    if !is_set(strategy, "type") {
        fill(strategy, "type", "RollingUpdate");
        fill(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = inside(strategy, &["rollingUpdate"])
    {
        fill(rolling, "partition", 0);
    }
    fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    for when in ["whenDeleted", "whenScaled"] {
        fill(&mut spec["persistentVolumeClaimRetentionPolicy"], when, "Retain");
    }
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    for claim in each_mut(spec, "volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        storage::claim(claim);
    }
}

pub(super) fn daemon_set(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    template(spec);
    fill(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        fill(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    fill(spec, "revisionHistoryLimit", 10);
}

pub(super) fn job(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    job_specification(spec);
    // A new job gets labels for its pods first; see `strategy`.
    let labels = &spec["template"]["metadata"]["labels"];
    if spec["manualSelector"] == true || is_set(labels, "batch.kubernetes.io/controller-uid") {
        label_job(object);
    }
}

/// A job without labels has those of its pods.
pub(in crate::sim::kube::builtin) fn label_job(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let none = job["metadata"]["labels"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    if labels.is_object() && none {
        job["metadata"]["labels"] = labels;
    }
}

fn job_specification(spec: &mut Value) {
    template(spec);
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let retries = if is_set(spec, "backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    fill(spec, "backoffLimit", retries);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if is_set(spec, "podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
    if let Some(policy) = inside(spec, &["podFailurePolicy"]) {
        for pattern in each_mut(policy, "rules").flat_map(|rule| each_mut(rule, "onPodConditions")) {
            fill(pattern, "status", "True");
        }
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    // The jobs that it makes are filled in when they are made; their pods here already.
    if let Some(job) = inside(spec, &["jobTemplate", "spec"]) {
        template(job);
    }
}

pub(super) fn autoscaler(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    fill(spec, "minReplicas", 1);
    fill(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    if let Some(behavior) = inside(spec, &["behavior"]) {
        fill(behavior, "scaleUp", json!({}));
        fill(&mut behavior["scaleUp"], "stabilizationWindowSeconds", 0);
        scaling(
            &mut behavior["scaleUp"],
            json!([policy("Pods", 4), policy("Percent", 100)]),
        );
        fill(behavior, "scaleDown", json!({}));
        scaling(&mut behavior["scaleDown"], json!([policy("Percent", 100)]));
    }
}

fn scaling(rules: &mut Value, policies: Value) {
    fill(rules, "selectPolicy", "Max");
    fill(rules, "policies", policies);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_that_recreates_has_no_rolling_update() {
        let mut object = json!({"spec": {"strategy": {"type": "Recreate"}}});
        deployment(&mut object);
        assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
        assert_eq!(object["spec"]["replicas"], 1);
    }

    #[test]
    fn a_job_is_done_after_one_pod_unless_it_says_how_many_run_at_once() {
        let mut one = json!({"spec": {}});
        job(&mut one);
        assert_eq!(
            (&one["spec"]["completions"], &one["spec"]["parallelism"]),
            (&json!(1), &json!(1))
        );
        let mut queue = json!({"spec": {"parallelism": 3}});
        job(&mut queue);
        assert!(queue["spec"].get("completions").is_none());
    }
}
