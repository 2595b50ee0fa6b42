//! Messages written by hand, record by record, and what becomes of them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A record with bytes in it.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("test messages are short");
    assert!(length < 128);
    [&[number << 3 | 2, length], content].concat()
}

/// A record with a number in it.
fn int(number: u8, value: u8) -> Vec<u8> {
    assert!(value < 128);
    vec![number << 3, value]
}

/// An object in its envelope.
fn sent(api_version: &str, kind: &str, raw: &[Vec<u8>]) -> Vec<u8> {
    let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    let body = [
        bytes(1, &types),
        bytes(2, &raw.concat()),
        bytes(3, b""),
        bytes(4, b""),
    ]
    .concat();
    [MAGIC, &body].concat()
}

#[test]
fn an_access_review_is_read_as_kubectl_sends_it() {
    let attributes = [
        bytes(1, b"default"),
        bytes(2, b"get"),
        bytes(3, b""),
        bytes(5, b"pods"),
    ]
    .concat();
    let spec = bytes(1, &attributes);
    let body = sent(
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        &[bytes(1, b""), bytes(2, &spec)],
    );
    assert_eq!(
        object(&body).unwrap(),
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
               "spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}})
    );
}

#[test]
fn a_zero_behind_a_pointer_is_a_value_and_any_other_is_nothing() {
    let options = sent("apps/v1", "DeleteOptions", &[int(1, 0), int(3, 0)]);
    assert_eq!(
        object(&options).unwrap(),
        json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "orphanDependents": false})
    );
    let class = sent(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        &[int(2, 0), int(3, 0), bytes(4, b"")],
    );
    assert_eq!(
        object(&class).unwrap(),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"})
    );
}

#[test]
fn embedded_structures_are_part_of_what_embeds_them() {
    let medium = bytes(2, &bytes(1, b"Memory"));
    let volume = [bytes(1, b"v"), bytes(2, &medium)].concat();
    let pod = sent("v1", "Pod", &[bytes(2, &bytes(1, &volume))]);
    assert_eq!(
        object(&pod).unwrap()["spec"],
        json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]})
    );
}

#[test]
fn maps_bytes_quantities_times_and_either_or_values_are_written_as_in_json() {
    let entry = [bytes(1, b"k"), bytes(2, b"hello")].concat();
    let secret = object(&sent("v1", "Secret", &[bytes(2, &entry)])).unwrap();
    assert_eq!(secret["data"], json!({"k": "aGVsbG8="}));

    let entry = [bytes(1, b"pods"), bytes(2, &bytes(1, b"110"))].concat();
    let node = object(&sent("v1", "Node", &[bytes(3, &bytes(1, &entry))])).unwrap();
    assert_eq!(node["status"]["capacity"], json!({"pods": "110"}));

    let renewed = [int(1, 60), int(2, 100)].concat();
    let lease = object(&sent(
        "coordination.k8s.io/v1",
        "Lease",
        &[bytes(2, &bytes(4, &renewed))],
    ))
    .unwrap();
    assert_eq!(lease["spec"]["renewTime"], "1970-01-01T00:01:00.000000Z");
    let made = object(&sent("v1", "Node", &[bytes(1, &bytes(8, &int(1, 60)))])).unwrap();
    assert_eq!(made["metadata"]["creationTimestamp"], "1970-01-01T00:01:00Z");

    for (either, expected) in [
        ([int(1, 0), int(2, 3)].concat(), json!(3)),
        ([int(1, 1), bytes(3, b"50%")].concat(), json!("50%")),
    ] {
        let budget = object(&sent(
            "policy/v1",
            "PodDisruptionBudget",
            &[bytes(2, &bytes(1, &either))],
        ))
        .unwrap();
        assert_eq!(budget["spec"]["minAvailable"], expected);
    }
}

#[test]
fn extra_values_of_a_user_are_lists() {
    let values = [bytes(1, b"a"), bytes(1, b"b")].concat();
    let entry = [bytes(1, b"k"), bytes(2, &values)].concat();
    let review = sent(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        &[bytes(2, &bytes(5, &entry))],
    );
    assert_eq!(
        object(&review).unwrap()["spec"]["extra"],
        json!({"k": ["a", "b"]})
    );
}

#[test]
fn what_is_no_object_is_refused_with_the_reason() {
    assert_eq!(object(b"{}"), Err(ProtobufError::NoPrefix));
    let unknown = ProtobufError::UnknownKind {
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
    };
    assert_eq!(object(&sent("example.com/v1", "Widget", &[])), Err(unknown));
    assert!(matches!(
        object(&sent("v1", "Pod", &[vec![0xff]])),
        Err(ProtobufError::Malformed("it ends too early"))
    ));
}

proptest! {
    #[test]
    fn no_bytes_whatever_make_it_panic(raw in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = object(&sent("v1", "Pod", &[raw]));
    }
}
