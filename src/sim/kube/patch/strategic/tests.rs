use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sim::kube::patch::samples::pod;
use crate::sim::kube::patch::{merge, samples};

fn patched(live: &Value, patch: &Value) -> Result<Value, Refusal> {
    apply(live, patch, Shape::of_object(Some(&pod())))
}

fn refused(live: &Value, patch: &Value) -> (u16, &'static str) {
    let refusal = patched(live, patch).unwrap_err();
    (refusal.code(), refusal.reason())
}

fn containers(items: Value) -> Value {
    let mut pod = json!({"spec": {}});
    pod["spec"]["containers"] = items;
    pod
}

#[test]
fn containers_merge_by_name() {
    let live = containers(json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]));
    let patch = containers(json!([{"name": "b", "image": "2"}]));
    let expected =
        containers(json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]));
    assert_eq!(patched(&live, &patch).unwrap(), expected);
}

#[test]
fn a_new_element_comes_before_those_that_the_patch_does_not_name() {
    let live = containers(json!([{"name": "a"}]));
    let expected = containers(json!([{"name": "b"}, {"name": "a"}]));
    assert_eq!(
        patched(&live, &containers(json!([{"name": "b"}]))).unwrap(),
        expected
    );
}

#[test]
fn lists_inside_elements_merge_by_their_own_keys() {
    let live = containers(
        json!([{"name": "a", "ports": [{"containerPort": 80, "name": "web"}], "env": [{"name": "A", "value": "1"}]}]),
    );
    let patch = containers(
        json!([{"name": "a", "ports": [{"containerPort": 80, "name": "http"}], "env": [{"name": "B", "value": "2"}]}]),
    );
    let expected = containers(
        json!([{"name": "a", "ports": [{"containerPort": 80, "name": "http"}],
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}]),
    );
    assert_eq!(patched(&live, &patch).unwrap(), expected);
}

#[test]
fn elements_are_deleted_and_lists_replaced_by_directive() {
    let live = || containers(json!([{"name": "a"}, {"name": "b"}]));
    let table = [
        (json!([{"name": "a", "$patch": "delete"}]), json!([{"name": "b"}])),
        (
            json!([{"name": "c", "$patch": "delete"}]),
            json!([{"name": "a"}, {"name": "b"}]),
        ),
        (
            json!([{"$patch": "replace"}, {"name": "c"}]),
            json!([{"name": "c"}]),
        ),
        (json!([{"$patch": "replace"}]), json!([])),
        (
            json!([{"name": "a", "$patch": "delete"}, {"name": "c"}]),
            json!([{"name": "c"}, {"name": "b"}]),
        ),
    ];
    for (patch, expected) in table {
        assert_eq!(
            patched(&live(), &containers(patch.clone())).unwrap(),
            containers(expected),
            "{patch}"
        );
    }
}

#[test]
fn maps_are_replaced_emptied_or_pared_down_by_directive() {
    let live = || json!({"metadata": {"labels": {"x": "1", "y": "2"}}});
    let table = [
        (json!({"z": "1"}), json!({"x": "1", "y": "2", "z": "1"})),
        (json!({"x": null, "nope": null}), json!({"y": "2"})),
        (json!({"$patch": "replace", "z": "1"}), json!({"z": "1"})),
        (json!({"$patch": "delete"}), json!({})),
        (
            json!({"$retainKeys": ["x", "z"], "z": "1"}),
            json!({"x": "1", "z": "1"}),
        ),
    ];
    for (labels, expected) in table {
        let patch = json!({"metadata": {"labels": labels}});
        assert_eq!(
            patched(&live(), &patch).unwrap(),
            json!({"metadata": {"labels": expected}}),
            "{patch}"
        );
    }
}

#[test]
fn a_volume_changes_its_source_by_retaining_keys() {
    let live = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}});
    let patch = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}});
    let expected = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}});
    assert_eq!(patched(&live, &patch).unwrap(), expected);
}

#[test]
fn lists_of_values_are_united_deleted_from_and_ordered() {
    let live = || json!({"metadata": {"finalizers": ["a/1", "a/2"]}});
    let table = [
        (
            json!({"finalizers": ["a/3", "a/1"]}),
            json!(["a/3", "a/1", "a/2"]),
        ),
        (json!({"finalizers": ["a/3"]}), json!(["a/3", "a/1", "a/2"])),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["a/1"]}),
            json!(["a/2"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": "x"}),
            json!(["a/1", "a/2"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["a/2", "a/1"]}),
            json!(["a/2", "a/1"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["a/2", "a/9", "a/1"], "finalizers": ["a/9"]}),
            json!(["a/2", "a/9", "a/1"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["a/2", "a/3"], "$deleteFromPrimitiveList/finalizers": ["a/1"], "finalizers": ["a/3"]}),
            json!(["a/2", "a/3"]),
        ),
    ];
    for (metadata, expected) in table {
        let patch = json!({"metadata": metadata});
        assert_eq!(
            patched(&live(), &patch).unwrap()["metadata"]["finalizers"],
            expected,
            "{patch}"
        );
    }
    let gone = patched(&live(), &json!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(gone, json!({"metadata": {}}));
}

