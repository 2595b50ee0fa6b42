//! What classes refer to, as the region has it. A 404 about the very resource is an absence; any other error is one.

use std::collections::{BTreeMap, BTreeSet};

use super::Machines;
use crate::cloud::{Error, Image, ImageState, Interface, Network, Owner, Placement, Subnet, Usable};
use crate::ibm::search::{Found, Kind};
use crate::ibm::tags::Tag;
use crate::ibm::vpc::images::ImageFilter;
use crate::ibm::vpc::types::{self, ImageStatus, NetworkStatus, Reference};

impl Machines {
    /// The images that one owner has, of one name or all.
    pub(super) async fn images_of(
        &self,
        owner: Owner,
        name: Option<&str>,
    ) -> Result<Vec<types::Image>, Error> {
        let visibility = match owner {
            Owner::Provider => "public",
            Owner::Account => "private",
        };
        let filter = ImageFilter {
            name: name.map(str::to_owned),
            visibility: Some(visibility),
        };
        let mut images = self.vpc.list_images(&filter).await?;
        // A server that ignores the filter must not give somebody else's image for ours.
        images.retain(|image| image.visibility.as_deref() == Some(visibility));
        Ok(images)
    }

    /// An id does not say what it is of, so each kind is asked, the commonest first.
    pub(super) async fn find_placement(&self, id: &str) -> Result<Option<Placement>, Error> {
        let zone = |zone: Option<Reference>| zone.and_then(|zone| zone.name);
        if found(self.vpc.get_placement_group(id).await)?.is_some() {
            return Ok(Some(Placement::Group));
        }
        if let Some(host) = found(self.vpc.get_dedicated_host(id).await)? {
            return Ok(Some(Placement::DedicatedHost(zone(host.zone))));
        }
        let group = found(self.vpc.get_dedicated_host_group(id).await)?;
        Ok(group.map(|group| Placement::DedicatedHostGroup(zone(group.zone))))
    }

    pub(super) async fn find_tagged_subnets(
        &self,
        vpc: &str,
        tags: &BTreeMap<String, String>,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Error> {
        let tags: Option<Vec<Tag>> = tags
            .iter()
            .map(|(key, value)| Tag::parse(&format!("{key}:{value}")))
            .collect();
        // Nothing carries a tag that cannot be.
        let Some(tags) = tags else {
            return Ok(BTreeSet::new());
        };
        let hits = self.search.tagged(Kind::Subnet, &tags).await?;
        let mut tagged: BTreeSet<String> = hits.iter().filter_map(Found::id).map(str::to_owned).collect();
        if known.is_subset(&tagged) {
            return Ok(tagged);
        }
        for subnet in self.vpc.list_subnets(vpc).await? {
            let is_missed = known.contains(&subnet.id) && !tagged.contains(&subnet.id);
            if let Some(crn) = subnet.crn.as_ref().filter(|_| is_missed) {
                let own = self.tagging.list(crn).await?;
                if tags.iter().all(|tag| own.iter().any(|own| own == tag.as_str())) {
                    tagged.insert(subnet.id);
                }
            }
        }
        Ok(tagged)
    }
}

/// `None` for what is not there; an error stays one.
pub(super) fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn network(vpc: &types::Vpc) -> Network {
    Network {
        state: usable(vpc.status.as_ref()),
        default_security_group: vpc
            .default_security_group
            .as_ref()
            .and_then(|group| group.id.clone()),
    }
}

pub(super) fn subnet(subnet: types::Subnet) -> Option<Subnet> {
    Some(Subnet {
        state: usable(subnet.status.as_ref()),
        id: subnet.id,
        zone: subnet.zone?.name?,
        free: subnet.available_ipv4_address_count.unwrap_or_default(),
        cidr: subnet.ipv4_cidr_block,
    })
}

/// What does not say that it is unusable is tried: the create would be refused, and that is said too.
fn usable(status: Option<&NetworkStatus>) -> Usable {
    match status {
        Some(NetworkStatus::Deleting | NetworkStatus::Failed | NetworkStatus::Pending) => Usable::No,
        Some(NetworkStatus::Available | NetworkStatus::Other(_)) | None => Usable::Yes,
    }
}

pub(super) fn image(image: types::Image) -> Image {
    let system = image.operating_system.as_ref();
    Image {
        operating_system: system.and_then(|system| system.name.clone()),
        architecture: system.and_then(|system| system.architecture.clone()),
        state: image_state(image.status.as_ref()),
        minimum_gb: image.minimum_provisioned_size,
        created_at: image.created_at,
        id: image.id,
        name: image.name,
    }
}

/// One that is available in some zones only counts as unusable: a class that named it would fail in the others.
fn image_state(status: Option<&ImageStatus>) -> ImageState {
    let word = match status {
        Some(ImageStatus::Available) => return ImageState::Available,
        Some(ImageStatus::Deprecated) => return ImageState::Deprecated,
        Some(ImageStatus::Other(word)) => word.as_str(),
        Some(ImageStatus::PartiallyAvailable) => "partially_available",
        Some(ImageStatus::Pending) => "pending",
        Some(ImageStatus::Failed) => "failed",
        Some(ImageStatus::Obsolete) => "obsolete",
        Some(ImageStatus::Unusable) => "unusable",
        Some(ImageStatus::Deleting) => "deleting",
        None => "without a status",
    };
    ImageState::Unusable(word.to_owned())
}

pub(super) fn interface(interface: types::VirtualNetworkInterface) -> Interface {
    let groups = interface.security_groups.into_iter();
    Interface {
        id: interface.id,
        security_groups: groups.filter_map(|group| group.id).collect(),
    }
}
