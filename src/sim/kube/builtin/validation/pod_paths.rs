//! What may be written on a pod's own paths: `ephemeralcontainers` and `resize`.

use serde_json::Value;

use super::findings::Findings;
use super::{each, text};
use crate::sim::kube::builtin::fields::is_set;
use crate::sim::kube::builtin::qos;
use crate::sim::kube::object;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Ephemeral containers come; they neither change nor go.
pub(super) fn ephemeral(found: &mut Findings, old: &Value, new: &Value) {
    if is_set(&old["metadata"]["annotations"], MIRROR) {
        found.0.clear();
        found.forbidden("", "static pods do not support ephemeral containers");
        return;
    }
    for known in each(&old["spec"], "ephemeralContainers") {
        let name = text(known, "name");
        let mut now = each(&new["spec"], "ephemeralContainers");
        let problem = match now.find(|container| container["name"] == name) {
            None => "may not be removed",
            Some(container) if container != known => "may not be changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers \"{name}\" {problem}\n");
        found.forbidden("spec.ephemeralContainers", &detail);
    }
}

/// Processor and memory of containers may change, as long as none of them is taken back.
pub(super) fn resize(found: &mut Findings, old: &Value, new: &Value) {
    let (before, after) = (&old["spec"], &new["spec"]);
    if is_set(&old["metadata"]["annotations"], MIRROR) {
        found.0.clear();
        found.forbidden("", "static pods cannot be resized");
        return;
    }
    if before["os"]["name"] == "windows" {
        found.0.clear();
        found.forbidden("", "windows pods cannot be resized");
        return;
    }
    if qos::class(before) != qos::class(after) {
        let class = &new["status"]["qosClass"];
        found.invalid(
            "spec",
            class,
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    if runs_where_it_cannot_grow(old) {
        found.forbidden("spec", "Pod running on node without support for resize");
    }
    let whole = |spec: &Value| {
        ["requests", "limits"]
            .iter()
            .any(|list| is_filled(&spec["resources"][list]))
    };
    if whole(before) || whole(after) {
        found.forbidden("", "resize of pods with pod-level resources is forbidden");
        return;
    }
    if order(found, before, after) {
        containers(found, before, after);
    }
}

fn is_filled(list: &Value) -> bool {
    list.as_object().is_some_and(|list| !list.is_empty())
}

/// A kubelet that can resize says what its containers have.
fn runs_where_it_cannot_grow(pod: &Value) -> bool {
    let mut running =
        each(&pod["status"], "containerStatuses").filter(|status| status["state"]["running"].is_object());
    running
        .next()
        .is_some_and(|status| !status["resources"].is_object())
}

/// Whether the containers are those that they were, in their order.
fn order(found: &mut Findings, before: &Value, after: &Value) -> bool {
    let known = found.0.len();
    for list in ["containers", "initContainers"] {
        if each(before, list).count() != each(after, list).count() {
            let detail = format!("{list} may not be added or removed on resize");
            found.forbidden(&format!("spec.{list}"), &detail);
            continue;
        }
        for (index, (old, new)) in each(before, list).zip(each(after, list)).enumerate() {
            if old["name"] != new["name"] {
                let detail = format!("{list} may not be renamed or reordered on resize");
                found.forbidden(&format!("spec.{list}[{index}].name"), &detail);
            }
        }
    }
    found.0.len() == known
}

fn containers(found: &mut Findings, before: &Value, after: &Value) {
    for list in ["initContainers", "containers"] {
        for (index, (old, new)) in each(before, list).zip(each(after, list)).enumerate() {
            let is_plain_init = list == "initContainers" && old["restartPolicy"] != "Always";
            let detail = match list {
                _ if is_plain_init => "resources for non-sidecar init containers are immutable",
                "containers" => "only cpu and memory resources are mutable",
                _ => "only cpu and memory resources for sidecar containers are mutable",
            };
            let mut munged = new.clone();
            if !is_plain_init {
                removed(found, &format!("spec.{list}[{index}].resources"), old, new);
                munged["resources"] = unchanged(&old["resources"], &new["resources"]);
            }
            if munged != *old {
                found.forbidden("spec", detail);
            }
        }
    }
}

fn removed(found: &mut Findings, at: &str, old: &Value, new: &Value) {
    for (list, words) in [("requests", "resource requests"), ("limits", "resource limits")] {
        let mut names = old["resources"][list].as_object().into_iter().flatten();
        if names.any(|(name, _)| new["resources"][list].get(name).is_none()) {
            found.forbidden(&format!("{at}.{list}"), &format!("{words} cannot be removed"));
        }
    }
}

/// The new resources with what may change taken from the old.
fn unchanged(old: &Value, new: &Value) -> Value {
    let mut resources = Value::Object(serde_json::Map::new());
    for list in ["requests", "limits"] {
        let mut amounts = new[list].as_object().cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            match old[list].get(name) {
                Some(amount) => amounts.insert(name.to_owned(), amount.clone()),
                None => amounts.remove(name),
            };
        }
        if !amounts.is_empty() {
            resources[list] = Value::Object(amounts);
        }
    }
    // Claims are resources, too, and stay.
    if let Some(claims) = old
        .get("claims")
        .filter(|claims| new.get("claims") == Some(claims))
    {
        object::object_mut(&mut resources).insert("claims".to_owned(), claims.clone());
    }
    resources
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(requests: &Value) -> Value {
        json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
    }

    fn fields(old: &Value, new: &Value) -> Vec<String> {
        let mut found = Findings::default();
        resize(&mut found, old, new);
        found.0.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn processor_and_memory_may_change_and_nothing_else() {
        let old = pod(&json!({"cpu": "1", "example.com/gpu": "1"}));
        assert!(
            fields(
                &old,
                &pod(&json!({"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}))
            )
            .is_empty()
        );
        assert_eq!(
            fields(&old, &pod(&json!({"cpu": "2", "example.com/gpu": "2"}))),
            ["spec"]
        );
        assert_eq!(
            fields(&old, &pod(&json!({"example.com/gpu": "1"}))),
            ["spec", "spec.containers[0].resources.requests"],
            "its quality of service changes as well"
        );
    }

    #[test]
    fn a_container_that_runs_where_nobody_resizes_stays_as_it_is() {
        let mut old = pod(&json!({"cpu": "1"}));
        old["status"]["containerStatuses"] = json!([{"name": "c", "state": {"running": {}}}]);
        assert_eq!(fields(&old, &pod(&json!({"cpu": "2"}))), ["spec"]);
        old["status"]["containerStatuses"][0]["resources"] = json!({});
        assert!(fields(&old, &pod(&json!({"cpu": "2"}))).is_empty());
    }
}
