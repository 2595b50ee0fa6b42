//! The verdict on a class: what its names stand for, or what is wrong with it and what to do. Pure.

use std::collections::BTreeSet;

use super::allow::AllowLists;
use super::facts::Facts;
use super::image;
use crate::api::{IBMNodeClass, IBMNodeClassSpec, PlacementKind, ResolvedImage, ResolvedSubnet, names};
use crate::cloud::{Network, Placement, Subnet, Usable};

/// Something that is wrong with a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// As one word in CamelCase.
    pub(super) reason: &'static str,
    /// What is wrong, and what to do about it.
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// What a class stands for, as far as that could be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) image: Option<(String, ResolvedImage)>,
    pub(super) subnets: Vec<ResolvedSubnet>,
    pub(super) security_groups: Vec<String>,
    pub(super) resource_group: Option<String>,
    pub(super) placement: Option<PlacementKind>,
    /// What is wrong; the class can be used only if nothing is.
    pub(super) problems: Vec<Problem>,
    /// What is worth knowing.
    pub(super) notes: Vec<String>,
}

/// What is wrong with a class whatever the cloud has: then the cloud is not asked.
pub(super) fn before_asking(class: &IBMNodeClass, region: &str, allowed: &AllowLists) -> Vec<Problem> {
    let mut problems = Vec::new();
    if class.spec.region != region {
        let message = format!(
            "the class is for region {}, this operator works in {region}: use a class of {region}",
            class.spec.region
        );
        problems.push(Problem::new("WrongRegion", message));
    }
    if let Err(violations) = class.validate() {
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        problems.push(Problem::new("Invalid", texts.join("; ")));
    }
    // An API server keeps a zero byte, cloud-init ends at it.
    let texts = class.spec.user_data.iter();
    if texts.into_iter().any(|text| text.contains('\0')) {
        let message = "spec.userData has a zero byte: take it out".to_owned();
        problems.push(Problem::new("Invalid", message));
    }
    problems.extend(tag_problems(&class.spec));
    problems.extend(allowed.refusals(&class.spec));
    problems
}

/// Tags are folded to lower case, and some are ours. A volume has its own and those of the class.
fn tag_problems(spec: &IBMNodeClassSpec) -> Vec<Problem> {
    let written = spec.tags.iter().flatten();
    let of_class: Vec<String> = written.map(|(key, value)| format!("{key}:{value}")).collect();
    let mut problems = wrong_tags("spec.tags", &of_class, &[]);
    for (number, volume) in spec.block_device_mappings.iter().flatten().enumerate() {
        let tags = volume.volume_spec.as_ref().and_then(|it| it.tags.as_deref());
        let at = format!("spec.blockDeviceMappings[{number}].volumeSpec.tags");
        problems.extend(wrong_tags(&at, tags.unwrap_or_default(), &of_class));
    }
    problems
}

/// What is wrong with tags beside others that are right.
fn wrong_tags(at: &str, tags: &[String], others: &[String]) -> Vec<Problem> {
    let mut messages = Vec::new();
    for (number, tag) in tags.iter().enumerate() {
        if tag.to_ascii_lowercase().starts_with(names::RESERVED_TAG_PREFIX) {
            let reserved = names::RESERVED_TAG_PREFIX;
            messages.push(format!(
                "{at}: keys that begin with {reserved} are the operator's own, not {}",
                key_of(tag)
            ));
        }
        let before = others.iter().chain(&tags[..number]);
        let collisions = before.filter(|other| differ_in_case_only(other, tag));
        messages.extend(collisions.map(|other| {
            format!("{at}: {other} and {tag} are the same tag to IBM Cloud, which folds case: keep one")
        }));
    }
    let problem = |message| Problem::new("InvalidTags", message);
    messages.into_iter().map(problem).collect()
}

fn key_of(tag: &str) -> &str {
    tag.split_once(':').map_or(tag, |(key, _)| key)
}

/// Whether two tags, or their keys, are written in two ways and kept as one.
fn differ_in_case_only(one: &str, other: &str) -> bool {
    let folds = |one: &str, other: &str| one != other && one.eq_ignore_ascii_case(other);
    folds(one, other) || folds(key_of(one), key_of(other))
}

