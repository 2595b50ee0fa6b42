//! Pools that ask for a number of different values, against every way to share pods out among claims.

use proptest::prelude::*;

use super::*;
use crate::api::Requirement;

pub(super) const FAMILY: &str = "family";
const KEYS: [&str; 4] = [INSTANCE_TYPE, FAMILY, ZONE, CAPACITY_TYPE];

/// What a pod asks for: millicores, and perhaps a zone and families.
pub(super) type Wish = (i64, Option<&'static str>, Option<Vec<&'static str>>);

fn any_type() -> impl Strategy<Value = (i64, &'static str, Vec<Offering>)> {
    let family = prop_oneof![Just("a"), Just("b"), Just("c")];
    let capacity = prop_oneof![Just(CapacityType::Spot), Just(CapacityType::OnDemand)];
    let sold = (prop_oneof![Just("z1"), Just("z2")], capacity, 1_u32..40);
    let sold = sold.prop_map(|(zone, capacity, cents)| offering(zone, capacity, f64::from(cents) / 100.0));
    (1_i64..6, family, prop::collection::vec(sold, 1..4))
}

pub(super) fn any_pool() -> impl Strategy<Value = Pool> {
    let types = prop::collection::vec(any_type(), 1..7);
    let least = prop::collection::vec(prop::option::weighted(0.5, 1_i64..4), KEYS.len());
    (types, least).prop_map(|(types, least)| {
        let sorts = types
            .into_iter()
            .enumerate()
            .map(|(at, (cpu, family, offerings))| {
                let mut sort = kind(&format!("t{at}"), cpu);
                sort.requirements.narrow(FAMILY, &Values::one_of([family]));
                sort.offerings = offerings;
                sort
            });
        let mut pool = pool("default", sorts.collect());
        let asks = KEYS.iter().zip(least).filter_map(|(key, least)| {
            least.map(|least| Requirement {
                key: (*key).to_owned(),
                operator: "Exists".to_owned(),
                values: None,
                min_values: Some(least),
            })
        });
        let asks: Vec<Requirement> = asks.collect();
        pool.requirements = pool.requirements.and(&Requirements::from_api(&asks).unwrap());
        pool
    })
}

pub(super) fn any_wish() -> impl Strategy<Value = Wish> {
    let zone = prop::option::weighted(0.2, prop_oneof![Just("z1"), Just("z2")]);
    let families = prop::option::weighted(0.2, prop_oneof![Just(vec!["a"]), Just(vec!["a", "b"])]);
    (
        prop_oneof![Just(300_i64), Just(900), Just(1500), Just(2500)],
        zone,
        families,
    )
}

pub(super) fn asking(at: usize, (cpu, zone, families): &Wish) -> core::Pod {
    let mut fields = families
        .as_ref()
        .map_or(json!({}), |families| node_in(FAMILY, families));
    if let Some(zone) = zone {
        fields["nodeSelector"] = json!({ZONE: zone});
    }
    pod_with(&format!("p{at}"), &format!("{cpu}m"), &fields)
}

/// A claim for some pods, as one finds it by looking at everything.
#[derive(Debug)]
struct Bought {
    /// The types that can be had and have room, by name.
    types: BTreeSet<String>,
    price: u64,
    /// Whether fewer different values are left than the pool asks for.
    too_few: bool,
}

