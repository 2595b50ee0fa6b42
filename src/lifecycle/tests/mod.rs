mod ends;
mod laws;
mod leaving;
mod orders;
mod unrecorded;
mod waiting;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::api::{CapacityType, WrittenPrice, names};

const NAME: &str = "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4";
const ID: &str = "0717_0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4";
const LIMITS: Limits = Limits::USUAL;

/// Seconds after the claim was made.
fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    begin + jiff::SignedDuration::from_secs(seconds)
}

fn written(seconds: i64) -> String {
    at(seconds).to_string()
}

fn claim(change: impl FnOnce(&mut Value)) -> NodeClaim {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "a", "uid": "0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4",
            "finalizers": ["karpenter.sh/termination"], "annotations": {}, "labels": {},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {},
    });
    change(&mut claim);
    serde_json::from_value(claim).unwrap()
}

/// An allocation made at 0.
fn allocation(id: Option<&str>) -> Value {
    let mut allocation = json!({
        "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "subnet": "0717-1",
        "instanceName": NAME, "attempt": 1, "since": written(0),
    });
    if let Some(id) = id {
        allocation["instanceID"] = id.into();
    }
    allocation
}

fn allocated(id: Option<&str>) -> NodeClaim {
    claim(|claim| claim["status"]["allocation"] = allocation(id))
}

fn deleted(claim: &NodeClaim, change: impl FnOnce(&mut NodeClaim)) -> NodeClaim {
    let mut claim = claim.clone();
    let time = serde_json::from_value(json!(written(0))).unwrap();
    claim.metadata.deletion_timestamp = Some(time);
    change(&mut claim);
    claim
}

fn launched() -> NodeClaim {
    claim(|claim| {
        claim["status"] = json!({
            "allocation": allocation(Some(ID)), "providerID": format!("ibm:///us-south/{ID}"),
            "conditions": [{"type": "Launched", "status": "True", "lastTransitionTime": written(0)}],
        });
    })
}

fn machine(status: MachineStatus) -> Machine {
    Machine {
        id: ID.to_owned(),
        name: NAME.to_owned(),
        profile: "bxf-2x8".to_owned(),
        zone: "us-south-1".to_owned(),
        capacity_type: CapacityType::Spot,
        status,
        reasons: Vec::new(),
        address: Some("10.0.0.4".to_owned()),
        resource_group: "ours".to_owned(),
        image: None,
        subnet: None,
        interface: None,
        crn: None,
        created_at: None,
    }
}

fn saw(machine: Sighting) -> Observed {
    Observed {
        machine,
        choice: Some(Ok(Choice {
            profile: "bxf-2x8".to_owned(),
            zone: "us-south-1".to_owned(),
            capacity_type: "spot".to_owned(),
            subnet: "0717-1".to_owned(),
            price: Price::from_usd(0.05),
            instance_name: NAME.to_owned(),
        })),
        resource_group: Some("ours".to_owned()),
        standing: Standing::Good,
        ..Observed::default()
    }
}

fn present(status: MachineStatus) -> Observed {
    saw(Sighting::Present(Box::new(machine(status))))
}

fn retired(status: MachineStatus) -> Observed {
    let mut machine = machine(status);
    machine.name = format!("{NAME}-x1");
    saw(Sighting::Present(Box::new(machine)))
}

fn absent() -> Observed {
    saw(Sighting::Absent)
}

/// What is known of a machine that was not heard of.
fn unseen() -> Diagnosis {
    Diagnosis {
        reason: names::REASON_NODE_NOT_FOUND,
        message: "it does not boot".to_owned(),
    }
}

fn unseen_word() -> Word {
    let unseen = unseen();
    Word {
        condition: names::NODE_REGISTERED,
        reason: unseen.reason,
        message: unseen.message,
    }
}

fn step(claim: &NodeClaim, observed: &Observed, seconds: i64) -> &'static str {
    next(claim, observed, &LIMITS, at(seconds)).name()
}

