//! Limits beside `minValues`: what one claim takes of the limits, another may need to have enough to choose from.
//!
//! The judge is a second, naive look: it knows which pods each claim has and which type it is planned to be, and from that
//! works out what launch may choose. A plan is then changed in every way by one step, and no such step may be legal and
//! better.

use proptest::prelude::*;

use super::min_values::{FAMILY, Wish, any_pool, any_wish, asking, wishes_of};
use super::*;
use crate::api::Requirement;

/// A claim: its pods, and the type that it is planned to be.
#[derive(Clone, Debug)]
struct Held<'w> {
    pods: Vec<&'w Wish>,
    kind: usize,
}

fn family(sort: &InstanceType) -> &str {
    let families = sort.requirements.get(FAMILY).and_then(Values::listed);
    families.and_then(BTreeSet::first).unwrap()
}

/// Where a type can be bought for these pods; nowhere if it has no room for them.
fn sold<'p>(sort: &'p InstanceType, pods: &[&Wish]) -> Vec<&'p Offering> {
    let asked: i64 = pods.iter().map(|pod| pod.0).sum();
    let number = i64::try_from(pods.len()).unwrap();
    let welcome = |pod: &&Wish| pod.2.as_ref().is_none_or(|all| all.contains(&family(sort)));
    if asked > sort.allocatable.get(CPU) || number > sort.allocatable.get(PODS) || !pods.iter().all(welcome) {
        return Vec::new();
    }
    let there = |sold: &&Offering| pods.iter().all(|pod| pod.1.is_none_or(|zone| zone == sold.zone));
    sort.offerings.iter().filter(there).collect()
}

/// In which order types are taken for these pods: by price, by the price anywhere, by name.
fn rank<'p>(sort: &'p InstanceType, pods: &[&Wish]) -> Option<(Price, Price, &'p str)> {
    let least = |pods: &[&Wish]| sold(sort, pods).iter().map(|sold| sold.price.unwrap()).min();
    let anywhere = sort.offerings.iter().map(|sold| sold.price.unwrap()).min();
    Some((least(pods)?, anywhere?, &sort.name))
}

