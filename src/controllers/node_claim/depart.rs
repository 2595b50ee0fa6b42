//! Empties a Node that goes: sees what is left on it, and makes pods leave.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::{Eviction as EvictionRequest, PodDisruptionBudget};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};

use super::observe::Known;
use super::{Error, Shared};
use crate::api::{NodeClaim, names};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};
use crate::drain::{Eviction, Manner, Waiting, Why, hangs_on_time, leaves};
use crate::lifecycle::facts::Facts;
use crate::lifecycle::{Holdup, Remaining};

/// What an event says at most: the pods that hold a Node may be many.
const TOLD_MAX: usize = 5;

/// What is still on the claim's Node. Lists from the API server itself: what a cache does not show yet would die with
/// the machine.
pub(super) async fn remaining(shared: &Shared, known: &Known, node: &str) -> Result<Remaining, Error> {
    let (context, claim) = (&shared.context, &known.claim);
    // Before the lists, so that the time never flatters.
    let tainted_for = shared.departures.tainted_for(claim, context.clock.instant());
    let pods: Api<Pod> = Api::all(context.client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = pods
        .list(&here)
        .await
        .map_err(Error::kube("listing the pods of the node"))?;
    let at = time(context, claim, &pods.items).await?;
    let mut remaining = Remaining {
        at,
        tainted_for,
        pods: pods.items,
        refused: shared.departures.refused(claim, &context.clock, at),
        ..Remaining::default()
    };
    if claim.is(names::DRAINED) {
        remaining.attached = attached(context, node, &remaining).await?;
    } else if remaining.pods.iter().any(|pod| is_to_be_evicted(pod, at)) {
        let budgets: Api<PodDisruptionBudget> = Api::all(context.client.clone());
        let listed = budgets.list(&ListParams::default()).await;
        remaining.budgets = listed
            .map_err(Error::kube("listing the disruption budgets"))?
            .items;
    }
    Ok(remaining)
}

/// The time that pods are judged by: the API server's wherever anything hangs on it. A clock of ours that is ahead would
/// cut their time short.
async fn time(context: &Context, claim: &NodeClaim, pods: &[Pod]) -> Result<Timestamp, Error> {
    if claim.deadline().is_none() && !pods.iter().any(hangs_on_time) {
        return Ok(context.clock.now());
    }
    let asked = context.server_time.now().await;
    asked.map_err(Error::kube("asking the API server for the time"))
}

fn is_to_be_evicted(pod: &Pod, at: Timestamp) -> bool {
    pod.metadata.deletion_timestamp.is_none() && leaves(pod, at)
}

/// The volumes that are attached to a Node, but for those of pods that stay: nobody detaches these while they run.
async fn attached(context: &Context, node: &str, remaining: &Remaining) -> Result<Vec<String>, Error> {
    let attachments: Api<VolumeAttachment> = Api::all(context.client.clone());
    let listed = attachments.list(&ListParams::default()).await;
    let listed = listed.map_err(Error::kube("listing the attached volumes"))?.items;
    let here = listed.into_iter().filter(|it| it.spec.node_name == node);
    // One without a volume's name is of a volume that is part of a pod, and goes with it.
    let mut volumes: BTreeSet<String> = here
        .filter_map(|it| it.spec.source.persistent_volume_name)
        .collect();
    if !volumes.is_empty() {
        for kept in volumes_of_staying(context, remaining).await? {
            volumes.remove(&kept);
        }
    }
    Ok(volumes.into_iter().collect())
}

async fn volumes_of_staying(context: &Context, remaining: &Remaining) -> Result<Vec<String>, Error> {
    let mut volumes = Vec::new();
    for (namespace, name) in claims_of_staying(&remaining.pods, remaining.at) {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
        let found = claims.get_opt(&name).await;
        let found = found.map_err(Error::kube("reading the volume of a pod that stays"))?;
        volumes.extend(found.and_then(|claim| claim.spec?.volume_name));
    }
    Ok(volumes)
}

/// The claims to volumes of pods that stay: namespace and name.
fn claims_of_staying(pods: &[Pod], now: Timestamp) -> Vec<(String, String)> {
    let mut claims = Vec::new();
    for pod in pods.iter().filter(|pod| !leaves(pod, now)) {
        let mounted = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
        let named = mounted.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let namespace = pod.namespace().unwrap_or_default();
        claims.extend(named.map(|claim| (namespace.clone(), claim.claim_name.clone())));
    }
    claims
}

/// Makes pods leave. What is refused for one holds up nobody else.
pub(super) async fn evict(shared: &Shared, known: &Known, evictions: Vec<Eviction>) {
    for eviction in evictions {
        tell_unread(&shared.context, &eviction).await;
        let answer = match eviction.manner {
            Manner::Evict => ask(&shared.context, &eviction).await,
            Manner::Delete(grace) => {
                let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
                delete(&shared.context, &eviction, seconds).await
            }
        };
        let manner = match eviction.manner {
            Manner::Evict => "evicted",
            Manner::Delete(_) => "deleted",
        };
        match answer {
            Ok(()) => shared.context.metrics.drained(manner),
            // Gone, or another than the one that was judged: the next look shows which.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => {
                tracing::debug!(%error, pod = %eviction.pod, "a pod does not leave yet");
                let (clock, uid) = (&shared.context.clock, &eviction.pod.uid);
                shared.departures.refuse(&known.claim, uid, clock);
            }
        }
    }
}

