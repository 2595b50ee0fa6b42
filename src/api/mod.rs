//! What users write and read: the custom resources, their schemas and their validation.
//!
//! `NodePool` and `NodeClaim` are upstream Karpenter's `karpenter.sh/v1` with additions that change nothing for
//! manifests written for it; `IBMNodeClass` and `UnavailableOffering` are ours (`karpenter-ibm.sh/v1alpha1`).
//!
//! Types decode whatever has the right JSON types and keep it as written, so that a wrong manifest reaches
//! `validate`, which gives the same verdict as the CRD's schema and CEL rules do in an API server. A corpus and a
//! property test hold the two together. `validate_runtime` adds what a CRD cannot say.
//!
//! Pure: no client, no clock.
#![expect(
    unreachable_pub,
    reason = "KubeSchema copies each struct, with its `pub`, into the body of a function"
)]

mod condition;
pub mod crd;
mod do_not_disrupt;
mod duration;
mod ibm_node_class;
pub mod names;
mod node_claim;
mod node_class_ref;
mod node_pool;
mod offering_key;
mod pattern;
mod requirement;
mod schema;
mod taint;
mod time;
mod unavailable_offering;
mod violation;
mod wanted_node;
mod wire;

pub use condition::Condition;
pub use do_not_disrupt::DoNotDisrupt;
pub use duration::{Expiry, parse_duration, parse_expiry, parse_go_duration};
pub use ibm_node_class::{
    BlockDeviceMapping, Bootstrap, IBMNodeClass, IBMNodeClassSpec, IBMNodeClassStatus, ImageSelector,
    Ingredients, KubeletSettings, NODE_CLASS_HASH_VERSION, ObservedCapacity, PlacementKind,
    PlacementStrategy, Repository, ResolvedImage, ResolvedSubnet, SubnetSelection, VolumeSpec,
};
pub use node_claim::{
    Allocation, Credential, NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements, WrittenPrice,
};
pub use node_class_ref::NodeClassRef;
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, NODE_POOL_HASH_VERSION, NodeClaimTemplate, NodePool,
    NodePoolSpec, NodePoolStatus, TemplateMetadata, TemplateSpec,
};
pub use offering_key::{CapacityType, Gpus, InvalidKey, OfferingKey};
pub use requirement::{Operator, Requirement};
pub use taint::Taint;
pub use time::Time;
pub use unavailable_offering::{UnavailableOffering, UnavailableOfferingSpec};
pub use violation::Violation;
