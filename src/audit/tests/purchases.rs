//! Claims that can, or cannot, be bought as planned.

use super::*;
use crate::api::names::CAPACITY_TYPE;
use crate::scheduling::MinValues;

/// Changes the types of the pool.
fn with_types(snapshot: &Snapshot, change: impl FnOnce(&mut Vec<InstanceType>)) -> Snapshot {
    let mut changed = snapshot.clone();
    let mut types = changed.pools[0].types.to_vec();
    change(&mut types);
    changed.pools[0].types = Arc::new(types);
    changed
}

fn withheld() -> Availability {
    Availability::Withheld {
        until: jiff::Timestamp::UNIX_EPOCH,
        reason: "NoCapacity".to_owned(),
    }
}

fn family(of: &str) -> Requirements {
    let mut requirements = Requirements::new();
    requirements.narrow("family", &Values::one_of([of]));
    requirements
}

#[test]
fn the_planned_offering_is_sold_to_the_claim_and_the_cheapest_of_its_type() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    let (first, zone) = (
        made.claims[0].cheapest.instance_type,
        made.claims[0].cheapest.zone.clone(),
    );
    let at = |offering: &&mut Offering| offering.zone == zone;
    let gone = with_types(&snapshot, |types| {
        types[first].offerings.iter_mut().find(at).unwrap().availability = withheld();
    });
    assert_eq!(broken(&gone, &made), [Rule::Purchase].into(), "it is withheld");
    let cheaper = with_types(&snapshot, |types| {
        let elsewhere = types[first]
            .offerings
            .iter_mut()
            .find(|offering| offering.zone != zone);
        elsewhere.unwrap().price = Price::from_nanos(1);
    });
    assert_eq!(
        broken(&cheaper, &made),
        [Rule::Purchase].into(),
        "elsewhere it costs less"
    );
    let unknown = with_types(&snapshot, |types| {
        types[first].offerings.iter_mut().find(at).unwrap().price = None;
    });
    let mut unpriced = made.clone();
    unpriced.claims[0].cheapest.price = None;
    assert_eq!(
        broken(&unknown, &unpriced),
        [Rule::Purchase].into(),
        "an unknown price is more than any"
    );
    for (key, value) in [(ZONE, "z2"), (CAPACITY_TYPE, "spot")] {
        let mut elsewhere = made.clone();
        elsewhere.claims[0]
            .requirements
            .narrow(key, &Values::one_of([value]));
        elsewhere.claims[0].cheapest.zone = "z1".to_owned();
        assert_eq!(
            broken(&snapshot, &elsewhere),
            [Rule::Purchase].into(),
            "the claim asks for {value}"
        );
    }
    let mut spot = made;
    spot.claims[0].cheapest.capacity_type = CapacityType::Spot;
    assert_eq!(broken(&snapshot, &spot), [Rule::Purchase].into());
}

#[test]
fn the_planned_type_comes_first_and_costs_what_it_does_where_it_is_planned() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    let same = with_types(&snapshot, |types| {
        let offerings = types[0].offerings.clone();
        types[1].offerings = offerings;
    });
    assert_eq!(broken(&same, &made), BTreeSet::new());
    let mut second = made.clone();
    second.claims[0].cheapest.instance_type = 1;
    assert_eq!(broken(&same, &second), [Rule::Purchase].into());
    let zone = &made.claims[0].cheapest.zone;
    let dearer = with_types(&snapshot, |types| {
        let here = types[0]
            .offerings
            .iter_mut()
            .find(|offering| offering.zone == *zone);
        here.unwrap().price = Price::from_nanos(300);
    });
    assert_eq!(
        broken(&dearer, &made),
        [Rule::Purchase].into(),
        "the price is that of another zone"
    );
}

