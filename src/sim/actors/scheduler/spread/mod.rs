//! Topology spread: how evenly the pods of a kind lie over the values of a node label.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::board::{Board, Site, namespace};
use super::fit::Refusal;
use super::{labels, node_affinity, taints};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The constraints of one pod that must hold, with how the pods lie now.
pub(super) struct Spread {
    rules: Vec<Rule>,
    counts: Vec<BTreeMap<String, i64>>,
}

/// A constraint, its defaults filled in.
pub(super) struct Rule {
    key: String,
    max_skew: i64,
    min_domains: i64,
    selector: Option<LabelSelector>,
    affinity: Nodes,
    taints: Nodes,
}

/// Which nodes a constraint counts.
#[derive(Clone, Copy, PartialEq)]
enum Nodes {
    /// Those that would take the pod.
    Honored,
    /// All.
    All,
}

impl Rule {
    fn of(pod: &Pod, constraint: &TopologySpreadConstraint) -> Self {
        let policy = |policy: Option<&str>, default: Nodes| match policy {
            Some("Honor") => Nodes::Honored,
            Some("Ignore") => Nodes::All,
            _ => default,
        };
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        let own = labels::of(&pod.metadata);
        Self {
            key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew),
            min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
            selector: labels::with_keys(constraint.label_selector.as_ref(), own, keys, &[]),
            affinity: policy(constraint.node_affinity_policy.as_deref(), Nodes::Honored),
            taints: policy(constraint.node_taints_policy.as_deref(), Nodes::All),
        }
    }

    fn value<'n>(&self, node: &'n Node) -> Option<&'n String> {
        labels::of(&node.metadata).get(&self.key)
    }

    fn counts(&self, pod: &Pod, node: &Node) -> bool {
        (self.affinity == Nodes::All || node_affinity::accepts(pod, node))
            && (self.taints == Nodes::All || taints::allow(pod, node))
    }

    fn selects(&self, pod: &Pod) -> bool {
        labels::selects(self.selector.as_ref(), labels::of(&pod.metadata))
    }

    /// The pods of a node that the constraint counts: neither those that are going nor those of other namespaces. An
    /// empty selector counts none, although it selects all; the real scheduler has it so.
    fn tally(&self, namespace_of: &Pod, site: &Site<'_>) -> i64 {
        if self.selector.as_ref().is_some_and(labels::is_empty) {
            return 0;
        }
        let counted = site.pods.iter().filter(|other| {
            other.metadata.deletion_timestamp.is_none()
                && namespace(other) == namespace(namespace_of)
                && self.selects(other)
        });
        i64::try_from(counted.count()).unwrap_or(i64::MAX)
    }
}

fn rules(pod: &Pod, when: &str) -> Vec<Rule> {
    let constraints = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.topology_spread_constraints.as_deref());
    let wanted = constraints
        .unwrap_or_default()
        .iter()
        .filter(|constraint| constraint.when_unsatisfiable == when);
    wanted.map(|constraint| Rule::of(pod, constraint)).collect()
}

impl Spread {
    /// How the pods that the hard constraints of `pod` speak of lie now. Only nodes that carry the labels of all
    /// constraints are counted.
    pub(super) fn new(board: &Board<'_>, pod: &Pod) -> Self {
        let rules = rules(pod, "DoNotSchedule");
        let mut counts = vec![BTreeMap::new(); rules.len()];
        let whole = |site: &&Site<'_>| rules.iter().all(|rule| rule.value(site.node).is_some());
        for site in board.sites.values().filter(whole) {
            for (rule, count) in rules.iter().zip(&mut counts) {
                if let Some(value) = rule.value(site.node).filter(|_| rule.counts(pod, site.node)) {
                    *count.entry(value.clone()).or_insert(0) += rule.tally(pod, site);
                }
            }
        }
        Self { rules, counts }
    }

