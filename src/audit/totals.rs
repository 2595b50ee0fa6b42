//! What must hold of a plan as a whole: every pod once, and no pool beyond its limits.

use super::{Finding, Rule, finding};
use crate::model::{Pool, Snapshot};
use crate::scheduling::{Destination, Plan};

/// Pods that are not there once, claims for nobody, and pods that are left out without a reason. Numbers that point
/// nowhere are told as well.
pub(super) fn every_pod_once(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut times = vec![0_usize; snapshot.pending.members.len()];
    let mut findings = Vec::new();
    let mut say = |subject: &str, found: &str| {
        findings.push(finding(Rule::Once, subject, found.to_owned()));
    };
    let mut claimed: Vec<Vec<usize>> = vec![Vec::new(); plan.claims.len()];
    for placement in &plan.placements {
        match placement.on {
            Destination::Existing(node) if node >= snapshot.nodes.len() => say("plan", "no such node"),
            Destination::New(claim) if claim >= plan.claims.len() => say("plan", "no such claim"),
            Destination::New(claim) => claimed[claim].push(placement.pod),
            Destination::Existing(_) => {}
        }
    }
    let placed = plan.placements.iter().map(|placement| placement.pod);
    let left = plan.left_out.iter().flat_map(|left| left.pods.iter().copied());
    for pod in placed.chain(left) {
        match times.get_mut(pod) {
            Some(times) => *times += 1,
            None => say("plan", "no such pod"),
        }
    }
    for (member, times) in snapshot.pending.members.iter().zip(times) {
        if times != 1 {
            say(
                &format!("{}/{}", member.namespace, member.name),
                &format!("is in the plan {times} times"),
            );
        }
    }
    for (at, (claim, mut placed)) in plan.claims.iter().zip(claimed).enumerate() {
        let mut named = claim.pods.clone();
        named.sort_unstable();
        placed.sort_unstable();
        if named.is_empty() || named != placed {
            say(&format!("new-{at}"), "its pods are not those placed on it");
        }
        if claim.pool >= snapshot.pools.len() {
            say(&format!("new-{at}"), "no such pool");
        }
    }
    if plan.left_out.iter().any(|left| left.refusals.is_empty()) {
        say("plan", "somebody is left out without a reason");
    }
    findings
}

/// Pools with more than they may have, as planned or if launch takes another type that a claim names. A pool that was
/// beyond its limit before may stay so.
pub(super) fn limits(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, pool) in snapshot.pools.iter().enumerate() {
        for (name, limit) in pool.limits.iter().flatten() {
            let nodes = snapshot.nodes.iter();
            let before: i64 = nodes
                .filter(|node| node.pool.as_deref() == Some(&pool.name))
                .map(|node| counted(name, node.capacity.get(name)))
                .fold(0, i64::saturating_add);
            let claims = || plan.claims.iter().filter(|claim| claim.pool == at);
            let planned = |kind: usize| counted(name, capacity(pool, kind, name));
            let added: i64 = claims()
                .map(|claim| planned(claim.cheapest.instance_type))
                .fold(0, i64::saturating_add);
            let total = before.saturating_add(added);
            if added > 0 && total > *limit {
                let found = format!("{total} of {name} exceeds {limit}");
                findings.push(finding(Rule::Limit, &pool.name, found));
            }
            for claim in claims() {
                let now = planned(claim.cheapest.instance_type);
                let most = claim.options.iter().map(|option| planned(*option as usize)).max();
                let with = |most: i64| total.saturating_sub(now).saturating_add(most);
                if most.is_some_and(|most| most > now && with(most) > *limit) {
                    let found = format!("a claim names a type with which {name} exceeds {limit}");
                    findings.push(finding(Rule::Limit, &pool.name, found));
                }
            }
        }
    }
    findings
}

fn counted(name: &str, amount: i64) -> i64 {
    if name == "nodes" { 1 } else { amount }
}

fn capacity(pool: &Pool, kind: usize, name: &str) -> i64 {
    pool.types.get(kind).map_or(0, |kind| kind.capacity.get(name))
}
