//! An instance as the API shows it.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::geography::zone_reference;
use super::instances::{
    Attachment, HostFailure, Instance, NetworkStyle, Preemption, Status, VolumeAttachment, reason_text,
};
use super::interfaces::VirtualInterface;
use super::network::{merge, stamp};
use super::state::State;
use super::{groups, ids, images, placement, profiles};

/// The whole instance.
pub(super) fn body(state: &State, instance: &Instance) -> Value {
    let region = state.region.as_str();
    let mut body = json!({
        "id": instance.id,
        "crn": instance.crn(),
        "href": ids::href(region, &format!("instances/{}", instance.id)),
        "name": instance.name,
        "resource_type": "instance",
        "created_at": stamp(instance.created_at),
        "profile": profiles::reference(region, instance.profile.name),
        "zone": zone_reference(&instance.zone),
        "vpc": state.vpcs.get(&instance.vpc).map(|vpc| vpc.reference(region)),
        "resource_group": groups::reference(state, &instance.resource_group),
    });
    merge(&mut body, condition(instance));
    merge(&mut body, hardware(instance));
    merge(&mut body, networks(state, instance));
    merge(&mut body, storage(state, instance));
    if let Some(image) = state.images.get(&instance.image) {
        body["image"] = images::reference(state, image);
    }
    if let Some(target) = instance
        .placement_target
        .as_ref()
        .and_then(|id| state.placement.get(id))
    {
        body["placement_target"] = placement::reference(state, target);
    }
    body
}

/// Status, policies and what they mean.
fn condition(instance: &Instance) -> Value {
    let reasons: Vec<Value> = instance
        .reason
        .iter()
        .map(|code| {
            json!({
                "code": code, "message": reason_text(code),
                "more_info": "https://cloud.ibm.com/docs/vpc?topic=vpc-instance-status-messages",
            })
        })
        .collect();
    let lifecycle_state = match instance.status {
        Status::Pending => "pending",
        Status::Deleting => "deleting",
        Status::Failed => "failed",
        _ => "stable",
    };
    let host_failure = if instance.host_failure == HostFailure::Stop {
        "stop"
    } else {
        "restart"
    };
    let preemption = if instance.preemption == Preemption::Delete {
        "delete"
    } else {
        "stop"
    };
    json!({
        "status": instance.status.as_str(),
        "status_reasons": reasons,
        "startable": instance.status == Status::Stopped,
        "lifecycle_state": lifecycle_state,
        "lifecycle_reasons": [],
        "health_state": if lifecycle_state == "stable" { "ok" } else { "inapplicable" },
        "health_reasons": [],
        "availability": { "class": instance.class.as_str() },
        "availability_policy": { "host_failure": host_failure, "preemption": preemption },
        "reservation_affinity": { "policy": instance.reservation_policy, "pool": [] },
        "metadata_service": {
            "enabled": instance.metadata.enabled,
            "protocol": instance.metadata.protocol,
            "response_hop_limit": instance.metadata.response_hop_limit,
        },
        "confidential_compute_mode": "disabled",
        "enable_secure_boot": instance.secure_boot,
        "cluster_network_attachments": [],
        "software_attachments": [],
    })
}

/// What it is made of. The CPU's maker is unknown until a flex instance has a host.
fn hardware(instance: &Instance) -> Value {
    let profile = instance.profile;
    let manufacturer = if instance.holds_host {
        profiles::manufacturer(profile).unwrap_or("intel")
    } else {
        "unassigned"
    };
    let bandwidth = u64::from(profile.bandwidth_mbps);
    let mut body = json!({
        "bandwidth": bandwidth,
        "memory": profile.memory_gib,
        "vcpu": {
            "architecture": "amd64", "count": profile.vcpu, "manufacturer": manufacturer,
            "percentage": instance.vcpu_percentage,
        },
        "threads_per_core": 2,
        "total_network_bandwidth": bandwidth.saturating_sub(instance.volume_bandwidth),
        "total_volume_bandwidth": instance.volume_bandwidth,
        "volume_bandwidth_qos_mode": instance.qos_mode,
        "disks": disks(instance),
    });
    if let Some(gpu) = &profile.gpu {
        body["gpu"] = json!({
            "count": gpu.count, "manufacturer": gpu.manufacturer, "memory": gpu.memory_gib, "model": gpu.model,
        });
    }
    if instance.status == Status::Running {
        body["numa_count"] = json!(profile.numa.unwrap_or(1));
    }
    body
}