#[test]
fn types_that_are_named_are_there_are_sold_and_come_in_order_of_their_price() {
    let three = with_types(&snapshot(&[("a", json!({}))]), |types| types.push(kind(6)));
    let made = legal(&three);
    assert_eq!(made.claims[0].options, [0, 1, 2]);
    let mut unknown = made.clone();
    unknown.claims[0].options.push(9);
    assert_eq!(broken(&three, &unknown), [Rule::Purchase].into());
    let mut unordered = made.clone();
    unordered.claims[0].options = vec![0, 2, 1];
    assert_eq!(broken(&three, &unordered), [Rule::Purchase].into());
    let same = with_types(&three, |types| {
        let price = types[1].offerings[0].price;
        types[2]
            .offerings
            .iter_mut()
            .for_each(|offering| offering.price = price);
    });
    assert_eq!(
        broken(&same, &made),
        BTreeSet::new(),
        "at the same price any order will do"
    );
    let mut asking = made.clone();
    asking.claims[0].requirements = asking.claims[0].requirements.and(&family("a"));
    let other = with_types(&three, |types| {
        for (kind, of) in types.iter_mut().zip(["a", "a", "b"]) {
            kind.requirements = kind.requirements.and(&family(of));
        }
    });
    assert_eq!(
        broken(&other, &asking),
        [Rule::Purchase].into(),
        "the last never has that family"
    );
    asking.claims[0].options.pop();
    assert_eq!(broken(&other, &asking), BTreeSet::new());
}

/// A claim that is planned to be the larger type, and names no other.
fn larger(snapshot: &Snapshot) -> Plan {
    let mut made = legal(snapshot);
    made.claims[0].options = vec![1];
    made.claims[0].cheapest.instance_type = 1;
    made.claims[0].cheapest.price = Price::from_nanos(400);
    made
}

#[test]
fn a_cheaper_type_that_is_not_named_is_no_mistake_where_it_would_not_do() {
    let base = snapshot(&[("a", json!({}))]);
    let made = larger(&base);
    assert_eq!(broken(&base, &made), [Rule::Purchase].into());
    let mut limited = base.clone();
    limited.pools[0].limits = Some(Resources::new().with(CPU, 100_000));
    assert_eq!(
        broken(&limited, &made),
        BTreeSet::new(),
        "limits are not looked at"
    );
    let mut with_daemons = base.clone();
    let daemon = serde_json::from_value(json!({"spec": {"containers": [{"name": "d"}]}})).unwrap();
    with_daemons
        .daemons
        .push(Arc::new(Pod::read(&daemon, Reading::Daemon).unwrap()));
    assert_eq!(broken(&with_daemons, &made), BTreeSet::new(), "nor are daemons");
    let small = with_types(&base, |types| types[0].allocatable.set(CPU, 999));
    assert_eq!(broken(&small, &made), BTreeSet::new(), "it has too little room");
    let as_dear = with_types(&base, |types| {
        for offering in &mut types[0].offerings {
            offering.price = Price::from_nanos(400);
        }
    });
    assert_eq!(broken(&as_dear, &made), BTreeSet::new(), "it costs as much");
    let sold_out = with_types(&base, |types| {
        for offering in &mut types[0].offerings {
            offering.availability = withheld();
        }
    });
    assert_eq!(broken(&sold_out, &made), BTreeSet::new(), "it cannot be had");
}

#[test]
fn who_asks_for_nothing_would_have_done_with_a_cheaper_type_that_has_nothing() {
    let nothing = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "0"}}}]});
    let base = snapshot(&[("a", nothing)]);
    let made = larger(&base);
    let overdrawn = with_types(&base, |types| types[0].allocatable.set(CPU, -1));
    assert_eq!(broken(&overdrawn, &made), [Rule::Purchase].into());
}

#[test]
fn a_cheaper_type_with_other_labels_is_no_mistake() {
    let families = |snapshot: &Snapshot| {
        with_types(snapshot, |types| {
            for (kind, of) in types.iter_mut().zip(["b", "a"]) {
                kind.requirements = kind.requirements.and(&family(of));
            }
        })
    };
    let plain = snapshot(&[("a", json!({}))]);
    let mut asking = larger(&plain);
    asking.claims[0].requirements = asking.claims[0].requirements.and(&family("a"));
    assert_eq!(
        broken(&families(&plain), &asking),
        BTreeSet::new(),
        "the claim asks for a"
    );
    let picky = families(&snapshot(&[("a", json!({"nodeSelector": {"family": "a"}}))]));
    assert_eq!(
        broken(&picky, &larger(&plain)),
        BTreeSet::new(),
        "the pod asks for a"
    );
    let bare = with_types(&plain, |types| {
        types[1].requirements = types[1].requirements.and(&family("a"));
    });
    assert_eq!(
        broken(&bare, &asking),
        BTreeSet::new(),
        "the cheaper type never has the label"
    );
}