fn annotated(claim: &NodeClaim, annotation: &str, seconds: i64) -> NodeClaim {
    let mut claim = claim.clone();
    claim
        .annotations_mut()
        .insert(annotation.to_owned(), written(seconds));
    claim
}

#[test]
fn a_purchase_goes_step_by_step() {
    let new = claim(|claim| claim["metadata"]["finalizers"] = json!([]));
    assert_eq!(step(&new, &Observed::default(), 0), "add-finalizer");
    assert_eq!(step(&claim(|_| ()), &absent(), 0), "allocate");
    assert_eq!(step(&allocated(None), &absent(), 1), "create");
    assert_eq!(
        step(&allocated(None), &present(MachineStatus::Pending), 1),
        "record"
    );
    for waiting in [
        MachineStatus::Pending,
        MachineStatus::Starting,
        MachineStatus::Restarting,
    ] {
        assert_eq!(step(&allocated(Some(ID)), &present(waiting), 60), "wait");
    }
    assert_eq!(
        step(&allocated(Some(ID)), &present(MachineStatus::Running), 60),
        "label"
    );
    let mut labeled = allocated(Some(ID));
    labeled
        .labels_mut()
        .extend(buying::machine_labels(&machine(MachineStatus::Running)));
    assert_eq!(step(&labeled, &present(MachineStatus::Running), 60), "launched");
}

#[test]
fn an_old_intent_is_renewed_before_anything_is_bought_on_it() {
    let claim = allocated(None);
    assert_eq!(step(&claim, &absent(), 5), "create");
    assert_eq!(step(&claim, &absent(), 6), "renew-intent");
    let renewed = annotated(&claim, names::ORDER_UNSETTLED_UNTIL, 6 + 65);
    let Step::Create { within, .. } = next(&renewed, &absent(), &LIMITS, at(8)) else {
        panic!("the intent is young");
    };
    assert_eq!(within, Duration::from_secs(3));
    assert_eq!(step(&renewed, &absent(), 12), "renew-intent");
}

#[test]
fn somebody_elses_machine_is_neither_adopted_nor_deleted() {
    let mut foreign = machine(MachineStatus::Running);
    foreign.resource_group = "theirs".to_owned();
    let foreign = saw(Sighting::Present(Box::new(foreign)));
    assert_eq!(step(&allocated(None), &foreign, 1), "block");
    assert_eq!(
        step(&deleted(&allocated(None), |_| ()), &foreign, 600),
        "note-absence"
    );
    let unknown = Observed {
        resource_group: None,
        ..present(MachineStatus::Running)
    };
    assert_eq!(step(&deleted(&allocated(None), |_| ()), &unknown, 600), "block");
    assert_eq!(
        step(&deleted(&allocated(Some(ID)), |_| ()), &unknown, 600),
        "delete",
        "recorded by us"
    );
}

#[test]
fn an_adopted_machine_is_recorded_as_what_it_is() {
    let mut other = machine(MachineStatus::Starting);
    other.zone = "us-south-2".to_owned();
    other.capacity_type = CapacityType::OnDemand;
    other.subnet = Some("0717-2".to_owned());
    let mut priced = allocated(None);
    let allocation = priced.status.as_mut().unwrap().allocation.as_mut().unwrap();
    allocation.price = Price::from_usd(0.05).map(WrittenPrice);
    let recorded = |machine: &Machine| status::recorded(&priced, machine).allocation.unwrap();
    let allocation = recorded(&other);
    assert_eq!(allocation.instance_id.as_deref(), Some(ID));
    assert_eq!(
        (allocation.zone.as_str(), allocation.capacity_type.as_str()),
        ("us-south-2", "on-demand")
    );
    assert_eq!((allocation.subnet.as_str(), allocation.price), ("0717-2", None));
    for change in [
        |machine: &mut Machine| machine.profile = "bxf-4x16".to_owned(),
        |machine: &mut Machine| machine.zone = "us-south-2".to_owned(),
        |machine: &mut Machine| machine.capacity_type = CapacityType::OnDemand,
    ] {
        let mut other = machine(MachineStatus::Starting);
        change(&mut other);
        assert_eq!(recorded(&other).price, None, "that of something else");
    }
    let same = recorded(&machine(MachineStatus::Starting));
    assert_eq!(same.subnet, "0717-1", "it does not say where it stands");
    assert!(same.price.is_some());
}

