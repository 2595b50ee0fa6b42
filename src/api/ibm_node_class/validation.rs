//! The verdict on an `IBMNodeClass`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ARCHITECTURES, BANDWIDTH_MBPS, BLOCK_DEVICES_MAX, BOOT_CAPACITY_GB, BlockDeviceMapping, CAPACITY_GB,
    IBMNodeClass, IBMNodeClassSpec, IBMNodeClassStatus, IMAGE_OWNERS, IOPS, ImageSelector, NAME_LENGTH_MAX,
    PlacementKind, SECOND_GENERATION_VOLUME, SECURITY_GROUPS_MAX, SubnetSelection, USER_DATA_BYTES_MAX,
    VOLUME_TAGS_MAX, VolumeSpec,
};
use crate::api::condition::{self, Detail, at_most};
use crate::api::pattern::{self, Pattern};
use crate::api::schema::{TAG_LENGTH_MAX, TAGS_MAX};
use crate::api::violation::{Field, Violation, Violations};

/// Longest id of a resource, with room to spare.
const ID_LENGTH_MAX: usize = 64;

impl IBMNodeClass {
    /// The verdict of the CRD.
    pub fn validate(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        self.spec.validate(Field::root("spec"), &mut found);
        if let Some(status) = &self.status {
            status.validate(Field::root("status"), &mut found);
        }
        found.verdict()
    }

