//! What a job says of itself. First what will become of it (`SuccessCriteriaMet`, `FailureTarget`), then, when none of
//! its pods runs any more, that it did (`Complete`, `Failed`), as Kubernetes does since 1.31.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};

use super::super::pods::{count, is_ready};
use super::super::status::{corrected, moment, some};
use super::{Pass, indexes, is_indexed};
use crate::sim::actors::control_plane::Next;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const WILL_COMPLETE: &str = "SuccessCriteriaMet";
const WILL_FAIL: &str = "FailureTarget";
const SUSPENDED: &str = "Suspended";

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Going,
    /// Enough pods have succeeded.
    Succeeded,
    /// It is given up.
    Failed { reason: String, message: String },
}

impl Verdict {
    pub(super) fn failed(reason: &str, message: &str) -> Self {
        Self::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// When a job finished, if it did.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let ended = holds(job, COMPLETE).or(holds(job, FAILED))?;
    ended.last_transition_time.as_ref().map(|time| time.0)
}

/// What was decided about a job before.
pub(super) fn decided(job: &Job) -> Option<Verdict> {
    if holds(job, WILL_COMPLETE).is_some() {
        return Some(Verdict::Succeeded);
    }
    holds(job, WILL_FAIL).map(|known| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Verdict::Failed {
            reason: text(&known.reason),
            message: text(&known.message),
        }
    })
}

fn holds<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The status that a job should have, if it is another.
pub(super) fn report(pass: &Pass<'_>, verdict: &Verdict) -> Next {
    let old = pass.job.status.as_ref();
    let known = old.cloned().unwrap_or_default();
    let suspended = pass.spec.suspend == Some(true);
    // Pods that are deleted in this pass count as gone with the next.
    let is_over = pass.active.is_empty() && pass.terminating() == 0 && pass.ledger.is_settled();
    let conditions = conditions(pass, verdict, is_over, known.conditions.unwrap_or_default());
    let succeeded = if is_indexed(pass.spec) {
        count(&pass.ledger.completed)
    } else {
        pass.ledger.succeeded.counted
    };
    let completed = *verdict == Verdict::Succeeded && is_over;
    let status = JobStatus {
        active: some(count(&pass.active)),
        ready: Some(count(pass.active.iter().filter(|pod| is_ready(pod)))),
        terminating: Some(pass.terminating()),
        succeeded: some(succeeded),
        failed: some(pass.ledger.failed.counted),
        completed_indexes: Some(indexes::format(&pass.ledger.completed))
            .filter(|text| is_indexed(pass.spec) && !text.is_empty()),
        start_time: known
            .start_time
            .filter(|_| !suspended)
            .or((!suspended).then(|| moment(pass.now))),
        completion_time: completed.then(|| moment(pass.now)),
        conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
        failed_indexes: known.failed_indexes,
        uncounted_terminated_pods: pass.ledger.uncounted(),
    };
    Next {
        acts: corrected(pass.job, old, &status).into_iter().collect(),
        again_at: None,
    }
}

fn conditions(
    pass: &Pass<'_>,
    verdict: &Verdict,
    is_over: bool,
    mut known: Vec<JobCondition>,
) -> Vec<JobCondition> {
    let suspended = pass.spec.suspend == Some(true);
    let was_suspended = known
        .iter()
        .any(|one| one.type_ == SUSPENDED && one.status == "True");
    match (suspended, was_suspended) {
        (true, false) => set(
            &mut known,
            SUSPENDED,
            "True",
            ("JobSuspended", "Job suspended"),
            pass.now,
        ),
        (false, true) => set(
            &mut known,
            SUSPENDED,
            "False",
            ("JobResumed", "Job resumed"),
            pass.now,
        ),
        _ => {}
    }
    let (will, done, why) = match verdict {
        Verdict::Going => return known,
        Verdict::Succeeded => (
            WILL_COMPLETE,
            COMPLETE,
            ("CompletionsReached", "Reached expected number of succeeded pods"),
        ),
        Verdict::Failed { reason, message } => (WILL_FAIL, FAILED, (reason.as_str(), message.as_str())),
    };
    set(&mut known, will, "True", why, pass.now);
    if is_over {
        set(&mut known, done, "True", why, pass.now);
    }
    known
}

fn set(
    known: &mut Vec<JobCondition>,
    type_: &str,
    status: &str,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let place = known.iter().position(|one| one.type_ == type_);
    if place.is_some_and(|place| known[place].status == status) {
        return;
    }
    let condition = JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(moment(now)),
        last_transition_time: Some(moment(now)),
    };
    match place {
        Some(place) => known[place] = condition,
        None => known.push(condition),
    }
}
