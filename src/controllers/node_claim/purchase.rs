//! Buying: the intent, the credential, the order, and what follows from a refusal.

use std::time::Duration;

use crate::api::{Allocation, CapacityType, Credential, Gpus, NodeClaim, OfferingKey, names};
use crate::cloud::{self, Effect, Machine, Order};
use crate::controllers::context::Context;
use crate::controllers::credentials;
use crate::controllers::definitions::DROPPED;
use crate::controllers::events::{Kind, Story};
use crate::controllers::node_class::Resolved;
use crate::controllers::unavailable::Cause;
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{Blocker, LastOrder, Unresolved, Withholding, launch_limit, status};

use super::act::{Outcome, soon, tell_blocked};
use super::attempts::Unsettled;
use super::launches::Launch;
use super::observe::{Known, Seen};
use super::tokens::Need;
use super::user_data::{self, Unmade};
use super::{Error, Shared, write};

/// Writes the intent, with the id of the credential that its machine will have.
pub(super) async fn allocate(
    shared: &Shared,
    known: &Known,
    seen: &Seen,
    mut allocation: Allocation,
) -> Result<Known, Error> {
    let minted = match seen.need() {
        Need::Nothing => None,
        Need::Token => Some(mint(shared, &allocation).await?),
    };
    if let Some(minted) = &minted {
        let credential = recorded(&allocation, minted);
        status::entitle(&mut allocation, credential);
    }
    let status = status::allocated(&known.claim, allocation.clone());
    let answer = write::status(&shared.context, known, "allocating", &status).await;
    let next = kept(shared, known, answer, Some(&allocation)).await?;
    if let Some(minted) = minted {
        let now = shared.context.clock.instant();
        shared.tokens.keep(&next.claim, minted, now);
    }
    Ok(next)
}

/// Makes another credential for the present attempt, and records it before anything is ordered with it.
pub(super) async fn entitle(shared: &Shared, known: &Known) -> Result<Known, Error> {
    let Some(allocation) = known.claim.allocation() else {
        return Ok(known.clone());
    };
    let minted = mint(shared, allocation).await?;
    let status = status::entitled(&known.claim, recorded(allocation, &minted));
    let answer = write::status(&shared.context, known, "recording the credential", &status).await;
    let next = kept(shared, known, answer, status.allocation.as_ref()).await?;
    let now = shared.context.clock.instant();
    shared.tokens.keep(&next.claim, minted, now);
    Ok(next)
}

/// The claim with the allocation that was written. An answer without it means that foreign definitions dropped it, and with
/// it all that keeps us from buying twice; one that does not know the field, that they would.
async fn kept(
    shared: &Shared,
    known: &Known,
    answer: Result<Known, Error>,
    written: Option<&Allocation>,
) -> Result<Known, Error> {
    let context = &shared.context;
    match answer {
        Ok(next) if next.claim.allocation() == written => {
            context.definitions.kept();
            return Ok(next);
        }
        Err(error) if !is_undeclared(&error) => return Err(error),
        Ok(_) | Err(_) => context.definitions.dropped(&known.claim),
    }
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_FOREIGN_DEFINITIONS,
        action: "Launch",
        note: DROPPED.to_owned(),
        transition: "allocation".to_owned(),
    };
    context.events.tell(&known.claim, story).await;
    Err(Error::ForeignDefinitions)
}

/// Whether an apply was refused for a field that the definition does not have. API servers answer that with 500 and without
/// a reason, so its words are all there is to know it by.
fn is_undeclared(error: &Error) -> bool {
    let Error::Kube { source, .. } = error else {
        return false;
    };
    matches!(&**source, kube::Error::Api(status) if status.message.contains("field not declared in schema"))
}

async fn mint(shared: &Shared, allocation: &Allocation) -> Result<credentials::Minted, Error> {
    let limits = &shared.context.settings.limits;
    let lifetime = credentials::lifetime(launch_limit(allocation, limits), limits.registration);
    let minted = credentials::mint(&shared.context, lifetime).await;
    minted.map_err(|source| Error::Credential(Box::new(source)))
}

fn recorded(allocation: &Allocation, minted: &credentials::Minted) -> Credential {
    Credential {
        attempt: allocation.attempt,
        jti: minted.jti.clone(),
    }
}