    /// The verdict of the CRD on an update of `old` to this, which is free but for the resource group: what any other
    /// change means for nodes is for drift to decide, but by their group machines are known as ours.
    pub fn validate_update(&self, old: &Self) -> Result<(), Vec<Violation>> {
        let mut found = self.validate().err().unwrap_or_default();
        let mut changes = Violations::default();
        changes.require(
            self.spec.resource_group == old.spec.resource_group,
            Field::root("spec"),
            "'resourceGroup' is immutable, as machines are known by it: make another class",
        );
        found.extend(changes.verdict().err().unwrap_or_default());
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

impl IBMNodeClassSpec {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        self.validate_names(at, found);
        self.validate_place(at, found);
        found.require(
            self.image.is_some() != self.image_selector.is_some(),
            at,
            "exactly one of 'image' and 'imageSelector' must be set",
        );
        if let Some(selector) = &self.image_selector {
            selector.validate(at.at("imageSelector"), found);
        }
        unique(
            &pattern::REGIONAL_ID,
            ID_LENGTH_MAX,
            self.security_groups.as_ref(),
            at.at("securityGroups"),
            found,
        );
        let groups = self.security_groups.as_ref().map_or(0, Vec::len);
        found.require(
            groups <= SECURITY_GROUPS_MAX,
            at.at("securityGroups"),
            "has more than 5 elements",
        );
        unique(
            &pattern::REGIONAL_ID,
            ID_LENGTH_MAX,
            self.ssh_keys.as_ref(),
            at.at("sshKeys"),
            found,
        );
        let group = self.resource_group.as_deref();
        found.require(group != Some(""), at.at("resourceGroup"), "is empty");
        tags(self.tags.as_ref(), at.at("tags"), found);
        let bytes = self.user_data.as_ref().map_or(0, String::len);
        found.require(
            bytes <= USER_DATA_BYTES_MAX,
            at.at("userData"),
            "'userData' has at most 65536 bytes",
        );
        self.validate_joining(at, found);
        self.validate_volumes(at.at("blockDeviceMappings"), found);
    }

    fn validate_joining(&self, at: Field<'_>, found: &mut Violations) {
        let bytes = self.user_data_append.as_ref().map_or(0, String::len);
        found.require(
            bytes <= USER_DATA_BYTES_MAX,
            at.at("userDataAppend"),
            "'userDataAppend' has at most 65536 bytes",
        );
        if let Some(bootstrap) = &self.bootstrap {
            bootstrap.validate(at.at("bootstrap"), found);
        }
        if let Some(kubelet) = &self.kubelet {
            kubelet.validate(at.at("kubelet"), found);
        }
    }

    fn validate_names(&self, at: Field<'_>, found: &mut Violations) {
        let named = |text: &Option<String>, grammar: &Pattern, max, name, found: &mut Violations| {
            if let Some(text) = text {
                grammar.check(text, at.at(name), found);
                at_most(max, text, at.at(name), found);
            }
        };
        pattern::REGION.check(&self.region, at.at("region"), found);
        at_most(NAME_LENGTH_MAX, &self.region, at.at("region"), found);
        pattern::REGIONAL_ID.check(&self.vpc, at.at("vpc"), found);
        named(&self.zone, &pattern::ZONE, NAME_LENGTH_MAX, "zone", found);
        named(&self.subnet, &pattern::ZONAL_ID, usize::MAX, "subnet", found);
        named(&self.image, &pattern::IMAGE, NAME_LENGTH_MAX, "image", found);
        named(
            &self.placement_target,
            &pattern::ZONAL_ID,
            usize::MAX,
            "placementTarget",
            found,
        );
        named(
            &self.trusted_profile,
            &pattern::TRUSTED_PROFILE,
            usize::MAX,
            "trustedProfile",
            found,
        );
        let owner = self.image_owner.as_deref();
        found.require(
            owner.is_none_or(|owner| IMAGE_OWNERS.contains(&owner)),
            at.at("imageOwner"),
            "is neither ibm nor account",
        );
    }

    fn validate_place(&self, at: Field<'_>, found: &mut Violations) {
        let in_region = |zone: &String| {
            zone.strip_prefix(&self.region)
                .is_some_and(|rest| rest.starts_with('-'))
        };
        found.require(
            self.zone.as_ref().is_none_or(in_region),
            at,
            "'zone' must be a zone of 'region'",
        );
        let selection = self
            .placement_strategy
            .as_ref()
            .and_then(|strategy| strategy.subnet_selection.as_ref());
        let Some(SubnetSelection {
            minimum_available_ips,
            required_tags,
        }) = selection
        else {
            return;
        };
        let strategy = at.at("placementStrategy");
        let at = strategy.at("subnetSelection");
        within(
            (1, i64::from(i32::MAX)),
            *minimum_available_ips,
            at.at("minimumAvailableIPs"),
            found,
        );
        tags(required_tags.as_ref(), at.at("requiredTags"), found);
    }

    fn validate_volumes(&self, at: Field<'_>, found: &mut Violations) {
        let volumes = self.block_device_mappings.as_deref().unwrap_or_default();
        found.require(
            volumes.len() <= BLOCK_DEVICES_MAX,
            at,
            "has more than 10 elements",
        );
        for (index, volume) in volumes.iter().enumerate() {
            volume.validate(at.nth(index), found);
        }
        let roots = volumes.iter().filter(|volume| volume.is_root()).count();
        found.require(
            volumes.is_empty() || roots == 1,
            at,
            "exactly one volume must be the root volume",
        );
        let mut seen = BTreeSet::new();
        let unique = volumes
            .iter()
            .filter_map(|volume| volume.device_name.as_ref())
            .all(|name| seen.insert(name));
        found.require(unique, at, "device names must be unique");
    }
}

impl ImageSelector {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        pattern::LOWER_WORD.check(&self.os, at.at("os"), found);
        pattern::DIGITS.check(&self.major_version, at.at("majorVersion"), found);
        if let Some(minor) = &self.minor_version {
            pattern::DIGITS.check(minor, at.at("minorVersion"), found);
        }
        if let Some(variant) = &self.variant {
            pattern::LOWER_WORD.check(variant, at.at("variant"), found);
        }
        if !ARCHITECTURES.contains(&self.architecture()) {
            let message = format!(
                "{:?} is none of {}",
                self.architecture(),
                ARCHITECTURES.join(", ")
            );
            found.blame(at.at("architecture"), message);
        }
    }
}

