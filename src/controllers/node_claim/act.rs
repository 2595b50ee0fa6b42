//! Carries out one step: one effect, and what follows from its answer.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};

use super::observe::{Known, Seen};
use super::{Error, Shared, depart, nodes, purchase, write};
use crate::api::{NodeClaim, names};
use crate::clock::later;
use crate::cloud::{self, InstanceName, Machine, ProviderId};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};
use crate::controllers::node_class;
use crate::controllers::preemption;
use crate::controllers::unavailable::Cause;
use crate::lifecycle::{self, Blocker, End, Step, status};

/// How often a claim that waits for somebody to act is looked at: what it waits for may not be watched.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

/// How soon after evictions it is looked what came of them.
const EVICTED_FOR: Duration = Duration::from_secs(1);

/// What follows from a step.
pub(super) enum Outcome {
    /// The next step can be decided on what is known now.
    Again(Box<Known>),
    /// Nothing before then.
    At(Timestamp),
    /// Nothing for a while that grows.
    Patience,
    /// Nothing until something changes.
    Rest,
}

/// Carries out `step`.
pub(super) async fn act(shared: &Shared, known: &Known, seen: &Seen, step: Step) -> Result<Outcome, Error> {
    let context = &shared.context;
    let next = match step {
        Step::AddFinalizer => write::add_finalizer(context, known).await?,
        Step::Allocate(allocation) => purchase::allocate(shared, known, seen, allocation).await?,
        Step::Credential => purchase::entitle(shared, known).await?,
        Step::RenewIntent(until) => {
            let until = Some(until.to_string());
            write::annotate(context, known, names::ORDER_UNSETTLED_UNTIL, until).await?
        }
        Step::Create { allocation, within } => {
            return purchase::create(shared, known, seen, &allocation, within).await;
        }
        Step::NoteFault(why) => purchase::note_fault(shared, known, seen, &why).await?,
        Step::Withhold(withholding) => return purchase::withhold(shared, known, withholding).await,
        Step::Label(labels) => write::label(context, known, &labels).await?,
        Step::Launched(machine) => launched(context, known, seen, &machine).await?,
        Step::TakenBack { machine, attempt } => return taken_back(context, known, &machine, attempt).await,
        Step::GiveBackTaken(machine) => return give_back_taken(context, known, &machine).await,
        Step::AwaitStop { machine, until } => {
            let withheld = preemption::suspect(context, &machine).await;
            withheld.map_err(|source| Error::Withhold(Box::new(source)))?;
            return Ok(Outcome::At(until));
        }
        Step::Retire { id, attempt } => return retire(context, known, &id, attempt).await,
        Step::Delete { id } => return delete(context, &id).await,
        Step::NoteAbsence(since) => {
            let since = Some(since.to_string());
            write::annotate(context, known, names::MACHINE_ABSENT_SINCE, since).await?
        }
        Step::ForgetAbsence => write::annotate(context, known, names::MACHINE_ABSENT_SINCE, None).await?,
        Step::SetDeadline(deadline) => {
            depart::tell_deadline(context, known, deadline).await;
            let deadline = Some(deadline.to_string());
            write::annotate(context, known, names::TERMINATION_TIMESTAMP, deadline).await?
        }
        Step::Evict(evictions) => {
            depart::evict(shared, known, evictions).await;
            return Ok(Outcome::At(later(context.clock.now(), EVICTED_FOR)));
        }
        Step::Await(until, holdup) => {
            depart::tell(context, known, &holdup).await;
            return Ok(Outcome::At(until));
        }
        Step::ChangeNode(change) => nodes::change(context, known, change).await?,
        Step::DeleteNode { uid } => nodes::delete(context, known, uid).await?,
        Step::End(end) => return conclude(context, known, &end).await,
        Step::ReleaseFinalizer => {
            write::release_finalizer(context, known).await?;
            // The watch takes it out of the store, so no pass comes after this one.
            shared.forget(&known.claim);
            // What was bought and is gone has made room in the quota; a claim that never had a machine has not.
            if has_machine(&known.claim) {
                context.unavailable.lift(Cause::Quota).await;
            }
            return Ok(Outcome::Rest);
        }
        Step::Block(blocker) => return block(context, known, &blocker).await,
        Step::Wait(until) => return Ok(Outcome::At(until)),
        Step::Retry => return Ok(Outcome::Patience),
        Step::Rest => return Ok(Outcome::Rest),
        step => tell(context, known, step).await?,
    };
    Ok(Outcome::Again(Box::new(next)))
}

