//! Pods that ask something of where others are.

use super::*;

/// Pods that are there, by name, with where they are and whose they are.
fn bound(snapshot: &mut Snapshot, all: &[(&str, &str, Value)]) {
    let mut there = Vec::new();
    for (name, on, spec) in all {
        let mut spec = spec.clone();
        spec["nodeName"] = json!(on);
        there.push((*name, spec));
    }
    snapshot.bound = pods(&there);
}

fn app(name: &str) -> Value {
    json!({"labels": {"app": name}})
}

/// A pod of one application that must be near or far from another.
fn towards(which: &str, key: &str, own: &str, other: &str) -> Value {
    json!({"labels": {"app": own}, "affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": other}}}]}}})
}

fn spread(key: &str, own: &str, more: &Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}});
    constraint
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"labels": {"app": own}, "topologySpreadConstraints": [constraint]})
}

/// Three nodes: two in one zone, one in another, and one that is in none.
fn nodes() -> Vec<Node> {
    let mut bare = node("bare", "");
    bare.labels.clear();
    vec![node("n1", "z1"), node("n2", "z2"), node("n3", "z1"), bare]
}

/// A plan that puts the first pod on a claim that may be in either zone, and the second on the first node.
fn first_anywhere(snapshot: &Snapshot) -> Plan {
    let mut alone = snapshot.clone();
    alone.nodes.clear();
    alone.pending = pods(&[("a", json!({}))]);
    let mut made = legal(&alone);
    made.placements.push(Placement {
        pod: 1,
        on: Destination::Existing(0),
    });
    made
}

#[test]
fn pods_must_be_far_from_those_that_are_there_where_they_are() {
    for (key, on, held) in [
        (HOSTNAME, 0, false),
        (HOSTNAME, 2, true),
        (ZONE, 2, false),
        (ZONE, 1, true),
        (ZONE, 3, true),
    ] {
        let mut snapshot = snapshot(&[("p", towards("podAntiAffinity", key, "b", "a"))]);
        snapshot.nodes = nodes();
        bound(
            &mut snapshot,
            &[("a", "n1", app("a")), ("bare", "bare", app("a"))],
        );
        assert_eq!(
            broken(&snapshot, &put(&[on])),
            found(held, Rule::Far),
            "{key} {on}"
        );
    }
}

#[test]
fn whoever_is_there_is_far_only_from_those_that_it_means() {
    let elsewhere = |mut fields: Value, namespaces: Value| {
        let term =
            &mut fields["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        term.as_object_mut()
            .unwrap()
            .extend(namespaces.as_object().unwrap().clone());
        fields
    };
    let keeps = |other: &str| towards("podAntiAffinity", HOSTNAME, "c", other);
    for (there, held) in [
        (keeps("a"), false),
        (keeps("b"), true),
        (elsewhere(keeps("a"), json!({"namespaces": ["other"]})), true),
        (elsewhere(keeps("a"), json!({"namespaces": ["default"]})), false),
        (
            elsewhere(
                keeps("a"),
                json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}),
            ),
            false,
        ),
        (
            elsewhere(
                keeps("a"),
                json!({"namespaceSelector": {"matchLabels": {"team": "y"}}}),
            ),
            true,
        ),
    ] {
        let mut snapshot = snapshot(&[("p", app("a"))]);
        snapshot.nodes = nodes();
        let team = [("team".to_owned(), "x".to_owned())].into();
        snapshot.namespaces.insert("default".to_owned(), team);
        bound(&mut snapshot, &[("there", "n1", there.clone())]);
        assert_eq!(broken(&snapshot, &put(&[0])), found(held, Rule::Far), "{there}");
    }
}

