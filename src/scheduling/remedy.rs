//! The smallest change that would let a pod in.
//!
//! One pool after the other is taken alone, with everybody else where the plan puts them: what stands in the way first is
//! changed, and the solver asked again, until the pod has a place or nothing is left to change. So a remedy is not guessed
//! from a reason: with it the pod was placed. Only where no pool that makes nodes would do, one that makes none now is named
//! with what is to be mended.
//!
//! A pod that claims devices, or whose volumes cannot be used or are where nothing is sold, is helped by no change that would
//! leave it the same pod; and for one that lost its place to others the next plan is the remedy.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::after::carried_out;
use super::change::{Bond, Change};
use super::plan::{LeftOut, Plan, Where, Why};
use super::{Options, solve};
use crate::model::pod::Term;
use crate::model::requirements::Conflict;
use crate::model::selector::Condition;
use crate::model::{
    Availability, InstanceType, Pod, PodSet, Pool, Requirements, Selector, Snapshot, Standing, Toleration,
};
use crate::resources::PODS;

/// More changes than this are another pod.
const CHANGES_MAX: usize = 6;

/// What would let a pod in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// Into which pool.
    pub pool: String,
    /// All of these together.
    pub changes: Vec<Change>,
}

/// The remedy with the fewest changes for a pod that a plan leaves out, by its place in the snapshot; of several the one for
/// the pool that came nearest.
pub fn remedy(snapshot: &Snapshot, plan: &Plan, options: Options, pod: usize) -> Option<Remedy> {
    let left = plan.left_out.iter().find(|left| left.pods.contains(&pod))?;
    let names = refused_by(snapshot, left).into_iter();
    let pools = names.filter_map(|name| snapshot.pools.iter().find(|pool| pool.name == name));
    let alone = alone(carried_out(snapshot, plan), pod)?;
    let Some(best) = fewest(&alone, options, pools) else {
        return mended(snapshot, left);
    };
    // A pod that needs no change has a place as soon as the plan is carried out.
    (!best.changes.is_empty()).then_some(best)
}

/// The remedy with the fewest changes, of several the first: a pool is given up as soon as it needs as many as one before it.
fn fewest<'p>(alone: &Snapshot, options: Options, pools: impl Iterator<Item = &'p Pool>) -> Option<Remedy> {
    let mut best: Option<Remedy> = None;
    for pool in pools {
        let most = match &best {
            None => CHANGES_MAX,
            Some(best) if best.changes.is_empty() => break,
            Some(best) => best.changes.len() - 1,
        };
        let mut into = alone.clone();
        into.pools.push(pool.clone());
        if let Some(changes) = changes(into, options, most) {
            let pool = pool.name.clone();
            best = Some(Remedy { pool, changes });
        }
    }
    best
}

/// A pool that makes no nodes now, where that is all that is known to stand in the way there.
fn mended(snapshot: &Snapshot, left: &LeftOut) -> Option<Remedy> {
    if left
        .refusals
        .iter()
        .any(|refusal| refusal.place == Where::Everywhere)
    {
        return None;
    }
    let told = left
        .refusals
        .iter()
        .find_map(|refusal| match (&refusal.place, &refusal.why) {
            (Where::Pool(name), Why::Closed(why)) => Some((name, why)),
            _ => None,
        });
    let untold = || snapshot.closed.first().map(|closed| (&closed.0, &closed.1));
    let (pool, why) = told.or_else(untold)?;
    Some(Remedy {
        pool: pool.clone(),
        changes: vec![Change::Open(why.clone())],
    })
}

/// The pools that refuse a class, the nearest first; those whose reasons are not kept come last.
fn refused_by<'a>(snapshot: &'a Snapshot, left: &'a LeftOut) -> Vec<&'a str> {
    let told = left.refusals.iter().filter_map(|refusal| match &refusal.place {
        Where::Pool(name) => Some(name.as_str()),
        _ => None,
    });
    let mut pools: Vec<&str> = told.collect();
    if left.more > 0 {
        let others = snapshot.pools.iter().map(|pool| pool.name.as_str());
        let others: Vec<&str> = others.filter(|name| !pools.contains(name)).collect();
        pools.extend(others);
    }
    pools
}

/// The same cluster with this one pod and no pool: nodes take nobody, and still count.
fn alone(mut after: Snapshot, pod: usize) -> Option<Snapshot> {
    let mut member = after.pending.members.get(pod)?.clone();
    let class = after.pending.classes[member.class].clone();
    member.class = 0;
    after.pools.clear();
    after.closed.clear();
    after.pending = PodSet {
        classes: vec![class],
        members: vec![member],
    };
    for node in &mut after.nodes {
        node.standing = Standing::Leaving;
    }
    Some(after)
}

