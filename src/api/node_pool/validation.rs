//! The verdict on a NodePool: what its CRD says, and what a CRD cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{
    BUDGET_REASONS, BUDGET_REASONS_MAX, BUDGETS_MAX, Budget, CONSOLIDATION_POLICIES, DEFAULT_EXPIRE_AFTER,
    Disruption, NodePool, NodePoolSpec, TemplateMetadata, TemplateSpec, WEIGHT_MAX, schedule,
};
use crate::api::condition::{self, Detail, at_most};
use crate::api::names;
use crate::api::pattern;
use crate::api::requirement::{NodePoolKey, in_restricted_domain, is_label_value, name_problem, restriction};
use crate::api::schema::{LABEL_VALUE_LENGTH_MAX, LABELS_MAX};
use crate::api::taint;
use crate::api::violation::{Field, Violation, Violations};
use crate::api::wanted_node::WantedNode;
use crate::api::{Expiry, parse_duration, parse_expiry};
use crate::quantity::WrittenQuantity;

/// A machine joins within two or three minutes, so what lives for less than this is bought for nobody, and its successor
/// too. The CRD is upstream's and lets `0s` pass.
const EXPIRE_AFTER_MIN: Duration = Duration::from_mins(5);

impl NodePool {
    /// The verdict of the CRD on a new object.
    pub fn validate(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        self.spec.validate(Field::root("spec"), &mut found);
        if let Some(status) = &self.status {
            let at = Field::root("status");
            quantities(status.resources.as_ref(), at.at("resources"), &mut found);
            condition::validate(
                status.conditions.as_ref(),
                Detail::Required,
                at.at("conditions"),
                &mut found,
            );
        }
        found.verdict()
    }

    /// The verdict of the CRD on an update of `old` to this.
    pub fn validate_update(&self, old: &Self) -> Result<(), Vec<Violation>> {
        let mut found = self.validate().err().unwrap_or_default();
        let spec = Field::root("spec");
        let mut changes = Violations::default();
        changes.require(
            self.spec.replicas.is_some() == old.spec.replicas.is_some(),
            spec,
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        );
        let (new, old) = (
            &self.spec.template.spec.node_class_ref,
            &old.spec.template.spec.node_class_ref,
        );
        let (template, inner) = (spec.at("template"), "spec");
        let at = template.at(inner);
        let at = at.at("nodeClassRef");
        changes.require(new.group == old.group, at, "nodeClassRef.group is immutable");
        changes.require(new.kind == old.kind, at, "nodeClassRef.kind is immutable");
        found.extend(changes.verdict().err().unwrap_or_default());
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// What a CRD cannot express, upstream's runtime rules among it.
    pub fn validate_runtime(&self) -> Result<(), Vec<Violation>> {
        let mut found = self.validate_supply().err().unwrap_or_default();
        let mut schedules = Violations::default();
        self.spec.runtime_schedules(Field::root("spec"), &mut schedules);
        found.extend(schedules.verdict().err().unwrap_or_default());
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// The same, but for what only says when nodes may be given back: a pool that fails here is not ready. With a schedule
    /// that nobody can read nodes are made all the same, and none is given back for a reason that asks budgets.
    pub fn validate_supply(&self) -> Result<(), Vec<Violation>> {
        let mut found = Violations::default();
        let spec = Field::root("spec");
        let template = spec.at("template");
        let metadata = template.at("metadata");
        let labels = self
            .spec
            .template
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.as_ref());
        runtime_labels(labels, metadata.at("labels"), &mut found);
        let at = template.at("spec");
        let inner = &self.spec.template.spec;
        taint::validate_runtime(
            inner.taints.as_ref(),
            inner.startup_taints.as_ref(),
            at,
            &mut found,
        );
        let requirements = at.at("requirements");
        for (index, requirement) in inner.requirements.iter().enumerate() {
            let at = requirements.nth(index);
            requirement.validate_runtime(at, &mut found);
            found.require(
                requirement.key != names::NODE_POOL,
                at.at("key"),
                "a pool cannot require itself",
            );
        }
        self.spec.runtime_amounts(spec, &mut found);
        found.verdict()
    }
}

impl NodePoolSpec {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        let template = at.at("template");
        if let Some(metadata) = &self.template.metadata {
            metadata.validate(template.at("metadata"), found);
        }
        self.template.spec.validate(template.at("spec"), found);
        if let Some(disruption) = &self.disruption {
            disruption.validate(at.at("disruption"), found);
        }
        quantities(self.limits.as_ref(), at.at("limits"), found);
        let weight = self.weight.unwrap_or(1);
        found.require(
            (1..=WEIGHT_MAX).contains(&weight),
            at.at("weight"),
            "is not between 1 and 100",
        );
        found.require(
            self.replicas.unwrap_or_default() >= 0,
            at.at("replicas"),
            "is less than 0",
        );
        if self.replicas.is_some() {
            let nodes_alone = self
                .limits
                .iter()
                .flatten()
                .all(|(resource, _)| resource == "nodes");
            found.require(
                nodes_alone,
                at,
                "only 'limits.nodes' is supported on static NodePools",
            );
            found.require(
                self.weight.is_none(),
                at,
                "'weight' is not supported on static NodePools",
            );
        }
        found.require(
            !self.contradicts_itself(),
            at,
            "'disruption.expireAfter' and 'template.spec.expireAfter' must not differ",
        );
    }