/// The verdict on a class that may be asked about, from what the cloud has.
pub(super) fn judge(class: &IBMNodeClass, facts: &Facts, allowed: &AllowLists) -> Verdict {
    let spec = &class.spec;
    let mut verdict = Verdict::default();
    let Some(network) = &facts.network else {
        let message = format!("there is no VPC {} in {}: check spec.vpc", spec.vpc, spec.region);
        verdict.problems.push(Problem::new("VPCNotFound", message));
        return verdict;
    };
    if network.state == Usable::No {
        let message = format!("VPC {} is being made, being deleted or broken", spec.vpc);
        verdict.problems.push(Problem::new("VPCNotUsable", message));
    }
    verdict.place(spec, facts);
    verdict.find_subnets(spec, facts, allowed);
    verdict.find_security_groups(spec, network, &facts.security_groups);
    verdict.find_image(spec, facts, allowed);
    verdict.find_keys(spec, &facts.keys);
    verdict.find_resource_group(class, facts);
    verdict
}

impl Verdict {
    fn blame(&mut self, reason: &'static str, message: String) {
        self.problems.push(Problem::new(reason, message));
    }

    fn place(&mut self, spec: &IBMNodeClassSpec, facts: &Facts) {
        let Some(target) = &spec.placement_target else {
            return;
        };
        let kind = match facts.placement {
            Some(Placement::Group) => PlacementKind::PlacementGroup,
            Some(Placement::DedicatedHost(_)) => PlacementKind::DedicatedHost,
            Some(Placement::DedicatedHostGroup(_)) => PlacementKind::DedicatedHostGroup,
            None => {
                let message = format!(
                    "there is no placement group, dedicated host or group {target}: check spec.placementTarget"
                );
                return self.blame("PlacementTargetNotFound", message);
            }
        };
        self.placement = Some(kind);
        if !kind.allows_spot() {
            self.notes.push(format!(
                "machines stand on dedicated hosts ({target}), where there is no spot: only on-demand is offered"
            ));
        }
    }

    fn find_subnets(&mut self, spec: &IBMNodeClassSpec, facts: &Facts, allowed: &AllowLists) {
        let there: Vec<&Subnet> = match &spec.subnet {
            Some(id) => facts.subnets.iter().filter(|subnet| subnet.id == *id).collect(),
            None => facts.subnets.iter().collect(),
        };
        if let (Some(id), true) = (&spec.subnet, there.is_empty()) {
            let message = format!("VPC {} has no subnet {id}: check spec.subnet", spec.vpc);
            return self.blame(names::REASON_SUBNET_NOT_FOUND, message);
        }
        let host_zone = match &facts.placement {
            Some(Placement::DedicatedHost(zone) | Placement::DedicatedHostGroup(zone)) => zone.as_ref(),
            _ => None,
        };
        let fits = |subnet: &&&Subnet| {
            let tagged = facts.tagged.as_ref();
            subnet.state == Usable::Yes
                && spec.zone.as_ref().is_none_or(|zone| subnet.zone == *zone)
                && host_zone.is_none_or(|zone| subnet.zone == *zone)
                && tagged.is_none_or(|tagged| tagged.contains(&subnet.id))
                && allowed.has_subnet(&subnet.id)
        };
        let usable: Vec<&Subnet> = there.iter().filter(fits).copied().collect();
        if usable.is_empty() {
            let message = format!(
                "no subnet of VPC {} fits{}: make or tag one, or change the class",
                spec.vpc,
                wishes(spec, host_zone, allowed)
            );
            return self.blame(names::REASON_NO_SUBNET, message);
        }
        let needed = spec.minimum_free_addresses();
        if usable.iter().all(|subnet| subnet.free < needed) {
            let message = format!("no subnet has {needed} free addresses: free some, or add a subnet");
            self.blame("NoFreeAddress", message);
        }
        // Also those that are full now: a machine in them is where it should be.
        self.subnets = usable.into_iter().map(resolved_subnet).collect();
    }

