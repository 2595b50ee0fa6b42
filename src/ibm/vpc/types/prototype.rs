//! What we send: a machine to be made, and changes to one.

use serde::{Deserialize, Serialize};

use super::{Availability, AvailabilityClass, AvailabilityPolicy, HostFailure, Preemption, Reference};

/// A machine by image and network attachment. Fields that are always sent are not optional, so that a default of the
/// API (a profile, a reservation policy) never decides for us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstancePrototype {
    pub name: String,
    pub profile: Reference,
    pub image: Reference,
    pub zone: Reference,
    pub vpc: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Reference>,
    /// Plain text, at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    pub primary_network_attachment: NetworkAttachmentPrototype,
    pub boot_volume_attachment: VolumeAttachmentPrototype,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_attachments: Vec<VolumeAttachmentPrototype>,
    pub availability: Availability,
    pub availability_policy: AvailabilityPolicy,
    /// Must be `disabled` for spot and with any placement target; the default would be `automatic`.
    pub reservation_affinity: ReservationAffinityPrototype,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_target: Option<Reference>,
    pub metadata_service: MetadataServicePrototype,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_trusted_profile: Option<TrustedProfilePrototype>,
}

/// The trusted profile that programs on the machine may assume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrustedProfilePrototype {
    /// Whether the machine is linked to the profile, so that it needs no other rule.
    pub auto_link: bool,
    pub target: Reference,
}

/// The first network attachment of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkAttachmentPrototype {
    pub name: String,
    pub virtual_network_interface: VirtualNetworkInterfacePrototype,
}

/// The interface that is made with the machine and goes with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualNetworkInterfacePrototype {
    pub name: String,
    pub subnet: Reference,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<Reference>,
    pub auto_delete: bool,
    pub allow_ip_spoofing: bool,
    /// Must be true for instances.
    pub enable_infrastructure_nat: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
}

/// A volume that is made with the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeAttachmentPrototype {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub delete_volume_on_instance_delete: bool,
    pub volume: VolumePrototype,
}

/// The volume itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumePrototype {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// GB; the API's default for the boot volume depends on the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    pub profile: Reference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<Reference>,
    /// Atomic with the create, unlike tags of an instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_group: Option<Reference>,
}

/// Whether a reservation may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationAffinityPrototype {
    pub policy: ReservationPolicy,
}

/// The policies of a reservation affinity that we ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationPolicy {
    Automatic,
    Disabled,
}

/// The metadata service inside the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataServicePrototype {
    pub enabled: bool,
    pub protocol: MetadataProtocol,
    /// 1 keeps containers away from it.
    pub response_hop_limit: u8,
}

/// How the metadata service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetadataProtocol {
    Http,
    Https,
}

/// Changes to a machine; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstancePatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only while it is stopping or stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_policy: Option<AvailabilityPolicy>,
}

/// What is chosen for a machine; everything else about it is the same for all of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Unique in the region.
    pub name: String,
    /// The profile's name.
    pub profile: String,
    /// The zone's name.
    pub zone: String,
    /// The VPC's id.
    pub vpc: String,
    /// The id of a subnet of that VPC in that zone.
    pub subnet: String,
    /// The image's id.
    pub image: String,
    /// Spot or standard.
    pub class: AvailabilityClass,
}

impl InstancePrototype {
    /// A machine whose interface and boot volume go with it, which cannot pretend to be another, and whose metadata
    /// service no container can reach. Spot is preempted by stopping, which leaves evidence, and never takes part in
    /// reservations; a standard one restarts when its host fails.
    pub fn of(order: &Order) -> Self {
        let (availability_policy, policy) = match order.class {
            AvailabilityClass::Spot => (
                AvailabilityPolicy {
                    preemption: Some(Preemption::Stop),
                    ..AvailabilityPolicy::default()
                },
                ReservationPolicy::Disabled,
            ),
            _ => (
                AvailabilityPolicy {
                    host_failure: Some(HostFailure::Restart),
                    ..AvailabilityPolicy::default()
                },
                ReservationPolicy::Automatic,
            ),
        };
        let interface = VirtualNetworkInterfacePrototype {
            name: format!("{}-vni", order.name),
            subnet: Reference::by_id(&order.subnet),
            security_groups: Vec::new(),
            auto_delete: true,
            allow_ip_spoofing: false,
            enable_infrastructure_nat: true,
            resource_group: None,
        };
        let boot = VolumePrototype {
            name: Some(format!("{}-boot", order.name)),
            capacity: None,
            profile: Reference::by_name("general-purpose"),
            iops: None,
            bandwidth: None,
            encryption_key: None,
            user_tags: Vec::new(),
            resource_group: None,
        };
        Self {
            name: order.name.clone(),
            profile: Reference::by_name(&order.profile),
            image: Reference::by_id(&order.image),
            zone: Reference::by_name(&order.zone),
            vpc: Reference::by_id(&order.vpc),
            resource_group: None,
            keys: Vec::new(),
            user_data: None,
            primary_network_attachment: NetworkAttachmentPrototype {
                name: "eth0".to_owned(),
                virtual_network_interface: interface,
            },
            boot_volume_attachment: VolumeAttachmentPrototype {
                name: Some("boot".to_owned()),
                delete_volume_on_instance_delete: true,
                volume: boot,
            },
            volume_attachments: Vec::new(),
            availability: Availability::of(order.class.clone()),
            availability_policy,
            reservation_affinity: ReservationAffinityPrototype { policy },
            placement_target: None,
            metadata_service: MetadataServicePrototype {
                enabled: true,
                protocol: MetadataProtocol::Https,
                response_hop_limit: 1,
            },
            default_trusted_profile: None,
        }
    }
}
