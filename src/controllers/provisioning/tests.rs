use kube::core::Status;
use serde_json::{Value, json};

use super::claim::{Wanted, manifest, name_for};
use super::make::{Made, Unmade};
use super::tell::{placed, refused};
use super::{AGAIN, Error, Rest};
use crate::api::{NodePool, names};
use crate::cluster::{IN_VAIN_MAX, Situation};
use crate::model::pod::Member;
use crate::model::{Node, Requirements, Values};
use crate::resources::Resources;
use crate::scheduling::{Completeness, Destination, LeftOut, Refusal, Where, Why};

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
}

/// A pod whose claim is there would be told that none can be made, and nothing else after that.
#[test]
fn who_does_not_know_whether_a_claim_was_made_tells_nothing() {
    let reset = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
    let lost = Error::Kube {
        doing: "making a claim",
        source: Box::new(kube::Error::Service(reset.into())),
    };
    let late = answered(
        504,
        "Timeout",
        "request did not complete within requested timeout",
    );
    for open in [lost, late, Error::Silent("making a claim")] {
        assert_eq!(Unmade::of(&open), None, "{open}");
    }
}

#[test]
fn the_last_node_that_is_bought_for_a_pod_is_told_as_such_and_nothing_else_is() {
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let mut situation = Situation::default();
    situation.snapshot.nodes.push(Node::from_api(Some(&node), None));
    situation.in_vain.insert("p".to_owned(), IN_VAIN_MAX - 1);
    let mut made = Made::default();
    made.claims.insert(0, "c".to_owned());
    let refused = Unmade {
        kind: "403".to_owned(),
        why: "exceeded quota".to_owned(),
    };
    made.unmade.insert(1, refused);
    let told = |uid: &str, on: Destination| {
        let pod = Member {
            class: 0,
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            name: uid.to_owned(),
            created: None,
            node: None,
        };
        placed(&situation, &made, &pod, on).map(|story| story.note)
    };
    let is_last = |uid: &str, on: Destination| told(uid, on).unwrap().contains("this is the last");
    assert!(is_last("p", Destination::New(0)));
    assert!(!is_last("q", Destination::New(0)), "nothing came in vain for it");
    assert!(!is_last("p", Destination::New(1)), "nothing was bought");
    assert!(!is_last("p", Destination::Existing(0)), "nothing was bought");
    assert_eq!(
        told("p", Destination::New(2)),
        None,
        "nobody knows whether anything was"
    );
}

/// Thirty seconds of a processor after another, for a plan that never comes to anything.
#[test]
fn a_plan_that_runs_out_of_time_is_followed_at_once_by_another_only_where_that_has_less_to_do() {
    let wait = |completeness, made| Rest::of(completeness, made).wait();
    assert_eq!(wait(Completeness::OutOfTime, 1), std::time::Duration::ZERO);
    assert_eq!(wait(Completeness::OutOfTime, 0), AGAIN);
    assert_eq!(wait(Completeness::Whole, 1), AGAIN);
}

#[test]
fn who_was_slower_than_somebody_else_tells_nothing() {
    let conflict = answered(409, "Conflict", "the object has been modified");
    assert_eq!(Unmade::of(&conflict), None);
}
