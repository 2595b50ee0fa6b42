//! Upstream's own CRDs, where `UPSTREAM_CRDS` names a directory with `karpenter.sh_nodepools.yaml` and
//! `karpenter.sh_nodeclaims.yaml`: they decide as ours do, and say the same but for our additions.

use std::env;
use std::fs;
use std::path::Path;

use karpenter_ibm::sim::kube::schema::Schema;
use serde_json::{Value, json};

use super::corpus::cases;
use super::{Kind, admit};

pub(super) const KINDS: [Kind; 2] = [Kind::NodePool, Kind::NodeClaim];

/// Upstream's definition of a kind, if we were told where it is.
pub(super) fn definition(kind: Kind) -> Option<Value> {
    let Some(dir) = env::var_os("UPSTREAM_CRDS") else {
        eprintln!("not run against upstream's CRDs: UPSTREAM_CRDS is not set");
        return None;
    };
    let text = fs::read_to_string(Path::new(&dir).join(kind.crd_file())).unwrap();
    Some(serde_saphyr::from_str(&text).unwrap())
}

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn upstream_decides_as_we_do_except_about_our_additions() {
    for kind in KINDS {
        let Some(definition) = definition(kind) else {
            return;
        };
        let schema = Schema::compile(schema(&definition)).unwrap();
        for case in cases(kind) {
            let accepted = admit(&schema, &case.object, case.old.as_ref()).is_empty();
            let expected = case.blames.is_none() != case.addition;
            assert_eq!(accepted, expected, "{}", case.file);
        }
    }
}

#[test]
fn our_schemas_are_upstreams_and_our_additions() {
    for kind in KINDS {
        let Some(definition) = definition(kind) else {
            return;
        };
        let (mut ours, mut theirs) = (kind.schema(), schema(&definition).clone());
        remove_additions(&mut ours);
        normalize(&mut ours);
        normalize(&mut theirs);
        for field in ["apiVersion", "kind", "metadata"] {
            theirs["properties"].as_object_mut().unwrap().remove(field);
        }
        similar_asserts(kind, &ours, &theirs);
    }
}

#[test]
fn our_definitions_look_like_upstreams() {
    let ours = karpenter_ibm::api::crd::definitions().unwrap();
    for kind in KINDS {
        let Some(theirs) = definition(kind) else { return };
        let ours = &ours
            .iter()
            .find(|it| it.file_name == kind.crd_file())
            .unwrap()
            .object;
        for pointer in [
            "/metadata/name",
            "/spec/group",
            "/spec/scope",
            "/spec/names/categories",
            "/spec/names/plural",
        ] {
            assert_eq!(
                ours.pointer(pointer),
                theirs.pointer(pointer),
                "{kind:?} {pointer}"
            );
        }
        for pointer in [
            "name",
            "served",
            "storage",
            "subresources",
            "additionalPrinterColumns",
        ] {
            let pointer = format!("/spec/versions/0/{pointer}");
            assert_eq!(
                ours.pointer(&pointer),
                theirs.pointer(&pointer),
                "{kind:?} {pointer}"
            );
        }
    }
}

/// Takes out of our schema what upstream does not have.
fn remove_additions(schema: &mut Value) {
    if let Some(status) = schema
        .pointer_mut("/properties/status/properties")
        .and_then(Value::as_object_mut)
    {
        status.remove("allocation");
    }
    let Some(disruption) = schema.pointer_mut("/properties/spec/properties/disruption/properties") else {
        return;
    };
    disruption.as_object_mut().unwrap().remove("expireAfter");
    let policies = disruption["consolidationPolicy"]["enum"].as_array_mut().unwrap();
    policies.retain(|policy| policy != "WhenUnderutilized");
    let rules = schema["properties"]["spec"]["x-kubernetes-validations"]
        .as_array_mut()
        .unwrap();
    rules.retain(|rule| !rule["rule"].as_str().unwrap().contains("disruption.expireAfter"));
}

/// Takes out what decides nothing: texts, sizes of integers, and keywords that do not apply to their type.
fn normalize(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    node.remove("description");
    if node.get("type") == Some(&json!("integer")) {
        node.remove("format");
    }
    if node.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        node.remove("anyOf");
    }
    if node.get("type") == Some(&json!("array")) {
        node.remove("maxLength");
        node.remove("pattern");
    }
    for below in node
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        normalize(below.1);
    }
    for keyword in ["items", "additionalProperties"] {
        node.get_mut(keyword).into_iter().for_each(normalize);
    }
}

/// Compares piece by piece, so that a difference is small enough to be read.
fn similar_asserts(kind: Kind, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            assert_eq!(
                ours.keys().collect::<Vec<_>>(),
                theirs.keys().collect::<Vec<_>>(),
                "{kind:?}"
            );
            ours.iter()
                .for_each(|(key, ours)| similar_asserts(kind, ours, &theirs[key]));
        }
        _ => assert_eq!(ours, theirs, "{kind:?}"),
    }
}