/// The instance's own disks.
pub(super) fn disks(instance: &Instance) -> Vec<Value> {
    let (count, size) = instance.profile.disks.unwrap_or((0, 0));
    (0..count)
        .map(|number| {
            let id = ids::stable_uuid(&format!("{}/{number}", instance.id));
            json!({
                "id": format!("{}-{id}", &instance.id[..4]), "name": format!("disk-{number}"), "size": size,
                "interface_type": "nvme", "resource_type": "instance_disk", "created_at": stamp(instance.created_at),
            })
        })
        .collect()
}

/// Attachments and the read-only interfaces that mirror them.
fn networks(state: &State, instance: &Instance) -> Value {
    let interfaces: Vec<Value> = instance
        .attachments
        .iter()
        .map(|a| interface(state, instance, a))
        .collect();
    let attachments: Vec<Value> = network_attachments(state, instance);
    let mut body = json!({
        "network_attachments": attachments,
        "network_interfaces": interfaces,
        "primary_network_interface": interfaces.first(),
    });
    if let Some(primary) = attachments.first() {
        body["primary_network_attachment"] = primary.clone();
    }
    body
}

/// The attachments; none for an instance that was made with the older interfaces.
pub(super) fn network_attachments(state: &State, instance: &Instance) -> Vec<Value> {
    if instance.network_style == NetworkStyle::Interfaces {
        return Vec::new();
    }
    instance
        .attachments
        .iter()
        .map(|a| attachment(state, instance, a))
        .collect()
}

fn attachment(state: &State, instance: &Instance, attachment: &Attachment) -> Value {
    let path = format!("instances/{}/network_attachments/{}", instance.id, attachment.id);
    let mut body = json!({
        "id": attachment.id, "name": attachment.name, "href": ids::href(&state.region, &path),
        "resource_type": "instance_network_attachment",
    });
    if let Some(interface) = state.interfaces.get(&attachment.interface) {
        place(state, instance, interface, &mut body);
        body["virtual_network_interface"] = interface.reference(&state.region);
    }
    body
}

/// The older form; its id equals the attachment's.
pub(super) fn interface(state: &State, instance: &Instance, attachment: &Attachment) -> Value {
    let path = format!("instances/{}/network_interfaces/{}", instance.id, attachment.id);
    let mut body = json!({
        "id": attachment.id, "name": attachment.name, "href": ids::href(&state.region, &path),
        "resource_type": "network_interface",
    });
    if let Some(interface) = state.interfaces.get(&attachment.interface) {
        place(state, instance, interface, &mut body);
    }
    body
}

/// Where an interface is: its address and its subnet.
fn place(state: &State, instance: &Instance, interface: &VirtualInterface, body: &mut Value) {
    body["primary_ip"] = state.primary_ip(interface, shown_address(instance, interface.address));
    let subnet = state.subnets.get(&interface.subnet);
    body["subnet"] = json!(subnet.map(|subnet| subnet.reference(&state.region)));
}

/// `0.0.0.0` until the instance has been provisioned.
fn shown_address(instance: &Instance, address: Ipv4Addr) -> Ipv4Addr {
    if instance.provisioned {
        address
    } else {
        Ipv4Addr::UNSPECIFIED
    }
}

fn storage(state: &State, instance: &Instance) -> Value {
    let attachments: Vec<Value> = instance
        .volumes
        .iter()
        .map(|a| volume_attachment(state, instance, a))
        .collect();
    json!({ "boot_volume_attachment": attachments.first(), "volume_attachments": attachments })
}

/// A volume attachment; `volume` and `device` are absent until the instance has been provisioned.
pub(super) fn volume_attachment(state: &State, instance: &Instance, attachment: &VolumeAttachment) -> Value {
    let path = format!("instances/{}/volume_attachments/{}", instance.id, attachment.id);
    let mut body =
        json!({ "id": attachment.id, "name": attachment.name, "href": ids::href(&state.region, &path) });
    if instance.provisioned
        && let Some(volume) = state.volumes.get(&attachment.volume)
    {
        body["volume"] = volume.reference(&state.region);
        body["device"] = json!({ "id": format!("{}-{}", attachment.id, &volume.id[5..13]) });
    }
    body
}
