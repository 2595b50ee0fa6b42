use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::json;

use super::*;
use crate::resources::{CPU, MEMORY};

const GIB: i64 = 1 << 30;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn offering(zone: &str, capacity_type: CapacityType, nanos: Option<u64>) -> Offering {
    Offering {
        zone: zone.to_owned(),
        capacity_type,
        price: nanos.and_then(Price::from_nanos),
        availability: Availability::Available,
    }
}

fn withheld(offering: Offering, until: i64) -> Offering {
    Offering {
        availability: Availability::Withheld {
            until: at(until),
            reason: "Shortage".to_owned(),
        },
        ..offering
    }
}

/// A type whose name is its one label besides the family.
fn instance_type(name: &str, vcpu: i64, gib: i64, offerings: Vec<Offering>) -> InstanceType {
    let amounts = Resources::new().with(CPU, vcpu * 1000).with(MEMORY, gib * GIB);
    let mut requirements = Requirements::new();
    requirements.narrow(names::INSTANCE_TYPE, &Values::one_of([name]));
    requirements.narrow(names::INSTANCE_GPU_NAME, &Values::absent());
    InstanceType {
        name: name.to_owned(),
        requirements,
        capacity: amounts.clone(),
        allocatable: amounts,
        volume_limits: BTreeMap::new(),
        offerings,
    }
}

fn subnet(id: &str, zone: &str, free: u64) -> SubnetFacts {
    SubnetFacts {
        id: id.to_owned(),
        zone: zone.to_owned(),
        free,
    }
}

fn subnets() -> Vec<SubnetFacts> {
    vec![
        subnet("1a", "z-1", 5),
        subnet("1b", "z-1", 9),
        subnet("2a", "z-2", 5),
    ]
}

fn wish(labels: &[(&str, &[&str])], vcpu: i64) -> Wish {
    let mut requirements = Requirements::new();
    for (label, values) in labels {
        requirements.narrow(label, &Values::one_of(values.iter().copied()));
    }
    let requests = Resources::new().with(CPU, vcpu * 1000);
    Wish {
        requirements,
        requests,
    }
}

const BOTH: (&str, &[&str]) = (names::CAPACITY_TYPE, &["spot", "on-demand"]);
const SPOT: (&str, &[&str]) = (names::CAPACITY_TYPE, &["spot"]);
const ON_DEMAND: (&str, &[&str]) = (names::CAPACITY_TYPE, &["on-demand"]);

use CapacityType::{OnDemand, Spot};

fn bought(wish: &Wish, types: &[InstanceType]) -> String {
    match choose(wish, types, &subnets(), &Ledger::default()) {
        Ok(it) => format!("{} {} {} in {}", it.capacity_type, it.profile, it.zone, it.subnet),
        Err(why_not) => why_not.to_string(),
    }
}

#[test]
fn spot_comes_first_where_the_claim_allows_it() {
    let types = [instance_type(
        "b",
        4,
        16,
        vec![
            offering("z-1", Spot, Some(50)),
            offering("z-1", OnDemand, Some(200)),
        ],
    )];
    assert_eq!(bought(&wish(&[BOTH], 1), &types), "spot b z-1 in 1b");
    assert_eq!(bought(&wish(&[], 1), &types), "spot b z-1 in 1b");
    assert_eq!(bought(&wish(&[ON_DEMAND], 1), &types), "on-demand b z-1 in 1b");
}

#[test]
fn on_demand_serves_when_spot_is_withheld_and_only_if_it_is_allowed() {
    let spot = withheld(offering("z-1", Spot, Some(50)), 60);
    let types = [instance_type(
        "b",
        4,
        16,
        vec![spot, offering("z-1", OnDemand, Some(200))],
    )];
    assert_eq!(bought(&wish(&[BOTH], 1), &types), "on-demand b z-1 in 1b");
    let why_not = choose(&wish(&[SPOT], 1), &types, &subnets(), &Ledger::default()).unwrap_err();
    assert_eq!(
        why_not.to_string(),
        "nothing that is sold fits: 1 offerings are withheld (Shortage), the first until 1970-01-01T00:01:00Z; \
         label karpenter.sh/capacity-type must be in [spot], which 1 are not"
    );
    assert_eq!(why_not.hope(), Hope::At(at(60)));
}

