//! The hash of a NodePool's template: nodes whose hash differs from it have drifted.

use serde_json::{Value, json};

use super::NodePool;
use crate::api::duration::{Expiry, parse_duration, parse_expiry};
use crate::hash::{Arrays, of};

/// How [`NodePool::hash`] is computed. Hashes of different versions are never compared: nodes are stamped anew.
pub const NODE_POOL_HASH_VERSION: &str = "v1";

impl NodePool {
    /// The hash of `spec.template`, as decimal digits.
    ///
    /// Covers labels, annotations, taints, startup taints, the class, expiry and grace period. Requirements are left
    /// out: whether a node still satisfies them is checked against the node itself. Durations count by their
    /// length, lists in any order, and a default counts as if it were written.
    pub fn hash(&self) -> String {
        let metadata = self.spec.template.metadata.clone().unwrap_or_default();
        let template = &self.spec.template.spec;
        let covered = json!({
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "taints": template.taints,
            "startupTaints": template.startup_taints,
            "nodeClassRef": template.node_class_ref,
            "expireAfter": expiry(self.spec.expire_after()),
            "terminationGracePeriod": template.termination_grace_period.as_deref().map(duration),
        });
        of(&covered, Arrays::Sets).to_string()
    }
}

/// An expiry by its length, so that `12h` and `720m` are the same; what is no duration counts as it is written.
fn expiry(text: &str) -> Value {
    match parse_expiry(text) {
        Some(Expiry::After(duration)) => json!(duration.as_secs()),
        Some(Expiry::Never) | None => json!(text),
    }
}

fn duration(text: &str) -> Value {
    parse_duration(text).map_or_else(|| json!(text), |duration| json!(duration.as_secs()))
}
