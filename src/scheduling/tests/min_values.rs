//! Pools that ask for a number of different values, against every way to share pods out among claims.

use proptest::prelude::*;

use super::*;
use crate::api::Requirement;

const FAMILY: &str = "family";
const KEYS: [&str; 4] = [INSTANCE_TYPE, FAMILY, ZONE, CAPACITY_TYPE];

/// What a pod asks for: millicores, and perhaps a zone and families.
type Wish = (i64, Option<&'static str>, Option<Vec<&'static str>>);

fn any_type() -> impl Strategy<Value = (i64, &'static str, Vec<Offering>)> {
    let family = prop_oneof![Just("a"), Just("b"), Just("c")];
    let capacity = prop_oneof![Just(CapacityType::Spot), Just(CapacityType::OnDemand)];
    let sold = (prop_oneof![Just("z1"), Just("z2")], capacity, 1_u32..40);
    let sold = sold.prop_map(|(zone, capacity, cents)| offering(zone, capacity, f64::from(cents) / 100.0));
    (1_i64..6, family, prop::collection::vec(sold, 1..4))
}

fn any_pool() -> impl Strategy<Value = Pool> {
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

fn any_wish() -> impl Strategy<Value = Wish> {
    let zone = prop::option::weighted(0.2, prop_oneof![Just("z1"), Just("z2")]);
    let families = prop::option::weighted(0.2, prop_oneof![Just(vec!["a"]), Just(vec!["a", "b"])]);
    (
        prop_oneof![Just(300_i64), Just(900), Just(1500), Just(2500)],
        zone,
        families,
    )
}

fn asking(at: usize, (cpu, zone, families): &Wish) -> core::Pod {
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

/// The types that a claim may still be when a plan is whole: those that limits leave it besides what it is planned to be.
fn left_by_limits(pool: &Pool, plan: &Plan, claim: &NewClaim, types: &BTreeSet<String>) -> BTreeSet<String> {
    let has = |at: usize| pool.types[at].capacity.get(CPU);
    let planned = has(claim.cheapest.instance_type);
    let used: i64 = plan
        .claims
        .iter()
        .map(|claim| has(claim.cheapest.instance_type))
        .sum();
    let limit = pool.limits.as_ref().map_or(i64::MAX, |limits| limits.get(CPU));
    let holds = |at: usize| has(at) <= planned || used - planned + has(at) <= limit;
    let kept = pool.types.iter().enumerate();
    let kept = kept.filter(|(at, sort)| types.contains(&sort.name) && holds(*at));
    kept.map(|(_, sort)| sort.name.clone()).collect()
}

/// Whether the types of these names leave fewer different values to these pods than the pool asks for.
fn starves(pool: &Pool, pods: &[&Wish], types: &BTreeSet<String>) -> bool {
    let mut fewer = pool.clone();
    let kept = pool.types.iter().filter(|sort| types.contains(&sort.name));
    fewer.types = Arc::new(kept.cloned().collect());
    buy(&fewer, pods).is_none_or(|bought| bought.too_few)
}

/// A claim that stands for one of this type.
fn claim_of_nothing(kind: usize) -> NewClaim {
    NewClaim {
        pool: 0,
        requirements: Requirements::new(),
        requests: Resources::new(),
        pods: Vec::new(),
        options: Vec::new(),
        cheapest: Cheapest {
            instance_type: kind,
            zone: String::new(),
            capacity_type: CapacityType::Spot,
            price: None,
        },
        min_values: MinValues::Kept,
    }
}

fn wishes_of<'w>(solved: &Solved, claim: &NewClaim, wishes: &'w [Wish]) -> Vec<&'w Wish> {
    let number = |name: &str| name[1..].parse::<usize>().unwrap();
    let members = claim.members(&solved.snapshot);
    members.map(|pod| &wishes[number(&pod.name)]).collect()
}