#[test]
fn nobody_is_certain_to_be_far_from_or_near_to_whom_launch_may_put_anywhere() {
    let mut here = spread(ZONE, "a", &json!({}));
    here["nodeSelector"] = json!({ZONE: "z1"});
    for (second, rule) in [
        (towards("podAntiAffinity", ZONE, "b", "a"), Rule::Far),
        (towards("podAffinity", ZONE, "b", "a"), Rule::Near),
        (spread(ZONE, "a", &json!({})), Rule::Spread),
        (here, Rule::Spread),
    ] {
        let mut snapshot = snapshot(&[("p", app("a")), ("q", second)]);
        snapshot.nodes = nodes();
        let found = plan(&snapshot, &first_anywhere(&snapshot));
        let of_second = |found: &&Finding| found.subject.starts_with("default/q ");
        let rules: Vec<Rule> = found.iter().filter(of_second).map(|found| found.rule).collect();
        assert_eq!(rules, [rule], "{found:?}");
    }
    let apart = towards("podAntiAffinity", ZONE, "a", "a");
    let two = snapshot(&[("p", apart.clone()), ("q", apart.clone())]);
    let mut made = legal(&two);
    made.claims[0].requirements = two.pools[0].requirements.clone();
    assert_eq!(broken(&two, &made), [Rule::Far].into());
    let mut open = snapshot(&[("p", apart)]);
    let mut made = legal(&open);
    made.claims[0].requirements = open.pools[0].requirements.clone();
    assert_eq!(broken(&open, &made), BTreeSet::new(), "nobody else is anywhere");
    open.pending = pods(&[("p", towards("podAffinity", ZONE, "a", "a"))]);
    assert_eq!(broken(&open, &made), [Rule::Near].into());
}

#[test]
fn claims_are_hosts_of_their_own() {
    let far = snapshot(&[
        ("p", near("podAntiAffinity", HOSTNAME)),
        ("q", near("podAntiAffinity", HOSTNAME)),
    ]);
    let mut made = legal(&far);
    assert_eq!(made.claims.len(), 2);
    let mut close = far.clone();
    close.pending = pods(&[
        ("p", near("podAffinity", HOSTNAME)),
        ("q", near("podAffinity", HOSTNAME)),
    ]);
    assert_eq!(broken(&close, &made), [Rule::Near].into());
    all_together(&mut made);
    made.claims[0].requests.set(CPU, 2000);
    made.claims[0].requests.set(PODS, 2);
    assert_eq!(broken(&far, &made), [Rule::Far].into());
    assert_eq!(broken(&close, &made), BTreeSet::new());
}

/// Who is there on the first node or on the one that is nowhere, what the pod asks by zone, and where it goes.
#[test]
fn the_first_of_those_that_must_be_near_each_other_may_be_anywhere_that_has_the_label() {
    for (there, other, on, held) in [
        (None, "a", 0, true),
        (None, "b", 0, false),
        (None, "a", 3, false),
        (Some("n1"), "a", 2, true),
        (Some("n1"), "a", 1, false),
        (Some("bare"), "a", 1, true),
        (Some("bare"), "b", 1, false),
    ] {
        let mut snapshot = snapshot(&[("p", towards("podAffinity", ZONE, "a", other))]);
        snapshot.nodes = nodes();
        if let Some(there) = there {
            bound(&mut snapshot, &[("there", there, app(other))]);
        }
        assert_eq!(
            broken(&snapshot, &put(&[on])),
            found(held, Rule::Near),
            "{there:?} {other} {on}"
        );
    }
}