/// Whether a machine was bought for a claim.
fn has_machine(claim: &NodeClaim) -> bool {
    let allocation = claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    allocation.is_some_and(|allocation| allocation.instance_id.is_some())
}

/// The steps that write a status and do nothing else.
async fn tell(context: &Context, known: &Known, step: Step) -> Result<Known, Error> {
    let (claim, now) = (&known.claim, context.clock.now());
    let (doing, status) = match step {
        Step::Record(machine) => ("recording the machine", status::recorded(claim, &machine)),
        Step::Withdraw => ("taking the intent back", status::withdrawn(claim)),
        Step::NoteShortage(why) => ("telling the shortage", status::short(claim, &why, now)),
        Step::Explain(word) => (
            "saying what the claim waits for",
            status::explained(claim, &word, now),
        ),
        Step::Unblock => ("taking back why nothing was bought", status::unblocked(claim)),
        Step::GiveUp(end) => ("giving up", status::ended(claim, &end, now)),
        Step::Register => (
            "registering the node",
            status::registered(claim, &claim.name_any(), now),
        ),
        Step::Initialize => ("initializing the node", status::initialized(claim, now)),
        Step::Draining => ("draining the node", status::draining(claim, now)),
        Step::Drained => ("telling that the node is drained", status::drained(claim, now)),
        Step::Vacated(volumes) => (
            "telling that the machine goes",
            status::vacated(claim, volumes, now),
        ),
        // Every other step has its own way.
        _ => return Ok(known.clone()),
    };
    let mut next = write::status(context, known, doing, &status).await?;
    next.bought.clone_from(&known.bought);
    Ok(next)
}

/// Tells why a claim comes to its end, and deletes it, so that others can plan anew.
async fn conclude(context: &Context, known: &Known, end: &End) -> Result<Outcome, Error> {
    let story = Story {
        kind: Kind::Warning,
        reason: end.reason,
        action: "Delete",
        note: end.message.clone(),
        transition: end.condition.to_owned(),
    };
    context.events.tell(&known.claim, story).await;
    // Only the claim that was judged.
    let as_judged = DeleteParams::default().preconditions(Preconditions {
        uid: known.claim.uid(),
        resource_version: known.claim.resource_version(),
    });
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match claims.delete(&known.claim.name_any(), &as_judged).await {
        Ok(_) => {
            context.metrics.ended(end.reason);
            Ok(Outcome::Rest)
        }
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(soon(context)),
        Err(error) => Err(Error::kube("deleting the claim")(error)),
    }
}

async fn launched(context: &Context, known: &Known, seen: &Seen, machine: &Machine) -> Result<Known, Error> {
    let provider_id = ProviderId::new(&context.settings.region, &machine.id);
    let Some(provider_id) = provider_id else {
        let answer = cloud::Answer {
            operation: "read instance",
            subject: machine.id.clone(),
            message: "the id cannot be part of a provider id".to_owned(),
            ..cloud::Answer::default()
        };
        return Err(Error::Cloud {
            doing: "naming the machine",
            source: cloud::Error::Undecodable {
                effect: cloud::Effect::None,
                answer: Box::new(answer),
            },
        });
    };
    // Before the write, so that whoever crashes in between tags again; the same twice is the same.
    tag(context, known, machine).await;
    let now = context.clock.now();
    let kind = seen.kind.as_ref();
    let status = status::launched(&known.claim, machine, kind, provider_id.to_string(), now);
    write::status(context, known, "launching", &status).await
}

