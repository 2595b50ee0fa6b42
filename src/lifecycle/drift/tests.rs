use serde_json::{Value, json};

use super::*;
use crate::api::CapacityType;
use crate::model::MachineStatus;

fn class(spec: &Value) -> IBMNodeClass {
    let mut whole = json!({"region": "us-south", "vpc": "v", "image": "i"});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"name": "default", "generation": 1}, "spec": whole,
        "status": {
            "resolvedImageID": "new-image", "resolvedSubnets": [{"id": "s1", "zone": "z"}, {"id": "s2", "zone": "z"}],
            "resolvedSecurityGroups": ["g1", "g2"],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-11-16T10:00:00Z", "observedGeneration": 1,
            }],
        },
    }))
    .unwrap()
}

/// A claim that was made from `class`.
fn claim(class: &IBMNodeClass) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "a", "annotations": {
            names::NODE_CLASS_HASH: class.hash(),
            names::NODE_CLASS_HASH_VERSION: NODE_CLASS_HASH_VERSION,
            names::NODE_CLASS_FIELDS: serde_json::to_string(&class.ingredients()).unwrap(),
        }},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "default"}},
    }))
    .unwrap()
}

fn machine() -> Machine {
    Machine {
        id: "m".to_owned(),
        name: "n".to_owned(),
        profile: "bxf-2x8".to_owned(),
        zone: "z".to_owned(),
        capacity_type: CapacityType::Spot,
        status: MachineStatus::Running,
        reasons: Vec::new(),
        address: None,
        resource_group: "r".to_owned(),
        image: Some("new-image".to_owned()),
        subnet: Some("s2".to_owned()),
        interface: Some("i".to_owned()),
        crn: None,
        created_at: None,
    }
}

fn groups(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn told(found: Option<Drift>) -> (&'static str, String) {
    let found = found.unwrap();
    (found.reason, found.message)
}

#[test]
fn a_machine_that_is_what_its_class_asks_for_has_not_drifted() {
    let class = class(&json!({}));
    let in_any_order = groups(&["g2", "g1"]);
    assert_eq!(
        drift(&claim(&class), &class, &machine(), Some(&in_any_order)),
        None
    );
}

#[test]
fn a_changed_class_is_told_field_by_field_as_it_was_and_as_it_is() {
    let before = class(&json!({"sshKeys": ["k1"], "userData": "canary-1"}));
    let now = class(&json!({"resourceGroup": "r", "userData": "canary-2", "sshKeys": ["k2"]}));
    let (reason, message) = told(drift(&claim(&before), &now, &machine(), None));
    assert_eq!(reason, "NodeClassDrift");
    assert!(message.contains(r#"sshKeys: was ["k1"], is ["k2"]"#), "{message}");
    assert!(
        message.contains(r#"resourceGroup: was absent, is "r""#),
        "{message}"
    );
    assert!(message.contains("userData: was 10 bytes"), "{message}");
    assert!(
        !message.contains("canary") && !message.contains("vpc"),
        "{message}"
    );
}

#[test]
fn hashes_that_were_computed_otherwise_are_not_compared() {
    let class = class(&json!({}));
    let mut claim = claim(&class);
    let annotations = claim.annotations_mut();
    annotations.insert(names::NODE_CLASS_HASH.to_owned(), "1".to_owned());
    annotations.insert(names::NODE_CLASS_HASH_VERSION.to_owned(), "v0".to_owned());
    assert_eq!(drift(&claim, &class, &machine(), None), None);
}

#[test]
fn another_image_subnet_or_security_group_is_drift() {
    let class = class(&json!({}));
    let judged = |change: fn(&mut Machine), ids: &[&str]| {
        let mut machine = machine();
        change(&mut machine);
        told(drift(&claim(&class), &class, &machine, Some(&groups(ids))))
    };
    assert_eq!(
        judged(|it| it.image = Some("old-image".to_owned()), &["g1", "g2"]),
        ("ImageDrift", "image: was old-image, is new-image".to_owned())
    );
    assert_eq!(
        judged(|it| it.subnet = Some("s3".to_owned()), &["g1", "g2"]),
        ("SubnetDrift", "subnet: was s3, is one of s1, s2".to_owned())
    );
    assert_eq!(
        judged(|_| {}, &["g1"]),
        (
            "SecurityGroupDrift",
            "securityGroups: was g1, is g1, g2".to_owned()
        )
    );
}

/// A class that cannot be used, with these subnets if it could be told.
fn unready(reason: &str, subnets: &Value) -> IBMNodeClass {
    let mut class = serde_json::to_value(class(&json!({}))).unwrap();
    let ready = &mut class["status"]["conditions"][0];
    ready["status"] = "False".into();
    ready["reason"] = reason.into();
    class["status"]["resolvedSubnets"] = subnets.clone();
    serde_json::from_value(class).unwrap()
}

#[test]
fn a_subnet_is_judged_also_by_a_class_that_cannot_be_used_for_want_of_it() {
    let judged = |class: &IBMNodeClass| drift(&claim(class), class, &machine(), None);
    for reason in ["SubnetNotFound", "NoSubnet"] {
        let mut class = unready(reason, &Value::Null);
        let gone = "subnet: was s2, no subnet of the class can be used".to_owned();
        assert_eq!(told(judged(&class)), ("SubnetDrift", gone));
        class.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
        assert_eq!(judged(&class), None, "it is to go");
        class.metadata.deletion_timestamp = None;
        class.metadata.generation = Some(2);
        assert_eq!(judged(&class), None, "said of the class as it was");
    }
    assert_eq!(
        judged(&unready("Invalid", &Value::Null)),
        None,
        "nobody has looked"
    );
    let others = |id: &str| unready("ImageNotFound", &json!([{"id": id, "zone": "z"}]));
    assert_eq!(judged(&others("s2")), None);
    let other = "subnet: was s2, is one of s1".to_owned();
    assert_eq!(told(judged(&others("s1"))), ("SubnetDrift", other));
}

#[test]
fn what_is_not_known_is_no_drift() {
    let mut class = class(&json!({}));
    let mut machine = machine();
    machine.image = None;
    machine.subnet = None;
    assert_eq!(drift(&claim(&class), &class, &machine, None), None);
    machine.image = Some("old-image".to_owned());
    class.metadata.generation = Some(2);
    let stale = drift(&claim(&class), &class, &machine, Some(&groups(&[])));
    assert_eq!(stale, None, "the class was not resolved as it is written now");
}
