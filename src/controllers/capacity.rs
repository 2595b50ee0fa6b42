//! What nodes really have of the memory that their profiles sell, kept in the status of their class.
//!
//! Looks at the Nodes of claims every few minutes and keeps the least that one of a profile has reported, for the image
//! that the class boots now. Nothing rises again while the image stays: a value that follows whichever nodes are there
//! would have a machine bought for a pod, found too small, given back, forgotten and bought again. A Node counts only
//! if its claim is initialized and has its provider id, and only as far as that is credible
//! ([`credible_memory`]). Written only when it changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::context::Context;
use super::lists;
use crate::api::{IBMNodeClass, NodeClaim, ObservedCapacity, names};
use crate::cloud;
use crate::lifecycle::facts::Facts;
use crate::model::Kind;
use crate::model::offerings::credible_memory;
use crate::quantity::Quantity;
use crate::resources::{MEMORY, quantity_of};

/// Who owns what is written here.
const MANAGER: &str = "karpenter-ibm-capacity";

/// Why a pass is void.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API refused or did not say all.
    #[error("reading or writing the cluster: {0}")]
    Kube(#[from] kube::Error),
    /// The cloud did not say what it sells.
    #[error("reading what is sold: {0}")]
    Cloud(#[from] cloud::Error),
}

/// Looks, for as long as this is polled.
pub async fn run(context: Context) {
    loop {
        if let Err(error) = observe(&context).await {
            tracing::warn!(%error, "what nodes have was not looked at");
        }
        context.clock.sleep(context.settings.resolve_every).await;
    }
}

/// One pass over all classes.
pub async fn observe(context: &Context) -> Result<(), Error> {
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    let mut claims = lists::all(&claims, ListParams::default()).await?.items;
    claims.retain(|claim| claim.is(names::NODE_INITIALIZED) && !claim.is_deleting());
    if claims.is_empty() {
        return Ok(());
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    let nodes = lists::all(&nodes, ListParams::default()).await?.items;
    let nodes: BTreeMap<String, Node> = nodes.into_iter().map(|node| (node.name_any(), node)).collect();
    let kinds = context.cloud.kinds().await?;
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    for class in classes.list(&ListParams::default()).await?.items {
        let observed = observed(&class, &claims, &nodes, &kinds);
        write(context, &class, &observed).await?;
    }
    Ok(())
}

/// What is known of a class's nodes, with what these say now.
fn observed(
    class: &IBMNodeClass,
    claims: &[NodeClaim],
    nodes: &BTreeMap<String, Node>,
    kinds: &[Kind],
) -> Vec<ObservedCapacity> {
    let known = class.status.as_ref().and_then(|it| it.observed_capacity.clone());
    let known = known.unwrap_or_default();
    let Some(image) = class.status.as_ref().and_then(|it| it.resolved_image_id.clone()) else {
        return known;
    };
    // Only of what is sold: so no more is kept than there are profiles.
    let is_sold = |seen: &ObservedCapacity| kinds.iter().any(|kind| kind.name == seen.profile);
    let mut kept: BTreeMap<String, ObservedCapacity> = known
        .into_iter()
        .filter(is_sold)
        .map(|seen| (seen.profile.clone(), seen))
        .collect();
    for claim in claims.iter().filter(|claim| is_of(claim, class, &image)) {
        let Some((kind, memory)) = reported(claim, nodes, kinds) else {
            continue;
        };
        let before = kept.get(&kind.name).filter(|seen| seen.image_id == image);
        let least = before.and_then(|seen| Some(seen.memory.parse::<Quantity>().ok()?.units_ceil()));
        if least.is_none_or(|least| memory < least) {
            let seen = ObservedCapacity {
                profile: kind.name.clone(),
                image_id: image.clone(),
                memory: quantity_of(MEMORY, memory).to_string(),
            };
            kept.insert(kind.name.clone(), seen);
        }
    }
    kept.into_values().collect()
}

/// Whether a claim's machine was made from the class, and boots what new ones boot.
fn is_of(claim: &NodeClaim, class: &IBMNodeClass, image: &str) -> bool {
    let booted = claim
        .status
        .as_ref()
        .and_then(|status| status.image_id.as_deref());
    claim.spec.node_class_ref.name == class.name_any() && booted == Some(image)
}

/// The kind of a claim's machine, and how much memory its Node credibly has.
fn reported<'a>(
    claim: &NodeClaim,
    nodes: &BTreeMap<String, Node>,
    kinds: &'a [Kind],
) -> Option<(&'a Kind, i64)> {
    let node = nodes.get(&claim.name_any())?;
    let own = claim.status.as_ref()?.provider_id.as_ref()?;
    if node.spec.as_ref()?.provider_id.as_ref() != Some(own) {
        return None;
    }
    let profile = &claim.allocation()?.profile;
    let kind = kinds.iter().find(|kind| kind.name == *profile)?;
    let written = node.status.as_ref()?.capacity.as_ref()?.get(MEMORY)?;
    let memory = written.0.parse::<Quantity>().ok()?.units_ceil();
    // Kernels of one version differ by some KiB from boot to boot; a MiB is not worth a write.
    let whole = credible_memory(kind, memory)? >> 20 << 20;
    Some((kind, whole))
}

/// Writes what was seen, if it differs from what is there.
async fn write(context: &Context, class: &IBMNodeClass, observed: &[ObservedCapacity]) -> Result<(), Error> {
    let before = class
        .status
        .as_ref()
        .and_then(|status| status.observed_capacity.as_deref());
    if before.unwrap_or_default() == observed {
        return Ok(());
    }
    let body = json!({
        "apiVersion": IBMNodeClass::api_version(&()),
        "kind": IBMNodeClass::kind(&()),
        "metadata": {
            "name": class.name_any(), "uid": class.uid(), "resourceVersion": class.resource_version(),
        },
        "status": {"observedCapacity": observed},
    });
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let params = PatchParams::apply(MANAGER).force();
    match classes
        .patch_status(&class.name_any(), &params, &Patch::Apply(body))
        .await
    {
        Ok(_) => Ok(()),
        // It changed since it was read, or is gone: the next pass looks anew.
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::Sold;

    const GIB: i64 = 1 << 30;

    fn kinds() -> Vec<Kind> {
        vec![Kind {
            name: "bxf-2x8".to_owned(),
            family: "bxf".to_owned(),
            size: "2x8".to_owned(),
            arch: "amd64".to_owned(),
            vcpu: 2,
            memory_bytes: 8 * GIB,
            gpus: None,
            bandwidth_mbps: None,
            local_disks: Vec::new(),
            zones: ["us-south-1".to_owned()].into(),
            spot: Sold::Yes,
            on_demand: Sold::Yes,
            spot_price: None,
            on_demand_price: None,
        }]
    }

    fn class(observed: &Value) -> IBMNodeClass {
        serde_json::from_value(json!({
            "metadata": {"name": "default"}, "spec": {"region": "us-south", "vpc": "v", "image": "i"},
            "status": {"resolvedImageID": "now", "observedCapacity": observed},
        }))
        .unwrap()
    }

    fn claim(name: &str, image: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "default"}},
            "status": {
                "providerID": format!("ibm:///us-south/{name}"), "imageID": image,
                "allocation": {
                    "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "subnet": "s",
                    "attempt": 1, "instanceName": "kib", "since": "2026-11-16T10:00:00Z",
                },
            },
        }))
        .unwrap()
    }

    fn node(name: &str, machine: &str, memory: &str) -> (String, Node) {
        let node = json!({
            "metadata": {"name": name}, "spec": {"providerID": format!("ibm:///us-south/{machine}")},
            "status": {"capacity": {"memory": memory}},
        });
        (name.to_owned(), serde_json::from_value(node).unwrap())
    }

    /// What is kept of one profile after nodes said this.
    fn kept(before: &Value, nodes: &[(String, Node)]) -> Option<String> {
        let claims: Vec<NodeClaim> = nodes.iter().map(|(name, _)| claim(name, "now")).collect();
        let nodes = nodes.iter().cloned().collect();
        let seen = observed(&class(before), &claims, &nodes, &kinds());
        assert!(seen.len() <= 1);
        assert!(seen.iter().all(|it| it.image_id == "now"));
        seen.into_iter().next().map(|it| it.memory)
    }

    #[test]
    fn the_least_that_a_node_of_the_profile_reported_is_kept() {
        let two = [node("a", "a", "7926Mi"), node("b", "b", "8115000Ki")];
        assert_eq!(kept(&json!([]), &two).as_deref(), Some("7924Mi"));
        let before = json!([{"profile": "bxf-2x8", "imageID": "now", "memory": "7900Mi"}]);
        assert_eq!(kept(&before, &two).as_deref(), Some("7900Mi"), "it does not rise");
    }

    #[test]
    fn another_image_begins_anew() {
        let before = json!([{"profile": "bxf-2x8", "imageID": "then", "memory": "7000Mi"}]);
        assert_eq!(
            kept(&before, &[node("a", "a", "7926Mi")]).as_deref(),
            Some("7926Mi")
        );
        let old = [claim("a", "then")];
        let nodes = [node("a", "a", "7000Mi")].into();
        assert!(observed(&class(&json!([])), &old, &nodes, &kinds()).is_empty());
    }

    #[test]
    fn a_kubelet_that_lies_gains_a_fifth_at_most_and_a_node_of_another_machine_nothing() {
        assert_eq!(
            kept(&json!([]), &[node("a", "a", "1Ki")]).as_deref(),
            Some("6553Mi")
        );
        for wrong in ["0", "-1", "8Ti", "much"] {
            assert_eq!(kept(&json!([]), &[node("a", "a", wrong)]), None, "{wrong}");
        }
        assert_eq!(kept(&json!([]), &[node("a", "other", "7926Mi")]), None);
    }

    #[test]
    fn what_is_not_sold_any_more_is_forgotten_so_the_list_stays_short() {
        let many: Vec<Value> = (0..1000)
            .map(|it| json!({"profile": format!("gone-{it}"), "imageID": "now", "memory": "1Gi"}))
            .collect();
        assert_eq!(
            kept(&json!(many), &[node("a", "a", "7926Mi")]).as_deref(),
            Some("7926Mi")
        );
    }
}
