//! Shortage, faults and time limits: what becomes of a claim that does not get its machine, or its node.

use super::*;
use crate::api::names::{NODE_INITIALIZED, NODE_REGISTERED, REASON_INSUFFICIENT_CAPACITY};
use crate::model::StatusReason;

fn failed_for(reason: StatusReason) -> Observed {
    let mut machine = machine(MachineStatus::Failed);
    machine.reasons = vec![reason];
    saw(Sighting::Present(Box::new(machine)))
}

fn lost(observed: Observed) -> Observed {
    Observed {
        standing: Standing::Lost,
        ..observed
    }
}

fn exhausted(observed: Observed) -> Observed {
    Observed {
        choice: Some(Err(NoChoice::Exhausted("all is withheld".to_owned()))),
        ..observed
    }
}

/// The claim at its third attempt, which is the last for faults.
fn make_third(claim: &mut NodeClaim) {
    let status = claim.status.as_mut().unwrap();
    status.allocation.as_mut().unwrap().attempt = 3;
}

#[test]
fn a_shortage_is_withheld_before_the_machine_goes_and_the_next_attempt_follows_at_once() {
    let claim = allocated(Some(ID));
    for (reason, expected) in [
        (StatusReason::NoCapacity, Withholding::Shortage),
        (StatusReason::NoAddress, Withholding::Subnet),
    ] {
        let failed = failed_for(reason);
        assert_eq!(next(&claim, &failed, &LIMITS, at(3)), Step::Withhold(expected));
        assert_eq!(step(&claim, &lost(failed), 3), "retire");
    }
    let Step::Allocate(second) = next(&claim, &lost(retired(MachineStatus::Deleting)), &LIMITS, at(4)) else {
        panic!("another offering is left");
    };
    assert_eq!(second.attempt, 2);
    assert_eq!(
        second.price.map(|price| price.to_string()).as_deref(),
        Some("0.05")
    );
}

#[test]
fn a_machine_that_was_taken_back_before_it_ran_is_told_of_whether_or_not_its_offering_is_withheld() {
    let claim = allocated(Some(ID));
    let taken = failed_for(StatusReason::Preempted);
    for observed in [taken.clone(), lost(taken)] {
        let Step::TakenBack { machine, attempt } = next(&claim, &observed, &LIMITS, at(3)) else {
            panic!("it is not told");
        };
        assert_eq!((machine.id.as_str(), attempt), (ID, 1));
    }
}

#[test]
fn an_order_refused_at_once_goes_on_with_another_choice_in_the_same_attempt() {
    let claim = claim(|claim| {
        let mut allocation = allocation(None);
        allocation["credentials"] = json!([{"attempt": 1, "jti": "one"}]);
        claim["status"]["allocation"] = allocation;
    });
    let Step::Allocate(other) = next(&claim, &lost(absent()), &LIMITS, at(1)) else {
        panic!("another offering is left");
    };
    assert_eq!(other.attempt, 1, "an order for the first may yet be carried out");
    assert_eq!(other.credentials.unwrap()[0].jti, "one");
}

#[test]
fn nothing_is_ordered_without_a_good_standing_and_a_credential_at_hand() {
    let claim = allocated(None);
    let unknown = Observed {
        standing: Standing::Unknown,
        ..absent()
    };
    assert_eq!(step(&claim, &unknown, 1), "retry");
    let without = Observed {
        credential: Credential::Lost,
        ..absent()
    };
    assert_eq!(step(&claim, &without, 1), "credential");
}

#[test]
fn when_nothing_is_left_others_have_their_turn_and_it_is_tried_once_more_before_the_claim_ends() {
    let mut claim = claim(|_| ());
    let nothing = exhausted(absent());
    assert_eq!(step(&claim, &nothing, 0), "note-shortage");
    claim.status = Some(status::short(&claim, "all is withheld", at(0)));
    assert_eq!(step(&claim, &nothing, 29), "wait");
    assert_eq!(step(&claim, &absent(), 30), "allocate", "with fresh offerings");
    let Step::GiveUp(end) = next(&claim, &nothing, &LIMITS, at(30)) else {
        panic!("it was tried once more");
    };
    assert_eq!(
        (end.reason, end.message.as_str()),
        (REASON_INSUFFICIENT_CAPACITY, "all is withheld")
    );
    claim.status = Some(status::ended(&claim, &end, at(30)));
    assert_eq!(next(&claim, &nothing, &LIMITS, at(30)), Step::End(end));
    let deleted = deleted(&claim, |_| ());
    assert_eq!(step(&deleted, &absent(), 31), "note-absence");
}

#[test]
fn an_allocation_ends_the_word_of_shortage() {
    let mut claim = claim(|_| ());
    claim.status = Some(status::short(&claim, "all is withheld", at(0)));
    let Step::Allocate(allocation) = next(&claim, &absent(), &LIMITS, at(30)) else {
        panic!("something is left");
    };
    claim.status = Some(status::allocated(&claim, allocation));
    assert_eq!(claim.short_since(), None);
}

#[test]
fn an_intent_that_a_breaker_holds_back_is_taken_back_when_no_order_can_be_carried_out_on_it() {
    let held_back = Observed {
        standing: Standing::HeldBack(HeldBack {
            breaker: "machines",
            why: "too many".to_owned(),
        }),
        ..absent()
    };
    let claim = allocated(None);
    assert_eq!(step(&claim, &held_back, 80), "block");
    assert_eq!(step(&claim, &held_back, 81), "withdraw");
    let left = serde_json::to_value(status::withdrawn(&claim)).unwrap();
    assert_eq!(
        left,
        serde_json::json!({"conditions": []}),
        "a status of nothing is refused"
    );
}

