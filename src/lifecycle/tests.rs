use proptest::prelude::*;
use serde_json::{Value, json};

use super::facts::Doubt;
use super::*;
use crate::api::CapacityType;
use crate::clock::between;

const NAME: &str = "kib-8b19fa72-0d9c8b7a6f5e4d3c8b2a1908f7e6d5c4";
const ID: &str = "0717_0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4";
const LIMITS: Limits = Limits {
    visibility: Duration::from_secs(15),
    late_create: Duration::from_mins(1),
    send_within: Duration::from_secs(5),
    launch: Duration::from_mins(5),
    launch_gpu: Duration::from_mins(15),
    between_attempts: Duration::from_secs(30),
    poll: Duration::from_secs(5),
};

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
            instance_name: NAME.to_owned(),
        })),
        resource_group: Some("ours".to_owned()),
        node: None,
        followed_for: Duration::from_hours(1),
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
        .extend(machine_labels(&machine(MachineStatus::Running)));
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
    let status = status::recorded(&allocated(None), &other);
    let allocation = status.allocation.unwrap();
    assert_eq!(allocation.instance_id.as_deref(), Some(ID));
    assert_eq!(
        (allocation.zone.as_str(), allocation.capacity_type.as_str()),
        ("us-south-2", "on-demand")
    );
}

