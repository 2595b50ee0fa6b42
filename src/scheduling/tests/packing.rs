//! Which machines are bought, and how pods fill them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_small_pod_gets_the_smallest_machine_that_fits() {
    let solved = cluster().with([pod("p", "500m")]).solve();
    assert_eq!(solved.types(), ["type-01"]);
    assert_eq!(capacity_types(&solved), [CapacityType::Spot].into());
}

#[test]
fn small_pods_share_a_machine() {
    let solved = cluster().with(pods(6, |name| pod(name, "500m"))).solve();
    assert_eq!((solved.claims(), solved.types()), (1, vec!["type-04"]));
}

#[test]
fn more_pods_than_the_largest_machine_holds_need_another() {
    let solved = cluster().with(pods(20, |name| pod(name, "1"))).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.claims(), 2);
}

#[test]
fn a_machine_holds_no_more_pods_than_it_may() {
    let solved = cluster()
        .types(vec![kind("one", 1)])
        .with(pods(25, |name| pod(name, "10m")))
        .solve();
    assert_eq!(solved.sizes(), [5, 10, 10]);
}

#[test]
fn a_pod_that_asks_for_nothing_still_needs_a_node() {
    let empty: core::Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "namespace": "default", "uid": "1"}, "spec": {"containers": []}}),
    )
    .unwrap();
    assert_eq!(
        cluster().with([empty, pod("zero", "0")]).solve().types(),
        ["type-01"]
    );
}

#[test]
fn what_an_init_container_needs_decides_the_machine() {
    let init = json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "7"}}}]});
    assert_eq!(
        cluster().with([pod_with("p", "1", &init)]).solve().types(),
        ["type-08"]
    );
    let large = json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "700"}}}]});
    assert!(!cluster().with([pod_with("p", "1", &large)]).solve().all_placed());
}

#[test]
fn a_resource_that_few_types_have_decides_the_machine() {
    let mut gpu = kind("gpu", 16);
    gpu.capacity.set("nvidia.com/gpu", 2);
    gpu.allocatable.set("nvidia.com/gpu", 2);
    let wants = |name: &str| {
        let limits = json!([{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}}]);
        pod_with(name, "1", &json!({"containers": limits}))
    };
    let solved = cluster()
        .types(vec![kind("plain", 4), gpu])
        .with([wants("a"), wants("b"), wants("c"), pod("d", "1")])
        .solve();
    assert!(solved.all_placed());
    assert_eq!(
        solved.types(),
        ["gpu", "gpu"],
        "the plain pod goes where there is room anyway"
    );
}

#[test]
fn resources_that_no_single_type_has_together_are_refused() {
    let with = |name: &str, resource: &str| {
        let mut kind = kind(name, 4);
        kind.capacity.set(resource, 1);
        kind.allocatable.set(resource, 1);
        kind
    };
    let types = vec![with("a", "x.com/a"), with("b", "x.com/b")];
    let both = json!([{"name": "c", "resources": {"limits": {"x.com/a": "1", "x.com/b": "1"}}}]);
    let one = |name: &str, resource: &str| {
        let only = json!([{"name": "c", "resources": {"limits": {resource: "1"}}}]);
        pod_with(name, "1", &json!({"containers": only}))
    };
    let refused = cluster()
        .types(types.clone())
        .with([pod_with("p", "1", &json!({"containers": both}))])
        .solve();
    assert!(!refused.all_placed());
    let apart = cluster()
        .types(types)
        .with([one("p", "x.com/a"), one("q", "x.com/b")])
        .solve();
    assert_eq!(apart.types(), ["a", "b"]);
}

#[test]
fn an_offering_that_cannot_be_had_is_not_planned_for() {
    let mut cheap = kind("cheap", 2);
    for offering in &mut cheap.offerings {
        offering.availability = Availability::Unsold(crate::model::Unsold::NoSubnet);
    }
    let solved = cluster()
        .types(vec![cheap, kind("dear", 4)])
        .with([pod("p", "1")])
        .solve();
    assert_eq!(solved.types(), ["dear"]);
}

#[test]
fn on_demand_is_taken_where_it_is_cheaper_or_spot_is_refused() {
    let mut odd = kind("odd", 2);
    odd.offerings = vec![
        offering("z1", CapacityType::Spot, 0.9),
        offering("z1", CapacityType::OnDemand, 0.1),
    ];
    let solved = cluster().types(vec![odd]).with([pod("p", "1")]).solve();
    assert_eq!(capacity_types(&solved), [CapacityType::OnDemand].into());
    let refuses = pod_with("p", "1", &node_in(CAPACITY, &["on-demand"]));
    assert_eq!(
        capacity_types(&cluster().with([refuses]).solve()),
        [CapacityType::OnDemand].into()
    );
}

