//! Nodes with pods on them, made by hand: no machine boots here.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_ibm::api::NodeClaim;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::place::Place;
use super::process::Operator;
use super::{AT_ONCE, until};

/// Pods on each node.
pub(crate) const PODS_EACH: usize = 30;

/// The machines of all claims join and are ready for work.
pub(crate) async fn join(place: &Place, count: usize) -> Result<()> {
    let claims: Api<NodeClaim> = Api::all(place.client.clone());
    let nodes: Api<Node> = Api::all(place.client.clone());
    for claim in claims.list(&ListParams::default()).await? {
        let name = claim.name_any();
        let provider_id = claim
            .status
            .and_then(|status| status.provider_id)
            .context("not launched")?;
        let id = provider_id.rsplit('/').next().unwrap_or_default();
        let machine = place.cloud.instance(id).context("no machine")?;
        let address = machine.address.context("no address")?.to_string();
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": provider_id}});
        nodes
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        let amounts = json!({"cpu": "2", "memory": "7Gi", "pods": "110", "ephemeral-storage": "80Gi"});
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let params = PatchParams::default();
        nodes.patch_status(&name, &params, &Patch::Merge(status)).await?;
        // A new node has a taint until the cluster's node controller sees that it is ready; there is none here.
        let untainted = json!({"spec": {"taints": null}});
        nodes.patch(&name, &params, &Patch::Merge(untainted)).await?;
    }
    until(async || {
        let all = claims.list(&ListParams::default()).await?;
        let is_ready = |claim: &&NodeClaim| {
            let conditions = claim.status.iter().flat_map(|it| &it.conditions).flatten();
            let mut ready = conditions.into_iter();
            ready.any(|it| it.type_ == "Initialized" && it.status == "True")
        };
        Ok(all.items.iter().filter(is_ready).count() == count)
    })
    .await
}

/// Pods run on all nodes.
pub(crate) async fn inhabit(place: &Place, nodes: usize) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(place.client.clone());
    let made = stream::iter(0..nodes * PODS_EACH).map(|number| {
        let pods = pods.clone();
        async move {
            let name = format!("shop-{number}");
            let pod = json!({
                "metadata": {"name": name},
                "spec": {
                    "nodeName": format!("claim-{}", number / PODS_EACH), "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}],
                },
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
                .await?;
            let status = json!({"status": {"phase": "Running"}});
            let params = PatchParams::default();
            pods.patch_status(&name, &params, &Patch::Merge(status)).await?;
            anyhow::Ok(())
        }
    });
    made.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// All claims are deleted; the most memory that the operator has until all nodes are gone.
pub(crate) async fn leave(place: &Place, operator: &Operator) -> Result<u64> {
    let claims: Api<NodeClaim> = Api::all(place.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(place.client.clone());
    for claim in claims.list(&ListParams::default()).await? {
        claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
    }
    let mut most = 0;
    until(async || {
        // What kubelets do with pods that are told to go.
        let leaving = pods.list(&ListParams::default()).await?.items;
        let leaving = leaving
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_some());
        let ended = stream::iter(leaving).map(|pod| {
            let pods = pods.clone();
            async move {
                let now = DeleteParams::default().grace_period(0);
                pods.delete(&pod.name_any(), &now).await.map(drop)
            }
        });
        ended.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        most = most.max(operator.memory_mb("VmRSS:")?);
        Ok(claims
            .list_metadata(&ListParams::default())
            .await?
            .items
            .is_empty())
    })
    .await?;
    Ok(most)
}
