//! What is withheld, as known here: fed by the answers of our own writes and by the watch, in whatever order these come.
//!
//! The newer revision of an object wins, and what was lifted is remembered with its revision, so that a late answer or
//! event never brings back what is gone. There is no bound of size and no time to live: an entry that dropped out would
//! offer what is withheld. Whether a hold is over is judged on reading, by the time that is given.
//!
//! The cache is one that never waits: moka's other kind does its upkeep by the machine's clock inside of what is awaited,
//! and the same seed had two histories.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use moka::ops::compute::Op;
use moka::sync::Cache;

use super::hold;
use crate::api::{OfferingKey, UnavailableOffering};
use crate::model::{Hold, Withheld};

/// What is known of each key. Clones share it.
#[derive(Clone)]
pub(super) struct Holdings(Cache<OfferingKey, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    revision: u64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Held(Box<UnavailableOffering>),
    Lifted,
}

/// A list that is being read, to tell what is no longer there.
#[derive(Default)]
pub(super) struct Listing {
    before: BTreeMap<OfferingKey, u64>,
}

impl Holdings {
    pub(super) fn new() -> Self {
        Self(Cache::builder().build())
    }

    /// Takes in an object as it was written or seen.
    pub(super) fn apply(&self, object: &UnavailableOffering) {
        // One whose key means nothing withholds nothing.
        if let Some(key) = object.key() {
            let state = State::Held(Box::new(object.clone()));
            self.put(key, revision(object), state);
        }
    }

    /// Takes in that an object is gone.
    pub(super) fn lift(&self, object: &UnavailableOffering) {
        if let Some(key) = object.key() {
            self.put(key, revision(object), State::Lifted);
        }
    }

    fn put(&self, key: OfferingKey, revision: u64, state: State) {
        let newer = |known: Option<moka::Entry<OfferingKey, Entry>>| {
            let known = known.map(moka::Entry::into_value);
            // A deletion may be told with the revision that the object had before it.
            let outdated = known.is_some_and(|known| match (&known.state, &state) {
                (State::Held(_), State::Lifted) => known.revision > revision,
                _ => known.revision >= revision,
            });
            let entry = Entry { revision, state };
            if outdated { Op::Nop } else { Op::Put(entry) }
        };
        self.0.entry(key).and_compute_with(newer);
    }

    /// A list begins: what is known now and does not turn up in it is gone, unless it is written meanwhile.
    pub(super) fn listing(&self) -> Listing {
        let revisions = self
            .0
            .iter()
            .map(|(key, entry)| (OfferingKey::clone(&key), entry.revision));
        Listing {
            before: revisions.collect(),
        }
    }

    /// An object of the list.
    pub(super) fn listed(&self, listing: &mut Listing, object: &UnavailableOffering) {
        if let Some(key) = object.key() {
            listing.before.remove(&key);
        }
        self.apply(object);
    }

    /// The list is at its end.
    pub(super) fn end(&self, listing: Listing) {
        for (key, before) in listing.before {
            let gone = |known: Option<moka::Entry<OfferingKey, Entry>>| {
                let unchanged = known.is_some_and(|known| known.value().revision == before);
                let lifted = Entry {
                    revision: before,
                    state: State::Lifted,
                };
                if unchanged { Op::Put(lifted) } else { Op::Nop }
            };
            self.0.entry(key).and_compute_with(gone);
        }
    }

    /// What is withheld at `now`.
    pub(super) fn at(&self, now: Timestamp) -> Withheld {
        let holds = |it: &UnavailableOffering| it.spec.until.0 > now && !hold::is_misdated(it, now);
        let held = self.objects().into_iter().filter(|(_, it)| holds(it));
        let hold = |object: Box<UnavailableOffering>| Hold {
            until: object.spec.until.0,
            reason: object.spec.reason,
        };
        held.map(|(key, object)| (key, hold(object))).collect()
    }

    /// The objects that nobody needs any more at `now`, in order of their keys.
    pub(super) fn over(&self, now: Timestamp) -> Vec<UnavailableOffering> {
        let over = |it: &UnavailableOffering| hold::remembered_until(it) <= now || hold::is_misdated(it, now);
        let objects = self.objects().into_values();
        objects.filter(|it| over(it)).map(|it| *it).collect()
    }

    /// The objects with that reason, in order of their keys.
    pub(super) fn with_reason(&self, reason: &str) -> Vec<UnavailableOffering> {
        let objects = self.objects().into_values();
        objects
            .filter(|it| it.spec.reason == reason)
            .map(|it| *it)
            .collect()
    }

    /// Sorted at once: the cache gives its entries in an order of its own.
    fn objects(&self) -> BTreeMap<OfferingKey, Box<UnavailableOffering>> {
        let held = |(key, entry): (std::sync::Arc<OfferingKey>, Entry)| match entry.state {
            State::Held(object) => Some((OfferingKey::clone(&key), object)),
            State::Lifted => None,
        };
        self.0.iter().filter_map(held).collect()
    }
}

