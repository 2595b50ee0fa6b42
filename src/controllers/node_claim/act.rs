//! Carries out one step: one effect, and what follows from its answer.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::observe::{Known, Seen};
use super::{Error, write};
use crate::api::{Allocation, names};
use crate::clock::later;
use crate::cloud::{self, InstanceName, Machine, Order, ProviderId};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};
use crate::controllers::node_class;
use crate::lifecycle::{Blocker, NodeChange, Step, status};

/// How often a claim that waits for somebody to act is looked at: what it waits for may not be watched.
const BLOCKED_FOR: Duration = Duration::from_secs(30);

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
pub(super) async fn act(context: &Context, known: &Known, seen: &Seen, step: Step) -> Result<Outcome, Error> {
    let now = context.clock.now();
    let claim = &known.claim;
    let next = match step {
        Step::AddFinalizer => write::add_finalizer(context, known).await?,
        Step::Allocate(allocation) => allocate(context, known, allocation).await?,
        Step::RenewIntent(until) => {
            let until = Some(until.to_string());
            write::annotate(context, known, names::ORDER_UNSETTLED_UNTIL, until).await?
        }
        Step::Create { allocation, within } => {
            let Some(order) = order(context, known, seen, &allocation, within) else {
                return Ok(Outcome::Patience);
            };
            return create(context, known, &allocation, &order).await;
        }
        Step::Record(machine) => {
            let status = status::recorded(claim, &machine);
            let mut next = write::status(context, known, "recording the machine", &status).await?;
            next.bought.clone_from(&known.bought);
            next
        }
        Step::Label(labels) => write::label(context, known, &labels).await?,
        Step::Launched(machine) => launched(context, known, &machine).await?,
        Step::Retire { id, attempt } => return retire(context, known, &id, attempt).await,
        Step::Delete { id } => return delete(context, &id).await,
        Step::NoteAbsence(since) => {
            let since = Some(since.to_string());
            write::annotate(context, known, names::MACHINE_ABSENT_SINCE, since).await?
        }
        Step::ForgetAbsence => write::annotate(context, known, names::MACHINE_ABSENT_SINCE, None).await?,
        Step::ChangeNode(change) => change_node(context, known, change).await?,
        Step::Register => {
            let status = status::registered(claim, &claim.name_any(), now);
            write::status(context, known, "registering the node", &status).await?
        }
        Step::Initialize => {
            let status = status::initialized(claim, now);
            write::status(context, known, "initializing the node", &status).await?
        }
        Step::DeleteNode { uid } => delete_node(context, known, uid).await?,
        Step::ReleaseFinalizer => {
            write::release_finalizer(context, known).await?;
            return Ok(Outcome::Rest);
        }
        Step::Block(blocker) => return Ok(block(context, known, &blocker).await),
        Step::Wait(until) => return Ok(Outcome::At(until)),
        Step::Retry => return Ok(Outcome::Patience),
        Step::Rest => return Ok(Outcome::Rest),
    };
    Ok(Outcome::Again(Box::new(next)))
}

/// An answer without the allocation means that foreign CRDs dropped it, and with it all that keeps us from buying twice.
async fn allocate(context: &Context, known: &Known, allocation: Allocation) -> Result<Known, Error> {
    let status = status::allocated(&known.claim, allocation.clone());
    let next = write::status(context, known, "allocating", &status).await?;
    let kept = next
        .claim
        .status
        .as_ref()
        .and_then(|status| status.allocation.as_ref());
    if kept != Some(&allocation) {
        return Err(Error::ForeignDefinitions);
    }
    Ok(next)
}

async fn create(
    context: &Context,
    known: &Known,
    allocation: &Allocation,
    order: &Order,
) -> Result<Outcome, Error> {
    match context.cloud.create(order).await {
        Ok(machine) => Ok(Outcome::Again(Box::new(bought(known, machine)))),
        // Ours from before, which the look-up did not show yet: it will.
        Err(cloud::Error::NameTaken(_)) if is_young(context, allocation) => Ok(soon(context)),
        // The same order would be refused again, for ever; and a name that is taken by nothing that can be found is not
        // freed by asking again.
        Err(source @ (cloud::Error::BadRequest { .. } | cloud::Error::NameTaken(_))) => {
            refused(context, known, allocation, &source).await;
            let status = status::refused(&known.claim, source.to_string(), context.clock.now());
            let next = write::status(context, known, "giving up", &status).await?;
            Ok(Outcome::Again(Box::new(next)))
        }
        Err(source) => {
            refused(context, known, allocation, &source).await;
            Err(Error::Cloud {
                doing: "ordering the machine",
                source,
            })
        }
    }
}

