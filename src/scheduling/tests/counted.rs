//! Pods that are counted on some nodes only: what has to be known of their claims, and what stays open.

use super::*;

fn app() -> Value {
    json!({"app": "a"})
}

/// Fields of a pod that shares its node with no other of its kind, as far as nodes with such labels go.
fn alone_where(terms: &Value) -> Value {
    both(&spread(HOST, 1, &app(), &json!({})), &required(terms))
}

fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    let values = (!values.is_empty()).then_some(values);
    json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])
}

/// So many different values of a label must stay possible.
fn asking_for(key: &str, least: i64) -> Requirements {
    let asked = crate::api::Requirement {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(least),
    };
    Requirements::from_api(&[asked]).unwrap()
}

/// The most labels of which a claim must have one value known for a pod of a cluster.
fn most_pins(cluster: &Cluster) -> usize {
    let snapshot = cluster.snapshot();
    let problem = problem::Problem::new(&snapshot, cluster.options);
    let stages = problem.classes.iter().flat_map(|class| &class.stages);
    stages.map(|stage| stage.pins.len()).max().unwrap()
}

#[test]
fn whoever_is_spread_over_zones_and_nodes_still_has_several_types_to_choose_from() {
    let spreads = both(
        &spread(ZONES, 1, &app(), &json!({})),
        &alone_where(&term(INSTANCE_TYPE, "NotIn", &["type-16"])),
    );
    let solved = cluster()
        .pool(|pool| pool.requirements = pool.requirements.and(&asking_for(INSTANCE_TYPE, 2)))
        .with(pods(3, |name| labelled(pod_with(name, "1", &spreads), &app())))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!((solved.skew(ZONES), solved.claims()), (vec![1, 1, 1], 3));
    for claim in &solved.plan.claims {
        assert!(claim.options.len() > 1, "{:?}", claim.options);
        assert_eq!(claim.min_values, MinValues::Kept);
    }
}

#[test]
fn whoever_is_counted_on_machines_with_cards_needs_none_of_them() {
    let mut carded = kind("carded", 8);
    carded.requirements.narrow("card", &Values::one_of(["a100"]));
    let counting = alone_where(&term("card", "In", &["a100"]));
    let solved = cluster()
        .types(vec![kind("plain", 4), carded])
        .with([
            labelled(pod("plain", "3"), &app()),
            labelled(pod_with("card", "1", &counting), &app()),
        ])
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.types(), ["carded", "plain"]);
}

#[test]
fn whoever_is_counted_in_some_zones_only_has_a_place_where_a_pool_asks_for_several() {
    let counting = alone_where(&term(ZONES, "In", &["z2", "z3"]));
    let solved = cluster()
        .pool(|pool| pool.requirements = pool.requirements.and(&asking_for(ZONES, 2)))
        .with([
            labelled(pod("anywhere", "3"), &app()),
            labelled(pod_with("counting", "1", &counting), &app()),
        ])
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
}

#[test]
fn what_must_be_known_of_a_claim_does_not_grow_with_labels_that_nobody_has() {
    let asking = |at: usize| {
        let key = format!("team-{at}");
        pod_with(&format!("p{at:03}"), "1", &json!({"nodeSelector": {key: "x"}}))
    };
    for operator in ["Exists", "DoesNotExist"] {
        let counting = alone_where(&term("team-0", operator, &[]));
        let most = most_pins(
            &cluster()
                .with((0..100).map(asking))
                .with([labelled(pod("anywhere", "3"), &app())])
                .with([labelled(pod_with("counting", "1", &counting), &app())]),
        );
        assert_eq!(most, 0, "{operator}");
    }
}

#[test]
fn a_zone_is_known_only_where_it_decides_who_is_counted() {
    let counting = |fields: &Value| {
        cluster()
            .requires(ZONES, &Values::one_of(["z1", "z2"]))
            .with([labelled(pod("anywhere", "3"), &app())])
            .with([labelled(pod_with("counting", "1", fields), &app())])
    };
    let undecided = counting(&alone_where(&term(ZONES, "In", &["z2", "z3"])));
    assert_eq!(most_pins(&undecided), 1);
    for decided in [
        term(ZONES, "In", &["z1", "z2", "z3"]),
        term(ZONES, "In", &["z3"]),
        term(INSTANCE_TYPE, "In", &["type-04"]),
    ] {
        let pins = most_pins(&counting(&alone_where(&decided)));
        assert_eq!(pins, 0, "{decided}");
    }
}
