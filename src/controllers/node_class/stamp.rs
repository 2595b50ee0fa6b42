//! Writes what machines of a class are made of: onto the class for people, onto its claims for comparison.
//!
//! A claim is stamped when its life begins, in the write that adds its finalizer. Here are only those that missed that,
//! and all of them when a release computes the hash in another way: they are given the new hash instead of drifting.

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::Error;
use crate::api::{IBMNodeClass, NODE_CLASS_HASH_VERSION, NodeClaim, names};
use crate::controllers::context::Context;
use crate::lifecycle::facts::Facts;

/// The annotations of a claim that is made from `class` now.
pub fn annotations(class: &IBMNodeClass) -> Value {
    let fields = serde_json::to_string(&class.ingredients()).unwrap_or_default();
    json!({
        names::NODE_CLASS_HASH: class.hash(),
        names::NODE_CLASS_HASH_VERSION: NODE_CLASS_HASH_VERSION,
        names::NODE_CLASS_FIELDS: fields,
    })
}

/// Gives the class its finalizer and its hash, if it lacks one of them.
pub(super) async fn class(context: &Context, class: IBMNodeClass) -> Result<IBMNodeClass, Error> {
    if is_stamped(&class) {
        return Ok(class);
    }
    let mut finalizers = class.finalizers().to_vec();
    if !finalizers.iter().any(|it| it == names::NODE_CLASS_FINALIZER) {
        finalizers.push(names::NODE_CLASS_FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "resourceVersion": class.resource_version(),
        "finalizers": finalizers,
        "annotations": {
            names::NODE_CLASS_HASH: class.hash(),
            names::NODE_CLASS_HASH_VERSION: NODE_CLASS_HASH_VERSION,
        },
    }});
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    classes
        .patch(&class.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(Error::kube("marking the class"))
}

/// Whether the class has its finalizer and its hash.
pub(super) fn is_stamped(class: &IBMNodeClass) -> bool {
    let annotation = |key: &str| class.annotations().get(key).map(String::as_str);
    class
        .finalizers()
        .iter()
        .any(|it| it == names::NODE_CLASS_FINALIZER)
        && annotation(names::NODE_CLASS_HASH_VERSION) == Some(NODE_CLASS_HASH_VERSION)
        && annotation(names::NODE_CLASS_HASH) == Some(class.hash().as_str())
}

/// Every claim that is made from `class`.
pub(super) async fn users(context: &Context, class: &str) -> Result<Vec<NodeClaim>, Error> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    // No resourceVersion: answered from the latest state, not from a cache.
    let all = claims
        .list(&ListParams::default())
        .await
        .map_err(Error::kube("listing the claims"))?;
    Ok(all.items.into_iter().filter(|claim| uses(claim, class)).collect())
}

fn uses(claim: &NodeClaim, class: &str) -> bool {
    let reference = &claim.spec.node_class_ref;
    reference.group == names::IBM_GROUP && reference.kind == "IBMNodeClass" && reference.name == class
}

/// Stamps the claims of `class` that bear no hash, or one that was computed in another way.
pub(super) async fn claims(context: &Context, class: &IBMNodeClass) -> Result<(), Error> {
    let api: Api<NodeClaim> = Api::all(context.client.clone());
    for claim in users(context, &class.name_any()).await? {
        let Some(annotations) = restamped(&claim, class) else {
            continue;
        };
        let patch = json!({"metadata": {
            "resourceVersion": claim.resource_version(), "uid": claim.uid(), "annotations": annotations,
        }});
        match api
            .patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => {}
            // It changed meanwhile or is gone: the next round sees to it.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            Err(error) => return Err(Error::kube("stamping a claim")(error)),
        }
    }
    Ok(())
}

/// What to write on a claim, if anything. One that has drifted keeps its hash, and stays drifted.
fn restamped(claim: &NodeClaim, class: &IBMNodeClass) -> Option<Value> {
    let version = claim.annotations().get(names::NODE_CLASS_HASH_VERSION);
    if version.is_some_and(|version| version == NODE_CLASS_HASH_VERSION) {
        return None;
    }
    match version {
        // It is about to be stamped by whoever buys its machine.
        None if !claim.is_launched() => None,
        Some(_) if claim.is(names::DRIFTED) => {
            Some(json!({names::NODE_CLASS_HASH_VERSION: NODE_CLASS_HASH_VERSION}))
        }
        _ => Some(annotations(class)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> IBMNodeClass {
        let spec = json!({"region": "us-south", "vpc": "v", "image": "i"});
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn claim(version: Option<&str>, conditions: &[&str]) -> NodeClaim {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|it| json!({"type": it, "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}))
            .collect();
        let mut annotations = json!({names::NODE_CLASS_HASH: "1"});
        if let Some(version) = version {
            annotations[names::NODE_CLASS_HASH_VERSION] = json!(version);
        }
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "a"}},
            "status": {"providerID": "ibm:///us-south/1", "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_of_this_version_is_left_alone_whatever_its_hash() {
        assert_eq!(restamped(&claim(Some("v1"), &["Launched"]), &class()), None);
    }

    #[test]
    fn a_claim_of_another_version_is_stamped_anew_instead_of_drifting() {
        let written = restamped(&claim(Some("v0"), &["Launched"]), &class()).unwrap();
        assert_eq!(written[names::NODE_CLASS_HASH], json!(class().hash()));
        assert_eq!(written[names::NODE_CLASS_HASH_VERSION], json!("v1"));
    }

    #[test]
    fn a_drifted_claim_of_another_version_keeps_its_hash() {
        let written = restamped(&claim(Some("v0"), &["Launched", "Drifted"]), &class()).unwrap();
        assert_eq!(written, json!({names::NODE_CLASS_HASH_VERSION: "v1"}));
    }

    #[test]
    fn a_claim_without_a_stamp_is_given_one_once_its_machine_runs() {
        assert_eq!(restamped(&claim(None, &[]), &class()), None);
        assert!(restamped(&claim(None, &["Launched"]), &class()).is_some());
    }
}