    /// Whether the pod may go to a node.
    pub(super) fn check(&self, pod: &Pod, node: &Node) -> Result<(), Refusal> {
        for (rule, counts) in self.rules.iter().zip(&self.counts) {
            let Some(value) = rule.value(node) else {
                return Err(Refusal::lasting(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
            let least = counts.values().min().copied();
            // Without any domain the real scheduler has the largest number there is for a minimum: nothing is skewed.
            let least = if domains < rule.min_domains {
                0
            } else {
                least.unwrap_or(i64::MAX / 2)
            };
            let here = counts.get(value).copied().unwrap_or(0) + i64::from(rule.selects(pod));
            if here - least > rule.max_skew {
                return Err(Refusal::passing(
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        Ok(())
    }
}

/// For each of the nodes that fit, how full its domains are by the soft constraints of a pod; less is better. `None`
/// where a node lacks one of the labels. Nothing at all if the pod has no such constraints.
///
/// A pod that says nothing about spreading is spread by its owner's selector over hosts and zones, as the default
/// configuration of the real scheduler has it (services are not looked at here).
pub(super) fn crowding(board: &Board<'_>, pod: &Pod, fitting: &[&Site<'_>]) -> Option<Vec<Option<i64>>> {
    let silent = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.topology_spread_constraints.as_deref())
        .is_none_or(<[_]>::is_empty);
    let rules = if silent {
        default_rules(board, pod)
    } else {
        rules(pod, "ScheduleAnyway")
    };
    if rules.is_empty() {
        return None;
    }
    let whole = |node: &Node| silent || rules.iter().all(|rule| rule.value(node).is_some());
    let counted: Vec<(&Rule, BTreeMap<&String, i64>, f64)> = rules
        .iter()
        .map(|rule| {
            let counts = soft_counts(board, pod, rule, whole);
            let domains: std::collections::BTreeSet<_> =
                fitting.iter().filter_map(|site| rule.value(site.node)).collect();
            (rule, counts, weight(domains.len()))
        })
        .collect();
    let score = |site: &&Site<'_>| {
        whole(site.node).then(|| {
            let each = counted.iter().filter_map(|(rule, counts, weight)| {
                let count = counts.get(rule.value(site.node)?).copied().unwrap_or(0);
                Some(as_float(count) * weight + as_float(rule.max_skew - 1))
            });
            round(each.sum())
        })
    };
    Some(fitting.iter().map(score).collect())
}

fn soft_counts<'a>(
    board: &Board<'a>,
    pod: &Pod,
    rule: &Rule,
    whole: impl Fn(&Node) -> bool,
) -> BTreeMap<&'a String, i64> {
    let mut counts = BTreeMap::new();
    for site in board.sites.values().filter(|site| whole(site.node)) {
        if let Some(value) = rule.value(site.node).filter(|_| rule.counts(pod, site.node)) {
            *counts.entry(value).or_insert(0) += rule.tally(pod, site);
        }
    }
    counts
}

/// The constraints of the real scheduler's default configuration: at most 3 apart between hosts, 5 between zones.
fn default_rules(board: &Board<'_>, pod: &Pod) -> Vec<Rule> {
    let Some(selector) = owner_selector(board, pod).filter(|selector| !labels::is_empty(selector)) else {
        return Vec::new();
    };
    let rule = |(key, max_skew): (&str, i64)| Rule {
        key: key.to_owned(),
        max_skew,
        min_domains: 1,
        selector: Some(selector.clone()),
        affinity: Nodes::Honored,
        taints: Nodes::All,
    };
    [(HOSTNAME, 3), (ZONE, 5)].map(rule).into()
}

fn owner_selector(board: &Board<'_>, pod: &Pod) -> Option<LabelSelector> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let key = crate::sim::actors::view::Key::new(namespace(pod), &owner.name);
    match owner.kind.as_str() {
        "ReplicaSet" => Some(board.view.replica_sets.get(&key)?.spec.selector.clone()),
        "StatefulSet" => Some(board.view.stateful_sets.get(&key)?.spec.selector.clone()),
        _ => None,
    }
}

/// The more domains there are, the more each pod in one counts.
fn weight(domains: usize) -> f64 {
    as_float(i64::try_from(domains).unwrap_or(i64::MAX).saturating_add(2)).ln()
}

#[expect(clippy::cast_precision_loss, reason = "counts of pods and nodes are small")]
fn as_float(count: i64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a sum of small counts")]
fn round(score: f64) -> i64 {
    score.round() as i64
}

#[cfg(test)]
mod tests;
