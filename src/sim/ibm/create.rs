//! `POST /v1/instances`: reads the prototype, refuses what IBM refuses, and only then changes anything.

use std::collections::BTreeMap;

use http::StatusCode;

use super::ask::{Answer, Ask};
use super::capacity::{Host, within};
use super::errors::Refusal;
use super::faults::FaultKind;
use super::fields::{self, Fields};
use super::geography;
use super::images::{Image, ImageStatus};
use super::instances::{
    Attachment, HostFailure, Instance, MetadataService, NetworkStyle, Preemption, Status, VolumeAttachment,
};
use super::interfaces::{self, Wish, out_of_addresses};
use super::options::Class;
use super::placement::TargetKind;
use super::state::State;
use super::volumes::{self, NewVolume, Role};
use super::{ids, names, profiles, view};
use crate::ibm::builtin::Profile;

/// The most user data an instance may be given.
const USER_DATA_BYTES_MAX: usize = 64 << 10;
/// The most volumes beside the boot volume.
const DATA_VOLUMES_MAX: usize = 12;

/// What the caller wants, read and well-formed but not yet checked against the account.
struct Prototype {
    name: Option<String>,
    profile: String,
    image: String,
    zone: String,
    vpc: Option<String>,
    resource_group: Option<String>,
    keys: Vec<String>,
    user_data: Option<String>,
    network_style: NetworkStyle,
    /// The first is the primary one.
    networks: Vec<Network>,
    boot: NewVolume,
    volumes: Vec<NewVolume>,
    settings: Settings,
}

/// The name of an attachment, and the interface behind it.
type Network = (Option<String>, Wish);

/// The part of a prototype that is about how the instance is run.
struct Settings {
    class: Option<Class>,
    host_failure: HostFailure,
    preemption: Preemption,
    reservation_policy: Option<String>,
    placement_target: Option<String>,
    metadata: MetadataService,
    trusted_profile: Option<(String, bool)>,
    vcpu_percentage: u64,
    volume_bandwidth: Option<u64>,
    qos_mode: Option<String>,
    secure_boot: bool,
}

