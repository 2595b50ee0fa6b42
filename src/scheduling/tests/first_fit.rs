//! No plan leaves out more or is dearer than first fit: the largest pods first, each into the first claim that can still take
//! it, else into a claim from the first pool that can have one; always as the cheapest type that limits allow and that leaves
//! every claim enough to choose from.

use proptest::prelude::*;

use super::*;

const MI: i64 = 1 << 20;

/// What first fit looks at: processors, memory and number of pods.
type Amounts = [i64; 3];

/// A type with so many processors and GiB for so many dollars an hour.
fn shaped(name: &str, cpu: i64, gib: i64, dollars: f64) -> InstanceType {
    let has = Resources::new()
        .with(CPU, cpu * 1000)
        .with(MEMORY, gib * GI)
        .with(PODS, 30);
    InstanceType {
        capacity: has.clone(),
        allocatable: has,
        offerings: vec![offering("z1", CapacityType::OnDemand, dollars)],
        ..kind(name, cpu)
    }
}

/// A pod of so many hundred millicores and hundred MiB.
fn sized(at: usize, (cpu, memory): (i64, i64)) -> core::Pod {
    let requests = json!({"cpu": format!("{cpu}00m"), "memory": format!("{memory}00Mi")});
    let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
    pod_with(&format!("p{at:02}"), "0", &json!({"containers": containers}))
}

/// In which order pools of the same weight are asked.
#[derive(Clone, Copy, Debug)]
enum Names {
    Ascending,
    Descending,
}

fn holds(kind: &InstanceType, used: Amounts) -> bool {
    let has = [CPU, MEMORY, PODS].map(|name| kind.allocatable.get(name));
    used.iter().zip(has).all(|(used, has)| *used <= has)
}

fn plus(one: Amounts, two: Amounts) -> Amounts {
    [0, 1, 2].map(|at| one[at] + two[at])
}

/// A claim of first fit: its pool, what its pods ask for, and the type that it is planned to be.
#[derive(Clone, Debug)]
struct Begun {
    pool: usize,
    used: Amounts,
    kind: usize,
}

fn price(kind: &InstanceType) -> u64 {
    let prices = kind.available().filter_map(|offering| offering.price);
    prices.min().unwrap().nanos()
}

/// The types that have room, the cheapest first.
fn fitting(pool: &Pool, used: Amounts) -> Vec<usize> {
    let all = 0..pool.types.len();
    let mut fitting: Vec<usize> = all.filter(|kind| holds(&pool.types[*kind], used)).collect();
    fitting.sort_by_key(|kind| (price(&pool.types[*kind]), &pool.types[*kind].name));
    fitting
}

/// How much is left of each limit of a pool.
fn left(pools: &[Pool], at: usize, claims: &[Begun]) -> Vec<(String, i64)> {
    let own = || claims.iter().filter(|claim| claim.pool == at);
    let limits = pools[at].limits.iter().flatten();
    let used = |name: &str| -> i64 { own().map(|claim| counted(&pools[at], claim.kind, name)).sum() };
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

/// Whether limits hold, and leave every claim of a pool enough types to choose from that do not come before its own.
fn will_do(pools: &[Pool], at: usize, claims: &[Begun]) -> bool {
    let (pool, left) = (&pools[at], left(pools, at, claims));
    let least = pool.requirements.min_values().get(INSTANCE_TYPE);
    let least = least.map_or(0, |least| *least as usize);
    let enough = |claim: &Begun| {
        let allowed = |kind: &usize| {
            left.iter().all(|(name, left)| {
                let more = counted(pool, *kind, name) - counted(pool, claim.kind, name);
                more <= *left
            })
        };
        let all = fitting(pool, claim.used).into_iter();
        all.skip_while(|kind| *kind != claim.kind).filter(allowed).count() >= least
    };
    let mut own = claims.iter().filter(|claim| claim.pool == at);
    left.iter().all(|(_, left)| *left >= 0) && (least < 2 || own.all(enough))
}

/// The claims with one of them the cheapest type that will do.
fn settled(pools: &[Pool], mut claims: Vec<Begun>, at: usize) -> Option<Vec<Begun>> {
    let pool = claims[at].pool;
    for kind in fitting(&pools[pool], claims[at].used) {
        claims[at].kind = kind;
        if will_do(pools, pool, &claims) {
            return Some(claims);
        }
    }
    None
}

/// How many pods first fit leaves out, and what it costs.
fn first_fit(pools: &[Pool], sizes: &[(i64, i64)], names: Names) -> (usize, u64) {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    order.sort_by(|one, two| {
        let (one, two) = (&pools[*one], &pools[*two]);
        let by_name = match names {
            Names::Ascending => one.name.cmp(&two.name),
            Names::Descending => two.name.cmp(&one.name),
        };
        two.weight.cmp(&one.weight).then(by_name)
    });
    let mut sorted: Vec<Amounts> = sizes
        .iter()
        .map(|(cpu, memory)| [cpu * 100, memory * 100 * MI, 1])
        .collect();
    sorted.sort_unstable_by(|one, two| two.cmp(one));
    let (mut claims, mut left_out): (Vec<Begun>, usize) = (Vec::new(), 0);
    for size in sorted {
        let join = |at: usize| {
            let mut with = claims.clone();
            with[at].used = plus(with[at].used, size);
            settled(pools, with, at)
        };
        let open = |pool: &usize| {
            let (pool, kind) = (*pool, 0);
            let new = Begun {
                pool,
                used: size,
                kind,
            };
            settled(pools, [&claims[..], &[new]].concat(), claims.len())
        };
        let taken = (0..claims.len())
            .find_map(join)
            .or_else(|| order.iter().find_map(open));
        match taken {
            Some(taken) => claims = taken,
            None => left_out += 1,
        }
    }
    let price = |claim: &Begun| price(&pools[claim.pool].types[claim.kind]);
    (left_out, claims.iter().map(price).sum())
}

fn check(pools: Vec<Pool>, sizes: &[(i64, i64)]) -> Result<(), TestCaseError> {
    let mut base = cluster();
    base.pools = pools;
    let base = base.with(sizes.iter().enumerate().map(|(at, size)| sized(at, *size)));
    let plan = base.solve().plan;
    let found = (plan.pods_left_out(), plan.price_nanos());
    for names in [Names::Ascending, Names::Descending] {
        let worst = first_fit(&base.pools, sizes, names);
        prop_assert!(found <= worst, "{found:?} is more than {worst:?}, {names:?}");
    }
    Ok(())
}

/// Sells a pool's types as spot as well, for so much less or more, where that can be had.
fn sell_spot(pool: &mut Pool, spot: &[Option<u32>]) {
    let mut types = pool.types.to_vec();
    for (kind, percent) in types.iter_mut().zip(spot) {
        let dollars = price(kind);
        let spot = percent.map(|percent| offering_at("z2", dollars * u64::from(percent) / 100));
        kind.offerings.extend(spot);
    }
    pool.types = Arc::new(types);
}

fn offering_at(zone: &str, nanos: u64) -> Offering {
    Offering {
        price: Price::from_nanos(nanos),
        ..offering(zone, CapacityType::Spot, 1.0)
    }
}

/// What may hold a pool back: limits of processors and of nodes, and a number of types to choose from.
type Bounds = (Option<i64>, Option<i64>, Option<i64>);

fn any_bounds() -> impl Strategy<Value = Bounds> {
    (
        prop::option::weighted(0.5, 1_i64..60),
        prop::option::weighted(0.2, 1_i64..5),
        prop::option::weighted(0.5, 1_i64..4),
    )
}

fn bind(pool: &mut Pool, (cpu, nodes, least): Bounds) {
    let mut limits = Resources::new();
    for (name, amount) in [(CPU, cpu.map(|cpu| cpu * 1000)), ("nodes", nodes)] {
        if let Some(amount) = amount {
            limits.set(name, amount);
        }
    }
    pool.limits = (!limits.is_empty()).then_some(limits);
    let asked = least.map(|least| crate::api::Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(least),
    });
    let asked = Requirements::from_api(asked.as_slice()).unwrap();
    pool.requirements = pool.requirements.and(&asked);
}