#[test]
fn a_failed_attempt_is_renamed_deleted_and_only_then_followed_by_the_next() {
    let claim = allocated(Some(ID));
    for dead in [MachineStatus::Failed, MachineStatus::Stopped] {
        let Step::NoteFault(why) = next(&claim, &present(dead.clone()), &LIMITS, at(20)) else {
            panic!("people are told first");
        };
        let mut told = claim.clone();
        told.status = Some(status::faulty(&claim, &why, at(20)));
        assert_eq!(step(&told, &present(dead.clone()), 20), "retire");
        assert_eq!(step(&claim, &retired(dead), 20), "delete");
    }
    assert_eq!(
        step(&claim, &retired(MachineStatus::Deleting), 20),
        "wait",
        "others have their turn"
    );
    let Step::Allocate(second) = next(&claim, &retired(MachineStatus::Deleting), &LIMITS, at(31)) else {
        panic!("it was seen on its way out");
    };
    assert_eq!((second.attempt, second.instance_id), (2, None));
    // The rename was refused: its name is free only when it is gone.
    assert_eq!(step(&claim, &present(MachineStatus::Deleting), 40), "wait");
    assert_eq!(step(&claim, &absent(), 40), "note-absence");
    let noted = annotated(&claim, names::MACHINE_ABSENT_SINCE, 40);
    assert_eq!(step(&noted, &absent(), 55), "wait");
    assert_eq!(step(&noted, &absent(), 56), "allocate");
    assert_eq!(
        step(&noted, &present(MachineStatus::Deleting), 50),
        "forget-absence"
    );
}

#[test]
fn an_order_refused_for_good_is_not_repeated_but_a_machine_found_later_is_kept() {
    let mut claim = allocated(None);
    let status = status::refused(&claim, "no such image", at(3));
    claim.status = Some(status);
    assert_eq!(
        step(&claim, &absent(), 4),
        "wait",
        "an earlier order may still be carried out"
    );
    assert_eq!(step(&claim, &present(MachineStatus::Starting), 600), "record");
    let deleted = deleted(&claim, |_| ());
    assert_eq!(step(&deleted, &absent(), 600), "note-absence");
}

#[test]
fn an_order_refused_for_good_ends_the_claim_when_it_has_stood_for_a_while_and_no_order_is_under_way() {
    let mut claim = allocated(None);
    claim.status = Some(status::refused(&claim, "no such image", at(3)));
    assert_eq!(claim.end(), None, "it holds its pods so long");
    assert_eq!(
        step(&claim, &absent(), 303),
        "wait",
        "the same would be asked for again at once"
    );
    let Step::GiveUp(end) = next(&claim, &absent(), &LIMITS, at(304)) else {
        panic!("nothing else will come of it");
    };
    assert_eq!(
        (end.condition, end.reason, end.message.as_str()),
        (names::LAUNCHED, names::REASON_LAUNCH_REFUSED, "no such image")
    );
    let repeated = annotated(&claim, names::ORDER_UNSETTLED_UNTIL, 330);
    assert_eq!(
        step(&repeated, &absent(), 345),
        "wait",
        "an order may yet be carried out"
    );
    assert_eq!(step(&repeated, &absent(), 346), "give-up");
    claim.status = Some(status::ended(&claim, &end, at(304)));
    assert_eq!(next(&claim, &absent(), &LIMITS, at(305)), Step::End(end));
}