/// Creates an instance.
pub(super) fn create(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let sent = fields::parse(&ask.body)?;
    let mut prototype = read(&Fields::of(&sent)?)?;
    let checked = check(state, &mut prototype)?;
    if state.faults.hits(FaultKind::CapacityRefused, ask.operation) {
        // No such refusal is recorded, nor can one be excluded; the code is ours.
        let message = "There is no capacity for the requested profile in the zone";
        return Err(Refusal::field("insufficient_capacity", "profile", message));
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

fn read(body: &Fields<'_>) -> Result<Prototype, Refusal> {
    let zone = body.reference("zone", &["name"])?;
    let image = body.reference("image", &[])?;
    let (network_style, networks) = read_networks(body)?;
    let boot = body
        .object("boot_volume_attachment")?
        .map(|boot| volumes::read(&boot, Role::Boot))
        .transpose()?;
    let data = body.objects("volume_attachments")?;
    let prototype = Prototype {
        name: body.text("name")?,
        // The live default is bx2-2x8, though bxf-2x8 is documented.
        profile: body
            .reference("profile", &["name"])?
            .unwrap_or_else(|| "bx2-2x8".into()),
        image: body.need("image", image)?,
        zone: body.need("zone", zone)?,
        vpc: body.reference("vpc", &[])?,
        resource_group: body.reference("resource_group", &[])?,
        keys: body
            .objects("keys")?
            .iter()
            .map(|key| key.identity(&["fingerprint"]))
            .collect::<Result<_, _>>()?,
        user_data: body.text("user_data")?,
        network_style,
        networks,
        boot: boot.unwrap_or_else(NewVolume::default_boot),
        volumes: data
            .iter()
            .map(|volume| volumes::read(volume, Role::Data))
            .collect::<Result<_, _>>()?,
        settings: read_settings(body)?,
    };
    body.done()?;
    Ok(prototype)
}

/// Reads the network attachments or, in their place, the older network interfaces.
fn read_networks(body: &Fields<'_>) -> Result<(NetworkStyle, Vec<Network>), Refusal> {
    let attachment = body.object("primary_network_attachment")?;
    let interface = body.object("primary_network_interface")?;
    let more_attachments = body.objects("network_attachments")?;
    let more_interfaces = body.objects("network_interfaces")?;
    match (attachment, interface) {
        (Some(primary), None) if more_interfaces.is_empty() => {
            let all = std::iter::once(&primary)
                .chain(&more_attachments)
                .map(read_attachment);
            Ok((NetworkStyle::Attachments, all.collect::<Result<_, _>>()?))
        }
        (None, Some(primary)) if more_attachments.is_empty() => {
            let all = std::iter::once(&primary)
                .chain(&more_interfaces)
                .map(read_interface);
            Ok((NetworkStyle::Interfaces, all.collect::<Result<_, _>>()?))
        }
        (attachment, interface) => {
            let got = usize::from(attachment.is_some()) + usize::from(interface.is_some());
            let message = format!("Expected only one oneOf fields to be set: got {got}");
            Err(Refusal::field(
                "validation_only_one",
                "primary_network_attachment",
                message,
            ))
        }
    }
}

fn read_attachment(fields: &Fields<'_>) -> Result<Network, Refusal> {
    let name = fields.text("name")?;
    let interface = fields.object("virtual_network_interface")?;
    let wish = interfaces::read_wish(&fields.need("virtual_network_interface", interface)?)?;
    fields.done()?;
    Ok((name, wish))
}

fn read_interface(fields: &Fields<'_>) -> Result<Network, Refusal> {
    let name = fields.text("name")?;
    Ok((name, Wish::New(interfaces::read_older(fields)?)))
}

fn read_settings(body: &Fields<'_>) -> Result<Settings, Refusal> {
    let class = match body.object("availability")? {
        Some(availability) => read_class(&availability)?,
        None => None,
    };
    let (host_failure, preemption) = read_policy(body)?.unwrap_or((None, None));
    let trusted_profile = match body.object("default_trusted_profile")? {
        Some(profile) => {
            let (auto_link, target) = (profile.flag("auto_link")?, profile.reference("target", &[])?);
            profile.done()?;
            Some((profile.need("target", target)?, auto_link.unwrap_or(true)))
        }
        None => None,
    };
    let vcpu_percentage = match body.object("vcpu")? {
        Some(vcpu) => {
            let percentage = vcpu.number("percentage")?;
            vcpu.done()?;
            percentage.unwrap_or(100)
        }
        None => 100,
    };
    body.word("confidential_compute_mode", &["disabled", "sgx", "tdx"])?;
    body.number("threads_per_core")?;
    body.objects("cluster_network_attachments")?;
    Ok(Settings {
        class,
        host_failure: host_failure.unwrap_or(HostFailure::Restart),
        preemption: preemption.unwrap_or(Preemption::Stop),
        reservation_policy: read_reservation(body)?,
        placement_target: body.reference("placement_target", &[])?,
        metadata: read_metadata(body)?,
        trusted_profile,
        vcpu_percentage,
        volume_bandwidth: body.number("total_volume_bandwidth")?,
        qos_mode: body.word("volume_bandwidth_qos_mode", &["pooled", "weighted"])?,
        secure_boot: body.flag("enable_secure_boot")?.unwrap_or(false),
    })
}

/// Reads `availability.class`.
pub(super) fn read_class(availability: &Fields<'_>) -> Result<Option<Class>, Refusal> {
    let class = availability.word("class", &["spot", "standard"])?;
    availability.done()?;
    Ok(class.as_deref().and_then(Class::parse))
}

/// Reads `availability_policy`.
#[expect(
    clippy::type_complexity,
    reason = "two optional settings of an optional object"
)]
pub(super) fn read_policy(
    body: &Fields<'_>,
) -> Result<Option<(Option<HostFailure>, Option<Preemption>)>, Refusal> {
    let Some(policy) = body.object("availability_policy")? else {
        return Ok(None);
    };
    let host_failure = policy.word("host_failure", &["restart", "stop"])?;
    let preemption = policy.word("preemption", &["stop", "delete"])?;
    policy.done()?;
    let host_failure = host_failure.map(|word| {
        if word == "stop" {
            HostFailure::Stop
        } else {
            HostFailure::Restart
        }
    });
    let preemption = preemption.map(|word| {
        if word == "delete" {
            Preemption::Delete
        } else {
            Preemption::Stop
        }
    });
    Ok(Some((host_failure, preemption)))
}

fn read_reservation(body: &Fields<'_>) -> Result<Option<String>, Refusal> {
    let Some(affinity) = body.object("reservation_affinity")? else {
        return Ok(None);
    };
    let policy = affinity.word("policy", &["automatic", "disabled", "manual"])?;
    let pool = affinity.objects("pool")?;
    affinity.done()?;
    Ok(policy.or_else(|| (!pool.is_empty()).then(|| "manual".into())))
}

/// Reads `metadata_service`; IBM's default is off, over http, one hop.
pub(super) fn read_metadata(body: &Fields<'_>) -> Result<MetadataService, Refusal> {
    let mut service = MetadataService {
        enabled: false,
        protocol: "http".into(),
        response_hop_limit: 1,
    };
    if let Some(fields) = body.object("metadata_service")? {
        service.enabled = fields.flag("enabled")?.unwrap_or(service.enabled);
        service.protocol = fields
            .word("protocol", &["http", "https"])?
            .unwrap_or(service.protocol);
        service.response_hop_limit = fields
            .number("response_hop_limit")?
            .unwrap_or(service.response_hop_limit);
        fields.done()?;
    }
    Ok(service)
}