#[test]
fn at_the_same_price_spot_comes_first() {
    let mut even = kind("even", 2);
    even.offerings = vec![
        offering("z1", CapacityType::OnDemand, 0.1),
        offering("z2", CapacityType::Spot, 0.1),
    ];
    let solved = cluster().types(vec![even]).with([pod("p", "1")]).solve();
    assert_eq!(capacity_types(&solved), [CapacityType::Spot].into());
}

#[test]
fn an_offering_without_a_price_is_never_the_cheapest() {
    let mut unknown = kind("a-unknown", 2);
    unknown
        .offerings
        .iter_mut()
        .for_each(|offering| offering.price = None);
    let types = vec![unknown.clone(), kind("known", 16)];
    assert_eq!(
        cluster().types(types).with([pod("p", "1")]).solve().types(),
        ["known"]
    );
    assert!(
        cluster()
            .types(vec![unknown])
            .with([pod("p", "1")])
            .solve()
            .all_placed(),
        "better than nothing"
    );
}

#[test]
fn ports_of_the_host_are_taken_once() {
    let ports = |port: i32| json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": port}], "resources": {"requests": {"cpu": "100m"}}}]);
    let takes = |name: &str, port| pod_with(name, "1", &json!({"containers": ports(port)}));
    let solved = cluster()
        .with([takes("a", 80), takes("b", 80), takes("c", 81)])
        .solve();
    assert_eq!(solved.claims(), 2);
}

#[test]
fn min_values_keep_enough_to_choose_from() {
    let mut requirement = crate::api::Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(3),
    };
    let mut wide = cluster();
    let asks = Requirements::from_api(&[requirement.clone()]).unwrap();
    wide.pools[0].requirements = wide.pools[0].requirements.and(&asks);
    let fits = wide.clone().with([pod("p", "3")]).solve();
    assert_eq!(fits.plan.claims[0].options.len(), 3);
    assert!(
        !wide.clone().with([pod("p", "7")]).solve().all_placed(),
        "two types are too few"
    );
    wide.options.min_values = MinValuesPolicy::BestEffort;
    let relaxed = wide.with([pod("p", "7")]).solve();
    assert_eq!(relaxed.plan.claims[0].min_values, MinValues::Relaxed);
    requirement.key = ZONES.to_owned();
    requirement.min_values = Some(4);
    let mut zonal = cluster();
    let asks = Requirements::from_api(&[requirement]).unwrap();
    zonal.pools[0].requirements = zonal.pools[0].requirements.and(&asks);
    assert!(
        !zonal.with([pod("p", "1")]).solve().all_placed(),
        "there are three zones"
    );
}

#[test]
fn a_pod_that_is_too_large_does_not_keep_others_waiting() {
    let solved = cluster().with([pod("huge", "500"), pod("p", "1")]).solve();
    assert_eq!(solved.place("p").as_deref(), Some("new-0"));
    assert_eq!(solved.plan.pods_left_out(), 1);
}

#[test]
fn more_priority_comes_first_where_not_all_find_a_place() {
    let urgent = pod_with("urgent", "1", &json!({"priority": 1000}));
    let limited = cluster().pool(|pool| pool.limits = Some(Resources::new().with(CPU, 2000)));
    let solved = limited.with([pod("large", "1500m"), urgent]).solve();
    assert!(solved.place("urgent").is_some() && solved.place("large").is_none());
}

#[test]
fn when_time_runs_out_what_is_placed_stands() {
    let snapshot = cluster()
        .with(pods(5, |name| pod(name, &format!("{}00m", name.len()))))
        .with([pod("a", "1"), pod("b", "2"), pod("c", "3")])
        .snapshot();
    let turns = AtomicUsize::new(0);
    let plan = solve(&snapshot, Options::default(), &|| {
        turns.fetch_add(1, Ordering::Relaxed) < 2
    });
    assert_eq!(crate::audit::plan(&snapshot, &plan), []);
    assert_eq!(plan.completeness, Completeness::OutOfTime);
    assert!(!plan.placements.is_empty() && !plan.left_out.is_empty());
}

#[test]
fn when_time_runs_out_within_a_class_what_is_placed_of_it_stands() {
    let snapshot = cluster().with(pods(1000, |name| pod(name, "100m"))).snapshot();
    for (turns, placed) in [(0, 0), (1, 256), (2, 512), (3, 768)] {
        let asked = AtomicUsize::new(0);
        let plan = solve(&snapshot, Options::default(), &|| {
            asked.fetch_add(1, Ordering::Relaxed) < turns
        });
        assert_eq!(crate::audit::plan(&snapshot, &plan), []);
        assert_eq!(plan.completeness, Completeness::OutOfTime);
        assert_eq!(
            (plan.placements.len(), plan.pods_left_out()),
            (placed, 1000 - placed)
        );
        let mut whys = plan.left_out.iter().flat_map(|left| &left.refusals);
        assert!(whys.all(|refusal| matches!(refusal.why, Why::OutOfTime)));
    }
}