#[test]
fn a_failed_attempt_is_renamed_deleted_and_only_then_followed_by_the_next() {
    let claim = allocated(Some(ID));
    for dead in [MachineStatus::Failed, MachineStatus::Stopped] {
        assert_eq!(step(&claim, &present(dead.clone()), 20), "retire");
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
fn a_clock_that_jumps_ahead_ends_no_attempt() {
    let claim = allocated(Some(ID));
    let jumped = Observed {
        followed_for: Duration::from_secs(40),
        ..present(MachineStatus::Starting)
    };
    assert_eq!(step(&claim, &jumped, 440), "wait");
}

#[test]
fn an_order_refused_for_good_is_not_repeated_but_a_machine_found_later_is_kept() {
    let mut claim = allocated(None);
    let status = status::refused(&claim, "no such image".to_owned(), at(3));
    claim.status = Some(status);
    assert_eq!(
        step(&claim, &absent(), 4),
        "wait",
        "an earlier order may still be carried out"
    );
    assert_eq!(step(&claim, &absent(), 600), "rest");
    assert_eq!(step(&claim, &present(MachineStatus::Starting), 600), "record");
    let deleted = deleted(&claim, |_| ());
    assert_eq!(step(&deleted, &absent(), 600), "note-absence");
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
    assert_eq!(step(&claim, &present(MachineStatus::Starting), 299), "wait");
    assert_eq!(step(&claim, &present(MachineStatus::Starting), 300), "retire");
    assert_eq!(
        step(&claim, &present(MachineStatus::Stopping), 30),
        "wait",
        "it may end up stopped"
    );
    let mut gpu = claim;
    gpu.status.as_mut().unwrap().allocation.as_mut().unwrap().profile = "gx3-16x80x1l4".to_owned();
    assert_eq!(step(&gpu, &present(MachineStatus::Starting), 300), "wait");
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
    let labeled = node(|node| node["metadata"]["labels"] = json!({"karpenter.sh/registered": "true"}));
    assert_eq!(step(&claim, &joined(labeled), 60), "register");
    let another = node(|node| node["spec"]["providerID"] = "ibm:///us-south/0717_x".into());
    assert_eq!(step(&claim, &joined(another), 60), "block");
    let elsewhere = node(|node| node["status"]["addresses"][0]["address"] = "10.0.0.5".into());
    assert_eq!(step(&claim, &joined(elsewhere), 60), "block");
    let silent = node(|node| node["spec"]["providerID"] = Value::Null);
    assert_eq!(step(&claim, &joined(silent), 60), "rest");
    assert_eq!(step(&claim, &present(MachineStatus::Running), 60), "rest");
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
    assert_eq!(step(&claim, &joined(node(|_| ())), 60), "rest");
    assert_eq!(step(&claim, &joined(node(ready)), 60), "change-node");
    let warming = node(|node| {
        ready(node);
        node["spec"]["taints"] = json!([taint]);
    });
    assert_eq!(step(&claim, &joined(warming), 60), "rest");
    let marked = node(|node| {
        ready(node);
        node["metadata"]["labels"] = json!({"karpenter.sh/initialized": "true"});
    });
    assert_eq!(step(&claim, &joined(marked), 60), "initialize");
    claim.status = Some(status::initialized(&claim, at(60)));
    assert!(claim.is(names::READY));
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

fn any_status() -> impl Strategy<Value = MachineStatus> {
    prop::sample::select(vec![
        MachineStatus::Pending,
        MachineStatus::Starting,
        MachineStatus::Running,
        MachineStatus::Stopping,
        MachineStatus::Stopped,
        MachineStatus::Restarting,
        MachineStatus::Deleting,
        MachineStatus::Failed,
        MachineStatus::Other("tomorrow".to_owned()),
    ])
}

fn any_sighting() -> impl Strategy<Value = Sighting> {
    let group = prop::sample::select(vec!["ours", "theirs"]);
    let id = prop::sample::select(vec![ID, "0717_other"]);
    let there = (any_status(), group, id, any::<bool>()).prop_map(|(status, group, id, is_retired)| {
        let mut machine = machine(status);
        machine.resource_group = group.to_owned();
        machine.id = id.to_owned();
        if is_retired {
            machine.name = format!("{NAME}-x1");
        }
        Sighting::Present(Box::new(machine))
    });
    prop_oneof![Just(Sighting::Unknown), Just(Sighting::Absent), there]
}

fn any_claim() -> impl Strategy<Value = NodeClaim> {
    let base = prop::sample::select(vec![
        claim(|claim| claim["metadata"]["finalizers"] = json!([])),
        claim(|_| ()),
        allocated(None),
        allocated(Some(ID)),
        launched(),
    ]);
    let note = || prop::option::of(-100..400i64);
    (base, any::<bool>(), note(), note()).prop_map(|(mut claim, is_deleting, absent, unsettled)| {
        if is_deleting {
            claim = deleted(&claim, |_| ());
        }
        for (annotation, seconds) in [
            (names::MACHINE_ABSENT_SINCE, absent),
            (names::ORDER_UNSETTLED_UNTIL, unsettled),
        ] {
            if let Some(seconds) = seconds {
                claim = annotated(&claim, annotation, seconds);
            }
        }
        claim
    })
}

proptest! {
    #[test]
    fn what_could_not_be_read_leads_to_no_effect_on_the_cloud(claim in any_claim(), seconds in -100..500i64) {
        let step = step(&claim, &saw(Sighting::Unknown), seconds);
        prop_assert!(!["create", "delete", "retire", "record", "release-finalizer"].contains(&step), "{step}");
    }

    #[test]
    fn an_order_needs_an_absence_an_intent_and_time_to_send(
        claim in any_claim(), sighting in any_sighting(), seconds in -100..500i64,
    ) {
        let observed = saw(sighting);
        if let Step::Create { within, .. } = next(&claim, &observed, &LIMITS, at(seconds)) {
            prop_assert_eq!(&observed.machine, &Sighting::Absent);
            prop_assert!(claim.allocation().is_some_and(|it| it.instance_id.is_none()) && !claim.is_deleting());
            let Doubt::Until(until) = facts::doubt(&claim, &LIMITS, at(seconds)) else {
                return Err(TestCaseError::fail("bought in doubt"));
            };
            let last_effect = later(later(at(seconds), within), LIMITS.late_create);
            prop_assert!(last_effect <= until, "carried out after the claim may be gone");
        }
    }

    #[test]
    fn a_claim_is_let_go_only_when_gone_is_confirmed_and_no_order_is_under_way(
        claim in any_claim(), sighting in any_sighting(), seconds in -100..500i64,
    ) {
        let (observed, now) = (saw(sighting), at(seconds));
        if next(&claim, &observed, &LIMITS, now) == Step::ReleaseFinalizer {
            let gone = match &observed.machine {
                Sighting::Unknown => false,
                Sighting::Absent => true,
                Sighting::Present(machine) => !is_ours(machine, claim.allocation(), &observed),
            };
            prop_assert!(gone && claim.is_deleting());
            let first = claim.absent_since().unwrap();
            prop_assert!(between(first, now) > LIMITS.visibility);
            let settled = match facts::doubt(&claim, &LIMITS, now) {
                Doubt::Until(until) => until,
                Doubt::Unreadable => return Err(TestCaseError::fail("let go in doubt")),
            };
            prop_assert!(settled <= first, "both sightings are from after the last order");
        }
    }

    #[test]
    fn strangers_are_never_touched(claim in any_claim(), status in any_status(), seconds in -100..500i64) {
        let mut stranger = machine(status);
        stranger.id = "0717_other".to_owned();
        stranger.resource_group = "theirs".to_owned();
        let step = step(&claim, &saw(Sighting::Present(Box::new(stranger))), seconds);
        prop_assert!(!["delete", "retire", "record", "launched", "label"].contains(&step), "{step}");
    }
}

/// A small world that carries steps out, to see where they lead.
struct Play {
    claim: NodeClaim,
    machine: Option<Machine>,
    seconds: i64,
}

impl Play {
    fn turn(&mut self) -> Step {
        let sighting = self
            .machine
            .clone()
            .map_or(Sighting::Absent, |it| Sighting::Present(Box::new(it)));
        let now = at(self.seconds);
        let step = next(&self.claim, &saw(sighting), &LIMITS, now);
        let claim = &self.claim;
        match step.clone() {
            Step::AddFinalizer => self
                .claim
                .finalizers_mut()
                .push(names::TERMINATION_FINALIZER.to_owned()),
            Step::Allocate(allocation) => self.claim.status = Some(status::allocated(claim, allocation)),
            Step::RenewIntent(until) => self.note(names::ORDER_UNSETTLED_UNTIL, Some(until)),
            Step::Create { .. } => self.machine = Some(machine(MachineStatus::Running)),
            Step::Record(machine) => self.claim.status = Some(status::recorded(claim, &machine)),
            Step::Label(labels) => self.claim.labels_mut().extend(labels),
            Step::Launched(machine) => {
                let id = format!("ibm:///us-south/{}", machine.id);
                self.claim.status = Some(status::launched(claim, &machine, id, now));
            }
            Step::Retire { .. } => {
                if let Some(machine) = &mut self.machine {
                    machine.name = format!("{NAME}-x1");
                }
            }
            Step::Delete { .. } => self.machine = None,
            Step::NoteAbsence(since) => self.note(names::MACHINE_ABSENT_SINCE, Some(since)),
            Step::ForgetAbsence => self.note(names::MACHINE_ABSENT_SINCE, None),
            Step::ReleaseFinalizer => self.claim.finalizers_mut().clear(),
            Step::Wait(until) => self.seconds += i64::try_from(between(now, until).as_secs()).unwrap() + 1,
            _ => {}
        }
        step
    }

    fn note(&mut self, annotation: &str, time: Option<Timestamp>) {
        let annotations = self.claim.annotations_mut();
        match time {
            Some(time) => annotations.insert(annotation.to_owned(), time.to_string()),
            None => annotations.remove(annotation),
        };
    }
}

proptest! {
    /// Every claim that a crash can leave, with or without its machine, comes to rest where it should.
    #[test]
    fn from_any_crash_point_a_claim_goes_on_to_its_goal(
        claim in any_claim(),
        status in prop::option::of(prop::sample::select(vec![
            MachineStatus::Running, MachineStatus::Failed, MachineStatus::Stopped,
        ])),
        seconds in 0..500i64,
    ) {
        let is_deleting = claim.is_deleting();
        let machine = status.map(machine);
        let is_launched_without = claim.is_launched() && !is_deleting;
        let mut play = Play { claim, machine, seconds };
        let turns: Vec<Step> = std::iter::repeat_with(|| play.turn())
            .take(60)
            .take_while(|step| *step != Step::Rest)
            .collect();
        prop_assert!(turns.len() < 60, "no rest after {turns:?}");
        if is_deleting {
            prop_assert!(play.machine.is_none() || !turns.contains(&Step::ReleaseFinalizer));
            prop_assert!(play.claim.finalizers().is_empty());
        } else if !is_launched_without {
            prop_assert!(play.claim.is_launched() && play.machine.is_some());
        }
    }
}
