//! What an `IBMNodeClass` means for one claim: read, and resolved as far as an order needs it.

use kube::Api;

use super::context::Context;
use crate::api::{IBMNodeClass, NodeClaim, Operator, names};
use crate::cloud::{self, ClusterId, InstanceName};
use crate::lifecycle::{Choice, Unresolved};

/// A class, as an order needs it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// As it was read.
    pub class: IBMNodeClass,
    /// The id of its image.
    pub image: Option<String>,
    /// The id of its resource group.
    pub resource_group: Option<String>,
}

/// Why a class could not be read. That proves nothing about the class.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The Kubernetes API did not say.
    #[error("reading the node class")]
    Kube(#[from] kube::Error),
    /// The cloud did not say.
    #[error("resolving the node class")]
    Cloud(#[from] cloud::Error),
}

/// The class of `claim`; `None` if there is none of that name.
pub async fn read(context: &Context, claim: &NodeClaim) -> Result<Option<Resolved>, ReadError> {
    let reference = &claim.spec.node_class_ref;
    if reference.group != names::IBM_GROUP || reference.kind != "IBMNodeClass" {
        return Ok(None);
    }
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let Some(class) = classes.get_opt(&reference.name).await? else {
        return Ok(None);
    };
    let written = class
        .status
        .as_ref()
        .and_then(|status| status.resolved_image_id.clone());
    let image = match written.or_else(|| class.spec.image.clone()) {
        Some(image) => context.cloud.image(&image).await?,
        None => None,
    };
    let group = class.spec.resource_group.as_deref();
    let resource_group = context.cloud.resource_group(group).await?;
    Ok(Some(Resolved {
        class,
        image,
        resource_group,
    }))
}

/// What to buy for `claim`: the first value that each of its requirements allows, in a subnet of that zone.
pub async fn choose(
    context: &Context,
    cluster: ClusterId,
    claim: &NodeClaim,
    resolved: Option<&Resolved>,
) -> Result<Result<Choice, Unresolved>, cloud::Error> {
    let Some(resolved) = resolved else {
        let name = &claim.spec.node_class_ref.name;
        return Ok(Err(Unresolved(format!("there is no IBMNodeClass {name}"))));
    };
    let (profile, zone, capacity_type) = match wishes(claim) {
        Ok(wishes) => wishes,
        Err(unresolved) => return Ok(Err(unresolved)),
    };
    if let Err(unresolved) = complete(resolved, &context.settings.region, &zone) {
        return Ok(Err(unresolved));
    }
    let subnet = match &resolved.class.spec.subnet {
        Some(subnet) => Some(subnet.clone()),
        None => subnet_in(context, &resolved.class.spec.vpc, &zone).await?,
    };
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    Ok(match (subnet, InstanceName::new(cluster, uid)) {
        (Some(subnet), Some(name)) => Ok(Choice {
            profile,
            zone,
            capacity_type,
            subnet,
            instance_name: name.to_string(),
        }),
        (None, _) => Err(Unresolved(format!(
            "the VPC has no subnet with a free address in {zone}"
        ))),
        (_, None) => Err(Unresolved(format!("the claim's uid {uid:?} is not a UUID"))),
    })
}

/// The subnet with the most free addresses in a zone.
async fn subnet_in(context: &Context, vpc: &str, zone: &str) -> Result<Option<String>, cloud::Error> {
    let subnets = context.cloud.subnets(vpc).await?;
    let there = subnets
        .into_iter()
        .filter(|subnet| subnet.zone == zone && subnet.free > 0);
    Ok(there
        .max_by_key(|subnet| (subnet.free, subnet.id.clone()))
        .map(|subnet| subnet.id))
}

/// Profile, zone and capacity type.
fn wishes(claim: &NodeClaim) -> Result<(String, String, String), Unresolved> {
    let first = |key: &str| {
        let requirement = claim
            .spec
            .requirements
            .iter()
            .find(|it| it.key == key && it.operator() == Some(Operator::In));
        requirement
            .and_then(|it| it.values().first().cloned())
            .ok_or_else(|| Unresolved(format!("no requirement says which {key}")))
    };
    Ok((
        first(names::INSTANCE_TYPE)?,
        first(names::ZONE)?,
        first(names::CAPACITY_TYPE)?,
    ))
}

/// Whether everything that an order needs is known of the class.
fn complete(resolved: &Resolved, region: &str, zone: &str) -> Result<(), Unresolved> {
    let (name, spec) = (&resolved.class.metadata.name, &resolved.class.spec);
    let name = name.as_deref().unwrap_or_default();
    let problem = if spec.region != region {
        format!(
            "IBMNodeClass {name} is for region {}, we work in {region}",
            spec.region
        )
    } else if spec.zone.as_ref().is_some_and(|only| only != zone) {
        format!("IBMNodeClass {name} does not allow zone {zone}")
    } else if resolved.image.is_none() {
        format!("the image of IBMNodeClass {name} cannot be resolved")
    } else if resolved.resource_group.is_none() {
        format!("the resource group of IBMNodeClass {name} does not exist")
    } else {
        return Ok(());
    };
    Err(Unresolved(problem))
}
