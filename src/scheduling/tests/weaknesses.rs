//! What upstream's scheduler is known to be weak at, and this one is not. Other such tests stand beside what they are
//! about: limits used up in one plan (`limits`), partial plans when time runs out and priority (`packing`), zones pinned
//! at once (`neighbors`), the same plan from the same cluster (`laws`).

use super::volumes::{mounts, storage, with};
use super::*;

/// The first type of a price list: so many processors, for so much.
fn priced(name: &str, cpu: i64, dollars: f64) -> InstanceType {
    let mut kind = kind(name, cpu);
    for offering in &mut kind.offerings {
        offering.price = Price::from_usd(dollars);
    }
    kind
}

#[test]
fn several_small_machines_are_bought_where_one_large_one_costs_more() {
    let solved = cluster()
        .types(vec![priced("small", 2, 0.01), priced("large", 16, 1.0)])
        .with(pods(4, |name| pod(name, "1")))
        .solve();
    assert_eq!(solved.types(), ["small", "small", "small", "small"]);
}

#[test]
fn one_large_machine_is_bought_where_several_small_ones_cost_more() {
    let solved = cluster()
        .types(vec![priced("small", 2, 0.5), priced("large", 16, 0.6)])
        .with(pods(4, |name| pod(name, "1")))
        .solve();
    assert_eq!(solved.types(), ["large"]);
}

#[test]
fn claims_are_filled_one_after_the_other_instead_of_evenly() {
    let solved = cluster()
        .types(vec![kind("only", 4)])
        .with(pods(4, |name| pod(name, "3")))
        .with((0..3).map(|at| pod(&format!("small-{at}"), "200m")))
        .solve();
    assert_eq!(solved.claims(), 4);
    assert_eq!(solved.sizes().iter().max(), Some(&4), "{:?}", solved.sizes());
}

const GPU: &str = "nvidia.com/gpu";

/// A type with a card.
fn with_card(name: &str, cpu: i64) -> InstanceType {
    let mut cards = kind(name, cpu);
    cards.capacity.set(GPU, 1);
    cards.allocatable.set(GPU, 1);
    cards
}

/// A pod that asks for a card.
fn wants_card(name: &str, fields: &Value) -> core::Pod {
    let requests = json!({"cpu": "1", GPU: "1"});
    let containers = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    pod_with(name, "1", &both(&containers, fields))
}

#[test]
fn a_card_that_is_there_is_for_whoever_asks_for_one_however_small_it_is() {
    let mut there = node("there", 2, &[]);
    there.allocatable.set(GPU, 1);
    let app = json!({"app": "a"});
    let alone = neighbor("podAntiAffinity", HOST, &app);
    // Pods that keep apart come before others, and still not before these.
    for fields in [json!({}), alone] {
        let solved = cluster()
            .types(vec![kind("plain", 4), with_card("cards", 8)])
            .node(there.clone())
            .with([labelled(pod_with("large", "2", &fields), &app)])
            .with([wants_card("small", &json!({}))])
            .solve();
        assert_eq!(solved.place("small").as_deref(), Some("there"));
        assert_eq!(solved.types(), ["plain"]);
    }
    let urgent = json!({"priority": 10});
    let solved = cluster()
        .types(vec![kind("plain", 4), with_card("cards", 8)])
        .node(there)
        .with([pod_with("large", "2", &urgent), wants_card("small", &json!({}))])
        .solve();
    assert_eq!(
        solved.place("large").as_deref(),
        Some("there"),
        "priority comes first"
    );
}

#[test]
fn a_claim_that_is_begun_may_still_become_a_machine_with_cards() {
    let gpu = wants_card("gpu", &json!({}));
    let solved = cluster()
        .types(vec![kind("plain", 8), with_card("cards", 8)])
        .pool(|pool| pool.limits = Some(Resources::new().with("nodes", 1)))
        .with([pod_with("large", "5", &json!({"priority": 10})), gpu])
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.types(), ["cards"]);
}

