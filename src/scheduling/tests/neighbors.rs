//! Pods near to and far from each other.

use super::*;

fn app(name: &str) -> Value {
    json!({"app": name})
}

#[test]
fn a_pod_goes_to_the_node_of_the_one_it_must_be_near() {
    let near = labelled(
        pod_with("near", "1", &neighbor("podAffinity", HOST, &app("db"))),
        &app("web"),
    );
    let db = labelled(pod("db", "1"), &app("db"));
    let solved = cluster()
        .with([near, db])
        .with(pods(20, |name| pod(name, "1")))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(solved.place("near"), solved.place("db"));
}

#[test]
fn pods_near_to_their_own_kind_share_a_node_until_it_is_full() {
    let fields = neighbor("podAffinity", HOST, &app("web"));
    let solved = cluster()
        .with(pods(20, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert_eq!(
        solved.sizes(),
        [15],
        "the largest machine holds fifteen beside what the system keeps"
    );
    assert!(solved.words()[0].contains("must be near"), "{:?}", solved.words());
}

#[test]
fn pods_near_to_their_own_kind_by_zone_share_one() {
    let fields = neighbor("podAffinity", ZONES, &app("web"));
    let solved = cluster()
        .with(pods(20, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert!(solved.all_placed());
    assert_eq!((solved.skew(ZONES), zones(&solved).len()), (vec![20], 1));
}

#[test]
fn the_zone_of_a_pod_that_others_must_be_near_is_known_at_once() {
    let near = |name: &str| {
        labelled(
            pod_with(name, "1", &neighbor("podAffinity", ZONES, &app("db"))),
            &app("web"),
        )
    };
    let solved = cluster()
        .with([labelled(pod("db", "15"), &app("db"))])
        .with(pods(3, near))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(zones(&solved).len(), 1);
}

#[test]
fn chains_of_pods_that_must_be_near_each_other_are_followed() {
    let after = |name: &str, of: &str| {
        labelled(
            pod_with(name, "1", &neighbor("podAffinity", HOST, &app(of))),
            &app(name),
        )
    };
    let solved = cluster()
        .with([
            after("ui", "cache"),
            after("cache", "web"),
            after("web", "db"),
            labelled(pod("db", "1"), &app("db")),
        ])
        .solve();
    assert_eq!(solved.sizes(), [4]);
    let circle = cluster().with([after("a", "b"), after("b", "a")]).solve();
    assert_eq!(circle.plan.pods_left_out(), 2);
}

/// Fields of a pod that must be near to pods of these two sorts, by these labels of nodes.
fn near_both(one: (&str, &Value), other: (&str, &Value)) -> Value {
    let near = |(key, labels)| neighbor("podAffinity", key, labels);
    both(&near(one), &near(other))
}

#[test]
fn a_pod_near_to_two_that_are_not_one_is_left_out_with_the_reason() {
    let fields = near_both((HOST, &app("db")), (ZONES, &app("cache")));
    let there = |name: &str| on(labelled(pod(name, "1"), &app(name)), "n");
    let solved = cluster()
        .node(node("n", 8, &[(ZONES, "z1")]))
        .bound([there("db"), there("cache")])
        .with([labelled(pod_with("p", "1", &fields), &app("web"))])
        .solve();
    assert_eq!((solved.claims(), solved.all_placed()), (0, false));
    let words = "is meant by all of its required pod affinities at once";
    assert!(
        solved.words().iter().all(|said| said.contains(words)),
        "{:?}",
        solved.words()
    );
}

#[test]
fn a_pod_near_to_two_sorts_goes_to_one_that_is_both() {
    let cache = json!({"role": "cache"});
    let fields = near_both((HOST, &app("db")), (ZONES, &cache));
    let there = |name: &str, labels: &Value| on(labelled(pod(name, "1"), labels), name);
    let solved = cluster()
        .node(node("either", 8, &[(ZONES, "z1")]))
        .node(node("whole", 8, &[(ZONES, "z1")]))
        .bound([
            there("either", &app("db")),
            there("whole", &both(&app("db"), &cache)),
        ])
        .with([labelled(pod_with("p", "1", &fields), &app("web"))])
        .solve();
    assert_eq!(solved.place("p").as_deref(), Some("whole"));
}

#[test]
fn pods_that_all_their_own_terms_mean_begin_where_others_are_meant_by_one_only() {
    let front = json!({"tier": "front"});
    let fields = near_both((ZONES, &app("web")), (HOST, &front));
    let own = both(&app("web"), &front);
    let solved = cluster()
        .node(node("n", 1, &[(ZONES, "z1")]))
        .bound([on(labelled(pod("there", "1"), &app("web")), "n")])
        .with(pods(3, |name| labelled(pod_with(name, "1", &fields), &own)))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.sizes(), [3]);
}

#[test]
fn the_first_of_its_kind_has_its_wish_to_be_near_others_too() {
    let fields = both(
        &neighbor("podAffinity", ZONES, &app("web")),
        &preferred_neighbor("podAffinity", ZONES, &app("db")),
    );
    let solved = cluster()
        .node(node("n", 1, &[(ZONES, "z3")]))
        .bound([on(labelled(pod("db", "1"), &app("db")), "n")])
        .with(pods(3, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(zones(&solved), ["z3"].into());
}

#[test]
fn nobody_to_be_near_to_means_no_place() {
    let near = pod_with("near", "1", &neighbor("podAffinity", ZONES, &app("db")));
    assert_eq!(
        cluster().with([near]).solve().words(),
        ["NodePool default: no pod that it must be near by topology.kubernetes.io/zone is in reach"]
    );
}

#[test]
fn pods_far_from_their_own_kind_get_nodes_of_their_own() {
    let fields = neighbor("podAntiAffinity", HOST, &app("web"));
    let solved = cluster()
        .with(pods(3, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert_eq!(solved.sizes(), [1, 1, 1]);
}

#[test]
fn zones_of_their_own_run_out() {
    let fields = neighbor("podAntiAffinity", ZONES, &app("web"));
    let solved = cluster()
        .with(pods(5, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert_eq!(
        (solved.skew(ZONES), solved.plan.pods_left_out()),
        (vec![1, 1, 1], 2)
    );
    assert!(solved.words()[0].contains("must be far from by topology.kubernetes.io/zone are everywhere"));
}

#[test]
fn far_means_far_for_both_sides() {
    let keeps = labelled(
        pod_with("keeps", "2", &neighbor("podAntiAffinity", ZONES, &app("noisy"))),
        &app("quiet"),
    );
    let noisy = |name: &str| labelled(pod(name, "1"), &app("noisy"));
    let solved = cluster().with([keeps]).with(pods(3, noisy)).solve();
    assert!(solved.all_placed());
    let quiet = solved.place("keeps").unwrap();
    assert_eq!(solved.places()[&quiet].len(), 1);
    assert_eq!(zones(&solved).len(), 2);
}

#[test]
fn pods_on_nodes_keep_others_away_too() {
    let keeps = labelled(
        pod_with("keeps", "1", &neighbor("podAntiAffinity", ZONES, &app("noisy"))),
        &app("quiet"),
    );
    let base = cluster()
        .node(node("n", 4, &[(ZONES, "z1")]))
        .bound([on(keeps, "n")]);
    let solved = base.with([labelled(pod("noisy", "1"), &app("noisy"))]).solve();
    assert_eq!(solved.claims(), 1);
    assert!(!zones(&solved).contains("z1"));
}

#[test]
fn a_wish_to_be_far_keeps_nobody_else_away() {
    let wishes = preferred_neighbor("podAntiAffinity", ZONES, &app("noisy"));
    let quiet = labelled(pod_with("quiet", "1", &wishes), &app("quiet"));
    let base = cluster()
        .node(node("n", 4, &[(ZONES, "z1")]))
        .bound([on(quiet, "n")]);
    assert_eq!(
        base.with([labelled(pod("noisy", "1"), &app("noisy"))])
            .solve()
            .claims(),
        0
    );
}

#[test]
fn a_node_without_the_label_is_far_from_everything() {
    let fields = neighbor("podAntiAffinity", "rack", &app("web"));
    let solved = cluster()
        .with(pods(3, |name| {
            labelled(pod_with(name, "1", &fields), &app("web"))
        }))
        .solve();
    assert_eq!((solved.claims(), solved.all_placed()), (1, true));
}

#[test]
fn namespaces_decide_who_is_meant() {
    let term = |more: Value| {
        let mut term = json!({"topologyKey": ZONES, "labelSelector": {"matchLabels": app("db")}});
        term.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let mut db = labelled(pod("db", "1"), &app("db"));
    db.metadata.namespace = Some("data".to_owned());
    let placed = |more: Value| {
        let mut base = cluster().with([db.clone(), pod_with("near", "1", &term(more))]);
        base.namespaces = [("data".to_owned(), [("kind".to_owned(), "db".to_owned())].into())].into();
        base.solve().all_placed()
    };
    assert!(!placed(json!({})));
    assert!(placed(json!({"namespaces": ["data"]})));
    assert!(placed(json!({"namespaceSelector": {}})));
    assert!(placed(
        json!({"namespaceSelector": {"matchLabels": {"kind": "db"}}})
    ));
    assert!(!placed(
        json!({"namespaceSelector": {"matchLabels": {"kind": "web"}}})
    ));
}

#[test]
fn far_by_architecture_needs_another_architecture() {
    let types = vec![kind("x86", 4), with_arch(kind("arm", 4), "arm64")];
    let far = labelled(
        pod_with("far", "1", &neighbor("podAntiAffinity", ARCH, &app("db"))),
        &app("web"),
    );
    let db = labelled(
        pod_with("db", "1", &json!({"nodeSelector": {ARCH: "arm64"}})),
        &app("db"),
    );
    assert_eq!(
        cluster().types(types).with([far, db]).solve().types(),
        ["arm", "x86"]
    );
}

#[test]
fn near_by_architecture_needs_the_same_architecture() {
    let types = vec![kind("x86", 4), with_arch(kind("arm", 4), "arm64")];
    let near = labelled(
        pod_with("near", "3", &neighbor("podAffinity", ARCH, &app("db"))),
        &app("web"),
    );
    let db = labelled(
        pod_with("db", "3", &json!({"nodeSelector": {ARCH: "arm64"}})),
        &app("db"),
    );
    assert_eq!(
        cluster().types(types).with([near, db]).solve().types(),
        ["arm", "arm"]
    );
}

#[test]
fn pods_near_to_their_own_kind_stay_in_the_zones_that_they_may_be_in() {
    let mut fields = neighbor("podAffinity", ZONES, &app("web"));
    fields["nodeSelector"] = json!({ZONES: "z3"});
    let make = |name: &str| labelled(pod_with(name, "1", &fields), &app("web"));
    let solved = cluster().with(pods(5, make)).solve();
    assert!(solved.all_placed());
    assert_eq!(zones(&solved), ["z3"].into());
}

#[test]
fn empty_affinities_ask_for_nothing() {
    let empty = json!({"affinity": {"podAffinity": {}, "podAntiAffinity": {}, "nodeAffinity": {}}});
    assert!(cluster().with([pod_with("p", "1", &empty)]).solve().all_placed());
}

#[test]
fn a_pod_may_be_in_any_zone_where_whoever_would_avoid_it_has_no_place_at_all() {
    let free = labelled(
        pod_with("free", "100m", &node_in(ZONES, &["z2", "z3"])),
        &app("b"),
    );
    let mut fields = neighbor("podAntiAffinity", ZONES, &app("b"));
    fields["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "nobody-made-it"}}]);
    let shy = labelled(pod_with("shy", "100m", &fields), &app("a"));
    let solved = cluster().with([free, shy]).solve();
    assert_eq!(solved.places().into_keys().collect::<Vec<_>>(), ["new-0"]);
}