    fn find_security_groups(&mut self, spec: &IBMNodeClassSpec, network: &Network, there: &BTreeSet<String>) {
        let written = spec.security_groups.clone().unwrap_or_default();
        let missing: Vec<&str> = written
            .iter()
            .filter(|group| !there.contains(*group))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "VPC {} has no security group {}: check spec.securityGroups",
                spec.vpc,
                missing.join(", ")
            );
            return self.blame("SecurityGroupNotFound", message);
        }
        let default = network.default_security_group.clone();
        if written.is_empty() && default.is_none() {
            let message = format!(
                "VPC {} has no default security group: set spec.securityGroups",
                spec.vpc
            );
            return self.blame("SecurityGroupNotFound", message);
        }
        let mut groups: Vec<String> = if written.is_empty() {
            default.into_iter().collect()
        } else {
            written
        };
        groups.sort();
        self.security_groups = groups;
    }

    fn find_image(&mut self, spec: &IBMNodeClassSpec, facts: &Facts, allowed: &AllowLists) {
        let chosen = match image::choose(spec, &facts.images, allowed) {
            Ok(chosen) => chosen,
            Err(problem) => return self.problems.push(problem),
        };
        self.notes.extend(chosen.notes);
        let image = chosen.image;
        let root = spec.root_volume().and_then(|root| root.volume_spec.as_ref());
        let capacity = root
            .and_then(|root| root.capacity)
            .and_then(|gb| u64::try_from(gb).ok());
        if let (Some(capacity), Some(minimum)) = (capacity, image.minimum_gb)
            && capacity < minimum
        {
            let message = format!(
                "the root volume has {capacity} GB, image {} needs {minimum}: raise its capacity",
                image.name
            );
            self.blame("RootVolumeTooSmall", message);
        }
        let resolved = ResolvedImage {
            name: image.name,
            architecture: image.architecture,
            operating_system: image.operating_system,
        };
        self.image = Some((image.id, resolved));
    }

    /// The definition refuses another group, but an older one does not, a group may be renamed, and the account's default
    /// be another tomorrow: machines that are there would be nobody's.
    fn find_resource_group(&mut self, class: &IBMNodeClass, facts: &Facts) {
        self.resource_group.clone_from(&facts.resource_group);
        let Some(found) = &facts.resource_group else {
            let message = class.spec.resource_group.as_ref().map_or_else(
                || "the account has no default resource group: make another class that names one".to_owned(),
                |written| format!("there is no resource group {written}: make it, or another class"),
            );
            return self.blame("ResourceGroupNotFound", message);
        };
        if let Some(recorded) = class.recorded_group().filter(|recorded| recorded != found) {
            let message = format!(
                "its machines are in resource group {recorded}, and spec.resourceGroup stands for {found} now: make \
                 another class"
            );
            self.blame("ResourceGroupChanged", message);
        }
    }

    fn find_keys(&mut self, spec: &IBMNodeClassSpec, there: &BTreeSet<String>) {
        let written = spec.ssh_keys.iter().flatten();
        let missing: Vec<&str> = written
            .filter(|key| !there.contains(*key))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let message = format!("there is no SSH key {}: check spec.sshKeys", missing.join(", "));
            self.blame("KeyNotFound", message);
        }
    }
}

/// What a subnet has to fit, in words.
fn wishes(spec: &IBMNodeClassSpec, host_zone: Option<&String>, allowed: &AllowLists) -> String {
    let mut wishes = Vec::new();
    wishes.extend(spec.zone.as_ref().map(|zone| format!("zone {zone}")));
    wishes.extend(host_zone.map(|zone| format!("zone {zone} of the dedicated host")));
    let tags: Vec<String> = spec
        .required_subnet_tags()
        .iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    if !tags.is_empty() {
        wishes.push(format!("tags {}", tags.join(", ")));
    }
    if !allowed.subnets.is_empty() {
        wishes.push("--allowed-subnets".to_owned());
    }
    if wishes.is_empty() {
        String::new()
    } else {
        format!(" ({})", wishes.join("; "))
    }
}

fn resolved_subnet(subnet: &Subnet) -> ResolvedSubnet {
    ResolvedSubnet {
        id: subnet.id.clone(),
        zone: subnet.zone.clone(),
        cidr: subnet.cidr.clone(),
    }
}

#[cfg(test)]
mod tests;
