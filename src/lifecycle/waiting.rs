//! What a claim says while it waits: why nothing is bought for it, why its machine has not joined, what its Node lacks.
//!
//! Said once, and again only when it is something else. A claim that takes its usual way says nothing: each word is a
//! write. While a condition stays unknown it keeps its time, so a word about the purchase is taken back before another
//! is said whose time counts.

use std::time::Duration;

use jiff::Timestamp;

use super::facts::Facts;
use super::joining::{clock_runs, is_overdue, lacks};
use super::{Blocker, Limits, Observed, Step, Word};
use crate::api::{NodeClaim, names};
use crate::clock::later;

/// Why a claim is not bought for, until somebody or something else acts.
pub(super) const BLOCKERS: [&str; 3] = [
    names::REASON_LAUNCH_BLOCKED,
    names::REASON_HELD_BACK,
    names::REASON_NAME_TAKEN,
];

/// Whether [`super::next`] will want to know why a claim's machine has not joined.
pub fn needs_diagnosis(claim: &NodeClaim, followed_for: Duration, limits: &Limits, now: Timestamp) -> bool {
    let waits = waits_long(claim, limits, now) || is_overdue(claim, followed_for, limits, now);
    waits && !claim.is(names::NODE_REGISTERED)
}

/// Says what a claim whose machine runs has waited for, if it does not yet.
pub(super) fn explain(
    claim: &NodeClaim,
    observed: &Observed,
    limits: &Limits,
    now: Timestamp,
) -> Option<Step> {
    if !waits_long(claim, limits, now) {
        return None;
    }
    let word = if claim.is(names::NODE_REGISTERED) {
        lacks(claim, observed.node.as_ref())?
    } else {
        let known = observed.diagnosis.as_ref()?;
        Word {
            condition: names::NODE_REGISTERED,
            reason: known.reason,
            message: known.message.clone(),
        }
    };
    (!is_said(claim, &word)).then_some(Step::Explain(word))
}

/// When it is looked next why a claim still waits: after as long again as it has waited, which is four times at most
/// before the limit of joining.
pub(super) fn next_look(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    let (since, _) = clock_runs(claim, limits)?;
    // A start in the future is that of a clock that was ahead.
    let since = since.min(now);
    let mut after = limits.explain;
    while later(since, after) <= now {
        after = after.saturating_mul(2);
    }
    Some(later(since, after))
}

/// What a claim that does not get on is to say, if it does not yet. What it says of an attempt that failed, or of a
/// shortage, stays: more hangs on that.
pub fn blocked(claim: &NodeClaim, blocker: &Blocker) -> Option<Word> {
    let word = Word {
        condition: blocker.condition(),
        reason: blocker.reason(),
        message: match blocker {
            Blocker::HeldBack(held_back) => format!("{}: {}", held_back.breaker, held_back.why),
            blocker => blocker.to_string(),
        },
    };
    let is_free = match blocker {
        Blocker::Impostor(_) => true,
        _ => claim.state(names::LAUNCHED).is_none() || claim.is_blocked(),
    };
    (is_free && !claim.is_deleting() && !is_said(claim, &word)).then_some(word)
}

fn waits_long(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> bool {
    clock_runs(claim, limits).is_some_and(|(since, _)| later(since, limits.explain) <= now)
}

fn is_said(claim: &NodeClaim, word: &Word) -> bool {
    let Some((reason, message)) = claim.word(word.condition) else {
        return false;
    };
    reason == word.reason && essence(reason, message) == essence(reason, &word.message)
}

/// Of a message, what is worth another write: not the numbers of a breaker, nor what a kubelet reports every ten seconds.
fn essence<'a>(reason: &str, message: &'a str) -> &'a str {
    match reason {
        names::REASON_HELD_BACK => message.split(':').next().unwrap_or_default(),
        names::REASON_NODE_NOT_READY => "",
        _ => message,
    }
}
