//! `IBMNodeClass`: the particulars of IBM Cloud that nodes share: where they stand, what they boot, what they carry.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pattern;
use super::{schema, wire};

mod bootstrap;
mod hash;
mod kubelet;
mod status;
mod validation;

pub use bootstrap::{Bootstrap, Repository};
pub use hash::{Ingredients, NODE_CLASS_HASH_VERSION};
pub use kubelet::KubeletSettings;
pub use status::{IBMNodeClassStatus, ObservedCapacity, PlacementKind, ResolvedImage, ResolvedSubnet};

/// Most security groups a network interface may be in.
const SECURITY_GROUPS_MAX: usize = 5;
/// Longest name of a VPC resource; ids are shorter.
const NAME_LENGTH_MAX: usize = 63;
/// Longest user data the VPC API takes, in bytes.
const USER_DATA_BYTES_MAX: usize = 65_536;
const BLOCK_DEVICES_MAX: usize = 10;
const VOLUME_TAGS_MAX: usize = 10;
const CAPACITY_GB: (i64, i64) = (1, 16_000);
const IOPS: (i64, i64) = (100, 64_000);
const BANDWIDTH_MBPS: (i64, i64) = (1, 16_000);
const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "s390x"];
const IMAGE_OWNERS: [&str; 2] = ["ibm", "account"];
/// Names of IBM's own images begin like this; nobody else may give such a name.
const STOCK_IMAGE_PREFIX: &str = "ibm-";
/// Capacity of a boot volume in GB. Volumes of the second generation (`sdp`) may be larger.
const BOOT_CAPACITY_GB: (i64, i64) = (10, 250);
const SECOND_GENERATION_VOLUME: &str = "sdp";

/// What nodes of a class are made of.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "karpenter-ibm.sh",
    version = "v1alpha1",
    kind = "IBMNodeClass",
    plural = "ibmnodeclasses",
    shortname = "ibmnc",
    category = "karpenter",
    status = "IBMNodeClassStatus",
    derive = "PartialEq",
    doc = "The particulars of IBM Cloud that nodes share: where they stand, what they boot, what they carry.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Region", "type": "string", "jsonPath": ".spec.region"}"#,
    printcolumn = r#"{"name": "VPC", "type": "string", "jsonPath": ".spec.vpc"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "priority": 1, "jsonPath": ".spec.zone"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "priority": 1, "jsonPath": ".status.resolvedImageID"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.image) != has(self.imageSelector)", "exactly one of 'image' and 'imageSelector' must be set"))]
#[x_kube(validation = ("!has(self.zone) || self.zone.startsWith(self.region + '-')", "'zone' must be a zone of 'region'"))]
#[x_kube(validation = (
    "has(self.resourceGroup) == has(oldSelf.resourceGroup) && \
     (!has(self.resourceGroup) || self.resourceGroup == oldSelf.resourceGroup)",
    "'resourceGroup' is immutable, as machines are known by it: make another class",
))]
pub struct IBMNodeClassSpec {
    /// Region, like `us-south`.
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = pattern::REGION.text))]
    pub region: String,
    /// The only zone to use, like `us-south-1`. All zones of the region that have a usable subnet if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = pattern::ZONE.text))]
    pub zone: Option<String>,
    /// Id of the VPC.
    #[schemars(extend("pattern" = pattern::REGIONAL_ID.text))]
    pub vpc: String,
    /// Id of the only subnet to use. All usable subnets of the VPC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::ZONAL_ID.text))]
    pub subnet: Option<String>,
    /// Which subnets are usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_strategy: Option<PlacementStrategy>,
    /// Ids of the security groups of every node. The VPC's default group if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::regional_ids", extend("maxItems" = SECURITY_GROUPS_MAX))]
    pub security_groups: Option<Vec<String>>,
    /// Id or name of the image to boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = pattern::IMAGE.text))]
    pub image: Option<String>,
    /// Boots the newest image that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_selector: Option<ImageSelector>,
    /// Whose image it is: `ibm` (one that every account sees) or `account` (one of your own). If absent, `account` for an
    /// image by a name that does not begin with `ibm-`, else `ibm`. An image by id is taken whoever owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = IMAGE_OWNERS))]
    pub image_owner: Option<String>,
    /// Ids of the SSH keys that open every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::regional_ids")]
    pub ssh_keys: Option<Vec<String>>,
    /// Id or name of the resource group of every node. The account's default group if absent. It never changes: machines
    /// are known as ours by their name and their group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub resource_group: Option<String>,
    /// Id of the placement group, dedicated host or dedicated host group to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::ZONAL_ID.text))]
    pub placement_target: Option<String>,
    /// Id of the trusted profile that programs on every node may assume. None if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::TRUSTED_PROFILE.text))]
    pub trusted_profile: Option<String>,
    /// Tags of every node, attached as `key:value`.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Replaces all that we would have the machine run first, its credential for joining included. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = USER_DATA_BYTES_MAX))]
    #[x_kube(validation = ("size(bytes(self)) <= 65536", "'userData' has at most 65536 bytes"))]
    pub user_data: Option<String>,
    /// Adds to what the machine runs first, after everything else: a script (`#!`) runs once the kubelet is started; of
    /// a `#cloud-config` the lists are appended and the maps merged, and neither may redefine what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = USER_DATA_BYTES_MAX))]
    #[x_kube(validation = ("size(bytes(self)) <= 65536", "'userDataAppend' has at most 65536 bytes"))]
    pub user_data_append: Option<String>,
    /// How machines become nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// How the kubelet of every node is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletSettings>,
    /// The volumes of every node. If any is given, exactly one is the root volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = BLOCK_DEVICES_MAX, "x-kubernetes-list-type" = "atomic"))]
    #[x_kube(validation = ("self.size() == 0 || self.filter(m, m.rootVolume).size() == 1", "exactly one volume must be the root volume"))]
    #[x_kube(validation = (
        "self.all(a, !has(a.deviceName) || self.exists_one(b, has(b.deviceName) && b.deviceName == a.deviceName))",
        "device names must be unique",
    ))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
}

