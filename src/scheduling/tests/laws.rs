//! Laws that hold whatever the pods and nodes are.

use proptest::prelude::*;

use super::volumes::storage;
use super::*;

/// Fields that a pod may have, most of them plain.
fn fields() -> impl Strategy<Value = Value> {
    prop_oneof![
        5 => field(),
        1 => (field(), field()).prop_map(|(one, other)| both(&one, &other)),
    ]
}

/// Fields that ask for one thing.
fn field() -> impl Strategy<Value = Value> {
    let app = || prop_oneof![Just(json!({"app": "a"})), Just(json!({"app": "b"}))];
    let key = || prop_oneof![Just(ZONES), Just(HOST), Just(CAPACITY), Just("rack")];
    prop_oneof![
        4 => Just(json!({})),
        1 => prop_oneof![Just("z1"), Just("z2"), Just("z3"), Just("z9")].prop_map(|zone| json!({"nodeSelector": {ZONES: zone}})),
        1 => Just(node_in(ZONES, &["z2", "z3"])),
        1 => Just(json!({"tolerations": [{"operator": "Exists"}]})),
        2 => (key(), 1..3, app(), prop::option::of(1..4)).prop_map(|(key, skew, app, least)| {
            let more = if key == HOST { json!({}) } else { json!({"minDomains": least}) };
            spread(key, skew, &app, &more)
        }),
        1 => (key(), app()).prop_map(|(key, app)| neighbor("podAffinity", key, &app)),
        2 => (key(), app()).prop_map(|(key, app)| neighbor("podAntiAffinity", key, &app)),
        1 => (key(), app()).prop_map(|(key, app)| preferred_neighbor("podAntiAffinity", key, &app)),
        1 => (key(), app()).prop_map(|(key, app)| preferred_neighbor("podAffinity", key, &app)),
        1 => (key(), app()).prop_map(|(key, app)| spread(key, 1, &app, &json!({"whenUnsatisfiable": "ScheduleAnyway"}))),
        2 => (key(), 1..3, app(), finesses()).prop_map(|(key, skew, app, finesse)| spread(key, skew, &app, &finesse)),
        1 => (key(), app(), others()).prop_map(|(key, app, others)| among("podAffinity", key, &app, &others)),
        1 => (key(), app(), others()).prop_map(|(key, app, others)| among("podAntiAffinity", key, &app, &others)),
        1 => (key(), app(), key(), own()).prop_map(|(one, app, other, own)| {
            both(&neighbor("podAffinity", one, &app), &neighbor("podAffinity", other, &own))
        }),
        1 => (80..82, address()).prop_map(|(port, address)| json!({"containers": [{"name": "c",
            "ports": [{"containerPort": 1, "hostPort": port, "hostIP": address}], "resources": {"requests": {"cpu": "500m"}}}]})),
        1 => operators(),
        1 => Just(json!({"priority": 10})),
        1 => (0..4).prop_map(|at| format!("v{at}")).prop_map(|name|
            json!({"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}]})),
    ]
}

/// What tells pods of one application apart, and applications.
fn own() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"revision": "1"})),
        Just(json!({"revision": "2"})),
        Just(json!({"app": "b"}))
    ]
}

/// An address of a node, or all of them.
fn address() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop_oneof![Just("10.0.0.1"), Just("10.0.0.2")])
}

/// Fields of a pod that asks something else of a label than to have one of some values.
fn operators() -> impl Strategy<Value = Value> {
    let asked = prop_oneof![
        Just((ZONES, "NotIn", "z1")),
        Just(("rack", "NotIn", "r1")),
        Just((GENERATION, "NotIn", "2")),
        Just((GENERATION, "Gt", "1")),
        Just((GENERATION, "Lt", "3")),
    ];
    asked.prop_map(|(key, operator, value)| {
        required(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}]))
    })
}

/// Fields of a pod that must be on nodes of a later generation.
fn newer_than(generation: &str) -> Value {
    required(&json!([{"matchExpressions": [{"key": GENERATION, "operator": "Gt", "values": [generation]}]}]))
}

/// A label whose values are numbers.
const GENERATION: &str = "generation";