#[test]
fn what_failed_for_one_replica_is_not_tried_for_the_next() {
    let few = cluster().with(pods(2, |name| pod(name, "500")));
    let many = cluster().with(pods(2000, |name| pod(name, "500")));
    assert_eq!(few.looks(), many.looks());
}

#[test]
fn replicas_are_held_against_a_selector_once_for_each_plan_however_many_there_are() {
    let web = json!({"app": "web"});
    let spreading = spread(ZONES, 1, &web, &json!({}));
    let matches = |there: usize, waiting: usize| {
        let there = (0..there).map(|at| on(labelled(pod(&format!("there-{at}"), "1m"), &web), "n1"));
        let snapshot = cluster()
            .node(node("n1", 64, &[(ZONES, "us-south-1")]))
            .bound(there)
            .with(pods(waiting, |name| {
                labelled(pod_with(name, "1", &spreading), &web)
            }))
            .snapshot();
        crate::scheduling::topology::matches::take();
        let plan = solve(&snapshot, Options::default(), &|| true);
        assert_eq!(crate::audit::plan(&snapshot, &plan), []);
        crate::scheduling::topology::matches::take()
    };
    let few = matches(2, 2);
    assert!(few > 0);
    assert_eq!(matches(500, 100), few);
}

#[test]
fn replicas_with_preferences_take_hardly_more_looks_than_without() {
    let wish = preferred_neighbor("podAntiAffinity", ZONES, &json!({"app": "a"}));
    let make = |name: &str| labelled(pod_with(name, "1", &wish), &json!({"app": "a"}));
    let wishing = cluster().with(pods(50, make));
    let plain = cluster().with(pods(50, |name| pod(name, "1")));
    assert!(wishing.looks() <= 2 * plain.looks());
    let hopeless = |number: usize| {
        let make = |name: &str| labelled(pod_with(name, "500", &wish), &json!({"app": "a"}));
        cluster().with(pods(number, make)).looks()
    };
    assert_eq!(hopeless(2), hopeless(50));
}

#[test]
fn a_pod_with_a_thousand_spreads_or_five_thousand_containers_takes_no_more_looks_than_another() {
    let spreads: Vec<Value> = (0..1000)
        .map(|at| {
            json!({"topologyKey": format!("example.com/key-{at}"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}}})
        })
        .collect();
    let containers: Vec<Value> = (0..5000)
        .map(|at| json!({"name": format!("c{at}"), "resources": {"requests": {"cpu": "1m"}}}))
        .collect();
    let plain = cluster().with([pod("p", "1"), pod("q", "2")]);
    let spreading = json!({"topologySpreadConstraints": spreads});
    let replicas = cluster().with(pods(20, |name| pod_with(name, "1", &spreading)));
    let spreading = cluster().with([pod_with("p", "1", &spreading), pod("q", "2")]);
    let large = cluster().with([
        pod_with("p", "1", &json!({"containers": containers})),
        pod("q", "2"),
    ]);
    assert!(
        spreading.looks() <= 2 * plain.looks(),
        "what is hopeless is tried once more at most"
    );
    assert!(
        replicas.looks() <= 2 * plain.looks(),
        "what is hopeless for one is so for all"
    );
    assert_eq!(large.looks(), plain.looks());
}

/// So many pods of forty applications: plain ones, spread over zones, and far from each other.
fn workload(pods: usize) -> Cluster {
    let make = |at: usize| {
        let app = json!({"app": format!("app-{}", at % 40)});
        let fields = match at % 8 {
            0 => spread(ZONES, 1, &app, &json!({})),
            1 => preferred_neighbor("podAntiAffinity", HOST, &app),
            2 => json!({"nodeSelector": {ZONES: "z2"}}),
            _ => json!({}),
        };
        let cpu = format!("{}m", 100 + 170 * (at % 40));
        labelled(pod_with(&format!("p{at:05}"), &cpu, &fields), &app)
    };
    cluster().with((0..pods).map(make))
}

