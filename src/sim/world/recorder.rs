//! Writes the history of a run, and shows each entry to whoever judges or prints it.
//!
//! There is one recorder for a run; all edges write into it, so the order of its entries is the order of events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Uri};
use tokio::sync::Notify;

use super::effects::Deed;
use crate::clock::Clock;
use crate::hash;
use crate::sim::history::{Answer, CarriedOut, Edge, Entry, History, Keep, Request, What, Who};

/// Sees each entry when it is written.
pub type Observer = Box<dyn FnMut(&Entry) + Send>;

/// The recorder of a run. Clones are the same recorder.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    clock: Clock,
    started: tokio::time::Instant,
    book: Mutex<Book>,
    observers: Mutex<Vec<Observer>>,
    tracers: Mutex<Vec<Observer>>,
    requests_max: u64,
    overrun: Notify,
}

struct Book {
    history: History,
    tally: Tally,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests, of everybody whose requests are recorded.
    pub requests: u64,
    /// Watch events that replicas were given.
    pub events: u64,
    /// Effects of replicas.
    pub effects: u64,
    /// Effects of replicas, by what they did.
    pub deeds: BTreeMap<Deed, u64>,
    /// When the last effect of a replica landed.
    pub last_effect: Duration,
}

/// How much an entry is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It is remembered and judged.
    Kept,
    /// It is in the hash only: heartbeats of actors, of which there are more than of everything else.
    Hashed,
}

/// A request at an edge, before it has a number.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Whose it is.
    pub who: Who,
    /// Where.
    pub edge: Edge,
    /// How.
    pub method: Method,
    /// What it is for.
    pub uri: Uri,
    /// What it says.
    pub body: Bytes,
    /// Whether it is remembered.
    pub worth: Worth,
}

impl Recorder {
    /// Begins a history now. Past `requests_max` requests the run is taken for one that never ends.
    pub fn new(clock: &Clock, keep: Keep, requests_max: u64) -> Self {
        Self(Arc::new(Inner {
            clock: clock.clone(),
            started: clock.instant(),
            book: Mutex::new(Book {
                history: History::new(keep),
                tally: Tally::default(),
            }),
            observers: Mutex::default(),
            tracers: Mutex::default(),
            requests_max,
            overrun: Notify::new(),
        }))
    }

    /// Shows every later entry to `tracer`, also what is in the hash only.
    pub fn trace(&self, tracer: Observer) {
        lock(&self.0.tracers).push(tracer);
    }

    /// Shows every later entry that is kept to `observer`.
    pub fn show(&self, observer: Observer) {
        lock(&self.0.observers).push(observer);
    }

