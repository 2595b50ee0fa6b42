//! What can be bought for a claim, and whether what it was allocated still may be.
//!
//! Choosing takes turns in this process: what one claim was promised, the next one sees, although no list shows it yet.
//! What two processes promise at the same time is caught by the check, which rests on a list that is younger than the
//! intent and counts the intents of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::Error;
use super::addresses::{Addresses, Free};
use super::census::{Census, Censuses, Moment};
use super::launches::Launches;
use crate::allocation::{self, Ledger, Load, OverLimit, PoolLimits, Tripped, Wish};
use crate::api::{Allocation, CapacityType, NodeClaim};
use crate::cloud::{ClusterId, InstanceName};
use crate::controllers::context::Context;
use crate::controllers::node_class::{Resolved, usable};
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{Choice, HeldBack, NoChoice, Standing, Unresolved};
use crate::model::offerings::{capacity, types_for};
use crate::model::{ClassFacts, InstanceType, Kind, Withheld};

/// What purchases share. A restart forgets it, which costs reads and nothing else; launches are kept.
#[derive(Default)]
pub(super) struct Market {
    pub(super) censuses: Censuses,
    pub(super) addresses: Addresses,
    promises: Arc<tokio::sync::Mutex<Promises>>,
    /// What was ordered within the last hour: claims that are gone have launched too.
    pub(super) launches: Launches,
}

/// The right to choose: nobody else in this process does until it is given back.
pub(super) type Turn = OwnedMutexGuard<Promises>;

/// Claims as they were written since the last list, by name.
#[derive(Debug, Default)]
pub(super) struct Promises(BTreeMap<String, (Moment, NodeClaim)>);

impl Promises {
    /// A claim was written.
    pub(super) fn note(&mut self, claim: &NodeClaim, moment: Moment) {
        self.0.insert(claim.name_any(), (moment, claim.clone()));
    }

    /// All claims but `but`, each as it was last told.
    fn over<'a>(
        &'a mut self,
        census: &'a Census,
        but: &'a str,
    ) -> impl Iterator<Item = &'a NodeClaim> + Clone {
        self.0.retain(|_, (moment, _)| !census.is_after(*moment));
        let written = &self.0;
        let listed = census.claims.iter();
        let latest = listed.filter(|claim| !written.contains_key(&claim.name_any()));
        latest
            .chain(written.values().map(|(_, claim)| claim))
            .filter(move |claim| claim.name_any() != but)
    }
}

/// What an allocation is judged by.
pub(super) struct Judged {
    pub(super) standing: Standing,
    /// When the read was asked for that it rests on, if it rests on one.
    pub(super) read_at: Option<Instant>,
}

impl Judged {
    fn at_once(standing: Standing) -> Self {
        Self {
            standing,
            read_at: None,
        }
    }
}

impl Market {
    /// What to buy for `claim`, and the turn in which that was chosen.
    pub(super) async fn choose(
        &self,
        context: &Context,
        cluster: ClusterId,
        claim: &NodeClaim,
        class: Option<&Resolved>,
    ) -> Result<(Result<Choice, NoChoice>, Option<Turn>), Error> {
        let unresolved = |why: String| Ok((Err(NoChoice::Unresolved(Unresolved(why))), None));
        if let Err(Unresolved(why)) = usable(class, &claim.spec.node_class_ref.name)? {
            return unresolved(why);
        }
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let (Some(class), Some(name)) = (class, InstanceName::new(cluster, uid)) else {
            return unresolved(format!("the claim's uid {uid:?} is not a UUID"));
        };
        let wish = match Wish::of(claim) {
            Ok(wish) => wish,
            Err(unreadable) => return unresolved(unreadable.to_string()),
        };
        let kinds = sold_for(context, claim).await?;
        context.unavailable.known().await;
        let mut turn = self.promises.clone().lock_owned().await;
        let census = self.recent(context).await?;
        self.recall(context).await?;
        let free = self.free(context, class, &census).await?;
        let withheld = holds(context)?;
        let facts = class.facts(class.subnets(&free.subnets, &self.addresses.avoided(context)));
        let (factors, now) = (context.discounts.current(), context.clock.now());
        let types = types_for(&facts, &kinds, &withheld, &factors, now);
        let own = claim.name_any();
        let others = turn.over(&census, &own);
        let load = Load::of(others.clone(), now).with_launches(self.launches.lately(context));
        if let Err(tripped) = context.settings.breakers.check(load.and_another()) {
            return Ok((Err(NoChoice::HeldBack(held_back(tripped))), None));
        }
        let limits = limits(claim, &census, others.clone(), &facts, &kinds);
        let ledger = Ledger::of(others, &free.counted).with_limits(limits);
        let chosen = allocation::choose(&wish, &types, &facts.subnets, &ledger);
        if let Ok(choice) = &chosen
            && !context.zones.allow(&choice.zone)
        {
            return Err(Error::ZoneNotHeld(choice.zone.clone()));
        }
        let chosen = chosen.map_err(|why| NoChoice::Exhausted(why.to_string()));
        Ok((chosen.map(|choice| named(choice, &name)), Some(turn)))
    }

