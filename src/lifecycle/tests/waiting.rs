//! What claims say while they wait.

use super::*;

fn waits(claim: &NodeClaim, diagnosis: Diagnosis, seconds: i64) -> Step {
    let observed = Observed {
        diagnosis: Some(diagnosis),
        ..present(MachineStatus::Running)
    };
    next(claim, &observed, &LIMITS, at(seconds))
}

fn held_back(breaker: &'static str, why: &str) -> Blocker {
    Blocker::HeldBack(HeldBack {
        breaker,
        why: why.to_owned(),
    })
}

#[test]
fn a_claim_says_why_its_machine_has_not_joined_after_a_while_and_once() {
    let mut claim = launched();
    let needed = |claim: &NodeClaim, seconds| needs_diagnosis(claim, Duration::ZERO, &LIMITS, at(seconds));
    assert!(!needed(&claim, 119), "it takes its usual way");
    assert_eq!(waits(&claim, unseen(), 119), Step::Wait(at(120)));
    assert!(needed(&claim, 120));
    assert_eq!(waits(&claim, unseen(), 120), Step::Explain(unseen_word()));
    claim.status = Some(status::explained(&claim, &unseen_word(), at(120)));
    assert_eq!(waits(&claim, unseen(), 120), Step::Wait(at(240)));
    assert_eq!(
        waits(&claim, unseen(), 500),
        Step::Wait(at(960)),
        "ever more seldom"
    );
    let refused = Diagnosis {
        reason: names::REASON_CERTIFICATE_REFUSED,
        message: "its certificate request was refused".to_owned(),
    };
    assert_eq!(waits(&claim, refused, 500).name(), "explain", "something else");
    let registered = status::registered(&claim, "a", at(510));
    claim.status = Some(registered);
    assert_eq!(claim.state(names::NODE_REGISTERED), Some(("True", at(510))));
}

#[test]
fn a_node_that_is_not_ready_for_work_says_what_it_lacks_but_not_each_of_its_kubelets_words() {
    let mut claim = launched();
    claim.spec.startup_taints =
        serde_json::from_value(json!([{"key": "cni", "effect": "NoSchedule"}])).unwrap();
    claim.status = Some(status::registered(&claim, "a", at(60)));
    let with = |ready: &str, words: &str, taint: &str| {
        joined(node(|node| {
            let ready = json!({"type": "Ready", "status": ready, "message": words});
            node["status"]["conditions"] = json!([ready]);
            node["spec"]["taints"] = json!([{"key": taint, "effect": "NoSchedule"}]);
        }))
    };
    let said = |claim: &mut NodeClaim, observed: &Observed, seconds| {
        let Step::Explain(word) = next(claim, observed, &LIMITS, at(seconds)) else {
            return None;
        };
        claim.status = Some(status::explained(claim, &word, at(seconds)));
        Some((word.condition, word.reason))
    };
    assert_eq!(said(&mut claim, &with("False", "no network", "cni"), 100), None);
    let not_ready = Some((names::NODE_INITIALIZED, "NodeNotReady"));
    assert_eq!(
        said(&mut claim, &with("False", "seen 3 s ago", "cni"), 180),
        not_ready
    );
    assert_eq!(
        said(&mut claim, &with("False", "seen 13 s ago", "cni"), 190),
        None
    );
    let startup = Some((names::NODE_INITIALIZED, "StartupTaintsExist"));
    assert_eq!(said(&mut claim, &with("True", "", "cni"), 200), startup);
    let unreachable = "node.kubernetes.io/unreachable";
    let ephemeral = Some((names::NODE_INITIALIZED, "KnownEphemeralTaintsExist"));
    assert_eq!(said(&mut claim, &with("True", "", unreachable), 210), ephemeral);
    assert_eq!(step(&claim, &with("True", "", "another"), 220), "change-node");
}

#[test]
fn a_claim_says_what_keeps_it_from_being_bought_for_and_numbers_alone_are_no_news() {
    let mut claim = claim(|_| ());
    let word = blocked(&claim, &held_back("machines", "there would be 5")).unwrap();
    assert_eq!((word.condition, word.reason), (names::LAUNCHED, "LaunchHeldBack"));
    claim.status = Some(status::explained(&claim, &word, at(1)));
    assert_eq!(blocked(&claim, &held_back("machines", "there would be 6")), None);
    assert!(blocked(&claim, &held_back("stop", "nothing is bought")).is_some());
    let missing = Blocker::Unresolved(Unresolved("there is no class".to_owned()));
    assert_eq!(blocked(&claim, &missing).unwrap().reason, "LaunchBlocked");
    assert_eq!(blocked(&deleted(&claim, |_| ()), &missing), None);
    let left = serde_json::to_value(status::unblocked(&claim)).unwrap();
    assert_eq!(
        left,
        serde_json::json!({"conditions": []}),
        "a status of nothing is refused"
    );
    claim.status = Some(status::allocated(
        &claim,
        serde_json::from_value(allocation(None)).unwrap(),
    ));
    assert!(!claim.is_blocked(), "it is over when something is bought");
}

#[test]
fn what_is_reckoned_from_is_said_only_when_the_word_before_is_taken_back() {
    let mut claim = allocated(None);
    let word = blocked(&claim, &held_back("machines", "there would be 5")).unwrap();
    claim.status = Some(status::explained(&claim, &word, at(1)));
    assert_eq!(step(&claim, &absent(), 2), "unblock");
    claim.status = Some(status::unblocked(&claim));
    assert_eq!(claim.state(names::LAUNCHED), None);
    assert_eq!(step(&claim, &absent(), 2), "create");
    // What was refused at 3 stands from then on, not from when it was held back.
    claim.status = Some(status::refused(&claim, "no", at(3)));
    assert_eq!(claim.refusal(), Some(("no", at(3))));
    assert_eq!(blocked(&claim, &held_back("machines", "there would be 5")), None);
}

#[test]
fn a_machine_that_is_found_takes_back_that_its_name_was_taken() {
    let mut claim = allocated(None);
    let stranger = Blocker::Stranger {
        id: "x".to_owned(),
        name: NAME.to_owned(),
    };
    let word = blocked(&claim, &stranger).unwrap();
    assert_eq!(word.reason, "NameTaken");
    claim.status = Some(status::explained(&claim, &word, at(1)));
    claim.status = Some(status::recorded(&claim, &machine(MachineStatus::Starting)));
    assert!(!claim.is_blocked());
}