#[test]
fn a_cheaper_type_is_not_looked_for_where_volumes_decide() {
    let mounts = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut snapshot = snapshot(&[("a", mounts)]);
    let claim = VolumeClaim {
        volume: Some("pv".to_owned()),
        bound: true,
        ..VolumeClaim::default()
    };
    let key = ("default".to_owned(), "data".to_owned());
    snapshot.storage.claims.insert(key, claim);
    snapshot
        .storage
        .volumes
        .insert("pv".to_owned(), Volume::default());
    assert_eq!(broken(&snapshot, &larger(&snapshot)), BTreeSet::new());
}

/// A pool that asks for two values of a label.
fn two_of(key: &str) -> Snapshot {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let asked = crate::api::Requirement {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(2),
    };
    let asked = Requirements::from_api(&[asked]).unwrap();
    snapshot.pools[0].requirements = snapshot.pools[0].requirements.and(&asked);
    with_types(&snapshot, |types| {
        let capacity = [CapacityType::OnDemand, CapacityType::Spot];
        for ((kind, of), capacity) in types.iter_mut().zip(["a", "b"]).zip(capacity) {
            kind.requirements = kind.requirements.and(&family(of));
            kind.offerings
                .iter_mut()
                .for_each(|offering| offering.capacity_type = capacity);
        }
    })
}

#[test]
fn values_of_every_label_are_counted_among_what_can_be_had() {
    for key in [ZONE, CAPACITY_TYPE, "family", INSTANCE_TYPE] {
        let snapshot = two_of(key);
        let made = legal(&snapshot);
        let mut fewer = made.clone();
        fewer.claims[0].options.truncate(1);
        let expected = found(key == ZONE, Rule::MinValues);
        assert_eq!(broken(&snapshot, &fewer), expected, "{key}");
        fewer.claims[0].min_values = MinValues::Relaxed;
        assert_eq!(broken(&snapshot, &fewer), expected, "launch is asked for {key}");
        fewer.claims[0].requirements.lower_min_values(key, 1);
        assert_eq!(broken(&snapshot, &fewer), BTreeSet::new(), "{key} is given up");
    }
    let snapshot = two_of(ZONE);
    let mut made = legal(&snapshot);
    let zone = made.claims[0].cheapest.zone.clone();
    let gone = with_types(&snapshot, |types| {
        for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            if offering.zone != zone {
                offering.availability = withheld();
            }
        }
    });
    assert_eq!(
        broken(&gone, &made),
        [Rule::MinValues].into(),
        "one zone is sold out"
    );
    made.claims[0]
        .requirements
        .narrow(ZONE, &Values::one_of([zone.as_str()]));
    assert_eq!(broken(&snapshot, &made), [Rule::MinValues].into());
}

