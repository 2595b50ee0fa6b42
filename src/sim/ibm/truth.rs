//! The cloud as it really is, and hands to change it with: for tests, actors and the control routes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::Serialize;

use super::Cloud;
use super::capacity::Offering;
use super::images::{ImageStatus, STOCK};
use super::instances::{HostFailure, Instance, Preemption, START_FAILURES, Status};
use super::network::SubnetCondition;
use super::options::Class;
use super::placement::TargetKind;
use super::seeding;
use super::state::State;
use super::{geography, profiles};
use crate::ibm::builtin;
use crate::money::Price;

/// Something was named that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} {name:?}")]
pub struct NoSuch {
    /// What kind of thing.
    pub what: &'static str,
    /// What it was called.
    pub name: String,
    /// What it may be called.
    pub choices: Vec<String>,
}

/// A volume or a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartTruth {
    pub id: String,
    pub name: String,
    pub resource_group: String,
}

/// One instance as it is, whatever reads say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceTruth {
    pub id: String,
    pub name: String,
    pub crn: String,
    pub profile: &'static str,
    pub zone: String,
    pub class: Class,
    pub status: &'static str,
    /// The code in `status_reasons`, if there is one.
    pub reason: Option<String>,
    pub created_at: Timestamp,
    /// None until it is provisioned.
    pub address: Option<Ipv4Addr>,
    pub vpc: String,
    pub subnet: String,
    pub resource_group: String,
    pub image: String,
    #[serde(skip)]
    pub user_data: Option<String>,
    /// Whether the guest can ask the metadata service.
    #[serde(skip)]
    pub metadata_service: bool,
    /// The size of the boot volume, in GB.
    #[serde(skip)]
    pub boot_volume_gb: u64,
    /// What it is tagged with.
    #[serde(skip)]
    pub tags: BTreeSet<String>,
    /// What it costs an hour while it runs, and how certain that is.
    pub usd_per_hour: Option<Price>,
    /// What it would cost an hour if it had been bought on demand.
    #[serde(skip)]
    pub on_demand_usd_per_hour: Option<Price>,
    pub price_certainty: &'static str,
}

/// What the account holds from the start, by id.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    pub region: String,
    pub zones: Vec<String>,
    pub vpc: String,
    /// One per zone, in order.
    pub subnets: Vec<String>,
    pub security_group: String,
    /// Ubuntu 24.04.
    pub image: String,
    pub key: String,
    pub resource_group: String,
    pub placement_group: String,
    pub dedicated_host: String,
    pub trusted_profile: &'static str,
}

impl Cloud {
    /// All instances, oldest first.
    pub fn instances(&self) -> Vec<InstanceTruth> {
        self.with(|state| state.truth())
    }

    /// Those of them that go down or are down, oldest first: mostly none.
    pub fn instances_down(&self) -> Vec<InstanceTruth> {
        let is_down = |instance: &Instance| matches!(instance.status, Status::Stopping | Status::Stopped);
        self.with(|state| {
            if state.instances.values().any(is_down) {
                let mut all = state.truth();
                all.retain(|instance| matches!(instance.status, "stopping" | "stopped"));
                return all;
            }
            Vec::new()
        })
    }

    /// The instance of that name or id.
    pub fn instance(&self, name_or_id: &str) -> Option<InstanceTruth> {
        self.with(|state| {
            state
                .find_instance(name_or_id)
                .map(|instance| truth(state, instance))
        })
    }

    /// What the account holds from the start.
    pub fn account(&self) -> Account {
        self.with(|state| account(state))
    }

    /// Preempts a spot instance: 30 seconds of `stopping`, then what its policy says.
    pub fn preempt(&self, name_or_id: &str) -> Result<(), NoSuch> {
        self.with(|state| state.preempt(name_or_id))
    }

    /// Preempts a spot instance, and lets it vanish whatever its policy says.
    pub fn preempt_for_good(&self, name_or_id: &str) -> Result<(), NoSuch> {
        self.with(|state| {
            let id = state.find_instance(name_or_id).map(|it| it.id.clone());
            if let Some(instance) = id.and_then(|id| state.instances.get_mut(&id)) {
                instance.preemption = Preemption::Delete;
            }
            state.preempt(name_or_id)
        })
    }

    /// Fails the host of an instance; `outcome` overrules the instance's policy.
    pub fn fail_host(&self, name_or_id: &str, outcome: Option<HostFailure>) -> Result<(), NoSuch> {
        self.with(|state| state.fail_host_of(name_or_id, outcome))
    }

    /// Stops a running instance, as somebody with a console can.
    pub fn stop(&self, name_or_id: &str) -> Result<(), NoSuch> {
        self.with(|state| {
            let running = |i: &Instance| i.status == Status::Running;
            let id = state.choose("running instance to stop", name_or_id, running)?;
            state.stop(&id);
            Ok(())
        })
    }

