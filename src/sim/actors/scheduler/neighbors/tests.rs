use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sim::actors::scheduler::samples::{add, node, on, pod, view, zoned};

const ZONE: &str = "topology.kubernetes.io/zone";

fn term(app: &str) -> Value {
    json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}})
}

fn near(terms: &[Value]) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn apart(terms: &[Value]) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn called(name: &str, app: &str, spec: Value) -> Pod {
    pod(name, &json!({"app": app}), spec)
}

/// What each node says, in their order: nothing if it takes the pod.
fn verdicts(view: &View, pod: &Pod) -> Vec<Option<String>> {
    let board = Board::new(view);
    let neighbors = Neighbors::new(&board, pod);
    let verdict = |site: &Site<'_>| {
        neighbors
            .check(site.node)
            .err()
            .map(|why| why.reasons[0].to_string())
    };
    board.sites.values().map(verdict).collect()
}

fn allowed(view: &View, pod: &Pod) -> Vec<bool> {
    verdicts(view, pod).iter().map(Option::is_none).collect()
}

/// Zones a, b and none at all; a database in a.
fn cluster() -> View {
    let nodes = [
        zoned("a1", "a"),
        zoned("a2", "a"),
        zoned("b1", "b"),
        node("none", &json!({})),
    ];
    view(&nodes, &[on("a1", called("db", "db", json!({})))])
}

#[test]
fn affinity_follows_and_anti_affinity_avoids_the_domain() {
    let yes_in_a = [true, true, false, false];
    assert_eq!(
        allowed(&cluster(), &called("p", "web", near(&[term("db")]))),
        yes_in_a
    );
    // Without the label a node is in nobody's domain.
    assert_eq!(
        allowed(&cluster(), &called("p", "web", apart(&[term("db")]))),
        [false, false, true, true]
    );
    let elsewhere =
        json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": ["x"]});
    assert_eq!(
        allowed(
            &cluster(),
            &called("p", "web", near(std::slice::from_ref(&elsewhere)))
        ),
        [false; 4]
    );
    assert_eq!(
        allowed(&cluster(), &called("p", "web", apart(&[elsewhere]))),
        [true; 4]
    );
}

#[test]
fn pods_that_are_there_keep_away_whom_they_do_not_want() {
    let mut view = cluster();
    view.apply(on("b1", called("hermit", "hermit", apart(&[term("web")]))));
    let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(
        verdicts(&view, &called("p", "web", json!({}))),
        [None, None, Some(reason.to_owned()), None]
    );
    assert_eq!(allowed(&view, &called("p", "other", json!({}))), [true; 4]);
}

#[test]
fn the_first_of_a_group_needs_nobody() {
    let grouped = |name: &str| called(name, "web", near(&[term("web")]));
    let mut view = cluster();
    assert_eq!(allowed(&view, &grouped("p1")), [true, true, true, false]);
    view.apply(on("b1", grouped("p1")));
    assert_eq!(allowed(&view, &grouped("p2")), [false, false, true, false]);
    assert_eq!(
        allowed(&view, &called("p3", "lonely", near(&[term("nobody")]))),
        [false; 4]
    );
}

#[test]
fn company_is_who_all_terms_mean() {
    let mut view = cluster();
    view.apply(on(
        "b1",
        pod("both", &json!({"app": "db", "tier": "x"}), json!({})),
    ));
    let tier = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "x"}}});
    let wanting = called("p", "web", near(&[term("db"), tier]));
    assert_eq!(allowed(&view, &wanting), [false, false, true, false]);
}

#[test]
fn namespaces_are_chosen_by_their_labels() {
    let mut view = cluster();
    add::<k8s_openapi::api::core::v1::Namespace>(
        &mut view,
        json!({"metadata": {"name": "x", "labels": {"team": "x"}}}),
    );
    let mut other = on("b1", called("far", "db", json!({})));
    other.metadata.namespace = Some("x".to_owned());
    view.apply(other);
    let mut chosen = term("db");
    chosen["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    assert_eq!(
        allowed(&view, &called("p", "web", near(&[chosen]))),
        [false, false, true, false]
    );
}

