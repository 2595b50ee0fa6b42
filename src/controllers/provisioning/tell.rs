//! Tells each pod what it waits for, or why nothing is done for it: once for each transition.
//!
//! Telling is best effort and keeps nobody waiting: what there is to tell is left to the `teller`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::make::{Made, Unmade};
use super::part;
use super::solve::{Poisoned, Solved};
use super::teller::Voice;
use crate::api::names;
use crate::cluster::{IN_VAIN_MAX, Situation};
use crate::controllers::events::{Kind, Story, shortened};
use crate::model::pod::Member;
use crate::model::{NodeKind, Snapshot};
use crate::scheduling::{Destination, LeftOut};

/// The refusals that are told; the rest is counted.
const REFUSALS_TOLD: usize = 6;

/// What is told with the last node that is bought for a pod.
const LAST_TRY: &str = ". Nodes were bought for this pod before, and it runs on none of them: this is the last until they \
                        go, or its NodePool or its IBMNodeClass changes. The scheduler's own events say what it lacks";

/// What there is to tell of plans.
pub(super) struct Telling(Voice);

impl Telling {
    pub(super) fn new(voice: Voice) -> Self {
        Self(voice)
    }

    /// Forgets pods that wait no more: for a place, for what was bought for them, or in vain. What is left out of plans, by
    /// its name (`part::key`), is in no situation and waits all the same.
    pub(super) fn keep(&self, situation: &Situation, quarantined: &BTreeSet<String>) {
        let waiting = situation.snapshot.pending.members.iter();
        let waiting: BTreeSet<&str> = waiting.map(|pod| pod.uid.as_str()).collect();
        self.0.keep(|key| {
            waiting.contains(key)
                || situation.held.contains_key(key)
                || situation.given_up.contains_key(key)
                || quarantined.contains(key)
        });
    }

    /// Tells every pod of a plan what is new for it.
    pub(super) fn tell(&self, solved: &Solved, made: &Made, quarantined: &BTreeSet<String>) {
        let snapshot = &solved.situation.snapshot;
        self.keep(&solved.situation, quarantined);
        for placement in &solved.plan.placements {
            let pod = &snapshot.pending.members[placement.pod];
            if let Some(story) = placed(&solved.situation, made, pod, placement.on) {
                self.story(pod, story);
            }
        }
        for left_out in &solved.plan.left_out {
            // One for all of them: there may be 20,000.
            let story = Arc::new(refused(left_out));
            for pod in &left_out.pods {
                self.story(&snapshot.pending.members[*pod], story.clone());
            }
        }
        for it in &solved.poisoned {
            self.0
                .say(part::key(&it.object), it.object.clone(), poisoned(it).into());
        }
    }

    fn story(&self, pod: &Member, story: impl Into<Arc<Story>>) {
        self.0.say(pod.uid.clone(), part::pod(pod), story.into());
    }
}

/// What a pod is told that has a place in the plan; of a claim, what became of it, if that is known.
pub(super) fn placed(situation: &Situation, made: &Made, pod: &Member, on: Destination) -> Option<Story> {
    let claim = match on {
        Destination::Existing(node) => return Some(nominated(&existing(&situation.snapshot, node))),
        Destination::New(claim) => claim,
    };
    let Some(name) = made.claims.get(&claim) else {
        return made.unmade.get(&claim).map(unmade);
    };
    let mut story = nominated(&format!("nodeclaim/{name}"));
    let in_vain = situation.in_vain.get(&pod.uid);
    if in_vain.is_some_and(|nodes| nodes + 1 >= IN_VAIN_MAX) {
        story.note.push_str(LAST_TRY);
    }
    Some(story)
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

pub(super) fn unmade(it: &Unmade) -> Story {
    Story {
        kind: Kind::Warning,
        reason: names::REASON_FAILED_SCHEDULING,
        action: "Plan",
        note: shortened(format!(
            "No NodeClaim can be made for this pod, which is tried again: {}",
            it.why
        )),
        // The words may differ from one time to the next; what is wrong does not.
        transition: format!("unmade {}", it.kind),
    }
}

pub(super) fn refused(left: &LeftOut) -> Story {
    let told: Vec<String> = left
        .refusals
        .iter()
        .take(REFUSALS_TOLD)
        .map(ToString::to_string)
        .collect();
    let rest = left.refusals.len().saturating_sub(REFUSALS_TOLD) + left.more;
    let more = if rest > 0 {
        format!("; and {rest} more")
    } else {
        String::new()
    };
    Story {
        kind: Kind::Warning,
        reason: names::REASON_FAILED_SCHEDULING,
        action: "Plan",
        note: shortened(format!(
            "No node can be found or bought: {}{more}",
            told.join("; ")
        )),
        transition: format!("{:016x}", left.gist),
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
