//! An order as the VPC API takes it.

use std::collections::BTreeSet;

use super::parts;
use crate::api::CapacityType;
use crate::cloud::{Afterwards, Order, VolumeOrder};
use crate::ibm::tags::Tag;
use crate::ibm::vpc::types::{
    self, AvailabilityClass, InstancePrototype, Reference, ReservationPolicy, TrustedProfilePrototype,
    VolumeAttachmentPrototype, VolumePrototype,
};

const DEFAULT_VOLUME_PROFILE: &str = "general-purpose";

/// The whole request.
pub(super) fn prototype(order: &Order) -> InstancePrototype {
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
    interface.name = format!("{}{}", order.stem(), parts::INTERFACE);
    interface.security_groups = references(&order.security_groups);
    interface.resource_group = Some(group.clone());
    prototype.resource_group = Some(group);
    prototype.keys = references(&order.ssh_keys);
    prototype.user_data.clone_from(&order.user_data);
    place(&mut prototype, order);
    carry(&mut prototype, order);
    prototype
}

/// With any placement target the reservation policy must be `disabled`; the API refuses another.
fn place(prototype: &mut InstancePrototype, order: &Order) {
    if let Some(target) = &order.placement_target {
        prototype.placement_target = Some(Reference::by_id(target));
        prototype.reservation_affinity.policy = ReservationPolicy::Disabled;
    }
    prototype.default_trusted_profile = order.trusted_profile.as_ref().map(|id| TrustedProfilePrototype {
        auto_link: true,
        target: Reference::by_id(id),
    });
}

/// Volumes are named after the machine: a device's name is the same on every machine, a volume's must be unique.
fn carry(prototype: &mut InstancePrototype, order: &Order) {
    let stem = order.stem();
    let boot = &order.boot_volume;
    prototype.boot_volume_attachment = attachment(boot, parts::boot(&stem, boot), order);
    if prototype.boot_volume_attachment.name.is_none() {
        prototype.boot_volume_attachment.name = Some("boot".to_owned());
    }
    let data = order.data_volumes.iter().enumerate();
    prototype.volume_attachments = data
        .map(|(index, volume)| attachment(volume, parts::data(&stem, index, volume), order))
        .collect();
}

