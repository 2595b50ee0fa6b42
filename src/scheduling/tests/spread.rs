//! Pods spread evenly.

use super::*;

fn web() -> Value {
    json!({"app": "web"})
}

fn spread_pods(number: usize, fields: &Value) -> Vec<core::Pod> {
    pods(number, |name| labelled(pod_with(name, "1", fields), &web()))
}

fn over(key: &str, skew: i32) -> Value {
    spread(key, skew, &web(), &json!({}))
}

#[test]
fn pods_are_spread_over_zones() {
    assert_eq!(
        cluster()
            .with(spread_pods(7, &over(ZONES, 1)))
            .solve()
            .skew(ZONES),
        [2, 2, 3]
    );
}

#[test]
fn expressions_select_as_labels_do() {
    let selector =
        json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}});
    let fields = spread(ZONES, 1, &web(), &selector);
    assert_eq!(
        cluster().with(spread_pods(4, &fields)).solve().skew(ZONES),
        [1, 1, 2]
    );
}

#[test]
fn only_zones_that_the_pool_allows_count() {
    let narrow = cluster().requires(ZONES, &Values::one_of(["z1", "z2"]));
    assert_eq!(
        narrow.with(spread_pods(4, &over(ZONES, 1))).solve().skew(ZONES),
        [2, 2]
    );
}

#[test]
fn a_zone_in_which_nothing_can_be_had_does_not_block_the_others() {
    let mut types = vec![kind("x", 4)];
    for offering in types[0]
        .offerings
        .iter_mut()
        .filter(|offering| offering.zone == "z3")
    {
        offering.availability = Availability::Unsold(crate::model::Unsold::NoSubnet);
    }
    let solved = cluster()
        .types(types)
        .with(spread_pods(4, &over(ZONES, 1)))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(solved.skew(ZONES), [2, 2]);
}

#[test]
fn pods_that_are_there_are_counted() {
    let base = cluster()
        .node(node("n1", 1, &[(ZONES, "z1")]))
        .node(node("n2", 1, &[(ZONES, "z2")]));
    let there = |name: &str, node: &str| on(labelled(pod(name, "1"), &web()), node);
    let solved = base
        .bound([there("a", "n1"), there("b", "n2")])
        .with(spread_pods(1, &over(ZONES, 1)))
        .solve();
    assert_eq!(zones(&solved), ["z3"].into());
}

#[test]
fn pods_that_are_not_selected_or_elsewhere_are_not_counted() {
    let mut foreign = on(labelled(pod("f", "1"), &web()), "n1");
    foreign.metadata.namespace = Some("other".to_owned());
    let unlike = on(labelled(pod("u", "1"), &json!({"app": "db"})), "n1");
    let nowhere = on(labelled(pod("x", "1"), &web()), "n2");
    let base = cluster()
        .requires(ZONES, &Values::one_of(["z1"]))
        .node(node("n1", 2, &[(ZONES, "z1")]))
        .node(node("n2", 1, &[]))
        .bound([foreign, unlike, nowhere]);
    assert_eq!(base.with(spread_pods(2, &over(ZONES, 1))).solve().claims(), 1);
}

#[test]
fn where_only_the_fullest_can_be_had_nobody_goes_beyond_the_skew() {
    let crowded = cluster()
        .requires(ZONES, &Values::one_of(["z1"]))
        .node(node("n1", 1, &[(ZONES, "z1")]))
        .node(node("n2", 1, &[(ZONES, "z2")]))
        .bound([on(labelled(pod("a", "1"), &web()), "n1"), on(pod("b", "1"), "n2")]);
    let solved = crowded.with(spread_pods(3, &over(ZONES, 1))).solve();
    assert_eq!(solved.plan.placements.len(), 0, "z2 has none, and takes none");
    assert!(
        solved.words().iter().any(|words| words.contains("only in [z2]")),
        "{:?}",
        solved.words()
    );
}

#[test]
fn pods_are_spread_over_nodes_by_buying_more() {
    assert_eq!(
        cluster().with(spread_pods(4, &over(HOST, 1))).solve().sizes(),
        [1, 1, 1, 1]
    );
    assert_eq!(
        cluster().with(spread_pods(3, &over(HOST, 3))).solve().sizes(),
        [3]
    );
}