    /// Whether what `claim` was allocated may be bought. `moment` is when its intent was known to be written.
    pub(super) async fn judge(
        &self,
        context: &Context,
        claim: &NodeClaim,
        class: Option<&Resolved>,
        moment: Moment,
    ) -> Result<Judged, Error> {
        let Some(allocation) = claim.allocation() else {
            return Ok(Judged::at_once(Standing::Unknown));
        };
        // Its class is gone, whoever let it go: choosing anew tells so.
        let Some(class) = class else {
            return Ok(Judged::at_once(Standing::Lost));
        };
        // Allowed when the intent was written, perhaps, and not any more: choosing anew tells why.
        if class.refusal.is_some() && allocation.instance_id.is_none() {
            return Ok(Judged::at_once(Standing::Lost));
        }
        context.unavailable.known().await;
        let kinds = context
            .cloud
            .kinds()
            .await
            .map_err(Error::cloud("reading what is sold"))?;
        if is_withheld(allocation, &kinds, &holds(context)?, context) {
            return Ok(Judged::at_once(Standing::Lost));
        }
        let avoided = self.addresses.avoided(context);
        if avoided.contains(&allocation.subnet) {
            return Ok(Judged::at_once(Standing::Lost));
        }
        if allocation.instance_id.is_some() {
            return Ok(Judged::at_once(Standing::Good));
        }
        let census = self.censuses.after(context, moment).await;
        let census = census.map_err(Error::kube("listing the claims"))?;
        // Its claim was made anew under the same name, say: what nobody counts must not be bought.
        if !census.counts(claim) {
            return Ok(Judged::at_once(Standing::Unknown));
        }
        self.recall(context).await?;
        let free = self.free(context, class, &census).await?;
        let mut subnets = class.subnets(&free.subnets, &avoided);
        subnets.retain(|subnet| subnet.id == allocation.subnet);
        let ledger = Ledger::of(census.claims.iter(), &free.counted);
        let (all, facts) = (census.claims.iter(), class.facts(Vec::new()));
        let limits = limits(claim, &census, all, &facts, &kinds);
        let standing = if subnets.is_empty() || ledger.check(&subnets).is_err() {
            Standing::Lost
        } else if let Some(over) = limits.and_then(|limits| limits.check().err()) {
            Standing::HeldBack(over_limit(&over))
        } else {
            self.under_load(context, &census)
        };
        Ok(Judged {
            standing,
            read_at: Some(census.asked_at),
        })
    }

    /// Whether breakers let pass what all claims hold, one's own intent included.
    fn under_load(&self, context: &Context, census: &Census) -> Standing {
        let sent = self.launches.lately(context) + 1;
        let load = Load::of(census.claims.iter(), context.clock.now()).with_launches(sent);
        let checked = context.settings.breakers.check(load);
        checked.map_or_else(
            |tripped| Standing::HeldBack(held_back(tripped)),
            |()| Standing::Good,
        )
    }

    async fn recall(&self, context: &Context) -> Result<(), Error> {
        let recalled = self.launches.recall(context).await;
        recalled.map_err(Error::kube("reading what was launched lately"))
    }

