//! IBM Cloud as a [`Cloud`]: virtual servers of one region, in the words of every cloud.
//!
//! Nothing is decided here. What the API says is translated, and what it leaves out of an instance that must have it
//! is an error and no guess.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::Client;
use super::http::SendBy;
use super::offerings::Kinds;
use super::resource_groups::ResourceGroups;
use super::vpc::Vpc;
use super::vpc::images::ImageFilter;
use super::vpc::instances::InstanceFilter;
use super::vpc::types::{
    self, AvailabilityClass, ImageStatus, Instance, InstancePatch, InstancePrototype, InstanceStatus,
    Reference, StatusReasonCode,
};
use crate::api::CapacityType;
use crate::cloud::{
    Answer, Cloud, Effect, Error, InstanceName, Kind, Machine, MachineStatus, Order, Ours, StatusReason,
    Subnet,
};

/// The virtual servers of a region.
pub struct Machines {
    vpc: Vpc,
    resource_groups: ResourceGroups,
    kinds: Kinds,
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
            groups: Mutex::default(),
        }
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
        let filter = InstanceFilter {
            resource_group: Some(ours.resource_group.clone()),
            ..InstanceFilter::default()
        };
        let is_ours =
            |name: &str| InstanceName::of_machine(name).is_some_and(|name| name.cluster() == ours.cluster);
        let all = self.vpc.list_instances(&filter).await?;
        all.into_iter()
            .filter(|instance| is_ours(&instance.name))
            .map(|instance| machine(instance, Effect::None))
            .filter(|machine| {
                machine
                    .as_ref()
                    .map_or(true, |machine| machine.resource_group == ours.resource_group)
            })
            .collect()
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

    async fn subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error> {
        let subnets = self.vpc.list_subnets(vpc).await?;
        let mut usable: Vec<Subnet> = subnets.into_iter().filter_map(subnet).collect();
        usable.sort();
        Ok(usable)
    }

    async fn image(&self, written: &str) -> Result<Option<String>, Error> {
        if is_image_id(written) {
            return Ok(Some(written.to_owned()));
        }
        let filter = ImageFilter {
            name: Some(written.to_owned()),
            ..ImageFilter::default()
        };
        let images = self.vpc.list_images(&filter).await?;
        let usable = images
            .into_iter()
            .filter(|image| image.name == written && image.status == Some(ImageStatus::Available));
        Ok(usable
            .max_by_key(|image| (image.created_at, image.id.clone()))
            .map(|image| image.id))
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

/// Ids of images are regional: `r006-` and a UUID.
fn is_image_id(text: &str) -> bool {
    let id = text.split_once('-').filter(|(region, _)| {
        region.len() == 4 && region.starts_with('r') && region[1..].bytes().all(|b| b.is_ascii_digit())
    });
    id.is_some_and(|(_, uuid)| uuid.len() == 36)
}

/// Ids of resource groups are 32 hexadecimal digits.
fn is_group_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn prototype(order: &Order) -> InstancePrototype {
    let mut prototype = InstancePrototype::of(&types::Order {
        name: order.name.clone(),
        profile: order.profile.clone(),
        zone: order.zone.clone(),
        vpc: order.vpc.clone(),
        subnet: order.subnet.clone(),
        image: order.image.clone(),
        class: match order.capacity_type {
            CapacityType::Spot => AvailabilityClass::Spot,
            CapacityType::OnDemand => AvailabilityClass::Standard,
        },
    });
    let references = |ids: &[String]| ids.iter().map(Reference::by_id).collect();
    let group = Reference::by_id(&order.resource_group);
    let interface = &mut prototype.primary_network_attachment.virtual_network_interface;
    interface.security_groups = references(&order.security_groups);
    interface.resource_group = Some(group.clone());
    prototype.resource_group = Some(group);
    prototype.keys = references(&order.ssh_keys);
    prototype.user_data.clone_from(&order.user_data);
    prototype
}

fn subnet(subnet: types::Subnet) -> Option<Subnet> {
    Some(Subnet {
        id: subnet.id,
        zone: subnet.zone?.name?,
        free: subnet.available_ipv4_address_count.unwrap_or_default(),
    })
}

/// The machine that an instance is. `effect` says whether an instance that cannot be understood was just made.
fn machine(instance: Instance, effect: Effect) -> Result<Machine, Error> {
    let class = instance.availability.as_ref().and_then(|a| a.class.clone());
    let named = (
        instance.profile_name().map(str::to_owned),
        instance.zone_name().map(str::to_owned),
        instance
            .resource_group
            .as_ref()
            .and_then(|group| group.id.clone()),
    );
    let (Some(profile), Some(zone), Some(resource_group)) = named else {
        return Err(incomplete(&instance.id, effect));
    };
    Ok(Machine {
        profile,
        zone,
        resource_group,
        // Before spot existed, and for words of tomorrow: what is not spot is not taken back.
        capacity_type: match class {
            Some(AvailabilityClass::Spot) => CapacityType::Spot,
            _ => CapacityType::OnDemand,
        },
        status: status(instance.status.as_ref()),
        reasons: instance
            .status_reasons
            .iter()
            .filter_map(|reason| reason.code.as_ref())
            .map(reason)
            .collect(),
        address: instance.address().map(str::to_owned),
        image: instance.image.as_ref().and_then(|image| image.id.clone()),
        created_at: instance.created_at,
        id: instance.id,
        name: instance.name,
    })
}

fn status(status: Option<&InstanceStatus>) -> MachineStatus {
    match status {
        Some(InstanceStatus::Pending) => MachineStatus::Pending,
        Some(InstanceStatus::Starting) => MachineStatus::Starting,
        Some(InstanceStatus::Running) => MachineStatus::Running,
        Some(InstanceStatus::Stopping) => MachineStatus::Stopping,
        Some(InstanceStatus::Stopped) => MachineStatus::Stopped,
        Some(InstanceStatus::Restarting) => MachineStatus::Restarting,
        Some(InstanceStatus::Deleting) => MachineStatus::Deleting,
        Some(InstanceStatus::Failed) => MachineStatus::Failed,
        Some(InstanceStatus::Other(word)) => MachineStatus::Other(word.clone()),
        None => MachineStatus::Other(String::new()),
    }
}

fn reason(code: &StatusReasonCode) -> StatusReason {
    match code {
        StatusReasonCode::StoppedByPreemption => StatusReason::Preempted,
        StatusReasonCode::CannotStartCapacity => StatusReason::NoCapacity,
        StatusReasonCode::Other(word) => StatusReason::Other(word.clone()),
        // The API's own spelling, which is how it serializes.
        other => StatusReason::Other(
            serde_json::to_value(other)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
                .unwrap_or_default(),
        ),
    }
}

fn incomplete(id: &str, effect: Effect) -> Error {
    Error::Undecodable {
        effect,
        answer: Box::new(Answer {
            operation: "read instance",
            subject: id.to_owned(),
            message: "the instance lacks its profile, zone or resource group".to_owned(),
            ..Answer::default()
        }),
    }
}

#[cfg(test)]
mod tests;
