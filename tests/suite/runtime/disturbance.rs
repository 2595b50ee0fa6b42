//! What is done to clients while they work: each of it something that a real API server does on a bad day.

use std::time::Duration;

use karpenter_ibm::sim::kube::ApiServer;
use karpenter_ibm::sim::kube::watching::{Delivery, Ending, Forgetting, Hold, Reads, RuleId, Who};

/// One kind of bad day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// Connections close.
    Cut,
    /// The history that clients would go on from is gone, and their connections close.
    Compacted,
    /// Streams end with 410.
    Expired,
    /// Watches stand still.
    HeldBack,
    /// Connections close, and the server that is found next is behind.
    SentBack,
    /// Only what came of changes is told.
    Coalesced,
    /// One kind is told late.
    Late,
    /// Everything is told twice.
    Twice,
    /// The later pages of a list are refused.
    Forgetful,
}

impl Disturbance {
    pub(super) const ALL: [Self; 9] = [
        Self::Cut,
        Self::Compacted,
        Self::Expired,
        Self::HeldBack,
        Self::SentBack,
        Self::Coalesced,
        Self::Late,
        Self::Twice,
        Self::Forgetful,
    ];

    /// Begins; what it put in force is to be lifted later. `late` is the kind that may be told late, `past` how far back
    /// one may be sent.
    pub(super) fn begin(self, server: &ApiServer, late: Who, past: u64) -> Option<RuleId> {
        let control = server.watching();
        let now = server.state().store.revision();
        let hold = |revision, reads| control.hold_back(Who::everyone(), Hold { revision, reads });
        match self {
            Self::Cut => control.cut(),
            Self::Compacted => {
                server.state().store.compact(now);
                control.cut();
            }
            Self::Expired => {
                control.end(Who::everyone(), Ending::Expired);
            }
            Self::HeldBack => return Some(hold(now, Reads::Live)),
            Self::SentBack => {
                let rule = hold(past, Reads::Stale);
                control.end(Who::everyone(), Ending::Expired);
                return Some(rule);
            }
            Self::Coalesced => {
                let delivery = Delivery::Coalesced(Duration::from_secs(2));
                return Some(control.deliver(Who::everyone(), delivery));
            }
            Self::Late => return Some(control.deliver(late, Delivery::Late(Duration::from_secs(3)))),
            Self::Twice => return Some(control.deliver(Who::everyone(), Delivery::Twice)),
            Self::Forgetful => {
                let forgetting = Forgetting {
                    items_max: usize::MAX,
                    percent: 100,
                    times: None,
                    rng: fastrand::Rng::with_seed(1),
                };
                let rule = control.forget_pages(Who::everyone(), forgetting);
                control.end(Who::everyone(), Ending::Expired);
                return Some(rule);
            }
        }
        None
    }
}