/// So many changes at most that let the one pod into the one pool.
fn changes(mut alone: Snapshot, options: Options, most: usize) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while let Some(why) = obstacle(&alone, options) {
        if changes.len() >= most {
            return None;
        }
        changes.push(change(&mut alone, options, &why)?);
    }
    Some(changes)
}

/// What stands in the way of the one pod.
fn obstacle(alone: &Snapshot, options: Options) -> Option<Why> {
    let plan = solve(alone, options, &|| true);
    let left = plan.left_out.into_iter().next()?;
    left.refusals
        .into_iter()
        .find(|refusal| !matches!(refusal.place, Where::Existing { .. }))
        .map(|refusal| refusal.why)
}

/// Takes one obstacle out of the way; nothing comes back if no change would.
fn change(alone: &mut Snapshot, options: Options, why: &Why) -> Option<Change> {
    match why {
        Why::NoType { .. } => return drop_one_label(alone, options),
        Why::VolumeLimit { driver, limit } => return fewer_volumes(alone, driver, *limit),
        Why::Feared { key } => return unlabel(alone, key),
        _ => {}
    }
    let Ok(pod) = &mut alone.pending.classes[0] else {
        return None;
    };
    change_pod(pod, why).or_else(|| change_pool(&mut alone.pools[0], why))
}

fn change_pod(pod: &mut Pod, why: &Why) -> Option<Change> {
    match why {
        Why::Taint(taint) => {
            pod.tolerations.push(Toleration {
                key: Some(taint.key.clone()),
                value: Some(taint.value.clone()),
                effect: Some(taint.effect),
            });
            Some(Change::Tolerate(taint.clone()))
        }
        Why::Requirement(conflict) => {
            let mut terms = pod.node_terms.iter();
            terms.find(|term| term.get(&conflict.key).is_some())?;
            unrequire(pod, &conflict.key);
            let (key, wanted) = (conflict.key.clone(), conflict.wanted.clone());
            Some(Change::Unrequire { key, wanted })
        }
        // Where a volume is, it stays; but what the pod itself asks may keep it from there.
        Why::VolumePlace(Conflict { key, .. }) => {
            let mut terms = pod.node_terms.iter().rev();
            let wanted = terms.find_map(|term| term.get(key))?.clone();
            unrequire(pod, key);
            let key = key.clone();
            Some(Change::Unrequire { key, wanted })
        }
        Why::Resource {
            shortage, daemons, ..
        } => {
            let (resource, then) = (shortage.resource.clone(), shortage.available.max(0));
            // A pod is one pod, whatever it asks for; and where daemons leave nothing, there is no room for work.
            if resource == PODS || (then == 0 && *daemons > 0) {
                return None;
            }
            let less = pod.requests.get(&resource) - then;
            pod.requests.set(&resource, then);
            (less > 0).then_some(Change::AskLess { resource, less, then })
        }
        Why::Port(port) => {
            pod.ports.retain(|taken| taken != port);
            Some(Change::FreePort(port.port))
        }
        Why::Spread { key, .. } => unbind(pod, Bond::Spread, key),
        Why::Near { key } | Why::NearAll { key } => unbind(pod, Bond::Near, key),
        Why::Far { key } => unbind(pod, Bond::Far, key),
        _ => None,
    }
}

fn change_pool(pool: &mut Pool, why: &Why) -> Option<Change> {
    match why {
        Why::Limit {
            resource,
            allowed,
            used,
            wanted,
        } => {
            let (resource, to) = (resource.clone(), used.saturating_add(*wanted));
            pool.limits.get_or_insert_default().set(&resource, to);
            (to > *allowed).then_some(Change::RaiseLimit { resource, to })
        }
        Why::MinValues { key, found, .. } => {
            pool.requirements = fewer_values(&pool.requirements, key, *found)?;
            let (key, to) = (key.clone(), *found);
            Some(Change::FewerValues { key, to })
        }
        Why::Withheld {
            offering,
            until: Some(until),
            ..
        } => {
            give_back(pool, *until);
            let (offering, until) = (offering.clone(), *until);
            Some(Change::Wait { offering, until })
        }
        _ => None,
    }
}

fn unrequire(pod: &mut Pod, key: &str) {
    for term in &mut pod.node_terms {
        *term = without(term, key);
    }
}

fn without(term: &Requirements, key: &str) -> Requirements {
    let mut rest = Requirements::new();
    for (other, values) in term.iter().filter(|(other, _)| *other != key) {
        rest.narrow(other, values);
    }
    rest
}