/// Tags are for people: nothing waits for them, and nothing fails because of them.
async fn tag(context: &Context, known: &Known, machine: &Machine) {
    let class = match node_class::launch::class_of(context, &known.claim).await {
        Ok(Some(class)) => class,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, id = machine.id, "a machine is not tagged");
            return;
        }
    };
    let tags = node_class::launch::tags(&class, &known.claim, &machine.name);
    if let Err(error) = context.cloud.tag(machine, &tags).await {
        tracing::warn!(%error, id = machine.id, "a machine is not tagged");
    }
}

/// The cloud took the machine back before it ran. The same is withheld and told as of one that ran.
async fn taken_back(
    context: &Context,
    known: &Known,
    machine: &Machine,
    attempt: u32,
) -> Result<Outcome, Error> {
    preemption::report(context, &known.claim, machine).await?;
    retire(context, known, &machine.id, attempt).await
}

/// The cloud took the machine of a claim back that goes anyway. Nobody else may have noticed, and whoever looks for the
/// machine next finds nothing.
async fn give_back_taken(context: &Context, known: &Known, machine: &Machine) -> Result<Outcome, Error> {
    preemption::report(context, &known.claim, machine).await?;
    delete(context, &machine.id).await
}

/// Frees the name, which is faster than waiting for the machine to be gone; where that is refused, deletes it.
async fn retire(context: &Context, known: &Known, id: &str, attempt: u32) -> Result<Outcome, Error> {
    let allocation = known
        .claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    let name = allocation.and_then(|it| it.instance_name.parse::<InstanceName>().ok());
    let renamed = match name {
        Some(name) => context.cloud.rename(id, &name.of_failed_attempt(attempt)).await,
        None => return delete(context, id).await,
    };
    match renamed {
        Ok(()) => Ok(soon(context)),
        // Gone meanwhile; the next look shows it.
        Err(error) if error.is_not_found() => Ok(soon(context)),
        Err(cloud::Error::Conflict(_) | cloud::Error::NameTaken(_)) => delete(context, id).await,
        Err(source) => Err(Error::Cloud {
            doing: "freeing the machine's name",
            source,
        }),
    }
}

/// Deletion is asynchronous, and a conflict means that it is under way or must wait: either way, look again.
async fn delete(context: &Context, id: &str) -> Result<Outcome, Error> {
    match context.cloud.delete(id).await {
        Ok(()) | Err(cloud::Error::NotFound(_) | cloud::Error::Conflict(_)) => Ok(soon(context)),
        Err(source) => Err(Error::Cloud {
            doing: "deleting the machine",
            source,
        }),
    }
}

pub(super) fn soon(context: &Context) -> Outcome {
    Outcome::At(later(context.clock.now(), context.settings.limits.poll))
}

/// Says why a claim does not get on: in its conditions, where it is not said there yet, and in an event.
async fn block(context: &Context, known: &Known, blocker: &Blocker) -> Result<Outcome, Error> {
    if let Some(word) = lifecycle::blocked(&known.claim, blocker) {
        let status = status::explained(&known.claim, &word, context.clock.now());
        write::status(context, known, "saying why the claim waits", &status).await?;
    }
    Ok(tell_blocked(context, known, blocker).await)
}

/// Tells people why a claim does not get on.
pub(super) async fn tell_blocked(context: &Context, known: &Known, blocker: &Blocker) -> Outcome {
    if let Blocker::HeldBack(held_back) = blocker {
        context.metrics.held_back(held_back.breaker);
    }
    let transition = match blocker {
        // The numbers in its words change; the breaker does not.
        Blocker::HeldBack(held_back) => held_back.breaker.to_owned(),
        blocker => blocker.to_string(),
    };
    let story = Story {
        kind: Kind::Warning,
        reason: blocker.reason(),
        action: "Launch",
        note: blocker.to_string(),
        transition,
    };
    context.events.tell(&known.claim, story).await;
    Outcome::At(later(context.clock.now(), BLOCKED_FOR))
}
