//! Preferences are kept to as far as possible, and given up one by one.

use super::*;

fn prefers(terms: &[(i32, &str, &[&str])]) -> Value {
    let term = |(weight, key, values): &(i32, &str, &[&str])| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}});
    let terms: Vec<Value> = terms.iter().map(term).collect();
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

#[test]
fn the_heaviest_preference_that_can_be_kept_is_kept() {
    let both = prefers(&[(1, ZONES, &["z3"]), (9, ZONES, &["z2"])]);
    assert_eq!(
        zones(&cluster().with([pod_with("p", "1", &both)]).solve()),
        ["z2"].into()
    );
    let lighter = prefers(&[(1, ZONES, &["z3"]), (9, ZONES, &["nowhere"])]);
    assert_eq!(
        zones(&cluster().with([pod_with("p", "1", &lighter)]).solve()),
        ["z3"].into()
    );
    let none = prefers(&[(1, "team", &["a"]), (9, ZONES, &["nowhere"])]);
    assert!(cluster().with([pod_with("p", "1", &none)]).solve().all_placed());
}

#[test]
fn a_preference_that_contradicts_a_requirement_is_given_up() {
    let mut fields = prefers(&[(1, ZONES, &["z1"])]);
    fields["nodeSelector"] = json!({ZONES: "z3"});
    assert_eq!(
        zones(&cluster().with([pod_with("p", "1", &fields)]).solve()),
        ["z3"].into()
    );
}

#[test]
fn preferences_can_be_ignored() {
    let mut base = cluster().with([pod_with("p", "1", &prefers(&[(1, ZONES, &["z3"])]))]);
    assert_eq!(
        capacity_types(&base.solve()),
        [CapacityType::OnDemand].into(),
        "there is no spot in z3"
    );
    base.options.preferences = Preferences::Ignore;
    assert_eq!(capacity_types(&base.solve()), [CapacityType::Spot].into());
}

#[test]
fn pods_that_would_rather_be_apart_are_given_nodes_of_their_own() {
    let app = json!({"app": "web"});
    let fields = preferred_neighbor("podAntiAffinity", HOST, &app);
    let mut base = cluster().with(pods(3, |name| labelled(pod_with(name, "1", &fields), &app)));
    assert_eq!(base.solve().sizes(), [1, 1, 1]);
    base.options.preferences = Preferences::Ignore;
    assert_eq!(base.solve().sizes(), [3]);
}

#[test]
fn a_wish_to_be_far_that_cannot_be_kept_is_given_up() {
    let app = json!({"app": "web"});
    let fields = preferred_neighbor("podAntiAffinity", ZONES, &app);
    let solved = cluster()
        .with(pods(5, |name| labelled(pod_with(name, "1", &fields), &app)))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(zones(&solved).len(), 3, "as long as there is a zone without any");
}

#[test]
fn a_wish_to_be_near_somebody_who_is_not_there_is_given_up() {
    let fields = preferred_neighbor("podAffinity", HOST, &json!({"app": "nobody"}));
    assert!(cluster().with([pod_with("p", "1", &fields)]).solve().all_placed());
}

#[test]
fn a_spread_that_allows_exceptions_is_kept_while_it_can_be() {
    let app = json!({"app": "web"});
    let anyway = json!({"whenUnsatisfiable": "ScheduleAnyway"});
    let fields = spread(CAPACITY, 1, &app, &anyway);
    let even = cluster()
        .with(pods(4, |name| labelled(pod_with(name, "1", &fields), &app)))
        .solve();
    assert_eq!(even.skew(CAPACITY), [2, 2]);
    let unknown = spread("rack", 1, &app, &anyway);
    assert!(
        cluster()
            .with(pods(4, |name| labelled(pod_with(name, "1", &unknown), &app)))
            .solve()
            .all_placed()
    );
}

#[test]
fn a_taint_that_only_prefers_is_avoided_while_another_pool_will_do() {
    let shy = |pool: &mut Pool| {
        pool.taints.push(taint("shy", "PreferNoSchedule"));
        pool.weight = 100;
    };
    let both = cluster().pool(shy).and_pool(pool("other", vec![kind("x", 4)]));
    assert_eq!(both.with([pod("p", "1")]).solve().pools(), ["other"]);
    assert_eq!(
        cluster().pool(shy).with([pod("p", "1")]).solve().pools(),
        ["default"]
    );
}

#[test]
fn node_preferences_are_given_up_before_the_dislike_of_taints() {
    let base = cluster()
        .pool(|pool| pool.taints.push(taint("shy", "PreferNoSchedule")))
        .and_pool(pool("other", vec![kind("x", 4)]));
    let likes = prefers(&[(1, NODE_POOL, &["default"])]);
    assert_eq!(base.with([pod_with("p", "1", &likes)]).solve().pools(), ["other"]);
}

#[test]
fn a_thousand_wishes_are_no_more_work_than_a_few() {
    let app = json!({"app": "web"});
    let wishing = |wishes: usize, replicas: usize, cpu: &str| {
        let each = |at: usize| {
            json!({"topologyKey": format!("key-{at}"), "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": app}})
        };
        let wishes: Vec<Value> = (0..wishes).map(each).collect();
        let fields = json!({"topologySpreadConstraints": wishes});
        cluster().with(pods(replicas, |name| {
            labelled(pod_with(name, cpu, &fields), &app)
        }))
    };
    assert!(wishing(1000, 3, "1").solve().all_placed());
    assert_eq!(wishing(1000, 3, "1").looks(), wishing(32, 3, "1").looks());
    assert_eq!(wishing(1000, 3, "500").looks(), wishing(32, 30, "500").looks());
}

#[test]
fn spreads_and_affinities_that_are_mere_wishes_can_be_ignored_too() {
    let app = json!({"app": "web"});
    let wishes = [
        spread(HOST, 1, &app, &json!({"whenUnsatisfiable": "ScheduleAnyway"})),
        preferred_neighbor("podAntiAffinity", HOST, &app),
    ];
    for wish in wishes {
        let mut base = cluster().with(pods(3, |name| labelled(pod_with(name, "1", &wish), &app)));
        assert_eq!(base.solve().sizes(), [1, 1, 1], "{wish}");
        base.options.preferences = Preferences::Ignore;
        assert_eq!(base.solve().sizes(), [3], "{wish}");
    }
    let near = preferred_neighbor("podAffinity", ZONES, &app);
    let mut base = cluster()
        .node(node("n", 1, &[(ZONES, "z3")]))
        .bound([on(labelled(pod("there", "1"), &app), "n")])
        .with([pod_with("p", "4", &near)]);
    assert_eq!(zones(&base.solve()), ["z3"].into(), "near who is there");
    base.options.preferences = Preferences::Ignore;
    assert_eq!(
        capacity_types(&base.solve()),
        [CapacityType::Spot].into(),
        "which z3 does not have"
    );
}