/// How places for nodes are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStrategy {
    /// Which subnets are usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_selection: Option<SubnetSelection>,
}

/// Which subnets are usable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelection {
    /// How many addresses must be free.
    #[serde(
        default,
        rename = "minimumAvailableIPs",
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = 1, "maximum" = i32::MAX))]
    pub minimum_available_ips: Option<i64>,
    /// Tags that the subnet must have, as `key:value`.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::tags")]
    pub required_tags: Option<BTreeMap<String, String>>,
}

/// Which image to boot, by what it contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSelector {
    /// Operating system, like `ubuntu`.
    #[schemars(extend("pattern" = pattern::LOWER_WORD.text))]
    pub os: String,
    /// Major version, like `24`.
    #[schemars(extend("pattern" = pattern::DIGITS.text))]
    pub major_version: String,
    /// Minor version, like `04`. The highest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::DIGITS.text))]
    pub minor_version: Option<String>,
    /// Processor architecture: `amd64`, `arm64` or `s390x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "amd64", "enum" = ARCHITECTURES))]
    pub architecture: Option<String>,
    /// Variant, like `minimal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::LOWER_WORD.text))]
    pub variant: Option<String>,
}

/// One volume of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "!self.rootVolume || !has(self.volumeSpec) || !has(self.volumeSpec.capacity) || (self.volumeSpec.capacity >= 10 && \
     (self.volumeSpec.capacity <= 250 || (has(self.volumeSpec.profile) && self.volumeSpec.profile == 'sdp')))",
    "a root volume has 10 to 250 GB, more only with profile 'sdp'",
))]
pub struct BlockDeviceMapping {
    /// Name of the attachment. The cloud picks one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = pattern::RESOURCE_NAME.text))]
    pub device_name: Option<String>,
    /// Whether the machine boots from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub root_volume: Option<bool>,
    /// What the volume is like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_spec: Option<VolumeSpec>,
}

/// What a volume is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// Size in GB. The image's own size if absent on the root volume.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = CAPACITY_GB.0, "maximum" = CAPACITY_GB.1))]
    pub capacity: Option<i64>,
    /// Volume profile, like `general-purpose` or `sdp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = NAME_LENGTH_MAX, "pattern" = pattern::IMAGE.text))]
    pub profile: Option<String>,
    /// Operations per second, for profiles that let one choose.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = IOPS.0, "maximum" = IOPS.1))]
    pub iops: Option<i64>,
    /// Megabits per second, for profiles that let one choose.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = BANDWIDTH_MBPS.0, "maximum" = BANDWIDTH_MBPS.1))]
    pub bandwidth: Option<i64>,
    /// CRN of the root key that encrypts it. The provider's own key if absent.
    #[serde(default, rename = "encryptionKeyID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::CRN.text))]
    pub encryption_key_id: Option<String>,
    /// Whether it goes when the node goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub delete_on_termination: Option<bool>,
    /// Tags of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::tag_list", extend("maxItems" = VOLUME_TAGS_MAX))]
    pub tags: Option<Vec<String>>,
}

impl IBMNodeClassSpec {
    /// Whether the image is one of IBM's own, where it is named or selected.
    pub fn wants_stock_image(&self) -> bool {
        let by_name = self.image.as_deref();
        match self.image_owner.as_deref() {
            Some(owner) => owner == IMAGE_OWNERS[0],
            None => by_name.is_none_or(|name| name.starts_with(STOCK_IMAGE_PREFIX)),
        }
    }

    /// Whether the image is given by its id.
    pub fn has_image_id(&self) -> bool {
        self.image
            .as_deref()
            .is_some_and(|image| pattern::REGIONAL_ID.matches(image))
    }

    /// How many addresses a subnet must have free for a new node.
    pub fn minimum_free_addresses(&self) -> u64 {
        let written = self
            .subnet_selection()
            .and_then(|selection| selection.minimum_available_ips);
        written
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(1)
            .max(1)
    }

    /// The tags that a subnet must have; empty if any will do.
    pub fn required_subnet_tags(&self) -> BTreeMap<String, String> {
        let written = self
            .subnet_selection()
            .and_then(|selection| selection.required_tags.clone());
        written.unwrap_or_default()
    }

    /// The volume that the machine boots from, where the class says anything about it.
    pub fn root_volume(&self) -> Option<&BlockDeviceMapping> {
        let volumes = self.block_device_mappings.as_deref().unwrap_or_default();
        volumes.iter().find(|volume| volume.is_root())
    }

    /// Whether what a machine booted from stays when the machine goes.
    pub fn keeps_boot_volume(&self) -> bool {
        let volume = self.root_volume().and_then(|it| it.volume_spec.as_ref());
        volume.is_some_and(|volume| volume.delete_on_termination == Some(false))
    }

    fn subnet_selection(&self) -> Option<&SubnetSelection> {
        self.placement_strategy.as_ref()?.subnet_selection.as_ref()
    }
}

impl ImageSelector {
    /// The architecture, where absent the default.
    pub fn architecture(&self) -> &str {
        self.architecture.as_deref().unwrap_or("amd64")
    }
}

impl BlockDeviceMapping {
    /// Whether the machine boots from it.
    pub fn is_root(&self) -> bool {
        self.root_volume.unwrap_or_default()
    }
}
