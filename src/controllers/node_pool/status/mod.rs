//! The status of a NodePool: what its nodes have together, and whether it can be used. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;

use crate::api::{Condition, IBMNodeClass, NodeClaim, NodePool, NodePoolStatus, Violation, names};
use crate::cluster::Index;
use crate::controllers::conditions::{self, said};
use crate::controllers::events::{Kind, Story};
use crate::controllers::node_pool::health::Health;
use crate::controllers::node_pool::readiness::{ClassProblem, class_problem, usability, validity};
use crate::controllers::provisioning::claim::written;
use crate::lifecycle::facts::Facts;
use crate::model::Node;
use crate::model::node::limits;
use crate::resources::{Resources, quantity_of};

/// The name under which nodes are counted among resources.
const NODES: &str = "nodes";
/// What a message of a condition may have at most is 32,768 characters; nobody reads more than this.
const MESSAGE_MAX: usize = 2000;
/// What is said while too little is known. Machines may have joined before pool or class changed.
const TOO_LITTLE: &str = "no machine that was bought from NodePool and IBMNodeClass as they are has joined yet, and fewer \
                          than two have failed to";
/// Why a pool is not valid: its own words, in the condition and in the event about it.
const INVALID: &str = "NodePoolValidationFailed";

/// The claims of a pool.
pub(in crate::controllers::node_pool) fn claims_of<'a>(index: &'a Index, pool: &str) -> Vec<&'a NodeClaim> {
    let of_pool = |claim: &&NodeClaim| claim.labels().get(names::NODE_POOL).is_some_and(|it| it == pool);
    index
        .claims
        .iter()
        .map(|(_, claim)| claim)
        .filter(of_pool)
        .collect()
}

/// What the nodes of a pool have together. A claim counts from when its machine runs until it is gone.
pub(in crate::controllers::node_pool) fn used(index: &Index, pool: &str) -> Resources {
    let mut all = Resources::new();
    let mut count = 0;
    for claim in claims_of(index, pool) {
        if claim.is_launched() {
            let node = index.nodes.get(&claim.name_any());
            let joined = node.filter(|_| claim.is(names::NODE_REGISTERED));
            all.add(&Node::from_api(joined, Some(claim)).capacity);
            count += 1;
        }
    }
    all.with(NODES, count)
}

/// The status that a pool should have.
pub(in crate::controllers::node_pool) fn status(
    pool: &NodePool,
    class: Option<&IBMNodeClass>,
    used: &Resources,
    health: Option<Health>,
    now: Timestamp,
) -> NodePoolStatus {
    let valid = validation(validity(pool).err());
    let class_ready = class_condition(pool, class_problem(class));
    let usable = validation(usability(pool).err());
    let ready = ready(&[&usable, &class_ready]);
    let (registration, generation) = registration(pool, class, health);
    NodePoolStatus {
        nodes: Some(used.get(NODES)),
        resources: Some(written(used)),
        node_class_observed_generation: generation,
        conditions: Some(dated(
            pool,
            [valid, class_ready, within(pool, used), registration, ready],
            now,
        )),
    }
}

fn validation(found: Option<Vec<Violation>>) -> Condition {
    match found {
        None => said(
            names::VALIDATION_SUCCEEDED,
            "True",
            "ValidationSucceeded",
            String::new(),
        ),
        Some(found) => {
            let words: Vec<String> = found.iter().map(ToString::to_string).collect();
            said(
                names::VALIDATION_SUCCEEDED,
                "False",
                INVALID,
                shortened(words.join("; ")),
            )
        }
    }
}

fn class_condition(pool: &NodePool, problem: Option<ClassProblem>) -> Condition {
    let name = &pool.spec.template.spec.node_class_ref.name;
    let (status, reason) = match &problem {
        None => ("True", "NodeClassReady"),
        Some(ClassProblem::Missing) => ("False", "NodeClassNotFound"),
        Some(ClassProblem::Leaving) => ("False", "NodeClassTerminating"),
        Some(ClassProblem::NotReady(_)) => ("False", "NodeClassNotReady"),
        Some(ClassProblem::Unknown) => ("Unknown", "NodeClassReadinessUnknown"),
    };
    let message = problem.map(|problem| problem.words(name)).unwrap_or_default();
    said(names::NODE_CLASS_READY, status, reason, shortened(message))
}

fn ready(parts: &[&Condition]) -> Condition {
    let worst = |status: &str| parts.iter().find(|it| it.status == status);
    let Some(first) = worst("False").or_else(|| worst("Unknown")) else {
        return said(names::READY, "True", "Ready", String::new());
    };
    let message = format!(
        "{}: {}",
        first.type_,
        first.message.as_deref().unwrap_or_default()
    );
    said(names::READY, &first.status, "UnhealthyDependents", message)
}

