use kube::core::Status;
use serde_json::{Value, json};

use super::Error;
use super::claim::{Wanted, manifest, name_for};
use super::make::Unmade;
use super::tell::refused;
use crate::api::{NodePool, names};
use crate::model::{Requirements, Values};
use crate::resources::Resources;
use crate::scheduling::{LeftOut, Refusal, Where, Why};

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

/// A claim may not name labels in Karpenter's own domain, nor make more than a hundred requirements.
#[test]
fn what_pods_do_without_and_no_node_of_the_pool_has_is_left_out_of_a_claim() {
    let mut requirements = Requirements::new();
    requirements.narrow(names::INITIALIZED, &Values::one_of(["true"]));
    requirements.narrow("karpenter.sh/foo", &Values::none_of(["x"]));
    requirements.narrow(names::ZONE, &Values::none_of(["us-south-1"]));
    requirements.narrow("team", &Values::none_of(["a"]));
    for number in 0..200 {
        requirements.narrow(&format!("example.com/k{number}"), &Values::absent());
    }
    let wanted = Wanted {
        requirements,
        ..Wanted::default()
    };
    let own = json!([{"key": "team", "operator": "Exists"}]);
    let claim = manifest(&pool("p", &own), "c".to_owned(), &wanted).unwrap();
    let keys: Vec<&str> = claim.spec.requirements.iter().map(|it| it.key.as_str()).collect();
    assert!(keys.contains(&names::ZONE) && keys.contains(&"team"), "{keys:?}");
    assert!(
        keys.iter().all(|key| [names::ZONE, "team"].contains(key)),
        "{keys:?}"
    );
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

#[test]
fn pools_that_swap_places_are_nothing_new_to_tell() {
    let limit = |pool: &str, used: i64| Refusal {
        place: Where::Pool(pool.to_owned()),
        why: Why::Limit {
            resource: "cpu".to_owned(),
            allowed: 10_000,
            used,
            wanted: 4000,
        },
    };
    let refused = |refusals: &[Refusal]| refused(&LeftOut::of(vec![0], refusals.to_vec()));
    let before = refused(&[limit("a", 8000), limit("b", 9000)]);
    let after = refused(&[limit("b", 7000), limit("a", 8000)]);
    assert_eq!(before.transition, after.transition);
    assert!(before.note.contains("bought: NodePool a"), "{}", before.note);
    assert!(
        after.note.contains("bought: NodePool b"),
        "people read the nearest first: {}",
        after.note
    );
    let fewer = refused(&[limit("a", 8000)]);
    assert_ne!(before.transition, fewer.transition);
}

/// 20,000 of them may wait to be written, each with reasons of its own.
#[test]
fn a_story_is_no_longer_than_an_event_of_it_however_many_pools_refuse() {
    let refusal = |pool: usize| Refusal {
        place: Where::Pool(format!("pool-{pool}")),
        why: Why::Closed("x".repeat(1000)),
    };
    let told = |pools: usize| refused(&LeftOut::of(vec![0], (0..pools).map(refusal).collect()));
    let many = told(63);
    assert!(many.note.capacity() <= 1024, "{} bytes", many.note.capacity());
    assert_eq!(many.transition.len(), 16);
    assert_ne!(many.transition, told(62).transition);
    let unmade = Unmade {
        kind: "500".to_owned(),
        why: "x".repeat(5000),
    };
    assert!(super::tell::unmade(&unmade).note.len() <= 1024);
}

#[test]
fn reasons_that_are_not_told_are_counted() {
    let refusal = |pool: usize| Refusal {
        place: Where::Pool(format!("pool-{pool}")),
        why: Why::NothingThere,
    };
    let told = refused(&LeftOut::of(vec![0], (0..63).map(refusal).collect()));
    assert!(told.note.ends_with("; and 57 more"), "{}", told.note);
}

/// What the API server answers to a claim that is to be made.
fn answered(code: u16, reason: &str, message: &str) -> Error {
    let status = Status::failure(message, reason).with_code(code);
    Error::Kube {
        doing: "making a claim",
        source: Box::new(kube::Error::Api(status.boxed())),
    }
}

#[test]
fn why_a_claim_is_not_made_is_told_without_what_differs_each_time() {
    let forbidden = "nodeclaims.karpenter.sh is forbidden: exceeded quota";
    let told = Unmade::of(&answered(403, "Forbidden", forbidden)).unwrap();
    assert_eq!((told.kind.as_str(), told.why.as_str()), ("403", forbidden));
    let webhook = |port: u16| {
        let message = format!(
            "Internal error occurred: failed calling webhook \"policy.example.com\": failed to call webhook: Post \
             \"https://policy.example.svc:443/\": read tcp 10.0.0.1:{port}->10.0.0.2:443: connection reset by peer"
        );
        Unmade::of(&answered(500, "InternalError", &message)).unwrap()
    };
    assert_eq!(webhook(40_001), webhook(40_002));
    assert!(
        webhook(1).why.ends_with("webhook \"policy.example.com\""),
        "{}",
        webhook(1).why
    );
    let busy = Unmade::of(&answered(503, "ServiceUnavailable", "request 7f3a timed out")).unwrap();
    assert_eq!(busy.why, "the API server answers 503 ServiceUnavailable");
    let silent = Unmade::of(&Error::Silent("making a claim")).unwrap();
    assert!(silent.why.contains("no answer"), "{}", silent.why);
}

#[test]
fn who_was_slower_than_somebody_else_tells_nothing() {
    let conflict = answered(409, "Conflict", "the object has been modified");
    assert_eq!(Unmade::of(&conflict), None);
}
