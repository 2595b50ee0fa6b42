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
        let it = condition(&after, "NodeRegistrationHealthy").unwrap().clone();
        (it.status, it.message.unwrap())
    };
    assert_eq!(of(&found(3)), pair("True", ""));
    let (status, message) = of(&found(2));
    assert_eq!(status, "Unknown");
    assert!(message.contains("as they are"), "others have joined: {message}");
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

fn limited(limits: &Value) -> NodePool {
    let mut pool = pool(&json!({}));
    pool.spec.limits = serde_json::from_value(limits.clone()).unwrap();
    pool
}

#[test]
fn a_limit_that_leaves_nothing_to_buy_is_said_and_closes_nothing_else() {
    let used = Resources::new().with("cpu", 8000).with("nodes", 2);
    let said = |limits: &Value| {
        let status = super::status(&limited(limits), None, &used, None, now());
        let it = condition(&status, "WithinLimits").unwrap();
        (it.status.clone(), it.message.clone().unwrap())
    };
    for open in [json!({}), json!({"cpu": "9", "nodes": "3"})] {
        assert_eq!(said(&open), pair("True", ""), "{open}");
    }
    for (limits, words) in [
        (json!({"cpu": "0"}), "has cpu: 8 of 0 is used"),
        (json!({"cpu": "4"}), "has cpu: 8 of 4 is used"),
        (json!({"nodes": "2", "cpu": "9"}), "has nodes: 2 of 2 is used"),
        (
            json!({"example.com/unicorn": "0"}),
            "has example.com/unicorn: 0 of 0 is used",
        ),
    ] {
        let (status, message) = said(&limits);
        assert_eq!(status, "False", "{limits}");
        assert!(message.ends_with(words), "{message}");
    }
    let status = super::status(&limited(&json!({"cpu": "4"})), None, &used, None, now());
    assert_eq!(told(&status, "ValidationSucceeded").0, "True");
}

#[test]
fn what_machines_tell_about_joining_is_said_for_the_class_as_it_is_now() {
    let class: IBMNodeClass = serde_json::from_value(json!({
        "metadata": {"name": "default", "generation": 7},
        "spec": {"region": "us-south", "vpc": "v", "image": "i"},
    }))
    .unwrap();
    let nothing = Resources::new();
    let of = |health: Health| status(&pool(&json!({})), Some(&class), &nothing, Some(health), now());
    let healthy = of(Health::Healthy);
    assert_eq!(
        told(&healthy, "NodeRegistrationHealthy"),
        pair("True", "RegistrationSucceeded")
    );
    assert_eq!(healthy.node_class_observed_generation, Some(7));
    let failing = of(Health::Unhealthy("no route".to_owned()));
    let found = condition(&failing, "NodeRegistrationHealthy").unwrap();
    assert_eq!(
        (found.status.as_str(), found.message.as_deref()),
        ("False", Some("no route"))
    );
    let stored = pool(&serde_json::to_value(&healthy).unwrap());
    let mut newer = class.clone();
    newer.metadata.generation = Some(8);
    let of = |class: &IBMNodeClass| {
        let status = status(&stored, Some(class), &nothing, None, now());
        (
            told(&status, "NodeRegistrationHealthy").0,
            status.node_class_observed_generation,
        )
    };
    assert_eq!(of(&class), ("True".to_owned(), Some(7)), "it stands");
    assert_eq!(
        of(&newer),
        ("Unknown".to_owned(), Some(8)),
        "of another class nothing is known"
    );
}

#[test]
fn a_pool_that_is_not_valid_for_its_budgets_alone_is_told_so_and_ready() {
    let class: IBMNodeClass = serde_json::from_value(json!({
        "metadata": {"name": "default", "generation": 7},
        "spec": {"region": "us-south", "vpc": "v", "image": "i"},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 7,
            "lastTransitionTime": "2026-11-16T10:00:00Z",
        }]},
    }))
    .unwrap();
    let budgets = json!([{"nodes": "1", "schedule": "99 99 * * *", "duration": "1h"}]);
    let mut unread = pool(&json!({}));
    let disruption = json!({"consolidateAfter": "0s", "budgets": budgets});
    unread.spec.disruption = serde_json::from_value(disruption).unwrap();
    let after = status(&unread, Some(&class), &Resources::new(), None, now());
    assert_eq!(told(&after, "ValidationSucceeded").0, "False");
    assert_eq!(told(&after, "Ready"), pair("True", "Ready"));
    assert!(news(&unread, &after).is_some());
    let limits = json!({"cpu": "-1"});
    unread.spec.limits = serde_json::from_value(limits).unwrap();
    let after = status(&unread, Some(&class), &Resources::new(), None, now());
    assert_eq!(told(&after, "Ready").0, "False");
}

#[test]
fn that_a_pool_is_not_valid_is_told_when_it_turns_so_or_for_another_reason() {
    let limited = |cpu: &str, status: &Value| {
        let mut pool = pool(status);
        pool.spec.limits = serde_json::from_value(json!({"cpu": cpu})).unwrap();
        pool
    };
    let of = |pool: &NodePool| super::status(pool, None, &Resources::new(), None, now());
    let sound = limited("4", &json!({}));
    assert_eq!(news(&sound, &of(&sound)), None);
    let first = limited("-1", &serde_json::to_value(of(&sound)).unwrap());
    let story = news(&first, &of(&first)).unwrap();
    assert_eq!(
        (story.kind, story.reason),
        (Kind::Warning, "NodePoolValidationFailed")
    );
    let said = condition(&of(&first), "ValidationSucceeded").cloned().unwrap();
    assert_eq!(Some(&story.note), said.message.as_ref());
    assert_eq!(story.transition, story.note);
    let stored = serde_json::to_value(of(&first)).unwrap();
    let again = limited("-1", &stored);
    assert_eq!(news(&again, &of(&again)), None, "it is told already");
    let other = limited("1e1.5", &stored);
    assert!(news(&other, &of(&other)).is_some());
}

fn claim(name: &str, pool: &str, conditions: &[&str], provider: Option<&str>) -> NodeClaim {
    let condition =
        |type_: &&str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {names::NODE_POOL: pool}},
        "spec": {
            "requirements": [], "resources": {"requests": {"cpu": "1"}},
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        },
        "status": {"providerID": provider, "conditions": conditions, "capacity": {"cpu": "2"}},
    }))
    .unwrap()
}

#[test]
fn what_a_pool_uses_is_what_its_running_machines_have() {
    let mut index = Index::default();
    let node = |name: &str, cpu: &str| -> k8s_openapi::api::core::v1::Node {
        let status = json!({"capacity": {"cpu": cpu}});
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
    };
    index.apply(&claim("ordered", "p", &[], None));
    index.apply(&claim("running", "p", &["Launched"], Some("ibm:///r/1")));
    index.apply(&claim(
        "joined",
        "p",
        &["Launched", "Registered"],
        Some("ibm:///r/2"),
    ));
    index.apply(&claim("foreign", "q", &["Launched"], Some("ibm:///r/3")));
    // One that is not matched with the claim yet is not believed.
    index.apply(&node("running", "64"));
    index.apply(&node("joined", "4"));
    let used = used(&index, "p");
    assert_eq!((used.get("cpu"), used.get("nodes")), (6000, 2));
    assert_eq!(super::used(&index, "nobody").get("nodes"), 0);
}