#[test]
fn spot_dearer_than_on_demand_is_bought_only_where_nothing_else_is_allowed() {
    let types = [
        instance_type("gpu", 4, 16, vec![offering("z-1", Spot, Some(900))]),
        instance_type("plain", 4, 16, vec![offering("z-2", OnDemand, Some(200))]),
    ];
    assert_eq!(bought(&wish(&[BOTH], 1), &types), "on-demand plain z-2 in 2a");
    assert_eq!(bought(&wish(&[SPOT], 1), &types), "spot gpu z-1 in 1b");
    let taken = withheld(offering("z-2", OnDemand, Some(200)), 60);
    let types = [types[0].clone(), instance_type("plain", 4, 16, vec![taken])];
    assert_eq!(bought(&wish(&[BOTH], 1), &types), "spot gpu z-1 in 1b");
}

#[test]
fn an_unknown_price_is_never_the_cheapest() {
    let types = [
        instance_type("a", 4, 16, vec![offering("z-1", OnDemand, None)]),
        instance_type("b", 4, 16, vec![offering("z-1", OnDemand, Some(9_000))]),
        instance_type("c", 4, 16, vec![offering("z-1", Spot, None)]),
    ];
    assert_eq!(bought(&wish(&[BOTH], 1), &types), "on-demand b z-1 in 1b");
    assert_eq!(bought(&wish(&[BOTH], 1), &types[..1]), "on-demand a z-1 in 1b");
    assert_eq!(bought(&wish(&[SPOT], 1), &types), "spot c z-1 in 1b");
}

#[test]
fn ties_are_settled_by_name_then_zone_then_room() {
    let twice = || vec![offering("z-2", Spot, Some(5)), offering("z-1", Spot, Some(5))];
    let types = [
        instance_type("b", 4, 16, twice()),
        instance_type("a", 4, 16, twice()),
    ];
    assert_eq!(bought(&wish(&[], 1), &types), "spot a z-1 in 1b");
}

#[test]
fn zone_and_subnet_go_together() {
    let types = [instance_type(
        "b",
        4,
        16,
        vec![offering("z-1", Spot, Some(5)), offering("z-3", Spot, Some(1))],
    )];
    assert_eq!(
        bought(&wish(&[], 1), &types),
        "spot b z-1 in 1b",
        "z-3 has no subnet"
    );
    let why_not = choose(
        &wish(&[(names::ZONE, &["z-3"])], 1),
        &types,
        &subnets(),
        &Ledger::default(),
    );
    let why_not = why_not.unwrap_err();
    assert!(
        why_not
            .to_string()
            .contains("no subnet has an address left in z-3"),
        "{why_not}"
    );
    assert_eq!(why_not.hope(), Hope::Sometime);
}

#[test]
fn what_is_too_small_is_told_by_how_much() {
    let types = [
        instance_type("a", 4, 16, vec![offering("z-1", Spot, Some(5))]),
        instance_type("b", 8, 16, vec![offering("z-1", Spot, Some(5))]),
    ];
    let why_not = choose(&wish(&[], 16), &types, &subnets(), &Ledger::default()).unwrap_err();
    assert_eq!(
        why_not.to_string(),
        "nothing that is sold fits: 2 types are too small, of which b comes closest with 8 of 16 cpu"
    );
    assert_eq!(why_not.hope(), Hope::None);
}

#[test]
fn a_label_that_nothing_has_is_named() {
    let types = [instance_type("a", 4, 16, vec![offering("z-1", Spot, Some(5))])];
    let mut gpu = wish(&[], 1);
    gpu.requirements.narrow(names::INSTANCE_GPU_NAME, &Values::some());
    assert_eq!(
        bought(&gpu, &types),
        "nothing that is sold fits: label karpenter-ibm.sh/instance-gpu-name must be present, which 1 are not"
    );
    assert_eq!(bought(&wish(&[], 1), &[]), "nothing is sold");
}