/// Fields that a spread may have.
fn finesses() -> impl Strategy<Value = Value> {
    let policy = || prop_oneof![Just("Honor"), Just("Ignore")];
    prop_oneof![
        Just(json!({"matchLabelKeys": ["revision"]})),
        (policy(), policy())
            .prop_map(|(nodes, taints)| json!({"nodeAffinityPolicy": nodes, "nodeTaintsPolicy": taints})),
    ]
}

/// Whose pods a term of affinity is about.
fn others() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"namespaces": ["other"]})),
        Just(json!({"namespaceSelector": {}})),
        Just(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}})),
        Just(json!({"matchLabelKeys": ["revision"]})),
    ]
}

/// Fields of a pod that must be near or far from pods of these namespaces.
pub(super) fn among(which: &str, key: &str, labels: &Value, others: &Value) -> Value {
    let mut fields = neighbor(which, key, labels);
    let term = &mut fields["affinity"][which]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    term.as_object_mut()
        .unwrap()
        .extend(others.as_object().unwrap().clone());
    fields
}

pub(super) fn any_pods(most: usize) -> impl Strategy<Value = Vec<core::Pod>> {
    let cpu = prop_oneof![Just("100m"), Just("500m"), Just("1"), Just("3"), Just("7")];
    let app = prop_oneof![Just("a"), Just("b"), Just("c")];
    let revision = prop_oneof![Just("1"), Just("2")];
    let one = (
        cpu,
        app,
        fields(),
        1_usize..4,
        revision,
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(one, 1..most).prop_map(|all| {
        let mut pods = Vec::new();
        for (cpu, app, fields, copies, revision, elsewhere) in all {
            for _ in 0..copies {
                let name = format!("p{:03}", pods.len());
                let labels = json!({"app": app, "revision": revision});
                let mut pod = labelled(pod_with(&name, cpu, &fields), &labels);
                if elsewhere {
                    pod.metadata.namespace = Some("other".to_owned());
                }
                pods.push(pod);
            }
        }
        pods
    })
}

pub(super) fn any_nodes() -> impl Strategy<Value = Vec<Node>> {
    let zone = prop_oneof![Just("z1"), Just("z2"), Just("z3")];
    let one = (
        zone,
        1_i64..6,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    prop::collection::vec(one, 0..4).prop_map(|all| {
        let make = |(at, (zone, cpu, tainted, racked)): (usize, (&str, i64, bool, bool))| {
            let mut node = node(&format!("n{at}"), cpu, &[(ZONES, zone), (CAPACITY, "spot")]);
            if racked {
                node.labels.insert("rack".to_owned(), "r1".to_owned());
            }
            if tainted {
                node.taints.push(taint("team", "NoSchedule"));
            }
            node
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

/// What pools and daemons may be like besides.
#[derive(Clone, Debug)]
struct Finer {
    /// How much a daemon takes on every node.
    daemon: Option<&'static str>,
    /// Of which label how many values must stay possible, for each pool.
    least: Vec<Option<(&'static str, i64)>>,
    /// Whether that may be given up.
    policy: MinValuesPolicy,
    /// Which pools would rather have nobody.
    prefers: Vec<bool>,
}

fn finer() -> impl Strategy<Value = Finer> {
    let daemon = prop::option::weighted(0.3, prop_oneof![Just("100m"), Just("900m")]);
    let asked = prop_oneof![
        3 => (Just(INSTANCE_TYPE), 1_i64..4),
        1 => (prop_oneof![Just(ZONES), Just(CAPACITY)], 1_i64..3),
    ];
    let least = prop::collection::vec(prop::option::weighted(0.3, asked), 2);
    let policy = prop_oneof![Just(MinValuesPolicy::Strict), Just(MinValuesPolicy::BestEffort)];
    let prefers = prop::collection::vec(prop::bool::weighted(0.25), 2);
    (daemon, least, policy, prefers).prop_map(|(daemon, least, policy, prefers)| Finer {
        daemon,
        least,
        policy,
        prefers,
    })
}

impl Finer {
    fn make(&self, mut base: Cluster) -> Cluster {
        if let Some(cpu) = self.daemon {
            let port = json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}],
                "resources": {"requests": {"cpu": "50m"}}}]});
            base = base.daemon(pod("daemon", cpu)).daemon(pod_with(
                "local",
                "50m",
                &both(&port, &node_in(ZONES, &["z1"])),
            ));
        }
        for (pool, least) in base.pools.iter_mut().zip(&self.least) {
            let asked = least.map(|(key, least)| crate::api::Requirement {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                values: None,
                min_values: Some(least),
            });
            let asked = Requirements::from_api(asked.as_slice()).unwrap();
            pool.requirements = pool.requirements.and(&asked);
        }
        base.options.min_values = self.policy;
        for (pool, prefers) in base.pools.iter_mut().zip(&self.prefers) {
            if *prefers {
                pool.taints.push(taint("rather", "PreferNoSchedule"));
            }
        }
        base
    }
}

/// What is seldom so: which offerings are withheld, in turn; how many volumes a node attaches; and whether nodes are of
/// several generations, and if they are, whether the first pool has nodes of three.
type Rarer = (Vec<bool>, Option<u32>, Option<bool>);

fn rarer() -> impl Strategy<Value = Rarer> {
    let withheld = prop::collection::vec(prop::bool::weighted(0.15), 1..12);
    let attached = prop::option::weighted(0.4, 0_u32..3);
    (withheld, attached, prop::option::weighted(0.5, prop::bool::ANY))
}

/// With volumes that pods may mount, two of which are in one zone only.
fn make_rarer(mut base: Cluster, (withheld, attached, generations): &Rarer) -> Cluster {
    base.storage = storage(&[("v0", &[]), ("v1", &[]), ("v2", &["z1"]), ("v3", &["z2"])]);
    let limit = |more: usize| attached.map(|most| ("d".to_owned(), most + u32::from(more % 2 == 1)));
    let mut withheld = withheld.iter().cycle();
    for pool in &mut base.pools {
        let mut types = pool.types.to_vec();
        for (at, kind) in types.iter_mut().enumerate() {
            kind.volume_limits.extend(limit(at));
            for offering in kind
                .offerings
                .iter_mut()
                .filter(|_| withheld.next() == Some(&true))
            {
                offering.availability = Availability::Withheld {
                    until: jiff::Timestamp::UNIX_EPOCH,
                    reason: "NoCapacity".to_owned(),
                };
            }
        }
        pool.types = Arc::new(types);
    }
    for (at, node) in base.nodes.iter_mut().enumerate() {
        node.volume_limits.extend(limit(at));
        if generations.is_some() {
            // Not all of them are numbers that pods mention, or that come next to one.
            let generation = [7, 0, 2, 3][at % 4];
            node.labels.insert(GENERATION.to_owned(), generation.to_string());
        }
    }
    if generations.is_some() {
        base = base.daemon(pod_with("young", "300m", &newer_than("1")));
    }
    if *generations == Some(true) {
        base = base.requires(GENERATION, &Values::one_of(["1", "2", "3"]));
    }
    base
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    (plain_cluster(), finer(), any_steepness(), rarer()).prop_map(|(cluster, finer, steepness, rarer)| {
        let mut cluster = finer.make(cluster);
        cluster.pools.iter_mut().for_each(|pool| price(pool, steepness));
        make_rarer(cluster, &rarer)
    })
}

/// What a processor costs where there are twice as many, in percent. Where it is a little more, no claim grows, and those pay
/// that are opened with room for more than their first pod.
fn any_steepness() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(100), 1 => Just(80), 2 => Just(101)]
}

