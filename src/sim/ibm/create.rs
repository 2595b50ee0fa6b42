//! `POST /v1/instances`: reads the prototype, refuses what IBM refuses, and only then changes anything.

use http::StatusCode;

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::images::Image;
use super::instances::{Attachment, Instance, Status, VolumeAttachment};
use super::interfaces::{Wish, out_of_addresses};
use super::network::Subnet;
use super::options::Class;
use super::prototype::{self, Network, Prototype};
use super::rules::{self, Checked};
use super::state::State;
use super::volumes::NewVolume;
use super::{geography, ids, profiles, view};
use crate::ibm::builtin::{self, Profile};

/// Creates an instance.
pub(super) fn create(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let mut prototype = prototype::read(&Fields::of(&sent)?)?;
    state.misses_for(&prototype, ask);
    let checked = rules::check(state, &mut prototype)?;
    if state.faults.hits(FaultKind::OrderRefused, ask.operation) {
        let message = "The image cannot be used with the requested profile";
        return Err(Refusal::field("bad_field", "image", message));
    }
    if state.faults.hits(FaultKind::CapacityRefused, ask.operation) {
        // No such refusal is recorded, nor can one be excluded; the code is ours.
        let message = "There is no capacity for the requested profile in the zone";
        return Err(Refusal::field("insufficient_capacity", "profile", message));
    }
    if state.faults.hits(FaultKind::QuotaRefused, ask.operation) {
        return Err(over_quota(&checked));
    }
    if let Some(subnet) = first_subnet(state, &prototype)
        && state.faults.hits(FaultKind::NoAddresses, ask.operation)
    {
        let path = "primary_network_attachment.virtual_network_interface";
        return Err(out_of_addresses(&subnet, path));
    }
    if state.faults.hits(FaultKind::PartialCreate, ask.operation) {
        leave_half_behind(state, prototype, &checked.image);
        return Err(Refusal::server(StatusCode::INTERNAL_SERVER_ERROR));
    }
    let id = make(state, ask, prototype, checked);
    let instance = state
        .instances
        .get(&id)
        .ok_or_else(|| Refusal::not_found("instance", &id))?;
    let etag = instance.etag();
    Ok(Answer::created(view::body(state, instance)).with_etag(etag))
}

/// Spot instances count by number, the others by what they have.
fn over_quota(checked: &Checked) -> Refusal {
    let what = match checked.class {
        Class::Spot => "spot instances",
        Class::Standard => "vCPUs",
    };
    let message = format!("The quota of {what} in this region is exceeded");
    Refusal::field("over_quota", "profile", message)
}

/// The subnet that an instance takes its first address from.
fn first_subnet(state: &State, prototype: &Prototype) -> Option<Subnet> {
    let (_, wish) = prototype.networks.first()?;
    match wish {
        Wish::New(new) => state.subnets.get(&new.subnet).cloned(),
        Wish::Existing(_) => None,
    }
}

/// The `partial-create` fault: an interface or a volume is made, the instance is not.
fn leave_half_behind(state: &mut State, prototype: Prototype, image: &Image) {
    let interface = prototype.networks.into_iter().find_map(|(_, wish)| match wish {
        Wish::New(new) => Some(new),
        Wish::Existing(_) => None,
    });
    let volumes = std::iter::once((prototype.boot, Some(image)));
    let mut volumes: Vec<_> = volumes
        .chain(prototype.volumes.into_iter().map(|volume| (volume, None)))
        .collect();
    let part = state
        .faults
        .pick(volumes.len() + usize::from(interface.is_some()));
    match interface {
        Some(new) if part == 0 => {
            state.make_interface(new, None);
        }
        interface => {
            let (volume, image) = volumes.swap_remove(part - usize::from(interface.is_some()));
            let volume = state.make_volume(volume, &prototype.zone, image);
            state.volumes.insert(volume.id.clone(), volume);
        }
    }
}

