//! L6, the half of it that is about expiry: a claim whose time is over goes. Drift's half comes with voluntary disruption.
//!
//! Only a claim that works is judged, whose Node takes pods; what another lacks L2 says. Nobody is blamed for one that is
//! merely due, nor for one that waits for others of its pool which leave: why those do not come to their end L3 asks.
//!
//! Whether one is overdue is seen from itself, whenever its time was over: healing waits for what faults held up, and blames in
//! the end.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::claims::conditions;
use super::leftovers::claims;
use super::removals::time;
use super::{Check, Findings, Truth};
use crate::api::names::{NODE_INITIALIZED, NODE_POOL};
use crate::api::parse_duration;
use crate::clock::later;
use crate::sim::history::Entry;
use crate::sim::kube::object;

/// So long a Node may work at least once it is ready,
const WORKS: Duration = Duration::from_mins(5);
/// but no claim grows older than this for that reason: 15 minutes to run, 15 to join and 30 to be ready.
const JOINS_WITHIN: Duration = Duration::from_hours(1);

/// By when a claim that is due must have begun to leave: ten minutes, for which those that leave before it may count, half a
/// minute to the next look, and 50 s until the operator works at full speed after faults. The rest is slack.
const GOES_WITHIN: Duration = Duration::from_mins(15);
/// While so many of its pool leave a claim may wait. Of a large pool more may leave at once, but need not.
const AT_ONCE: usize = 5;

pub(super) struct Overdue;

impl Check for Overdue {
    fn observe(&mut self, _: &Entry, _: &Book, _: &Truth<'_>, _: &mut Findings) {}

    fn settled(&self, _: &Book, truth: &Truth<'_>, found: &mut Findings) {
        let claims = claims(truth);
        let staying = claims
            .iter()
            .filter(|claim| !object::is_deleting(claim) && !may_wait(claim, &claims));
        for claim in staying {
            let due = due(claim).filter(|due| truth.now >= later(*due, GOES_WITHIN));
            if let Some(due) = due {
                let name = object::name(claim);
                let message = format!("claim {name} is there although it expired at {due}");
                found.blame("L6", truth.since_start, message);
            }
        }
    }
}

/// When the time of a claim whose Node takes pods is over. Nothing for another, and for one that may live for ever.
///
/// Since when its Node takes pods is the word of a clock that may have been wrong: whoever goes by it may be late by that, up
/// to the age that no claim outgrows for that reason.
fn due(claim: &Value) -> Option<Timestamp> {
    let lives = claim["spec"]["expireAfter"].as_str().and_then(parse_duration)?;
    let born = time(&claim["metadata"]["creationTimestamp"])?;
    let is_ready = |it: &&Value| it["type"] == NODE_INITIALIZED && it["status"] == "True";
    let ready = time(&conditions(claim).iter().find(is_ready)?["lastTransitionTime"])?;
    let (over, latest) = (later(born, lives), later(born, lives.max(JOINS_WITHIN)));
    Some(over.max(later(ready, WORKS).min(latest)))
}

/// Whether as many others of its pool leave as may at once.
fn may_wait(claim: &Value, claims: &[Value]) -> bool {
    let leaving = claims
        .iter()
        .filter(|other| object::is_deleting(other) && pool(other) == pool(claim));
    leaving.count() >= AT_ONCE
}

fn pool(claim: &Value) -> &Value {
    &claim["metadata"]["labels"][NODE_POOL]
}

#[cfg(test)]
mod tests {
    use kube::api::PostParams;
    use serde_json::json;

    use super::super::stage::Stage;
    use super::*;
    use crate::api::names::TERMINATION_FINALIZER;

    /// A claim that is made at ten o'clock.
    async fn claim(stage: &mut Stage, name: &str, pool: &str, expire_after: &str) {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {NODE_POOL: pool}, "finalizers": [TERMINATION_FINALIZER]},
            "spec": {
                "requirements": [], "expireAfter": expire_after,
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            },
        });
        let claim = serde_json::from_value(claim).unwrap();
        let made = stage.claims().create(&PostParams::default(), &claim).await;
        made.unwrap();
        stage.look();
    }

    /// Its Node takes pods since then.
    async fn ready(stage: &mut Stage, name: &str, since: &str) {
        let initialized = json!({
            "type": NODE_INITIALIZED, "status": "True", "reason": NODE_INITIALIZED, "message": "",
            "lastTransitionTime": format!("2026-11-16T{since}Z"),
        });
        let status = json!({"status": {"conditions": [initialized]}});
        stage.patch(name, status).await;
    }

    /// The names of the claims that are blamed.
    fn overdue(stage: &Stage) -> Vec<String> {
        let unmet = stage.unmet().into_iter().filter(|unmet| unmet.id == "L6");
        let name = |message: &str| message.split(' ').nth(1).map(str::to_owned);
        unmet.filter_map(|unmet| name(&unmet.message)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_was_due_a_quarter_of_an_hour_ago_is_blamed_and_one_that_is_just_overdue_is_not() {
        for (expire_after, since, due_minutes) in [
            ("12m", "10:02:00", 12),
            ("2h", "10:02:00", 120),
            // Ready late, and so late that it has to go all the same.
            ("5m", "10:20:00", 25),
            ("5m", "10:58:00", 60),
            // By a clock that was ahead, and by one that was behind.
            ("5m", "23:00:00", 60),
            ("12m", "03:00:00", 12),
        ] {
            let mut stage = Stage::new().await;
            claim(&mut stage, "a", "p", expire_after).await;
            ready(&mut stage, "a", since).await;
            stage.pass((due_minutes + 14) * 60).await;
            assert_eq!(overdue(&stage), [""; 0], "{expire_after}, {since}");
            stage.pass(2 * 60).await;
            assert_eq!(overdue(&stage), ["a"], "{expire_after}, {since}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_leaves_that_never_worked_or_that_may_live_for_ever_is_not_blamed() {
        let mut stage = Stage::new().await;
        for (name, expire_after) in [
            ("late", "6m"),
            ("leaving", "6m"),
            ("starting", "6m"),
            ("unknown", "6m"),
            ("lasting", "Never"),
        ] {
            claim(&mut stage, name, "p", expire_after).await;
        }
        for name in ["late", "leaving", "lasting"] {
            ready(&mut stage, name, "10:02:00").await;
        }
        let not_yet = (NODE_INITIALIZED, "Unknown", 1);
        stage.conditions("starting", &[not_yet]).await;
        stage.delete("leaving").await;
        stage.pass(3 * 60 * 60).await;
        assert_eq!(overdue(&stage), ["late"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_may_wait_while_five_others_of_its_pool_leave() {
        let mut stage = Stage::new().await;
        for (name, pool) in [
            ("a", "p"),
            ("b", "p"),
            ("c", "p"),
            ("d", "p"),
            ("e", "p"),
            ("f", "p"),
            ("g", "q"),
        ] {
            claim(&mut stage, name, pool, "6m").await;
            ready(&mut stage, name, "10:02:00").await;
        }
        for name in ["a", "b", "c", "d"] {
            stage.delete(name).await;
        }
        stage.pass(30 * 60).await;
        assert_eq!(overdue(&stage), ["e", "f", "g"]);
        stage.delete("e").await;
        assert_eq!(overdue(&stage), ["g"]);
    }
}
