//! What pods and pools ask of the labels and taints of nodes.

use super::*;

fn selects(key: &str, value: &str) -> core::Pod {
    pod_with("p", "1", &json!({"nodeSelector": {key: value}}))
}

fn expression(key: &str, operator: &str, values: &[&str]) -> core::Pod {
    let values = (!values.is_empty()).then_some(values);
    pod_with(
        "p",
        "1",
        &required(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])),
    )
}

#[test]
fn a_pool_limits_where_its_nodes_are() {
    let solved = cluster()
        .requires(ZONES, &Values::one_of(["z2"]))
        .with([pod("p", "1")])
        .solve();
    assert_eq!(zones(&solved), ["z2"].into());
}

#[test]
fn a_node_selector_chooses_among_what_the_pool_allows() {
    let wide = cluster().requires(ZONES, &Values::one_of(["z1", "z2"]));
    assert_eq!(
        zones(&wide.clone().with([selects(ZONES, "z2")]).solve()),
        ["z2"].into()
    );
    assert!(!wide.with([selects(ZONES, "z3")]).solve().all_placed());
}

#[test]
fn a_hostname_cannot_be_selected_on_a_node_that_is_not_there() {
    assert!(!cluster().with([selects(HOST, "mine")]).solve().all_placed());
    assert!(
        cluster()
            .with([expression(HOST, "NotIn", &["mine"])])
            .solve()
            .all_placed()
    );
}

#[test]
fn a_label_that_nobody_defines_is_absent() {
    let placed = |operator: &str, values: &[&str]| {
        cluster()
            .with([expression("team", operator, values)])
            .solve()
            .all_placed()
    };
    assert!(!placed("In", &["a"]));
    assert!(!placed("Exists", &[]));
    assert!(placed("NotIn", &["a"]));
    assert!(placed("DoesNotExist", &[]));
}

#[test]
fn labels_in_the_domains_of_kubernetes_and_below_them_are_labels_of_a_pool_like_any_other() {
    for key in [
        "kubernetes.io/test",
        "k8s.io/test",
        "node.kubernetes.io/test",
        "subdomain.node-restriction.kubernetes.io/test",
        "kops.k8s.io/instancegroup",
    ] {
        let asking = cluster().with([selects(key, "mine")]);
        assert!(!asking.clone().solve().all_placed(), "{key}");
        let mine = Values::one_of(["mine"]);
        let solved = asking.requires(key, &Values::one_of(["mine", "other"])).solve();
        assert_eq!(solved.plan.claims[0].requirements.get(key), Some(&mine));
    }
}

#[test]
fn a_label_of_the_pool_is_there() {
    let placed = |operator: &str, values: &[&str]| {
        let labelled = cluster().requires("team", &Values::one_of(["a"]));
        labelled
            .with([expression("team", operator, values)])
            .solve()
            .all_placed()
    };
    assert!(placed("In", &["a"]) && placed("Exists", &[]) && placed("NotIn", &["b"]));
    assert!(!placed("In", &["b"]) && !placed("DoesNotExist", &[]) && !placed("NotIn", &["a"]));
}

#[test]
fn numbers_are_compared() {
    let types = vec![kind("small", 2), kind("large", 8)];
    let mut sized = Vec::new();
    for mut kind in types {
        let cpu = (kind.capacity.get(CPU) / 1000).to_string();
        kind.requirements.narrow("cpus", &Values::one_of([cpu]));
        sized.push(kind);
    }
    let chosen = |operator: &str, value: &str| {
        let solved = cluster()
            .types(sized.clone())
            .with([expression("cpus", operator, &[value])])
            .solve();
        solved.types().first().map(|name| (*name).to_owned())
    };
    for (operator, value, expected) in [
        ("Gt", "1", Some("small")),
        ("Gt", "2", Some("large")),
        ("Gt", "8", None),
        ("Gte", "3", Some("large")),
        ("Gte", "8", Some("large")),
        ("Gte", "9", None),
        ("Lt", "8", Some("small")),
        ("Lt", "2", None),
        ("Lte", "2", Some("small")),
        ("Lte", "1", None),
    ] {
        assert_eq!(chosen(operator, value).as_deref(), expected, "{operator} {value}");
    }
}

/// A node of the seventh generation, which no pool knows of.
fn of_generation_7() -> Node {
    node("n", 4, &[("generation", "7")])
}

