use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn profile() -> Value {
    json!({
        "availability_class": {"default": "standard", "type": "enum", "values": ["standard", "spot"]},
        "bandwidth": {"type": "fixed", "value": 8000},
        "disks": [{"quantity": {"type": "fixed", "value": 8}, "size": {"type": "fixed", "value": 7680},
                   "supported_interface_types": {"default": "nvme", "type": "enum", "values": ["nvme"]}}],
        "family": "balanced",
        "memory": {"type": "fixed", "value": 16}, "name": "bxf-4x16",
        "network_attachment_count": {"max": 1, "min": 1, "type": "range"},
        "gpu_model": {"type": "enum", "values": ["Tesla V100"]},
        "status": "current",
        "vcpu_architecture": {"type": "fixed", "value": "amd64"},
        "vcpu_count": {"type": "fixed", "value": 4},
        "vcpu_manufacturer": {"type": "dependent"},
        "zones": [{"href": "https://us-south.iaas.cloud.ibm.com/v1/regions/us-south/us-south-1", "name": "us-south-1"}]
    })
}

fn instance() -> Value {
    json!({
        "id": "0717_e21b7391-2ca2-4ab5-84a8-b92157a633b0", "name": "kib-1", "created_at": "2026-10-08T09:20:33Z",
        "crn": "crn:v1:bluemix:public:is:us-south-1:a/acct::instance:0717_e21b7391",
        "status": "stopped", "lifecycle_state": "stable", "health_state": "ok",
        "status_reasons": [{"code": "stopped_by_preemption",
                            "message": "The virtual server instance was stopped due to preemption."}],
        "availability": {"class": "spot"},
        "availability_policy": {"host_failure": "restart", "preemption": "stop"},
        "profile": {"name": "bxf-4x16", "href": "https://…", "resource_type": "instance_profile"},
        "zone": {"name": "us-south-1", "href": "https://…"},
        "vpc": {"id": "r006-1", "name": "main", "crn": "crn:…"},
        "memory": 16,
        "primary_network_attachment": {"id": "0717-1", "name": "eth0",
            "primary_ip": {"address": "10.240.0.5", "id": "0717-ip"},
            "subnet": {"id": "0717-sub"}, "virtual_network_interface": {"id": "0717-vni"}},
        "boot_volume_attachment": {"id": "0717-2", "device": {"id": "x"}},
        "volume_attachments": [],
        "vcpu": {"architecture": "amd64", "count": 4}
    })
}

fn others() -> Vec<(&'static str, Value)> {
    vec![
        (
            "zone",
            json!({"name": "us-south-1", "status": "available", "universal_name": "us-south-dal10-a"}),
        ),
        (
            "vpc",
            json!({"id": "r006-1", "name": "main", "status": "available",
                       "default_security_group": {"id": "r006-sg"}, "dns": {"enable_hub": false}}),
        ),
        (
            "subnet",
            json!({"id": "0717-1", "name": "a", "status": "available", "ipv4_cidr_block": "10.240.0.0/24",
                          "available_ipv4_address_count": 251, "total_ipv4_address_count": 256,
                          "zone": {"name": "us-south-1"}, "vpc": {"id": "r006-1"}}),
        ),
        (
            "image",
            json!({"id": "r006-i", "name": "ibm-ubuntu-24-04", "status": "available", "visibility": "public",
                         "minimum_provisioned_size": 100,
                         "operating_system": {"name": "ubuntu-24-04-amd64", "architecture": "amd64"}}),
        ),
        (
            "volume",
            json!({"id": "r006-v", "name": "boot", "status": "available", "attachment_state": "attached",
                          "capacity": 100, "user_tags": ["a:b"], "zone": {"name": "us-south-1"}}),
        ),
        (
            "vni",
            json!({"id": "0717-v", "name": "vni", "auto_delete": true, "lifecycle_state": "stable",
                       "primary_ip": {"address": "10.240.0.5"}, "security_groups": [{"id": "r006-sg"}],
                       "subnet": {"id": "0717-1"}, "target": {"id": "0717-1"}}),
        ),
        (
            "key",
            json!({"id": "r006-k", "name": "key", "fingerprint": "SHA256:x", "type": "rsa"}),
        ),
        (
            "group",
            json!({"id": "r006-p", "name": "spread", "strategy": "host_spread", "lifecycle_state": "stable"}),
        ),
    ]
}

fn survives<T: DeserializeOwned + Serialize>(body: &Value) -> Result<(), TestCaseError> {
    let decoded: T = serde_json::from_value(body.clone())
        .map_err(|error| TestCaseError::fail(format!("{error} in {body}")))?;
    let again = serde_json::to_value(decoded).unwrap();
    prop_assert_eq!(&again, body);
    Ok(())
}

