//! What a NodeClaim and the template of a NodePool both say about a Node, judged once for both.

use super::node_class_ref::NodeClassRef;
use super::pattern;
use super::requirement::{self, NodePoolKey, Requirement};
use super::taint::{self, Taint};
use super::violation::{Field, Violations};

/// The fields that both have.
pub(super) struct WantedNode<'a> {
    pub(super) requirements: &'a [Requirement],
    pub(super) pool_key: NodePoolKey,
    pub(super) node_class_ref: &'a NodeClassRef,
    pub(super) taints: Option<&'a Vec<Taint>>,
    pub(super) startup_taints: Option<&'a Vec<Taint>>,
    pub(super) expire_after: Option<&'a str>,
    pub(super) termination_grace_period: Option<&'a str>,
}

impl WantedNode<'_> {
    /// Judges them as schema and CEL rules do.
    pub(super) fn validate(&self, at: Field<'_>, found: &mut Violations) {
        requirement::validate(self.requirements, self.pool_key, at.at("requirements"), found);
        self.node_class_ref.validate(at.at("nodeClassRef"), found);
        taint::validate(self.taints, at.at("taints"), found);
        taint::validate(self.startup_taints, at.at("startupTaints"), found);
        if let Some(expiry) = self.expire_after {
            pattern::EXPIRY.check(expiry, at.at("expireAfter"), found);
        }
        if let Some(period) = self.termination_grace_period {
            pattern::DURATION.check(period, at.at("terminationGracePeriod"), found);
        }
    }
}
