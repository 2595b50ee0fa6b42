//! What changed in the cluster between two entries of the history, read from the store's own log.

use std::sync::Arc;

use serde_json::Value;

use super::Truth;
use crate::api::names::TERMINATION_FINALIZER;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::store::{Change, Store};

/// The namespace of the Leases that kubelets renew, which nobody here asks for.
const NODE_LEASES: &str = "kube-node-lease";

/// An object before and after a write.
#[derive(Clone, Debug)]
pub struct Versions {
    /// Before, unless it is new.
    pub before: Option<Arc<Value>>,
    /// After; the last state of one that is gone.
    pub after: Arc<Value>,
    /// Whether it is gone.
    pub deleted: bool,
}

impl Versions {
    fn of(change: &Change) -> Self {
        Self {
            before: change.before.as_ref().map(|before| before.shared()),
            after: change.after.shared(),
            deleted: change.deleted,
        }
    }

    /// Whether our finalizer was on before and is off now, or went with the object.
    pub fn releases(&self) -> bool {
        self.before.as_deref().is_some_and(is_held) && !self.is_held()
    }

    /// Whether our finalizer is on now.
    pub fn is_held(&self) -> bool {
        !self.deleted && is_held(&self.after)
    }
}

fn is_held(claim: &Value) -> bool {
    object::finalizers(claim).contains(&TERMINATION_FINALIZER)
}

/// What changed since the last entry, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// NodeClaims.
    pub claims: Vec<Versions>,
    /// Names of Nodes that were written.
    pub nodes: Vec<String>,
    /// Leases, except those of nodes, and except for renewals, by which none passes on.
    pub leases: Vec<Versions>,
    /// Events that are new.
    pub events: Vec<Arc<Value>>,
}

/// How far the store has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    revision: u64,
}

impl Tables {
    /// The last revision that was read.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Everything since the last time.
    pub(super) fn read(&mut self, truth: &Truth<'_>) -> Changed {
        let state = truth.kube.state();
        let (store, since) = (&state.store, self.revision);
        if store.revision() == since {
            return Changed::default();
        }
        self.revision = store.revision();
        Changed {
            claims: changes(store, "karpenter.sh", "nodeclaims", since)
                .into_iter()
                .map(Versions::of)
                .collect(),
            nodes: changes(store, "", "nodes", since)
                .into_iter()
                .map(|change| change.after.key.name.clone())
                .collect(),
            leases: changes(store, "coordination.k8s.io", "leases", since)
                .into_iter()
                .filter(|change| !change.renewal && change.after.key.namespace != NODE_LEASES)
                .map(Versions::of)
                .collect(),
            events: changes(store, "", "events", since)
                .into_iter()
                .filter(|change| change.before.is_none())
                .map(|change| change.after.shared())
                .collect(),
        }
    }
}

/// Nothing, if the store has forgotten that far back: a run would have to write 30,000 times between two entries.
fn changes<'a>(store: &'a Store, group: &str, plural: &str, since: u64) -> Vec<&'a Change> {
    let table = TableKey::of(group, plural);
    store
        .since(&table, since)
        .map(Iterator::collect)
        .unwrap_or_default()
}
