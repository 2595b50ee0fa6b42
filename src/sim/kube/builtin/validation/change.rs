//! What may not change once it is said.

use serde_json::{Value, json};

use super::findings::{Findings, amount};
use super::{each, is_set, storage, text};
use crate::sim::kube::object;

const IMMUTABLE: &str = "field is immutable";

fn same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    };
    one == other || (empty(one) && empty(other))
}

/// Blames a field that differs.
fn fixed(found: &mut Findings, old: &Value, new: &Value, path: &str) {
    let (before, after) = (object::at(old, path), object::at(new, path));
    if !same(before, after) {
        found.invalid(path, after, IMMUTABLE);
    }
}

/// The same, for rules that say it in other words.
fn barred(found: &mut Findings, old: &Value, new: &Value, path: &str, detail: &str) {
    if !same(object::at(old, path), object::at(new, path)) {
        found.forbidden(path, detail);
    }
}

/// Judges a change of anything but a pod.
pub(super) fn judge(found: &mut Findings, kind: &str, old: &Value, new: &Value) {
    match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => fixed(found, old, new, "spec.selector"),
        "StatefulSet" => stateful_set(found, old, new),
        "Job" => job(found, old, new),
        "PersistentVolumeClaim" => claim(found, old, new),
        "PersistentVolume" => volume(found, old, new),
        "StorageClass" => {
            barred(
                found,
                old,
                new,
                "parameters",
                "updates to parameters are forbidden.",
            );
            barred(
                found,
                old,
                new,
                "provisioner",
                "updates to provisioner are forbidden.",
            );
            barred(
                found,
                old,
                new,
                "reclaimPolicy",
                "updates to reclaimPolicy are forbidden.",
            );
            fixed(found, old, new, "volumeBindingMode");
        }
        "VolumeAttachment" => fixed(found, old, new, "spec"),
        "CSINode" => csi_node(found, old, new),
        "Secret" => {
            fixed(found, old, new, "type");
            frozen(found, old, new, &["data"]);
        }
        "ConfigMap" => frozen(found, old, new, &["data", "binaryData"]),
        "Node" => node(found, old, new),
        "PriorityClass" => {
            barred(found, old, new, "value", "may not be changed in an update.");
            fixed(found, old, new, "preemptionPolicy");
        }
        "RoleBinding" | "ClusterRoleBinding" if old["roleRef"] != new["roleRef"] => {
            found.invalid("roleRef", &new["roleRef"], "cannot change roleRef");
        }
        "RuntimeClass" => fixed(found, old, new, "handler"),
        "EndpointSlice" => fixed(found, old, new, "addressType"),
        "ControllerRevision" => fixed(found, old, new, "data"),
        "CSIDriver" => {
            for field in ["attachRequired", "volumeLifecycleModes"] {
                fixed(found, old, new, &format!("spec.{field}"));
            }
        }
        "Service" => service(found, old, new),
        "CustomResourceDefinition" => {
            fixed(found, old, new, "spec.group");
            fixed(found, old, new, "spec.scope");
            fixed(found, old, new, "spec.names.plural");
            fixed(found, old, new, "spec.names.kind");
        }
        _ => {}
    }
}

/// What is the same after some fields are taken from the old.
fn only(old: &Value, new: &Value, changeable: &[&str]) -> bool {
    let mut munged = new["spec"].clone();
    for field in changeable {
        let fields = object::object_mut(&mut munged);
        match old["spec"].get(*field) {
            Some(value) => fields.insert((*field).to_owned(), value.clone()),
            None => fields.remove(*field),
        };
    }
    munged == old["spec"]
}

fn stateful_set(found: &mut Findings, old: &Value, new: &Value) {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    if !only(old, new, &CHANGEABLE) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        found.forbidden("spec", detail);
    }
}

fn job(found: &mut Findings, old: &Value, new: &Value) {
    job_template(found, old, new);
    for field in [
        "completions",
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        fixed(found, old, new, &format!("spec.{field}"));
    }
}

/// The template of a job is fixed, except where its pods run as long as it was never started.
fn job_template(found: &mut Findings, old: &Value, new: &Value) {
    let mut before = old["spec"]["template"].clone();
    let after = &new["spec"]["template"];
    if old["spec"]["suspend"] == true && !is_set(&old["status"], "startTime") {
        for (part, fields) in [
            ("metadata", ["labels", "annotations"].as_slice()),
            (
                "spec",
                ["nodeSelector", "tolerations", "schedulingGates", "affinity"].as_slice(),
            ),
        ] {
            for field in fields {
                let fields = object::object_mut(&mut before[part]);
                match after[part].get(*field) {
                    Some(value) => fields.insert((*field).to_owned(), value.clone()),
                    None => fields.remove(*field),
                };
            }
        }
    }
    if before != *after {
        found.invalid("spec.template", after, IMMUTABLE);
    }
}

fn claim(found: &mut Findings, old: &Value, new: &Value) {
    let (mut munged, before) = (new["spec"].clone(), &old["spec"]);
    // A claim may be bound once, and a bound one may grow.
    if !is_set(before, "volumeName") {
        object::object_mut(&mut munged).remove("volumeName");
    }
    let bound = old["status"]["phase"] == "Bound";
    let size = |spec: &Value| spec["resources"]["requests"]["storage"].clone();
    if bound && is_set(&munged["resources"], "requests") && before["resources"].get("requests").is_some() {
        munged["resources"]["requests"] = before["resources"]["requests"].clone();
    }
    if !same(&munged["storageClassName"], &before["storageClassName"]) && !is_set(before, "storageClassName")
    {
        munged["storageClassName"] = before["storageClassName"].clone();
        if munged["storageClassName"].is_null() {
            object::object_mut(&mut munged).remove("storageClassName");
        }
    }
    if munged != *before {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                      bound claims";
        found.forbidden("spec", detail);
    }
    if bound && amount(&size(&new["spec"])) < amount(&size(before)) {
        let detail = "field can not be less than status.capacity";
        found.forbidden("spec.resources.requests.storage", detail);
    }
}