/// Orders the machine.
pub(super) async fn create(
    shared: &Shared,
    known: &Known,
    seen: &Seen,
    allocation: &Allocation,
    within: Duration,
) -> Result<Outcome, Error> {
    let context = &shared.context;
    let Some(class) = &seen.class else {
        return Ok(Outcome::Patience);
    };
    let made = user_data::user_data(shared, &known.claim, allocation, class).await?;
    let user_data = match made {
        Ok(user_data) => user_data,
        Err(Unmade::Impossible(why)) => {
            say(
                shared,
                known,
                allocation,
                names::REASON_LAUNCH_FAILED,
                why.clone(),
            )
            .await;
            return refuse(shared, known, &why).await;
        }
        Err(Unmade::Unknown(why)) => {
            // Not in the conditions: what is said there of a claim on order is taken back before it is ordered again.
            return Ok(tell_blocked(context, known, &Blocker::Unresolved(Unresolved(why))).await);
        }
    };
    let Some(order) = order(shared, known, seen, class, allocation, user_data, within) else {
        return Ok(Outcome::Patience);
    };
    let launch = shared.market.launches.note(context);
    let answer = context.cloud.create(&order).await;
    reckon(shared, &known.claim, launch, answer.as_ref().err());
    match answer {
        Ok(machine) => {
            shared.tokens.forget(&known.claim);
            Ok(Outcome::Again(Box::new(bought(known, machine))))
        }
        Err(source) => refused(shared, known, allocation, source).await,
    }
}

/// The order for `allocation`; `None` if what it needs of the class is not known. It is sent while both the intent
/// (`within`) and the reads that it rests on are young, or not at all.
fn order(
    shared: &Shared,
    known: &Known,
    seen: &Seen,
    class: &Resolved,
    allocation: &Allocation,
    user_data: String,
    within: Duration,
) -> Option<Order> {
    let context = &shared.context;
    let young = context.settings.limits.send_within;
    let by_read = known.told_at.min(seen.read_at?) + young;
    let by_intent = context.clock.instant() + within;
    class.order(&known.claim, allocation, Some(user_data), by_read.min(by_intent))
}

/// Remembers what the answer to an order leaves to be waited for, and whether the order counts as a launch.
fn reckon(shared: &Shared, claim: &NodeClaim, launch: Launch, refusal: Option<&cloud::Error>) {
    let left = match refusal {
        None => None,
        Some(error) if error.effect() == Effect::Unknown => {
            Some(Unsettled::Unsure(shared.context.clock.instant()))
        }
        Some(error) => {
            shared.market.launches.take_back(launch);
            let is_taken = matches!(error, cloud::Error::NameTaken(_));
            is_taken.then(|| Unsettled::NameTaken(error.to_string()))
        }
    };
    shared.attempts.ordered(claim, left);
}

/// Reads may not show a new machine yet, so the answer itself is what is recorded.
fn bought(known: &Known, machine: Machine) -> Known {
    Known {
        bought: Some(machine),
        ..known.clone()
    }
}

/// What follows from a refusal: what is not to be had is withheld, and the claim goes on with something else.
async fn refused(
    shared: &Shared,
    known: &Known,
    allocation: &Allocation,
    source: cloud::Error,
) -> Result<Outcome, Error> {
    let context = &shared.context;
    match source {
        // Ours from before, perhaps, which the look-up did not show yet: it will.
        cloud::Error::NameTaken(_) => Ok(soon(context)),
        cloud::Error::NoCapacity(_) => withhold(shared, known, Withholding::Shortage).await,
        cloud::Error::NoAddress(_) => withhold(shared, known, Withholding::Subnet).await,
        cloud::Error::Quota(_) => {
            tell(shared, known, allocation, &source).await;
            let key = quota_key(shared, allocation).await?;
            hold(shared, known, &key, Cause::Quota).await
        }
        // The same order would be refused again, for ever.
        cloud::Error::BadRequest { .. } => {
            tell(shared, known, allocation, &source).await;
            let refused = refuse(shared, known, &source.to_string()).await;
            doubt_what_is_sold(context).await;
            refused
        }
        source => {
            tell(shared, known, allocation, &source).await;
            Err(Error::Cloud {
                doing: "ordering the machine",
                source,
            })
        }
    }
}

/// A profile that is not sold any more, or not in that zone, is refused as a bad order is, and in words that differ: the
/// next claim is to choose from what is sold now. This one has its answer, so a failed read is none of its business.
async fn doubt_what_is_sold(context: &Context) {
    if let Err(error) = context.cloud.recent_kinds().await {
        tracing::warn!(%error, "what is sold could not be read after an order was refused");
    }
}

