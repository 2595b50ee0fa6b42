use serde_json::json;

use super::*;
use crate::api::CapacityType;
use crate::cloud::{MachineStatus, StatusReason};
use crate::ibm::vpc::types::Instance;

fn instance(extra: &serde_json::Value) -> Instance {
    let mut body = json!({
        "id": "0717_1", "name": "n", "status": "running",
        "profile": {"name": "bxf-2x8"}, "zone": {"name": "us-south-1"}, "resource_group": {"id": "g"},
        "availability": {"class": "spot"},
    });
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    serde_json::from_value(body).unwrap()
}

#[test]
fn an_instance_is_a_machine_in_the_words_of_every_cloud() {
    let stopped = json!({"status": "stopped", "status_reasons": [{"code": "stopped_by_preemption"}]});
    let machine = machine(instance(&stopped), Effect::None).unwrap();
    assert_eq!(machine.capacity_type, CapacityType::Spot);
    assert!(machine.is_preempted() && machine.is_dead());
}

#[test]
fn what_is_not_said_to_be_spot_is_on_demand() {
    let spot = json!({"class": "spot"});
    for availability in [
        json!({"class": "standard"}),
        json!({"class": "word-of-tomorrow"}),
        json!({"class": null}),
        json!({}),
        json!(null),
        spot.clone(),
    ] {
        let expected = if availability == spot {
            CapacityType::Spot
        } else {
            CapacityType::OnDemand
        };
        let machine = machine(instance(&json!({"availability": availability})), Effect::None).unwrap();
        assert_eq!(machine.capacity_type, expected, "{availability}");
    }
}

#[test]
fn a_status_of_tomorrow_is_kept_and_concludes_nothing() {
    let machine = machine(instance(&json!({"status": "hibernating"})), Effect::None).unwrap();
    assert_eq!(machine.status, MachineStatus::Other("hibernating".to_owned()));
    assert!(!machine.is_dead());
}

#[test]
fn a_code_keeps_the_spelling_of_the_api() {
    let reasons = json!({"status_reasons": [{"code": "cannot_start_network"}, {"code": "new_code"}]});
    let machine = machine(instance(&reasons), Effect::None).unwrap();
    let words = ["cannot_start_network", "new_code"].map(|word| StatusReason::Other(word.to_owned()));
    assert_eq!(machine.reasons, words);
}

#[test]
fn an_instance_without_its_group_is_an_error_and_no_guess() {
    let error = machine(instance(&json!({"resource_group": null})), Effect::Unknown).unwrap_err();
    assert_eq!((error.kind(), error.effect()), ("undecodable", Effect::Unknown));
}

#[test]
fn ids_of_groups_are_told_from_names() {
    assert!(is_group_id("0123456789abcdef0123456789abcdef"));
    assert!(!is_group_id("default"));
}