/// By which label the pod must be near to a second sort, whose it is itself, who is there, where it goes, and whether it may.
#[test]
fn only_whom_all_terms_mean_is_company_and_whoever_they_mean_is_the_first_where_there_is_none() {
    let either = || json!({"labels": {"app": "a"}});
    let other = || json!({"labels": {"role": "b"}});
    let both = || json!({"labels": {"app": "a", "role": "b"}});
    for (key, own, there, on, held) in [
        (ZONE, json!({}), vec![("n1", either()), ("n3", other())], 0, false),
        (ZONE, json!({}), vec![("n1", both())], 2, true),
        (ZONE, json!({}), vec![("n1", both())], 1, false),
        (HOSTNAME, json!({}), vec![("n1", both())], 0, true),
        (HOSTNAME, json!({}), vec![("n1", both())], 2, false),
        (ZONE, either(), vec![], 0, false),
        (ZONE, both(), vec![], 0, true),
        (ZONE, both(), vec![("n2", either()), ("n2", other())], 0, true),
        (ZONE, both(), vec![("n2", both())], 0, false),
        (ZONE, both(), vec![("bare", both())], 0, true),
        (HOSTNAME, both(), vec![("bare", both())], 0, false),
    ] {
        let mut asks = towards("podAffinity", ZONE, "", "a");
        asks["labels"] = own["labels"].clone();
        let terms = &mut asks["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let second = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"role": "b"}}});
        terms.as_array_mut().unwrap().push(second);
        let mut snapshot = snapshot(&[("p", asks)]);
        snapshot.nodes = nodes();
        let names = ["one", "two"];
        let there: Vec<(&str, &str, Value)> = names
            .into_iter()
            .zip(&there)
            .map(|(name, (on, spec))| (name, *on, spec.clone()))
            .collect();
        bound(&mut snapshot, &there);
        assert_eq!(
            broken(&snapshot, &put(&[on])),
            found(held, Rule::Near),
            "{key} {own} {there:?} {on}"
        );
    }
}

/// One pod is there in the first zone and one more comes; what it says, and whether it may.
#[test]
fn spreads_count_the_nodes_that_their_policies_honor() {
    let z1 = json!({"nodeSelector": {ZONE: "z1"}});
    let with = |mut fields: Value, more: &Value| {
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        fields
    };
    for (asked, tainted, held) in [
        (spread(ZONE, "a", &json!({})), false, false),
        (spread(ZONE, "a", &json!({"maxSkew": 2})), false, true),
        (
            spread(ZONE, "a", &json!({"whenUnsatisfiable": "ScheduleAnyway"})),
            false,
            true,
        ),
        (spread(ZONE, "b", &json!({})), false, true),
        (with(spread(ZONE, "a", &json!({})), &z1), false, true),
        (
            with(spread(ZONE, "a", &json!({"nodeAffinityPolicy": "Ignore"})), &z1),
            false,
            false,
        ),
        (spread(ZONE, "a", &json!({})), true, false),
        (
            spread(ZONE, "a", &json!({"nodeTaintsPolicy": "Honor"})),
            true,
            true,
        ),
    ] {
        let mut snapshot = snapshot(&[("p", asked.clone())]);
        snapshot.nodes = nodes();
        if tainted {
            snapshot.nodes[1].taints = vec![Taint::new("team", "x", Effect::NoSchedule)];
        }
        bound(&mut snapshot, &[("there", "n1", app("a"))]);
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Spread),
            "{asked} {tainted}"
        );
    }
}

#[test]
fn spreads_count_pods_of_their_own_namespace() {
    let mut snapshot = snapshot(&[("p", spread(ZONE, "a", &json!({})))]);
    snapshot.nodes = nodes();
    bound(&mut snapshot, &[("there", "n1", app("a"))]);
    for class in snapshot.bound.classes.iter_mut().flatten() {
        class.namespace = "other".to_owned();
    }
    assert_eq!(broken(&snapshot, &put(&[0])), BTreeSet::new());
}

/// One pod in each zone and one more: over hosts nobody is where a node can be bought, and over too few zones neither.
#[test]
fn the_least_is_nobody_over_hosts_and_where_there_are_too_few_values() {
    for (key, more, held) in [
        (ZONE, json!({}), true),
        (ZONE, json!({"minDomains": 2}), true),
        (ZONE, json!({"minDomains": 3}), false),
        (HOSTNAME, json!({}), false),
    ] {
        let mut snapshot = snapshot(&[("p", spread(key, "a", &more))]);
        snapshot.nodes = nodes();
        snapshot.nodes.truncate(2);
        bound(&mut snapshot, &[("one", "n1", app("a")), ("two", "n2", app("a"))]);
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Spread),
            "{key} {more}"
        );
    }
}
