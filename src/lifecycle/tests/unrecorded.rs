//! Claims that have nothing on record, and perhaps a machine.

use super::*;

/// Nothing can be bought, and that is known of the machine.
fn exhausted(machine: Sighting) -> Observed {
    Observed {
        choice: Some(Err(NoChoice::Exhausted("the pool is full".to_owned()))),
        ..saw(machine)
    }
}

/// The claim that was told at 0 that nothing is left.
fn short() -> NodeClaim {
    let mut claim = claim(|_| ());
    claim.status = Some(status::short(&claim, "the pool is full", at(0)));
    claim
}

/// The machine that has the claim's name.
fn found(change: impl FnOnce(&mut Machine)) -> Observed {
    let mut machine = machine(MachineStatus::Running);
    machine.subnet = Some("0717-2".to_owned());
    machine.zone = "us-south-2".to_owned();
    machine.capacity_type = CapacityType::OnDemand;
    change(&mut machine);
    exhausted(Sighting::Present(Box::new(machine)))
}

#[test]
fn a_claim_is_told_that_nothing_is_left_only_when_nothing_has_its_name() {
    let (new, short) = (claim(|_| ()), short());
    let (unknown, absent) = (exhausted(Sighting::Unknown), exhausted(Sighting::Absent));
    for (claim, seconds, expected) in [(&new, 0, "note-shortage"), (&short, 30, "give-up")] {
        assert!(needs_proof(claim, &unknown, &LIMITS, at(seconds)));
        assert_eq!(
            step(claim, &unknown, seconds),
            "retry",
            "an error is not an absence"
        );
        assert_eq!(step(claim, &absent, seconds), expected);
    }
}

#[test]
fn a_claim_that_can_be_bought_for_or_lets_others_have_their_turn_is_not_looked_for() {
    let new = claim(|_| ());
    let unseen = saw(Sighting::Unknown);
    assert!(!needs_proof(&new, &unseen, &LIMITS, at(0)));
    assert_eq!(step(&new, &unseen, 0), "allocate");
    let nothing = exhausted(Sighting::Unknown);
    assert!(!needs_proof(&short(), &nothing, &LIMITS, at(29)));
    assert_eq!(step(&short(), &nothing, 29), "wait");
    assert!(
        !needs_proof(&allocated(None), &nothing, &LIMITS, at(0)),
        "on record"
    );
}

#[test]
fn a_machine_that_has_the_name_of_a_claim_with_nothing_on_record_is_adopted_as_what_it_is() {
    for (mut claim, seconds) in [(claim(|_| ()), 0), (short(), 30)] {
        let Step::Allocate(allocation) = next(&claim, &found(|_| ()), &LIMITS, at(seconds)) else {
            panic!("it is not given up");
        };
        assert_eq!(allocation.instance_id.as_deref(), Some(ID));
        assert_eq!((allocation.instance_name.as_str(), allocation.attempt), (NAME, 1));
        assert_eq!(
            (allocation.zone.as_str(), allocation.capacity_type.as_str()),
            ("us-south-2", "on-demand")
        );
        assert_eq!((allocation.subnet.as_str(), allocation.price), ("0717-2", None));
        claim.status = Some(status::allocated(&claim, allocation));
        assert_eq!(claim.short_since(), None);
        assert_eq!(step(&claim, &found(|_| ()), seconds), "label", "and goes its way");
    }
}

#[test]
fn a_machine_that_goes_or_is_somebody_elses_is_not_adopted_and_the_claim_stays() {
    let claim = short();
    let going = found(|machine| machine.status = MachineStatus::Deleting);
    assert_eq!(step(&claim, &going, 30), "wait");
    let somewhere = found(|machine| machine.subnet = None);
    assert_eq!(
        step(&claim, &somewhere, 30),
        "wait",
        "it does not say yet where it is"
    );
    let theirs = found(|machine| machine.resource_group = "theirs".to_owned());
    assert_eq!(step(&claim, &theirs, 30), "block");
}