/// Tells people that a pod leaves although it asked for something, which nobody can read.
async fn tell_unread(context: &Context, eviction: &Eviction) {
    let Some(written) = &eviction.unread_wish else {
        return;
    };
    let pod = &eviction.pod;
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    };
    let story = Story {
        kind: Kind::Warning,
        reason: names::REASON_WISH_UNREADABLE,
        action: "Evict",
        note: format!(
            "{} says {written:?}, which is neither \"true\" nor a time such as \"1h30m\": it protects nothing",
            names::DO_NOT_DISRUPT
        ),
        transition: written.clone(),
    };
    context.events.tell_about(about, story).await;
}

/// Asks for an eviction, of exactly the pod that was judged. kube's own `evict` sends its options under a name that API
/// servers do not read, and the preconditions with them.
async fn ask(context: &Context, eviction: &Eviction) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &eviction.pod.namespace);
    let request = EvictionRequest {
        metadata: ObjectMeta {
            name: Some(eviction.pod.name.clone()),
            namespace: Some(eviction.pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(meta::DeleteOptions {
            preconditions: Some(meta::Preconditions {
                uid: Some(eviction.pod.uid.clone()),
                resource_version: eviction.resource_version.clone(),
            }),
            ..meta::DeleteOptions::default()
        }),
    };
    let params = PostParams::default();
    let answer: serde_json::Value = pods
        .create_subresource("eviction", &eviction.pod.name, &params, &request)
        .await?;
    tracing::debug!(pod = %eviction.pod, %answer, "evicted");
    Ok(())
}

/// Deletes exactly the pod that was judged.
async fn delete(context: &Context, eviction: &Eviction, seconds: u32) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &eviction.pod.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(seconds),
        preconditions: Some(Preconditions {
            uid: Some(eviction.pod.uid.clone()),
            resource_version: eviction.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    pods.delete(&eviction.pod.name, &params).await.map(drop)
}

/// Tells people what holds a Node, where it is not just a matter of seconds.
pub(super) async fn tell(context: &Context, known: &Known, holdup: &Holdup) {
    let (reason, note, transition) = match holdup {
        Holdup::Pods(waiting) => {
            let lasting: Vec<&Waiting> = waiting.iter().filter(|it| is_lasting(&it.why)).collect();
            if lasting.is_empty() {
                return;
            }
            let few = lasting.iter().take(TOLD_MAX);
            let few: Vec<String> = few.map(ToString::to_string).collect();
            let note = format!("{} pods do not leave: {}", lasting.len(), few.join("; "));
            // Each pod and cause once, however the rest changes.
            (names::REASON_FAILED_DRAINING, note, lasting[0].to_string())
        }
        Holdup::Volumes(volumes) => {
            let note = format!("waiting for volumes to be detached: {}", volumes.join(", "));
            (names::REASON_AWAITING_VOLUMES, note, String::new())
        }
    };
    let story = Story {
        kind: Kind::Normal,
        reason,
        action: "Drain",
        note,
        transition,
    };
    context.events.tell(&known.claim, story).await;
}

/// Whether somebody may have to act before the pod leaves.
fn is_lasting(why: &Why) -> bool {
    match why {
        Why::DoNotDisrupt(_) | Why::Budget(_) | Why::Budgets(_) => true,
        Why::Terminating | Why::Later(_) | Why::Refused(_) => false,
    }
}

/// Tells when the pods of a Node are removed at the latest.
pub(super) async fn tell_deadline(context: &Context, known: &Known, deadline: Timestamp) {
    let story = Story {
        kind: Kind::Normal,
        reason: names::REASON_GRACE_EXPIRING,
        action: "Drain",
        note: format!("pods that are still there at {deadline} are deleted then"),
        transition: String::new(),
    };
    context.events.tell(&known.claim, story).await;
}
