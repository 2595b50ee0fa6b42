//! What an `IBMNodeClass` means for one claim: its resolution, and the order that follows from it.

mod sold;

use std::collections::BTreeSet;

use kube::{Api, ResourceExt};
use tokio::time::Instant;

use crate::api::{Allocation, BlockDeviceMapping, IBMNodeClass, IBMNodeClassStatus, NodeClaim, names};
use crate::cloud::{self, Afterwards, InstanceName, Order, VolumeOrder};
use crate::controllers::context::Context;
use crate::controllers::node_class::{AllowLists, group_of};
use crate::lifecycle::Unresolved;

/// A class, as an order needs it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// As it was read.
    pub class: IBMNodeClass,
    /// The id of its image, if the class can be used.
    pub image: Option<String>,
    /// The id of its resource group, whether or not the class can be used: it marks machines as ours.
    pub resource_group: Option<String>,
    /// Why it may not be used by the lists that hold now, whatever held when it was judged.
    pub refusal: Option<String>,
}

/// Why a class could not be read. That proves nothing about the class.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The Kubernetes API did not say.
    #[error("reading the node class")]
    Kube(#[from] kube::Error),
    /// The cloud did not say.
    #[error("resolving the node class")]
    Cloud(#[from] cloud::Error),
    /// It was not resolved yet as it is written now; that is a matter of moments, or of a cloud that does not answer.
    #[error("IBMNodeClass {0} is not resolved yet")]
    Unresolved(String),
}

/// The class of `claim`; `None` if there is none of that name.
pub async fn read(context: &Context, claim: &NodeClaim) -> Result<Option<Resolved>, ReadError> {
    let Some(class) = class_of(context, claim).await? else {
        return Ok(None);
    };
    let resource_group = group_of(context, &class).await?;
    Ok(Some(Resolved::new(
        class,
        resource_group,
        &context.settings.allowed,
    )))
}

/// The class that a claim names, from the API server itself.
pub async fn class_of(context: &Context, claim: &NodeClaim) -> Result<Option<IBMNodeClass>, kube::Error> {
    let reference = &claim.spec.node_class_ref;
    if reference.group != names::IBM_GROUP || reference.kind != "IBMNodeClass" {
        return Ok(None);
    }
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    classes.get_opt(&reference.name).await
}

/// Whether a class can be used; why not, if somebody must act first.
pub fn usable(class: Option<&Resolved>, name: &str) -> Result<Result<(), Unresolved>, ReadError> {
    let Some(Resolved { class, refusal, .. }) = class else {
        return Ok(Err(Unresolved(format!("there is no IBMNodeClass {name}"))));
    };
    if let Some(refusal) = refusal {
        return Ok(Err(Unresolved(format!(
            "IBMNodeClass {name} is not allowed: {refusal}"
        ))));
    }
    // Whoever lets it go looks for claims and machines before, and would not see this one.
    if class.metadata.deletion_timestamp.is_some() {
        return Ok(Err(Unresolved(format!("IBMNodeClass {name} is being deleted"))));
    }
    let Some(ready) = class.readiness() else {
        return Err(ReadError::Unresolved(name.to_owned()));
    };
    if class.resolution().is_some() {
        return Ok(Ok(()));
    }
    let why = ready.message.as_deref().unwrap_or_default();
    Ok(Err(Unresolved(format!(
        "IBMNodeClass {name} is not ready: {why}"
    ))))
}

impl Resolved {
    /// A class as `allowed` lets it be used: without subnets that are not allowed.
    pub fn new(mut class: IBMNodeClass, resource_group: Option<String>, allowed: &AllowLists) -> Self {
        let refusal = allowed.refusal(&class);
        let subnets = class.status.as_mut().and_then(|it| it.resolved_subnets.as_mut());
        if let Some(subnets) = subnets {
            subnets.retain(|subnet| allowed.has_subnet(&subnet.id));
        }
        Self {
            image: class.resolution().and_then(|it| it.resolved_image_id.clone()),
            class,
            resource_group,
            refusal,
        }
    }

    /// What the class stands for, if it may be used.
    fn permitted(&self) -> Option<&IBMNodeClassStatus> {
        self.class.resolution().filter(|_| self.refusal.is_none())
    }

    /// The order for what `claim` was allocated; `None` if the class cannot be used as it is now.
    pub fn order(
        &self,
        claim: &NodeClaim,
        allocation: &Allocation,
        user_data: Option<String>,
        send_by: Instant,
    ) -> Option<Order> {
        let (spec, status) = (&self.class.spec, self.permitted()?);
        let mut subnets = status.resolved_subnets.iter().flatten();
        if !subnets.any(|subnet| subnet.id == allocation.subnet) {
            return None;
        }
        let volumes = spec.block_device_mappings.as_deref().unwrap_or_default();
        Some(Order {
            name: allocation.instance_name.clone(),
            attempt: u32::try_from(allocation.attempt).unwrap_or(u32::MAX),
            profile: allocation.profile.clone(),
            zone: allocation.zone.clone(),
            capacity_type: allocation.capacity_type.parse().ok()?,
            vpc: spec.vpc.clone(),
            subnet: allocation.subnet.clone(),
            image: self.image.clone()?,
            security_groups: status.resolved_security_groups.clone()?,
            ssh_keys: spec.ssh_keys.clone().unwrap_or_default(),
            resource_group: self.resource_group.clone()?,
            placement_target: spec.placement_target.clone(),
            trusted_profile: spec.trusted_profile.clone(),
            boot_volume: spec.root_volume().map(volume).unwrap_or_default(),
            data_volumes: volumes.iter().filter(|it| !it.is_root()).map(volume).collect(),
            tags: tags(&self.class, claim, &allocation.instance_name),
            user_data,
            send_by,
        })
    }
}

fn volume(mapping: &BlockDeviceMapping) -> VolumeOrder {
    let spec = mapping.volume_spec.clone().unwrap_or_default();
    let size = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    VolumeOrder {
        device: mapping.device_name.clone(),
        capacity_gb: size(spec.capacity),
        profile: spec.profile,
        iops: size(spec.iops),
        bandwidth_mbps: size(spec.bandwidth),
        encryption_key: spec.encryption_key_id,
        afterwards: match spec.delete_on_termination {
            Some(false) => Afterwards::Kept,
            Some(true) | None => Afterwards::Deleted,
        },
        tags: spec.tags.unwrap_or_default().into_iter().collect(),
    }
}

/// The tags of a claim's machine: the class's, and whose it is. Nothing hangs on them.
pub fn tags(class: &IBMNodeClass, claim: &NodeClaim, instance_name: &str) -> BTreeSet<String> {
    let written = class.spec.tags.iter().flatten();
    let mut tags: BTreeSet<String> = written.map(|(key, value)| format!("{key}:{value}")).collect();
    tags.insert(format!("{}:{}", names::TAG_NODE_CLAIM, claim.name_any()));
    let pool = claim.labels().get(names::NODE_POOL);
    tags.extend(pool.map(|pool| format!("{}:{pool}", names::TAG_NODE_POOL)));
    let name = instance_name.parse::<InstanceName>().ok();
    tags.extend(name.map(|name| format!("{}:{}", names::TAG_CLUSTER, name.cluster())));
    tags
}

#[cfg(test)]
mod tests;
