use super::*;

fn faults(plan: Vec<Fault>) -> Faults {
    Faults::new(FaultPlan(plan), 7, Timestamp::UNIX_EPOCH)
}

#[test]
fn a_fault_ends_after_its_times() {
    let mut faults = faults(vec![Fault::new(FaultKind::LostCreate).times(2)]);
    let struck: Vec<bool> = (0..4)
        .map(|_| faults.hits(FaultKind::LostCreate, "instances.create"))
        .collect();
    assert_eq!(struck, [true, true, false, false]);
}

#[test]
fn a_fault_ends_at_its_time() {
    let end = later(Timestamp::UNIX_EPOCH, Duration::from_secs(10));
    let mut faults = faults(vec![Fault::new(FaultKind::IamDown).until(end)]);
    assert!(faults.hits(FaultKind::IamDown, "iam.token"));
    faults.advance(end);
    assert!(!faults.hits(FaultKind::IamDown, "iam.token"));
}

#[test]
fn a_fault_may_strike_one_operation_or_one_resource() {
    let mut faults = faults(vec![Fault::new(FaultKind::Forbidden).on("instances.delete")]);
    assert!(faults.hits(FaultKind::Forbidden, "instances.delete"));
    assert!(!faults.hits(FaultKind::Forbidden, "instances.list"));
    faults.start(Fault::new(FaultKind::Forbidden).on("instances"));
    assert!(faults.hits(FaultKind::Forbidden, "instances.list"));
    assert!(!faults.hits(FaultKind::Forbidden, "instances_profiles.list"));
}

#[test]
fn probability_is_kept_roughly_and_the_seed_fixes_the_draws() {
    let draws = || {
        let mut faults = faults(vec![Fault::new(FaultKind::ServerError).probability(0.2)]);
        (0..1000)
            .map(|_| faults.hits(FaultKind::ServerError, "x"))
            .collect::<Vec<bool>>()
    };
    let struck = draws().into_iter().filter(|&hit| hit).count();
    assert!((150..250).contains(&struck), "{struck}");
    assert_eq!(draws(), draws());
}

#[test]
fn a_stream_of_its_own_is_not_moved_by_other_faults() {
    let draws = |others: bool| {
        let mut faults = faults(vec![]);
        faults.start_with(Fault::new(FaultKind::ServerError).probability(0.5), 9);
        if others {
            faults.start(Fault::new(FaultKind::Slow).probability(0.5));
            faults.start_with(Fault::new(FaultKind::RateLimit).probability(0.5), 8);
        }
        let draw = |_| {
            faults.hits(FaultKind::Slow, "x");
            if faults.hits(FaultKind::RateLimit, "x") {
                faults.pick(9);
            }
            (faults.hits(FaultKind::ServerError, "x")).then(|| faults.pick(9))
        };
        (0..50).map(draw).collect::<Vec<_>>()
    };
    assert_eq!(draws(false), draws(true));
}

/// Whether a fault of this stream strikes, at most eight times, in each of fifty requests; another of its kind is on from the
/// tenth to the thirtieth, or from before the first, if it is.
fn strikes_of_one(other: Option<&std::ops::Range<usize>>) -> Vec<bool> {
    let mut faults = faults(vec![]);
    let fault = || Fault::new(FaultKind::Slow).probability(0.5);
    let mut struck = Vec::new();
    for request in 0..50 {
        if other.is_some_and(|other| other.start == request) {
            faults.start_with(fault(), 8);
        }
        if request == 5 {
            faults.start_with(fault().times(8), 9);
        }
        if other.is_some_and(|other| other.end == request) {
            faults.stop_with(FaultKind::Slow, 8);
        }
        struck.push(faults.hits(FaultKind::Slow, "x"));
    }
    struck
}

#[test]
fn a_fault_is_not_begun_anew_when_another_of_its_kind_ends() {
    let alone = strikes_of_one(None);
    assert_eq!(alone.iter().filter(|struck| **struck).count(), 8);
    let beside = strikes_of_one(Some(&(0..15)));
    assert_eq!(beside[5..], alone[5..], "one that holds stays as it is");
    let covered = strikes_of_one(Some(&(10..30)));
    let goes_on = [&covered[..10], &covered[30..]].concat();
    assert_eq!(goes_on, alone[..30], "one that was covered goes on where it was");
}

#[test]
fn a_limit_that_another_has_begun_to_eat_is_eaten_for_everybody_and_for_a_while() {
    let mut faults = faults(vec![Fault::new(FaultKind::LimitEaten).times(1)]);
    assert!(faults.is_limit_eaten("instances.list"));
    assert!(faults.is_limit_eaten("iam.token"), "though it strikes once only");
    faults.advance(later(Timestamp::UNIX_EPOCH, EATEN_MAX + Duration::from_secs(1)));
    assert!(!faults.is_limit_eaten("instances.list"));
    assert_eq!(faults.take_strikes().len(), 2);
}

#[test]
fn a_limit_is_eaten_no_longer_than_the_fault_lasts() {
    let mut faults = faults(vec![Fault::new(FaultKind::LimitEaten)]);
    assert!(faults.is_limit_eaten("instances.list"));
    faults.stop(FaultKind::LimitEaten);
    assert!(!faults.is_limit_eaten("instances.list"));
}

#[test]
fn strikes_are_told_once() {
    let mut faults = faults(vec![Fault::new(FaultKind::Slow).times(1)]);
    assert!(faults.hits(FaultKind::Slow, "instances.get"));
    let told: Vec<_> = faults.take_strikes();
    assert_eq!(
        (told[0].kind, told[0].operation.as_str()),
        (FaultKind::Slow, "instances.get")
    );
    assert_eq!(faults.take_strikes(), []);
}

#[test]
fn names_are_kebab_case_unique_and_parse_back() {
    for &kind in FaultKind::ALL {
        assert_eq!(FaultKind::parse(kind.as_str()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
}

#[test]
fn a_retry_after_takes_all_its_forms() {
    let mut faults = faults(vec![]);
    assert_eq!(
        faults.retry_after(Some(RetryAfter::Absurd)).as_deref(),
        Some("1000000000")
    );
    assert_eq!(faults.retry_after(Some(RetryAfter::Missing)), None);
    let date = faults.retry_after(Some(RetryAfter::Date)).unwrap();
    assert!(date.ends_with("GMT"), "{date}");
}
