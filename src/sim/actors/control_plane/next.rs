//! What an actor wants: writes to the API, and when to be asked again.
//!
//! Plain data, so that an actor is a function of what it sees and of the time, and a test reads what it would do.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::sim::actors::view::{Kept, Kind, View};

/// One of the loops of a control plane: what it decides from, and how.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// Its name, under which it writes.
    pub name: &'static str,
    /// The kinds whose changes wake it.
    pub reads: &'static [Kind],
    /// Kinds that it looks at when it is awake, and that do not wake it.
    pub glances: &'static [Kind],
    /// What it wants, given what it sees and the time.
    pub next: fn(&View, Timestamp) -> Next,
}

/// What an actor wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// The writes, in order.
    pub acts: Vec<Act>,
    /// When to ask again even if nothing changes.
    pub again_at: Option<Timestamp>,
}

impl Next {
    /// Wants one more write.
    pub fn act(&mut self, act: Act) {
        self.acts.push(act);
    }

    /// Wants to be asked again at `at`, or earlier if it already said so.
    pub fn again(&mut self, at: Timestamp) {
        self.again_at = Some(self.again_at.map_or(at, |known| known.min(at)));
    }

    /// Everything that `other` wants too.
    pub fn join(&mut self, other: Self) {
        self.acts.extend(other.acts);
        if let Some(at) = other.again_at {
            self.again(at);
        }
    }
}

/// Which object a write is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Target {
    /// This object.
    pub fn of<K: Kept>(object: &K) -> Self {
        let metadata = object.meta();
        Self {
            kind: K::KIND,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// What must still be so for a deletion or eviction to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object is this one and not another of the same name.
    pub uid: Option<String>,
    /// It was not changed since.
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// It is still this object, changed or not.
    pub fn same(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            resource_version: None,
        }
    }

    /// It is still this object, and unchanged.
    pub fn unchanged(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

/// One write to the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Makes an object.
    Create {
        /// Its kind.
        kind: Kind,
        /// Where; empty for a kind without namespaces.
        namespace: String,
        /// The object.
        object: Value,
    },
    /// Changes an object by a merge patch.
    Patch {
        /// Which.
        target: Target,
        /// The merge patch; a `metadata.resourceVersion` in it makes the write conditional.
        patch: Value,
    },
    /// Changes the status of an object by a merge patch.
    PatchStatus {
        /// Which.
        target: Target,
        /// The merge patch, with `status` at its top.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Which.
        target: Target,
        /// Only if this holds.
        preconditions: Preconditions,
        /// Its grace period in seconds, if not its own.
        grace: Option<u32>,
    },
    /// Evicts a pod, if its disruption budgets allow.
    Evict {
        /// Which pod.
        target: Target,
        /// Only if this holds.
        preconditions: Preconditions,
    },
    /// Binds a pod to a node.
    Bind {
        /// Which pod.
        target: Target,
        /// Only if the pod is this one.
        uid: String,
        /// The node's name.
        node: String,
    },
}

impl Act {
    /// Makes an object in a namespace.
    pub fn create(kind: Kind, namespace: &str, object: Value) -> Self {
        Self::Create {
            kind,
            namespace: namespace.to_owned(),
            object,
        }
    }

    /// Makes this object, where its metadata says.
    pub fn make<K: Kept + Serialize>(object: &K) -> Self {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        // API types have texts for keys, so this cannot fail; a server would refuse `null`.
        Self::create(
            K::KIND,
            namespace,
            serde_json::to_value(object).unwrap_or_default(),
        )
    }

    /// Changes an object that is still as it was seen.
    pub fn patch<K: Kept>(object: &K, mut patch: Value) -> Self {
        patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
        Self::Patch {
            target: Target::of(object),
            patch,
        }
    }

    /// Sets fields of the status of an object that is still as it was seen.
    pub fn patch_status<K: Kept>(object: &K, status: Value) -> Self {
        let mut patch = json!({"metadata": {"resourceVersion": object.meta().resource_version}});
        patch["status"] = status;
        Self::PatchStatus {
            target: Target::of(object),
            patch,
        }
    }

    /// Deletes this very object, with the grace period that it has.
    pub fn delete<K: Kept>(object: &K) -> Self {
        Self::Delete {
            target: Target::of(object),
            preconditions: Preconditions::same(object.meta()),
            grace: None,
        }
    }

    /// Deletes this very object at once, without grace.
    pub fn delete_now<K: Kept>(object: &K) -> Self {
        Self::Delete {
            target: Target::of(object),
            preconditions: Preconditions::same(object.meta()),
            grace: Some(0),
        }
    }

    /// Evicts this very pod.
    pub fn evict(pod: &k8s_openapi::api::core::v1::Pod) -> Self {
        Self::Evict {
            target: Target::of(pod),
            preconditions: Preconditions::same(pod.meta()),
        }
    }

    /// Binds this very pod.
    pub fn bind(pod: &k8s_openapi::api::core::v1::Pod, node: &str) -> Self {
        Self::Bind {
            target: Target::of(pod),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: node.to_owned(),
        }
    }
}