#[test]
fn keys_mean_pods_like_or_unlike_oneself() {
    let mut view = cluster();
    view.apply(on(
        "a1",
        pod("old", &json!({"app": "web", "hash": "1"}), json!({})),
    ));
    let mut unlike = term("web");
    unlike["mismatchLabelKeys"] = json!(["hash"]);
    let table = [("1", [true; 4]), ("2", [false, false, true, true])];
    for (hash, expected) in table {
        let new = pod(
            "new",
            &json!({"app": "web", "hash": hash}),
            apart(std::slice::from_ref(&unlike)),
        );
        assert_eq!(allowed(&view, &new), expected, "hash {hash}");
    }
}

#[test]
fn likings_add_up_over_the_domain_from_both_sides() {
    let mut view = cluster();
    let weighted = |weight: i32, app: &str| json!({"weight": weight, "podAffinityTerm": term(app)});
    let fond = json!({"affinity": {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted(10, "db")]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted(3, "noise")]}}});
    view.apply(on("b1", called("noise", "noise", near(&[term("web")]))));
    let board = Board::new(&view);
    let fitting: Vec<&Site<'_>> = board.sites.values().collect();
    // In b the noise is disliked by 3 and likes company itself, which counts 1.
    assert_eq!(
        liking(&board, &called("p", "web", fond), &fitting),
        Some(vec![10, 10, -2, 0])
    );
    assert_eq!(liking(&board, &called("p", "other", json!({})), &fitting), None);
}

/// The zone of each node, and for each placed pod its node, its application, and whom it keeps away.
type Cluster = (Vec<Option<u8>>, Vec<(usize, u8, Option<u8>)>);

fn clusters() -> impl Strategy<Value = Cluster> {
    let zones = prop::collection::vec(prop::option::weighted(0.8, 0..3_u8), 1..6);
    let pods = prop::collection::vec((0..6_usize, 0..3_u8, prop::option::weighted(0.2, 0..3_u8)), 0..8);
    (zones, pods)
}

proptest! {
    /// The definition, word by word, over all pairs of pods.
    #[test]
    fn the_verdict_is_that_of_the_definition(
        (zones, placed) in clusters(),
        own in 0..3_u8,
        wants in prop::option::of(0..3_u8),
        avoids in prop::option::of(0..3_u8),
    ) {
        let name = |at: usize| format!("n{at}");
        let app = |app: u8| format!("app{app}");
        let nodes: Vec<Node> = zones.iter().enumerate().map(|(at, zone)| match zone {
            Some(zone) => zoned(&name(at), &zone.to_string()),
            None => node(&name(at), &json!({})),
        }).collect();
        let pods: Vec<Pod> = placed.iter().enumerate().map(|(at, (node, kind, avoided))| {
            let spec = avoided.map_or(json!({}), |avoided| apart(&[term(&app(avoided))]));
            on(&name(node % zones.len()), called(&format!("p{at}"), &app(*kind), spec))
        }).collect();
        let mut spec = json!({});
        if let Some(wanted) = wants { json_patch::merge(&mut spec, &near(&[term(&app(wanted))])); }
        if let Some(avoided) = avoids { json_patch::merge(&mut spec, &apart(&[term(&app(avoided))])); }
        let new = called("new", &app(own), spec);

        let zone_of = |node: usize| zones[node % zones.len()];
        let expected: Vec<bool> = zones.iter().map(|here| {
            let together = |node: usize| here.is_some() && zone_of(node) == *here;
            let kept_away = placed.iter().any(|(node, kind, avoided)| {
                together(*node) && (avoids == Some(*kind) || *avoided == Some(own))
            });
            let company = wants.is_none_or(|wanted| {
                let anywhere = placed.iter().any(|(node, kind, _)| *kind == wanted && zone_of(*node).is_some());
                here.is_some() && (placed.iter().any(|(node, kind, _)| *kind == wanted && together(*node))
                    || !anywhere && own == wanted)
            });
            company && !kept_away
        }).collect();
        prop_assert_eq!(allowed(&view(&nodes, &pods), &new), expected);
    }
}
