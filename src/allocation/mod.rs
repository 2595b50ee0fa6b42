//! What to buy for a claim: one concrete offering in one subnet, or why nothing can be bought.
//!
//! The capacity type comes first: spot if the claim allows it and a matching spot offering can be bought, else on-demand
//! if the claim allows that. Spot that is dearer than the cheapest fitting machine on demand, where the claim allows
//! both, counts as not to be had. Then the cheapest offering of that capacity type that satisfies labels, resources,
//! zone and subnet together. Pure, and independent of the order in which types and subnets are listed.

mod breakers;
mod ledger;
mod limits;
mod why_not;

use std::cmp::Reverse;

pub use crate::model::SubnetFacts;
pub use breakers::{Breakers, HOUR, Load, Purchases, Tripped};
pub use ledger::{Ledger, Overdrawn};
pub use limits::{OverLimit, PoolLimits};
pub use why_not::{Hope, Missing, WhyNot};

use crate::api::{CapacityType, NodeClaim, names};
use crate::model::requirements::Meaningless;
use crate::model::{Availability, InstanceType, Offering, Requirements, Unsold, Values};
use crate::money::Price;
use crate::quantity::QuantityError;
use crate::resources::{Resources, amount_of};
use why_not::Obstacle;

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// What the labels of its node may be.
    pub requirements: Requirements,
    /// What must fit.
    pub requests: Resources,
}

/// Why it cannot be told what a claim asks for. The schema of a claim refuses most of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A requirement has no meaning.
    #[error(transparent)]
    Requirement(#[from] Meaningless),
    /// An amount is none.
    #[error("the request for {resource}: {source}")]
    Amount {
        /// Of what.
        resource: String,
        /// What is wrong with it.
        source: QuantityError,
    },
}

/// What to buy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which kind.
    pub profile: String,
    /// Where.
    pub zone: String,
    /// How.
    pub capacity_type: CapacityType,
    /// The id of the subnet that it gets its address from.
    pub subnet: String,
    /// For how much an hour, if that is known.
    pub price: Option<Price>,
}

impl Wish {
    /// What `claim` asks for.
    pub fn of(claim: &NodeClaim) -> Result<Self, Unreadable> {
        let mut requests = Resources::new();
        let written = claim.spec.resources.as_ref().and_then(|it| it.requests.as_ref());
        for (resource, amount) in written.into_iter().flatten() {
            let amount = amount.parse().map_err(|source| Unreadable::Amount {
                resource: resource.clone(),
                source,
            })?;
            requests.set(resource, amount_of(resource, amount));
        }
        let requirements = Requirements::from_api(&claim.spec.requirements)?;
        Ok(Self {
            requirements,
            requests,
        })
    }
}

/// The cheapest offering that fits, or why none does. `ledger` has what others were promised already.
pub fn choose(
    wish: &Wish,
    types: &[InstanceType],
    subnets: &[SubnetFacts],
    ledger: &Ledger,
) -> Result<Choice, Box<WhyNot>> {
    let mut why_not = WhyNot::default();
    let mut candidates = Vec::new();
    for instance_type in types {
        if let Some(obstacle) = misfit(wish, instance_type, ledger) {
            why_not.add(instance_type, obstacle);
            continue;
        }
        for offering in &instance_type.offerings {
            match place(wish, offering, subnets, ledger) {
                Ok(subnet) => candidates.push(Candidate {
                    instance_type,
                    offering,
                    subnet,
                }),
                Err(obstacle) => why_not.add(instance_type, obstacle),
            }
        }
    }
    let cheapest = |capacity_type| {
        let of_type = candidates
            .iter()
            .filter(|it| it.offering.capacity_type == capacity_type);
        of_type.min_by_key(|candidate| candidate.rank())
    };
    let chosen = match (cheapest(CapacityType::Spot), cheapest(CapacityType::OnDemand)) {
        (Some(spot), Some(on_demand)) if spot.is_dearer_than(on_demand) => Some(on_demand),
        (spot, on_demand) => spot.or(on_demand),
    };
    chosen.map(Candidate::choice).ok_or_else(|| Box::new(why_not))
}

/// An offering that can be bought, with the subnet for it.
struct Candidate<'a> {
    instance_type: &'a InstanceType,
    offering: &'a Offering,
    subnet: &'a SubnetFacts,
}

impl Candidate<'_> {
    /// What is less is better. An unknown price comes after all known ones; names make the order whole.
    fn rank(&self) -> (bool, Option<Price>, &str, &str) {
        let price = self.offering.price;
        (
            price.is_none(),
            price,
            &self.instance_type.name,
            &self.offering.zone,
        )
    }

    /// A price that nobody knows is dearer than one that is known.
    fn is_dearer_than(&self, other: &Self) -> bool {
        match (self.offering.price, other.offering.price) {
            (Some(this), Some(other)) => this > other,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    fn choice(&self) -> Choice {
        Choice {
            profile: self.instance_type.name.clone(),
            zone: self.offering.zone.clone(),
            capacity_type: self.offering.capacity_type,
            subnet: self.subnet.id.clone(),
            price: self.offering.price,
        }
    }
}

/// Why no offering of a type can do, if none can.
fn misfit(wish: &Wish, instance_type: &InstanceType, ledger: &Ledger) -> Option<Obstacle> {
    if let Some(conflict) = instance_type.requirements.conflict(&wish.requirements) {
        return Some(Obstacle::Label {
            key: conflict.key,
            wanted: conflict.wanted,
        });
    }
    if let Some(shortage) = wish.requests.shortage(&instance_type.allocatable) {
        return Some(Obstacle::TooSmall(shortage));
    }
    ledger.over_limit(instance_type).map(Obstacle::Limit)
}

/// The subnet in which an offering can be bought, or why it cannot.
fn place<'a>(
    wish: &Wish,
    offering: &Offering,
    subnets: &'a [SubnetFacts],
    ledger: &Ledger,
) -> Result<&'a SubnetFacts, Obstacle> {
    let labels = [
        (names::ZONE, offering.zone.as_str()),
        (names::CAPACITY_TYPE, offering.capacity_type.as_str()),
    ];
    for (key, value) in labels {
        if let Some(wanted) = wish.requirements.get(key).filter(|wanted| !wanted.allows(value)) {
            let (key, wanted) = (key.to_owned(), Values::clone(wanted));
            return Err(Obstacle::Label { key, wanted });
        }
    }
    match &offering.availability {
        Availability::Available => {}
        Availability::Withheld { until, reason } => {
            let (until, reason) = (*until, reason.clone());
            return Err(Obstacle::Withheld { until, reason });
        }
        Availability::Unsold(Unsold::NoAddress) => return Err(Obstacle::NoAddress(offering.zone.clone())),
        Availability::Unsold(unsold) => return Err(Obstacle::Unsold(*unsold)),
    }
    let there = subnets.iter().filter(|subnet| subnet.zone == offering.zone);
    let left = there.filter_map(|subnet| Some((ledger.left_in(subnet)?, subnet)));
    left.min_by_key(|(left, subnet)| (Reverse(*left), &subnet.id))
        .map(|(_, subnet)| subnet)
        .ok_or_else(|| Obstacle::NoAddress(offering.zone.clone()))
}

#[cfg(test)]
mod tests;