/// A pool of some shapes; larger machines cost less for what they have, by more or less, and so do spot ones.
fn any_pool(name: &'static str) -> impl Strategy<Value = Pool> {
    let shape = (0_u32..5, prop_oneof![Just(2_i64), Just(4), Just(8)], 60_u32..140);
    let weight = prop_oneof![3 => Just(0), 1 => Just(10)];
    let spot = prop::collection::vec(prop::option::of(30_u32..120), 6);
    (prop::collection::vec(shape, 1..6), weight, spot).prop_map(move |(shapes, weight, spot)| {
        let one = |(at, (size, ratio, percent)): (usize, &(u32, i64, u32))| {
            let cpu = 1_i64 << size;
            let dollars = f64::from(1_u32 << size) * 0.05 * f64::from(*percent) / 100.0;
            shaped(&format!("{name}-{at}"), cpu, cpu * ratio, dollars)
        };
        let mut pool = pool(name, shapes.iter().enumerate().map(one).collect());
        pool.weight = weight;
        sell_spot(&mut pool, &spot);
        pool
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_plan_is_dearer_than_first_fit(
        pools in (any_pool("a"), any_pool("b"), any_pool("c"), 1_usize..4),
        sizes in prop::collection::vec((1_i64..80, 1_i64..300), 1..25),
    ) {
        let (a, b, c, many) = pools;
        check([a, b, c].into_iter().take(many).collect(), &sizes)?;
    }

    #[test]
    fn beside_limits_and_min_values_no_plan_is_worse_than_first_fit(
        pools in (any_pool("a"), any_pool("b"), 1_usize..3), bounds in (any_bounds(), any_bounds()),
        sizes in prop::collection::vec((1_i64..80, 1_i64..300), 1..12),
    ) {
        let (mut a, mut b, many) = pools;
        bind(&mut a, bounds.0);
        bind(&mut b, bounds.1);
        check([a, b].into_iter().take(many).collect(), &sizes)?;
    }

    #[test]
    fn with_one_resource_no_plan_is_dearer_than_first_fit(sizes in prop::collection::vec(1_i64..80, 1..25)) {
        let sizes: Vec<(i64, i64)> = sizes.into_iter().map(|cpu| (cpu, 1)).collect();
        check(cluster().pools, &sizes)?;
    }
}

/// A claim from the pool that is cheapest for its first pod can only grow as that pool's types do.
#[test]
fn where_a_dearer_pool_grows_better_no_plan_is_dearer_than_first_fit() {
    let sizes = [
        (1, 162),
        (2, 93),
        (33, 190),
        (1, 131),
        (29, 259),
        (33, 215),
        (17, 225),
        (1, 162),
        (17, 84),
        (1, 1),
    ];
    let small = pool(
        "small",
        vec![shaped("s4", 4, 32, 0.20), shaped("s8", 8, 64, 0.50)],
    );
    let large = pool(
        "large",
        vec![shaped("l16", 16, 128, 0.45), shaped("l32", 32, 256, 0.80)],
    );
    check(vec![large, small], &sizes).unwrap();
}
