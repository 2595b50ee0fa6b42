//! What a story expects: conditions on the truth that must all hold at one moment within a time.
//!
//! In files a condition is a phrase: `nodes: 2 ready`, `claim: web-1 gone`, `event: SpotPreemption on NodeClaim/web-1`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::document::{Mistake, Place};
use super::{Target, known};
use crate::api::OfferingKey;

/// Something that must become so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// How long it may take; zero if it must be so already.
    pub within: Duration,
    /// What must hold, all at the same moment.
    pub conditions: Vec<Condition>,
}

/// Something that holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// So many nodes are in a state.
    Nodes(u32, NodeState),
    /// So many of the machines with these traits are in a state.
    Machines(u32, MachineState, Selector),
    /// So many claims are in a state.
    Claims(u32, ClaimState),
    /// So many of the selected pods are in a state.
    Pods(u32, PodState, Selector),
    /// The claim of this name is in a state.
    Claim(String, ClaimState),
    /// There is an event with this reason about an object, of which only kind and name count; `*` is any name.
    Event(String, Target),
    /// What is left in the cloud.
    LeftInCloud(Left),
    /// So many offerings are withheld for this reason.
    Holds(u32, String),
    /// An offering is withheld.
    Withheld(OfferingKey),
    /// An offering is not withheld.
    Offered(OfferingKey),
}

/// How much is left in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No machine, and no volume, interface or address without one.
    Nothing,
}

/// Declares an enum whose variants have a word each in files.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$what])* $variant,)* }

        impl $name {
            const WORDS: &[&str] = &[$($word,)*];

            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// What a node can be.
    NodeState {
        /// There at all.
        Present = "present",
        /// Its kubelet says that it can run pods.
        Ready = "ready",
        /// It is there and not ready.
        NotReady = "not-ready",
    }
}

words! {
    /// What a machine can be.
    MachineState {
        /// There at all.
        Present = "present",
        /// On its way to run.
        Starting = "starting",
        /// It runs.
        Running = "running",
        /// It was stopped.
        Stopped = "stopped",
        /// It could not start.
        Failed = "failed",
        /// On its way out.
        Deleting = "deleting",
    }
}

words! {
    /// What a claim can be.
    ClaimState {
        /// There at all.
        Present = "present",
        /// Its machine runs.
        Launched = "launched",
        /// Its node has joined.
        Registered = "registered",
        /// Its node can take pods.
        Initialized = "initialized",
        /// It is being deleted.
        Leaving = "leaving",
        /// It is not there.
        Gone = "gone",
    }
}

words! {
    /// What a pod can be.
    PodState {
        /// There at all.
        Present = "present",
        /// Not bound to a node.
        Pending = "pending",
        /// It runs and is ready.
        Running = "running",
    }
}

/// Labels that an object must have. None select everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector(pub BTreeMap<String, String>);

impl Selector {
    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Reads `app=web,tier=front`.
    pub(super) fn read(place: &Place<'_>, text: &str) -> Result<Self, Mistake> {
        let pairs = text.split(',').map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or_default();
            let whole = !key.is_empty() && !value.is_empty();
            whole
                .then(|| (key.trim().to_owned(), value.trim().to_owned()))
                .ok_or_else(|| place.wrong(format!("{text:?} is no selector such as app=web,tier=front")))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        f.write_str(&pairs.join(","))
    }
}

/// What machines can be selected by.
pub(super) const TRAITS: &[&str] = &["capacity-type", "family", "profile", "zone"];

/// The fields of an expectation.
pub(super) const FIELDS: &[&str] = &[
    "within",
    "nodes",
    "machines",
    "claims",
    "pods",
    "claim",
    "event",
    "left-in-cloud",
    "holds",
    "withheld",
    "offered",
];

impl Expectation {
    /// Reads what stands below `expect`, in a story that plays in `region`.
    pub(super) fn read(place: &Place<'_>, region: &str) -> Result<Self, Mistake> {
        let fields = place.fields(FIELDS)?;
        let within = fields.read("within", Place::duration)?.unwrap_or_default();
        let mut conditions = Vec::new();
        for &name in &FIELDS[1..] {
            for phrase in fields.read(name, Place::one_or_more)?.unwrap_or_default() {
                conditions.push(condition(name, &phrase, region)?);
            }
        }
        if conditions.is_empty() {
            return Err(place.wrong(format!("expects nothing: add one of {}", FIELDS[1..].join(", "))));
        }
        Ok(Self { within, conditions })
    }
}

