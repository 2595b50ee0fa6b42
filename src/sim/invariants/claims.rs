//! S13: what a claim asks for never changes; what has become true of it stays true; times of transitions do not go back.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::book::Book;
use super::{Check, Findings, Truth};
use crate::api::names::{LAUNCHED, NODE_INITIALIZED, NODE_REGISTERED};
use crate::sim::history::Entry;
use crate::sim::kube::object;

/// What becomes true once.
const ONE_WAY: [&str; 3] = [LAUNCHED, NODE_REGISTERED, NODE_INITIALIZED];

pub(super) struct Claims;

impl Check for Claims {
    fn observe(&mut self, entry: &Entry, book: &Book, _: &Truth<'_>, found: &mut Findings) {
        for change in book.changed.claims.iter().filter(|change| !change.deleted) {
            if let Some(before) = &change.before {
                compare(before, &change.after, entry.at, found);
            }
        }
    }
}

fn compare(before: &Value, after: &Value, at: Duration, found: &mut Findings) {
    let name = object::name(after);
    if before["spec"] != after["spec"] {
        found.blame("S13", at, format!("the specification of claim {name} changed"));
    }
    for kind in ONE_WAY {
        if is_true(before, kind) && !is_true(after, kind) {
            found.blame("S13", at, format!("claim {name} is no longer {kind}"));
        }
    }
    for now in conditions(after) {
        let Some(then) = conditions(before).iter().find(|then| then["type"] == now["type"]) else {
            continue;
        };
        let (kind, was, is) = (now["type"].as_str().unwrap_or_default(), time(then), time(now));
        if is < was {
            let message = format!("the last transition of {kind} of claim {name} went back in time");
            found.blame("S13", at, message);
        }
        if is != was && then["status"] == now["status"] {
            let message = format!("{kind} of claim {name} has another time without a transition");
            found.blame("S13", at, message);
        }
    }
}

/// Whether a condition of a claim is true.
pub(in crate::sim) fn is_true(claim: &Value, kind: &str) -> bool {
    conditions(claim)
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The conditions of a claim.
pub(super) fn conditions(claim: &Value) -> &[Value] {
    claim["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn time(condition: &Value) -> Option<Timestamp> {
    condition["lastTransitionTime"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_become_true_stays_true() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.conditions("a", &[(LAUNCHED, "Unknown", 1)]).await;
        stage.conditions("a", &[(LAUNCHED, "True", 2)]).await;
        assert!(stage.blamed().is_empty());
        stage.conditions("a", &[(LAUNCHED, "False", 3)]).await;
        assert_eq!(stage.blamed(), ["S13"]);
    }

    #[tokio::test(start_paused = true)]
    async fn times_of_transitions_go_forward_and_with_transitions_only() {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        stage.conditions("a", &[("Ready", "False", 5)]).await;
        stage.conditions("a", &[("Ready", "True", 5)]).await;
        assert!(stage.blamed().is_empty());
        stage.conditions("a", &[("Ready", "True", 6)]).await;
        assert_eq!(stage.blamed(), ["S13"]);
        stage.conditions("a", &[("Ready", "False", 4)]).await;
        assert_eq!(stage.blamed(), ["S13"; 2]);
    }

    #[test]
    fn a_specification_never_changes() {
        let claim = |cpu: &str| serde_json::json!({"metadata": {"name": "a"}, "spec": {"cpu": cpu}});
        let mut found = Findings::default();
        compare(&claim("1"), &claim("1"), Duration::ZERO, &mut found);
        assert!(found.0.is_empty());
        compare(&claim("1"), &claim("2"), Duration::ZERO, &mut found);
        assert_eq!(found.0[0].id, "S13");
    }
}