#[test]
fn a_refusal_of_an_order_that_is_no_longer_on_record_stands_in_nobody_s_way() {
    let mut claim = allocated(None);
    let mut status = status::refused(&claim, "no such image", at(3));
    status.allocation = None;
    claim.status = Some(status);
    assert!(needs_choice(&claim, &Sighting::Unknown, &Standing::Unknown));
    assert_eq!(step(&claim, &absent(), 4), "allocate");
}

#[test]
fn a_refusal_that_a_clock_ahead_has_written_keeps_nobody_waiting() {
    let mut claim = allocated(None);
    claim.status = Some(status::refused(&claim, "no such image", at(100_000)));
    assert_eq!(step(&claim, &absent(), 80), "wait");
    assert_eq!(step(&claim, &absent(), 81), "give-up");
}

#[test]
fn a_claim_whose_name_a_stranger_holds_can_go() {
    let claim = deleted(&allocated(None), |_| ());
    let mut stranger = machine(MachineStatus::Running);
    stranger.resource_group = "theirs".to_owned();
    let seen = saw(Sighting::Present(Box::new(stranger)));
    assert_eq!(step(&claim, &seen, 600), "note-absence");
    let noted = annotated(&claim, names::MACHINE_ABSENT_SINCE, 600);
    assert_eq!(step(&noted, &seen, 620), "release-finalizer");
    let unsure = Observed {
        resource_group: None,
        ..seen
    };
    assert_eq!(
        step(&noted, &unsure, 620),
        "block",
        "without knowing our group it could be ours"
    );
}

#[test]
fn a_machine_that_does_not_come_up_in_time_is_given_up() {
    let claim = allocated(Some(ID));
    let followed = |status, seconds| Observed {
        followed_for: Duration::from_secs(seconds),
        ..present(status)
    };
    let starting = |seconds| followed(MachineStatus::Starting, seconds);
    assert_eq!(step(&claim, &starting(299), 299), "wait");
    assert_eq!(step(&claim, &starting(300), 300), "note-fault");
    assert_eq!(
        step(&claim, &starting(40), 4000),
        "wait",
        "ordered late, or a clock that jumped"
    );
    let stopping = followed(MachineStatus::Stopping, 30);
    assert_eq!(step(&claim, &stopping, 30), "wait", "it may end up stopped");
    let mut gpu = claim;
    gpu.status.as_mut().unwrap().allocation.as_mut().unwrap().profile = "gx3-16x80x1l4".to_owned();
    assert_eq!(step(&gpu, &starting(300), 300), "wait");
}

#[test]
fn a_claim_goes_only_when_its_machine_was_found_nowhere_twice() {
    let claim = deleted(&allocated(Some(ID)), |_| ());
    assert_eq!(step(&claim, &present(MachineStatus::Running), 100), "delete");
    assert_eq!(step(&claim, &present(MachineStatus::Deleting), 100), "wait");
    assert_eq!(step(&claim, &absent(), 100), "note-absence");
    let noted = annotated(&claim, names::MACHINE_ABSENT_SINCE, 100);
    assert_eq!(step(&noted, &absent(), 115), "wait");
    assert_eq!(step(&noted, &absent(), 116), "release-finalizer");
    assert_eq!(
        step(&noted, &present(MachineStatus::Running), 116),
        "forget-absence"
    );
    assert_eq!(step(&noted, &saw(Sighting::Unknown), 116), "retry");
}

#[test]
fn an_order_that_may_yet_be_carried_out_holds_the_claim() {
    let claim = deleted(&allocated(None), |_| ());
    assert_eq!(step(&claim, &absent(), 64), "wait");
    let early = annotated(&claim, names::MACHINE_ABSENT_SINCE, 40);
    assert_eq!(
        step(&early, &absent(), 70),
        "note-absence",
        "a sighting from before proves nothing"
    );
    let repeated = annotated(&claim, names::ORDER_UNSETTLED_UNTIL, 120);
    assert_eq!(step(&repeated, &absent(), 119), "wait");
    assert_eq!(step(&repeated, &absent(), 120), "note-absence");
}