    /// Lets the start of an instance fail, which may not exist yet, with a code of `status_reasons`.
    pub fn fail_start(&self, name_or_id: &str, code: &str) -> Result<(), NoSuch> {
        self.with(|state| state.doom(name_or_id, code))
    }

    /// Leaves no free machine of a profile in a zone; of both classes if none is given.
    pub fn drain(&self, profile: &str, zone: &str, class: Option<Class>) -> Result<(), NoSuch> {
        self.with(|state| state.drain(profile, zone, class))
    }

    /// Undoes [`Cloud::drain`].
    pub fn refill(&self, profile: &str, zone: &str, class: Option<Class>) -> Result<(), NoSuch> {
        self.with(|state| state.refill(profile, zone, class))
    }

    /// Sets how many machines an offering has, those in use included.
    pub fn set_stock(&self, profile: &str, zone: &str, class: Class, stock: u32) -> Result<(), NoSuch> {
        self.with(|state| {
            for offering in state.offerings(profile, zone, Some(class))? {
                state.stock.insert(offering, stock);
            }
            Ok(())
        })
    }

    /// Withdraws a profile from the region.
    pub fn remove_profile(&self, profile: &str) -> Result<(), NoSuch> {
        self.with(|state| state.withdraw("profile", profile))
    }

    /// Withdraws the price of a profile from the catalogue.
    pub fn remove_price(&self, profile: &str) -> Result<(), NoSuch> {
        self.with(|state| state.withdraw("price", profile))
    }

    /// Deletes an image, by name or id.
    pub fn remove_image(&self, name_or_id: &str) -> Result<(), NoSuch> {
        self.with(|state| state.withdraw("image", name_or_id))
    }

    /// Adds a VPC with a default security group; its id.
    pub fn add_vpc(&self, name: &str) -> String {
        self.with(|state| seeding::add_vpc(state, name))
    }

    /// Adds a subnet, whose prefix must be 16 to 29; its id.
    pub fn add_subnet(&self, name: &str, vpc: &str, zone: &str, network: Ipv4Addr, prefix: u8) -> String {
        self.with(|state| state.add_subnet(name, vpc, zone, network, prefix.clamp(16, 29)))
    }

    /// Adds a security group; its id.
    pub fn add_security_group(&self, name: &str, vpc: &str) -> String {
        self.with(|state| state.add_security_group(name, vpc))
    }

    /// Adds a private image that is Ubuntu 24.04 by another name; its id.
    pub fn add_image(&self, name: &str, status: ImageStatus) -> String {
        let (_, os, family, version, _) = STOCK[0];
        self.with(|state| state.add_image((name, os, family, version, status), "private"))
    }

    /// Adds a group of dedicated hosts; its id.
    pub fn add_host_group(&self, name: &str) -> String {
        self.with(|state| state.add_placement_target(name, TargetKind::DedicatedHostGroup))
    }

    /// Lets a subnet have a tag since long ago, so that search knows of it.
    pub fn begin_with_tag(&self, id: &str, tag: &str) {
        self.with(|state| {
            if let Some(crn) = state.subnets.get(id).map(super::network::Subnet::crn) {
                state.tags.entry(crn.clone()).or_default().insert(tag.to_owned());
                state.index_resource(&crn);
            }
        });
    }

    /// Tags a subnet, as somebody with a console can; search learns of it in its own time.
    pub fn tag_subnet(&self, id: &str, tag: &str) {
        self.with(|state| {
            if let Some(crn) = state.subnets.get(id).map(super::network::Subnet::crn) {
                state.tags.entry(crn.clone()).or_default().insert(tag.to_owned());
                state.reindex(&crn);
            }
        });
    }

    /// Lets a subnet fail, or be deleted, whatever is in it; or mends it.
    pub fn set_subnet(&self, id: &str, condition: SubnetCondition) {
        self.with(|state| {
            if let Some(subnet) = state.subnets.get_mut(id) {
                subnet.condition = condition;
            }
        });
    }

    /// Deletes an SSH key; machines that were made with it live on.
    pub fn remove_key(&self, id: &str) {
        self.with(|state| {
            state.keys.remove(id);
        });
    }

    /// Detaches every volume of an instance but the one that it boots from, as somebody with a console can.
    pub fn detach_volumes(&self, name_or_id: &str) {
        self.with(|state| {
            let id = state.find_instance(name_or_id).map(|it| it.id.clone());
            let Some(instance) = id.and_then(|id| state.instances.get_mut(&id)) else {
                return;
            };
            let boot = instance.volumes.len().min(1);
            for attachment in instance.volumes.drain(boot..) {
                if let Some(volume) = state.volumes.get_mut(&attachment.volume) {
                    volume.instance = None;
                }
            }
        });
    }

