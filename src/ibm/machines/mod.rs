//! IBM Cloud as a [`Cloud`]: virtual servers of one region, in the words of every cloud.
//!
//! Nothing is decided here. What the API says is translated, and what it leaves out of an instance that must have it
//! is an error and no guess.

mod inventory;
mod leftovers;
mod machine;
mod parts;
mod prototype;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::Client;
use super::http::SendBy;
use super::offerings::Kinds;
use super::resource_groups::ResourceGroups;
use super::search::Search;
use super::tags::{Tag, Tagging};
use super::vpc::Vpc;
use super::vpc::instances::InstanceFilter;
use super::vpc::types::{AvailabilityClass, InstancePatch};
use crate::api::CapacityType;
use crate::cloud::{
    Cloud, Effect, Error, Image, ImageQuery, InstanceName, Interface, Kind, Leftover, LeftoverKind, Machine,
    Network, Order, Ours, Placement, Subnet,
};
use machine::machine;
use prototype::prototype;

/// The virtual servers of a region.
pub struct Machines {
    vpc: Vpc,
    resource_groups: ResourceGroups,
    kinds: Kinds,
    tagging: Tagging,
    search: Search,
    /// Resolved before: a group's id never changes, and every sweep needs it.
    groups: Mutex<BTreeMap<Option<String>, String>>,
}

impl Machines {
    /// Those that `client` reaches, and `kinds` of which more can be bought.
    pub fn new(client: &Client, kinds: Kinds) -> Self {
        Self {
            kinds,
            vpc: client.vpc.clone(),
            resource_groups: client.resource_groups.clone(),
            tagging: client.tagging.clone(),
            search: client.search.clone(),
            groups: Mutex::default(),
        }
    }

    /// The instances with these marks, all of them or those of one class; each an error that cannot be understood.
    async fn list_ours(
        &self,
        ours: &Ours,
        class: Option<AvailabilityClass>,
    ) -> Result<Vec<Result<Machine, Error>>, Error> {
        let filter = InstanceFilter {
            resource_group: Some(ours.resource_group.clone()),
            class,
            ..InstanceFilter::default()
        };
        let is_ours =
            |name: &str| InstanceName::of_machine(name).is_some_and(|name| name.cluster() == ours.cluster);
        let all = self.vpc.list_instances(&filter).await?;
        let machines = all
            .into_iter()
            .filter(|instance| is_ours(&instance.name))
            .map(|instance| machine(instance, Effect::None))
            .filter(|machine| {
                machine
                    .as_ref()
                    .map_or(true, |machine| machine.resource_group == ours.resource_group)
            });
        Ok(machines.collect())
    }

    async fn look_up_group(&self, written: Option<&str>) -> Result<Option<String>, Error> {
        let groups = match written {
            Some(name) => self.resource_groups.named(name).await?,
            None => self.resource_groups.list().await?,
        };
        let wanted = groups
            .into_iter()
            .find(|group| written.map_or(group.default, |name| group.name == name));
        Ok(wanted.map(|group| group.id))
    }
}

#[async_trait]
impl Cloud for Machines {
    async fn create(&self, order: &Order) -> Result<Machine, Error> {
        let send_by = Some(SendBy(order.send_by));
        // An answer that lacks what a machine must have leaves a machine behind: its name settles it.
        let instance = self.vpc.create_instance_by(&prototype(order), send_by).await?;
        machine(instance, Effect::Unknown)
    }

    async fn get(&self, id: &str) -> Result<Machine, Error> {
        machine(self.vpc.get_instance(id).await?, Effect::None)
    }

    async fn find(&self, name: &str) -> Result<Option<Machine>, Error> {
        let filter = InstanceFilter {
            name: Some(name.to_owned()),
            ..InstanceFilter::default()
        };
        let found = self.vpc.list_instances(&filter).await?;
        // The filter is exact by the documentation; a server that ignores it must not make us adopt a stranger.
        let exact = found.into_iter().find(|instance| instance.name == name);
        exact.map(|instance| machine(instance, Effect::None)).transpose()
    }

    async fn list(&self, ours: &Ours) -> Result<Vec<Machine>, Error> {
        // Whoever compares what there is with what there should be must know all of it.
        self.list_ours(ours, None).await?.into_iter().collect()
    }

    async fn preemptible(&self, ours: &Ours) -> Result<Vec<Machine>, Error> {
        let machines = self.list_ours(ours, Some(AvailabilityClass::Spot)).await?;
        let understood = machines.into_iter().filter_map(|machine| {
            let warn = |error: &Error| tracing::warn!(%error, "a spot machine is not looked after");
            machine.inspect_err(warn).ok()
        });
        // A server that ignores the filter must not make others look like spot.
        Ok(understood
            .filter(|machine| machine.capacity_type == CapacityType::Spot)
            .collect())
    }