fn attachment(volume: &VolumeOrder, name: String, order: &Order) -> VolumeAttachmentPrototype {
    let legal = |tag: &String| Tag::parse(tag).map(|tag| tag.as_str().to_owned());
    let tags: BTreeSet<String> = order.tags.union(&volume.tags).filter_map(legal).collect();
    let profile = volume.profile.as_deref().unwrap_or(DEFAULT_VOLUME_PROFILE);
    let key = volume.encryption_key.clone().map(|crn| Reference {
        crn: Some(crn),
        ..Reference::default()
    });
    VolumeAttachmentPrototype {
        name: volume.device.clone(),
        delete_volume_on_instance_delete: volume.afterwards == Afterwards::Deleted,
        volume: VolumePrototype {
            name: Some(name),
            capacity: volume.capacity_gb,
            profile: Reference::by_name(profile),
            iops: volume.iops,
            bandwidth: volume.bandwidth_mbps,
            encryption_key: key,
            user_tags: tags.into_iter().collect(),
            // With the name, the mark of whose it is, should it be left behind.
            resource_group: Some(Reference::by_id(&order.resource_group)),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    fn order(capacity_type: CapacityType) -> Order {
        Order {
            name: "kib-1".to_owned(),
            attempt: 1,
            profile: "bxf-4x16".to_owned(),
            zone: "us-south-1".to_owned(),
            capacity_type,
            vpc: "v".to_owned(),
            subnet: "s".to_owned(),
            image: "i".to_owned(),
            security_groups: vec!["g".to_owned()],
            ssh_keys: vec!["k".to_owned()],
            resource_group: "r".to_owned(),
            placement_target: None,
            trusted_profile: None,
            boot_volume: VolumeOrder::default(),
            data_volumes: Vec::new(),
            tags: BTreeSet::from(["Team:A".to_owned(), "not/legal:x".to_owned()]),
            user_data: Some("#cloud-config\n".to_owned()),
            send_by: Instant::now(),
        }
    }

    #[tokio::test]
    async fn every_attempt_has_names_of_its_own_for_all_but_the_machine() {
        let mut order = order(CapacityType::Spot);
        let kept = VolumeOrder {
            afterwards: Afterwards::Kept,
            ..VolumeOrder::default()
        };
        order.data_volumes = vec![VolumeOrder::default(), kept.clone()];
        order.attempt = 2;
        let sent = serde_json::to_value(prototype(&order)).unwrap();
        assert_eq!(sent["name"], "kib-1");
        let interface = &sent["primary_network_attachment"]["virtual_network_interface"];
        assert_eq!(interface["name"], "kib-1-x2-vni");
        assert_eq!(sent["boot_volume_attachment"]["volume"]["name"], "kib-1-x2-boot");
        let data = |number: usize| &sent["volume_attachments"][number]["volume"]["name"];
        assert_eq!(data(0), "kib-1-x2-scratch-0", "goes with its machine");
        assert_eq!(data(1), "kib-1-x2-data-1", "is kept");
        order.boot_volume = kept;
        let sent = serde_json::to_value(prototype(&order)).unwrap();
        assert_eq!(
            sent["boot_volume_attachment"]["volume"]["name"],
            "kib-1-x2-boot-kept"
        );
    }

    #[tokio::test]
    async fn a_spot_order_in_full() {
        let sent = serde_json::to_value(prototype(&order(CapacityType::Spot))).unwrap();
        let expected = json!({
            "name": "kib-1", "profile": {"name": "bxf-4x16"}, "image": {"id": "i"},
            "zone": {"name": "us-south-1"}, "vpc": {"id": "v"}, "resource_group": {"id": "r"},
            "keys": [{"id": "k"}], "user_data": "#cloud-config\n",
            "primary_network_attachment": {"name": "eth0", "virtual_network_interface": {
                "name": "kib-1-vni", "subnet": {"id": "s"}, "security_groups": [{"id": "g"}],
                "auto_delete": true, "allow_ip_spoofing": false, "enable_infrastructure_nat": true,
                "resource_group": {"id": "r"},
            }},
            "boot_volume_attachment": {"name": "boot", "delete_volume_on_instance_delete": true, "volume": {
                "name": "kib-1-boot", "profile": {"name": "general-purpose"}, "user_tags": ["team:a"],
                "resource_group": {"id": "r"},
            }},
            "availability": {"class": "spot"}, "availability_policy": {"preemption": "stop"},
            "reservation_affinity": {"policy": "disabled"},
            "metadata_service": {"enabled": true, "protocol": "https", "response_hop_limit": 1},
        });
        assert_eq!(sent, expected);
    }

    #[tokio::test]
    async fn an_order_on_demand_restarts_when_its_host_fails_and_may_use_reservations() {
        let sent = serde_json::to_value(prototype(&order(CapacityType::OnDemand))).unwrap();
        assert_eq!(sent["availability"], json!({"class": "standard"}));
        assert_eq!(sent["availability_policy"], json!({"host_failure": "restart"}));
        assert_eq!(sent["reservation_affinity"], json!({"policy": "automatic"}));
    }

    #[tokio::test]
    async fn volumes_keys_placement_and_trusted_profile_are_sent_as_ordered() {
        let mut order = order(CapacityType::OnDemand);
        order.placement_target = Some("p".to_owned());
        order.trusted_profile = Some("Profile-1".to_owned());
        order.data_volumes = vec![VolumeOrder {
            device: Some("data".to_owned()),
            capacity_gb: Some(200),
            profile: Some("sdp".to_owned()),
            iops: Some(3000),
            bandwidth_mbps: Some(1000),
            encryption_key: Some("crn:v1:key".to_owned()),
            afterwards: Afterwards::Kept,
            tags: BTreeSet::from(["b:c".to_owned()]),
        }];
        let sent = serde_json::to_value(prototype(&order)).unwrap();
        let data = json!([{"name": "data", "delete_volume_on_instance_delete": false, "volume": {
            "name": "kib-1-data-0", "capacity": 200, "profile": {"name": "sdp"}, "iops": 3000, "bandwidth": 1000,
            "encryption_key": {"crn": "crn:v1:key"}, "user_tags": ["b:c", "team:a"],
            "resource_group": {"id": "r"},
        }}]);
        assert_eq!(sent["volume_attachments"], data);
        assert_eq!(sent["placement_target"], json!({"id": "p"}));
        assert_eq!(
            sent["reservation_affinity"],
            json!({"policy": "disabled"}),
            "refused with any other"
        );
        let profile = json!({"auto_link": true, "target": {"id": "Profile-1"}});
        assert_eq!(sent["default_trusted_profile"], profile);
    }
}