#[test]
fn a_machine_that_vanished_is_believed_gone_although_it_was_bought_by_a_clock_that_was_ahead() {
    let mut claim = allocated(Some(ID));
    let status = claim.status.as_mut().unwrap();
    status.allocation.as_mut().unwrap().since = at(315_360_000).into();
    let followed = |seconds| Observed {
        followed_for: Duration::from_secs(seconds),
        ..absent()
    };
    assert_eq!(step(&claim, &followed(5), 100), "note-absence");
    let noted = annotated(&claim, names::MACHINE_ABSENT_SINCE, 100);
    assert_eq!(step(&noted, &followed(15), 110), "wait");
    assert_ne!(step(&noted, &followed(21), 116), "note-absence");
    // One from before this attempt was followed may be about an earlier machine.
    assert_eq!(step(&noted, &followed(5), 116), "note-absence");
}

#[test]
fn times_of_a_clock_that_was_ahead_are_written_anew() {
    let ahead = annotated(&allocated(None), names::ORDER_UNSETTLED_UNTIL, 3600);
    assert_eq!(facts::doubt(&ahead, &LIMITS, at(10)), Doubt::Unreadable);
    assert_eq!(step(&ahead, &absent(), 10), "renew-intent");
    assert_eq!(step(&deleted(&ahead, |_| ()), &absent(), 10), "renew-intent");
    assert_eq!(
        step(&deleted(&allocated(None), |_| ()), &absent(), -3600),
        "renew-intent"
    );
    let noted = annotated(
        &deleted(&allocated(Some(ID)), |_| ()),
        names::MACHINE_ABSENT_SINCE,
        3600,
    );
    assert_eq!(step(&noted, &absent(), 100), "note-absence");
}

fn node(change: impl FnOnce(&mut Value)) -> Node {
    let mut node = json!({
        "metadata": {"name": "a", "uid": "n", "labels": {}},
        "spec": {"providerID": format!("ibm:///us-south/{ID}"), "taints": [
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        ]},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.4"}]},
    });
    change(&mut node);
    serde_json::from_value(node).unwrap()
}

fn joined(node: Node) -> Observed {
    Observed {
        node: Some(node),
        ..present(MachineStatus::Running)
    }
}

#[test]
fn a_node_is_trusted_only_if_name_provider_id_and_address_agree() {
    let claim = launched();
    let Step::ChangeNode(change) = next(&claim, &joined(node(|_| ())), &LIMITS, at(60)) else {
        panic!("all agree");
    };
    let keys: Vec<_> = change
        .taints
        .unwrap()
        .into_iter()
        .map(|taint| taint.key)
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready"]);
    assert_eq!(change.labels[names::REGISTERED], "true");
    assert_eq!(change.finalizers.unwrap(), [names::TERMINATION_FINALIZER]);
    let given = node(|node| {
        node["metadata"]["labels"] = json!({"karpenter.sh/registered": "true"});
        node["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        node["spec"]["taints"] = json!([]);
    });
    assert_eq!(step(&claim, &joined(given), 60), "register");
    let boasts = node(|node| node["metadata"]["labels"] = json!({"karpenter.sh/registered": "true"}));
    assert_eq!(
        step(&claim, &joined(boasts), 60),
        "change-node",
        "what a kubelet writes about itself gains it nothing"
    );
    let another = node(|node| node["spec"]["providerID"] = "ibm:///us-south/0717_x".into());
    assert_eq!(step(&claim, &joined(another), 60), "block");
    let elsewhere = node(|node| node["status"]["addresses"][0]["address"] = "10.0.0.5".into());
    assert_eq!(step(&claim, &joined(elsewhere), 60), "block");
    let silent = node(|node| node["spec"]["providerID"] = Value::Null);
    assert_eq!(step(&claim, &joined(silent), 60), "wait");
    assert_eq!(step(&claim, &present(MachineStatus::Running), 60), "wait");
}

#[test]
fn a_node_is_initialized_when_it_is_ready_and_its_startup_taints_are_gone() {
    let mut claim = launched();
    let registered = status::registered(&claim, "a", at(60));
    claim.status = Some(registered);
    let taint = json!({"key": "example.com/warming", "effect": "NoSchedule"});
    claim.spec.startup_taints = Some(vec![serde_json::from_value(taint.clone()).unwrap()]);
    let ready = |node: &mut Value| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        node["spec"]["taints"] = json!([]);
    };
    assert_eq!(step(&claim, &joined(node(|_| ())), 60), "wait");
    assert_eq!(step(&claim, &joined(node(ready)), 60), "change-node");
    let warming = node(|node| {
        ready(node);
        node["spec"]["taints"] = json!([taint]);
    });
    assert_eq!(step(&claim, &joined(warming), 60), "wait");
    let marked = node(|node| {
        ready(node);
        node["metadata"]["labels"] = json!({"karpenter.sh/initialized": "true"});
    });
    assert_eq!(step(&claim, &joined(marked), 60), "initialize");
    claim.status = Some(status::initialized(&claim, at(60)));
    assert!(claim.is(names::READY));
}

