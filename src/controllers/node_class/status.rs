//! The status of a class after a verdict, or after a read that failed. Only what this controller owns.

use jiff::Timestamp;

use super::judge::Verdict;
use crate::api::{Condition, IBMNodeClass, IBMNodeClassStatus, names};
use crate::cloud;
use crate::controllers::conditions::{self, said};

/// After a verdict: what was resolved, and whether the class can be used.
pub(super) fn judged(class: &IBMNodeClass, verdict: Verdict, now: Timestamp) -> IBMNodeClassStatus {
    let ready = match verdict.problems.first() {
        None => said(names::READY, "True", "Ready", verdict.notes.join("; ")),
        Some(first) => {
            let messages: Vec<&str> = verdict.problems.iter().map(|it| it.message.as_str()).collect();
            said(names::READY, "False", first.reason, messages.join("; "))
        }
    };
    let resolved = said(names::RESOLVED, "True", "Resolved", String::new());
    let (image_id, image) = verdict.image.unzip();
    IBMNodeClassStatus {
        conditions: Some(dated(class, [ready, resolved], now)),
        resolved_image_id: image_id,
        resolved_image: image,
        resolved_subnets: Some(verdict.subnets).filter(|subnets| !subnets.is_empty()),
        resolved_security_groups: Some(verdict.security_groups).filter(|groups| !groups.is_empty()),
        resolved_resource_group_id: class
            .recorded_group()
            .map(str::to_owned)
            .or(verdict.resource_group),
        resolved_placement: verdict.placement.map(|kind| kind.as_str().to_owned()),
        observed_capacity: None,
    }
}

/// After a read that failed: what was resolved before stands, but only for the class as it was written then.
pub(super) fn unread(class: &IBMNodeClass, error: &cloud::Error, now: Timestamp) -> IBMNodeClassStatus {
    let mut status = owned(class);
    // Without the trace and the server's words, which differ each time: the same fault is written once.
    let fault = format!("{} failed ({})", error.answer().operation, error.kind());
    let (ready, suffix) = if let Some(ready) = class.readiness() {
        (ready.clone(), "what was resolved before stands")
    } else {
        let message = format!("{fault}: waiting until IBM Cloud answers");
        (
            said(names::READY, "Unknown", "ReadFailed", message),
            "nothing is known yet",
        )
    };
    let message = format!("{fault}; {suffix}");
    let resolved = said(names::RESOLVED, "False", "ReadFailed", message);
    status.conditions = Some(dated(class, [ready, resolved], now));
    status
}

/// While it is to go, and others still use it.
pub(super) fn leaving(class: &IBMNodeClass, message: String, now: Timestamp) -> IBMNodeClassStatus {
    let mut status = owned(class);
    let ready = said(names::READY, "False", "Deleting", message);
    let resolved = class.status.as_ref().and_then(|it| it.condition(names::RESOLVED));
    let conditions = [Some(ready), resolved.cloned()];
    status.conditions = Some(dated(class, conditions.into_iter().flatten(), now));
    status
}

/// What this controller has written so far.
pub(super) fn owned(class: &IBMNodeClass) -> IBMNodeClassStatus {
    let mut status = class.status.clone().unwrap_or_default();
    // Written by whoever looks at nodes.
    status.observed_capacity = None;
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|it| [names::READY, names::RESOLVED].contains(&it.type_.as_str()));
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status
}

/// With the class's generation, and with the time since when each holds.
fn dated(
    class: &IBMNodeClass,
    conditions: impl IntoIterator<Item = Condition>,
    now: Timestamp,
) -> Vec<Condition> {
    let before = class.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions::dated(conditions, before, class.metadata.generation, now)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cloud::{Answer, Effect};
    use crate::controllers::node_class::judge::Problem;

    const EARLIER: &str = "2026-11-16T10:00:00Z";

    fn now() -> Timestamp {
        "2026-11-16T11:00:00Z".parse().unwrap()
    }

    fn class(generation: i64, status: &Value) -> IBMNodeClass {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "generation": generation},
            "spec": {"region": "us-south", "vpc": "v", "image": "i"}, "status": status,
        }))
        .unwrap()
    }

    fn ready(status: &str, generation: i64) -> Value {
        json!({"conditions": [{
            "type": "Ready", "status": status, "reason": "Ready", "message": "",
            "lastTransitionTime": EARLIER, "observedGeneration": generation,
        }], "resolvedImageID": "i"})
    }

    fn fault(trace: &str) -> cloud::Error {
        cloud::Error::Transient {
            effect: Effect::None,
            answer: Box::new(Answer {
                operation: "list subnets",
                trace: trace.to_owned(),
                ..Answer::default()
            }),
        }
    }

    fn told(status: &IBMNodeClassStatus, type_: &str) -> (String, String, String) {
        let it = status.condition(type_).unwrap();
        (
            it.status.clone(),
            it.reason.clone().unwrap(),
            it.message.clone().unwrap(),
        )
    }

    #[test]
    fn the_first_problem_is_the_reason_and_all_are_in_the_message() {
        let verdict = Verdict {
            problems: vec![
                Problem::new("A", "a is wrong".to_owned()),
                Problem::new("B", "b is wrong".to_owned()),
            ],
            ..Verdict::default()
        };
        let status = judged(&class(1, &json!({})), verdict, now());
        let expected = (
            "False".to_owned(),
            "A".to_owned(),
            "a is wrong; b is wrong".to_owned(),
        );
        assert_eq!(told(&status, "Ready"), expected);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let status = judged(&class(2, &ready("True", 1)), Verdict::default(), now());
        let condition = status.condition("Ready").unwrap();
        assert_eq!(condition.last_transition_time.to_string(), EARLIER);
        assert_eq!(condition.observed_generation, Some(2));
    }

    #[test]
    fn the_resource_group_is_recorded_once_whatever_is_found_later() {
        let found = |recorded: &Value, group: Option<&str>| {
            let verdict = Verdict {
                resource_group: group.map(str::to_owned),
                ..Verdict::default()
            };
            judged(&class(1, recorded), verdict, now()).resolved_resource_group_id
        };
        let (none, first) = (json!({}), json!({"resolvedResourceGroupID": "a"}));
        assert_eq!(found(&none, Some("a")).as_deref(), Some("a"));
        assert_eq!(found(&first, Some("b")).as_deref(), Some("a"));
        assert_eq!(
            found(&first, None).as_deref(),
            Some("a"),
            "a class that is wrong otherwise"
        );
    }

    #[test]
    fn a_failed_read_keeps_what_was_resolved_and_says_so() {
        let class = class(1, &ready("True", 1));
        let status = unread(&class, &fault("t1"), now());
        assert_eq!(status.resolved_image_id.as_deref(), Some("i"));
        assert_eq!(told(&status, "Ready").0, "True");
        let (resolved, reason, message) = told(&status, "Resolved");
        assert_eq!((resolved.as_str(), reason.as_str()), ("False", "ReadFailed"));
        assert!(
            message.contains("list subnets") && message.contains("stands"),
            "{message}"
        );
        assert_eq!(
            status,
            unread(&class, &fault("t2"), now()),
            "the same fault is written once"
        );
    }

    #[test]
    fn a_failed_read_after_a_change_makes_the_class_unknown() {
        let status = unread(&class(2, &ready("True", 1)), &fault("t"), now());
        assert_eq!(told(&status, "Ready").0, "Unknown");
        let first = unread(&class(1, &json!({})), &fault("t"), now());
        assert_eq!(told(&first, "Ready").0, "Unknown");
    }
}