fn price(pool: &mut Pool, steepness: u64) {
    for kind in Arc::make_mut(&mut pool.types) {
        let doublings = (kind.capacity.get(CPU) / 1000).ilog2();
        for offering in &mut kind.offerings {
            let nanos = offering.price.map_or(0, Price::nanos);
            let steep = (0..doublings).fold(nanos, |nanos, _| nanos * steepness / 100);
            offering.price = Price::from_nanos(steep);
        }
    }
}

fn plain_cluster() -> impl Strategy<Value = Cluster> {
    let second = prop::option::weighted(0.4, any_second());
    let there = (any_pods(3), 0_usize..5);
    let pods = (any_pods(14), any_muddle());
    (pods, any_nodes(), any_limit(), second, there).prop_map(|(pods, nodes, limit, second, there)| {
        let (there, others) = there;
        let (pods, muddle) = pods;
        let pods = pods.into_iter().zip(muddle.into_iter().cycle());
        let pods = pods.map(|(pod, is_muddled)| if is_muddled { muddled(pod) } else { pod });
        let mut base = cluster().with(pods);
        base.namespaces = namespaces();
        base.pools[0].limits = limit.map(|cpu| Resources::new().with(CPU, cpu * 1000).with("nodes", 6));
        if let Some(second) = second {
            base = base.and_pool(second_pool(second));
        }
        // What is on a node need not be where it would be placed today, but for those that mind each other.
        if let (Some(node), Some(mut pod)) = (nodes.first(), there.into_iter().next()) {
            pod.metadata.name = Some("there".to_owned());
            pod.metadata.uid = Some("there".to_owned());
            base = base.bound([on(pod, &node.name)]);
        }
        for at in (0..others).filter(|_| !nodes.is_empty()) {
            let app = json!({"app": if at % 2 == 0 { "a" } else { "b" }});
            let pod = labelled(pod(&format!("quiet-{at}"), "100m"), &app);
            base = base.bound([on(pod, &nodes[at % nodes.len()].name)]);
        }
        base.nodes = nodes;
        for node in &mut base.nodes {
            node.allocatable
                .add(&Resources::new().with(CPU, 8000).with(PODS, 10));
        }
        base
    })
}