/// Revisions grow: Kubernetes promises that for objects of one kind.
fn revision(object: &UnavailableOffering) -> u64 {
    let version = object.resource_version();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::{CapacityType, Time};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object(revision: u64, until: i64) -> UnavailableOffering {
        let key = OfferingKey::all(CapacityType::Spot);
        let mut object = UnavailableOffering::withhold(&key, "Quota", Time(at(0)), Time(at(until)));
        object.metadata.resource_version = Some(revision.to_string());
        object
    }

    /// Until which second spot is withheld, as seen at the beginning of time.
    fn until(holdings: &Holdings) -> Option<i64> {
        let withheld = holdings.at(at(0));
        let mut seconds = withheld.iter().map(|(_, hold)| hold.until.as_second());
        seconds.next()
    }

    #[test]
    fn what_a_clock_far_ahead_has_dated_withholds_nothing_and_is_removed() {
        let holdings = Holdings::new();
        let key = OfferingKey::all(CapacityType::Spot);
        holdings.apply(&UnavailableOffering::withhold(
            &key,
            "Quota",
            Time(at(3600)),
            Time(at(4200)),
        ));
        assert_eq!(until(&holdings), None);
        assert_eq!(holdings.over(at(0)).len(), 1);
        assert_eq!(holdings.at(at(3600)).iter().count(), 1);
    }

    #[test]
    fn the_newer_revision_wins_in_whatever_order_they_come() {
        let holdings = Holdings::new();
        holdings.apply(&object(7, 70));
        holdings.apply(&object(5, 50));
        assert_eq!(until(&holdings), Some(70));
        holdings.lift(&object(6, 50));
        assert_eq!(until(&holdings), Some(70), "an older object was deleted");
        holdings.lift(&object(8, 70));
        assert_eq!(until(&holdings), None);
        holdings.apply(&object(7, 70));
        assert_eq!(until(&holdings), None, "a late answer brings nothing back");
        holdings.apply(&object(9, 90));
        assert_eq!(until(&holdings), Some(90));
    }

    #[test]
    fn a_list_drops_what_it_does_not_have_unless_it_is_written_meanwhile() {
        let holdings = Holdings::new();
        holdings.apply(&object(5, 50));
        let listing = holdings.listing();
        holdings.end(listing);
        assert_eq!(until(&holdings), None);
        holdings.apply(&object(6, 60));
        let listing = holdings.listing();
        holdings.apply(&object(7, 70));
        holdings.end(listing);
        assert_eq!(until(&holdings), Some(70));
        let mut listing = holdings.listing();
        holdings.listed(&mut listing, &object(6, 60));
        holdings.end(listing);
        assert_eq!(until(&holdings), Some(70), "listed, if not as new as known");
    }

    /// Something that is heard of one object.
    #[derive(Clone, Copy, Debug)]
    enum Heard {
        Written(u64, i64),
        Deleted(u64),
        ListedWithout,
    }

    fn anything() -> impl Strategy<Value = Heard> {
        prop_oneof![
            (1..9u64, 1..100i64).prop_map(|(revision, until)| Heard::Written(revision, until)),
            (1..9u64).prop_map(Heard::Deleted),
            Just(Heard::ListedWithout),
        ]
    }

    proptest! {
        /// S11: in whatever order things are heard, and whatever the clock says, nothing is served past its time, a
        /// later reading shows no more than an earlier one, and no object is followed by an older one.
        #[test]
        fn nothing_is_served_past_its_time_and_no_version_goes_backwards(
            heard in proptest::collection::vec((anything(), 0..120i64, 0..120i64), 1..24),
        ) {
            let (holdings, mut newest) = (Holdings::new(), 0);
            for (what, now, other) in heard {
                match what {
                    Heard::Written(revision, until) => holdings.apply(&object(revision, until)),
                    Heard::Deleted(revision) => holdings.lift(&object(revision, 1)),
                    Heard::ListedWithout => holdings.end(holdings.listing()),
                }
                for now in [now, other] {
                    prop_assert!(holdings.at(at(now)).iter().all(|(_, hold)| hold.until > at(now)));
                }
                let (early, late) = (now.min(other), now.max(other));
                let shown = |now| holdings.at(at(now)).iter().count();
                prop_assert!(shown(late) <= shown(early));
                for (_, object) in holdings.objects() {
                    prop_assert!(revision(&object) >= newest);
                    newest = revision(&object);
                }
            }
        }
    }

    #[test]
    fn a_hold_is_over_at_its_time() {
        let holdings = Holdings::new();
        holdings.apply(&object(5, 50));
        assert!(holdings.at(at(49)).iter().next().is_some());
        assert!(holdings.at(at(50)).iter().next().is_none());
        assert!(holdings.over(at(49)).is_empty());
        assert_eq!(holdings.over(at(50)).len(), 1);
    }
}