/// Writes that the claim's order is refused for good, by the cloud or by ourselves.
async fn refuse(shared: &Shared, known: &Known, why: &str) -> Result<Outcome, Error> {
    let context = &shared.context;
    let status = status::refused(&known.claim, why, context.clock.now());
    let next = write::status(context, known, "telling the refusal", &status).await?;
    Ok(Outcome::Again(Box::new(next)))
}

/// Writes what went wrong with an attempt. A name that something has which no look-up finds, an interface or a volume, say,
/// that an order left when it failed half way, is told besides: somebody may have to see to it.
pub(super) async fn note_fault(
    shared: &Shared,
    known: &Known,
    seen: &Seen,
    why: &str,
) -> Result<Known, Error> {
    let now = shared.context.clock.now();
    let status = status::faulty(&known.claim, why, now);
    // In the cloud's own words: the claim's end, if this is one, is told in those of the condition.
    if let (Some(allocation), LastOrder::NameTaken(taken)) =
        (known.claim.allocation(), &seen.observed.last_order)
    {
        let taken = taken.clone();
        say(shared, known, allocation, names::REASON_LAUNCH_FAILED, taken).await;
    }
    let mut next = write::status(&shared.context, known, "telling the fault", &status).await?;
    next.bought.clone_from(&known.bought);
    Ok(next)
}

/// Keeps everybody from buying for a while what was found not to be had.
pub(super) async fn withhold(
    shared: &Shared,
    known: &Known,
    withholding: Withholding,
) -> Result<Outcome, Error> {
    let Some(allocation) = known.claim.allocation() else {
        return Ok(Outcome::Patience);
    };
    let cause = match withholding {
        Withholding::Shortage => Cause::Shortage,
        Withholding::Subnet => {
            let note = format!("subnet {} has no address left", allocation.subnet);
            say(shared, known, allocation, "NoAddress", note).await;
            shared.market.addresses.avoid(&shared.context, &allocation.subnet);
            return Ok(Outcome::Again(Box::new(known.clone())));
        }
    };
    let capacity_type = allocation.capacity_type.parse::<CapacityType>();
    let key = capacity_type.and_then(|it| OfferingKey::one(it, &allocation.profile, &allocation.zone));
    let Ok(key) = key else {
        // What is not an offering cannot be withheld, and is not chosen again.
        return Ok(Outcome::Patience);
    };
    let note = format!("{key} is not to be had: {}", cause.as_str());
    say(
        shared,
        known,
        allocation,
        names::REASON_INSUFFICIENT_CAPACITY,
        note,
    )
    .await;
    hold(shared, known, &key, cause).await
}

async fn hold(shared: &Shared, known: &Known, key: &OfferingKey, cause: Cause) -> Result<Outcome, Error> {
    let held = shared.context.unavailable.withhold(key, cause).await;
    held.map_err(|source| Error::Withhold(Box::new(source)))?;
    Ok(Outcome::Again(Box::new(known.clone())))
}

/// Quota is regional: it is about everything that is bought one way, and about cards apart from the rest.
async fn quota_key(shared: &Shared, allocation: &Allocation) -> Result<OfferingKey, Error> {
    let kinds = shared.context.cloud.kinds().await;
    let kinds = kinds.map_err(Error::cloud("reading what is sold"))?;
    let kind = kinds.iter().find(|kind| kind.name == allocation.profile);
    let has_gpus = kind.is_some_and(|kind| kind.has_gpus() == Gpus::Present);
    Ok(match allocation.capacity_type.parse::<CapacityType>() {
        Ok(CapacityType::Spot) => OfferingKey::all(CapacityType::Spot),
        _ if has_gpus => OfferingKey::on_demand_gpu(),
        _ => OfferingKey::all(CapacityType::OnDemand),
    })
}

/// Tells people about a refusal that will not pass by itself.
async fn tell(shared: &Shared, known: &Known, allocation: &Allocation, error: &cloud::Error) {
    let passes = matches!(
        error,
        cloud::Error::Transient { .. } | cloud::Error::RateLimited { .. } | cloud::Error::Undecodable { .. }
    );
    if !passes {
        let story = Story {
            kind: Kind::Warning,
            reason: names::REASON_LAUNCH_FAILED,
            action: "Launch",
            note: error.to_string(),
            transition: format!("{} {}", allocation.attempt, error.kind()),
        };
        shared.context.events.tell(&known.claim, story).await;
    }
}

async fn say(shared: &Shared, known: &Known, allocation: &Allocation, reason: &'static str, note: String) {
    let story = Story {
        kind: Kind::Warning,
        reason,
        action: "Launch",
        transition: format!("{} {note}", allocation.attempt),
        note,
    };
    shared.context.events.tell(&known.claim, story).await;
}
