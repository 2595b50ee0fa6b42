//! Which pods are taken for alike, and which are not.

use super::*;

#[test]
fn pods_that_differ_in_what_somebody_selects_by_are_not_taken_for_alike() {
    let far_from = |app: &str| {
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}},
        ]}}})
    };
    let loud = labelled(pod("a-loud", "100m"), &json!({"app": "loud"}));
    let calm = labelled(pod("b-calm", "100m"), &json!({"app": "calm"}));
    let shy = pod_with("c-shy", "100m", &far_from("loud"));
    let solved = cluster().with([loud, calm, shy]).solve();
    assert!(solved.all_placed());
    assert_eq!(solved.sizes(), [1, 2], "only the loud one keeps the shy one away");
}

/// Revisions of a Deployment, of which each is spread by itself.
#[test]
fn pods_that_are_told_apart_by_keys_of_labels_are_not_taken_for_alike() {
    let web = json!({"app": "web"});
    let fields = spread(HOST, 1, &web, &json!({"matchLabelKeys": ["revision"]}));
    let revision = |at: usize| {
        let labels = json!({"app": "web", "revision": (at % 2).to_string()});
        labelled(pod_with(&format!("p{at}"), "100m", &fields), &labels)
    };
    let solved = cluster().with((0..4).map(revision)).solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.sizes(), [2, 2], "one of each revision to a node");
}

#[test]
fn pods_of_namespaces_between_which_somebody_tells_are_not_taken_for_alike() {
    let by_name = json!({"namespaces": ["other"]});
    let by_label = json!({"namespaceSelector": {"matchLabels": {"team": "x"}}});
    for whose in [by_name, by_label] {
        let app = json!({"app": "web"});
        let calm = labelled(pod("a-calm", "100m"), &app);
        let mut loud = labelled(pod("b-loud", "100m"), &app);
        loud.metadata.namespace = Some("other".to_owned());
        let shy = pod_with(
            "c-shy",
            "100m",
            &laws::among("podAntiAffinity", HOST, &app, &whose),
        );
        let mut base = cluster().with([calm, loud, shy]);
        base.namespaces = laws::namespaces();
        let solved = base.solve();
        assert!(solved.all_placed(), "{:?}", solved.words());
        assert_eq!(
            solved.sizes(),
            [1, 2],
            "only the loud one keeps the shy one away: {whose}"
        );
    }
}

#[test]
fn pods_that_somebody_on_a_node_tells_apart_are_not_taken_for_alike() {
    let shy = pod_with(
        "shy",
        "100m",
        &neighbor("podAntiAffinity", HOST, &json!({"app": "loud"})),
    );
    let solved = cluster()
        .node(node("n", 4, &[(HOST, "n")]))
        .bound([on(shy, "n")])
        .with([
            labelled(pod("a-loud", "100m"), &json!({"app": "loud"})),
            labelled(pod("b-calm", "100m"), &json!({"app": "calm"})),
        ])
        .solve();
    assert_eq!(
        (
            solved.place("a-loud").as_deref(),
            solved.place("b-calm").as_deref()
        ),
        (Some("new-0"), Some("n"))
    );
}