#[test]
fn a_number_that_only_a_node_has_is_compared() {
    for (operator, value, is_met) in [
        ("Gt", "3", true),
        ("Gt", "7", false),
        ("Gte", "7", true),
        ("Lt", "9", true),
        ("Lt", "7", false),
        ("Lte", "6", false),
    ] {
        let compares = expression("generation", operator, &[value]);
        let solved = cluster().node(of_generation_7()).with([compares]).solve();
        let place = solved.place("p");
        assert_eq!(place.as_deref(), is_met.then_some("n"), "{operator} {value}");
    }
    let older = node("n", 4, &[("beta.kubernetes.io/instance-type", "7")]);
    let compares = expression(INSTANCE_TYPE, "Gt", &["3"]);
    let solved = cluster().node(older).with([compares]).solve();
    assert_eq!(
        solved.place("p").as_deref(),
        Some("n"),
        "by the older name of a label"
    );
}

#[test]
fn a_daemon_that_compares_a_number_takes_its_part_of_a_node_that_has_it() {
    let place = |generation: &str| {
        let mut daemon = expression("generation", "Gt", &[generation]);
        daemon.metadata.name = Some("d".to_owned());
        let base = cluster().node(of_generation_7()).daemon(daemon);
        base.with([pod("p", "3500m")]).solve().place("p")
    };
    assert_eq!(place("3").as_deref(), Some("new-0"));
    assert_eq!(place("7").as_deref(), Some("n"));
}

