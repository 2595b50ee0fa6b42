//! From the deletion of a claim with a Node to the deletion of its machine.

use super::*;
use crate::drain::{Manner, Why};
use crate::model::StatusReason;

fn leaving() -> NodeClaim {
    let mut claim = launched();
    claim.status = Some(status::registered(&claim, "a", at(0)));
    deleted(&claim, |_| ())
}

fn draining() -> NodeClaim {
    let mut claim = leaving();
    claim.status = Some(status::draining(&claim, at(1)));
    claim
}

fn tainted() -> Node {
    node(|node| {
        node["metadata"]["labels"] = json!({names::EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"});
        node["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    })
}

fn pod(change: impl FnOnce(&mut Value)) -> k8s_openapi::api::core::v1::Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "p", "resourceVersion": "7"},
        "spec": {"containers": [], "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running"},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn with(remaining: Remaining) -> Observed {
    Observed {
        remaining: Some(remaining),
        ..joined(tainted())
    }
}

fn settled() -> Remaining {
    Remaining {
        tainted_for: Duration::from_secs(5),
        ..Remaining::default()
    }
}

#[test]
fn a_node_is_emptied_step_by_step_before_its_machine_goes() {
    let mut claim = leaving();
    let Step::ChangeNode(change) = next(&claim, &joined(node(|_| ())), &LIMITS, at(1)) else {
        panic!("nobody may come any more");
    };
    assert_eq!(change.labels[names::EXCLUDE_FROM_LOAD_BALANCERS], "karpenter");
    assert!(
        change
            .taints
            .unwrap()
            .iter()
            .any(|it| it.key == names::DISRUPTED_TAINT)
    );
    assert_eq!(step(&claim, &joined(tainted()), 1), "draining");
    claim.status = Some(status::draining(&claim, at(1)));
    assert!(needs_remaining(&claim, &joined(tainted())));
    assert_eq!(step(&claim, &joined(tainted()), 1), "retry", "nobody has looked");
    let full = Remaining {
        pods: vec![pod(|_| ())],
        ..settled()
    };
    assert_eq!(step(&claim, &with(full), 2), "evict");
    assert_eq!(step(&claim, &with(settled()), 40), "drained");
    claim.status = Some(status::drained(&claim, at(40)));
    let attached = Remaining {
        attached: vec!["pv-1".to_owned()],
        ..settled()
    };
    assert_eq!(step(&claim, &with(attached), 41), "await");
    assert_eq!(step(&claim, &with(settled()), 60), "vacated");
    claim.status = Some(status::vacated(&claim, Volumes::Detached, at(60)));
    assert!(!needs_remaining(&claim, &joined(tainted())));
    assert_eq!(step(&claim, &joined(tainted()), 60), "delete");
}

/// kubernetes-sigs/karpenter#651, #1167: a pod that was bound while the taint was written died with the machine.
#[test]
fn an_empty_node_counts_only_when_it_was_listed_long_enough_after_the_taint() {
    let early = Remaining {
        tainted_for: Duration::from_secs(4),
        ..Remaining::default()
    };
    assert_eq!(next(&draining(), &with(early), &LIMITS, at(4)), Step::Wait(at(5)));
    let late = Remaining {
        pods: vec![pod(|_| ())],
        ..settled()
    };
    let Step::Evict(evictions) = next(&draining(), &with(late), &LIMITS, at(6)) else {
        panic!("it came in between");
    };
    assert_eq!(evictions[0].manner, Manner::Evict);
}

#[test]
fn what_holds_a_node_is_told_and_a_deadline_ends_it() {
    let protected = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    };
    // By whatever clock of ours: the time is that at which it was looked.
    let ours = at(-3_600);
    let full = |seconds| Remaining {
        at: at(seconds),
        pods: vec![pod(protected)],
        ..settled()
    };
    let Step::Await(_, Holdup::Pods(waiting)) = next(&draining(), &with(full(9999)), &LIMITS, ours) else {
        panic!("it waits for ever");
    };
    assert_eq!(waiting[0].why, Why::DoNotDisrupt(None));
    let mut hurried = draining();
    hurried.spec.termination_grace_period = Some("10m".to_owned());
    let Step::SetDeadline(deadline) = next(&hurried, &with(full(1)), &LIMITS, ours) else {
        panic!("the time must outlive the process");
    };
    assert_eq!(deadline, at(600));
    let hurried = annotated(&hurried, names::TERMINATION_TIMESTAMP, 600);
    assert_eq!(step(&hurried, &with(full(569)), 99_999), "await");
    let Step::Evict(evictions) = next(&hurried, &with(full(570)), &LIMITS, ours) else {
        panic!("no more time is left than its own grace");
    };
    assert_eq!(evictions[0].manner, Manner::Delete(Duration::from_secs(30)));
}

#[test]
fn volumes_are_abandoned_only_when_the_deadline_is_over() {
    let mut claim = annotated(&draining(), names::TERMINATION_TIMESTAMP, 600);
    claim.status = Some(status::drained(&claim, at(40)));
    let attached = |seconds| {
        with(Remaining {
            at: at(seconds),
            attached: vec!["pv-1".to_owned()],
            ..settled()
        })
    };
    assert_eq!(step(&claim, &attached(599), 99_999), "await");
    let step = next(&claim, &attached(600), &LIMITS, at(1));
    assert_eq!(step, Step::Vacated(Volumes::Abandoned));
    let status = status::vacated(&claim, Volumes::Abandoned, at(600));
    let conditions = status.conditions.unwrap();
    let volumes = conditions
        .iter()
        .find(|it| it.type_ == names::VOLUMES_DETACHED)
        .unwrap();
    assert_eq!(
        (volumes.status.as_str(), volumes.reason.as_deref()),
        ("False", Some("TerminationGracePeriodElapsed"))
    );
}

/// aws/karpenter-provider-aws#8180, kubernetes-sigs/karpenter#2169: nodes stuck for a week on machines that were gone.
#[test]
fn a_machine_that_is_dead_is_not_drained() {
    for dead in [MachineStatus::Stopped, MachineStatus::Failed] {
        let observed = Observed {
            node: Some(node(|_| ())),
            ..present(dead)
        };
        assert!(!needs_remaining(&draining(), &observed));
        assert_eq!(step(&leaving(), &observed, 1), "delete");
        assert_eq!(step(&draining(), &observed, 1), "delete");
    }
}

/// aws/karpenter-provider-aws#2734: the Node of another machine under the claim's name.
#[test]
fn somebody_elses_node_under_the_claims_name_is_left_alone() {
    let other = node(|node| node["spec"]["providerID"] = "ibm:///us-south/0717_x".into());
    assert_eq!(step(&leaving(), &joined(other), 1), "delete");
}

#[test]
fn a_node_that_is_held_by_us_is_let_go_after_its_machine() {
    let claim = annotated(&leaving(), names::MACHINE_ABSENT_SINCE, 100);
    let gone = |node: Node| Observed {
        machine: Sighting::Absent,
        ..joined(node)
    };
    let held =
        |node: &mut Value| node["metadata"]["finalizers"] = json!(["karpenter.sh/termination", "other"]);
    assert_eq!(step(&claim, &gone(node(held)), 200), "delete-node");
    let going = |node: &mut Value| {
        held(node);
        node["metadata"]["deletionTimestamp"] = written(150).into();
    };
    let Step::ChangeNode(change) = next(&claim, &gone(node(going)), &LIMITS, at(200)) else {
        panic!("its machine is gone");
    };
    assert_eq!(change.finalizers.unwrap(), ["other"]);
    let released = |node: &mut Value| {
        going(node);
        node["metadata"]["finalizers"] = json!(["other"]);
    };
    assert_eq!(step(&claim, &gone(node(released)), 200), "release-finalizer");
}

/// The claim's machine in that state, known to be stopping for so long, its Node empty.
fn vacated(status: MachineStatus, reasons: &[StatusReason], stopping_for: u64) -> (NodeClaim, Observed) {
    let mut claim = draining();
    claim.status = Some(status::vacated(&claim, Volumes::Detached, at(60)));
    let mut machine = machine(status);
    machine.reasons = reasons.to_vec();
    let observed = Observed {
        machine: Sighting::Present(Box::new(machine)),
        stopping_for: Duration::from_secs(stopping_for),
        ..joined(tainted())
    };
    (claim, observed)
}

#[test]
fn a_machine_that_was_taken_back_is_told_of_before_it_goes_drained_or_not() {
    let (claim, observed) = vacated(MachineStatus::Stopped, &[StatusReason::Preempted], 0);
    assert_eq!(step(&claim, &observed, 60), "give-back-taken");
    assert_eq!(step(&draining(), &observed, 60), "give-back-taken");
    let (_, observed) = vacated(MachineStatus::Stopped, &[], 0);
    assert_eq!(step(&claim, &observed, 60), "delete", "somebody switched it off");
}

#[test]
fn a_spot_machine_that_stops_is_waited_for_until_it_says_why_but_not_for_ever() {
    let (claim, observed) = vacated(MachineStatus::Stopping, &[], 59);
    assert!(is_stopping(&claim, &observed.machine));
    assert_eq!(step(&claim, &observed, 60), "await-stop");
    let (claim, observed) = vacated(MachineStatus::Stopping, &[], 60);
    assert_eq!(step(&claim, &observed, 60), "delete");
    let (claim, mut observed) = vacated(MachineStatus::Stopping, &[], 0);
    let Sighting::Present(machine) = &mut observed.machine else {
        unreachable!("it is there");
    };
    machine.capacity_type = CapacityType::OnDemand;
    assert_eq!(step(&claim, &observed, 60), "delete", "nobody takes it back");
}