/// A claim of three such pods is grown up: the next size up costs more than a machine for one. Most claims of a large plan
/// are grown up, and must not keep the others small.
#[test]
fn twice_the_pods_cost_no_more_than_twice_as_much() {
    let mut huge = kind("huge", 16);
    for offering in &mut huge.offerings {
        offering.price = Price::from_usd(1.6);
    }
    let types = vec![kind("type-02", 2), kind("type-04", 4), huge];
    let plan = |number: usize, make: &dyn Fn(&str) -> core::Pod| {
        let solved = cluster().types(types.clone()).with(pods(number, make)).solve();
        (solved.plan.price_nanos(), solved.claims())
    };
    let plain = |name: &str| pod(name, "1200m");
    let (once, twice) = (plan(1002, &plain), plan(2004, &plain));
    assert_eq!(once.1, 334);
    assert_eq!(twice, (2 * once.0, 2 * once.1));
    // As the pods of an indexed Job have it, each with a label of its own that nobody selects by.
    let numbered = |name: &str| labelled(plain(name), &json!({"index": name}));
    assert_eq!(plan(2004, &numbered), twice);
    // As in a namespace for each of many small applications.
    let apart = |name: &str| {
        let mut pod = plain(name);
        pod.metadata.namespace = Some(format!("of-{name}"));
        pod
    };
    assert_eq!(plan(2004, &apart), twice);
}

/// A pool that asks for so many different values of a label, written with this operator.
fn asking(key: &str, operator: &str, values: &[&str], least: i64) -> Cluster {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let asks = crate::api::Requirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: (!values.is_empty()).then_some(values),
        min_values: Some(least),
    };
    let asks = Requirements::from_api(&[asks]).unwrap();
    let sized = [1, 2, 4, 8, 16].map(|cpu: i64| {
        let mut kind = kind(&format!("type-{cpu:02}"), cpu);
        kind.requirements
            .narrow("size", &Values::one_of([cpu.to_string()]));
        kind
    });
    let mut base = cluster().types(sized.to_vec());
    base.pools[0].requirements = base.pools[0].requirements.and(&asks);
    base
}

#[test]
fn min_values_are_counted_among_what_their_own_operator_leaves() {
    // Of five types so many are left, of which all have room for a small pod.
    let left = [
        ("Gt", &["2"][..], 3),
        ("Lt", &["8"], 3),
        ("Gte", &["2"], 4),
        ("Lte", &["2"], 2),
        ("NotIn", &["1", "16"], 3),
        ("In", &["1", "2", "4"], 3),
    ];
    for (operator, values, count) in left {
        let small = || [pod("p", "500m")];
        let enough = asking("size", operator, values, count).with(small()).solve();
        assert!(enough.all_placed(), "{count} {operator} {values:?}");
        assert_eq!(i64::try_from(enough.plan.claims[0].options.len()), Ok(count));
        let few = asking("size", operator, values, count + 1).with(small()).solve();
        assert!(!few.all_placed(), "{} {operator} {values:?}", count + 1);
    }
}

#[test]
fn min_values_are_given_up_before_a_pool_of_less_weight_is_taken() {
    let mut base = asking(INSTANCE_TYPE, "Exists", &[], 5).and_pool(pool("other", vec![kind("x", 8)]));
    base.pools[0].weight = 10;
    let wide = base.clone().with([pod("p", "3")]).solve();
    assert_eq!(
        wide.pools(),
        ["other"],
        "strictly, the first is out of the question"
    );
    base.options.min_values = MinValuesPolicy::BestEffort;
    let relaxed = base.with([pod("p", "3")]).solve();
    assert_eq!(relaxed.pools(), ["default"]);
    assert_eq!(relaxed.plan.claims[0].min_values, MinValues::Relaxed);
}

/// More than any price is what an unknown one counts as, and what it counts as must do for sums.
#[test]
fn machines_without_a_price_are_bought_by_the_thousand() {
    const PODS: usize = 4200;
    let mut unpriced = kind("unpriced", 1);
    for offering in &mut unpriced.offerings {
        offering.price = None;
    }
    let solved = cluster()
        .types(vec![unpriced])
        .with(pods(PODS, |name| pod(name, "900m")))
        .solve();
    assert_eq!((solved.claims(), solved.plan.pods_left_out()), (PODS, 0));
}
