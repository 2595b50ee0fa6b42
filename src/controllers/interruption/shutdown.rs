//! The word of a kubelet that its machine is being shut down, which comes within the 30 seconds of a preemption's notice.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use crate::api::names;
use crate::cloud::ProviderId;
use crate::controllers::context::Context;

/// What a kubelet says when it is told that its machine is going down.
const SHUTTING_DOWN: &str = "node is shutting down";

/// Follows all spot nodes, for as long as this is polled.
pub(super) async fn listen(context: &Context) {
    let spot = format!("{}={}", names::CAPACITY_TYPE, names::CAPACITY_TYPE_SPOT);
    let nodes: Api<Node> = Api::all(context.client.clone());
    let nodes = watcher(nodes, watcher::Config::default().labels(&spot))
        .default_backoff()
        .applied_objects();
    let mut nodes = std::pin::pin!(nodes);
    loop {
        match nodes.try_next().await {
            Ok(Some(node)) => {
                if let Some(machine) = shutting_down(&node) {
                    tracing::info!(node = node.name_any(), "a spot node is shutting down");
                    context.notices.tell(&machine, context.clock.instant());
                }
            }
            Ok(None) => return,
            // The stream goes on: it tries again after a while.
            Err(error) => tracing::warn!(%error, "watching spot nodes"),
        }
    }
}

/// The machine of a managed Node whose kubelet says that it is being shut down.
fn shutting_down(node: &Node) -> Option<String> {
    let is_managed =
        node.labels().contains_key(names::REGISTERED) && node.metadata.deletion_timestamp.is_none();
    let conditions = node.status.iter().flat_map(|status| &status.conditions).flatten();
    let says_so = conditions
        .into_iter()
        .filter(|it| it.type_ == "Ready" && it.status == "False")
        .any(|it| {
            it.message
                .as_deref()
                .is_some_and(|message| message.contains(SHUTTING_DOWN))
        });
    let provider_id = node.spec.as_ref()?.provider_id.as_ref()?;
    let provider_id: ProviderId = provider_id.parse().ok()?;
    (is_managed && says_so).then(|| provider_id.instance().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(status: &str, message: &str, labels: &serde_json::Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": labels},
            "spec": {"providerID": "ibm:///us-south/0717_1"},
            "status": {"conditions": [
                {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": message},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_managed_node_that_says_so_is_shutting_down() {
        let ours = json!({"karpenter.sh/registered": "true"});
        let word = "node is shutting down";
        assert_eq!(
            shutting_down(&node("False", word, &ours)).as_deref(),
            Some("0717_1")
        );
        let several = "container runtime network not ready, node is shutting down";
        assert!(shutting_down(&node("False", several, &ours)).is_some());
        assert_eq!(shutting_down(&node("True", word, &ours)), None);
        assert_eq!(shutting_down(&node("False", "PLEG is not healthy", &ours)), None);
        assert_eq!(shutting_down(&node("False", word, &json!({}))), None);
    }
}
