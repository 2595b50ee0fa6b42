//! Tells each pod what it waits for, or why nothing is done for it: once for each transition.
//!
//! Telling is best effort and keeps nobody waiting: what there is to tell goes through a bounded queue, and what does not
//! fit is told when the pod is looked at again.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

use super::make::Made;
use super::part;
use super::solve::{Poisoned, Solved};
use crate::api::names;
use crate::cluster::Situation;
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};
use crate::hash::fnv1a;
use crate::model::pod::Member;
use crate::model::{NodeKind, Snapshot};
use crate::scheduling::{Chooser, Destination, Refusal, Where, Why};

/// As many as there are pods in the largest batch that is counted with; a story is a few hundred bytes.
const QUEUE: usize = 20_000;
/// Events that are written at once.
const AT_ONCE: usize = 16;
/// The refusals that are told; the rest is counted.
const REFUSALS_TOLD: usize = 6;

/// Something to be told about an object.
#[derive(Debug)]
pub(super) struct Tongue {
    about: ObjectReference,
    story: Story,
}

/// A bounded queue of things to tell.
pub(super) fn channel() -> (mpsc::Sender<Tongue>, mpsc::Receiver<Tongue>) {
    mpsc::channel(QUEUE)
}

/// Tells what comes, for as long as this is polled.
pub(super) async fn run(context: Context, told: mpsc::Receiver<Tongue>) {
    let stories = futures::stream::unfold(told, |mut told| async move { Some((told.recv().await?, told)) });
    let events = context.events;
    stories
        .for_each_concurrent(AT_ONCE, move |tongue| {
            let events = events.clone();
            async move { events.tell_about(tongue.about, tongue.story).await }.boxed()
        })
        .await;
}

/// What was told last about each pod that waits, as a hash. A restart forgets it; events that are there already stay one.
pub(super) struct Telling {
    to: mpsc::Sender<Tongue>,
    last: BTreeMap<String, u64>,
}

impl Telling {
    pub(super) fn new(to: mpsc::Sender<Tongue>) -> Self {
        Self {
            to,
            last: BTreeMap::new(),
        }
    }

    /// Forgets pods that wait no more.
    pub(super) fn keep(&mut self, situation: &Situation) {
        let waiting: std::collections::BTreeSet<&str> = situation
            .snapshot
            .pending
            .members
            .iter()
            .map(|pod| pod.uid.as_str())
            .collect();
        self.last
            .retain(|uid, _| waiting.contains(uid.as_str()) || situation.held.contains_key(uid));
    }

    /// Tells every pod of a plan what is new for it.
    pub(super) fn tell(&mut self, solved: &Solved, made: &Made) {
        let snapshot = &solved.situation.snapshot;
        self.keep(&solved.situation);
        for placement in &solved.plan.placements {
            let pod = &snapshot.pending.members[placement.pod];
            let target = match placement.on {
                Destination::Existing(node) => Some(existing(snapshot, node)),
                Destination::New(claim) => made.claims.get(&claim).map(|name| format!("nodeclaim/{name}")),
            };
            if let Some(target) = target {
                self.story(pod, nominated(&target));
            }
        }
        for left_out in &solved.plan.left_out {
            let story = refused(&left_out.refusals);
            for pod in &left_out.pods {
                self.story(&snapshot.pending.members[*pod], story.clone());
            }
        }
        for it in &solved.poisoned {
            self.send(part::key(&it.object), it.object.clone(), poisoned(it));
        }
    }

    fn story(&mut self, pod: &Member, story: Story) {
        self.send(pod.uid.clone(), part::pod(pod), story);
    }

    fn send(&mut self, key: String, about: ObjectReference, story: Story) {
        let told = fnv1a(format!("{}\n{}", story.reason, story.transition).as_bytes());
        if self.last.get(&key) == Some(&told) {
            return;
        }
        if self.to.try_send(Tongue { about, story }).is_ok() {
            self.last.insert(key, told);
        }
    }
}

fn existing(snapshot: &Snapshot, at: usize) -> String {
    let node = &snapshot.nodes[at];
    match node.kind {
        NodeKind::Node => format!("node/{}", node.name),
        NodeKind::ClaimInFlight => format!("nodeclaim/{}", node.name),
    }
}

fn nominated(target: &str) -> Story {
    Story {
        kind: Kind::Normal,
        reason: names::REASON_NOMINATED,
        action: "Nominate",
        note: format!("Pod should schedule on {target}"),
        transition: target.to_owned(),
    }
}

fn refused(refusals: &[Refusal]) -> Story {
    let told: Vec<String> = refusals
        .iter()
        .take(REFUSALS_TOLD)
        .map(ToString::to_string)
        .collect();
    let rest = refusals.len().saturating_sub(REFUSALS_TOLD);
    let more = if rest > 0 {
        format!("; and {rest} more")
    } else {
        String::new()
    };
    // What is there already comes and goes; what pools refuse stays until somebody changes something.
    let lasting = |refusal: &&Refusal| !matches!(refusal.place, Where::Existing { .. });
    let mut same: Vec<String> = refusals.iter().filter(lasting).map(gist).collect();
    if same.is_empty() {
        same = refusals.iter().map(gist).collect();
    }
    Story {
        kind: Kind::Warning,
        reason: names::REASON_FAILED_SCHEDULING,
        action: "Plan",
        note: format!("No node can be found or bought: {}{more}", told.join("; ")),
        transition: same.join("\n"),
    }
}

fn poisoned(it: &Poisoned) -> Story {
    let kind = it.object.kind.as_deref().unwrap_or_default();
    let (reason, what, others) = match kind {
        "Pod" => (
            names::REASON_FAILED_SCHEDULING,
            "for this pod",
            "other pods do not wait for it",
        ),
        _ => (
            names::REASON_INTERNAL_ERROR,
            "with this in it",
            "until then pods are planned for as if it were not there",
        ),
    };
    Story {
        kind: Kind::Warning,
        reason,
        action: "Plan",
        note: format!(
            "No plan can be made {what} because of a mistake in karpenter-ibm, please report it: {}. It is tried again \
             from time to time, and {others}",
            it.said
        ),
        // Objects of several kinds may have one name, and not every uid is known.
        transition: format!("panic {kind}"),
    }
}

/// What stands in the way without its amounts and without which node is nearest, which change all the time.
fn gist(refusal: &Refusal) -> String {
    let place = match &refusal.place {
        Where::Everywhere => "everywhere",
        Where::Existing { .. } => "existing",
        Where::Pool(name) => name,
    };
    let why = match &refusal.why {
        Why::Resource { shortage, .. } => format!("resource {}", shortage.resource),
        Why::Limit { resource, .. } => format!("limit {resource}"),
        Why::Withheld { reason, .. } => format!("withheld {reason}"),
        Why::MinValues { who, key, .. } => match who {
            Chooser::Own => format!("min values {key}"),
            Chooser::Another => format!("min values {key} of another"),
        },
        Why::Spread { key, .. } => format!("spread {key}"),
        Why::VolumeLimit { driver, .. } => format!("volumes {driver}"),
        Why::Closed(_) => "closed".to_owned(),
        why => why.to_string(),
    };
    format!("{place}: {why}")
}