/// Whether limits leave anything to buy. One that is used up, or was lowered below what is used, or allows nothing, is
/// said here; what is there stays.
fn within(pool: &NodePool, used: &Resources) -> Condition {
    let limits = limits(pool).unwrap_or_default();
    let reached = limits.iter().filter(|(name, most)| used.get(name) >= **most);
    let words: Vec<String> = reached
        .map(|(name, most)| {
            let (used, most) = (quantity_of(name, used.get(name)), quantity_of(name, *most));
            format!("nothing more is bought that has {name}: {used} of {most} is used")
        })
        .collect();
    if words.is_empty() {
        said(names::WITHIN_LIMITS, "True", "WithinLimits", String::new())
    } else {
        said(
            names::WITHIN_LIMITS,
            "False",
            "LimitReached",
            shortened(words.join("; ")),
        )
    }
}

/// Whether machines bought lately have joined, and the generation of the class that this is about. What was found for
/// another class, or for the pool as it was before, says nothing.
fn registration(
    pool: &NodePool,
    class: Option<&IBMNodeClass>,
    health: Option<Health>,
) -> (Condition, Option<i64>) {
    let type_ = names::NODE_REGISTRATION_HEALTHY;
    let generation = class.and_then(|class| class.metadata.generation);
    let found = match (health, registration_known(pool, class)) {
        (Some(Health::Healthy), _) => said(type_, "True", "RegistrationSucceeded", String::new()),
        (Some(Health::Unhealthy(why)), _) => said(type_, "False", "RegistrationFailed", shortened(why)),
        (None, Some(known)) => known.clone(),
        (None, None) => said(type_, "Unknown", "AwaitingReconciliation", TOO_LITTLE.to_owned()),
    };
    (found, generation)
}

/// What was found about joining, if it was found of pool and class as they are now.
pub(in crate::controllers::node_pool) fn registration_known<'a>(
    pool: &'a NodePool,
    class: Option<&IBMNodeClass>,
) -> Option<&'a Condition> {
    let status = pool.status.as_ref()?;
    let generation = class.and_then(|class| class.metadata.generation);
    let known = condition(status, names::NODE_REGISTRATION_HEALTHY)?;
    let is_about_these = status.node_class_observed_generation == generation
        && known.observed_generation == pool.metadata.generation;
    is_about_these.then_some(known)
}

/// What people are told of a pool that is about to get this status: that it is not valid, if that is news.
pub(in crate::controllers::node_pool) fn news(pool: &NodePool, status: &NodePoolStatus) -> Option<Story> {
    let verdict = condition(status, names::VALIDATION_SUCCEEDED).filter(|it| it.status == "False")?;
    let before = pool.status.as_ref();
    let known = before.and_then(|before| condition(before, names::VALIDATION_SUCCEEDED));
    if known.is_some_and(|known| known.status == verdict.status && known.message == verdict.message) {
        return None;
    }
    let message = verdict.message.clone().unwrap_or_default();
    Some(Story {
        kind: Kind::Warning,
        reason: INVALID,
        action: "Validate",
        note: message.clone(),
        transition: message,
    })
}

/// What a status says of one thing.
pub(in crate::controllers::node_pool) fn condition<'a>(
    status: &'a NodePoolStatus,
    type_: &str,
) -> Option<&'a Condition> {
    status.conditions.iter().flatten().find(|it| it.type_ == type_)
}

/// With the pool's generation, and with the time since when each holds.
fn dated(pool: &NodePool, conditions: impl IntoIterator<Item = Condition>, now: Timestamp) -> Vec<Condition> {
    let before = pool.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut all = conditions::dated(conditions, before, pool.metadata.generation, now);
    all.sort_by(|one, two| one.type_.cmp(&two.type_));
    all
}

/// What is there of what this controller owns, in the same order.
pub(in crate::controllers::node_pool) fn owned(pool: &NodePool) -> NodePoolStatus {
    const OURS: [&str; 5] = [
        names::NODE_CLASS_READY,
        names::NODE_REGISTRATION_HEALTHY,
        names::READY,
        names::VALIDATION_SUCCEEDED,
        names::WITHIN_LIMITS,
    ];
    let mut status = pool.status.clone().unwrap_or_default();
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|it| OURS.contains(&it.type_.as_str()));
        conditions.sort_by(|one, two| one.type_.cmp(&two.type_));
    }
    status
}

/// The annotations that a pool should bear.
pub(in crate::controllers::node_pool) fn stamps(pool: &NodePool) -> BTreeMap<&'static str, String> {
    let version = crate::api::NODE_POOL_HASH_VERSION.to_owned();
    [
        (names::NODE_POOL_HASH, pool.hash()),
        (names::NODE_POOL_HASH_VERSION, version),
    ]
    .into()
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

#[cfg(test)]
mod tests;
