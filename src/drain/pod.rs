//! What a drain must know of a pod.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::PodRef;
use crate::api::{DoNotDisrupt, names};
use crate::clock::later;
use crate::model::{Effect, Taint, Toleration};

/// A pod that should have been gone this long ago is waited for no longer: its kubelet is dead or hangs.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// What the API server gives a pod that asks for nothing else.
const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// The classes of pods that a node does not live without. By name, as upstream: the number alone makes none critical.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// The annotation of a pod that a kubelet started from a file and only shows to the API server.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Who leaves with whom, the first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Everybody else.
    Usual,
    /// A daemon.
    Daemon,
    /// What a cluster needs.
    Critical,
    /// A daemon that a node needs.
    CriticalDaemon,
}

/// What `karpenter.sh/do-not-disrupt` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing, or nothing any more.
    None,
    /// Nobody disturbs it before then.
    Until(Timestamp),
    /// Nobody disturbs it.
    Always,
}

impl Protection {
    /// Whether nobody disturbs the pod at `now`.
    pub fn holds(self, now: Timestamp) -> bool {
        match self {
            Self::None => false,
            Self::Until(until) => until > now,
            Self::Always => true,
        }
    }
}

impl Tier {
    /// That of a pod.
    pub fn of(pod: &Pod) -> Self {
        let class = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.priority_class_name.as_deref());
        let is_critical = class.is_some_and(|class| CRITICAL.contains(&class));
        match (is_critical, is_owned_by(pod, "DaemonSet")) {
            (false, false) => Self::Usual,
            (false, true) => Self::Daemon,
            (true, false) => Self::Critical,
            (true, true) => Self::CriticalDaemon,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usual => "one of many",
            Self::Daemon => "a daemon",
            Self::Critical => "critical",
            Self::CriticalDaemon => "a critical daemon",
        })
    }
}

/// Whether a node cannot go before this pod is gone.
pub fn leaves(pod: &Pod, now: Timestamp) -> bool {
    let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_finished = matches!(ended, Some("Succeeded" | "Failed"));
    let is_stuck = pod
        .metadata
        .deletion_timestamp
        .as_ref()
        .is_some_and(|end| now > later(end.0, STUCK_AFTER));
    !is_finished && !is_stuck && !stays(pod)
}

/// Whether a pod stays on a node that goes: it is part of the node, or says that it does not mind.
fn stays(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let is_mirror = annotations.is_some_and(|it| it.contains_key(MIRROR)) || is_owned_by(pod, "Node");
    let going = Taint::new(names::DISRUPTED_TAINT, "", Effect::NoSchedule);
    let tolerations = pod.spec.iter().flat_map(|spec| &spec.tolerations).flatten();
    let mut tolerations = tolerations.filter_map(Toleration::from_pod);
    is_mirror || tolerations.any(|toleration| toleration.covers(&going))
}

/// Whether a pod is protected at `now`. A time counts from when the pod started; one that has not is protected. What
/// cannot be read protects nothing, as upstream.
pub fn protection(pod: &Pod, now: Timestamp) -> Protection {
    let length = match wish(pod) {
        DoNotDisrupt::No | DoNotDisrupt::Unreadable(_) => return Protection::None,
        DoNotDisrupt::Always => return Protection::Always,
        DoNotDisrupt::For(length) => length,
    };
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    match started.map(|start| later(start.0, length)) {
        None => Protection::Always,
        Some(until) if until > now => Protection::Until(until),
        Some(_) => Protection::None,
    }
}

/// What a pod asks for that nobody can read, if it does.
pub(super) fn unread_wish(pod: &Pod) -> Option<String> {
    match wish(pod) {
        DoNotDisrupt::Unreadable(written) => Some(written),
        DoNotDisrupt::No | DoNotDisrupt::Always | DoNotDisrupt::For(_) => None,
    }
}

fn wish(pod: &Pod) -> DoNotDisrupt {
    let annotations = pod.metadata.annotations.as_ref();
    let written = annotations.and_then(|it| it.get(names::DO_NOT_DISRUPT));
    DoNotDisrupt::read(written.map(String::as_str))
}

/// Whether anything about a pod's leaving hangs on what time it is: it is going, or protected for a time.
pub fn hangs_on_time(pod: &Pod) -> bool {
    let is_protected = matches!(protection(pod, Timestamp::MIN), Protection::Until(_));
    pod.metadata.deletion_timestamp.is_some() || is_protected
}

/// How long a pod may take to end.
pub(super) fn grace(pod: &Pod) -> Duration {
    let written = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = written.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(GRACE_DEFAULT, Duration::from_secs)
}

pub(super) fn reference(pod: &Pod) -> PodRef {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    PodRef {
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        uid: text(&pod.metadata.uid),
    }
}

fn is_owned_by(pod: &Pod, kind: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.kind == kind)
}