#[test]
fn a_node_that_was_ready_keeps_what_its_claim_says_and_nothing_else_of_it_is_touched() {
    let mut claim = launched();
    claim.metadata.labels = Some([("team".to_owned(), "shop".to_owned())].into());
    let lasting = json!({"key": "shop", "value": "only", "effect": "NoSchedule"});
    claim.spec.taints = Some(vec![serde_json::from_value(lasting.clone()).unwrap()]);
    claim.status = Some(status::initialized(&claim, at(60)));
    let as_claimed = |node: &mut Value| {
        node["metadata"]["labels"] = json!({
            "team": "shop", "own": "x", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        });
        node["spec"]["taints"] = json!([lasting, {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    };
    assert_eq!(step(&claim, &joined(node(as_claimed)), 70), "rest");
    let changed = |change: fn(&mut Value)| {
        let node = node(|node| {
            as_claimed(node);
            change(node);
        });
        next(&claim, &joined(node), &LIMITS, at(70))
    };
    let Step::ChangeNode(change) = changed(|node| node["metadata"]["labels"]["team"] = "bank".into()) else {
        panic!("the claim says otherwise");
    };
    assert_eq!(
        (change.labels["team"].as_str(), change.taints, change.finalizers),
        ("shop", None, None)
    );
    assert!(!change.labels.contains_key("own"));
    let Step::ChangeNode(change) = changed(|node| node["spec"]["taints"][0]["value"] = "nobody".into())
    else {
        panic!("the claim says otherwise");
    };
    let taints = change.taints.unwrap();
    assert_eq!((taints.len(), taints[0].value.as_deref()), (2, Some("only")));
    for left_alone in [
        |node: &mut Value| node["spec"]["providerID"] = "ibm:///us-south/0717_x".into(),
        |node: &mut Value| node["metadata"]["deletionTimestamp"] = "2026-11-16T10:00:00Z".into(),
    ] {
        let altered = node(|node| {
            as_claimed(node);
            node["metadata"]["labels"]["team"] = "bank".into();
            left_alone(node);
        });
        assert_eq!(step(&claim, &joined(altered), 70), "rest");
    }
}

#[test]
fn the_node_that_a_machine_left_behind_goes_with_the_claim() {
    let claim = annotated(&deleted(&launched(), |_| ()), names::MACHINE_ABSENT_SINCE, 100);
    let left = Observed {
        machine: Sighting::Absent,
        ..joined(node(|_| ()))
    };
    assert_eq!(step(&claim, &left, 200), "delete-node");
    let other = Observed {
        machine: Sighting::Absent,
        ..joined(node(|node| {
            node["spec"]["providerID"] = "ibm:///us-south/0717_x".into();
        }))
    };
    assert_eq!(step(&claim, &other, 200), "release-finalizer");
}
