//! What a NodeClaim says about its own life. Everything that must outlive a crash is read from here.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::waiting::BLOCKERS;
use super::{End, Limits};
use crate::api::{Allocation, Condition, NodeClaim, names};
use crate::clock::{between, later};

/// What a claim says, as far as its next step hangs on it.
pub trait Facts {
    /// Whether it is to go.
    fn is_deleting(&self) -> bool;
    /// Whether it waits for us before it goes.
    fn has_finalizer(&self) -> bool;
    /// What it holds, or is about to buy.
    fn allocation(&self) -> Option<&Allocation>;
    /// Whether a condition is true.
    fn is(&self, condition: &str) -> bool;
    /// Whether its machine was seen running.
    fn is_launched(&self) -> bool;
    /// Why the cloud has refused its order for good, and since when: the same order would be refused again.
    fn refusal(&self) -> Option<(&str, Timestamp)>;
    /// How it has come to its end, if it has.
    fn end(&self) -> Option<End>;
    /// Since when nothing has been left to buy for it.
    fn short_since(&self) -> Option<Timestamp>;
    /// What went wrong with its present attempt.
    fn fault(&self) -> Option<&str>;
    /// Since when a condition has been true.
    fn since(&self, condition: &str) -> Option<Timestamp>;
    /// Since when its machine has been found nowhere.
    fn absent_since(&self) -> Option<Timestamp>;
    /// Until when an order that was repeated may be carried out.
    fn unsettled_until(&self) -> Option<Timestamp>;
    /// When its Node's pods are removed at the latest, if that was written.
    fn deadline(&self) -> Option<Timestamp>;
    /// The status of a condition, and since when it has been that.
    fn state(&self, condition: &str) -> Option<(&str, Timestamp)>;
    /// What it says of a condition that is not known yet: as one word, and for people.
    fn word(&self, condition: &str) -> Option<(&str, &str)>;
    /// Whether it says that nothing is bought for it before something else happens.
    fn is_blocked(&self) -> bool;
}

impl Facts for NodeClaim {
    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn has_finalizer(&self) -> bool {
        self.finalizers()
            .iter()
            .any(|name| name == names::TERMINATION_FINALIZER)
    }

    fn allocation(&self) -> Option<&Allocation> {
        self.status.as_ref()?.allocation.as_ref()
    }

    fn is(&self, type_: &str) -> bool {
        condition(self, type_).is_some_and(|it| it.status == "True")
    }

    fn is_launched(&self) -> bool {
        let has_id = |claim: &Self| {
            claim
                .status
                .as_ref()
                .is_some_and(|status| status.provider_id.is_some())
        };
        self.is(names::LAUNCHED) && has_id(self)
    }

    fn refusal(&self) -> Option<(&str, Timestamp)> {
        // Where an older definition has dropped what was ordered, nobody would look whether it came: it is ordered anew.
        self.allocation()?;
        let refused = condition(self, names::LAUNCHED)
            .filter(|it| it.status == "Unknown" && is_for(it, names::REASON_LAUNCH_REFUSED))?;
        let why = refused.message.as_deref().unwrap_or_default();
        Some((why, refused.last_transition_time.0))
    }

    fn end(&self) -> Option<End> {
        End::ALL.into_iter().find_map(|(type_, reason)| {
            let ended = condition(self, type_).filter(|it| it.status == "False" && is_for(it, reason))?;
            Some(End {
                condition: type_,
                reason,
                message: ended.message.clone().unwrap_or_default(),
            })
        })
    }

    fn short_since(&self) -> Option<Timestamp> {
        let short = condition(self, names::LAUNCHED)
            .filter(|it| it.status == "Unknown" && is_for(it, names::REASON_INSUFFICIENT_CAPACITY))?;
        Some(short.last_transition_time.0)
    }

    fn fault(&self) -> Option<&str> {
        let failed = condition(self, names::LAUNCHED)
            .filter(|it| it.status == "Unknown" && is_for(it, names::REASON_LAUNCH_FAILED))?;
        failed.message.as_deref()
    }

    fn since(&self, type_: &str) -> Option<Timestamp> {
        let fulfilled = condition(self, type_).filter(|it| it.status == "True")?;
        Some(fulfilled.last_transition_time.0)
    }

    fn absent_since(&self) -> Option<Timestamp> {
        time(self, names::MACHINE_ABSENT_SINCE)
    }

    fn unsettled_until(&self) -> Option<Timestamp> {
        time(self, names::ORDER_UNSETTLED_UNTIL)
    }

    fn deadline(&self) -> Option<Timestamp> {
        time(self, names::TERMINATION_TIMESTAMP)
    }

    fn state(&self, type_: &str) -> Option<(&str, Timestamp)> {
        let found = condition(self, type_)?;
        Some((found.status.as_str(), found.last_transition_time.0))
    }

    fn word(&self, type_: &str) -> Option<(&str, &str)> {
        let unknown = condition(self, type_).filter(|it| it.status == "Unknown")?;
        Some((unknown.reason.as_deref()?, unknown.message.as_deref()?))
    }

    fn is_blocked(&self) -> bool {
        let word = self.word(names::LAUNCHED);
        word.is_some_and(|(reason, _)| BLOCKERS.contains(&reason))
    }
}

fn condition<'a>(claim: &'a NodeClaim, type_: &str) -> Option<&'a Condition> {
    let conditions = claim.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == type_)
}

fn is_for(condition: &Condition, reason: &str) -> bool {
    condition.reason.as_deref() == Some(reason)
}

/// A time in an annotation. What cannot be read counts as absent, so it is written anew.
fn time(claim: &NodeClaim, annotation: &str) -> Option<Timestamp> {
    claim.annotations().get(annotation)?.parse().ok()
}

/// The last word on when an order for this claim may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Not after this.
    Until(Timestamp),
    /// The claim bears a time of the future, from a clock that was ahead: it must be written anew.
    Unreadable,
}

/// How long an order may be under way from the intent on: until it is sent, and until it is carried out.
pub fn window(limits: &Limits) -> Duration {
    limits.send_within + limits.late_create
}

/// Until when an order may be carried out. Without an allocation there was none.
pub fn doubt(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> Doubt {
    let first = claim.allocation().map(|allocation| allocation.since.0);
    let repeated = claim.unsettled_until();
    if repeated.is_some_and(|until| until > later(now, window(limits))) {
        return Doubt::Unreadable;
    }
    match (first, repeated) {
        (Some(first), None) if first > now => Doubt::Unreadable,
        // A future time of the allocation is overruled by an annotation that was written since.
        (Some(first), Some(until)) if first > now => Doubt::Until(until),
        (first, repeated) => {
            let first = first.map(|at| later(at, window(limits)));
            Doubt::Until(first.max(repeated).unwrap_or(Timestamp::MIN))
        }
    }
}

/// How soon an order must be sent on the intent that the claim bears, so that it cannot be carried out later than
/// [`doubt`] says; `None` if the intent is too old for that.
pub fn time_to_send(claim: &NodeClaim, limits: &Limits, now: Timestamp) -> Option<Duration> {
    match doubt(claim, limits, now) {
        Doubt::Until(until) => between(now, until).checked_sub(limits.late_create),
        Doubt::Unreadable => None,
    }
}