fn volume(found: &mut Findings, old: &Value, new: &Value) {
    if storage::sources(&old["spec"]) != storage::sources(&new["spec"]) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        found.forbidden("spec.persistentvolumesource", detail);
    }
    // A real server leaves out where that field stands.
    if !same(&old["spec"]["volumeMode"], &new["spec"]["volumeMode"]) {
        found.invalid("volumeMode", &new["spec"]["volumeMode"], IMMUTABLE);
    }
    if is_set(&old["spec"], "nodeAffinity") {
        fixed(found, old, new, "spec.nodeAffinity");
    }
}

/// Of a driver on a node only the number of volumes may change; drivers come and go as a whole.
fn csi_node(found: &mut Findings, old: &Value, new: &Value) {
    let bare = |driver: &Value| {
        let mut driver = driver.clone();
        object::object_mut(&mut driver).remove("allocatable");
        driver
    };
    for driver in each(&new["spec"], "drivers") {
        let before = each(&old["spec"], "drivers").find(|other| other["name"] == driver["name"]);
        if before.is_some_and(|before| bare(before) != bare(driver)) {
            found.invalid("spec.drivers", driver, IMMUTABLE);
        }
    }
}

/// Data that was declared immutable, which is itself immutable then.
fn frozen(found: &mut Findings, old: &Value, new: &Value, fields: &[&str]) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        found.forbidden("immutable", DETAIL);
    }
    for field in fields {
        barred(found, old, new, field, DETAIL);
    }
}

fn node(found: &mut Findings, old: &Value, new: &Value) {
    let once = |field: &str| is_set(&old["spec"], field) && !same(&old["spec"][field], &new["spec"][field]);
    if once("podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        found.forbidden("spec.podCIDRs", detail);
    }
    if once("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        found.forbidden("spec.providerID", detail);
    }
}

fn service(found: &mut Findings, old: &Value, new: &Value) {
    let (before, after) = (&old["spec"], &new["spec"]);
    let typed = |spec: &Value| text(spec, "type") != "ExternalName";
    let held = is_set(before, "clusterIP") && typed(before) && typed(after);
    if held && before["clusterIP"] != after["clusterIP"] {
        found.invalid(
            "spec.clusterIPs[0]",
            &json!([after["clusterIP"]]),
            "may not change once set",
        );
    }
}

/// Judges a change of a pod: nearly nothing may change.
pub(super) fn pod(found: &mut Findings, old: &Value, new: &Value) {
    let (before, after) = (&old["spec"], &new["spec"]);
    for list in ["containers", "initContainers"] {
        if each(before, list).count() != each(after, list).count() {
            found.forbidden(
                &format!("spec.{list}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
        for (index, container) in each(after, list).enumerate() {
            if text(container, "image").is_empty() {
                found.required(&format!("spec.{list}[{index}].image"), "");
            }
        }
    }
    deadline(found, before, after);
    tolerations(found, before, after);
    let gated = each(before, "schedulingGates").next().is_some();
    for (index, gate) in each(after, "schedulingGates").enumerate() {
        if !each(before, "schedulingGates").any(|known| known["name"] == gate["name"]) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                text(gate, "name")
            );
            found.forbidden(&format!("spec.schedulingGates[{index}].name"), &detail);
        }
    }
    if munged(before, after, gated) != *before {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`, \
                      `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions \
                      to existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                      was previously negative)";
        found.forbidden("spec", detail);
    }
}

/// The new specification with all that may change taken from the old.
fn munged(before: &Value, after: &Value, gated: bool) -> Value {
    let mut munged = after.clone();
    for list in ["containers", "initContainers"] {
        let containers = munged[list].as_array_mut().into_iter().flatten();
        for (container, known) in containers.zip(each(before, list)) {
            container["image"] = known["image"].clone();
        }
    }
    let mut taken = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let grace = "terminationGracePeriodSeconds";
    if before[grace].as_i64().is_some_and(|seconds| seconds < 0) && after[grace] == 1 {
        taken.push(grace);
    }
    if gated {
        // While it is gated, where it may run can still be narrowed.
        taken.extend(["nodeSelector", "affinity"]);
    }
    for field in taken {
        let fields = object::object_mut(&mut munged);
        match before.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
    if munged.get("initContainers").is_some_and(Value::is_null) {
        object::object_mut(&mut munged).remove("initContainers");
    }
    munged
}

fn deadline(found: &mut Findings, before: &Value, after: &Value) {
    const FIELD: &str = "activeDeadlineSeconds";
    const AT: &str = "spec.activeDeadlineSeconds";
    match (before[FIELD].as_i64(), after[FIELD].as_i64()) {
        (_, Some(seconds)) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            found.invalid(AT, &after[FIELD], "must be between 0 and 2147483647, inclusive");
        }
        (Some(old), Some(new)) if new > old => {
            found.invalid(AT, &after[FIELD], "must be less than or equal to previous value");
        }
        (Some(_), None) => found.invalid(
            AT,
            &Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
}

fn tolerations(found: &mut Findings, before: &Value, after: &Value) {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        object::object_mut(&mut toleration).remove("tolerationSeconds");
        toleration
    };
    let kept =
        each(before, "tolerations").all(|old| each(after, "tolerations").any(|new| bare(new) == bare(old)));
    if !kept {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        found.forbidden("spec.tolerations", detail);
    }
}
