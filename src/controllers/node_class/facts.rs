//! What the cloud has of what a class names. A failed read is an error and no absence.

use std::collections::BTreeSet;

use super::image;
use crate::api::IBMNodeClass;
use crate::cloud::{Cloud, Error, Image, Network, Placement, Subnet};

/// What the cloud has of what a class names. Lists of what the class does not name are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The network; without it nothing else was asked for.
    pub(super) network: Option<Network>,
    pub(super) subnets: Vec<Subnet>,
    /// The subnets with the required tags, if any are required.
    pub(super) tagged: Option<BTreeSet<String>>,
    pub(super) security_groups: BTreeSet<String>,
    pub(super) keys: BTreeSet<String>,
    pub(super) images: Vec<Image>,
    pub(super) resource_group: Option<String>,
    pub(super) placement: Option<Placement>,
}

impl Facts {
    /// Asks the cloud.
    pub(super) async fn read(cloud: &dyn Cloud, class: &IBMNodeClass) -> Result<Self, Error> {
        let spec = &class.spec;
        let network = cloud.network(&spec.vpc).await?;
        if network.is_none() {
            return Ok(Self::default());
        }
        let mut facts = Self {
            network,
            subnets: cloud.subnets(&spec.vpc).await?,
            images: cloud.images(&image::query(spec)).await?,
            resource_group: cloud.resource_group(spec.resource_group.as_deref()).await?,
            ..Self::default()
        };
        let tags = spec.required_subnet_tags();
        if !tags.is_empty() {
            let known = known(class);
            facts.tagged = Some(cloud.tagged_subnets(&spec.vpc, &tags, &known).await?);
        }
        if spec
            .security_groups
            .as_ref()
            .is_some_and(|groups| !groups.is_empty())
        {
            facts.security_groups = cloud.security_groups(&spec.vpc).await?;
        }
        if spec.ssh_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            facts.keys = cloud.keys().await?;
        }
        if let Some(target) = &spec.placement_target {
            facts.placement = cloud.placement(target).await?;
        }
        Ok(facts)
    }
}

/// The subnets that were resolved before.
fn known(class: &IBMNodeClass) -> BTreeSet<String> {
    let status = class.status.iter();
    status
        .flat_map(|status| status.resolved_subnets.iter().flatten())
        .map(|subnet| subnet.id.clone())
        .collect()
}