    async fn leftovers(&self, ours: &Ours) -> Result<Vec<Leftover>, Error> {
        self.find_leftovers(ours).await
    }

    async fn remove(&self, leftover: &Leftover) -> Result<(), Error> {
        match leftover.kind {
            LeftoverKind::Interface => self.vpc.delete_interface(&leftover.id).await,
            LeftoverKind::BootVolume | LeftoverKind::DataVolume => self.vpc.delete_volume(&leftover.id).await,
        }
    }

    async fn delete(&self, id: &str) -> Result<(), Error> {
        self.vpc.delete_instance(id).await
    }

    async fn rename(&self, id: &str, name: &str) -> Result<(), Error> {
        let patch = InstancePatch {
            name: Some(name.to_owned()),
            ..InstancePatch::default()
        };
        self.vpc.patch_instance(id, &patch).await.map(drop)
    }

    async fn kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.kinds.get().await
    }

    async fn recent_kinds(&self) -> Result<Arc<Vec<Kind>>, Error> {
        self.kinds.recent().await
    }

    async fn tag(&self, machine: &Machine, tags: &BTreeSet<String>) -> Result<(), Error> {
        // The service refuses a whole request for one tag that it does not take.
        let tags: Vec<Tag> = tags.iter().filter_map(|tag| Tag::parse(tag)).collect();
        match &machine.crn {
            Some(crn) if !tags.is_empty() => self.tagging.attach(crn, &tags).await,
            _ => Ok(()),
        }
    }

    async fn interfaces(&self, resource_group: &str) -> Result<Vec<Interface>, Error> {
        let interfaces = self.vpc.list_interfaces(resource_group).await?;
        Ok(interfaces.into_iter().map(inventory::interface).collect())
    }

    async fn network(&self, vpc: &str) -> Result<Option<Network>, Error> {
        let found = inventory::found(self.vpc.get_vpc(vpc).await)?;
        Ok(found.map(|vpc| inventory::network(&vpc)))
    }

    async fn subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error> {
        let subnets = self.vpc.list_subnets(vpc).await?;
        let mut subnets: Vec<Subnet> = subnets.into_iter().filter_map(inventory::subnet).collect();
        subnets.sort();
        Ok(subnets)
    }

    async fn tagged_subnets(
        &self,
        vpc: &str,
        tags: &BTreeMap<String, String>,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Error> {
        self.find_tagged_subnets(vpc, tags, known).await
    }

    async fn security_groups(&self, vpc: &str) -> Result<BTreeSet<String>, Error> {
        let groups = self.vpc.list_security_groups(vpc).await?;
        Ok(groups.into_iter().map(|group| group.id).collect())
    }

    async fn keys(&self) -> Result<BTreeSet<String>, Error> {
        let keys = self.vpc.list_keys().await?;
        Ok(keys.into_iter().map(|key| key.id).collect())
    }

    async fn images(&self, query: &ImageQuery) -> Result<Vec<Image>, Error> {
        let images = match query {
            ImageQuery::Id(id) => inventory::found(self.vpc.get_image(id).await)?
                .into_iter()
                .collect(),
            ImageQuery::Named(name, owner) => {
                let mut images = self.images_of(*owner, Some(name)).await?;
                // The filter is exact by the documentation; a server that ignores it must not boot another image.
                images.retain(|image| image.name == *name);
                images
            }
            ImageQuery::All(owner) => self.images_of(*owner, None).await?,
        };
        Ok(images.into_iter().map(inventory::image).collect())
    }

    async fn placement(&self, id: &str) -> Result<Option<Placement>, Error> {
        self.find_placement(id).await
    }

    async fn resource_group(&self, written: Option<&str>) -> Result<Option<String>, Error> {
        if let Some(id) = written.filter(|text| is_group_id(text)) {
            return Ok(Some(id.to_owned()));
        }
        let key = written.map(str::to_owned);
        let known = |groups: &Mutex<BTreeMap<_, String>>| {
            groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(&key)
                .cloned()
        };
        if let Some(id) = known(&self.groups) {
            return Ok(Some(id));
        }
        let id = self.look_up_group(written).await?;
        if let Some(id) = &id {
            let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            groups.insert(key, id.clone());
        }
        Ok(id)
    }
}

/// Ids of resource groups are 32 hexadecimal digits.
fn is_group_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
