use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;

const LASTS: Duration = Duration::from_mins(40);

fn shape() -> Shape {
    Shape {
        replicas: 2,
        moments: vec![Duration::ZERO, Duration::from_mins(10)],
        departures: vec![Duration::from_mins(20)],
    }
}

fn plans() -> impl Iterator<Item = Plan> {
    (0..400).map(|seed| Plan::draw(seed, &shape(), LASTS))
}

#[test]
fn the_seed_is_the_plan() {
    let shape = shape();
    assert_eq!(Plan::draw(3, &shape, LASTS), Plan::draw(3, &shape, LASTS));
    assert_ne!(Plan::draw(3, &shape, LASTS), Plan::draw(4, &shape, LASTS));
}

#[test]
fn every_kind_occurs_in_some_seed_and_is_absent_from_most() {
    let mut seeds: BTreeMap<FaultName, usize> = BTreeMap::new();
    for plan in plans() {
        let kinds: BTreeSet<_> = plan.injections.iter().map(|i| i.fault.name()).collect();
        for kind in kinds {
            *seeds.entry(kind).or_default() += 1;
        }
    }
    for &name in FaultName::ALL {
        let times = seeds.get(&name).copied().unwrap_or_default();
        assert!((10..200).contains(&times), "{} in {times}", name.as_str());
    }
}

#[test]
fn everything_is_over_in_time_and_in_order() {
    for plan in plans() {
        assert!(plan.ends() <= LASTS, "{plan:?}");
        assert!(plan.injections.is_sorted_by_key(|injection| injection.at));
    }
}

#[test]
fn pages_fail_only_where_there_are_several() {
    let failing = |injection: &&Injection| matches!(&injection.fault, Fault::Cloud(fault) if fault.kind == FaultKind::PageFails);
    let mut seen = 0;
    for plan in plans() {
        for fails in plan.injections.iter().filter(failing) {
            let short = plan.injections.iter().any(|other| {
                matches!(&other.fault, Fault::Cloud(fault) if fault.kind == FaultKind::SmallPages)
                    && other.at <= fails.at
                    && other.at + other.lasts >= fails.at + fails.lasts
            });
            assert!(short, "{plan:?}");
            seen += 1;
        }
    }
    assert!(seen > 10);
}

#[test]
fn machines_do_not_go_for_long_in_some_seed_and_never_longer_than_people_do_something() {
    let long = |kind: FaultKind| {
        let drawn = plans().flat_map(|plan| plan.injections);
        let lasts = drawn.filter_map(|injection| match &injection.fault {
            // One that ends when it has struck a few times holds a machine for as long as it is asked for anew.
            Fault::Cloud(fault) if fault.kind == kind && fault.times.is_none() => Some(injection.lasts),
            _ => None,
        });
        lasts.max().unwrap_or_default()
    };
    for kind in [
        FaultKind::DeleteStuck,
        FaultKind::DeleteConflict,
        FaultKind::DeleteFails,
    ] {
        assert!(
            (Duration::from_mins(15)..=LASTS).contains(&long(kind)),
            "{kind:?}: {:?}",
            long(kind)
        );
    }
}

#[test]
fn when_deleting_fails_it_fails_always() {
    let drawn = plans().flat_map(|plan| plan.injections);
    let fails: Vec<ibm::Fault> = drawn
        .filter_map(|injection| match injection.fault {
            Fault::Cloud(fault) if fault.kind == FaultKind::DeleteFails => Some(fault),
            _ => None,
        })
        .collect();
    assert!(fails.len() > 10);
    for fault in fails {
        assert_eq!(fault, ibm::Fault::new(FaultKind::DeleteFails));
    }
}

/// What the operator may watch in a cluster, which is what it does watch: a test of the chart compares the two.
fn followed() -> BTreeSet<String> {
    let role = include_str!("../../../../charts/karpenter-ibm/files/controller.yaml");
    let role: Value = serde_saphyr::from_str(role).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = list(&role["rules"]).into_iter();
    rules
        .filter(|rule| list(&rule["verbs"]).contains(&json!("watch")))
        .flat_map(|rule| list(&rule["resources"]))
        .filter_map(|resource| resource.as_str().map(str::to_owned))
        .collect()
}

#[test]
fn every_kind_that_is_watched_lags_behind_the_others_in_some_seed() {
    // More than elsewhere: half of what lags is claims, and there are thirteen others.
    let plans = (0..1_000).map(|seed| Plan::draw(seed, &shape(), LASTS));
    let drawn = plans.flat_map(|plan| plan.injections);
    let lagging: BTreeSet<String> = drawn
        .filter_map(|injection| match injection.fault {
            Fault::Kube(fault) if fault.kind == KubeKind::Lag => fault.resource,
            _ => None,
        })
        .collect();
    assert_eq!(lagging, followed());
    assert_eq!(watched().map(str::to_owned).collect::<BTreeSet<_>>(), followed());
}

#[test]
fn an_answer_that_is_slow_there_and_back_still_comes() {
    let drawn = plans().flat_map(|plan| plan.injections);
    let slow = drawn.filter_map(|injection| match injection.fault {
        Fault::Kube(fault) if fault.kind == KubeKind::Slow => Some(fault.delay),
        _ => None,
    });
    let longest = slow.max().unwrap_or_default();
    // The operator waits for half a minute.
    assert!((Duration::from_secs(10)..Duration::from_secs(15)).contains(&longest));
}

#[test]
fn replicas_die_of_an_order_in_some_seeds_and_of_anything_in_more() {
    let crashes = plans().flat_map(|plan| plan.injections);
    let upon: Vec<Upon> = crashes
        .filter_map(|injection| match injection.fault {
            Fault::Crash { upon, .. } => Some(upon),
            _ => None,
        })
        .collect();
    let of_orders = upon.iter().filter(|upon| **upon == Upon::Order).count();
    assert!(of_orders > 10 && of_orders < upon.len() / 2, "{of_orders}");
}

#[test]
fn clocks_are_wrong_for_one_replica_or_for_all() {
    let skewed = plans().flat_map(|plan| plan.injections);
    let whose: BTreeSet<Option<usize>> = skewed
        .filter_map(|injection| match injection.fault {
            Fault::Skew { replica, .. } => Some(replica),
            _ => None,
        })
        .collect();
    assert_eq!(whose, BTreeSet::from([None, Some(0), Some(1)]));
}

#[test]
fn no_two_injections_share_their_chance() {
    for plan in plans() {
        let streams: BTreeSet<_> = plan.injections.iter().map(|i| i.stream).collect();
        assert_eq!(streams.len(), plan.injections.len());
    }
}
