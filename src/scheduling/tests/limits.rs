//! What all nodes of a pool may have together.

use super::*;

fn limited(resource: &str, amount: i64) -> Cluster {
    cluster().pool(|pool| pool.limits = Some(Resources::new().with(resource, amount)))
}

#[test]
fn a_pool_grows_up_to_its_limit_and_not_beyond() {
    let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
    let many = pods(5, |name| {
        labelled(pod_with(name, "1", &apart), &json!({"app": "a"}))
    });
    let solved = limited(CPU, 6000).with(many).solve();
    assert_eq!((solved.claims(), solved.plan.pods_left_out()), (3, 2));
    assert!(
        solved.words()[0].contains("limit of 6 cpu leaves 0"),
        "{:?}",
        solved.words()
    );
}

#[test]
fn a_claim_grows_only_as_far_as_the_limit_allows() {
    let solved = limited(CPU, 4000).with(pods(6, |name| pod(name, "1"))).solve();
    assert_eq!(solved.plan.placements.len(), 3);
    let options = &solved.plan.claims[0].options;
    assert_eq!(options.len(), 1, "larger types would exceed the limit");
}

#[test]
fn nodes_are_counted_within_one_plan() {
    let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
    let many = pods(5, |name| {
        labelled(pod_with(name, "1", &apart), &json!({"app": "a"}))
    });
    assert_eq!(limited("nodes", 2).with(many).solve().claims(), 2);
}

/// A burst of pods that each need a node, while two of the three nodes that the pool may have are on their way.
#[test]
fn nodes_in_flight_count_against_a_burst() {
    let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
    let burst = pods(12, |name| {
        labelled(pod_with(name, "1", &apart), &json!({"app": "a"}))
    });
    let mut base = limited("nodes", 3).with(burst);
    for name in ["one", "two"] {
        base = base.node(Node {
            pool: Some("default".to_owned()),
            kind: crate::model::NodeKind::ClaimInFlight,
            ..node(name, 4, &[])
        });
    }
    let solved = base.solve();
    assert_eq!((solved.claims(), solved.plan.pods_left_out()), (1, 9));
}

#[test]
fn a_limit_below_what_is_there_buys_nothing() {
    let mut there = node("there", 4, &[]);
    there.pool = Some("default".to_owned());
    there.used = there.allocatable.clone();
    for (resource, amount) in [(CPU, 2000), ("nodes", 0)] {
        let solved = limited(resource, amount)
            .node(there.clone())
            .with([pod("p", "1")])
            .solve();
        assert_eq!(
            (solved.claims(), solved.plan.pods_left_out()),
            (0, 1),
            "{resource}"
        );
        assert!(
            solved.words().iter().any(|said| said.contains("limit")),
            "{:?}",
            solved.words()
        );
    }
}

#[test]
fn what_is_there_in_flight_or_leaving_counts() {
    let mut there = node("there", 4, &[]);
    there.pool = Some("default".to_owned());
    there.standing = crate::model::Standing::Leaving;
    let mut flying = there.clone();
    flying.name = "flying".to_owned();
    flying.kind = crate::model::NodeKind::ClaimInFlight;
    flying.allocatable = Resources::new();
    flying.standing = crate::model::Standing::Open;
    let solved = limited(CPU, 10_000)
        .node(there)
        .node(flying)
        .with(pods(3, |name| pod(name, "1")))
        .solve();
    assert_eq!(
        (solved.types(), solved.plan.pods_left_out()),
        (vec!["type-02"], 2)
    );
}

#[test]
fn a_limit_of_nothing_closes_a_pool_and_the_next_one_is_taken() {
    let closed = limited(CPU, 0).and_pool(pool("z-other", vec![kind("x", 4)]));
    assert_eq!(closed.with([pod("p", "1")]).solve().pools(), ["z-other"]);
}

#[test]
fn a_limit_on_what_no_type_has_is_no_limit() {
    assert!(
        limited("nvidia.com/gpu", 0)
            .with([pod("p", "1")])
            .solve()
            .all_placed()
    );
}

/// A type with so many processors and GiB, for so many cents.
fn sized(name: &str, cpu: i64, memory: i64, cents: i32) -> InstanceType {
    let mut kind = kind(name, cpu);
    kind.capacity.set(MEMORY, memory * GI);
    kind.allocatable.set(MEMORY, memory * GI);
    for offering in &mut kind.offerings {
        offering.price = Price::from_usd(f64::from(cents) / 100.0);
    }
    kind
}

/// A pod of an application, the more urgent the higher its priority.
fn of_app(name: &str, app: &str, priority: i32, (cpu, memory): (&str, &str), fields: &Value) -> core::Pod {
    let mut all = json!({"priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]});
    all.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    labelled(pod_with(name, cpu, &all), &json!({"app": app}))
}

/// The first claim is bought with 24 processors, of which the last pod, who needs memory, leaves 16.
fn shrinking(limit: i64, types: Vec<InstanceType>, first: &str, second: (&str, &str)) -> Solved {
    let apart = neighbor("podAntiAffinity", HOST, &json!({"app": "a"}));
    limited(CPU, limit)
        .types(types)
        .with([
            of_app("first", "a", 3, (first, "30Gi"), &json!({})),
            of_app("second", "b", 2, second, &apart),
            of_app("third", "a", 1, ("1", "110Gi"), &json!({})),
        ])
        .solve()
}

#[test]
fn a_claim_is_the_cheapest_type_that_limits_leave_in_the_end() {
    let types = vec![
        sized("many-cpus", 24, 48, 50),
        sized("large", 16, 128, 80),
        sized("larger", 16, 160, 90),
    ];
    let solved = shrinking(40_000, types, "1", ("1", "30Gi"));
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(
        solved.types(),
        ["larger", "many-cpus"],
        "16 and 24 of 40, though the second had 16 left in its turn"
    );
}

#[test]
fn what_a_claim_gives_back_is_for_whoever_was_left_out() {
    let types = vec![
        sized("many-cpus", 24, 48, 50),
        sized("small", 8, 16, 20),
        sized("larger", 16, 160, 90),
    ];
    let solved = shrinking(24_000, types, "10", ("2", "4Gi"));
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.types(), ["larger", "small"]);
}

/// Where the first of its terms asks for what is too small for both, the second will do.
#[test]
fn a_claim_becomes_what_another_term_of_a_pod_asks_for() {
    let term = |name: &str| json!({"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": [name]}]});
    let either = required(&json!([term("a"), term("b")]));
    let solved = limited("nodes", 1)
        .types(vec![kind("a", 4), kind("b", 8)])
        .with([pod("large", "3"), pod_with("small", "2", &either)])
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.types(), ["b"]);
}