#[test]
fn what_is_decoded_is_encoded_again() {
    survives::<InstanceProfile>(&profile()).unwrap();
    survives::<Instance>(&instance()).unwrap();
}

#[test]
fn lists_may_be_null_and_all_but_identities_may_be_missing() {
    let bare: Instance =
        serde_json::from_value(json!({"id": "a", "name": "b", "status_reasons": null})).unwrap();
    assert!(bare.status_reasons.is_empty() && bare.status.is_none());
    serde_json::from_value::<InstanceProfile>(json!({"name": "bz2-1x4", "zones": null})).unwrap();
}

#[test]
fn an_address_that_is_not_assigned_is_none() {
    let mut body = instance();
    let decoded: Instance = serde_json::from_value(body.clone()).unwrap();
    assert_eq!(decoded.address(), Some("10.240.0.5"));
    body["primary_network_attachment"]["primary_ip"]["address"] = "0.0.0.0".into();
    assert_eq!(serde_json::from_value::<Instance>(body).unwrap().address(), None);
}

#[test]
fn a_spot_machine_is_ordered_as_ibm_wants_it() {
    let spot = InstancePatch {
        availability: Some(Availability::of(AvailabilityClass::Spot)),
        ..Default::default()
    };
    assert_eq!(
        serde_json::to_value(spot).unwrap(),
        json!({"availability": {"class": "spot"}})
    );
}

/// The paths of all values in a body that satisfy `wanted`.
fn paths(body: &Value, wanted: &dyn Fn(&str, &Value) -> bool) -> Vec<String> {
    fn walk(
        at: &str,
        key: &str,
        value: &Value,
        wanted: &dyn Fn(&str, &Value) -> bool,
        found: &mut Vec<String>,
    ) {
        if wanted(key, value) {
            found.push(at.to_owned());
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(&format!("{at}/{name}"), name, field, wanted, found);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(&format!("{at}/{index}"), key, item, wanted, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk("", "", body, wanted, &mut found);
    found
}

/// Objects that keep fields they do not know: all but the members of the capability union.
fn open_objects(body: &Value) -> Vec<String> {
    paths(body, &|_, value| {
        value.is_object() && value.get("type").is_none_or(|kind| kind == "rsa")
    })
}

/// Every string that stands for one of a set of values.
fn enums(body: &Value) -> Vec<String> {
    let names = [
        "status",
        "lifecycle_state",
        "health_state",
        "code",
        "class",
        "host_failure",
        "preemption",
        "attachment_state",
        "type",
        "values",
        "default",
        "strategy",
    ];
    paths(body, &move |key, value| value.is_string() && names.contains(&key))
}

fn mutate(
    mut body: Value,
    extras: &[(prop::sample::Index, String)],
    unknown: &[(prop::sample::Index, String)],
) -> Value {
    let strings = enums(&body);
    for (at, value) in unknown.iter().filter(|_| !strings.is_empty()) {
        *body.pointer_mut(at.get(&strings).as_str()).unwrap() = format!("x-{value}").into();
    }
    let objects = open_objects(&body);
    for (at, name) in extras.iter().filter(|_| !objects.is_empty()) {
        body.pointer_mut(at.get(&objects).as_str()).unwrap()[format!("x_{name}")] =
            json!({"new": [1, null, "two"]});
    }
    body
}

proptest! {
    #[test]
    fn extra_fields_and_unknown_values_survive_everywhere(
        extras in prop::collection::vec((any::<prop::sample::Index>(), "[a-z]{1,6}"), 0..5),
        unknown in prop::collection::vec((any::<prop::sample::Index>(), "[a-z_]{1,9}"), 0..5),
    ) {
        survives::<InstanceProfile>(&mutate(profile(), &extras, &unknown))?;
        survives::<Instance>(&mutate(instance(), &extras, &unknown))?;
        for (kind, body) in others() {
            let body = mutate(body, &extras, &unknown);
            match kind {
                "zone" => survives::<Zone>(&body)?,
                "vpc" => survives::<Vpc>(&body)?,
                "subnet" => survives::<Subnet>(&body)?,
                "image" => survives::<Image>(&body)?,
                "volume" => survives::<Volume>(&body)?,
                "vni" => survives::<VirtualNetworkInterface>(&body)?,
                "key" => survives::<Key>(&body)?,
                _ => survives::<PlacementGroup>(&body)?,
            }
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = serde_json::from_slice::<Instance>(&bytes);
        let _ = serde_json::from_slice::<InstanceProfile>(&bytes);
    }
}
