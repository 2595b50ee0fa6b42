//! Which pods leave a node next, in which way, and what the rest waits for.
//!
//! Pure: pods, disruption budgets and times in, a [`Drain`] out. The order is that of upstream Karpenter: pods that are
//! not critical before critical ones, and of each the daemons last; a tier begins when the one before it is gone.
//!
//! Guarantees, for all pods and budgets:
//! * a pod that need not leave (finished, static, or tolerating the taint of a going node) is neither evicted nor waited
//!   for; one that should have been gone a minute ago is not waited for;
//! * without a deadline every pod leaves by eviction, which disruption budgets have a say in, and none that
//!   `karpenter.sh/do-not-disrupt` protects;
//! * with a deadline a pod is deleted when no more time is left than its own grace, and not before;
//! * no more evictions are asked for than the budgets, as they were read, allow.

mod budget;
mod pod;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::clock::{between, later};
use budget::{Budgets, Verdict};
pub use pod::{Protection, Tier, hangs_on_time, leaves, protection};

/// A pod that is to leave now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Which.
    pub pod: PodRef,
    /// The version that this was decided on: a pod that changed since is judged anew.
    pub resource_version: Option<String>,
    /// How.
    pub manner: Manner,
    /// What it asked for with `karpenter.sh/do-not-disrupt`, if nobody could read it.
    pub unread_wish: Option<String>,
}

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another pod of that name is not meant.
    pub uid: String,
}

/// How a pod leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By the Eviction API: disruption budgets are asked.
    Evict,
    /// By deletion, within this long: the node's deadline is near, and nobody is asked.
    Delete(Duration),
}

/// A pod that is still there, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub pod: PodRef,
    /// For what.
    pub why: Why,
}

/// What keeps a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was told to go and takes its time.
    Terminating,
    /// Others go first.
    Later(Tier),
    /// Its own annotation, until then if it says so.
    DoNotDisrupt(Option<Timestamp>),
    /// This disruption budget.
    Budget(String),
    /// More than one disruption budget, with which the API server evicts nothing.
    Budgets(Vec<String>),
    /// It was refused lately, and is asked for again then.
    Refused(Timestamp),
}

/// What to do next about the pods of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Who leaves now.
    pub evictions: Vec<Eviction>,
    /// Who stays for now, and why.
    pub waiting: Vec<Waiting>,
}

impl Drain {
    /// Whether nobody is left who must leave.
    pub fn is_done(&self) -> bool {
        self.evictions.is_empty() && self.waiting.is_empty()
    }
}

/// When pods that were refused may be asked for again, by their uids. Only pacing hangs on it.
pub type Refused = BTreeMap<String, Timestamp>;

/// Who leaves a node next. `deadline` is when the node goes whatever is on it.
pub fn next_evictions(
    pods: &[Pod],
    budgets: &[PodDisruptionBudget],
    refused: &Refused,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Drain {
    let mut leaving: Vec<&Pod> = pods.iter().filter(|pod| pod::leaves(pod, now)).collect();
    leaving.sort_by_key(|pod| (Tier::of(pod), pod::reference(pod)));
    let turn = leaving.first().map(|pod| Tier::of(pod));
    let mut budgets = Budgets::new(budgets);
    let mut drain = Drain::default();
    for pod in leaving {
        if let Some(grace) = deadline.and_then(|deadline| overdue(pod, deadline, now)) {
            drain.evictions.push(eviction(pod, Manner::Delete(grace)));
            continue;
        }
        match keeps(pod, turn, &mut budgets, refused, now) {
            None => drain.evictions.push(eviction(pod, Manner::Evict)),
            Some(why) => drain.waiting.push(Waiting {
                pod: pod::reference(pod),
                why,
            }),
        }
    }
    drain
}

/// What keeps a pod from being evicted now.
fn keeps(
    pod: &Pod,
    turn: Option<Tier>,
    budgets: &mut Budgets<'_>,
    refused: &Refused,
    now: Timestamp,
) -> Option<Why> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Why::Terminating);
    }
    if turn != Some(Tier::of(pod)) {
        return Some(Why::Later(Tier::of(pod)));
    }
    match protection(pod, now) {
        Protection::None => {}
        Protection::Always => return Some(Why::DoNotDisrupt(None)),
        Protection::Until(until) => return Some(Why::DoNotDisrupt(Some(until))),
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if let Some(again) = refused.get(uid).filter(|again| **again > now) {
        return Some(Why::Refused(*again));
    }
    match budgets.ask(pod) {
        Verdict::Allowed => None,
        Verdict::Exhausted(name) => Some(Why::Budget(name)),
        Verdict::Several(names) => Some(Why::Budgets(names)),
    }
}

/// How long a pod may still take if it must be deleted for the node's deadline: when no more time is left than it asks
/// for itself, or when it is going and would take longer.
fn overdue(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<Duration> {
    const LEAST: Duration = Duration::from_secs(1);
    let grace = pod::grace(pod);
    let left = between(now, deadline);
    match &pod.metadata.deletion_timestamp {
        // Told again only if that brings its end nearer.
        Some(end) => (end.0 > deadline.max(later(now, LEAST))).then(|| left.max(LEAST)),
        None => (left <= grace).then(|| left.min(grace).max(LEAST)),
    }
}

fn eviction(pod: &Pod, manner: Manner) -> Eviction {
    Eviction {
        pod: pod::reference(pod),
        resource_version: pod.metadata.resource_version.clone(),
        manner,
        unread_wish: pod::unread_wish(pod),
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pod, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminating => f.write_str("it is terminating"),
            Self::Later(tier) => write!(f, "it is {tier}, and others go first"),
            Self::DoNotDisrupt(None) => f.write_str("its annotation says that it is not to be disrupted"),
            Self::DoNotDisrupt(Some(until)) => {
                write!(
                    f,
                    "its annotation says that it is not to be disrupted before {until}"
                )
            }
            Self::Budget(name) => write!(f, "disruption budget {name} allows no disruption now"),
            Self::Budgets(names) => {
                let names = names.join(", ");
                write!(
                    f,
                    "more than one disruption budget selects it ({names}), with which no pod can be evicted"
                )
            }
            Self::Refused(again) => write!(f, "its eviction was refused, and is tried again at {again}"),
        }
    }
}

#[cfg(test)]
mod tests;