    /// Replaces the API keys that IAM takes; tokens that are out stay valid.
    pub fn set_api_keys(&self, keys: &[&str]) {
        let keys = keys.iter().map(|&key| key.to_owned());
        self.with(|state| state.identity.set_api_keys(keys));
    }

    /// Ends every token that is out.
    pub fn revoke_tokens(&self) {
        self.with(|state| state.identity.revoke_tokens());
    }

    /// The addresses of a subnet that are free.
    pub fn free_addresses(&self, subnet: &str) -> Option<u32> {
        self.with(|state| state.subnets.get(subnet).map(super::network::Subnet::available))
    }

    /// Ids of volumes and network interfaces without an instance: what somebody still pays for.
    pub fn orphans(&self) -> Vec<String> {
        self.parts_without_instance()
            .into_iter()
            .map(|part| part.id)
            .collect()
    }

    /// The same with their names and where they are.
    pub fn parts_without_instance(&self) -> Vec<PartTruth> {
        self.with(|state| {
            let volumes = state.volumes.values().filter(|v| v.instance.is_none());
            let volumes = volumes.map(|v| PartTruth {
                id: v.id.clone(),
                name: v.name.clone(),
                resource_group: v.resource_group.clone(),
            });
            let interfaces = state.interfaces.values().filter(|i| i.instance.is_none());
            let interfaces = interfaces.map(|i| PartTruth {
                id: i.id.clone(),
                name: i.name.clone(),
                resource_group: i.resource_group.clone(),
            });
            volumes.chain(interfaces).collect()
        })
    }

    /// The volume or interface of that id, attached or not.
    pub fn part(&self, id: &str) -> Option<PartTruth> {
        self.with(|state| {
            let volume = state.volumes.get(id).map(|v| (&v.name, &v.resource_group));
            let interface = || state.interfaces.get(id).map(|i| (&i.name, &i.resource_group));
            volume.or_else(interface).map(|(name, group)| PartTruth {
                id: id.to_owned(),
                name: name.clone(),
                resource_group: group.clone(),
            })
        })
    }
}

impl State {
    pub(super) fn truth(&self) -> Vec<InstanceTruth> {
        let mut instances: Vec<&Instance> = self.instances.values().collect();
        instances.sort_by_key(|instance| instance.sequence);
        instances
            .into_iter()
            .map(|instance| truth(self, instance))
            .collect()
    }

    pub(super) fn preempt(&mut self, name_or_id: &str) -> Result<(), NoSuch> {
        let live = |i: &Instance| matches!(i.status, Status::Pending | Status::Starting | Status::Running);
        let id = self.choose("spot instance to preempt", name_or_id, |i| {
            i.class == Class::Spot && live(i)
        })?;
        self.preempt_now(&id);
        Ok(())
    }

    pub(super) fn fail_host_of(
        &mut self,
        name_or_id: &str,
        outcome: Option<HostFailure>,
    ) -> Result<(), NoSuch> {
        let id = self.choose("instance on a host to fail", name_or_id, |i| {
            i.holds_host && i.status != Status::Deleting
        })?;
        self.fail_host(&id, outcome);
        Ok(())
    }

    pub(super) fn doom(&mut self, name_or_id: &str, code: &str) -> Result<(), NoSuch> {
        if !START_FAILURES.iter().any(|(known, _)| *known == code) {
            let choices = START_FAILURES
                .iter()
                .map(|(known, _)| (*known).to_owned())
                .collect();
            return Err(NoSuch {
                what: "reason for a failed start",
                name: code.into(),
                choices,
            });
        }
        self.doomed.insert(name_or_id.to_owned(), code.to_owned());
        Ok(())
    }

    pub(super) fn drain(&mut self, profile: &str, zone: &str, class: Option<Class>) -> Result<(), NoSuch> {
        for offering in self.offerings(profile, zone, class)? {
            self.drain_offering(offering);
        }
        Ok(())
    }

    pub(super) fn refill(&mut self, profile: &str, zone: &str, class: Option<Class>) -> Result<(), NoSuch> {
        for offering in self.offerings(profile, zone, class)? {
            self.refill_offering(&offering);
        }
        Ok(())
    }

    /// Takes a profile, a price or an image away.
    pub(super) fn withdraw(&mut self, what: &str, name: &str) -> Result<(), NoSuch> {
        if what == "image" {
            let image = self
                .images
                .values()
                .find(|image| image.id == name || image.name == name);
            let choices = || self.images.values().map(|image| image.name.clone()).collect();
            let no_such = || NoSuch {
                what: "image",
                name: name.into(),
                choices: choices(),
            };
            let id = image.map(|image| image.id.clone()).ok_or_else(no_such)?;
            self.images.remove(&id);
            return Ok(());
        }
        self.known_profile(name)?;
        let removed = if what == "price" {
            &mut self.removed_prices
        } else {
            &mut self.removed_profiles
        };
        removed.insert(name.to_owned());
        Ok(())
    }

