//! `NodeClaim`: one machine, from the wish for it to its end.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::node_class_ref::NodeClassRef;
use super::node_pool::DEFAULT_EXPIRE_AFTER;
use super::pattern;
use super::requirement::Requirement;
use super::taint::Taint;
use super::{schema, wire};
use crate::quantity::WrittenQuantity;

mod allocation;
mod validation;

pub use allocation::{Allocation, Credential, WrittenPrice};

/// What a NodeClaim asks for. Never changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    doc = "A claim to one machine, from the wish for it to its end.",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".metadata.labels.node\\.kubernetes\\.io/instance-type"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/capacity-type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.nodeName"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ImageID", "type": "string", "priority": 1, "jsonPath": ".status.imageID"}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "priority": 1, "jsonPath": ".status.providerID"}"#,
    printcolumn = r#"{"name": "NodePool", "type": "string", "priority": 1, "jsonPath": ".metadata.labels.karpenter\\.sh/nodepool"}"#,
    printcolumn = r#"{"name": "NodeClass", "type": "string", "priority": 1, "jsonPath": ".spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name": "Drifted", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type==\"Drifted\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self == oldSelf", "spec is immutable"))]
pub struct NodeClaimSpec {
    /// Which values the labels of the Node may have.
    #[schemars(schema_with = "schema::claim_requirements")]
    pub requirements: Vec<Requirement>,
    /// What the machine must have room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The class with the particulars of the cloud.
    pub node_class_ref: NodeClassRef,
    /// Taints of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints of the Node that something else takes off soon after it joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// How long the node may live, like `720h`, or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_EXPIRE_AFTER, "pattern" = pattern::EXPIRY.text))]
    pub expire_after: Option<String>,
    /// How long draining may take before pods are removed regardless of disruption budgets; unset waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::DURATION.text))]
    pub termination_grace_period: Option<String>,
}

/// What a machine must have room for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequirements {
    /// The least it must have.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::resource_list")]
    pub requests: Option<BTreeMap<String, WrittenQuantity>>,
}

/// What is known of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// The machine this claim holds, or is about to buy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The machine, as the Node names it. Set once it runs.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image the machine was made from.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the machine has.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::resource_list")]
    pub capacity: Option<BTreeMap<String, WrittenQuantity>>,
    /// What of it is left for pods.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::resource_list")]
    pub allocatable: Option<BTreeMap<String, WrittenQuantity>>,
    /// When a pod was last scheduled to the node, removed from it or finished on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_pod_event_time: Option<super::time::Time>,
    /// What is true of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::claim_conditions")]
    pub conditions: Option<Vec<Condition>>,
}

#[cfg(test)]
mod tests;