/// What is left of each limit, and what a type counts against it.
fn left(pool: &Pool, all: &[Held<'_>]) -> Vec<(String, i64)> {
    let limits = pool.limits.iter().flatten();
    let used = |name: &str| -> i64 { all.iter().map(|held| counted(pool, held.kind, name)).sum() };
    limits
        .map(|(name, limit)| (name.clone(), limit - used(name)))
        .collect()
}

fn counted(pool: &Pool, kind: usize, name: &str) -> i64 {
    if name == "nodes" {
        1
    } else {
        pool.types[kind].capacity.get(name)
    }
}

/// The types that can be bought for a claim and with which limits hold, the cheapest first.
fn possible(pool: &Pool, all: &[Held<'_>], at: usize) -> Vec<usize> {
    let held = &all[at];
    let holds = |kind: &usize| {
        left(pool, all).iter().all(|(name, left)| {
            let more = counted(pool, *kind, name) - counted(pool, held.kind, name);
            more <= 0 || more <= *left
        })
    };
    let place = |kind: &usize| rank(&pool.types[*kind], &held.pods);
    let mut kinds: Vec<usize> = (0..pool.types.len())
        .filter(|kind| place(kind).is_some() && holds(kind))
        .collect();
    kinds.sort_by_key(place);
    kinds
}

/// What launch may choose: what is possible, and does not come before the planned type.
fn options(pool: &Pool, all: &[Held<'_>], at: usize) -> Vec<usize> {
    let mut kinds = possible(pool, all, at);
    let planned = kinds.iter().position(|kind| *kind == all[at].kind);
    planned.map_or_else(Vec::new, |planned| kinds.split_off(planned))
}

/// Whether these types leave these pods fewer different values than the pool asks for.
fn too_few(pool: &Pool, pods: &[&Wish], kinds: &[usize]) -> bool {
    let values = |key: &str| -> BTreeSet<String> {
        let sorts = kinds.iter().map(|kind| &pool.types[*kind]);
        let offers = sorts.flat_map(|sort| sold(sort, pods).into_iter().map(move |sold| (sort, sold)));
        let value = |(sort, sold): (&InstanceType, &Offering)| match key {
            INSTANCE_TYPE => sort.name.clone(),
            ZONE => sold.zone.clone(),
            CAPACITY_TYPE => sold.capacity_type.to_string(),
            _ => family(sort).to_owned(),
        };
        offers.map(value).collect()
    };
    let mut asked = pool.requirements.min_values().iter();
    asked.any(|(key, least)| values(key).len() < *least as usize)
}

/// The claim that has too few to choose from, if any has.
fn starved(pool: &Pool, all: &[Held<'_>]) -> Option<usize> {
    (0..all.len()).find(|at| too_few(pool, &all[*at].pods, &options(pool, all, *at)))
}

/// Whether the claims can be bought: room, limits, and enough to choose from where that is insisted on.
fn legal(pool: &Pool, all: &[Held<'_>], policy: MinValuesPolicy) -> bool {
    all.iter()
        .all(|held| !sold(&pool.types[held.kind], &held.pods).is_empty())
        && left(pool, all).iter().all(|(_, left)| *left >= 0)
        && (policy == MinValuesPolicy::BestEffort || starved(pool, all).is_none())
}

/// The same claims, one of them another type, or with one more pod, or both.
fn changed<'w>(all: &[Held<'w>], at: usize, pod: Option<&'w Wish>, kind: usize) -> Vec<Held<'w>> {
    let mut with = all.to_vec();
    if at == with.len() {
        with.push(Held {
            pods: Vec::new(),
            kind,
        });
    }
    with[at].kind = kind;
    with[at].pods.extend(pod);
    with
}

/// What stands in the way of a claim for a pod, if something does.
#[derive(Debug, PartialEq, Eq)]
enum InTheWay {
    Room,
    Limit,
    Choice(Chooser),
}

fn in_the_way(pool: &Pool, all: &[Held<'_>], wish: &Wish) -> InTheWay {
    let fitting: Vec<usize> = (0..pool.types.len())
        .filter(|kind| !sold(&pool.types[*kind], &[wish]).is_empty())
        .collect();
    let within = |kind: &&usize| {
        left(pool, all)
            .iter()
            .all(|(name, left)| counted(pool, **kind, name) <= (*left).max(0))
    };
    let within: Vec<usize> = fitting.iter().filter(within).copied().collect();
    if fitting.is_empty() {
        InTheWay::Room
    } else if within.is_empty() {
        InTheWay::Limit
    } else if too_few(pool, &[wish], &within) {
        InTheWay::Choice(Chooser::Own)
    } else {
        InTheWay::Choice(Chooser::Another)
    }
}

fn told(solved: &Solved, pod: &str) -> InTheWay {
    let number = solved
        .snapshot
        .pending
        .members
        .iter()
        .position(|member| member.name == pod)
        .unwrap();
    let left = solved
        .plan
        .left_out
        .iter()
        .find(|left| left.pods.contains(&number))
        .unwrap();
    match &left.refusals[0].why {
        Why::Resource { .. } | Why::NoType { .. } | Why::Requirement(_) => InTheWay::Room,
        Why::Limit { .. } => InTheWay::Limit,
        Why::MinValues { who, .. } => InTheWay::Choice(*who),
        why => panic!("{pod}: {why}"),
    }
}

/// A pool whose larger types need not cost more, nor those with more processors have more memory; with limits.
fn any_limited() -> impl Strategy<Value = Pool> {
    let memory = prop::collection::vec(1_i64..24, 7);
    let limits = (
        1_i64..14,
        prop::option::weighted(0.3, 4_i64..60),
        prop::option::weighted(0.2, 1_i64..4),
    );
    (any_pool(), memory, limits).prop_map(|(mut pool, memory, (cpu, total, nodes))| {
        let mut types = pool.types.to_vec();
        for (sort, memory) in types.iter_mut().zip(memory) {
            sort.capacity.set(MEMORY, memory * GI);
            sort.allocatable.set(MEMORY, memory * GI);
        }
        let mut limits = Resources::new().with(CPU, cpu * 1000);
        for (name, amount) in [(MEMORY, total.map(|total| total * GI)), ("nodes", nodes)] {
            if let Some(amount) = amount {
                limits.set(name, amount);
            }
        }
        pool.limits = Some(limits);
        pool.types = Arc::new(types);
        pool
    })
}

fn solve_for(pool: &Pool, wishes: &[Wish], policy: MinValuesPolicy) -> Solved {
    let mut base = cluster().with(wishes.iter().enumerate().map(|(at, wish)| asking(at, wish)));
    base.pools = vec![pool.clone()];
    base.options.min_values = policy;
    base.solve()
}

/// Claims are what they are said to be, and none could be bought for less.
fn check_claims(
    pool: &Pool,
    solved: &Solved,
    all: &[Held<'_>],
    policy: MinValuesPolicy,
) -> Result<(), TestCaseError> {
    prop_assert!(legal(pool, all, policy), "a claim would be refused");
    for (at, (claim, held)) in solved.plan.claims.iter().zip(all).enumerate() {
        let named: Vec<usize> = claim.options.iter().map(|option| *option as usize).collect();
        let choice = options(pool, all, at);
        prop_assert_eq!(&named, &choice);
        let relaxed = claim.min_values == MinValues::Relaxed;
        prop_assert_eq!(relaxed, too_few(pool, &held.pods, &choice));
        let cheaper = possible(pool, all, at)
            .into_iter()
            .take_while(|kind| *kind != held.kind);
        for kind in cheaper {
            let with = changed(all, at, None, kind);
            prop_assert!(
                !legal(pool, &with, policy),
                "claim {} could be {}",
                at,
                pool.types[kind].name
            );
        }
    }
    Ok(())
}

/// Nobody who is left out could have a claim of its own or join one, whatever type that is then, and why is true.
fn check_left_out(
    (pool, wishes): (&Pool, &[Wish]),
    solved: &Solved,
    all: &[Held<'_>],
    policy: MinValuesPolicy,
) -> Result<(), TestCaseError> {
    for (number, wish) in wishes.iter().enumerate() {
        let name = format!("p{number}");
        if solved.place(&name).is_some() {
            continue;
        }
        for (at, kind) in (0..=all.len()).flat_map(|at| (0..pool.types.len()).map(move |kind| (at, kind))) {
            let with = changed(all, at, Some(wish), kind);
            prop_assert!(
                !legal(pool, &with, policy),
                "{} could be on {} as {}",
                name,
                at,
                pool.types[kind].name
            );
        }
        prop_assert_eq!(
            told(solved, &name),
            in_the_way(pool, all, wish),
            "{}: {:?}",
            name,
            solved.words()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_claim_is_starved_and_nobody_left_out_who_would_starve_none(
        pool in any_limited(), wishes in prop::collection::vec(any_wish(), 1..6), strict in prop::bool::weighted(0.8),
    ) {
        let policy = if strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort };
        let solved = solve_for(&pool, &wishes, policy);
        let held = |claim: &NewClaim| Held {
            pods: wishes_of(&solved, claim, &wishes),
            kind: claim.cheapest.instance_type,
        };
        let all: Vec<Held<'_>> = solved.plan.claims.iter().map(held).collect();
        check_claims(&pool, &solved, &all, policy)?;
        check_left_out((&pool, &wishes), &solved, &all, policy)?;
    }
}

/// Pods that each need a node, from a pool of these types which asks for two of them to choose from.
fn two_to_choose_from(types: &[InstanceType], limit: i64, asked: &[&str]) -> Cluster {
    let two = Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(2),
    };
    let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
    let all = asked.iter().enumerate().map(|(at, cpu)| {
        let pod = pod_with(&format!("p{at}"), cpu, &apart);
        labelled(pod, &json!({"app": "a"}))
    });
    let pool = cluster().types(types.to_vec()).pool(|pool| {
        pool.requirements = pool
            .requirements
            .and(&Requirements::from_api(std::slice::from_ref(&two)).unwrap());
        pool.limits = Some(Resources::new().with(CPU, limit * 1000));
    });
    pool.with(all)
}

fn priced(name: &str, cpu: i64, dollars: f64) -> InstanceType {
    let mut sort = kind(name, cpu);
    for offering in &mut sort.offerings {
        offering.price = Price::from_usd(dollars);
    }
    sort
}

/// The first pod needs the small or the large type. As another small one the second claim would leave it one of them.
fn small_large_and_dear(more: &[InstanceType]) -> Solved {
    let mut types = vec![
        priced("small", 2, 0.1),
        priced("large", 4, 0.2),
        priced("dear", 1, 0.4),
    ];
    types.extend_from_slice(more);
    two_to_choose_from(&types, 5, &["1500m", "500m"]).solve()
}

#[test]
fn a_dearer_type_is_taken_where_the_cheapest_would_leave_another_claim_too_few_to_choose_from() {
    let solved = small_large_and_dear(&[priced("dearer", 1, 0.5)]);
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.types(), ["dear", "small"]);
    let mut names: Vec<Vec<&str>> = solved
        .plan
        .claims
        .iter()
        .map(|claim| claim.option_names(&solved.snapshot).collect())
        .collect();
    names.sort();
    assert_eq!(names, [["dear", "dearer"], ["small", "large"]]);
}

/// With the third pod beside the second, one of the two dear types is too small, and the cheaper ones it must not be.
#[test]
fn a_claim_that_was_made_dearer_for_another_does_not_count_what_is_cheaper_when_it_grows() {
    let mut tight = priced("dearer", 1, 0.5);
    tight.allocatable.set(CPU, 600);
    let types = [
        priced("small", 2, 0.1),
        priced("large", 4, 0.2),
        priced("dear", 1, 0.4),
        tight,
    ];
    let beside = neighbor("podAffinity", HOST, &json!({"who": "second"}));
    let mut base = two_to_choose_from(&types, 5, &["1500m", "500m"]);
    let second = json!({"app": "a", "who": "second"});
    base.pending[1] = labelled(base.pending[1].clone(), &second);
    let solved = base.with([pod_with("p2", "300m", &beside)]).solve();
    assert_eq!(solved.types(), ["dear", "small"]);
    assert!(solved.place("p1").is_some() && solved.place("p2").is_none());
}

#[test]
fn whoever_would_leave_another_claim_too_few_to_choose_from_is_told_so() {
    let solved = small_large_and_dear(&[]);
    assert_eq!(told(&solved, "p1"), InTheWay::Choice(Chooser::Another));
    assert_eq!(
        solved.words(),
        [
            "NodePool default: with another node its limits would leave a claim that is not bought yet 1 values of \
          node.kubernetes.io/instance-type, and minValues asks for 2"
        ]
    );
}

/// Two types of which both must stay possible, a limit that allows two small ones or one large, and pods that cannot
/// share a small one.
#[test]
fn a_claim_takes_no_types_away_that_another_must_have_to_choose_from() {
    let base = |limit: i64| two_to_choose_from(&[kind("small", 2), kind("large", 4)], limit, &["1", "1"]);
    let tight = base(5).solve();
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
    let wide = base(6).solve();
    assert!(wide.all_placed(), "one of them may be large: {:?}", wide.words());
    let mut loose = base(4);
    loose.options.min_values = MinValuesPolicy::BestEffort;
    let loose = loose.solve();
    assert!(loose.all_placed(), "{:?}", loose.words());
    for claim in &loose.plan.claims {
        assert_eq!((claim.options.len(), claim.min_values), (1, MinValues::Relaxed));
        assert_eq!(claim.requirements.min_values().get(INSTANCE_TYPE), Some(&1));
    }
}

/// The second pod could have a claim of its own only as the large type, which would leave the first claim nothing on demand;
/// the third, which is not as free as it is to go anywhere, opens one that has room for both.
#[test]
fn whoever_could_have_no_claim_of_its_own_joins_one_that_another_opened_later() {
    let sold = |zone: &str, capacity_type, dollars| Offering {
        zone: zone.to_owned(),
        capacity_type,
        price: Price::from_usd(dollars),
        availability: Availability::Available,
    };
    let mut large = kind("large", 2);
    large.offerings = vec![
        sold("z2", CapacityType::OnDemand, 0.21),
        sold("z1", CapacityType::Spot, 0.01),
    ];
    let mut small = kind("small", 1);
    small.offerings = vec![sold("z2", CapacityType::Spot, 0.01)];
    let two = Requirement {
        key: CAPACITY_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(2),
    };
    let mut pool = cluster().pools.remove(0);
    pool.types = Arc::new(vec![large, small]);
    pool.limits = Some(Resources::new().with(CPU, 3000));
    pool.requirements = pool
        .requirements
        .and(&Requirements::from_api(std::slice::from_ref(&two)).unwrap());
    let wishes: [Wish; 3] = [
        (900, Some("z2"), None),
        (300, None, None),
        (300, Some("z2"), None),
    ];
    let solved = solve_for(&pool, &wishes, MinValuesPolicy::Strict);
    assert!(solved.all_placed(), "{:?}", solved.words());
}
