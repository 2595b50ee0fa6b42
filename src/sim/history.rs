//! The trace of a run: every request, every answer and every delivered watch event, in order, with virtual time.
//!
//! One seed, one history: the running [`History::hash`] covers every entry, so two runs of a seed are compared by it.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use http::Method;

use crate::hash;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Since the start of the run.
    pub at: Duration,
    /// Whose doing it is.
    pub who: Who,
    /// What it is.
    pub what: What,
}

/// Somebody in the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// A replica of the operator, and how often it was started before.
    Replica {
        /// Which, from 0.
        number: usize,
        /// Its life, from 0: a crash ends one.
        life: u64,
    },
    /// The rest of the cluster.
    Actor(&'static str),
    /// Whoever plays the scenario's steps, or meddles.
    User,
    /// The world itself: faults, crashes, phases.
    World,
}

/// One of the two edges of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// The Kubernetes API.
    Kube,
    /// IBM Cloud.
    Cloud,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A request was sent.
    Request(Request),
    /// Its answer came, or did not.
    Answer(Answer),
    /// A watch delivered an event.
    Event {
        /// The request that opened the watch.
        number: u64,
        /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
        kind: String,
        /// The object, as `namespace/name`.
        object: String,
        /// Its resourceVersion.
        version: String,
        /// Of the whole event.
        hash: u64,
    },
    /// A fault struck.
    Fault {
        /// Its name in plans and reports.
        name: &'static str,
        /// To what.
        detail: String,
    },
    /// A replica was started, crashed, paused, resumed; or the world entered another phase.
    Turn(String),
}

/// A request at an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Numbers all requests of a run, from 1.
    pub number: u64,
    /// Where.
    pub edge: Edge,
    /// How.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// Of the body.
    pub hash: u64,
    /// The body, where somebody may want to look at it.
    pub body: bytes::Bytes,
}

/// An answer at an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub number: u64,
    /// Whether it was carried out, whatever the client was told.
    pub carried_out: CarriedOut,
    /// What the client was told: a status, or nothing (the connection was lost).
    pub status: Option<u16>,
    /// Of the body that the client was given.
    pub hash: u64,
    /// The body that the client was given; empty for streams.
    pub body: bytes::Bytes,
    /// When the client was asked to come again, as the header says it.
    pub retry_after: Option<String>,
}

/// Whether a request reached its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CarriedOut {
    /// It was answered by the server, whoever heard it.
    Yes,
    /// It never got there.
    No,
    /// Only the server knows.
    Unknown,
}

/// How much of a history is remembered. The hash covers all of it either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything, to tell it as a story.
    All,
    /// The last so many.
    Last(usize),
}

/// The entries of a run.
#[derive(Clone, Debug)]
pub struct History {
    keep: Keep,
    entries: VecDeque<Entry>,
    count: u64,
    hash: u64,
}

impl History {
    /// Nothing yet.
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            entries: VecDeque::new(),
            count: 0,
            hash: 0,
        }
    }

    /// Adds what happened.
    pub fn add(&mut self, entry: Entry) {
        self.pass(&entry);
        if let Keep::Last(most) = self.keep
            && self.entries.len() >= most
        {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Adds to the hash and the count what is not worth remembering: heartbeats and the like.
    pub fn pass(&mut self, entry: &Entry) {
        let mut mixer = Mixer(self.hash);
        mixer.write_u64(fingerprint(entry));
        self.hash = mixer.finish();
        self.count += 1;
    }

    /// Of everything that happened so far, in order.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How much happened.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What is remembered, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

/// Bodies are represented by their hashes. There are thirty thousand entries in an hour, so no text is made of them.
fn fingerprint(entry: &Entry) -> u64 {
    let mut mixer = Mixer(0);
    (entry.at, &entry.who).hash(&mut mixer);
    match &entry.what {
        What::Request(it) => {
            ("request", it.edge, it.number, it.hash).hash(&mut mixer);
            (it.method.as_str(), &it.path, &it.query).hash(&mut mixer);
        }
        What::Answer(it) => ("answer", it.number, it.carried_out, it.status, it.hash).hash(&mut mixer),
        What::Event {
            number,
            kind,
            object,
            version,
            hash,
        } => ("event", number, kind, object, version, hash).hash(&mut mixer),
        What::Fault { name, detail } => ("fault", name, detail).hash(&mut mixer),
        What::Turn(turn) => ("turn", turn).hash(&mut mixer),
    }
    mixer.finish()
}

/// The same for the same on every machine, unlike the hashers of the standard library.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(hash::body(bytes));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for Entry {
    /// One line of a trace: time, who, what; bodies by their hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.at.as_secs(), self.at.subsec_micros());
        write!(f, "{seconds:>6}.{micros:06} {} {}", self.who, self.what)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica { number, life } => write!(f, "replica-{number}.{life}"),
            Self::Actor(name) => f.write_str(name),
            Self::User => f.write_str("user"),
            Self::World => f.write_str("world"),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(request) => write!(
                f,
                "> {} {:?} {} {}?{} {:016x}",
                request.number, request.edge, request.method, request.path, request.query, request.hash
            ),
            Self::Answer(answer) => {
                let status = answer
                    .status
                    .map_or_else(|| "lost".to_owned(), |code| code.to_string());
                let (number, hash) = (answer.number, answer.hash);
                write!(
                    f,
                    "< {number} {status} carried-out={:?} {hash:016x}",
                    answer.carried_out
                )
            }
            Self::Event {
                number,
                kind,
                object,
                version,
                hash,
            } => write!(f, "~ {number} {kind} {object}@{version} {hash:016x}"),
            Self::Fault { name, detail } => write!(f, "! {name} {detail}"),
            Self::Turn(turn) => write!(f, "= {turn}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(seconds: u64, what: &str) -> Entry {
        Entry {
            at: Duration::from_secs(seconds),
            who: Who::World,
            what: What::Turn(what.to_owned()),
        }
    }

    fn of(entries: &[Entry], keep: Keep) -> History {
        let mut history = History::new(keep);
        for entry in entries {
            history.add(entry.clone());
        }
        history
    }

    #[test]
    fn order_time_and_content_are_all_in_the_hash() {
        let (a, b) = (turn(1, "a"), turn(1, "b"));
        let hash = |entries: &[Entry]| of(entries, Keep::All).hash();
        assert_ne!(hash(&[a.clone(), b.clone()]), hash(&[b.clone(), a.clone()]));
        assert_ne!(hash(std::slice::from_ref(&a)), hash(&[turn(2, "a")]));
        assert_ne!(hash(std::slice::from_ref(&a)), hash(&[b]));
        assert_ne!(hash(&[a.clone(), a.clone()]), hash(&[a]));
    }

    #[test]
    fn what_is_passed_over_is_in_the_hash_and_not_remembered() {
        let mut light = History::new(Keep::All);
        light.pass(&turn(1, "a"));
        assert_eq!(light.entries().count(), 0);
        assert_eq!(light.hash(), of(&[turn(1, "a")], Keep::All).hash());
    }

    #[test]
    fn what_is_forgotten_is_still_in_the_hash() {
        let entries = [turn(1, "a"), turn(2, "b"), turn(3, "c")];
        let short = of(&entries, Keep::Last(1));
        assert_eq!(short.entries().count(), 1);
        assert_eq!(short.count(), 3);
        assert_eq!(short.hash(), of(&entries, Keep::All).hash());
    }
}