    /// A list that is a few seconds old at most: what this process wrote since is known besides.
    async fn recent(&self, context: &Context) -> Result<Census, Error> {
        let before = self.censuses.before(context).await;
        let census = self.censuses.after(context, before).await;
        census.map_err(Error::kube("listing the claims"))
    }

    async fn free(&self, context: &Context, class: &Resolved, census: &Census) -> Result<Free, Error> {
        let free = self.addresses.free(context, &class.class.spec.vpc, census).await;
        free.map_err(Error::cloud("reading the subnets"))
    }
}

/// What is sold. For a claim that found nothing it is looked at anew before the claim ends: what was withdrawn for some
/// minutes when it was read may be there again.
async fn sold_for(context: &Context, claim: &NodeClaim) -> Result<Arc<Vec<Kind>>, Error> {
    let kinds = match claim.short_since() {
        None => context.cloud.kinds().await,
        Some(_) => context.cloud.recent_kinds().await,
    };
    kinds.map_err(Error::cloud("reading what is sold"))
}

/// What a machine of a profile is for a class: its capacity and its labels.
pub(super) async fn instance_type(
    context: &Context,
    class: &Resolved,
    profile: &str,
) -> Result<Option<InstanceType>, Error> {
    let kinds = context
        .cloud
        .kinds()
        .await
        .map_err(Error::cloud("reading what is sold"))?;
    let kind: Vec<Kind> = kinds
        .iter()
        .filter(|kind| kind.name == profile)
        .cloned()
        .collect();
    let facts = class.facts(Vec::new());
    let (factors, now) = (context.discounts.current(), context.clock.now());
    let types = types_for(&facts, &kind, &Withheld::nothing(), &factors, now);
    Ok(types.into_iter().next())
}

/// The labels that every node of a type has.
pub(super) fn labels(instance_type: &InstanceType) -> BTreeMap<String, String> {
    let single = instance_type.requirements.iter().filter_map(|(key, values)| {
        let listed = values.listed().filter(|listed| listed.len() == 1)?;
        Some((key.clone(), listed.first()?.clone()))
    });
    single.collect()
}

fn holds(context: &Context) -> Result<Withheld, Error> {
    context
        .unavailable
        .snapshot(context.clock.now())
        .ok_or(Error::HoldsUnknown)
}

fn is_withheld(allocation: &Allocation, kinds: &[Kind], withheld: &Withheld, context: &Context) -> bool {
    let Ok(capacity_type) = allocation.capacity_type.parse::<CapacityType>() else {
        return true;
    };
    let kind = kinds.iter().find(|kind| kind.name == allocation.profile);
    let gpus = kind.map_or(crate::api::Gpus::Absent, Kind::has_gpus);
    let (profile, zone) = (&allocation.profile, &allocation.zone);
    let hold = withheld.hold(capacity_type, profile, zone, gpus, context.clock.now());
    hold.is_some()
}

/// The limits of the pool that is bought for, and what `claims` hold of them.
fn limits<'a>(
    claim: &NodeClaim,
    census: &Census,
    claims: impl IntoIterator<Item = &'a NodeClaim>,
    facts: &ClassFacts,
    kinds: &[Kind],
) -> Option<PoolLimits> {
    let limits = PoolLimits::of(claim, &census.pools)?;
    let has = |profile: &str| {
        let kind = kinds.iter().find(|kind| kind.name == profile)?;
        Some(capacity(kind, facts))
    };
    Some(limits.holding(claims, has))
}

fn over_limit(over: &OverLimit) -> HeldBack {
    HeldBack {
        breaker: "limits",
        why: over.to_string(),
    }
}

fn held_back(tripped: Tripped) -> HeldBack {
    HeldBack {
        breaker: tripped.name(),
        why: tripped.to_string(),
    }
}

fn named(choice: allocation::Choice, name: &InstanceName) -> Choice {
    Choice {
        profile: choice.profile,
        zone: choice.zone,
        capacity_type: choice.capacity_type.as_str().to_owned(),
        subnet: choice.subnet,
        price: choice.price,
        instance_name: name.to_string(),
    }
}