    /// Whether both places of the expiry are set and differ. 720h cannot be told from a default and yields.
    fn contradicts_itself(&self) -> bool {
        let (template, older) = self.expiries_written();
        template != DEFAULT_EXPIRE_AFTER && older.is_some_and(|older| older != template)
    }

    /// Durations and quantities that follow their pattern and still mean nothing, like `1e1.5`.
    fn runtime_amounts(&self, at: Field<'_>, found: &mut Violations) {
        let limits = at.at("limits");
        for (resource, quantity) in self.limits.iter().flatten() {
            if let Err(error) = quantity.parse() {
                found.blame(limits.at(resource), error.to_string());
            }
        }
        let too_long = "is longer than 292 years";
        match self.expiry() {
            None => found.blame(at, "the expiry is longer than 292 years"),
            Some(Expiry::After(length)) if length < EXPIRE_AFTER_MIN => found.blame(
                at,
                "'expireAfter' is less than 5m: a machine takes minutes to join and would be given back before it has worked",
            ),
            Some(_) => {}
        }
        let (template, disruption) = (at.at("template"), at.at("disruption"));
        let spec = template.at("spec");
        let grace = self.template.spec.termination_grace_period.as_deref();
        let sound = grace.is_none_or(|grace| parse_duration(grace).is_some());
        found.require(sound, spec.at("terminationGracePeriod"), too_long);
        let wait = self
            .disruption
            .as_ref()
            .and_then(|disruption| disruption.consolidate_after.as_deref());
        let sound = wait.is_none_or(|wait| parse_expiry(wait).is_some());
        found.require(sound, disruption.at("consolidateAfter"), too_long);
    }

    /// Schedules of budgets that no cron can read: nobody could say when such a budget applies.
    fn runtime_schedules(&self, at: Field<'_>, found: &mut Violations) {
        let written = self.disruption.as_ref();
        let budgets = written.and_then(|disruption| disruption.budgets.as_deref());
        let disruption = at.at("disruption");
        let at = disruption.at("budgets");
        for (index, budget) in budgets.unwrap_or_default().iter().enumerate() {
            if let Some(problem) = budget.schedule.as_deref().and_then(schedule::problem) {
                let budget = at.nth(index);
                found.blame(budget.at("schedule"), problem);
            }
        }
    }
}

impl TemplateMetadata {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        let Some(labels) = &self.labels else { return };
        let at = at.at("labels");
        if labels.len() > LABELS_MAX {
            found.blame(at, format!("has more than {LABELS_MAX} entries"));
        }
        for (key, value) in labels {
            pattern::LABEL_VALUE.check(value, at.at(key), found);
            at_most(LABEL_VALUE_LENGTH_MAX, value, at.at(key), found);
        }
        let none = |wrong: fn(&str) -> bool| !labels.keys().any(|key| wrong(key));
        found.require(
            none(in_restricted_domain),
            at,
            "label domain \"karpenter.sh\" is restricted",
        );
        found.require(
            none(|key| key == names::NODE_POOL),
            at,
            "label \"karpenter.sh/nodepool\" is restricted",
        );
        found.require(
            none(|key| key == names::HOSTNAME),
            at,
            "label \"kubernetes.io/hostname\" is restricted",
        );
    }
}

