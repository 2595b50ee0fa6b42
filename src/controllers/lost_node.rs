//! A Node that is being deleted and waits for us, while no claim answers for it any more. Its machine is known by the id that
//! the Node bears and by nothing else: the machine's name went with the claim.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::context::Context;
use super::events::{Kind, Story};
use crate::api::names;
use crate::cloud::{self, ProviderId};

/// The machine that a Node says it is.
pub(super) fn machine_of(node: &Node) -> Option<String> {
    let provider_id = node.spec.as_ref()?.provider_id.as_ref()?;
    Some(provider_id.parse::<ProviderId>().ok()?.instance().to_owned())
}

/// Whether a machine is not found by its id. One sighting proves little: a second counts, when the visibility delay has
/// passed in between.
pub(super) async fn is_absent(context: &Context, machine: &str) -> Result<bool, cloud::Error> {
    match context.cloud.get(machine).await {
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Takes our finalizer off a Node whose claim and machine are gone, and says so first; not when that cannot be said.
pub(super) async fn release(context: &Context, node: &Node) -> kube::Result<()> {
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_COLLECTED,
        action: "Collect",
        note: "its claim and its machine are gone: it is let go".to_owned(),
        transition: String::new(),
    };
    context.events.try_tell(node, story).await?;
    let kept = node.finalizers().iter();
    let kept: Vec<&String> = kept
        .filter(|name| *name != names::TERMINATION_FINALIZER)
        .collect();
    let patch = json!({"metadata": {"resourceVersion": node.resource_version(), "finalizers": kept}});
    let nodes: Api<Node> = Api::all(context.client.clone());
    let params = PatchParams::default();
    match nodes.patch(&node.name_any(), &params, &Patch::Merge(patch)).await {
        Ok(_) => {
            context.metrics.collected("node");
            Ok(())
        }
        // Gone, or written to since it was judged: it is judged anew, if it is there.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}
