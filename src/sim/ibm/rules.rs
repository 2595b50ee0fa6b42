//! What a create is refused for. Nothing changes here.

use std::collections::BTreeMap;

use super::capacity::{Host, within};
use super::errors::Refusal;
use super::images::{Image, ImageStatus};
use super::interfaces::{Wish, out_of_addresses};
use super::options::Class;
use super::prototype::{Prototype, Settings};
use super::state::State;
use super::volumes::Role;
use super::{geography, names, profiles};
use crate::ibm::builtin::Profile;

/// The most user data an instance may be given.
const USER_DATA_BYTES_MAX: usize = 64 << 10;
/// The most volumes beside the boot volume.
const DATA_VOLUMES_MAX: usize = 12;

/// What a checked prototype resolves to.
pub(super) struct Checked {
    pub(super) profile: &'static Profile,
    pub(super) image: Image,
    pub(super) vpc: String,
    pub(super) class: Class,
    pub(super) host: Host,
    pub(super) reservation_policy: String,
    pub(super) keys: Vec<String>,
    pub(super) resource_group: String,
}

/// Checks everything that can be refused, and fills in what was left out.
pub(super) fn check(state: &State, prototype: &mut Prototype) -> Result<Checked, Refusal> {
    if let Some(name) = &prototype.name {
        state.check_instance_name(name)?;
    }
    let (profile, zone) = (
        profiles::find(state, &prototype.profile)?,
        prototype.zone.as_str(),
    );
    check_zone(state, profile, zone)?;
    let image = check_image(state, &prototype.image)?;
    if prototype
        .user_data
        .as_ref()
        .is_some_and(|data| data.len() > USER_DATA_BYTES_MAX)
    {
        return Err(Refusal::field(
            "bad_field",
            "user_data",
            "user_data must not be longer than 64 KiB",
        ));
    }
    let vpc = check_networks(state, prototype, profile)?;
    let (host, reservation_policy) = check_settings(state, &prototype.settings, profile)?;
    let class = prototype.settings.class.unwrap_or(Class::Standard);
    state.check_quota(profile, class, host)?;
    check_volumes(state, prototype, profile, &image)?;
    let keys = prototype
        .keys
        .iter()
        .map(|key| find_key(state, key))
        .collect::<Result<_, _>>()?;
    let resource_group = match &prototype.resource_group {
        None => state.default_group(),
        Some(id) if state.resource_groups.iter().any(|group| group.id == *id) => id.clone(),
        Some(id) => return Err(blame("resource group", "resource_group", id)),
    };
    Ok(Checked {
        profile,
        image,
        vpc,
        class,
        host,
        reservation_policy,
        keys,
        resource_group,
    })
}

impl State {
    /// Refuses a name that is illegal or taken; a name is taken until its instance is gone.
    pub(super) fn check_instance_name(&self, name: &str) -> Result<(), Refusal> {
        names::check(name, "name")?;
        let taken =
            self.instances.values().any(|instance| instance.name == name) || self.held_names.contains(name);
        if taken {
            Err(Refusal::taken("name", name))
        } else {
            Ok(())
        }
    }
}

fn blame(kind: &str, field: &str, id: &str) -> Refusal {
    Refusal::not_found(kind, id).blames("field", field, Some(id))
}

fn check_zone(state: &State, profile: &Profile, zone: &str) -> Result<(), Refusal> {
    if !geography::zones(&state.region).iter().any(|known| known == zone) {
        let message = format!("The zone '{zone}' is not in the region '{}'", state.region);
        return Err(Refusal::field("invalid_zone", "zone", message).blames("field", "zone", Some(zone)));
    }
    if state.zones_selling(profile).iter().any(|known| known == zone) {
        return Ok(());
    }
    let message = format!(
        "The profile '{}' is not available in the zone '{zone}'",
        profile.name
    );
    Err(Refusal::field("bad_field", "profile", message).blames("field", "profile", Some(profile.name)))
}

fn check_image(state: &State, id: &str) -> Result<Image, Refusal> {
    let image = state.images.get(id).filter(|_| state.has_image(id));
    let image = image.ok_or_else(|| blame("image", "image", id))?;
    if image.status == ImageStatus::Obsolete {
        let message = format!("The image '{}' is obsolete and cannot be used", image.name);
        return Err(Refusal::field("bad_field", "image", message));
    }
    Ok(image.clone())
}

fn find_key(state: &State, key: &str) -> Result<String, Refusal> {
    let found = state
        .keys
        .values()
        .find(|own| own.id == key || own.fingerprint == key);
    found
        .map(|own| own.id.clone())
        .ok_or_else(|| blame("key", "keys", key))
}