/// Whether a machine that was ordered before may still be on its way to where reads see it.
fn is_young(context: &Context, allocation: &Allocation) -> bool {
    let limits = &context.settings.limits;
    let shown = limits.send_within + limits.late_create + limits.visibility;
    context.clock.now() < later(allocation.since.0, shown)
}

/// Reads may not show a new machine yet, so the answer itself is what is recorded.
fn bought(known: &Known, machine: Machine) -> Known {
    Known {
        bought: Some(machine),
        ..known.clone()
    }
}

/// The order for `allocation`; `None` if what it needs of the class is not known. It is sent while both the intent
/// (`within`) and the read that it rests on are young, or not at all.
fn order(
    context: &Context,
    known: &Known,
    seen: &Seen,
    allocation: &Allocation,
    within: Duration,
) -> Option<Order> {
    let by_read = known.told_at + context.settings.limits.send_within;
    let by_intent = context.clock.instant() + within;
    let resolved = seen.class.as_ref()?;
    let written = resolved.class.spec.user_data.as_ref();
    let user_data = written.or(context.settings.user_data.as_ref());
    let user_data = user_data.map(|text| text.replace("NODE_NAME", &known.claim.name_any()));
    resolved.order(&known.claim, allocation, user_data, by_read.min(by_intent))
}

/// Tells people about a refusal that will not pass by itself.
async fn refused(context: &Context, known: &Known, allocation: &Allocation, error: &cloud::Error) {
    let lasting = !matches!(
        error,
        cloud::Error::Transient { .. } | cloud::Error::RateLimited { .. } | cloud::Error::Undecodable { .. }
    );
    if lasting {
        let story = Story {
            kind: Kind::Warning,
            reason: "LaunchFailed",
            action: "Launch",
            note: error.to_string(),
            transition: format!("{} {}", allocation.attempt, error.kind()),
        };
        context.events.tell(&known.claim, story).await;
    }
}

async fn launched(context: &Context, known: &Known, machine: &Machine) -> Result<Known, Error> {
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
    let status = status::launched(&known.claim, machine, provider_id.to_string(), now);
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

fn soon(context: &Context) -> Outcome {
    Outcome::At(later(context.clock.now(), context.settings.limits.poll))
}

async fn change_node(context: &Context, known: &Known, change: NodeChange) -> Result<Known, Error> {
    let mut patch = json!({
        "metadata": {"resourceVersion": change.resource_version, "labels": change.labels},
    });
    if let Some(taints) = change.taints {
        patch["spec"] = json!({"taints": taints});
    }
    let nodes: Api<Node> = Api::all(context.client.clone());
    nodes
        .patch(&change.name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(|source| Error::Kube {
            doing: "changing the node",
            source: Box::new(source),
        })?;
    Ok(known.clone())
}

async fn delete_node(context: &Context, known: &Known, uid: String) -> Result<Known, Error> {
    let nodes: Api<Node> = Api::all(context.client.clone());
    let only_this = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        resource_version: None,
    });
    match nodes.delete(&known.claim.name_any(), &only_this).await {
        Ok(_) => Ok(known.clone()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(known.clone()),
        Err(source) => Err(Error::Kube {
            doing: "deleting the node",
            source: Box::new(source),
        }),
    }
}

async fn block(context: &Context, known: &Known, blocker: &Blocker) -> Outcome {
    let reason = match blocker {
        Blocker::Unresolved(_) => "LaunchBlocked",
        Blocker::Stranger { .. } => "NameTaken",
        Blocker::Impostor(_) => "NodeMismatch",
    };
    let story = Story {
        kind: Kind::Warning,
        reason,
        action: "Launch",
        note: blocker.to_string(),
        transition: blocker.to_string(),
    };
    context.events.tell(&known.claim, story).await;
    Outcome::At(later(context.clock.now(), BLOCKED_FOR))
}