fn buy(pool: &Pool, pods: &[&Wish]) -> Option<Bought> {
    let mut bought = Bought {
        types: BTreeSet::new(),
        price: u64::MAX,
        too_few: false,
    };
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let number = i64::try_from(pods.len()).unwrap();
    for sort in pool.types.iter() {
        let family = sort
            .requirements
            .get(FAMILY)
            .and_then(Values::listed)
            .and_then(BTreeSet::first)
            .unwrap();
        let welcome = |pod: &&Wish| pod.2.as_ref().is_none_or(|all| all.contains(&family.as_str()));
        let asked: i64 = pods.iter().map(|pod| pod.0).sum();
        if asked > sort.allocatable.get(CPU)
            || number > sort.allocatable.get(PODS)
            || !pods.iter().all(welcome)
        {
            continue;
        }
        for sold in &sort.offerings {
            if !pods.iter().all(|pod| pod.1.is_none_or(|zone| zone == sold.zone)) {
                continue;
            }
            bought.types.insert(sort.name.clone());
            bought.price = bought.price.min(sold.price.unwrap().nanos());
            values.entry(INSTANCE_TYPE).or_default().insert(sort.name.clone());
            values.entry(FAMILY).or_default().insert(family.clone());
            values.entry(ZONE).or_default().insert(sold.zone.clone());
            values
                .entry(CAPACITY_TYPE)
                .or_default()
                .insert(sold.capacity_type.as_str().to_owned());
        }
    }
    let least = pool.requirements.min_values().iter();
    let found = |key: &str| values.get(key).map_or(0, BTreeSet::len);
    bought.too_few = least.clone().any(|(key, least)| found(key) < *least as usize);
    (!bought.types.is_empty()).then_some(bought)
}

/// What the pods cost if they are shared out among claims as is cheapest: the next one joins any group or begins one.
fn cheapest<'w>(
    rest: &'w [Wish],
    groups: &mut Vec<Vec<&'w Wish>>,
    price: &dyn Fn(&[&Wish]) -> Option<u64>,
) -> Option<u64> {
    let Some((next, rest)) = rest.split_first() else {
        return groups.iter().map(|group| price(group)).sum();
    };
    let mut best: Option<u64> = None;
    for at in 0..=groups.len() {
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(next);
        let found = cheapest(rest, groups, price);
        best = best.into_iter().chain(found).min();
        groups[at].pop();
        if groups[at].is_empty() {
            groups.pop();
        }
    }
    best
}

pub(super) fn wishes_of<'w>(solved: &Solved, claim: &NewClaim, wishes: &'w [Wish]) -> Vec<&'w Wish> {
    let number = |name: &str| name[1..].parse::<usize>().unwrap();
    let members = claim.members(&solved.snapshot);
    members.map(|pod| &wishes[number(&pod.name)]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn min_values_hold_for_every_claim_as_enumeration_finds(
        pool in any_pool(), wishes in prop::collection::vec(any_wish(), 1..5), strict in prop::bool::weighted(0.7),
    ) {
        let mut base = cluster().with(wishes.iter().enumerate().map(|(at, wish)| asking(at, wish)));
        base.pools = vec![pool.clone()];
        base.options.min_values = if strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort };
        let price = |pods: &[&Wish]| buy(&pool, pods).filter(|bought| !(strict && bought.too_few)).map(|bought| bought.price);
        let solved = base.solve();
        let alone: Vec<Option<u64>> = wishes.iter().map(|wish| price(&[wish])).collect();
        for (at, alone) in alone.iter().enumerate() {
            prop_assert_eq!(solved.place(&format!("p{at}")).is_some(), alone.is_some(), "p{}", at);
        }
        let possible: Vec<Wish> = wishes.iter().zip(&alone).filter(|(_, alone)| alone.is_some()).map(|(wish, _)| wish.clone()).collect();
        let found = solved.plan.price_nanos();
        prop_assert!(found <= alone.iter().flatten().sum(), "no dearer than a claim for each");
        prop_assert!(Some(found) >= cheapest(&possible, &mut Vec::new(), &price), "no cheaper than can be had");
        for claim in &solved.plan.claims {
            let pods = wishes_of(&solved, claim, &wishes);
            let bought = buy(&pool, &pods).unwrap();
            let options: BTreeSet<String> = claim.option_names(&solved.snapshot).map(str::to_owned).collect();
            prop_assert_eq!(&options, &bought.types);
            prop_assert_eq!(claim.cheapest.price.unwrap().nanos(), bought.price);
            prop_assert_eq!(claim.min_values == MinValues::Relaxed, bought.too_few);
        }
    }
}