#[test]
fn several_workloads_spread_over_the_same_nodes() {
    let other = json!({"app": "db"});
    let first = spread_pods(4, &over(HOST, 1));
    let fields = spread(HOST, 1, &other, &json!({}));
    let second = pods(4, |name| {
        labelled(pod_with(&format!("q{name}"), "1", &fields), &other)
    });
    assert_eq!(cluster().with(first).with(second).solve().sizes(), [2, 2, 2, 2]);
}

#[test]
fn pods_are_spread_over_capacity_types_and_architectures() {
    assert_eq!(
        cluster()
            .with(spread_pods(4, &over(CAPACITY, 1)))
            .solve()
            .skew(CAPACITY),
        [2, 2]
    );
    let types = vec![kind("x86", 4), with_arch(kind("arm", 4), "arm64")];
    assert_eq!(
        cluster()
            .types(types)
            .with(spread_pods(4, &over(ARCH, 1)))
            .solve()
            .skew(ARCH),
        [2, 2]
    );
}

#[test]
fn two_spreads_hold_together() {
    let mut both = over(ZONES, 1);
    let more = over(HOST, 3)["topologySpreadConstraints"][0].clone();
    both["topologySpreadConstraints"]
        .as_array_mut()
        .unwrap()
        .push(more);
    let solved = cluster().with(spread_pods(10, &both)).solve();
    assert_eq!(solved.skew(ZONES), [3, 3, 4]);
    assert!(solved.sizes().iter().all(|pods| *pods <= 3));
}

#[test]
fn with_too_few_values_the_emptiest_counts_as_empty() {
    let two = || cluster().requires(ZONES, &Values::one_of(["z1", "z2"]));
    let asks = |least: i32| spread(ZONES, 1, &web(), &json!({"minDomains": least}));
    let few = two().with(spread_pods(3, &asks(3))).solve();
    assert_eq!(
        few.skew(ZONES),
        [1, 1],
        "the third would make one of two zones exceed an empty third by two"
    );
    assert_eq!(two().with(spread_pods(4, &asks(2))).solve().skew(ZONES), [2, 2]);
}

#[test]
fn a_pod_that_may_be_in_some_zones_only_is_measured_against_those() {
    let mut fields = over(ZONES, 1);
    fields["nodeSelector"] = json!({ZONES: "z1"});
    assert_eq!(cluster().with(spread_pods(3, &fields)).solve().skew(ZONES), [3]);
    let mut ignores = spread(ZONES, 1, &web(), &json!({"nodeAffinityPolicy": "Ignore"}));
    ignores["nodeSelector"] = json!({ZONES: "z1"});
    let placed = |base: Cluster| base.with(spread_pods(3, &ignores)).solve().plan.placements.len();
    let elsewhere = node("n", 1, &[(ZONES, "z2")]);
    assert_eq!(placed(cluster().node(elsewhere)), 1, "z2 stays empty");
    assert_eq!(placed(cluster()), 3, "nobody has a node there");
}

#[test]
fn tainted_nodes_count_unless_that_is_honored() {
    let mut tainted = node("n", 4, &[("rack", "b")]);
    tainted.taints.push(taint("team", "NoSchedule"));
    let base = || {
        cluster()
            .requires("rack", &Values::one_of(["a"]))
            .node(tainted.clone())
    };
    let ignored = spread("rack", 1, &web(), &json!({}));
    assert_eq!(
        base()
            .with(spread_pods(3, &ignored))
            .solve()
            .plan
            .placements
            .len(),
        1
    );
    let honored = spread("rack", 1, &web(), &json!({"nodeTaintsPolicy": "Honor"}));
    assert_eq!(
        base()
            .with(spread_pods(3, &honored))
            .solve()
            .plan
            .placements
            .len(),
        3
    );
}

#[test]
fn pods_of_different_revisions_are_spread_apart_from_each_other() {
    let fields = spread(
        ZONES,
        1,
        &web(),
        &json!({"matchLabelKeys": ["revision", "missing"]}),
    );
    let revision = |revision: &'static str| {
        let fields = fields.clone();
        move |name: &str| {
            labelled(
                pod_with(&format!("{revision}{name}"), "1", &fields),
                &json!({"app": "web", "revision": revision}),
            )
        }
    };
    let solved = cluster()
        .with(pods(3, revision("a")))
        .with(pods(3, revision("b")))
        .solve();
    assert_eq!(solved.skew(ZONES), [2, 2, 2]);
}

#[test]
fn a_label_that_no_node_can_have_spreads_nobody() {
    assert!(
        !cluster()
            .with(spread_pods(1, &over("unknown", 1)))
            .solve()
            .all_placed()
    );
}

