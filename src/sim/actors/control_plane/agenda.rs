//! Which actor is to be asked, and when.
//!
//! An actor is asked when a kind that it reads has changed, when its own time has come, or a while after a write of
//! its was refused. Heartbeats wake nobody.

use std::time::Duration;

use jiff::Timestamp;

use super::next::Actor;
use crate::clock::later;
use crate::sim::actors::view::{Change, Kind};

/// How long an actor whose write was refused waits, unless what it sees changes first.
pub(super) const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// How often an actor may be asked within the same instant. One that answers every change with another change would
/// keep a paused clock from moving; a deployment of hundreds settles in far fewer rounds.
const ASKED_MAX: u32 = 1_000;

/// The actors, and what each waits for.
pub(super) struct Agenda<'a> {
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    actor: &'a Actor,
    changed: bool,
    again_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
    asked: u32,
}

impl<'a> Agenda<'a> {
    /// Everybody is to be asked once.
    pub(super) fn new(actors: &'a [Actor]) -> Self {
        let entry = |actor| Entry {
            actor,
            changed: true,
            again_at: None,
            asked_at: None,
            asked: 0,
        };
        Self {
            entries: actors.iter().map(entry).collect(),
        }
    }

    /// A kind changed.
    pub(super) fn note(&mut self, kind: Kind, change: Change) {
        if change < Change::Content {
            return;
        }
        for entry in &mut self.entries {
            entry.changed |= entry.actor.reads.contains(&kind);
        }
    }

    /// The first actor that is to be asked now, if there is one; it is taken as asked.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<(usize, &'a Actor)> {
        let ready = self.entries.iter_mut().enumerate().find_map(|(index, entry)| {
            let due = entry.again_at.is_some_and(|at| at <= now);
            (entry.may_be_asked(now) && (entry.changed || due)).then_some((index, entry))
        });
        let (index, entry) = ready?;
        if entry.asked_at != Some(now) {
            (entry.asked_at, entry.asked) = (Some(now), 0);
        }
        (entry.asked, entry.changed, entry.again_at) = (entry.asked + 1, false, None);
        Some((index, entry.actor))
    }

    /// An actor wants to be asked again at a time, at the latest.
    pub(super) fn again(&mut self, index: usize, at: Option<Timestamp>) {
        let entry = &mut self.entries[index];
        entry.again_at = match (entry.again_at, at) {
            (Some(known), Some(at)) => Some(known.min(at)),
            (known, at) => known.or(at),
        };
    }

    /// When somebody is to be asked next if nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.entries.iter().filter_map(Entry::due).min()
    }
}

impl Entry<'_> {
    fn may_be_asked(&self, now: Timestamp) -> bool {
        self.asked_at != Some(now) || self.asked < ASKED_MAX
    }

    fn due(&self) -> Option<Timestamp> {
        // Still changed after everybody was asked: it has been asked too often.
        let held_back = self.asked_at.filter(|_| self.changed);
        let held_back = held_back.map(|at| later(at, AFTER_REFUSAL));
        [held_back, self.again_at].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::actors::control_plane::Next;

    const ACTORS: [Actor; 2] = [
        Actor {
            name: "one",
            reads: &[Kind::Pod],
            glances: &[],
            next: |_, _| Next::default(),
        },
        Actor {
            name: "two",
            reads: &[Kind::Pod, Kind::Node],
            glances: &[Kind::Lease],
            next: |_, _| Next::default(),
        },
    ];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn asked(agenda: &mut Agenda<'_>, now: Timestamp) -> Vec<&'static str> {
        std::iter::from_fn(|| agenda.take(now).map(|(_, actor)| actor.name)).collect()
    }

    #[test]
    fn everybody_is_asked_once_and_then_when_what_they_read_has_changed() {
        let mut agenda = Agenda::new(&ACTORS);
        assert_eq!(asked(&mut agenda, at(0)), ["one", "two"]);
        assert_eq!(agenda.due(), None);
        agenda.note(Kind::Node, Change::Content);
        assert_eq!(asked(&mut agenda, at(1)), ["two"]);
        agenda.note(Kind::Pod, Change::Nothing);
        agenda.note(Kind::Node, Change::Heartbeat);
        agenda.note(Kind::Lease, Change::Content);
        assert!(asked(&mut agenda, at(1)).is_empty());
    }

    #[test]
    fn an_actor_is_asked_at_its_own_time_the_earliest_that_was_wished() {
        let mut agenda = Agenda::new(&ACTORS);
        asked(&mut agenda, at(0));
        agenda.again(1, Some(at(9)));
        agenda.again(1, Some(at(5)));
        agenda.again(1, None);
        assert_eq!(agenda.due(), Some(at(5)));
        assert!(asked(&mut agenda, at(4)).is_empty());
        assert_eq!(asked(&mut agenda, at(5)), ["two"]);
        assert_eq!(agenda.due(), None);
    }

    #[test]
    fn an_actor_that_never_comes_to_rest_lets_time_pass() {
        let mut agenda = Agenda::new(&ACTORS);
        let mut times = 0;
        while agenda.take(at(7)).is_some() {
            agenda.note(Kind::Node, Change::Content);
            times += 1;
        }
        assert_eq!(times, 1 + ASKED_MAX);
        assert_eq!(agenda.due(), Some(at(8)));
        assert_eq!(agenda.take(at(8)).map(|(index, _)| index), Some(1));
    }
}