/// Which pods cannot be read, in turn.
fn any_muddle() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.15), 1..9)
}

/// The same pod, but for that it cannot be read.
fn muddled(mut pod: core::Pod) -> core::Pod {
    let nonsense = json!({"requests": {"cpu": "-1"}});
    pod.spec.as_mut().unwrap().containers[0].resources = serde_json::from_value(nonsense).unwrap();
    pod
}

fn any_limit() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.4, 0_i64..40)
}

/// Whether a pool is preferred and tainted, its limit, and the one capacity type that it is for.
type Second = (bool, bool, Option<i64>, Option<&'static str>);

fn any_second() -> impl Strategy<Value = Second> {
    let capacity = prop::option::of(prop_oneof![Just("spot"), Just("on-demand")]);
    (prop::bool::ANY, prop::bool::ANY, any_limit(), capacity)
}

fn second_pool((preferred, tainted, limit, capacity): Second) -> Pool {
    let types = vec![kind("x", 4), with_arch(kind("y", 8), "arm64"), kind("z", 2)];
    let mut other = pool("other", types);
    other.weight = if preferred { 10 } else { 0 };
    if tainted {
        other.taints.push(taint("team", "NoSchedule"));
    }
    other.limits = limit.map(|cpu| Resources::new().with(CPU, cpu * 1000));
    if let Some(capacity) = capacity {
        other.requirements.narrow(CAPACITY, &Values::one_of([capacity]));
    }
    other
}

/// Two namespaces, of which one has a label.
pub(super) fn namespaces() -> BTreeMap<String, BTreeMap<String, String>> {
    let team = [("team".to_owned(), "x".to_owned())].into();
    [
        ("default".to_owned(), BTreeMap::new()),
        ("other".to_owned(), team),
    ]
    .into()
}

/// What a plan says by names, so that plans of the same cluster in another order can be compared.
fn told(solved: &Solved) -> (BTreeMap<String, BTreeSet<String>>, u64, Vec<String>) {
    let mut places = BTreeMap::new();
    for (place, pods) in solved.places() {
        let key = if place.starts_with("new-") {
            format!("new {}", pods.first().unwrap())
        } else {
            place
        };
        places.insert(key, pods);
    }
    let mut words = solved.words();
    words.sort();
    (places, solved.plan.price_nanos(), words)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_plan_is_legal(cluster in any_cluster()) {
        cluster.solve();
    }

    #[test]
    fn two_hands_find_the_plan_that_one_finds(mut cluster in any_cluster()) {
        let alone = cluster.solve().plan;
        cluster.options.hands = Hands::Two;
        prop_assert_eq!(alone, cluster.solve().plan);
    }

    #[test]
    fn the_order_of_lists_changes_nothing(mut cluster in any_cluster(), by in 0_usize..20) {
        let before = told(&cluster.solve());
        let by = by % cluster.pending.len().max(1);
        cluster.pending.rotate_left(by);
        cluster.nodes.reverse();
        cluster.bound.reverse();
        cluster.daemons.reverse();
        cluster.pools.reverse();
        for pool in &mut cluster.pools {
            let mut types = pool.types.to_vec();
            types.reverse();
            for kind in &mut types {
                kind.offerings.reverse();
            }
            pool.types = Arc::new(types);
        }
        prop_assert_eq!(before, told(&cluster.solve()));
    }

    #[test]
    fn one_more_node_keeps_no_plain_pod_from_its_place(
        sizes in prop::collection::vec(1_u32..180, 1..12), cpu in 1_i64..20, finer in finer(), second in prop::option::of(any_second()),
    ) {
        let plain = sizes.iter().enumerate().map(|(at, size)| pod(&format!("p{at}"), &format!("{size}00m")));
        let mut base = cluster().with(plain);
        base.pools.extend(second.map(second_pool));
        let mut base = finer.make(base);
        // With limits, whoever has a place on the node may have had one where another is kept from it now.
        base.pools.iter_mut().for_each(|pool| pool.limits = None);
        let before = base.solve();
        let after = base.node(node("n", cpu, &[])).solve();
        for name in (0..sizes.len()).map(|at| format!("p{at}")).filter(|name| before.place(name).is_some()) {
            prop_assert!(after.place(&name).is_some(), "{}: {:?}", name, after.words());
        }
        if before.all_placed() {
            prop_assert!(after.plan.price_nanos() <= before.plan.price_nanos());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With so many classes, passes are held to the pace of another, which may be made at the same time.
    #[test]
    fn two_hands_find_the_plan_that_one_finds_where_passes_are_given_up(
        sizes in prop::collection::vec((1_u32..60, prop::bool::weighted(0.3)), 100..160)
    ) {
        let alone = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
        let sized = sizes.iter().enumerate().map(|(at, (size, apart))| {
            let mut fields = if *apart { alone.clone() } else { json!({}) };
            // Of each its own, so that none is like another.
            let requests = json!({"cpu": format!("{size}00m"), "memory": format!("{}Mi", 100 + at)});
            fields["containers"] = json!([{"name": "c", "resources": {"requests": requests}}]);
            let app = if *apart { "a" } else { "b" };
            labelled(pod_with(&format!("p{at:03}"), "1", &fields), &json!({"app": app}))
        });
        let mut cluster = cluster().with(sized);
        let alone = cluster.solve().plan;
        cluster.options.hands = Hands::Two;
        prop_assert_eq!(alone, cluster.solve().plan);
    }
}

/// By size, and then by age: were a pod without a size as large as any other, it would put others in their order by age.
#[test]
fn a_pod_that_cannot_be_read_does_not_come_between_others() {
    let mut cluster = cluster().with([pod("a", "1"), muddled(pod("b", "1")), pod("c", "2")]);
    for _ in 0..3 {
        cluster.pending.rotate_left(1);
        let snapshot = cluster.snapshot();
        let classes = problem::Problem::new(&snapshot, cluster.options).classes;
        let first = |class: &class::Class| snapshot.pending.members[class.members[0]].name.clone();
        let order: Vec<String> = classes.iter().map(first).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }
}

/// With so many pods in so many classes, several passes are held to the pace of one, and in this order all of them are made
/// before it.
#[test]
fn the_order_in_which_passes_are_made_changes_nothing() {
    let own = |class: usize| json!({"app": class.to_string()});
    let one = |at: usize| {
        let class = at % 100;
        let mut fields = match class % 4 {
            0 => neighbor("podAntiAffinity", HOST, &own(class)),
            1 => spread(ZONES, 1, &own(class), &json!({})),
            _ => json!({}),
        };
        let requests = json!({"cpu": "1200m", "memory": format!("{}Mi", 100 + class)});
        fields["containers"] = json!([{"name": "c", "resources": {"requests": requests}}]);
        labelled(pod_with(&format!("p{at:04}"), "1", &fields), &own(class))
    };
    let mut cluster = cluster().types(steep_types()).with((0..2000).map(one));
    let alone = cluster.solve();
    let backwards =
        passes::backwards(&alone.snapshot, cluster.options, &|| true).map(|found| plan_of(found, &|| true));
    assert_eq!(backwards.as_ref(), Some(&alone.plan));
    cluster.options.hands = Hands::Two;
    assert_eq!(cluster.solve().plan, alone.plan);
}
