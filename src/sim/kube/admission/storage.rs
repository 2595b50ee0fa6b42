//! Claims and volumes: the default class, and finalizers that keep what is in use.

use serde_json::{Value, json};

use super::{Admission, Operation};
use crate::sim::kube::builtin::fields::{fill, text};
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::{State, about};
use crate::sim::kube::store::ObjectKey;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// StorageObjectInUseProtection and DefaultStorageClass.
pub(super) fn protect(state: &State, admission: &Admission<'_>, object: &mut Value) {
    if admission.operation != Operation::Create || admission.subresource.is_some() {
        return;
    }
    let finalizer = if admission.kind.kind == "PersistentVolume" {
        "kubernetes.io/pv-protection"
    } else {
        choose_class(state, object);
        "kubernetes.io/pvc-protection"
    };
    fill(&mut object["metadata"], "finalizers", json!([]));
    if let Some(list) = object["metadata"]["finalizers"].as_array_mut()
        && !list.contains(&json!(finalizer))
    {
        list.push(finalizer.into());
    }
}

/// A claim that says nothing gets the newest default class; one that says "" gets none.
fn choose_class(state: &State, claim: &mut Value) {
    let said = claim["spec"]["storageClassName"].is_string()
        || claim["metadata"]["annotations"][CLASS_ANNOTATION].is_string();
    if said {
        return;
    }
    let classes = state
        .store
        .list(&TableKey::of("storage.k8s.io", "storageclasses"), None);
    let is_default = |class: &Value| {
        DEFAULT_ANNOTATIONS
            .iter()
            .any(|annotation| class["metadata"]["annotations"][*annotation] == "true")
    };
    let newest = classes
        .map(|stored| stored.value())
        .filter(is_default)
        .max_by(|one, other| {
            let age = |class: &Value| object::meta(class, "creationTimestamp").to_owned();
            // Of two of the same second the first by name wins.
            age(one)
                .cmp(&age(other))
                .then_with(|| object::name(other).cmp(object::name(one)))
        });
    if let Some(class) = newest {
        claim["spec"]["storageClassName"] = object::name(&class).into();
    }
}

/// PersistentVolumeClaimResize: only classes that say so let a bound claim grow.
pub(super) fn check_growth(state: &State, admission: &Admission<'_>, claim: &Value) -> Result<(), Refusal> {
    let Some(old) = admission.old.filter(|_| admission.subresource.is_none()) else {
        return Ok(());
    };
    let size = |claim: &Value| {
        let text = claim["spec"]["resources"]["requests"]["storage"].as_str();
        text.and_then(|text| text.parse::<crate::quantity::Quantity>().ok())
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    let refuse = |why: &str| {
        Err(Refusal::forbidden(
            about(admission.kind, object::name(claim)),
            why,
        ))
    };
    if old["status"]["phase"] != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    let key = ObjectKey::new("", text(&claim["spec"], "storageClassName"));
    let class = state
        .store
        .get(&TableKey::of("storage.k8s.io", "storageclasses"), &key);
    if class.is_none_or(|class| class.value()["allowVolumeExpansion"] != true) {
        return refuse(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
}
