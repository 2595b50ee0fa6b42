//! How long something is withheld.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::ObjectMeta;

use crate::api::{OfferingKey, Time, UnavailableOffering, names};
use crate::clock::{between, later};

/// Clocks of machines that are kept right differ by less.
const CLOCKS_DIFFER: Duration = Duration::from_mins(1);

/// Machines of one offering are taken back in waves, and each is seen more than once: what was withheld for that less than
/// this ago is not written again, which many would do at the same time.
const AT_ONCE: Duration = Duration::from_mins(1);

/// Why something is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The cloud took a machine of it back.
    Preempted,
    /// A machine of it is being switched off, perhaps taken back.
    Stopping,
    /// The zone has no hardware left for it.
    Shortage,
    /// The account's quota is used up.
    Quota,
}

/// For how long things are withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// After a preemption.
    pub preempted: Duration,
    /// While a machine is being switched off: until it is known what that was.
    pub stopping: Duration,
    /// After a shortage, the first time.
    pub shortage: Duration,
    /// After a shortage that keeps coming back, at most.
    pub shortage_max: Duration,
    /// After the quota was found used up, unless something is given back before.
    pub quota: Duration,
}

impl Default for Holds {
    /// An hour is how long the Go provider withholds what was preempted. Three minutes are a launch or two, so that a
    /// short shortage costs little. Ten are how long a person who raises a quota may be kept waiting.
    fn default() -> Self {
        Self {
            preempted: Duration::from_hours(1),
            // The notice of a preemption is 30 seconds, and a poll a minute.
            stopping: Duration::from_mins(2),
            shortage: Duration::from_mins(3),
            shortage_max: Duration::from_hours(1),
            quota: Duration::from_mins(10),
        }
    }
}

impl Cause {
    /// The word in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preempted => names::WITHHELD_PREEMPTED,
            Self::Stopping => names::WITHHELD_STOPPING,
            Self::Shortage => names::WITHHELD_SHORTAGE,
            Self::Quota => names::WITHHELD_QUOTA,
        }
    }
}

/// What to do about the object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// The one that is there says enough.
    Enough(UnavailableOffering),
    /// There is none: this one is to be.
    Create(UnavailableOffering),
    /// This one is to take the place of the one that is there.
    Replace(UnavailableOffering),
}

/// What to do about the object, given the one that is there.
///
/// Many claims meet one shortage at the same time, so a hold for a shortage that is going on is left as it is, and so is one
/// for a preemption that was written just now. A shortage that comes back within as long again as it was withheld doubles;
/// after that it begins anew. Nothing shortens a hold.
pub(super) fn next(
    present: Option<UnavailableOffering>,
    key: &OfferingKey,
    cause: Cause,
    holds: &Holds,
    now: Timestamp,
) -> Next {
    let sound = present.as_ref().filter(|it| !is_misdated(it, now));
    let until = later(now, new_length(sound, cause, holds, now));
    let wanted = UnavailableOffering::withhold(key, cause.as_str(), Time(now), Time(until));
    let Some(present) = present else {
        return Next::Create(wanted);
    };
    let goes_on = present.spec.until.0 > now && !is_misdated(&present, now);
    let is_the_same = match cause {
        Cause::Shortage => is_for_shortage(&present),
        Cause::Preempted => is_of_this_wave(&present, now),
        Cause::Stopping | Cause::Quota => false,
    };
    if goes_on && (is_the_same || present.spec.until.0 >= until) {
        return Next::Enough(present);
    }
    let metadata = ObjectMeta {
        managed_fields: None,
        ..present.metadata
    };
    Next::Replace(UnavailableOffering { metadata, ..wanted })
}

fn new_length(
    present: Option<&UnavailableOffering>,
    cause: Cause,
    holds: &Holds,
    now: Timestamp,
) -> Duration {
    match cause {
        Cause::Preempted => holds.preempted,
        Cause::Stopping => holds.stopping,
        Cause::Quota => holds.quota,
        Cause::Shortage => present
            .filter(|it| is_for_shortage(it) && now < remembered_until(it))
            .and_then(length)
            .map_or(holds.shortage, |last| last.saturating_mul(2))
            .clamp(holds.shortage, holds.shortage_max.max(holds.shortage)),
    }
}

/// Until when the object is needed: a hold for a shortage is remembered after its end, for as long again.
pub(super) fn remembered_until(object: &UnavailableOffering) -> Timestamp {
    let end = object.spec.until.0;
    let again = length(object).filter(|_| is_for_shortage(object));
    again.map_or(end, |again| later(end, again))
}

/// Whether an object was dated by a clock that was far ahead: what it withholds would be withheld until that time comes,
/// after a dead battery for years.
pub(super) fn is_misdated(object: &UnavailableOffering, now: Timestamp) -> bool {
    object
        .spec
        .since
        .is_some_and(|since| since.0 > later(now, CLOCKS_DIFFER))
}