    fn known_profile(&self, name: &str) -> Result<&'static str, NoSuch> {
        let offered = profiles::offered(self);
        builtin::find_profile(name)
            .filter(|_| offered.iter().any(|(_, known)| known == name))
            .map(|p| p.name)
            .ok_or_else(|| NoSuch {
                what: "profile",
                name: name.into(),
                choices: offered.into_iter().map(|(_, known)| known).collect(),
            })
    }

    fn offerings(&self, profile: &str, zone: &str, class: Option<Class>) -> Result<Vec<Offering>, NoSuch> {
        let profile = self.known_profile(profile)?;
        let zones = geography::zones(&self.region);
        if !zones.iter().any(|known| known == zone) {
            return Err(NoSuch {
                what: "zone",
                name: zone.into(),
                choices: zones.to_vec(),
            });
        }
        let classes = class.map_or_else(|| Class::ALL.to_vec(), |class| vec![class]);
        Ok(classes
            .into_iter()
            .map(|class| Offering {
                profile,
                zone: zone.into(),
                class,
            })
            .collect())
    }

    fn choose(
        &self,
        what: &'static str,
        name_or_id: &str,
        fits: impl Fn(&Instance) -> bool,
    ) -> Result<String, NoSuch> {
        self.find_instance(name_or_id)
            .filter(|instance| fits(instance))
            .map(|instance| instance.id.clone())
            .ok_or_else(|| NoSuch {
                what,
                name: name_or_id.into(),
                choices: self
                    .instances
                    .values()
                    .filter(|i| fits(i))
                    .map(|i| i.name.clone())
                    .collect(),
            })
    }
}

fn truth(state: &State, instance: &Instance) -> InstanceTruth {
    let primary = instance
        .attachments
        .first()
        .and_then(|attachment| state.interfaces.get(&attachment.interface));
    let factor = builtin::find_region(&state.region).map_or(1.0, |region| region.price_factor);
    let share = if instance.class == Class::Spot {
        super::pricing::SPOT_SHARE
    } else {
        1.0
    };
    InstanceTruth {
        id: instance.id.clone(),
        name: instance.name.clone(),
        crn: instance.crn(),
        profile: instance.profile.name,
        zone: instance.zone.clone(),
        class: instance.class,
        status: instance.status.as_str(),
        reason: instance.reason.clone(),
        created_at: instance.created_at,
        address: primary
            .filter(|_| instance.provisioned)
            .map(|interface| interface.address),
        vpc: instance.vpc.clone(),
        subnet: primary
            .map(|interface| interface.subnet.clone())
            .unwrap_or_default(),
        resource_group: instance.resource_group.clone(),
        image: instance.image.clone(),
        user_data: instance.user_data.clone(),
        metadata_service: instance.metadata.enabled,
        boot_volume_gb: boot_volume_gb(state, instance),
        tags: state.tags.get(&instance.crn()).cloned().unwrap_or_default(),
        usd_per_hour: instance.profile.on_demand.times(factor * share),
        on_demand_usd_per_hour: instance.profile.on_demand.times(factor),
        price_certainty: super::pricing::certainty(instance.profile, &state.region).as_str(),
    }
}

fn boot_volume_gb(state: &State, instance: &Instance) -> u64 {
    let boot = instance.volumes.first();
    boot.and_then(|attachment| state.volumes.get(&attachment.volume))
        .map_or(0, |volume| volume.capacity)
}

pub(super) fn account(state: &State) -> Account {
    let first = |name: &str| {
        state
            .images
            .values()
            .find(|image| image.name == name)
            .map(|image| image.id.clone())
    };
    let named = |name: &str| {
        state
            .placement
            .values()
            .find(|t| t.name == name)
            .map(|t| t.id.clone())
    };
    let vpc = state.vpcs.values().min_by_key(|vpc| vpc.sequence);
    let mut subnets: Vec<_> = state.subnets.values().collect();
    subnets.sort_by_key(|subnet| subnet.sequence);
    Account {
        region: state.region.clone(),
        zones: geography::zones(&state.region).to_vec(),
        vpc: vpc.map(|vpc| vpc.id.clone()).unwrap_or_default(),
        subnets: subnets.iter().take(3).map(|subnet| subnet.id.clone()).collect(),
        security_group: vpc
            .map(|vpc| vpc.default_security_group.clone())
            .unwrap_or_default(),
        image: first(STOCK[0].0).unwrap_or_default(),
        key: state.keys.keys().next().cloned().unwrap_or_default(),
        resource_group: state.default_group(),
        placement_group: named("demo-spread").unwrap_or_default(),
        dedicated_host: named("demo-host").unwrap_or_default(),
        trusted_profile: super::iam::TRUSTED_PROFILE.0,
    }
}
