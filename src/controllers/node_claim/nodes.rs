//! The writes to a claim's Node.

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Error;
use super::observe::Known;
use crate::controllers::context::Context;
use crate::lifecycle::NodeChange;

/// Gives a Node what its claim says, at the version that this was computed from.
pub(super) async fn change(context: &Context, known: &Known, change: NodeChange) -> Result<Known, Error> {
    let mut patch = json!({
        "metadata": {"resourceVersion": change.resource_version, "labels": change.labels},
    });
    if let Some(taints) = change.taints {
        patch["spec"] = json!({"taints": taints});
    }
    if let Some(finalizers) = change.finalizers {
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    nodes
        .patch(&change.name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(Error::kube("changing the node"))?;
    Ok(known.clone())
}

/// Deletes the Node that a machine left behind.
pub(super) async fn delete(context: &Context, known: &Known, uid: String) -> Result<Known, Error> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let only_this = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        resource_version: None,
    });
    match nodes.delete(&known.claim.name_any(), &only_this).await {
        Ok(_) => Ok(known.clone()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(known.clone()),
        Err(error) => Err(Error::kube("deleting the node")(error)),
    }
}
