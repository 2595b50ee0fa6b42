//! What holds for every claim and everything seen.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::clock::between;
use crate::lifecycle::facts::Doubt;
use crate::model::StatusReason;

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
        prop_assert!(!["delete", "give-back-taken", "retire", "record", "launched", "label"].contains(&step), "{step}");
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
        let observed = Observed {
            diagnosis: Some(unseen()),
            followed_for: LIMITS.registration,
            ..saw(sighting)
        };
        let step = next(&self.claim, &observed, &LIMITS, now);
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
                self.claim.status = Some(status::launched(claim, &machine, None, id, now));
            }
            Step::Retire { .. } => {
                if let Some(machine) = &mut self.machine {
                    machine.name = format!("{NAME}-x1");
                }
            }
            Step::Delete { .. } | Step::GiveBackTaken(_) => self.machine = None,
            Step::NoteFault(why) => self.claim.status = Some(status::faulty(claim, &why, now)),
            Step::Explain(word) => self.claim.status = Some(status::explained(claim, &word, now)),
            Step::Unblock => self.claim.status = Some(status::unblocked(claim)),
            Step::GiveUp(end) => self.claim.status = Some(status::ended(claim, &end, now)),
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
        was_taken in any::<bool>(),
        seconds in 0..500i64,
    ) {
        let is_deleting = claim.is_deleting();
        let mut machine = status.map(machine);
        if let Some(machine) = machine.as_mut().filter(|_| was_taken && is_deleting) {
            machine.reasons.push(StatusReason::Preempted);
        }
        let is_launched_without = claim.is_launched() && !is_deleting;
        let mut play = Play { claim, machine, seconds };
        let is_over = |step: &Step| matches!(step, Step::Rest | Step::End(_));
        let turns: Vec<Step> = std::iter::repeat_with(|| play.turn())
            .take(60)
            .take_while(|step| !is_over(step))
            .collect();
        prop_assert!(turns.len() < 60, "no rest after {turns:?}");
        if is_deleting {
            prop_assert!(play.machine.is_none() || !turns.contains(&Step::ReleaseFinalizer));
            prop_assert!(play.claim.finalizers().is_empty());
        } else if !is_launched_without {
            prop_assert!(play.claim.is_launched() && play.machine.is_some());
        } else {
            prop_assert_eq!(play.claim.end().unwrap().reason, names::REASON_REGISTRATION_TIMEOUT);
        }
    }
}