/// Each label can be had, but not all together: the first whose absence lets the pod in, else the first that brings it
/// further.
fn drop_one_label(alone: &mut Snapshot, options: Options) -> Option<Change> {
    let asked = alone.pending.classes[0].as_ref().ok()?.node_terms.last()?.clone();
    let mut further = None;
    for (key, wanted) in asked.iter() {
        let mut tried = alone.clone();
        unrequire(tried.pending.classes[0].as_mut().ok()?, key);
        match obstacle(&tried, options) {
            Some(Why::NoType { .. }) => {}
            Some(_) => further = further.or(Some((key, wanted))),
            None => {
                further = Some((key, wanted));
                break;
            }
        }
    }
    let (key, wanted) = further?;
    unrequire(alone.pending.classes[0].as_mut().ok()?, key);
    let (key, wanted) = (key.clone(), wanted.clone());
    Some(Change::Unrequire { key, wanted })
}

/// Leaves a pod so many volumes of a driver, those that come first by name.
fn fewer_volumes(alone: &mut Snapshot, driver: &str, then: u32) -> Option<Change> {
    let storage = &alone.storage;
    let pod = alone.pending.classes[0].as_mut().ok()?;
    let (mut mounted, mut fewer) = (0, 0);
    let namespace = &pod.namespace;
    pod.volumes.retain(|volume| {
        let needs = storage.needs(namespace, volume);
        let counts = needs.is_ok_and(|needs| needs.driver.as_deref() == Some(driver));
        mounted += u32::from(counts);
        let goes = counts && mounted > then;
        fewer += u32::from(goes);
        !goes
    });
    let driver = driver.to_owned();
    (fewer > 0).then_some(Change::FewerVolumes { driver, fewer, then })
}

/// Takes the first label from a pod by which others mean it that must be far from it, if they mean it by what it has.
fn unlabel(alone: &mut Snapshot, key: &str) -> Option<Change> {
    let pod = alone.pending.classes[0].as_ref().ok()?;
    let bound = &alone.bound;
    let others = bound
        .members
        .iter()
        .filter_map(|member| bound.classes[member.class].as_ref().ok());
    let mut meant = others
        .flat_map(|other| &other.anti_affinity)
        .filter(|term| term.key == key && means(term, pod, &alone.namespaces));
    let label = meant.find_map(|term| first_label(&term.selector))?.to_owned();
    let pod = alone.pending.classes[0].as_mut().ok()?;
    let value = pod.labels.remove(&label)?;
    let key = key.to_owned();
    Some(Change::Unlabel { label, value, key })
}

fn means(term: &Term, pod: &Pod, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
    term.selector.matches(&pod.labels) && term.namespaces.include(&pod.namespace, namespaces)
}

/// The first label without which nobody is meant by a selector.
fn first_label(selector: &Selector) -> Option<&str> {
    let Selector::All(conditions) = selector else {
        return None;
    };
    conditions.iter().find_map(|condition| match condition {
        Condition::In(label, _) | Condition::Exists(label) => Some(label.as_str()),
        Condition::NotIn(..) | Condition::DoesNotExist(_) => None,
    })
}

fn unbind(pod: &mut Pod, what: Bond, key: &str) -> Option<Change> {
    let asked = |terms: &mut Vec<Term>| {
        let before = terms.len();
        terms.retain(|term| term.key != key);
        before > terms.len()
    };
    let dropped = match what {
        Bond::Near => asked(&mut pod.affinity),
        Bond::Far => asked(&mut pod.anti_affinity),
        Bond::Spread => {
            let before = pod.spreads.len();
            pod.spreads.retain(|spread| spread.key != key);
            before > pod.spreads.len()
        }
    };
    let key = key.to_owned();
    dropped.then_some(Change::Unbind { what, key })
}

fn fewer_values(requirements: &Requirements, key: &str, least: u32) -> Option<Requirements> {
    let mut all = requirements.to_api();
    let written = all.iter_mut().filter(|requirement| requirement.key == key);
    for requirement in written {
        requirement.min_values = (least > 0).then_some(i64::from(least));
    }
    Requirements::from_api(&all).ok()
}

/// As things are once everything that is withheld until then has come back.
fn give_back(pool: &mut Pool, at: Timestamp) {
    let mut types: Vec<InstanceType> = pool.types.to_vec();
    for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        if matches!(offering.availability, Availability::Withheld { until, .. } if until <= at) {
            offering.availability = Availability::Available;
        }
    }
    pool.types = Arc::new(types);
}