/// Two types of which both must stay possible, a limit that allows two small ones or one large, and pods that cannot
/// share a small one.
#[test]
fn a_claim_takes_no_types_away_that_another_must_have_to_choose_from() {
    let two = [kind("small", 2), kind("large", 4)];
    let both = Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(2),
    };
    let base = |limit: i64| {
        let pool = cluster().types(two.to_vec()).pool(|pool| {
            pool.requirements = pool
                .requirements
                .and(&Requirements::from_api(std::slice::from_ref(&both)).unwrap());
            pool.limits = Some(Resources::new().with(CPU, limit));
        });
        let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
        pool.with(pods(2, |name| {
            labelled(pod_with(name, "1", &apart), &json!({"app": "a"}))
        }))
    };
    let tight = base(5000).solve();
    assert_eq!((tight.claims(), tight.plan.pods_left_out()), (1, 1));
    assert_eq!(tight.plan.claims[0].options.len(), 2, "it may still be either");
    assert!(
        tight
            .words()
            .iter()
            .any(|said| said.contains("minValues asks for 2")),
        "{:?}",
        tight.words()
    );
    let wide = base(6000).solve();
    assert!(wide.all_placed(), "one of them may be large: {:?}", wide.words());
    let mut loose = base(4000);
    loose.options.min_values = MinValuesPolicy::BestEffort;
    let loose = loose.solve();
    assert!(loose.all_placed(), "{:?}", loose.words());
    for claim in &loose.plan.claims {
        assert_eq!((claim.options.len(), claim.min_values), (1, MinValues::Relaxed));
        assert_eq!(claim.requirements.min_values().get(INSTANCE_TYPE), Some(&1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn min_values_hold_beside_limits_as_enumeration_finds(
        pool in any_pool(), wishes in prop::collection::vec(any_wish(), 1..6), strict in prop::bool::weighted(0.7),
        limit in 1_i64..14,
    ) {
        let mut pool = pool;
        pool.limits = Some(Resources::new().with(CPU, limit * 1000));
        // Pods that agree on labels, so that claims only grow: what limits leave is least when the plan is whole.
        let wishes: Vec<Wish> = wishes.into_iter().map(|(cpu, _, _)| (cpu, None, None)).collect();
        let mut base = cluster().with(wishes.iter().enumerate().map(|(at, wish)| asking(at, wish)));
        base.pools = vec![pool.clone()];
        base.options.min_values = if strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort };
        let solved = base.solve();
        for claim in &solved.plan.claims {
            let pods = wishes_of(&solved, claim, &wishes);
            let all = buy(&pool, &pods).unwrap().types;
            let left = left_by_limits(&pool, &solved.plan, claim, &all);
            let options: BTreeSet<String> = claim.option_names(&solved.snapshot).map(str::to_owned).collect();
            prop_assert_eq!(&options, &left);
            let too_few = starves(&pool, &pods, &left);
            prop_assert_eq!(claim.min_values == MinValues::Relaxed, too_few);
            prop_assert!(!(strict && too_few), "so few types are left that the claim would be refused");
        }
        // Who is left out has not a claim of its own that would leave everybody enough to choose from, whatever its type.
        for (at, wish) in wishes.iter().enumerate().filter(|(at, _)| solved.place(&format!("p{at}")).is_none()) {
            let Some(own) = buy(&pool, &[wish]) else { continue };
            let will_do = |(kind, _): (usize, &InstanceType)| {
                let mut with = solved.plan.clone();
                let mut new = with.claims.first().cloned().unwrap_or_else(|| claim_of_nothing(kind));
                new.cheapest.instance_type = kind;
                with.claims.push(new);
                let has = |claim: &NewClaim| pool.types[claim.cheapest.instance_type].capacity.get(CPU);
                let beyond = with.claims.iter().map(has).sum::<i64>() > limit * 1000;
                let last = with.claims.len() - 1;
                let hurt = with.claims.iter().enumerate().any(|(number, claim)| {
                    let pods = if number == last { vec![wish] } else { wishes_of(&solved, claim, &wishes) };
                    let all = buy(&pool, &pods).unwrap().types;
                    starves(&pool, &pods, &left_by_limits(&pool, &with, claim, &all))
                });
                !(beyond || strict && hurt)
            };
            let mut kinds = pool.types.iter().enumerate().filter(|(_, sort)| own.types.contains(&sort.name));
            prop_assert!(!kinds.all(will_do), "p{} could have a claim of its own", at);
        }
    }

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
