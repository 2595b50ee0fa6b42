//! `NodePool`: which machines may be bought, and when they may be given back.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::duration::{Expiry, parse_duration, parse_expiry};
use super::node_class_ref::NodeClassRef;
use super::pattern;
use super::requirement::Requirement;
use super::taint::Taint;
use super::{schema, wire};
use crate::quantity::WrittenQuantity;

mod hash;
mod schedule;
mod validation;

pub(super) use validation::quantities;

pub use hash::NODE_POOL_HASH_VERSION;

/// How long nodes live where nothing is said: 30 days.
pub(super) const DEFAULT_EXPIRE_AFTER: &str = "720h";
const DEFAULT_BUDGET_NODES: &str = "10%";
const BUDGETS_MAX: usize = 50;
pub(super) const BUDGET_REASONS_MAX: usize = 50;
const WEIGHT_MAX: i64 = 100;

/// What a NodePool asks for.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "A pool of nodes: which machines may be bought for pending pods, and when they may be given back.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "priority": 1, "jsonPath": ".spec.weight"}"#,
    printcolumn = r#"{"name": "CPU", "type": "string", "priority": 1, "jsonPath": ".status.resources.cpu"}"#,
    printcolumn = r#"{"name": "Memory", "type": "string", "priority": 1, "jsonPath": ".status.resources.memory"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "has(self.replicas) == has(oldSelf.replicas)",
    "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
))]
#[x_kube(validation = (
    "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
    "only 'limits.nodes' is supported on static NodePools",
))]
#[x_kube(validation = (
    "!has(self.replicas) || !has(self.weight)",
    "'weight' is not supported on static NodePools",
))]
#[x_kube(validation = (
    "!has(self.disruption) || !has(self.disruption.expireAfter) || !has(self.template.spec.expireAfter) || \
     self.template.spec.expireAfter == '720h' || self.template.spec.expireAfter == self.disruption.expireAfter",
    "'disruption.expireAfter' and 'template.spec.expireAfter' must not differ",
))]
pub struct NodePoolSpec {
    /// What the NodeClaims of this pool look like. Those that are made are often more constrained.
    pub template: NodeClaimTemplate,
    /// When and how nodes may be given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"consolidateAfter": "0s"}))]
    pub disruption: Option<Disruption>,
    /// What all nodes of the pool may have together; `nodes` counts them. Only `nodes` when `replicas` is set.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::resource_list")]
    pub limits: Option<BTreeMap<String, WrittenQuantity>>,
    /// Pools with more weight are tried first; none counts as 0. Not supported when `replicas` is set.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("format" = "int32", "minimum" = 1, "maximum" = WEIGHT_MAX))]
    pub weight: Option<i64>,
    /// Keeps exactly this many nodes, whether pods need them or not. Consolidation does not apply then.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
}

/// What the NodeClaims of a pool look like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// What their metadata carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// What they ask for.
    pub spec: TemplateSpec,
}

/// Labels and annotations of NodeClaims and their Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels of every Node of the pool.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of every Node of the pool.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// What the NodeClaims of a pool ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSpec {
    /// Which values the labels of a Node may have.
    #[schemars(schema_with = "schema::pool_requirements")]
    pub requirements: Vec<Requirement>,
    /// The class with the particulars of the cloud. Its name may change, which replaces the nodes.
    #[x_kube(validation = ("self.group == oldSelf.group", "nodeClassRef.group is immutable"))]
    #[x_kube(validation = ("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"))]
    pub node_class_ref: NodeClassRef,
    /// Taints of every Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints of every Node that something else takes off soon after it joined, so pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// How long a node may live, like `720h`, or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_EXPIRE_AFTER, "pattern" = pattern::EXPIRY.text))]
    pub expire_after: Option<String>,
    /// How long draining may take before pods are removed regardless of disruption budgets; unset waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::DURATION.text))]
    pub termination_grace_period: Option<String>,
}

/// When and how nodes may be given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["consolidateAfter"]))]
pub struct Disruption {
    /// How long nothing may have happened on a node before it is consolidated, like `30s`, or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::EXPIRY.text))]
    pub consolidate_after: Option<String>,
    /// Which nodes may be consolidated: `WhenEmpty`, `WhenEmptyOrUnderutilized` or `Balanced`. `WhenUnderutilized` is
    /// an older name of `WhenEmptyOrUnderutilized`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "WhenEmptyOrUnderutilized", "enum" = CONSOLIDATION_POLICIES))]
    pub consolidation_policy: Option<String>,
    /// The older place of `template.spec.expireAfter`. Counts where the template does not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::EXPIRY.text))]
    pub expire_after: Option<String>,
    /// How many nodes may be on their way out at once. Where several apply, the strictest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = [{"nodes": DEFAULT_BUDGET_NODES}],
        "maxItems" = BUDGETS_MAX,
        "x-kubernetes-list-type" = "atomic",
    ))]
    #[x_kube(validation = (
        "self.all(x, has(x.schedule) == has(x.duration))",
        "'schedule' must be set with 'duration'",
    ))]
    pub budgets: Option<Vec<Budget>>,
}

