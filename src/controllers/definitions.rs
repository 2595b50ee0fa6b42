//! Whether the definitions in this cluster keep what we write.
//!
//! Where those of another release are installed, an API server takes our writes and drops what it does not know. Without
//! the allocation nothing keeps us from buying twice, so nothing is bought: the process is not ready, and says which
//! definition to apply. It is ready again when a write is kept, or when no claim is left that one was dropped for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt;
use tokio::sync::watch;

use super::metrics::Metrics;
use crate::api::NodeClaim;

/// What is wrong, and what to do.
pub const DROPPED: &str = "the definition nodeclaims.karpenter.sh in this cluster drops status.allocation, so nothing is \
                           bought: apply crds/karpenter.sh_nodeclaims.yaml of this release, which `karpenter-ibm crds` \
                           prints";

/// Whether the process can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet, and why.
    NotReady(String),
    /// Yes.
    Ready,
}

/// What was seen of definitions. Clones are the same.
#[derive(Clone, Debug)]
pub struct Definitions {
    /// The claims, by uid, whose allocation was dropped.
    dropped: Arc<Mutex<BTreeSet<String>>>,
    readiness: Arc<watch::Sender<Readiness>>,
    metrics: Metrics,
}

impl Definitions {
    /// Nothing is wrong yet.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            dropped: Arc::default(),
            readiness: Arc::new(watch::Sender::new(Readiness::Ready)),
            metrics,
        }
    }

    /// Whether the process can do its work, now and whenever that changes.
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// The allocation of a claim was dropped.
    pub(super) fn dropped(&self, claim: &NodeClaim) {
        self.change(|dropped| {
            dropped.extend(claim.uid());
        });
    }

    /// An allocation was kept, so the definition is what it should be.
    pub(super) fn kept(&self) {
        self.change(BTreeSet::clear);
    }

    /// A claim is gone, and with it what is known by it.
    pub(super) fn forget(&self, claim: &NodeClaim) {
        self.change(|dropped| {
            if let Some(uid) = claim.uid() {
                dropped.remove(&uid);
            }
        });
    }

    /// Another replica leads, and finds out by itself.
    pub fn forget_all(&self) {
        self.kept();
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut dropped);
        let now = if dropped.is_empty() {
            Readiness::Ready
        } else {
            Readiness::NotReady(DROPPED.to_owned())
        };
        self.metrics.claims_dropped(dropped.len());
        self.readiness.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(uid: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_dropped_makes_it_not_ready_until_one_is_kept_or_nobody_is_left() {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        let definitions = Definitions::new(metrics);
        let readiness = definitions.readiness();
        let is_ready = || *readiness.borrow() == Readiness::Ready;
        assert!(is_ready());
        definitions.dropped(&claim("a"));
        definitions.dropped(&claim("b"));
        definitions.forget(&claim("a"));
        assert!(!is_ready());
        definitions.forget(&claim("b"));
        assert!(is_ready());
        definitions.dropped(&claim("a"));
        definitions.kept();
        assert!(is_ready());
    }
}