#[test]
fn elements_are_put_in_the_order_that_the_patch_sets() {
    let live = containers(json!([{"name": "sidecar"}, {"name": "a"}, {"name": "b"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "2"}],
    }});
    let expected = containers(json!([{"name": "sidecar"}, {"name": "b"}, {"name": "a", "image": "2"}]));
    assert_eq!(patched(&live, &patch).unwrap(), expected);
}

#[test]
fn atomic_lists_are_replaced_and_new_values_lose_their_nulls_and_directives() {
    let live = json!({"spec": {"tolerations": [{"key": "a"}], "nodeName": "n"}});
    let patch = json!({"spec": {"tolerations": [{"key": "b"}]}, "metadata": {"annotations": {"x": null, "z": "5"}},
                       "status": {"$patch": "replace"}});
    let expected = json!({"spec": {"tolerations": [{"key": "b"}], "nodeName": "n"}, "metadata": {"annotations": {"z": "5"}}});
    assert_eq!(patched(&live, &patch).unwrap(), expected);
}

#[test]
fn a_malformed_directive_is_400() {
    let live = || json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["a"]}});
    for metadata in [
        json!({"labels": {"$retainKeys": ["x"], "z": "1"}}),
        json!({"labels": {"$retainKeys": "x"}}),
        json!({"$deleteFromPrimitiveList": ["x"]}),
        json!({"$setElementOrder": ["x"]}),
    ] {
        assert_eq!(
            refused(&live(), &json!({"metadata": metadata})),
            (400, "BadRequest"),
            "{metadata}"
        );
    }
    for body in ["", "x", "[]"] {
        assert_eq!(
            parse(&Bytes::from_static(body.as_bytes())).unwrap_err().code(),
            400,
            "{body:?}"
        );
    }
    assert_eq!(parse(&Bytes::from_static(b"null")).unwrap(), json!({}));
}

#[test]
fn what_a_real_server_did_not_expect_is_500_without_a_reason() {
    let live = || json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["a"], "ownerReferences": [{"uid": "u"}]}});
    for metadata in [
        json!({"labels": {"$patch": "merge"}}),
        json!({"labels": {"$patch": "frob"}}),
        json!({"ownerReferences": [{"$patch": "merge"}]}),
        json!({"ownerReferences": [{"$patch": "delete"}]}),
        json!({"ownerReferences": [{"name": "n"}]}),
        json!({"ownerReferences": ["u"]}),
        json!({"finalizers": [["x"]]}),
        json!({"$setElementOrder/finalizers": "x"}),
        json!({"$setElementOrder/finalizers": ["x"], "finalizers": ["y"]}),
        json!({"$setElementOrder/managedFields": ["x"], "managedFields": []}),
        json!({"$setElementOrder/finalizers": ["x", "y"], "finalizers": ["y", "x"]}),
    ] {
        let refusal = patched(&live(), &json!({"metadata": metadata})).unwrap_err();
        assert_eq!(
            (refusal.code(), refusal.status().get("reason")),
            (500, None),
            "{metadata}"
        );
    }
}

proptest! {
    #[test]
    fn without_lists_it_is_a_merge_patch(live in samples::object_without_lists(), patch in samples::object_without_lists()) {
        prop_assert_eq!(patched(&live, &patch).unwrap(), merge::apply(&live, &patch));
    }

    #[test]
    fn patching_twice_is_patching_once(names in prop::collection::vec("[a-d]", 0..5), patch in prop::collection::vec("[a-d]", 0..4)) {
        let list = |names: &[String]| {
            let mut seen: Vec<&String> = Vec::new();
            for name in names {
                if !seen.contains(&name) {
                    seen.push(name);
                }
            }
            containers(seen.into_iter().map(|name| json!({"name": name})).collect())
        };
        let patch = list(&patch);
        let once = patched(&list(&names), &patch).unwrap();
        prop_assert_eq!(patched(&once, &patch).unwrap(), once);
    }
}