fn is_of_this_wave(object: &UnavailableOffering, now: Timestamp) -> bool {
    let since = object.spec.since;
    object.spec.reason == names::WITHHELD_PREEMPTED && since.is_some_and(|it| now < later(it.0, AT_ONCE))
}

fn is_for_shortage(object: &UnavailableOffering) -> bool {
    object.spec.reason == names::WITHHELD_SHORTAGE
}

/// How long the hold lasts in all. One that a person wrote may not say when it began.
fn length(object: &UnavailableOffering) -> Option<Duration> {
    let since = object.spec.since?;
    Some(between(since.0, object.spec.until.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CapacityType;

    fn key() -> OfferingKey {
        OfferingKey::one(CapacityType::Spot, "bxf-4x16", "us-south-1").unwrap()
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// What is written, if anything is.
    fn after(
        present: Option<&UnavailableOffering>,
        cause: Cause,
        minute: i64,
    ) -> Option<UnavailableOffering> {
        match next(present.cloned(), &key(), cause, &Holds::default(), at(minute)) {
            Next::Enough(enough) => {
                assert_eq!(Some(&enough), present);
                None
            }
            Next::Create(object) => Some(object),
            Next::Replace(object) => {
                assert!(present.is_some());
                Some(object)
            }
        }
    }

    fn minutes(object: &UnavailableOffering) -> u64 {
        length(object).unwrap().as_secs() / 60
    }

    #[test]
    fn a_shortage_that_comes_back_doubles_from_three_minutes_to_an_hour() {
        let (mut present, mut now, mut lengths) = (None, 0, Vec::new());
        for _ in 0..7 {
            let object = after(present.as_ref(), Cause::Shortage, now).unwrap();
            lengths.push(minutes(&object));
            now = object.spec.until.0.as_second() / 60;
            present = Some(object);
        }
        assert_eq!(lengths, [3, 6, 12, 24, 48, 60, 60]);
    }

    #[test]
    fn a_shortage_that_comes_back_late_begins_anew() {
        let first = after(None, Cause::Shortage, 0).unwrap();
        assert_eq!(minutes(&after(Some(&first), Cause::Shortage, 5).unwrap()), 6);
        assert_eq!(minutes(&after(Some(&first), Cause::Shortage, 6).unwrap()), 3);
    }

    #[test]
    fn what_a_clock_that_was_far_ahead_has_withheld_is_written_anew() {
        let ahead = after(None, Cause::Shortage, 60).unwrap();
        assert!(is_misdated(&ahead, at(0)) && !is_misdated(&ahead, at(59)));
        let anew = after(Some(&ahead), Cause::Shortage, 0).unwrap();
        assert_eq!(anew.spec.until.0, at(3));
    }

    #[test]
    fn a_shortage_met_by_many_at_once_is_withheld_once() {
        let first = after(None, Cause::Shortage, 0).unwrap();
        assert_eq!(after(Some(&first), Cause::Shortage, 2), None);
    }

    #[test]
    fn a_wave_of_preemptions_is_withheld_once() {
        let first = after(None, Cause::Preempted, 0).unwrap();
        let within = |seconds| {
            let now = Timestamp::from_second(seconds).unwrap();
            next(
                Some(first.clone()),
                &key(),
                Cause::Preempted,
                &Holds::default(),
                now,
            )
        };
        assert_eq!(within(59), Next::Enough(first.clone()));
        assert!(matches!(within(60), Next::Replace(_)));
        let stopping = after(None, Cause::Stopping, 0).unwrap();
        assert_eq!(minutes(&after(Some(&stopping), Cause::Preempted, 0).unwrap()), 60);
    }

    #[test]
    fn nothing_shortens_a_hold() {
        let preempted = after(None, Cause::Preempted, 0).unwrap();
        assert_eq!(after(Some(&preempted), Cause::Shortage, 1), None);
        assert_eq!(after(Some(&preempted), Cause::Quota, 1), None);
        let longer = after(Some(&preempted), Cause::Preempted, 30).unwrap();
        assert_eq!(longer.spec.until.0, at(90));
        let short = after(None, Cause::Shortage, 0).unwrap();
        let long = after(Some(&short), Cause::Preempted, 1).unwrap();
        assert_eq!(
            (long.spec.reason.as_str(), long.spec.until.0),
            ("Preempted", at(61))
        );
    }

    #[test]
    fn a_hold_that_a_person_wrote_counts_and_has_no_length() {
        let mut written = after(None, Cause::Shortage, 0).unwrap();
        written.spec.since = None;
        assert_eq!(after(Some(&written), Cause::Shortage, 1), None);
        assert_eq!(minutes(&after(Some(&written), Cause::Shortage, 4).unwrap()), 3);
        assert_eq!(remembered_until(&written), at(3));
    }

    #[test]
    fn a_rewritten_hold_is_the_same_object() {
        let mut present = after(None, Cause::Shortage, 0).unwrap();
        present.metadata.resource_version = Some("7".to_owned());
        let again = after(Some(&present), Cause::Shortage, 4).unwrap();
        assert_eq!(again.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(again.validate(), Ok(()));
    }
}