#[test]
fn faults_that_are_no_shortage_end_the_claim_after_three_attempts() {
    let mut claim = allocated(Some(ID));
    let failed = failed_for(StatusReason::Other("cannot_start_storage".to_owned()));
    let Step::NoteFault(why) = next(&claim, &failed, &LIMITS, at(3)) else {
        panic!("people are told");
    };
    assert_eq!(why, "attempt 1: the machine failed: cannot_start_storage");
    make_third(&mut claim);
    let Step::GiveUp(end) = next(&claim, &failed, &LIMITS, at(3)) else {
        panic!("three are enough");
    };
    assert_eq!(end.reason, names::REASON_LAUNCH_FAILED);
}

fn waits(claim: &NodeClaim, seconds: i64, followed: u64) -> Step {
    let observed = Observed {
        followed_for: Duration::from_secs(followed),
        diagnosis: Some(unseen()),
        ..present(MachineStatus::Running)
    };
    next(claim, &observed, &LIMITS, at(seconds))
}

#[test]
fn a_machine_that_does_not_join_within_a_quarter_of_an_hour_ends_the_claim_with_what_is_known() {
    let mut claim = launched();
    assert_eq!(waits(&claim, 60, 60), Step::Wait(at(120)), "then it says why");
    claim.status = Some(status::explained(&claim, &unseen_word(), at(120)));
    let Step::GiveUp(end) = waits(&claim, 900, 900) else {
        panic!("it is overdue");
    };
    assert_eq!(
        (end.condition, end.message.as_str()),
        (NODE_REGISTERED, "it does not boot")
    );
    assert_eq!(
        waits(&claim, 4000, 60),
        Step::Wait(at(4000 + 840)),
        "the wall clock jumped, or the process is new"
    );
    assert_eq!(waits(&claim, 4000, 899), Step::Wait(at(4001)));
}

#[test]
fn a_node_that_does_not_become_ready_ends_the_claim_and_what_it_lacks_is_told() {
    let mut claim = launched();
    let registered = status::registered(&claim, "a", at(60));
    claim.status = Some(registered);
    let requests = json!({"requests": {"nvidia.com/gpu": "1", "cpu": "2"}});
    claim.spec.resources = Some(serde_json::from_value(requests).unwrap());
    let reports = |allocatable: Value| {
        let node = node(|node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            node["status"]["allocatable"] = allocatable;
            node["spec"]["taints"] = json!([]);
        });
        Observed {
            followed_for: LIMITS.initialization,
            ..joined(node)
        }
    };
    let without = reports(json!({"cpu": "4", "nvidia.com/gpu": "0"}));
    assert_eq!(step(&claim, &without, 1000), "explain");
    let Step::GiveUp(end) = next(&claim, &without, &LIMITS, at(60 + 1800)) else {
        panic!("it is overdue");
    };
    assert_eq!(end.condition, NODE_INITIALIZED);
    assert_eq!(
        end.message,
        "its node does not report the resource nvidia.com/gpu"
    );
    let with = reports(json!({"cpu": "4", "nvidia.com/gpu": "1"}));
    assert_eq!(step(&claim, &with, 1000), "change-node");
}

#[test]
fn only_a_node_that_is_silent_can_be_what_another_machine_left_behind() {
    let mut claim = launched();
    claim.metadata.creation_timestamp = Some(serde_json::from_value(json!("2026-11-16T10:00:00Z")).unwrap());
    let of_another = |ready: &str| {
        node(|node| {
            node["metadata"]["creationTimestamp"] = json!("2026-11-16T09:00:00Z");
            node["spec"]["providerID"] = json!("ibm:///us-south/another");
            node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
        })
    };
    assert_eq!(
        other_machine(&claim, &of_another("Unknown")),
        Some("ibm:///us-south/another")
    );
    // The cloud answers 404 for what is there now and then; a node that is ready has a machine.
    assert_eq!(other_machine(&claim, &of_another("True")), None);
}

/// Whatever holds the name of an interface or a volume, it is not the next attempt's.
#[test]
fn an_attempt_whose_names_are_taken_is_followed_by_another_and_the_third_is_the_last() {
    let mut claim = allocated(None);
    claim.status = Some(status::faulty(&claim, "attempt 1: a name is taken", at(90)));
    assert!(needs_choice(&claim, &Sighting::Absent, &Standing::Good));
    let Step::Allocate(second) = next(&claim, &saw(Sighting::Absent), &LIMITS, at(91)) else {
        panic!("the next attempt");
    };
    assert_eq!((second.attempt, second.instance_name.as_str()), (2, NAME));
    claim.status = Some(status::allocated(&claim, second));
    assert!(claim.fault().is_none(), "it is over with the attempt");
    make_third(&mut claim);
    claim.status = Some(status::faulty(&claim, "attempt 3: a name is taken", at(300)));
    assert_eq!(step(&claim, &saw(Sighting::Absent), 300), "give-up");
    // An order that was lost after all is adopted.
    assert_eq!(step(&claim, &present(MachineStatus::Running), 300), "record");
}