/// What a checked prototype resolves to.
struct Checked {
    profile: &'static Profile,
    image: Image,
    vpc: String,
    class: Class,
    host: Host,
    reservation_policy: String,
    keys: Vec<String>,
    resource_group: String,
}

fn check(state: &State, prototype: &mut Prototype) -> Result<Checked, Refusal> {
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
    if geography::zones_with(profile, &state.region)
        .iter()
        .any(|known| known == zone)
    {
        return Ok(());
    }
    let message = format!(
        "The profile '{}' is not available in the zone '{zone}'",
        profile.name
    );
    Err(Refusal::field("bad_field", "profile", message).blames("field", "profile", Some(profile.name)))
}

fn check_image(state: &State, id: &str) -> Result<Image, Refusal> {
    let image = state.images.get(id).ok_or_else(|| blame("image", "image", id))?;
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

/// The rules between class, profile, placement, reservation and burst share. IBM does not document the codes.
fn check_settings(state: &State, settings: &Settings, profile: &Profile) -> Result<(Host, String), Refusal> {
    let refuse = |field: &str, message: &str| Err(Refusal::field("bad_field", field, message));
    let target = settings.placement_target.as_ref().map(|id| {
        state
            .placement
            .get(id)
            .ok_or_else(|| blame("placement target", "placement_target", id))
    });
    let target = target.transpose()?;
    let dedicated = target.is_some_and(|target| target.kind == TargetKind::DedicatedHost);
    let spot = settings.class == Some(Class::Spot);
    let full = settings.vcpu_percentage == 100;
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
    if spot && !profile.spot {
        return refuse(
            "availability.class",
            "The profile does not support the availability class 'spot'",
        );
    }
    if spot && policy != "disabled" {
        return refuse(
            "reservation_affinity.policy",
            "The policy must be 'disabled' for a spot instance",
        );
    }
    if spot && dedicated {
        return refuse(
            "placement_target",
            "A spot instance must not be placed on a dedicated host",
        );
    }
    if spot && !full {
        return refuse(
            "vcpu.percentage",
            "The vCPU percentage of a spot instance must be 100",
        );
    }
    if policy != "disabled" && (target.is_some() || !full || profile.vcpu < 2) {
        return refuse(
            "reservation_affinity.policy",
            "The policy must be 'disabled' in this configuration",
        );
    }
    if dedicated && !full {
        return refuse(
            "vcpu.percentage",
            "The vCPU percentage on a dedicated host must be 100",
        );
    }
    Ok((if dedicated { Host::Dedicated } else { Host::Shared }, policy))
}

fn check_volumes(
    state: &State,
    prototype: &Prototype,
    profile: &Profile,
    image: &Image,
) -> Result<(), Refusal> {
    let refuse = |code: &str, field: &str, message: &str| Err(Refusal::field(code, field, message));
    state.check_volume(&prototype.boot, Role::Boot, image)?;
    for volume in &prototype.volumes {
        state.check_volume(volume, Role::Data, image)?;
    }
    let sdp = prototype.boot.profile() == "sdp";
    if sdp && matches!(profile.series, "gx3d" | "gx4d") {
        return refuse(
            "bad_field",
            "boot_volume_attachment.volume.profile",
            "The profile does not boot from 'sdp'",
        );
    }
    if sdp && prototype.settings.secure_boot {
        return refuse(
            "bad_field",
            "enable_secure_boot",
            "A volume of profile 'sdp' does not support secure boot",
        );
    }
    if prototype.volumes.len() > DATA_VOLUMES_MAX {
        return refuse(
            "instance_sec_volume_over_quota",
            "volume_attachments",
            "At most 12 volumes may be attached",
        );
    }
    let held = u32::try_from(state.volumes.len()).unwrap_or(u32::MAX);
    let more = 1 + u32::try_from(prototype.volumes.len()).unwrap_or(0);
    within("volumes", held, more, state.options.quotas.volumes).map_err(|refusal| Refusal {
        code: "volume_quota_reached".into(),
        ..refusal
    })
}

/// The `partial-create` fault: an interface or a volume is made, the instance is not.
fn leave_half_behind(state: &mut State, prototype: Prototype, image: &Image) {
    let first = prototype.networks.into_iter().next();
    match first {
        Some((_, Wish::New(new))) if state.faults.pick(2) == 0 => {
            state.make_interface(new, None);
        }
        _ => {
            let volume = state.make_volume(prototype.boot, &prototype.zone, Some(image));
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
            let same_series = crate::ibm::builtin::profiles()
                .iter()
                .filter(|p| p.series == profile.series);
            let other = same_series
                .filter(|p| p.name != profile.name)
                .min_by_key(|p| p.memory_gib);
            (other.unwrap_or(profile), zone)
        }
    }
}
