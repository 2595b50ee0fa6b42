use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-16T11:00:00Z".parse().unwrap()
}

fn pool(status: &Value) -> NodePool {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "generation": 3},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        }}},
        "status": status,
    }))
    .unwrap()
}

fn told(status: &NodePoolStatus, type_: &str) -> (String, String) {
    let it = condition(status, type_).unwrap();
    (it.status.clone(), it.reason.clone().unwrap())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_pool_without_its_class_is_not_ready_and_says_why() {
    let status = status(&pool(&json!({})), None, &Resources::new(), None, now());
    assert_eq!(
        told(&status, "NodeClassReady"),
        pair("False", "NodeClassNotFound")
    );
    assert_eq!(
        told(&status, "ValidationSucceeded"),
        pair("True", "ValidationSucceeded")
    );
    assert_eq!(told(&status, "Ready"), pair("False", "UnhealthyDependents"));
    assert_eq!(told(&status, "NodeRegistrationHealthy").0, "Unknown");
    let message = condition(&status, "Ready").unwrap().message.clone().unwrap();
    assert!(message.contains("there is no IBMNodeClass default"), "{message}");
}

#[test]
fn what_was_found_about_joining_stands_until_pool_or_class_change() {
    let found = |generation: i64| {
        json!({"conditions": [{
            "type": "NodeRegistrationHealthy", "status": "True", "reason": "RegistrationSucceeded", "message": "",
            "lastTransitionTime": "2026-11-16T10:00:00Z", "observedGeneration": generation,
        }]})
    };
    let of = |status: &Value| {
        let after = super::status(&pool(status), None, &Resources::new(), None, now());
        told(&after, "NodeRegistrationHealthy").0
    };
    assert_eq!(of(&found(3)), "True");
    assert_eq!(of(&found(2)), "Unknown");
}

#[test]
fn a_status_that_is_as_it_should_be_is_not_written_again() {
    let used = Resources::new().with("cpu", 4000).with("nodes", 1);
    let first = status(&pool(&json!({})), None, &used, None, now());
    let stored = pool(&serde_json::to_value(&first).unwrap());
    let later = "2026-11-16T12:00:00Z".parse().unwrap();
    assert_eq!(status(&stored, None, &used, None, later), owned(&stored));
    assert_eq!(
        serde_json::to_value(&first).unwrap()["resources"],
        json!({"cpu": "4", "nodes": "1"})
    );
}
