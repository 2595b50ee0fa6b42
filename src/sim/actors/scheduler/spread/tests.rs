use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sim::actors::scheduler::samples::{node, on, pod, view, zoned};
use crate::sim::actors::view::View;

fn constraint(more: Value) -> Value {
    let mut one = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                         "labelSelector": {"matchLabels": {"app": "web"}}});
    if let Value::Object(fields) = more {
        for (field, value) in fields {
            one[field] = value;
        }
    }
    json!({"topologySpreadConstraints": [one]})
}

fn web(name: &str, spec: Value) -> Pod {
    pod(name, &json!({"app": "web"}), spec)
}

/// The nodes that spread alone would allow.
fn allowed<'v>(view: &'v View, pod: &Pod) -> Vec<&'v str> {
    let board = Board::new(view);
    let spread = Spread::new(&board, pod);
    let fits = board
        .sites
        .values()
        .filter(|site| spread.check(pod, site.node).is_ok());
    fits.map(|site| site.name).collect()
}

/// Zone a has two pods of the kind, zone b one, zone c none.
fn uneven() -> View {
    let nodes = [
        zoned("a1", "a"),
        zoned("b1", "b"),
        zoned("c1", "c"),
        node("none", &json!({})),
    ];
    let pods = [
        on("a1", web("p1", json!({}))),
        on("a1", web("p2", json!({}))),
        on("b1", web("p3", json!({}))),
    ];
    view(&nodes, &pods)
}

#[test]
fn a_constraint_allows_the_domains_that_stay_within_the_skew() {
    let table = [
        (json!({}), vec!["c1"]),
        (json!({"maxSkew": 2}), vec!["b1", "c1"]),
        (json!({"maxSkew": 3}), vec!["a1", "b1", "c1"]),
        (json!({"minDomains": 3}), vec!["c1"]),
        (json!({"minDomains": 4, "maxSkew": 2}), vec!["b1", "c1"]),
        (
            json!({"labelSelector": {"matchLabels": {"app": "none"}}}),
            vec!["a1", "b1", "c1"],
        ),
        (
            json!({"labelSelector": {"matchLabels": null}}),
            vec!["a1", "b1", "c1"],
        ),
        (json!({"labelSelector": null}), vec!["a1", "b1", "c1"]),
        (json!({"topologyKey": HOSTNAME}), vec!["c1", "none"]),
        (
            json!({"whenUnsatisfiable": "ScheduleAnyway"}),
            vec!["a1", "b1", "c1", "none"],
        ),
    ];
    for (more, expected) in table {
        let spec = constraint(more.clone());
        assert_eq!(allowed(&uneven(), &web("new", spec)), expected, "{more}");
    }
}

#[test]
fn too_few_domains_count_as_if_an_empty_one_existed() {
    let nodes = [zoned("a1", "a"), zoned("b1", "b")];
    let pods = [on("a1", web("p1", json!({}))), on("b1", web("p2", json!({})))];
    let view = view(&nodes, &pods);
    assert_eq!(allowed(&view, &web("new", constraint(json!({})))), ["a1", "b1"]);
    let three = constraint(json!({"minDomains": 3}));
    assert_eq!(allowed(&view, &web("new", three)), Vec::<&str>::new());
}

#[test]
fn nodes_that_the_pod_cannot_use_count_by_policy() {
    let mut tainted = zoned("c1", "c");
    let taint = json!([{"key": "x", "effect": "NoSchedule"}]);
    tainted.spec = serde_json::from_value(json!({"taints": taint})).unwrap();
    let nodes = [zoned("a1", "a"), zoned("b1", "b"), tainted];
    let pods = [on("a1", web("p1", json!({}))), on("b1", web("p2", json!({})))];
    let view = view(&nodes, &pods);
    let with = |more: Value, selector: Value| {
        let mut spec = constraint(more);
        spec["nodeSelector"] = selector;
        allowed(&view, &web("new", spec))
    };
    // By default a tainted node is a domain that holds the others back, and a node outside the selector is none.
    assert_eq!(with(json!({}), json!({})), ["c1"]);
    assert_eq!(
        with(json!({"nodeTaintsPolicy": "Honor"}), json!({})),
        ["a1", "b1", "c1"]
    );
    let only_a = json!({ZONE: "a"});
    assert_eq!(with(json!({}), only_a.clone()), ["a1", "b1", "c1"]);
    assert_eq!(with(json!({"nodeAffinityPolicy": "Ignore"}), only_a), ["c1"]);
}

