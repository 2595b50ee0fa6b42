//! Tells each pod what it waits for, or why nothing is done for it: once for each transition.
//!
//! Telling is best effort and keeps nobody waiting: what there is to tell is left to the `teller`.

use std::collections::BTreeSet;

use super::make::{Made, Unmade};
use super::part;
use super::solve::{Poisoned, Solved};
use super::teller::Voice;
use crate::api::names;
use crate::cluster::{IN_VAIN_MAX, Situation};
use crate::controllers::events::{Kind, Story};
use crate::model::pod::Member;
use crate::model::{NodeKind, Snapshot};
use crate::scheduling::{Chooser, Destination, Refusal, Where, Why};

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

    /// Forgets pods that wait no more.
    pub(super) fn keep(&self, situation: &Situation) {
        let waiting = situation.snapshot.pending.members.iter();
        let waiting: BTreeSet<&str> = waiting.map(|pod| pod.uid.as_str()).collect();
        self.0
            .keep(|uid| waiting.contains(uid) || situation.held.contains_key(uid));
    }

    /// Tells every pod of a plan what is new for it.
    pub(super) fn tell(&self, solved: &Solved, made: &Made) {
        let snapshot = &solved.situation.snapshot;
        self.keep(&solved.situation);
        for placement in &solved.plan.placements {
            let pod = &snapshot.pending.members[placement.pod];
            if let Some(story) = placed(&solved.situation, made, pod, placement.on) {
                self.story(pod, story);
            }
        }
        for left_out in &solved.plan.left_out {
            let story = refused(&left_out.refusals);
            for pod in &left_out.pods {
                self.story(&snapshot.pending.members[*pod], story.clone());
            }
        }
        for it in &solved.poisoned {
            self.0.say(part::key(&it.object), it.object.clone(), poisoned(it));
        }
    }

    fn story(&self, pod: &Member, story: Story) {
        self.0.say(pod.uid.clone(), part::pod(pod), story);
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

fn unmade(it: &Unmade) -> Story {
    Story {
        kind: Kind::Warning,
        reason: names::REASON_FAILED_SCHEDULING,
        action: "Plan",
        note: format!(
            "No NodeClaim can be made for this pod, which is tried again: {}",
            it.why
        ),
        // The words may differ from one time to the next; what is wrong does not.
        transition: format!("unmade {}", it.kind),
    }
}

pub(super) fn refused(refusals: &[Refusal]) -> Story {
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
    // Which comes nearest hangs on amounts.
    same.sort_unstable();
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