#[test]
fn a_wish_is_what_the_claim_requires_and_requests() {
    let claim = |requests: serde_json::Value| {
        serde_json::from_value::<NodeClaim>(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {
                "requirements": [{"key": names::ZONE, "operator": "In", "values": ["z-1"]}],
                "resources": {"requests": requests},
                "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
            },
        }))
        .unwrap()
    };
    let read = Wish::of(&claim(json!({"cpu": "1500m", "pods": 3}))).unwrap();
    assert_eq!(read.requests, Resources::new().with(CPU, 1500).with("pods", 3));
    assert_eq!(read.requirements.get(names::ZONE), Some(&Values::one_of(["z-1"])));
    let wrong = Wish::of(&claim(json!({"cpu": "lots"}))).unwrap_err();
    assert!(wrong.to_string().contains("request for cpu"), "{wrong}");
}

fn any_offering() -> impl Strategy<Value = Offering> {
    let availability = prop_oneof![
        4 => Just(Availability::Available),
        1 => (1i64..9).prop_map(|until| Availability::Withheld { until: at(until), reason: "Shortage".to_owned() }),
        1 => Just(Availability::Unsold(Unsold::NoSubnet)),
    ];
    let zone = select(vec!["z-1", "z-2", "z-3"]);
    let way = select(vec![Spot, OnDemand]);
    // Few different prices, so that ties occur.
    let price = prop::option::weighted(0.8, 1u64..6);
    (zone, way, price, availability).prop_map(|(zone, way, price, availability)| Offering {
        availability,
        ..offering(zone, way, price)
    })
}

fn any_types() -> impl Strategy<Value = Vec<InstanceType>> {
    let one = (1i64..9, prop::collection::vec(any_offering(), 0..5));
    prop::collection::vec(one, 0..6).prop_map(|sizes| {
        let named = sizes.into_iter().enumerate();
        named
            .map(|(n, (vcpu, offerings))| {
                // One offering for each zone and way, as types have them.
                let unique: BTreeMap<_, _> = offerings
                    .into_iter()
                    .map(|it| ((it.zone.clone(), it.capacity_type), it))
                    .collect();
                instance_type(&format!("t{n}"), vcpu, 16, unique.into_values().collect())
            })
            .collect()
    })
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let ways = prop::option::of(subsequence(vec!["spot", "on-demand", "reserved"], 1..3));
    let zones = prop::option::of(subsequence(vec!["z-1", "z-2", "z-3"], 1..3));
    (ways, zones, 1i64..9).prop_map(|(ways, zones, vcpu)| {
        let mut labels: Vec<(&str, Vec<&str>)> = Vec::new();
        labels.extend(ways.map(|ways| (names::CAPACITY_TYPE, ways)));
        labels.extend(zones.map(|zones| (names::ZONE, zones)));
        let labels: Vec<(&str, &[&str])> = labels
            .iter()
            .map(|(key, values)| (*key, values.as_slice()))
            .collect();
        wish(&labels, vcpu)
    })
}

fn any_subnets() -> impl Strategy<Value = Vec<SubnetFacts>> {
    let one = (select(vec!["z-1", "z-2", "z-3"]), 0u64..4);
    prop::collection::vec(one, 0..5).prop_map(|all| {
        let named = all.into_iter().enumerate();
        named
            .map(|(n, (zone, free))| subnet(&format!("s{n}"), zone, free))
            .collect()
    })
}

/// Every choice that would be right but perhaps not the cheapest, told plainly from the rules.
fn buyable(wish: &Wish, types: &[InstanceType], subnets: &[SubnetFacts], ledger: &Ledger) -> Vec<Choice> {
    let mut all = Vec::new();
    for kind in types {
        for offering in &kind.offerings {
            for subnet in subnets {
                let mut labels = kind.requirements.clone();
                labels.narrow(names::ZONE, &Values::one_of([&offering.zone]));
                labels.narrow(
                    names::CAPACITY_TYPE,
                    &Values::one_of([offering.capacity_type.as_str()]),
                );
                let fits = labels.conflict(&wish.requirements).is_none()
                    && wish.requests.shortage(&kind.allocatable).is_none();
                let there = subnet.zone == offering.zone && ledger.left_in(subnet).is_some();
                if fits && there && offering.is_available() {
                    all.push(Choice {
                        profile: kind.name.clone(),
                        zone: offering.zone.clone(),
                        capacity_type: offering.capacity_type,
                        subnet: subnet.id.clone(),
                        price: offering.price,
                    });
                }
            }
        }
    }
    all
}