#[test]
fn keys_narrow_the_kind_and_pods_that_go_or_live_elsewhere_do_not_count() {
    let nodes = [zoned("a1", "a"), zoned("b1", "b")];
    let mut going = on("a1", web("p1", json!({})));
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        jiff::Timestamp::UNIX_EPOCH,
    ));
    let mut elsewhere = on("a1", web("p2", json!({})));
    elsewhere.metadata.namespace = Some("other".to_owned());
    let old = on("a1", pod("p3", &json!({"app": "web", "hash": "1"}), json!({})));
    let view = view(&nodes, &[going, elsewhere, old]);
    assert_eq!(allowed(&view, &web("new", constraint(json!({})))), ["b1"]);
    let new = pod(
        "new",
        &json!({"app": "web", "hash": "2"}),
        constraint(json!({"matchLabelKeys": ["hash"]})),
    );
    assert_eq!(allowed(&view, &new), ["a1", "b1"]);
}

#[test]
fn soft_constraints_prefer_the_emptier_domain() {
    let view = uneven();
    let board = Board::new(&view);
    let fitting: Vec<&Site<'_>> = board.sites.values().collect();
    let soft = web("new", constraint(json!({"whenUnsatisfiable": "ScheduleAnyway"})));
    let crowding = crowding(&board, &soft, &fitting).unwrap();
    assert_eq!(crowding.last(), Some(&None), "a node without the label is out");
    assert!(crowding[0] > crowding[1] && crowding[1] > crowding[2]);
}

#[test]
fn pods_that_say_nothing_are_spread_by_the_selector_of_their_owner() {
    let mut view = uneven();
    super::super::samples::add::<k8s_openapi::api::apps::v1::ReplicaSet>(
        &mut view,
        json!({"metadata": {"name": "web", "namespace": "default"},
               "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
    );
    let mut owned = web("new", json!({}));
    owned.metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]))
    .unwrap();
    let board = Board::new(&view);
    let fitting: Vec<&Site<'_>> = board.sites.values().collect();
    assert!(crowding(&board, &web("new", json!({})), &fitting).is_none());
    let crowding = crowding(&board, &owned, &fitting).unwrap();
    assert!(crowding[0] > crowding[2]);
}

/// A small cluster: the zone of each node if it has one, and for each pod its node, whether it is of the kind, and
/// whether it is going.
type Cluster = (Vec<Option<u8>>, Vec<(usize, bool, bool)>);

fn clusters() -> impl Strategy<Value = Cluster> {
    let zones = prop::collection::vec(prop::option::weighted(0.9, 0..3_u8), 1..6);
    let pods = prop::collection::vec(
        (0..6_usize, prop::bool::weighted(0.8), prop::bool::weighted(0.1)),
        0..12,
    );
    (zones, pods)
}

proptest! {
    /// The definition, word by word: put the pod there, count the pods of its kind in the domain, and compare with the
    /// emptiest domain as it was.
    #[test]
    fn the_verdict_is_that_of_the_definition(
        (zones, placed) in clusters(),
        max_skew in 1..4_i64,
        min_domains in prop::option::of(1..4_i64),
        of_the_kind: bool,
    ) {
        let name = |at: usize| format!("n{at}");
        let nodes: Vec<Node> = zones.iter().enumerate().map(|(at, zone)| match zone {
            Some(zone) => zoned(&name(at), &zone.to_string()),
            None => node(&name(at), &json!({})),
        }).collect();
        let label = |kind: bool| json!({"app": if kind { "web" } else { "other" }});
        let pods: Vec<Pod> = placed.iter().enumerate().map(|(at, (node, kind, going))| {
            let mut made = on(&name(node % zones.len()), pod(&format!("p{at}"), &label(*kind), json!({})));
            if *going {
                let epoch = jiff::Timestamp::UNIX_EPOCH;
                made.metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(epoch));
            }
            made
        }).collect();
        let new = pod("new", &label(of_the_kind), constraint(json!({"maxSkew": max_skew, "minDomains": min_domains})));
        let view = view(&nodes, &pods);

        let counted = |zone: u8| {
            let there = placed.iter().filter(|(node, kind, going)| {
                *kind && !*going && zones[node % zones.len()] == Some(zone)
            });
            i64::try_from(there.count()).unwrap()
        };
        let domains: std::collections::BTreeSet<u8> = zones.iter().flatten().copied().collect();
        let emptiest = domains.iter().map(|zone| counted(*zone)).min().unwrap_or(0);
        let floor = if i64::try_from(domains.len()).unwrap() < min_domains.unwrap_or(1) { 0 } else { emptiest };
        let expected: Vec<String> = zones.iter().enumerate().filter(|(_, zone)| {
            zone.is_some_and(|zone| counted(zone) + i64::from(of_the_kind) - floor <= max_skew)
        }).map(|(at, _)| name(at)).collect();
        prop_assert_eq!(allowed(&view, &new), expected);
    }
}