impl BlockDeviceMapping {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        if let Some(name) = &self.device_name {
            pattern::RESOURCE_NAME.check(name, at.at("deviceName"), found);
            at_most(NAME_LENGTH_MAX, name, at.at("deviceName"), found);
        }
        let Some(volume) = &self.volume_spec else { return };
        volume.validate(at.at("volumeSpec"), found);
        let (min, max) = BOOT_CAPACITY_GB;
        let boots = volume.capacity.is_none_or(|capacity| {
            capacity >= min
                && (capacity <= max || volume.profile.as_deref() == Some(SECOND_GENERATION_VOLUME))
        });
        found.require(
            !self.is_root() || boots,
            at,
            "a root volume has 10 to 250 GB, more only with profile 'sdp'",
        );
    }
}

impl VolumeSpec {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        within(CAPACITY_GB, self.capacity, at.at("capacity"), found);
        within(IOPS, self.iops, at.at("iops"), found);
        within(BANDWIDTH_MBPS, self.bandwidth, at.at("bandwidth"), found);
        if let Some(profile) = &self.profile {
            pattern::IMAGE.check(profile, at.at("profile"), found);
            at_most(NAME_LENGTH_MAX, profile, at.at("profile"), found);
        }
        if let Some(key) = &self.encryption_key_id {
            pattern::CRN.check(key, at.at("encryptionKeyID"), found);
        }
        unique(
            &pattern::TAG,
            TAG_LENGTH_MAX,
            self.tags.as_ref(),
            at.at("tags"),
            found,
        );
        let count = self.tags.as_ref().map_or(0, Vec::len);
        found.require(
            count <= VOLUME_TAGS_MAX,
            at.at("tags"),
            "has more than 10 elements",
        );
    }
}

impl IBMNodeClassStatus {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        condition::validate(
            self.conditions.as_ref(),
            Detail::Required,
            at.at("conditions"),
            found,
        );
        let mut seen = BTreeSet::new();
        let subnets = at.at("resolvedSubnets");
        for (index, subnet) in self.resolved_subnets.iter().flatten().enumerate() {
            found.require(seen.insert(&subnet.id), subnets.nth(index), "occurs twice");
        }
        let mut seen = BTreeSet::new();
        let groups = at.at("resolvedSecurityGroups");
        for (index, group) in self.resolved_security_groups.iter().flatten().enumerate() {
            found.require(seen.insert(group), groups.nth(index), "occurs twice");
        }
        let mut seen = BTreeSet::new();
        let observed = at.at("observedCapacity");
        for (index, of) in self.observed_capacity.iter().flatten().enumerate() {
            found.require(seen.insert(&of.profile), observed.nth(index), "occurs twice");
        }
        let placement = self.resolved_placement.as_deref();
        found.require(
            placement.is_none_or(|text| text.parse::<PlacementKind>().is_ok()),
            at.at("resolvedPlacement"),
            "is no kind of placement",
        );
    }
}

/// Blames a number outside `(min, max)`.
fn within((min, max): (i64, i64), number: Option<i64>, at: Field<'_>, found: &mut Violations) {
    if number.is_some_and(|number| !(min..=max).contains(&number)) {
        found.blame(at, format!("is not between {min} and {max}"));
    }
}

/// Blames elements that do not follow the grammar, are too long, or occur a second time.
fn unique(grammar: &Pattern, max: usize, texts: Option<&Vec<String>>, at: Field<'_>, found: &mut Violations) {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.into_iter().flatten().enumerate() {
        grammar.check(text, at.nth(index), found);
        at_most(max, text, at.nth(index), found);
        found.require(seen.insert(text), at.nth(index), "occurs twice");
    }
}

fn tags(tags: Option<&BTreeMap<String, String>>, at: Field<'_>, found: &mut Violations) {
    let Some(tags) = tags else { return };
    found.require(tags.len() <= TAGS_MAX, at, "has more than 100 entries");
    for (key, value) in tags {
        pattern::TAG.check(value, at.at(key), found);
        at_most(TAG_LENGTH_MAX, value, at.at(key), found);
    }
    let keys = tags.keys().all(|key| pattern::TAG_KEY.matches(key));
    found.require(
        keys,
        at,
        "a tag's key is letters, digits, spaces, '_', '-' and '.'",
    );
    let lengths = tags
        .iter()
        .all(|(key, value)| key.len() + 1 + value.len() <= TAG_LENGTH_MAX);
    found.require(lengths, at, "a tag 'key:value' has at most 128 characters");
}
