//! Volumes, claims, classes and drivers.

use serde_json::{Value, json};

use super::{fill, inside, pod};

pub(super) fn volume(object: &mut Value) {
    if let Some(spec) = inside(object, &["spec"]) {
        fill(spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(spec, "volumeMode", "Filesystem");
        if let Some(path) = inside(spec, &["hostPath"]) {
            pod::host_path(path);
        }
    }
    if let Some(status) = inside(object, &["status"]) {
        fill(status, "phase", "Pending");
    }
}

pub(super) fn claim(object: &mut Value) {
    if let Some(spec) = inside(object, &["spec"]) {
        claim_specification(spec);
    }
    if let Some(status) = inside(object, &["status"]) {
        fill(status, "phase", "Pending");
    }
}

pub(super) fn claim_specification(spec: &mut Value) {
    fill(spec, "volumeMode", "Filesystem");
}

pub(super) fn class(object: &mut Value) {
    fill(object, "reclaimPolicy", "Delete");
    fill(object, "volumeBindingMode", "Immediate");
}

pub(super) fn driver(object: &mut Value) {
    let Some(spec) = inside(object, &["spec"]) else {
        return;
    };
    fill(spec, "attachRequired", true);
    fill(spec, "podInfoOnMount", false);
    fill(spec, "storageCapacity", false);
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "volumeLifecycleModes", json!(["Persistent"]));
    fill(spec, "requiresRepublish", false);
    fill(spec, "seLinuxMount", false);
}