#[test]
fn values_are_given_up_only_where_the_policy_allows_it() {
    let under = |policy: MinValuesPolicy, snapshot: &Snapshot, made: &Plan| -> BTreeSet<Rule> {
        let found = plan_under(policy, snapshot, made).into_iter();
        found.map(|found| found.rule).collect()
    };
    let enough = two_of("family");
    let mut made = legal(&enough);
    assert_eq!(under(MinValuesPolicy::Strict, &enough, &made), BTreeSet::new());
    made.claims[0].min_values = MinValues::Relaxed;
    let strict = under(MinValuesPolicy::Strict, &enough, &made);
    assert_eq!(strict, [Rule::MinValues].into(), "it says that it gives some up");

    let few = with_types(&enough, |types| {
        for offering in &mut types[1].offerings {
            offering.availability = withheld();
        }
    });
    let best_effort = Options {
        min_values: MinValuesPolicy::BestEffort,
        ..Options::default()
    };
    let made = solve(&few, best_effort, &|| true);
    assert_eq!(made.claims[0].min_values, MinValues::Relaxed);
    assert_eq!(under(MinValuesPolicy::BestEffort, &few, &made), BTreeSet::new());
    assert_eq!(
        under(MinValuesPolicy::Strict, &few, &made),
        [Rule::MinValues].into()
    );
    assert!(ensure_legal(MinValuesPolicy::Strict, &few, &made).is_err());
    let mut refused = made;
    refused.claims[0].requirements = few.pools[0].requirements.clone();
    assert_eq!(
        under(MinValuesPolicy::BestEffort, &few, &refused),
        [Rule::MinValues].into(),
        "launch is still asked for two"
    );
}

#[test]
fn a_claim_that_gives_no_values_up_asks_launch_for_as_many_as_its_pool() {
    let snapshot = two_of("family");
    let made = legal(&snapshot);
    let mut fewer = made.clone();
    fewer.claims[0].requirements.lower_min_values("family", 1);
    assert_eq!(broken(&snapshot, &fewer), [Rule::MinValues].into());
    let mut none = made;
    none.claims[0].requirements = none.claims[0].requirements.clone().without(&["family"]);
    assert_eq!(broken(&snapshot, &none), [Rule::MinValues].into());
    none.claims[0].min_values = MinValues::Relaxed;
    assert_eq!(broken(&snapshot, &none), BTreeSet::new(), "it may ask for less");
}

#[test]
fn values_that_a_claim_rules_out_are_not_counted() {
    let mut snapshot = two_of("family");
    let made = legal(&snapshot);
    snapshot = with_types(&snapshot, |types| {
        for kind in types {
            let mut both = Requirements::new();
            let name = kind.name.clone();
            both.narrow(INSTANCE_TYPE, &Values::one_of([name.as_str()]));
            both.narrow("family", &Values::one_of(["a", "b"]));
            kind.requirements = both;
        }
    });
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
    let mut narrowed = made;
    narrowed.claims[0]
        .requirements
        .narrow("family", &Values::one_of(["a"]));
    assert_eq!(broken(&snapshot, &narrowed), [Rule::MinValues].into());
}

#[test]
fn a_claim_that_leaves_open_what_its_pool_rules_out_is_found() {
    let spot = |types: &mut Vec<InstanceType>| {
        for kind in types {
            let mut spot = kind.offerings[0].clone();
            (spot.capacity_type, spot.zone) = (CapacityType::Spot, "z3".to_owned());
            kind.offerings.push(spot);
            kind.requirements = kind.requirements.and(&family("a"));
        }
    };
    let base = with_types(&snapshot(&[("a", json!({}))]), spot);
    for (key, value, held) in [
        (CAPACITY_TYPE, "on-demand", false),
        (ZONE, "z1", false),
        ("team", "mine", false),
        ("family", "a", true),
    ] {
        let mut narrower = base.clone();
        narrower.pools[0]
            .requirements
            .narrow(key, &Values::one_of([value]));
        let mut made = legal(&narrower);
        made.claims[0].requirements = base.pools[0].requirements.clone();
        let expected = found(held, Rule::Purchase);
        assert_eq!(broken(&narrower, &made), expected, "{key} is not said");
        let mut other = legal(&narrower);
        let values = Values::one_of([value, "z2", "spot"]);
        other.claims[0].requirements = base.pools[0].requirements.clone();
        other.claims[0].requirements.narrow(key, &values);
        assert_eq!(broken(&narrower, &other), expected, "{key} may be another");
    }
    let mut wider = base.clone();
    wider.pools[0]
        .requirements
        .narrow("family", &Values::none_of(["b"]));
    let mut made = legal(&wider);
    made.claims[0].requirements = base.pools[0].requirements.clone();
    assert_eq!(broken(&wider, &made), BTreeSet::new(), "its type is no b anyway");
}