impl TemplateSpec {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        let wanted = WantedNode {
            requirements: &self.requirements,
            pool_key: NodePoolKey::Restricted,
            node_class_ref: &self.node_class_ref,
            taints: self.taints.as_ref(),
            startup_taints: self.startup_taints.as_ref(),
            expire_after: self.expire_after.as_deref(),
            termination_grace_period: self.termination_grace_period.as_deref(),
        };
        wanted.validate(at, found);
    }
}

impl Disruption {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        match &self.consolidate_after {
            Some(wait) => pattern::EXPIRY.check(wait, at.at("consolidateAfter"), found),
            None => found.blame(at.at("consolidateAfter"), "is required"),
        }
        if let Some(expiry) = &self.expire_after {
            pattern::EXPIRY.check(expiry, at.at("expireAfter"), found);
        }
        if let Some(policy) = self
            .consolidation_policy
            .as_deref()
            .filter(|it| !CONSOLIDATION_POLICIES.contains(it))
        {
            let known = CONSOLIDATION_POLICIES.join(", ");
            found.blame(
                at.at("consolidationPolicy"),
                format!("{policy:?} is none of {known}"),
            );
        }
        let budgets = self.budgets.as_deref().unwrap_or_default();
        let at = at.at("budgets");
        if budgets.len() > BUDGETS_MAX {
            found.blame(at, format!("has more than {BUDGETS_MAX} elements"));
        }
        for (index, budget) in budgets.iter().enumerate() {
            budget.validate(at.nth(index), found);
        }
        let paired = budgets
            .iter()
            .all(|budget| budget.schedule.is_some() == budget.duration.is_some());
        found.require(paired, at, "'schedule' must be set with 'duration'");
    }
}

impl Budget {
    fn validate(&self, at: Field<'_>, found: &mut Violations) {
        for (name, value, grammar) in [
            ("nodes", &self.nodes, &pattern::BUDGET_NODES),
            ("schedule", &self.schedule, &pattern::BUDGET_SCHEDULE),
            ("duration", &self.duration, &pattern::BUDGET_DURATION),
        ] {
            if let Some(value) = value {
                grammar.check(value, at.at(name), found);
            }
        }
        let reasons = self.reasons.as_deref().unwrap_or_default();
        let at = at.at("reasons");
        if reasons.len() > BUDGET_REASONS_MAX {
            found.blame(at, format!("has more than {BUDGET_REASONS_MAX} elements"));
        }
        let mut seen = BTreeSet::new();
        for (index, reason) in reasons.iter().enumerate() {
            if !BUDGET_REASONS.contains(&reason.as_str()) {
                found.blame(
                    at.nth(index),
                    format!("{reason:?} is none of {}", BUDGET_REASONS.join(", ")),
                );
            }
            found.require(seen.insert(reason), at.nth(index), "occurs twice");
        }
    }
}

/// Judges quantities as the schema does.
pub(in crate::api) fn quantities(
    list: Option<&BTreeMap<String, WrittenQuantity>>,
    at: Field<'_>,
    found: &mut Violations,
) {
    for (resource, quantity) in list.into_iter().flatten() {
        if let WrittenQuantity::Text(text) = quantity {
            pattern::QUANTITY.check(text, at.at(resource), found);
        }
    }
}

fn runtime_labels(labels: Option<&BTreeMap<String, String>>, at: Field<'_>, found: &mut Violations) {
    for (key, value) in labels.into_iter().flatten() {
        let at = at.at(key);
        found.require(key != names::NODE_POOL, at, "a pool sets this label itself");
        if let Some(problem) = restriction(key).or_else(|| name_problem(key)) {
            found.blame(at, problem);
        }
        if !is_label_value(value) {
            found.blame(at, format!("{value:?} is not a label value"));
        }
    }
}
