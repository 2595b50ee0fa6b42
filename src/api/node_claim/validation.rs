//! The verdict on a NodeClaim.

use super::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
use crate::api::condition::{self, Detail};
use crate::api::node_pool::quantities;
use crate::api::requirement::NodePoolKey;
use crate::api::taint;
use crate::api::violation::{Field, Violation, Violations};
use crate::api::wanted_node::WantedNode;

use super::DEFAULT_EXPIRE_AFTER;

impl NodeClaim {
    /// The verdict of the CRD on a new object.
    pub fn validate(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        self.judge(&mut found);
        found.verdict()
    }

    /// The verdict of the CRD on an update of `old` to this: the spec never changes.
    pub fn validate_update(&self, old: &Self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        self.judge(&mut found);
        let unchanged = self.spec.with_defaults() == old.spec.with_defaults();
        found.require(unchanged, Field::root("spec"), "spec is immutable");
        found.verdict()
    }

    /// What a CRD cannot express about taints and requirements.
    pub fn validate_runtime(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        let at = Field::root("spec");
        taint::validate_runtime(
            self.spec.taints.as_ref(),
            self.spec.startup_taints.as_ref(),
            at,
            &mut found,
        );
        let requirements = at.at("requirements");
        for (index, requirement) in self.spec.requirements.iter().enumerate() {
            requirement.validate_runtime(requirements.nth(index), &mut found);
        }
        found.verdict()
    }

    fn judge(&self, found: &mut Violations) {
        self.spec.validate(Field::root("spec"), found);
        if let Some(status) = &self.status {
            status.validate(Field::root("status"), found);
        }
    }
}

impl NodeClaimSpec {
    /// The spec as an API server stores it, which is what it compares.
    fn with_defaults(&self) -> Self {
        let expire_after = self
            .expire_after
            .clone()
            .or_else(|| Some(DEFAULT_EXPIRE_AFTER.to_owned()));
        Self {
            expire_after,
            ..self.clone()
        }
    }

    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        let wanted = WantedNode {
            requirements: &self.requirements,
            pool_key: NodePoolKey::Allowed,
            node_class_ref: &self.node_class_ref,
            taints: self.taints.as_ref(),
            startup_taints: self.startup_taints.as_ref(),
            expire_after: self.expire_after.as_deref(),
            termination_grace_period: self.termination_grace_period.as_deref(),
        };
        wanted.validate(at, found);
        let resources = at.at("resources");
        let requests = self
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        quantities(requests, resources.at("requests"), found);
    }
}

impl NodeClaimStatus {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        if let Some(allocation) = &self.allocation {
            allocation.validate(at.at("allocation"), found);
        }
        quantities(self.capacity.as_ref(), at.at("capacity"), found);
        quantities(self.allocatable.as_ref(), at.at("allocatable"), found);
        condition::validate(
            self.conditions.as_ref(),
            Detail::Optional,
            at.at("conditions"),
            found,
        );
    }
}