#[test]
fn a_selector_that_is_absent_or_has_no_meaning_counts_nobody() {
    let nothing = json!({"topologySpreadConstraints": [{"topologyKey": ZONES, "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule"}]});
    assert_eq!(cluster().with(spread_pods(3, &nothing)).solve().claims(), 1);
    let odd = spread(
        ZONES,
        1,
        &web(),
        &json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}),
    );
    assert_eq!(cluster().with(spread_pods(3, &odd)).solve().claims(), 1);
}

#[test]
fn whoever_is_counted_is_in_a_known_place() {
    let plain = pods(3, |name| labelled(pod(&format!("plain{name}"), "1"), &web()));
    let solved = cluster()
        .with(plain)
        .with(spread_pods(3, &over(ZONES, 1)))
        .solve();
    assert!(solved.all_placed());
    for claim in &solved.plan.claims {
        let zones = claim.requirements.get(ZONES).and_then(Values::listed).unwrap();
        assert_eq!(zones.len(), 1);
    }
}

#[test]
fn pools_that_differ_in_a_label_are_balanced() {
    let mut spot = pool("b-spot", vec![kind("x", 4)]);
    spot.requirements
        .narrow("ratio", &Values::one_of(["2", "3", "4"]));
    let base = cluster().requires("ratio", &Values::one_of(["1"])).and_pool(spot);
    let solved = base.with(spread_pods(8, &over("ratio", 1))).solve();
    assert_eq!(solved.skew("ratio"), [2, 2, 2, 2]);
}

#[test]
fn three_spreads_hold_together() {
    let mut all = over(ZONES, 1);
    for key in [HOST, CAPACITY] {
        let more = over(key, 1)["topologySpreadConstraints"][0].clone();
        all["topologySpreadConstraints"]
            .as_array_mut()
            .unwrap()
            .push(more);
    }
    let solved = cluster().with(spread_pods(6, &all)).solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(
        (solved.skew(ZONES), solved.skew(CAPACITY), solved.sizes()),
        (vec![2, 2, 2], vec![3, 3], vec![1; 6])
    );
}

#[test]
fn workloads_that_count_each_other_instead_of_themselves_are_all_placed() {
    let counts = |own: &str, other: &str, at: usize| {
        let fields = spread(ZONES, 1, &json!({"app": other}), &json!({}));
        let name = format!("{own}-{at}");
        labelled(pod_with(&name, "1", &fields), &json!({"app": own}))
    };
    let all = (0..4).flat_map(|at| [counts("a", "b", at), counts("b", "a", at)]);
    let solved = cluster().with(all).solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
}

#[test]
fn pools_that_others_cannot_use_are_no_places_where_taints_are_honored() {
    let red = || {
        let mut red = pool("red", vec![kind("x", 4)]);
        red.taints.push(taint("team", "NoSchedule"));
        red.requirements.narrow("side", &Values::one_of(["left"]));
        red
    };
    let solve = |base: Cluster, policy: &str| {
        base.requires("side", &Values::one_of(["right"]))
            .and_pool(red())
            .with(spread_pods(
                3,
                &spread("side", 1, &web(), &json!({"nodeTaintsPolicy": policy})),
            ))
            .solve()
    };
    let mut left = node("n", 4, &[("side", "left")]);
    left.taints.push(taint("team", "NoSchedule"));
    let there = || cluster().node(left.clone());
    assert!(solve(there(), "Honor").all_placed());
    assert_eq!(
        solve(there(), "Ignore").plan.pods_left_out(),
        2,
        "the left side stays empty"
    );
    assert!(solve(cluster(), "Ignore").all_placed(), "there is no left side");
}

/// Two zones, and a third one from a pool of its own.
fn with_third_zone(third: Pool) -> Cluster {
    let mut third = third;
    third.requirements.narrow(ZONES, &Values::one_of(["z3"]));
    cluster()
        .requires(ZONES, &Values::one_of(["z1", "z2"]))
        .and_pool(third)
}

fn limited(cpu: i64) -> Pool {
    let mut third = pool("third", vec![kind("x", 2)]);
    third.limits = Some(Resources::new().with(CPU, cpu));
    third
}

#[test]
fn a_zone_in_which_a_limit_is_reached_does_not_block_the_others() {
    let solved = with_third_zone(limited(0))
        .with(spread_pods(6, &over(ZONES, 1)))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.skew(ZONES), [3, 3]);
}