fn condition(name: &str, phrase: &Place<'_>, region: &str) -> Result<Condition, Mistake> {
    let text = phrase.text()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match name {
        "nodes" => {
            let (count, state) = counted(phrase, &words, NodeState::parse, NodeState::WORDS)?;
            Condition::Nodes(count, state)
        }
        "machines" => {
            let (words, selector) = selected(phrase, &words)?;
            let unknown = selector.0.keys().find(|&key| !TRAITS.contains(&key.as_str()));
            if let Some(key) = unknown {
                return Err(phrase.unknown("trait of a machine", key, TRAITS));
            }
            let (count, state) = counted(phrase, &words, MachineState::parse, MachineState::WORDS)?;
            Condition::Machines(count, state, selector)
        }
        "claims" => {
            // Those that are gone cannot be counted; it is the last of the words.
            let known = &ClaimState::WORDS[..ClaimState::WORDS.len() - 1];
            let there = |word: &str| ClaimState::parse(word).filter(|_| known.contains(&word));
            let (count, state) = counted(phrase, &words, there, known)?;
            Condition::Claims(count, state)
        }
        "pods" => pods(phrase, &words)?,
        "claim" => match words[..] {
            [name, state] => {
                let state = ClaimState::parse(state)
                    .ok_or_else(|| phrase.unknown("state of a claim", state, ClaimState::WORDS))?;
                Condition::Claim(name.to_owned(), state)
            }
            _ => return Err(phrase.wrong(format!("{text:?} is no phrase such as `web-1 initialized`"))),
        },
        "event" => event(phrase, &words)?,
        "left-in-cloud" if text == "nothing" => Condition::LeftInCloud(Left::Nothing),
        "left-in-cloud" => return Err(phrase.unknown("amount", text, &["nothing"])),
        "holds" => holds(phrase, &words)?,
        "withheld" => Condition::Withheld(known::offering(phrase, text, region)?),
        _ => Condition::Offered(known::offering(phrase, text, region)?),
    })
}

/// `2 ready`
fn counted<S>(
    phrase: &Place<'_>,
    words: &[&str],
    parse: impl Fn(&str) -> Option<S>,
    known: &[&str],
) -> Result<(u32, S), Mistake> {
    let number = words.first().and_then(|word| word.parse().ok());
    let (Some(count), [_, state]) = (number, words) else {
        let text = words.join(" ");
        return Err(phrase.wrong(format!("{text:?} is no phrase such as `2 {}`", known[1])));
    };
    let state = parse(state).ok_or_else(|| phrase.unknown("state", state, known))?;
    Ok((count, state))
}

/// `3 running of app=web`, or `3 running` for all pods.
fn pods(phrase: &Place<'_>, words: &[&str]) -> Result<Condition, Mistake> {
    let (words, selector) = selected(phrase, words)?;
    let (count, state) = counted(phrase, &words, PodState::parse, PodState::WORDS)?;
    Ok(Condition::Pods(count, state, selector))
}

/// What stands before ` of app=web`, and what is selected by it: everything if that is not there.
fn selected<'a>(phrase: &Place<'_>, words: &[&'a str]) -> Result<(Vec<&'a str>, Selector), Mistake> {
    match words {
        [first, second, "of", selector] => Ok((vec![first, second], Selector::read(phrase, selector)?)),
        _ => Ok((words.to_vec(), Selector::default())),
    }
}

/// `SpotPreemption on NodeClaim/web-1`
fn event(phrase: &Place<'_>, words: &[&str]) -> Result<Condition, Mistake> {
    let wrong = || phrase.wrong("must be a phrase such as `SpotPreemption on NodeClaim/web-1`");
    let [reason, "on", object] = words else {
        return Err(wrong());
    };
    let (kind, name) = object.split_once('/').ok_or_else(wrong)?;
    let on = Target {
        api_version: None,
        kind: kind.to_owned(),
        namespace: None,
        name: name.to_owned(),
    };
    Ok(Condition::Event((*reason).to_owned(), on))
}

/// `1 Preempted`
fn holds(phrase: &Place<'_>, words: &[&str]) -> Result<Condition, Mistake> {
    let number = words.first().and_then(|word| word.parse().ok());
    let (Some(count), [_, reason]) = (number, words) else {
        let text = words.join(" ");
        return Err(phrase.wrong(format!("{text:?} is no phrase such as `1 Preempted`")));
    };
    Ok(Condition::Holds(count, known::reason(phrase, reason)?))
}

fn plural(count: u32, what: &str) -> String {
    match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(count, state) => write!(f, "{} {}", plural(*count, "node"), state.as_str()),
            Self::Machines(count, state, selector) if selector.0.is_empty() => {
                write!(f, "{} {}", plural(*count, "machine"), state.as_str())
            }
            Self::Machines(count, state, selector) => {
                write!(
                    f,
                    "{} of {selector} {}",
                    plural(*count, "machine"),
                    state.as_str()
                )
            }
            Self::Claims(count, state) => write!(f, "{} {}", plural(*count, "claim"), state.as_str()),
            Self::Pods(count, state, selector) if selector.0.is_empty() => {
                write!(f, "{} {}", plural(*count, "pod"), state.as_str())
            }
            Self::Pods(count, state, selector) => {
                write!(f, "{} of {selector} {}", plural(*count, "pod"), state.as_str())
            }
            Self::Claim(name, state) => write!(f, "claim {name} {}", state.as_str()),
            Self::Event(reason, on) if on.name == "*" => write!(f, "event {reason} on a {}", on.kind),
            Self::Event(reason, on) => write!(f, "event {reason} on {}/{}", on.kind, on.name),
            Self::LeftInCloud(Left::Nothing) => f.write_str("nothing left in the cloud"),
            Self::Holds(count, reason) => {
                write!(f, "{} withheld as {reason}", plural(*count, "offering"))
            }
            Self::Withheld(key) => write!(f, "{key} withheld"),
            Self::Offered(key) => write!(f, "{key} offered"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        f.write_str(&conditions.join(", "))
    }
}