fn dollars(choice: &Choice) -> f64 {
    choice.price.map_or(f64::INFINITY, Price::usd)
}

proptest! {
    #[test]
    fn what_is_chosen_can_be_bought_and_nothing_of_its_capacity_type_is_cheaper(
        wish in any_wish(), types in any_types(), subnets in any_subnets(),
    ) {
        let ledger = Ledger::default();
        let all = buyable(&wish, &types, &subnets, &ledger);
        match choose(&wish, &types, &subnets, &ledger) {
            Err(_) => prop_assert!(all.is_empty(), "{all:?}"),
            Ok(choice) => {
                prop_assert!(all.contains(&choice), "{choice:?}");
                let same = all.iter().filter(|it| it.capacity_type == choice.capacity_type);
                prop_assert!(same.clone().all(|it| dollars(it) >= dollars(&choice)));
            }
        }
    }

    #[test]
    fn the_capacity_type_is_spot_unless_it_is_not_allowed_not_there_or_dearer(
        wish in any_wish(), types in any_types(), subnets in any_subnets(),
    ) {
        let ledger = Ledger::default();
        let all = buyable(&wish, &types, &subnets, &ledger);
        let cheapest = |way| {
            let of_type = all.iter().filter(|it| it.capacity_type == way);
            of_type.map(dollars).min_by(f64::total_cmp)
        };
        if let Ok(choice) = choose(&wish, &types, &subnets, &ledger) {
            let expected = match (cheapest(Spot), cheapest(OnDemand)) {
                (Some(spot), Some(on_demand)) if spot > on_demand => OnDemand,
                (Some(_), _) => Spot,
                (None, _) => OnDemand,
            };
            prop_assert_eq!(choice.capacity_type, expected);
            let allowed = wish.requirements.get(names::CAPACITY_TYPE);
            prop_assert!(allowed.is_none_or(|allowed| allowed.allows(choice.capacity_type.as_str())));
        }
    }

    #[test]
    fn the_order_of_lists_changes_nothing(
        wish in any_wish(), types in any_types(), subnets in any_subnets(), turns in prop::collection::vec(any::<Index>(), 1..8),
    ) {
        let ledger = Ledger::default();
        let first = choose(&wish, &types, &subnets, &ledger);
        let (mut types, mut subnets) = (types, subnets);
        for turn in turns {
            if !types.is_empty() {
                let by = turn.index(types.len());
                types.rotate_left(by);
                types[0].offerings.reverse();
            }
            if !subnets.is_empty() {
                let by = turn.index(subnets.len());
                subnets.rotate_left(by);
            }
            prop_assert_eq!(&choose(&wish, &types, &subnets, &ledger), &first);
        }
    }

    #[test]
    fn the_ledger_never_overdraws_a_subnet_and_uses_every_address(
        wishes in prop::collection::vec(any_wish(), 1..20), types in any_types(), subnets in any_subnets(),
    ) {
        let mut ledger = Ledger::default();
        for wish in &wishes {
            if let Ok(choice) = choose(wish, &types, &subnets, &ledger) {
                ledger.promise(&choice);
            } else {
                prop_assert_eq!(buyable(wish, &types, &subnets, &ledger), []);
            }
            prop_assert_eq!(ledger.check(&subnets), Ok(()));
        }
    }

    #[test]
    fn waiting_is_worth_it_only_if_something_can_come_back(
        wish in any_wish(), types in any_types(), subnets in any_subnets(),
    ) {
        let Err(why_not) = choose(&wish, &types, &subnets, &Ledger::default()) else { return Ok(()) };
        prop_assert!(!why_not.to_string().is_empty());
        let mut lifted = types;
        for offering in lifted.iter_mut().flat_map(|it| &mut it.offerings) {
            if matches!(offering.availability, Availability::Withheld { .. }) {
                offering.availability = Availability::Available;
            }
        }
        let endless: Vec<SubnetFacts> = ["z-1", "z-2", "z-3"].map(|zone| subnet(zone, zone, 100)).into();
        let later = choose(&wish, &lifted, &endless, &Ledger::default());
        prop_assert_eq!(why_not.hope() == Hope::None, later.is_err());
    }
}