#[test]
fn a_zone_in_which_everything_is_too_small_does_not_block_the_others() {
    let solved = with_third_zone(pool("third", vec![kind("tiny", 1)]))
        .with(spread_pods(6, &over(ZONES, 1)))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.skew(ZONES), [3, 3]);
}

#[test]
fn a_zone_counts_once_a_node_is_bought_there() {
    let solved = with_third_zone(limited(2000))
        .with(spread_pods(6, &over(ZONES, 1)))
        .solve();
    assert_eq!(
        solved.skew(ZONES),
        [1, 2, 2],
        "one has room in the third, and the sixth would be a third one elsewhere"
    );
    assert_eq!(solved.plan.pods_left_out(), 1);
}

#[test]
fn a_zone_without_which_pods_were_let_in_is_not_brought_by_others() {
    let mut alone = spread(
        CAPACITY,
        1,
        &json!({"app": "y"}),
        &json!({"nodeAffinityPolicy": "Ignore"}),
    );
    alone["nodeSelector"] = json!({ZONES: "z3"});
    let y =
        |name: &str, cpu: &str, fields: &Value| labelled(pod_with(name, cpu, fields), &json!({"app": "y"}));
    let mut spot = limited(0);
    spot.name = "spot".to_owned();
    spot.requirements.narrow(CAPACITY, &Values::one_of(["spot"]));
    let solved = with_third_zone(pool("third", vec![kind("tiny", 1)]))
        .requires(CAPACITY, &Values::one_of(["on-demand"]))
        .and_pool(spot)
        .node(node("n", 1, &[(ZONES, "z1"), (CAPACITY, "on-demand")]))
        .bound([on(y("there", "1", &json!({})), "n")])
        .with(spread_pods(4, &over(ZONES, 1)))
        .with([y("y", "500m", &alone)])
        .solve();
    assert_eq!(solved.skew(ZONES), [2, 2], "{:?}", solved.words());
    assert_eq!(
        solved.place("y"),
        None,
        "it would be an empty zone for the others"
    );
    let y = solved.plan.left_out[0].pods[0];
    assert_eq!(
        remedy(&solved.snapshot, &solved.plan, Options::default(), y),
        None,
        "once they have their nodes, nothing needs to be changed"
    );
}

#[test]
fn a_node_that_lacks_one_of_the_labels_to_be_spread_over_counts_for_none_of_them() {
    let mut both = over(ZONES, 1);
    let more = over("rack", 1)["topologySpreadConstraints"][0].clone();
    both["topologySpreadConstraints"]
        .as_array_mut()
        .unwrap()
        .push(more);
    let placed = |labels: &[(&str, &str)]| {
        let base = cluster()
            .requires(ZONES, &Values::one_of(["z1"]))
            .requires("rack", &Values::one_of(["a"]))
            .node(node("other", 1, labels))
            .bound([on(pod("there", "1"), "other")]);
        let solved = base.with(spread_pods(3, &both)).solve();
        solved.plan.placements.len()
    };
    assert_eq!(placed(&[(ZONES, "z2")]), 3, "without a rack it is no zone either");
    assert_eq!(placed(&[(ZONES, "z2"), ("rack", "b")]), 1, "z2 stays empty");
}

#[test]
fn whoever_is_counted_only_in_some_zones_is_counted_where_it_stays() {
    let mut fields = spread(CAPACITY, 1, &json!({"app": "a"}), &json!({"minDomains": 2}));
    fields = both(&fields, &node_in(ZONES, &["z2", "z3"]));
    let spot = json!({"nodeSelector": {CAPACITY: "spot"}});
    let anywhere = ["one", "two"].map(|name| labelled(pod_with(name, "3", &spot), &json!({"app": "a"})));
    let even = pods(2, |name| {
        labelled(pod_with(name, "1", &fields), &json!({"app": "a"}))
    });
    let here = ["three", "four"].map(|name| pod_with(name, "500m", &json!({"nodeSelector": {ZONES: "z1"}})));
    let solved = cluster()
        .types(vec![kind("type-01", 2), kind("type-02", 4)])
        .with(anywhere)
        .with(even)
        .with(here)
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    for name in ["one", "two"] {
        let of_pod = |claim: &&NewClaim| claim.members(&solved.snapshot).any(|pod| pod.name == name);
        let claim = solved.plan.claims.iter().find(of_pod).unwrap();
        let zones = claim.requirements.get(ZONES).and_then(Values::listed);
        assert_eq!(zones.map(BTreeSet::len), Some(1), "{name} is in a known zone");
    }
}