const CONSOLIDATION_POLICIES: [&str; 4] = [
    "WhenEmpty",
    "WhenEmptyOrUnderutilized",
    "Balanced",
    "WhenUnderutilized",
];

/// How many nodes may be on their way out at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// A number of nodes or a percentage of the pool's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_BUDGET_NODES, "pattern" = pattern::BUDGET_NODES.text))]
    pub nodes: Option<String>,
    /// The reasons it applies to: `Underutilized`, `Empty`, `Drifted`. All of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::budget_reasons")]
    pub reasons: Option<Vec<String>>,
    /// When it begins to apply, as cron in UTC; always if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::BUDGET_SCHEDULE.text))]
    pub schedule: Option<String>,
    /// For how long it applies from then on, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::BUDGET_DURATION.text))]
    pub duration: Option<String>,
}

/// The reasons a budget may apply to.
pub(super) const BUDGET_REASONS: [&str; 3] = [
    super::names::REASON_UNDERUTILIZED,
    super::names::REASON_EMPTY,
    super::names::REASON_DRIFTED,
];

/// What is known of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// How many nodes the pool has.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// What they have together.
    #[serde(
        default,
        deserialize_with = "wire::map",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::resource_list")]
    pub resources: Option<BTreeMap<String, WrittenQuantity>>,
    /// The generation of the class for which `NodeRegistrationHealthy` holds.
    #[serde(
        default,
        deserialize_with = "wire::integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub node_class_observed_generation: Option<i64>,
    /// What is true of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}

/// Which nodes may be consolidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsolidationPolicy {
    /// Those without pods that matter.
    WhenEmpty,
    /// Those whose pods fit elsewhere for less, too.
    WhenEmptyOrUnderutilized,
    /// As before, where the saving is worth the disturbance.
    Balanced,
}

impl NodePoolSpec {
    /// How long nodes of this pool may live, as written: what the template says, unless that is the default and
    /// `disruption.expireAfter`, its place before v1, says otherwise. Everything that needs the expiry asks here.
    pub fn expire_after(&self) -> &str {
        match self.expiries_written() {
            (DEFAULT_EXPIRE_AFTER, Some(older)) => older,
            (template, _) => template,
        }
    }

    /// What the template says, or the default, and what the older place says.
    fn expiries_written(&self) -> (&str, Option<&str>) {
        let template = self.template.spec.expire_after.as_deref();
        let older = self
            .disruption
            .as_ref()
            .and_then(|disruption| disruption.expire_after.as_deref());
        (template.unwrap_or(DEFAULT_EXPIRE_AFTER), older)
    }

    /// [`expire_after`](Self::expire_after), read; `None` if it is no duration.
    pub fn expiry(&self) -> Option<Expiry> {
        parse_expiry(self.expire_after())
    }

    /// How long draining may take; `None` for ever, or if it is no duration.
    pub fn termination_grace_period(&self) -> Option<std::time::Duration> {
        self.template
            .spec
            .termination_grace_period
            .as_deref()
            .and_then(parse_duration)
    }

    /// How long nothing may have happened on a node before it is consolidated; `None` if it is no duration.
    pub fn consolidate_after(&self) -> Option<Expiry> {
        let written = self
            .disruption
            .as_ref()
            .and_then(|disruption| disruption.consolidate_after.as_deref());
        parse_expiry(written.unwrap_or("0s"))
    }

    /// Which nodes may be consolidated; `None` if the policy is unknown.
    pub fn consolidation_policy(&self) -> Option<ConsolidationPolicy> {
        let written = self
            .disruption
            .as_ref()
            .and_then(|disruption| disruption.consolidation_policy.as_deref());
        match written {
            None | Some("WhenEmptyOrUnderutilized" | "WhenUnderutilized") => {
                Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)
            }
            Some("WhenEmpty") => Some(ConsolidationPolicy::WhenEmpty),
            Some("Balanced") => Some(ConsolidationPolicy::Balanced),
            Some(_) => None,
        }
    }

    /// The budgets, where absent the default one of 10%.
    pub fn budgets(&self) -> Vec<Budget> {
        let written = self
            .disruption
            .as_ref()
            .and_then(|disruption| disruption.budgets.clone());
        written.unwrap_or_else(|| {
            vec![Budget {
                nodes: Some(DEFAULT_BUDGET_NODES.to_owned()),
                reasons: None,
                schedule: None,
                duration: None,
            }]
        })
    }

    /// The same spec with its defaults in place and older spellings replaced by today's.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let mut spec = self.clone();
        spec.template.spec.expire_after = Some(self.expire_after().to_owned());
        let mut disruption = spec.disruption.take().unwrap_or_default();
        disruption.expire_after = None;
        disruption
            .consolidate_after
            .get_or_insert_with(|| "0s".to_owned());
        disruption.budgets = Some(self.budgets());
        if self.consolidation_policy() == Some(ConsolidationPolicy::WhenEmptyOrUnderutilized) {
            disruption.consolidation_policy = Some("WhenEmptyOrUnderutilized".to_owned());
        }
        spec.disruption = Some(disruption);
        spec
    }
}

#[cfg(test)]
mod tests;
