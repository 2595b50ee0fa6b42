//! Making room: which pods of lower priority would have to go for a pod that fits nowhere.
//!
//! As few as possible on one node, those under a spent disruption budget last. Of several nodes, in this order: fewest
//! budgets broken, least important victims, smallest sum of priorities, fewest victims, youngest victims, first name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::board::{Board, Site, namespace, priority};
use super::fit::{Fit, Refusal, Remedy};
use super::labels;

/// The reason in the condition of a victim.
pub(super) const REASON: &str = "PreemptionByScheduler";

/// Who must go from where.
#[derive(Debug, PartialEq)]
pub(super) struct Preemption<'a> {
    /// The node.
    pub(super) node: &'a str,
    /// Its pods that must go, the most important first.
    pub(super) victims: Vec<&'a Pod>,
    budgets_broken: usize,
}

/// The best node to make room on, or why there is none: one reason for each node.
pub(super) fn find<'a>(
    board: &Board<'a>,
    pod: &'a Pod,
    refusals: &BTreeMap<&'a str, Refusal>,
) -> Result<Preemption<'a>, BTreeMap<&'a str, &'static str>> {
    let mut candidates = Vec::new();
    let mut why_not = BTreeMap::new();
    for (name, refusal) in refusals {
        let helpful = refusal.remedy == Remedy::Preemption;
        match board.sites.get(name).filter(|_| helpful) {
            None => drop(why_not.insert(*name, "Preemption is not helpful for scheduling")),
            Some(site) => match victims(board, pod, site) {
                Ok(found) => candidates.push(found),
                Err(reason) => drop(why_not.insert(*name, reason)),
            },
        }
    }
    candidates.into_iter().min_by_key(order).ok_or(why_not)
}

fn order<'a>(candidate: &Preemption<'a>) -> (usize, i32, i64, usize, std::cmp::Reverse<String>, &'a str) {
    let priorities = || candidate.victims.iter().map(|pod| priority(pod));
    let highest = priorities().max().unwrap_or(i32::MIN);
    // Kubernetes adds an offset, so that many victims of negative priority are not better than few.
    let sum = priorities()
        .map(|one| i64::from(one) + i64::from(i32::MAX) + 1)
        .sum();
    let important = candidate.victims.iter().filter(|pod| priority(pod) == highest);
    let oldest = important.map(|pod| started(pod)).min().unwrap_or_default();
    (
        candidate.budgets_broken,
        highest,
        sum,
        candidate.victims.len(),
        std::cmp::Reverse(oldest),
        candidate.node,
    )
}

/// The fewest pods without which a node takes the pod.
fn victims<'a>(board: &Board<'a>, pod: &'a Pod, site: &Site<'a>) -> Result<Preemption<'a>, &'static str> {
    let lesser = site
        .pods
        .iter()
        .copied()
        .filter(|other| priority(other) < priority(pod));
    let mut lesser: Vec<&Pod> = lesser.collect();
    if lesser.is_empty() {
        return Err("No preemption victims found for incoming pod");
    }
    let fits = |gone: &[&'a Pod]| {
        let board = board.without(site.name, gone);
        let site = board.sites.get(site.name);
        let fit = Fit::new(&board, pod).ok().zip(site);
        fit.is_some_and(|(fit, site)| fit.check(&board, site).is_ok())
    };
    if !fits(&lesser) {
        return Err("No preemption victims found for incoming pod");
    }
    lesser.sort_by_key(|other| (std::cmp::Reverse(priority(other)), started(other), name(other)));
    let (breaking, harmless) = by_budget(board, &lesser);
    // Everyone who may stay after all is spared, those first whose going would break a budget.
    let mut going = lesser.clone();
    for spared in breaking.iter().chain(&harmless) {
        let without: Vec<&Pod> = going.iter().copied().filter(|one| !same(one, spared)).collect();
        if fits(&without) {
            going = without;
        }
    }
    let budgets_broken = going
        .iter()
        .filter(|one| breaking.iter().any(|other| same(one, other)))
        .count();
    Ok(Preemption {
        node: site.name,
        victims: going,
        budgets_broken,
    })
}

fn same(one: &Pod, other: &Pod) -> bool {
    std::ptr::eq(one, other)
}

fn name(pod: &Pod) -> (&str, Option<&str>) {
    (namespace(pod), pod.metadata.name.as_deref())
}

/// When a pod began to run, as text that sorts by time; one that has not begun is the youngest.
fn started(pod: &Pod) -> String {
    let at = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    at.map_or_else(|| "~".to_owned(), |at| at.0.to_string())
}

/// Pods whose going would break a disruption budget, and the others; each budget allows what its status says.
fn by_budget<'a>(board: &Board<'a>, pods: &[&'a Pod]) -> (Vec<&'a Pod>, Vec<&'a Pod>) {
    let mut left: BTreeMap<_, i32> = BTreeMap::new();
    let breaks = |pod: &&&Pod| {
        let mut broken = false;
        for (key, budget) in &board.view.budgets {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            if key.namespace != namespace(pod) || !labels::selects(selector, labels::of(&pod.metadata)) {
                continue;
            }
            let allowed = budget
                .status
                .as_ref()
                .and_then(|status| status.disruptions_allowed);
            let allowed = allowed.unwrap_or(0);
            let left = left.entry(key).or_insert(allowed);
            *left -= 1;
            broken |= *left < 0;
        }
        broken
    };
    let (breaking, harmless): (Vec<_>, Vec<_>) = pods.iter().partition(breaks);
    (breaking, harmless)
}

/// Whether a pod is going because the scheduler sent it away.
pub(super) fn is_leaving(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let sent = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        condition.type_ == "DisruptionTarget" && condition.reason.as_deref() == Some(REASON)
    };
    pod.metadata.deletion_timestamp.is_some() && conditions.unwrap_or_default().iter().any(sent)
}