#[test]
fn twice_as_many_pods_take_hardly_more_than_twice_as_many_looks() {
    for pods in [400, 800, 1600] {
        let (once, twice) = (workload(pods).looks(), workload(2 * pods).looks());
        assert!(
            2 * twice <= 5 * once,
            "{once} for {pods}, {twice} for twice as many"
        );
    }
}

#[test]
fn a_volume_of_one_pod_is_no_reason_to_look_longer_for_the_others() {
    let plain = workload(1600);
    let mut mounting = plain.clone().with([mounts("mounts", &["v"])]);
    mounting.storage = storage(&[("v", &[])]);
    let mut types = mounting.pools[0].types.to_vec();
    for kind in &mut types {
        kind.volume_limits.insert("d".to_owned(), 12);
    }
    let (plain, mounting) = (plain.looks(), mounting.types(types).looks());
    assert!(
        4 * mounting <= 5 * plain,
        "{mounting} with a volume, {plain} without"
    );
}

#[test]
fn spreads_that_differ_in_nothing_but_how_many_values_there_must_be_are_told_apart() {
    let labels = json!({"app": "a"});
    let make = |name: &str, least: Option<u32>| {
        let more = least.map_or(json!({}), |least| json!({"minDomains": least}));
        labelled(pod_with(name, "1", &spread(ZONES, 1, &labels, &more)), &labels)
    };
    let two_zones = cluster().requires(ZONES, &Values::one_of(["z1", "z2"]));
    let strict: Vec<core::Pod> = (0..3).map(|at| make(&format!("strict-{at}"), Some(3))).collect();
    let solved = two_zones.clone().with(strict.clone()).solve();
    assert_eq!(
        solved.plan.pods_left_out(),
        1,
        "with a third zone missing, one in each"
    );
    let solved = two_zones.with(strict).with([make("loose", None)]).solve();
    assert!(solved.place("loose").is_some(), "{:?}", solved.words());
}

#[test]
fn volumes_that_can_be_in_many_places_do_not_explode() {
    let names: Vec<String> = (0..16).map(|at| format!("v{at}")).collect();
    let everywhere: Vec<(&str, &[&str])> = names
        .iter()
        .map(|name| (name.as_str(), &["z1", "z2", "z3"][..]))
        .collect();
    let claims: Vec<&str> = names.iter().map(String::as_str).collect();
    let solved = with(storage(&everywhere)).with([mounts("p", &claims)]).solve();
    assert!(
        solved.all_placed(),
        "3 to the power of 16 ways, of which three are different"
    );
}

#[test]
fn pods_that_must_be_far_by_zone_take_one_zone_each_in_one_plan() {
    let far = neighbor("podAntiAffinity", ZONES, &json!({"app": "a"}));
    let make = |name: &str| labelled(pod_with(name, "1", &far), &json!({"app": "a"}));
    let solved = cluster().with(pods(3, make)).solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(zones(&solved).len(), 3);
}

#[test]
fn a_limit_is_counted_with_what_is_planned_and_not_with_the_largest_that_would_fit() {
    let solved = cluster()
        .pool(|pool| pool.limits = Some(Resources::new().with(CPU, 8000)))
        .with(pods(4, |name| {
            labelled(
                pod_with(
                    name,
                    "1",
                    &neighbor("podAntiAffinity", HOST, &json!({"app": "a"})),
                ),
                &json!({"app": "a"}),
            )
        }))
        .solve();
    assert_eq!(solved.claims(), 4, "{:?}", solved.words());
}

#[test]
fn min_values_that_are_given_up_are_not_asked_of_launch_either() {
    let asked = crate::api::Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(9),
    };
    let mut base = cluster().with([pod("p", "7")]);
    let asked = Requirements::from_api(&[asked]).unwrap();
    base.pools[0].requirements = base.pools[0].requirements.and(&asked);
    base.options.min_values = MinValuesPolicy::BestEffort;
    let claim = &base.solve().plan.claims[0];
    assert_eq!(claim.min_values, MinValues::Relaxed);
    assert_eq!(claim.requirements.min_values().get(INSTANCE_TYPE), Some(&2));
}
