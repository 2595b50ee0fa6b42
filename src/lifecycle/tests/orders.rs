//! Orders of which it is not known what came of them.

use super::*;

fn unsure(seconds: u64) -> Observed {
    Observed {
        last_order: LastOrder::Unsure(Duration::from_secs(seconds)),
        ..absent()
    }
}

fn taken() -> Observed {
    Observed {
        last_order: LastOrder::NameTaken("the name is taken".to_owned()),
        ..absent()
    }
}

#[test]
fn an_order_that_may_have_been_carried_out_is_repeated_only_when_reads_would_show_it() {
    let renewed = annotated(&allocated(None), names::ORDER_UNSETTLED_UNTIL, 4 + 65);
    assert_eq!(step(&renewed, &absent(), 4), "create");
    assert_eq!(next(&renewed, &unsure(0), &LIMITS, at(4)), Step::Wait(at(19)));
    assert_eq!(next(&renewed, &unsure(10), &LIMITS, at(4)), Step::Wait(at(9)));
    assert_eq!(step(&renewed, &unsure(15), 4), "create");
    assert_eq!(step(&allocated(None), &unsure(15), 20), "renew-intent");
    let found = Observed {
        last_order: LastOrder::Unsure(Duration::ZERO),
        ..present(MachineStatus::Pending)
    };
    assert_eq!(step(&renewed, &found, 4), "record");
}

#[test]
fn a_name_that_is_taken_is_looked_for_and_nothing_else_is_done_until_it_can_be_none_of_ours() {
    let first = allocated(None);
    let repeated = annotated(&first, names::ORDER_UNSETTLED_UNTIL, 300);
    let mut ahead = repeated.clone();
    ahead.status = Some(status::allocated(&ahead, {
        let mut allocation = ahead.allocation().unwrap().clone();
        allocation.since = at(100_000).into();
        allocation
    }));
    for (claim, seconds, expected) in [
        (&first, 3, "wait"),
        (&first, 80, "wait"),
        (&first, 81, "note-fault"),
        (&repeated, 240, "wait"),
        (&repeated, 315, "wait"),
        (&repeated, 316, "note-fault"),
        (&ahead, 315, "wait"),
        (&ahead, 316, "note-fault"),
        // Written by a clock that was ahead.
        (
            &annotated(&first, names::ORDER_UNSETTLED_UNTIL, 100_000),
            300,
            "renew-intent",
        ),
    ] {
        assert_eq!(step(claim, &taken(), seconds), expected, "at {seconds}");
        let lost = Observed {
            standing: Standing::Lost,
            ..taken()
        };
        assert_eq!(
            step(claim, &lost, seconds),
            expected,
            "and not to be had, at {seconds}"
        );
    }
    let Step::NoteFault(why) = next(&first, &taken(), &LIMITS, at(81)) else {
        panic!("by nothing that can be found");
    };
    assert_eq!(why, "attempt 1: the name is taken");
    let mut faulty = first.clone();
    faulty.status = Some(status::faulty(&first, &why, at(81)));
    let Step::Allocate(second) = next(&faulty, &taken(), &LIMITS, at(81)) else {
        panic!("under other names");
    };
    assert_eq!(second.attempt, 2);
}

/// The credentials of a claim after its next attempt has begun: the attempt of each.
fn taken_over(id: Option<&str>) -> Vec<i64> {
    let made = json!([{"attempt": 1, "jti": "a"}, {"attempt": 2, "jti": "b"}, {"attempt": 2, "jti": "c"}]);
    let mut claim = claim(|claim| {
        claim["status"]["allocation"] = allocation(id);
        claim["status"]["allocation"]["attempt"] = 2.into();
        claim["status"]["allocation"]["credentials"] = made;
    });
    claim.status = Some(status::faulty(&claim, "attempt 2: something", at(20)));
    let claim = annotated(&claim, names::MACHINE_ABSENT_SINCE, 40);
    let Step::Allocate(third) = next(&claim, &absent(), &LIMITS, at(60)) else {
        panic!("the next attempt");
    };
    assert_eq!(third.attempt, 3);
    let credentials = third.credentials.unwrap();
    credentials.iter().map(|credential| credential.attempt).collect()
}

#[test]
fn a_machine_that_is_found_after_its_attempt_may_join_unless_it_was_known_and_given_up() {
    assert_eq!(taken_over(None), [1, 3, 3]);
    assert_eq!(taken_over(Some(ID)), [1, 2, 2]);
}
