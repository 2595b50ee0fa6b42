//! How far a pod has come.

use jiff::Timestamp;

use super::admission::Rejection;

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was over before this kubelet saw it.
    Past,
    /// It is not taken.
    Rejected(Rejection),
    /// It waits for its volumes.
    Mounting { retry_at: Timestamp },
    /// Its images are pulled and its containers created.
    Creating { until: Timestamp },
    /// It runs.
    Running {
        since: Timestamp,
        ready_at: Timestamp,
        exits_at: Option<Timestamp>,
    },
    /// It has exited and will be started again.
    BackingOff {
        until: Timestamp,
        code: i32,
        ran: Timestamp,
        at: Timestamp,
    },
    /// It was asked to stop.
    Stopping {
        until: Timestamp,
        why: Why,
        ran: Option<Timestamp>,
        /// Whether it was ready when it was asked, which it stays until its containers are gone.
        was_ready: bool,
    },
    /// It is over.
    Ended {
        why: Why,
        ran: Option<Timestamp>,
        at: Timestamp,
    },
}

/// Why a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its containers exit with this code.
    Exited(i32),
    /// The machine is switched off.
    NodeShutdown,
}

impl Stage {
    /// The end.
    pub(super) fn ended(why: Why, ran: Option<Timestamp>, at: Timestamp) -> Self {
        Self::Ended { why, ran, at }
    }

    /// What this stage turns into when the pod is asked to stop now. What has no containers takes no time for it.
    pub(super) fn stopping(&self, until: Timestamp, why: Why, now: Timestamp) -> Self {
        let (ran, was_ready) = match self {
            Self::Running { since, ready_at, .. } => (Some(*since), *ready_at <= now),
            Self::BackingOff { ran, .. } => (Some(*ran), false),
            Self::Stopping { ran, was_ready, .. } => (*ran, *was_ready),
            _ => (None, false),
        };
        Self::Stopping {
            until: if self.has_containers() { until } else { now },
            why,
            ran,
            was_ready,
        }
    }

    /// Whether the pod still has a claim to what it asked for.
    pub(super) fn takes_room(&self) -> bool {
        !matches!(self, Self::Past | Self::Rejected(_) | Self::Ended { .. })
    }

    /// Whether there is anything that could take its time to stop.
    pub(super) fn has_containers(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Stopping { ran: Some(_), .. })
    }

    /// Whether it was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }

    /// When it turns into something else, or looks different, by itself.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Past | Self::Rejected(_) | Self::Ended { .. } => None,
            Self::Mounting { retry_at } => Some(*retry_at),
            Self::Creating { until } | Self::BackingOff { until, .. } | Self::Stopping { until, .. } => {
                Some(*until)
            }
            Self::Running {
                ready_at, exits_at, ..
            } => {
                let ready = Some(*ready_at).filter(|ready_at| *ready_at > now);
                ready.into_iter().chain(*exits_at).min()
            }
        }
    }
}