/// All interfaces must be in the instance's zone and in one VPC, and their subnets have addresses for all of them.
fn check_networks(state: &State, prototype: &mut Prototype, profile: &Profile) -> Result<String, Refusal> {
    let max = usize::try_from(profile.network_attachments_max).unwrap_or(usize::MAX);
    if prototype.networks.len() > max {
        let message = format!(
            "The profile '{}' supports at most {max} network attachments",
            profile.name
        );
        return Err(Refusal::field("bad_field", "network_attachments", message));
    }
    let mut needed: BTreeMap<String, u32> = BTreeMap::new();
    let mut vpcs = Vec::new();
    for (_, wish) in &mut prototype.networks {
        let subnet = match wish {
            Wish::Existing(id) => {
                let interface = state.interfaces.get(id).ok_or_else(|| {
                    blame(
                        "virtual network interface",
                        "primary_network_attachment.virtual_network_interface",
                        id,
                    )
                })?;
                if interface.instance.is_some() || interface.deleting {
                    return Err(Refusal::conflict(
                        "target_in_use",
                        format!("The interface '{id}' is in use"),
                    ));
                }
                interface.subnet.clone()
            }
            Wish::New(new) => {
                state.check_interface(new)?;
                *needed.entry(new.subnet.clone()).or_default() += 1;
                new.subnet.clone()
            }
        };
        let subnet = state.subnet(&subnet, "primary_network_attachment.virtual_network_interface")?;
        if subnet.zone != prototype.zone {
            let message = format!(
                "The subnet '{}' is in {}, not in {}",
                subnet.id, subnet.zone, prototype.zone
            );
            return Err(Refusal::field("zone_inconsistency", "zone", message));
        }
        if needed
            .get(&subnet.id)
            .is_some_and(|&count| count > subnet.available())
        {
            return Err(out_of_addresses(
                subnet,
                "primary_network_attachment.virtual_network_interface",
            ));
        }
        vpcs.push(subnet.vpc.clone());
    }
    let vpc = prototype
        .vpc
        .clone()
        .or_else(|| vpcs.first().cloned())
        .unwrap_or_default();
    if !state.vpcs.contains_key(&vpc) {
        return Err(blame("VPC", "vpc", &vpc));
    }
    if vpcs.iter().any(|own| *own != vpc) {
        return Err(Refusal::field(
            "vpc_resource_separation",
            "vpc",
            "All subnets must be in the instance's VPC",
        ));
    }
    Ok(vpc)
}

/// The rules between class, profile, placement, reservation and burst share.
fn check_settings(state: &State, settings: &Settings, profile: &Profile) -> Result<(Host, String), Refusal> {
    let target = settings.placement_target.as_ref();
    let target = target.map(|id| {
        state
            .placement
            .get(id)
            .ok_or_else(|| blame("placement target", "placement_target", id))
    });
    let target = target.transpose()?;
    let host = match target {
        Some(target) if target.kind.is_dedicated() => Host::Dedicated,
        _ => Host::Shared,
    };
    let full = settings.vcpu_percentage == 100;
    let spot = settings.class == Some(Class::Spot);
    // Restricted configurations are not offered to reservations, others are by default.
    let default = if target.is_some() || spot || !full || profile.vcpu < 2 {
        "disabled"
    } else {
        "automatic"
    };
    let policy = settings
        .reservation_policy
        .clone()
        .unwrap_or_else(|| default.into());
    let shares = if profile.vcpu_percentages.is_empty() {
        &vec![100]
    } else {
        &profile.vcpu_percentages
    };
    if !shares
        .iter()
        .any(|&share| u64::from(share) == settings.vcpu_percentage)
    {
        return refuse(
            "vcpu.percentage",
            "The profile does not support this vCPU percentage",
        );
    }
    if spot {
        check_spot(profile, &policy, host, full)?;
    }
    if policy != "disabled" && (target.is_some() || !full || profile.vcpu < 2) {
        return refuse(
            "reservation_affinity.policy",
            "The policy must be 'disabled' in this configuration",
        );
    }
    if host == Host::Dedicated && !full {
        return refuse(
            "vcpu.percentage",
            "The vCPU percentage on a dedicated host must be 100",
        );
    }
    Ok((host, policy))
}

/// What a spot instance must not be combined with.
fn check_spot(profile: &Profile, policy: &str, host: Host, full: bool) -> Result<(), Refusal> {
    if !profile.spot {
        return refuse(
            "availability.class",
            "The profile does not support the availability class 'spot'",
        );
    }
    if policy != "disabled" {
        return refuse(
            "reservation_affinity.policy",
            "The policy must be 'disabled' for a spot instance",
        );
    }
    if host == Host::Dedicated {
        return refuse(
            "placement_target",
            "A spot instance must not be placed on a dedicated host",
        );
    }
    if !full {
        return refuse(
            "vcpu.percentage",
            "The vCPU percentage of a spot instance must be 100",
        );
    }
    Ok(())
}

/// The codes of these refusals are not documented.
fn refuse<T>(field: &str, message: &str) -> Result<T, Refusal> {
    Err(Refusal::field("bad_field", field, message))
}

fn check_volumes(
    state: &State,
    prototype: &Prototype,
    profile: &Profile,
    image: &Image,
) -> Result<(), Refusal> {
    state.check_volume(&prototype.boot, Role::Boot, image)?;
    for volume in &prototype.volumes {
        state.check_volume(volume, Role::Data, image)?;
    }
    let sdp = prototype.boot.profile() == "sdp";
    if sdp && matches!(profile.series, "gx3d" | "gx4d") {
        return refuse(
            "boot_volume_attachment.volume.profile",
            "The profile does not boot from 'sdp'",
        );
    }
    if sdp && prototype.settings.secure_boot {
        return refuse(
            "enable_secure_boot",
            "A volume of profile 'sdp' does not support secure boot",
        );
    }
    if prototype.volumes.len() > DATA_VOLUMES_MAX {
        let message = "At most 12 volumes may be attached";
        return Err(Refusal::field(
            "instance_sec_volume_over_quota",
            "volume_attachments",
            message,
        ));
    }
    let held = u32::try_from(state.volumes.len()).unwrap_or(u32::MAX);
    let more = 1 + u32::try_from(prototype.volumes.len()).unwrap_or(0);
    within("volumes", held, more, state.options.quotas.volumes).map_err(|refusal| Refusal {
        code: "volume_quota_reached".into(),
        ..refusal
    })
}
