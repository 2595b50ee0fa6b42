use serde_json::{Value, json};

use super::claim::{Wanted, manifest, name_for};
use crate::api::{NodePool, names};
use crate::model::{Requirements, Values};
use crate::resources::Resources;

fn pool(name: &str, requirements: &Value) -> NodePool {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": "u"},
        "spec": {"template": {"spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
        }}},
    }))
    .unwrap()
}

#[test]
fn a_name_fits_a_label_and_two_long_pools_do_not_share_one() {
    let long = |end: &str| pool(&format!("{}{end}", "x.".repeat(100)), &json!([]));
    let (one, two) = (name_for(&long("a"), "pods"), name_for(&long("b"), "pods"));
    assert!(one.len() <= 63 && !one.contains(".-"), "{one}");
    assert_ne!(one, two);
    assert_eq!(one, name_for(&long("a"), "pods"), "the same for whoever makes it");
    assert_ne!(one, name_for(&long("a"), "other pods"));
}

#[test]
fn labels_of_the_users_own_get_a_value_and_what_only_a_node_can_have_is_left_out() {
    let own = json!([
        {"key": "team", "operator": "In", "values": ["b", "a"]},
        {"key": "size", "operator": "Gt", "values": ["3"]},
        {"key": "free", "operator": "Exists"},
        {"key": "never", "operator": "DoesNotExist"},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]},
    ]);
    let mut requirements = Requirements::new();
    requirements.narrow(names::HOSTNAME, &Values::one_of(["x"]));
    requirements.narrow("team", &Values::one_of(["b", "c"]));
    let wanted = Wanted {
        requirements,
        requests: Resources::new().with("cpu", 1500).with("memory", 1 << 30),
        ..Wanted::default()
    };
    let claim = manifest(&pool("p", &own), "c".to_owned(), &wanted).unwrap();
    let labels = claim.metadata.labels.unwrap();
    assert_eq!(
        labels.get("team").map(String::as_str),
        Some("b"),
        "what pods ask for counts"
    );
    assert_eq!(labels.get("size").map(String::as_str), Some("4"));
    assert!(labels.contains_key("free") && !labels.contains_key("never"));
    assert!(!labels.contains_key(names::CAPACITY_TYPE), "launch chooses that");
    assert!(!labels.contains_key(names::OS), "the node will say that");
    assert!(claim.spec.requirements.iter().all(|it| it.key != names::HOSTNAME));
    let requests = serde_json::to_value(claim.spec.resources.unwrap().requests).unwrap();
    assert_eq!(requests, json!({"cpu": "1500m", "memory": "1Gi"}));
}

/// What its pods tolerate is no part of it.
#[test]
fn a_claim_has_the_taints_of_its_pool_and_no_others() {
    let mut tainted = pool("p", &json!([]));
    let claim = |pool: &NodePool| manifest(pool, "c".to_owned(), &Wanted::default()).unwrap();
    assert_eq!(claim(&tainted).spec.taints, None);
    let taints = json!([{"key": "team", "effect": "NoExecute"}]);
    tainted.spec.template.spec.taints = serde_json::from_value(taints).unwrap();
    assert_eq!(claim(&tainted).spec.taints, tainted.spec.template.spec.taints);
}