    /// Since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.0.clock.instant() - self.0.started
    }

    /// Writes what happened.
    pub fn add(&self, who: Who, what: What) {
        self.write(who, what, Worth::Kept);
    }

    /// Writes a turn of events of the world.
    pub fn turn(&self, who: Who, turn: impl Into<String>) {
        self.add(who, What::Turn(turn.into()));
    }

    /// Writes a request, and gives it its number.
    pub fn request(&self, sent: &Sent) -> u64 {
        let number = {
            let mut book = lock(&self.0.book);
            book.tally.requests += 1;
            book.tally.requests
        };
        if number == self.0.requests_max {
            self.0.overrun.notify_one();
        }
        let request = Request {
            number,
            edge: sent.edge,
            method: sent.method.clone(),
            path: sent.uri.path().to_owned(),
            query: sent.uri.query().unwrap_or_default().to_owned(),
            hash: hash::body(&sent.body),
            body: sent.body.clone(),
        };
        self.write(sent.who.clone(), What::Request(request), sent.worth);
        number
    }

    /// Writes what became of a request.
    pub fn answer(&self, sent: &Sent, number: u64, told: Option<(u16, Bytes)>, carried_out: CarriedOut) {
        self.answer_asking(sent, number, told, carried_out, None);
    }

    /// Writes what became of a request, and when the client was asked to come again.
    pub fn answer_asking(
        &self,
        sent: &Sent,
        number: u64,
        told: Option<(u16, Bytes)>,
        carried_out: CarriedOut,
        retry_after: Option<String>,
    ) {
        let (status, body) = told.map_or((None, Bytes::new()), |(status, body)| (Some(status), body));
        let answer = Answer {
            number,
            carried_out,
            status,
            hash: hash::body(&body),
            body,
            retry_after,
        };
        self.write(sent.who.clone(), What::Answer(answer), sent.worth);
    }

    /// Writes an event that a watch delivered.
    pub fn event(&self, who: Who, event: What) {
        lock(&self.0.book).tally.events += 1;
        self.add(who, event);
    }

    /// Writes into the hash only what happened.
    pub fn pass(&self, who: Who, what: What) {
        self.write(who, what, Worth::Hashed);
    }

    /// Counts an effect of a replica.
    pub fn effect(&self, deed: Deed) {
        let at = self.elapsed();
        let tally = &mut lock(&self.0.book).tally;
        tally.effects += 1;
        tally.last_effect = at;
        *tally.deeds.entry(deed).or_default() += 1;
    }

    /// When the last effect of a replica landed.
    pub fn last_effect(&self) -> Duration {
        lock(&self.0.book).tally.last_effect
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        lock(&self.0.book).tally.clone()
    }

    /// The history so far.
    pub fn history(&self) -> History {
        lock(&self.0.book).history.clone()
    }

    /// Returns when there were more requests than a run can have.
    pub async fn overrun(&self) {
        self.0.overrun.notified().await;
    }

    fn write(&self, who: Who, what: What, worth: Worth) {
        let entry = Entry {
            at: self.elapsed(),
            who,
            what,
        };
        for tracer in lock(&self.0.tracers).iter_mut() {
            tracer(&entry);
        }
        if worth == Worth::Hashed {
            return lock(&self.0.book).history.pass(&entry);
        }
        // Observers look at the servers and may not look here: the book is closed meanwhile.
        for observer in lock(&self.0.observers).iter_mut() {
            observer(&entry);
        }
        lock(&self.0.book).history.add(entry);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
        Recorder::new(&clock, Keep::All, 3)
    }

    fn sent(worth: Worth) -> Sent {
        Sent {
            who: Who::User,
            edge: Edge::Kube,
            method: Method::GET,
            uri: Uri::from_static("/api/v1/pods?limit=5"),
            body: Bytes::new(),
            worth,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_numbered_and_answers_refer_to_them() {
        let recorder = recorder();
        let number = recorder.request(&sent(Worth::Kept));
        recorder.answer(&sent(Worth::Kept), number, None, CarriedOut::Yes);
        let history = recorder.history();
        let entries: Vec<String> = history.entries().map(ToString::to_string).collect();
        assert_eq!(number, 1);
        assert!(
            entries[0].contains("> 1 Kube GET /api/v1/pods?limit=5"),
            "{entries:?}"
        );
        assert!(entries[1].contains("< 1 lost carried-out=Yes"), "{entries:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn observers_see_what_is_kept_and_tracers_everything() {
        let recorder = recorder();
        let (seen, traced) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let (count, all) = (Arc::clone(&seen), Arc::clone(&traced));
        recorder.show(Box::new(move |_| *count.lock().unwrap() += 1));
        recorder.trace(Box::new(move |_| *all.lock().unwrap() += 1));
        recorder.request(&sent(Worth::Hashed));
        recorder.request(&sent(Worth::Kept));
        assert_eq!(*seen.lock().unwrap(), 1);
        assert_eq!(*traced.lock().unwrap(), 2);
        assert_eq!(recorder.history().count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_requests_are_noticed() {
        let recorder = recorder();
        for _ in 0..3 {
            recorder.request(&sent(Worth::Kept));
        }
        recorder.overrun().await;
    }
}
