//! What a claim's machine runs first: the class's own, or the one that makes it a node.

use kube::ResourceExt;

use super::market;
use super::tokens::Need;
use super::{Error, Shared};
use crate::api::{Allocation, IBMNodeClass, NodeClaim};
use crate::bootstrap::{self, Join, Packages};
use crate::controllers::node_class::Resolved;
use crate::controllers::node_class::joining::{family, reach};
use crate::model::Reservation;
use crate::secret::Secret;

/// Why there is no user data, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unmade {
    /// Something is not known yet, or not any more.
    Unknown(String),
    /// It cannot be written for this claim, now or later. The class alone may be well: the claim's labels and taints take
    /// room too.
    Impossible(String),
}

/// Whether machines of a class need a credential of ours.
pub(super) fn need(class: &IBMNodeClass) -> Need {
    match class.spec.user_data {
        None => Need::Token,
        Some(_) => Need::Nothing,
    }
}

/// The user data for what `claim` was allocated.
pub(super) async fn user_data(
    shared: &Shared,
    claim: &NodeClaim,
    allocation: &Allocation,
    class: &Resolved,
) -> Result<Result<String, Unmade>, Error> {
    let token = match need(&class.class) {
        Need::Nothing => Secret::new(String::new()),
        Need::Token => match shared.tokens.of(&shared.context, claim) {
            Some(token) => token,
            None => return Ok(Err(Unmade::Unknown("its credential is not at hand".to_owned()))),
        },
    };
    let join = match join(shared, claim, allocation, class, token).await? {
        Ok(join) => join,
        Err(unmade) => return Ok(Err(unmade)),
    };
    let rendered = bootstrap::render(&join);
    Ok(rendered
        .map(|user_data| user_data.expose().to_owned())
        .map_err(|error| Unmade::Impossible(error.to_string())))
}

async fn join(
    shared: &Shared,
    claim: &NodeClaim,
    allocation: &Allocation,
    class: &Resolved,
    token: Secret,
) -> Result<Result<Join, Unmade>, Error> {
    let (context, spec) = (&shared.context, &class.class.spec);
    // A class of which this is unknown is not ready; it may have changed since.
    let Some(reach) = reach(&class.class, &context.settings) else {
        let why =
            "neither the class nor a setting says where machines reach the API server and how they know it";
        return Ok(Err(Unmade::Unknown(why.to_owned())));
    };
    let image = class.class.resolution().and_then(|it| it.resolved_image.as_ref());
    let Some(family) = family(&class.class, image) else {
        let why =
            "the image's operating system is of no family that can be set up: say spec.bootstrap.family";
        return Ok(Err(Unmade::Unknown(why.to_owned())));
    };
    let cluster = context.settings.cluster.as_ref();
    let packages = Packages::of(spec.bootstrap.as_ref(), family, shared.version().await?);
    let kind = market::instance_type(context, class, &allocation.profile).await?;
    let facts = class.facts(Vec::new());
    let reservation = kind.map(|kind| Reservation::of(&kind.capacity, &facts.kubelet));
    let Ok(capacity_type) = allocation.capacity_type.parse() else {
        return Ok(Err(Unmade::Unknown("its capacity type is none".to_owned())));
    };
    Ok(Ok(Join {
        node_name: claim.name_any(),
        region: context.settings.region.clone(),
        capacity_type,
        endpoint: reach.endpoint,
        authority: reach.authority,
        token,
        kubelet: spec.kubelet.clone().unwrap_or_default(),
        reservation: reservation.unwrap_or_default(),
        labels: claim.labels().clone(),
        taints: taints(claim),
        dns: cluster.map(|it| it.dns.clone()).unwrap_or_default(),
        family,
        packages,
        user_data: spec.user_data.clone(),
        user_data_append: spec.user_data_append.clone(),
    }))
}

fn taints(claim: &NodeClaim) -> Vec<crate::api::Taint> {
    let lists = [&claim.spec.taints, &claim.spec.startup_taints];
    lists.into_iter().flatten().flatten().cloned().collect()
}
