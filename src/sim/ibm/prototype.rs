//! The body of `POST /v1/instances`, read field by field.

use super::errors::Refusal;
use super::fields::Fields;
use super::instances::{HostFailure, MetadataService, NetworkStyle, Preemption};
use super::interfaces::{self, Wish};
use super::options::Class;
use super::volumes::{self, NewVolume, Role};

/// What the caller wants, read and well-formed but not yet checked against the account.
pub(super) struct Prototype {
    pub(super) name: Option<String>,
    pub(super) profile: String,
    pub(super) image: String,
    pub(super) zone: String,
    pub(super) vpc: Option<String>,
    pub(super) resource_group: Option<String>,
    pub(super) keys: Vec<String>,
    pub(super) user_data: Option<String>,
    pub(super) network_style: NetworkStyle,
    /// The first is the primary one.
    pub(super) networks: Vec<Network>,
    pub(super) boot: NewVolume,
    pub(super) volumes: Vec<NewVolume>,
    pub(super) settings: Settings,
}

/// The name of an attachment, and the interface behind it.
pub(super) type Network = (Option<String>, Wish);

/// The part of a prototype that is about how the instance is run.
pub(super) struct Settings {
    pub(super) class: Option<Class>,
    pub(super) host_failure: HostFailure,
    pub(super) preemption: Preemption,
    pub(super) reservation_policy: Option<String>,
    pub(super) placement_target: Option<String>,
    pub(super) metadata: MetadataService,
    pub(super) trusted_profile: Option<(String, bool)>,
    pub(super) vcpu_percentage: u64,
    pub(super) volume_bandwidth: Option<u64>,
    pub(super) qos_mode: Option<String>,
    pub(super) secure_boot: bool,
}

/// Reads the body of a create.
pub(super) fn read(body: &Fields<'_>) -> Result<Prototype, Refusal> {
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