#[test]
fn a_node_counts_where_pods_are_spread_over_nodes_with_a_later_number() {
    let app = json!({"app": "a"});
    let newer =
        required(&json!([{"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["3"]}]}]));
    let fields = both(&spread("rack", 1, &app, &json!({})), &newer);
    let there = |name: &str, rack: &str| node(name, 4, &[("generation", "7"), ("rack", rack)]);
    let before = on(labelled(pod("before", "1"), &app), "one");
    let base = cluster()
        .node(there("one", "r1"))
        .node(there("two", "r2"))
        .bound([before]);
    let solved = base.with([labelled(pod_with("p", "1", &fields), &app)]).solve();
    assert_eq!(solved.place("p").as_deref(), Some("two"));
}

#[test]
fn pods_that_contradict_each_other_go_to_different_nodes() {
    let both = [
        pod_with("a", "1", &node_in(ZONES, &["z1"])),
        pod_with("b", "1", &node_in(ZONES, &["z2"])),
    ];
    assert_eq!(cluster().with(both).solve().claims(), 2);
    let same = [
        pod_with("a", "1", &node_in(ZONES, &["z1", "z2"])),
        pod_with("b", "1", &node_in(ZONES, &["z2"])),
    ];
    let solved = cluster().with(same).solve();
    assert_eq!((solved.claims(), zones(&solved)), (1, ["z2"].into()));
}

#[test]
fn a_claim_carries_what_its_pods_require_so_that_launch_can_still_choose() {
    let solved = cluster()
        .with([pod_with("a", "1", &node_in(ZONES, &["z1", "z2"]))])
        .solve();
    let claim = &solved.plan.claims[0];
    assert_eq!(claim.requirements.get(ZONES), Some(&Values::one_of(["z1", "z2"])));
    let names: Vec<&str> = claim.option_names(&solved.snapshot).collect();
    assert_eq!(names, ["type-02", "type-04", "type-08", "type-16"]);
    assert_eq!(claim.requests.get(CPU), 1000);
}

#[test]
fn types_are_told_apart_by_their_labels() {
    let types = vec![kind("cheap", 2), with_arch(kind("arm", 4), "arm64")];
    let both = [selects_arch("a", "amd64"), selects_arch("b", "arm64")];
    let solved = cluster().types(types).with(both).solve();
    assert_eq!(solved.types(), ["arm", "cheap"]);
}

fn selects_arch(name: &str, arch: &str) -> core::Pod {
    pod_with(name, "1", &json!({"nodeSelector": {ARCH: arch}}))
}

#[test]
fn a_label_that_only_some_types_have_is_absent_on_the_others() {
    let mut special = kind("special", 16);
    special.requirements.narrow("fast-disk", &Values::one_of(["yes"]));
    let types = vec![kind("plain", 4), special];
    let with = |pod: core::Pod| cluster().types(types.clone()).with([pod]).solve();
    assert_eq!(with(selects("fast-disk", "yes")).types(), ["special"]);
    assert_eq!(with(expression("fast-disk", "Exists", &[])).types(), ["special"]);
    assert_eq!(
        with(expression("fast-disk", "DoesNotExist", &[])).types(),
        ["plain"]
    );
    assert_eq!(with(pod("p", "1")).types(), ["plain"]);
}

#[test]
fn one_of_several_required_terms_will_do() {
    let terms = json!([
        {"matchExpressions": [{"key": ZONES, "operator": "In", "values": ["nowhere"]}]},
        {"matchExpressions": [{"key": ZONES, "operator": "In", "values": ["z3"]}]},
    ]);
    let solved = cluster().with([pod_with("p", "1", &required(&terms))]).solve();
    assert_eq!(zones(&solved), ["z3"].into());
    let none = json!([{"matchExpressions": [{"key": ZONES, "operator": "In", "values": ["nowhere"]}]}]);
    assert!(
        !cluster()
            .with([pod_with("p", "1", &required(&none))])
            .solve()
            .all_placed()
    );
}

#[test]
fn older_names_of_labels_mean_the_same() {
    let old = selects("failure-domain.beta.kubernetes.io/zone", "z3");
    assert_eq!(zones(&cluster().with([old]).solve()), ["z3"].into());
}

#[test]
fn a_pool_can_be_selected_by_name_whatever_the_others_weigh() {
    let mut heavy = pool("heavy", vec![kind("x", 4)]);
    heavy.weight = 50;
    let both = cluster().and_pool(heavy);
    assert_eq!(both.clone().with([pod("p", "1")]).solve().pools(), ["heavy"]);
    assert_eq!(
        both.with([selects(NODE_POOL, "default")]).solve().pools(),
        ["default"]
    );
}

#[test]
fn among_pools_of_the_same_weight_the_cheaper_one_is_taken() {
    let dear = pool("a-dear", vec![kind("x", 16)]);
    assert_eq!(
        cluster().and_pool(dear).with([pod("p", "1")]).solve().pools(),
        ["default"]
    );
}

#[test]
fn a_taint_must_be_tolerated() {
    let tainted = cluster().pool(|pool| pool.taints.push(taint("team", "NoSchedule")));
    assert!(!tainted.clone().with([pod("p", "1")]).solve().all_placed());
    let tolerates = pod_with(
        "p",
        "1",
        &json!({"tolerations": [{"key": "team", "operator": "Exists"}]}),
    );
    assert!(tainted.with([tolerates]).solve().all_placed());
}

#[test]
fn a_pool_whose_requirements_leave_no_type_is_passed_over() {
    let solved = cluster()
        .requires(ZONES, &Values::one_of(["nowhere"]))
        .and_pool(pool("other", vec![kind("x", 4)]))
        .with([pod("p", "1")])
        .solve();
    assert_eq!(solved.pools(), ["other"]);
}

#[test]
fn without_any_pool_every_pod_is_left_out() {
    let mut none = cluster().with([pod("p", "1")]);
    none.pools.clear();
    assert_eq!(
        none.solve().words(),
        ["there is neither a node nor a ready NodePool"]
    );
}

#[test]
fn an_operating_system_and_an_instance_type_can_be_selected() {
    let mut windows = kind("windows", 4);
    windows.requirements = Requirements::new();
    windows
        .requirements
        .narrow(INSTANCE_TYPE, &Values::one_of(["windows"]));
    windows.requirements.narrow(OS, &Values::one_of(["windows"]));
    let base = cluster().types(vec![kind("small", 2), kind("large", 8), windows]);
    let types = |pod: core::Pod| base.clone().with([pod]).solve().types().join(" ");
    assert_eq!(types(selects(OS, "linux")), "small");
    assert_eq!(types(selects(OS, "windows")), "windows");
    assert_eq!(types(selects(OS, "plan9")), "");
    assert_eq!(
        types(selects(INSTANCE_TYPE, "large")),
        "large",
        "although it is dearer"
    );
    assert_eq!(
        types(expression(INSTANCE_TYPE, "NotIn", &["small", "windows"])),
        "large"
    );
    assert_eq!(types(selects(INSTANCE_TYPE, "huge")), "");
}
