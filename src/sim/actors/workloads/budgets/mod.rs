//! Disruption budgets: how many pods of each may be evicted now.
//!
//! The API server charges a budget at each eviction and remembers the pod in `disruptedPods` until this controller has
//! seen it going; a pod that is remembered there and not going after two minutes counts again. The status is written
//! only onto the very version that it was computed from, so a charge is never undone by a count that did not see it.

mod expected;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use self::expected::{Expected, expected};
use super::pods::{count, is_deleting, is_ready};
use super::status::{corrected, moment};
use crate::clock::later;
use crate::sim::actors::control_plane::{Actor, Next};
use crate::sim::actors::scheduler::labels;
use crate::sim::actors::view::{Kind, View};

/// The controller.
pub(super) const ACTOR: Actor = Actor {
    name: "disruption-controller",
    reads: &[
        Kind::Budget,
        Kind::Pod,
        Kind::ReplicaSet,
        Kind::Deployment,
        Kind::StatefulSet,
    ],
    glances: &[],
    next,
};

/// How long an evicted pod may take to be seen going, as in the real controller.
const EVICTION_CONFIRMED_WITHIN: Duration = Duration::from_mins(2);
const ALLOWED: &str = "DisruptionAllowed";

/// What all budgets of the view should say.
pub(super) fn next(view: &View, now: Timestamp) -> Next {
    let mut next = Next::default();
    for (key, budget) in &view.budgets {
        let own = view
            .pods
            .iter()
            .filter(|(place, _)| place.namespace == key.namespace)
            .map(|(_, pod)| pod.as_ref())
            .filter(|pod| {
                let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                labels::selects(selector, labels::of(&pod.metadata))
            });
        let pods: Vec<&Pod> = own.collect();
        next.join(judge(view, budget, &pods, now));
    }
    next
}

fn judge(view: &View, budget: &PodDisruptionBudget, pods: &[&Pod], now: Timestamp) -> Next {
    let old = budget.status.as_ref();
    let disrupted = unconfirmed(old, pods, now);
    let again_at = disrupted
        .values()
        .map(|time| later(time.0, EVICTION_CONFIRMED_WITHIN))
        .min();
    let status = match expected(view, budget, pods) {
        Ok(expected) => counted(budget, pods, expected, disrupted, now),
        Err(why) => failed(budget, &why, now),
    };
    Next {
        acts: corrected(budget, old, &status).into_iter().collect(),
        again_at,
    }
}

/// The pods that were evicted and are not seen going yet, except those for which that takes too long.
fn unconfirmed(
    old: Option<&PodDisruptionBudgetStatus>,
    pods: &[&Pod],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let mut disrupted = old
        .and_then(|status| status.disrupted_pods.clone())
        .unwrap_or_default();
    disrupted.retain(|name, since| {
        let pod = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        pod.is_some_and(|pod| !is_deleting(pod)) && later(since.0, EVICTION_CONFIRMED_WITHIN) > now
    });
    disrupted
}

fn counted(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    expected: Expected,
    disrupted: BTreeMap<String, Time>,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let stays = |pod: &&&Pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        !is_deleting(pod) && !disrupted.contains_key(name)
    };
    let healthy = count(pods.iter().filter(stays).filter(|pod| is_ready(pod)));
    let allowed = allowance(expected, healthy);
    let verdict = if allowed > 0 {
        ("True", "SufficientPods", "")
    } else {
        ("False", "InsufficientPods", "")
    };
    PodDisruptionBudgetStatus {
        expected_pods: Some(expected.pods),
        desired_healthy: Some(expected.healthy),
        current_healthy: Some(healthy),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: Some(conditions(budget, verdict, now)),
    }
}

/// How many healthy pods may go.
fn allowance(expected: Expected, healthy: i32) -> i32 {
    if expected.pods <= 0 {
        0
    } else {
        (healthy - expected.healthy).max(0)
    }
}

/// A budget that cannot be worked out allows nothing.
fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    PodDisruptionBudgetStatus {
        disruptions_allowed: Some(0),
        observed_generation: budget.metadata.generation,
        conditions: Some(conditions(budget, ("False", "SyncFailed", why), now)),
        ..budget.status.clone().unwrap_or_default()
    }
}

fn conditions(
    budget: &PodDisruptionBudget,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Vec<Condition> {
    let old = budget
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    let mut conditions = old.unwrap_or_default();
    let known = conditions.iter().position(|known| known.type_ == ALLOWED);
    let since = known
        .map(|place| &conditions[place])
        .filter(|known| known.status == status)
        .map_or(moment(now), |known| known.last_transition_time.clone());
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since,
    };
    match known {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
    conditions
}
