//! No plan is dearer than first fit: the largest pods first, each into the first claim that can still take it, else into a
//! claim from the first pool that can have one.

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

/// What first fit costs.
fn first_fit(pools: &[Pool], sizes: &[(i64, i64)], names: Names) -> u64 {
    let mut order: Vec<&Pool> = pools.iter().collect();
    order.sort_by(|one, two| {
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
    let can = |pool: &Pool, used: Amounts| pool.types.iter().any(|kind| holds(kind, used));
    let mut claims: Vec<(&Pool, Amounts)> = Vec::new();
    for size in sorted {
        let fitting = claims
            .iter_mut()
            .find(|(pool, used)| can(pool, plus(*used, size)));
        if let Some((_, used)) = fitting {
            *used = plus(*used, size);
        } else if let Some(pool) = order.iter().find(|pool| can(pool, size)) {
            claims.push((pool, size));
        }
    }
    let price = |(pool, used): &(&Pool, Amounts)| {
        let fitting = pool.types.iter().filter(|kind| holds(kind, *used));
        let prices = fitting.flat_map(|kind| kind.available().filter_map(|offering| offering.price));
        prices.min().unwrap().nanos()
    };
    claims.iter().map(price).sum()
}

fn check(pools: Vec<Pool>, sizes: &[(i64, i64)]) -> Result<(), TestCaseError> {
    let mut base = cluster();
    base.pools = pools;
    let base = base.with(sizes.iter().enumerate().map(|(at, size)| sized(at, *size)));
    let plan = base.solve().plan;
    for names in [Names::Ascending, Names::Descending] {
        let dearest = first_fit(&base.pools, sizes, names);
        prop_assert!(
            plan.price_nanos() <= dearest,
            "{} is more than {dearest}, {names:?}",
            plan.price_nanos()
        );
    }
    Ok(())
}

/// A pool of some shapes; larger machines cost less for what they have, by more or less.
fn any_pool(name: &'static str) -> impl Strategy<Value = Pool> {
    let shape = (0_u32..5, prop_oneof![Just(2_i64), Just(4), Just(8)], 60_u32..140);
    let weight = prop_oneof![3 => Just(0), 1 => Just(10)];
    (prop::collection::vec(shape, 1..6), weight).prop_map(move |(shapes, weight)| {
        let one = |(at, (size, ratio, percent)): (usize, &(u32, i64, u32))| {
            let cpu = 1_i64 << size;
            let dollars = f64::from(1_u32 << size) * 0.05 * f64::from(*percent) / 100.0;
            shaped(&format!("{name}-{at}"), cpu, cpu * ratio, dollars)
        };
        let mut pool = pool(name, shapes.iter().enumerate().map(one).collect());
        pool.weight = weight;
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