fn make(state: &mut State, ask: &Ask, prototype: Prototype, checked: Checked) -> String {
    let id = ids::instance(&prototype.zone, &mut state.rng);
    let attachments = make_attachments(state, &id, &prototype.zone, prototype.networks);
    let boot = make_attached(state, &id, &prototype.zone, prototype.boot, Some(&checked.image));
    let mut volumes = vec![boot];
    for volume in prototype.volumes {
        volumes.push(make_attached(state, &id, &prototype.zone, volume, None));
    }
    let (profile, zone) = come_up(state, ask, checked.profile, prototype.zone);
    let settings = prototype.settings;
    let instance = Instance {
        sequence: state.next_sequence(),
        revision: 1,
        turn: 0,
        id: id.clone(),
        name: prototype.name.unwrap_or_else(|| ids::words(&mut state.rng)),
        created_at: state.now,
        status: Status::Pending,
        reason: None,
        profile,
        zone,
        class: checked.class,
        host: checked.host,
        holds_host: false,
        provisioned: false,
        stuck: false,
        host_failure: settings.host_failure,
        preemption: settings.preemption,
        vpc: checked.vpc,
        image: checked.image.id,
        keys: checked.keys,
        resource_group: checked.resource_group,
        user_data: prototype.user_data,
        attachments,
        network_style: prototype.network_style,
        volumes,
        placement_target: settings.placement_target,
        reservation_policy: checked.reservation_policy,
        trusted_profile: settings.trusted_profile,
        metadata: settings.metadata,
        vcpu_percentage: settings.vcpu_percentage,
        volume_bandwidth: settings
            .volume_bandwidth
            .unwrap_or_else(|| profile.volume_bandwidth_mbps.into()),
        qos_mode: settings
            .qos_mode
            .unwrap_or_else(|| profiles::qos_mode(profile).into()),
        secure_boot: settings.secure_boot,
    };
    let crn = instance.crn();
    state.instances.insert(id.clone(), instance);
    state.launch(&id);
    state.reindex(&crn);
    id
}

fn make_attachments(
    state: &mut State,
    instance: &str,
    zone: &str,
    networks: Vec<Network>,
) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    for (number, (name, wish)) in networks.into_iter().enumerate() {
        let interface = match wish {
            Wish::New(new) => state.make_interface(new, Some(instance)),
            Wish::Existing(id) => {
                if let Some(interface) = state.interfaces.get_mut(&id) {
                    interface.instance = Some(instance.to_owned());
                }
                Some(id)
            }
        };
        let id = state.zonal_id(zone);
        let name = name.unwrap_or_else(|| format!("eth{number}"));
        attachments.extend(interface.map(|interface| Attachment { id, name, interface }));
    }
    attachments
}

fn make_attached(
    state: &mut State,
    instance: &str,
    zone: &str,
    new: NewVolume,
    image: Option<&Image>,
) -> VolumeAttachment {
    let (name, delete_with_instance) = (new.attachment_name.clone(), new.delete_with_instance);
    let mut volume = state.make_volume(new, zone, image);
    volume.instance = Some(instance.to_owned());
    let id = state.zonal_id(zone);
    let name = name.unwrap_or_else(|| ids::words(&mut state.rng));
    let attachment = VolumeAttachment {
        id,
        name,
        volume: volume.id.clone(),
        delete_with_instance,
    };
    state.volumes.insert(volume.id.clone(), volume);
    attachment
}

/// Where and as what the instance comes up: as asked for, unless the `wrong-profile` fault strikes.
fn come_up(
    state: &mut State,
    ask: &Ask,
    profile: &'static Profile,
    zone: String,
) -> (&'static Profile, String) {
    if !state.faults.hits(FaultKind::WrongProfile, ask.operation) {
        return (profile, zone);
    }
    let other_zone = geography::zones_with(profile, &state.region)
        .into_iter()
        .find(|other| *other != zone);
    match other_zone {
        Some(other) if state.faults.pick(2) == 0 => (profile, other),
        _ => {
            let same_series = builtin::profiles().iter().filter(|p| p.series == profile.series);
            let other = same_series
                .filter(|p| p.name != profile.name)
                .min_by_key(|p| p.memory_gib);
            (other.unwrap_or(profile), zone)
        }
    }
}
