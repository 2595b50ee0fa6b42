//! The smallest change that would let a pod in.
//!
//! One pool after the other is taken alone, with everybody else where the plan puts them: what stands in the way first is
//! changed, and the solver asked again, until the pod has a place or nothing is left to change. So a remedy is not guessed
//! from a reason: with it the pod was placed.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::after::carried_out;
use super::plan::{LeftOut, Plan, Where, Why};
use super::why::amount;
use super::{Options, solve};
use crate::model::pod::Term;
use crate::model::{
    Availability, InstanceType, Pod, PodSet, Pool, Requirements, Snapshot, Standing, Taint, Toleration,
    Values,
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

/// One change to a pod, to a pool, or with time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pod tolerates a taint.
    Tolerate(Taint),
    /// The pod no longer asks this of a label.
    Unrequire {
        /// The label.
        key: String,
        /// What it asks now.
        wanted: Values,
    },
    /// The pod asks for less.
    AskLess {
        /// Of what.
        resource: String,
        /// How much less.
        less: i64,
        /// What it asks for then.
        then: i64,
    },
    /// The pod takes no port of the host.
    FreePort(i32),
    /// The pod no longer asks this of where others are.
    Unbind {
        /// What it no longer asks.
        what: Bond,
        /// The label that says what is near.
        key: String,
    },
    /// The pool may have more.
    RaiseLimit {
        /// Of what.
        resource: String,
        /// How much it may have then.
        to: i64,
    },
    /// The pool asks for fewer different values of a label.
    FewerValues {
        /// The label.
        key: String,
        /// How many there are.
        to: u32,
    },
    /// An offering comes back.
    Wait {
        /// Which, as type, zone and capacity type.
        offering: String,
        /// When.
        until: Timestamp,
    },
}

/// What a pod asks of where others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// To be spread.
    Spread,
    /// To be near.
    Near,
    /// To be far.
    Far,
}

/// The remedy with the fewest changes for a pod that a plan leaves out, by its place in the snapshot; of several the one for
/// the pool that came nearest.
pub fn remedy(snapshot: &Snapshot, plan: &Plan, options: Options, pod: usize) -> Option<Remedy> {
    let left = plan.left_out.iter().find(|left| left.pods.contains(&pod))?;
    let pools = refused_by(snapshot, left);
    let after = carried_out(snapshot, plan);
    let remedies = pools.into_iter().filter_map(|name| {
        let pool = snapshot.pools.iter().find(|pool| pool.name == *name)?;
        let changes = changes(&alone(&after, pool, pod)?, options)?;
        Some(Remedy {
            pool: name.to_owned(),
            changes,
        })
    });
    let best = remedies.min_by_key(|remedy| remedy.changes.len())?;
    // A pod that needs no change has a place as soon as the plan is carried out.
    (!best.changes.is_empty()).then_some(best)
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

/// The same cluster with this one pod and this one pool: nodes take nobody, and still count.
fn alone(after: &Snapshot, pool: &Pool, pod: usize) -> Option<Snapshot> {
    let mut member = after.pending.members.get(pod)?.clone();
    let class = after.pending.classes[member.class].clone();
    member.class = 0;
    let mut alone = after.clone();
    alone.pools = vec![pool.clone()];
    alone.closed.clear();
    alone.pending = PodSet {
        classes: vec![class],
        members: vec![member],
    };
    for node in &mut alone.nodes {
        node.standing = Standing::Leaving;
    }
    Some(alone)
}

fn changes(alone: &Snapshot, options: Options) -> Option<Vec<Change>> {
    let mut alone = alone.clone();
    let mut changes = Vec::new();
    loop {
        let Some(why) = obstacle(&alone, options) else {
            return Some(changes);
        };
        if changes.len() >= CHANGES_MAX {
            return None;
        }
        changes.push(change(&mut alone, options, &why)?);
    }
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
    if let Why::NoType { .. } = why {
        return drop_one_label(alone, options);
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

/// Each label can be had, but not all together: the first whose absence brings the pod further.
fn drop_one_label(alone: &mut Snapshot, options: Options) -> Option<Change> {
    let asked = alone.pending.classes[0].as_ref().ok()?.node_terms.last()?.clone();
    for (key, wanted) in asked.iter() {
        let mut tried = alone.clone();
        unrequire(tried.pending.classes[0].as_mut().ok()?, key);
        if !matches!(obstacle(&tried, options), Some(Why::NoType { .. })) {
            *alone = tried;
            return Some(Change::Unrequire {
                key: key.clone(),
                wanted: wanted.clone(),
            });
        }
    }
    None
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

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate(taint) => write!(f, "let the pod tolerate the taint {taint}"),
            Self::Unrequire { key, wanted } => {
                write!(f, "let the pod not require that label {key} is {wanted}")
            }
            Self::AskLess { resource, less, then } => write!(
                f,
                "let the pod ask for {} less of {resource}, at most {}",
                amount(resource, *less),
                amount(resource, *then)
            ),
            Self::FreePort(port) => write!(f, "let the pod not take port {port} of the host"),
            Self::Unbind { what, key } => {
                let what = match what {
                    Bond::Spread => "be spread over",
                    Bond::Near => "be near to others by",
                    Bond::Far => "be far from others by",
                };
                write!(f, "let the pod not have to {what} {key}")
            }
            Self::RaiseLimit { resource, to } => write!(
                f,
                "raise the pool's limit of {resource} to {}",
                amount(resource, *to)
            ),
            Self::FewerValues { key, to } => write!(f, "let the pool ask for {to} values of {key}"),
            Self::Wait { offering, until } => write!(f, "wait until {until}, when {offering} comes back"),
        }
    }
}
