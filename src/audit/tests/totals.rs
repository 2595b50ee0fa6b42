//! A plan as a whole: numbers that point nowhere, everybody once, limits.

use super::*;
use crate::scheduling::LeftOut;

#[test]
fn numbers_that_point_nowhere_are_found() {
    let snapshot = snapshot(&[("a", json!({})), ("b", json!({}))]);
    let changes: [fn(&mut Plan); 5] = [
        |plan| plan.placements[0].on = Destination::New(7),
        |plan| plan.placements[0].on = Destination::Existing(7),
        |plan| {
            let on = plan.placements[0].on;
            plan.placements.push(Placement { pod: 7, on });
            plan.claims[0].pods.push(7);
        },
        |plan| plan.claims[0].pool = 7,
        |plan| {
            let mut empty = plan.claims[0].clone();
            empty.pods.clear();
            plan.claims.push(empty);
        },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut made = legal(&snapshot);
        change(&mut made);
        assert_eq!(broken(&snapshot, &made), [Rule::Once].into(), "{at}");
    }
}

#[test]
fn a_plan_that_is_not_legal_is_refused_by_the_first_that_is_found() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let ensure = |made: &Plan| ensure_legal(MinValuesPolicy::Strict, &snapshot, made);
    assert_eq!(ensure(&legal(&snapshot)), Ok(()));
    let refused = ensure(&Plan::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the plan is not legal, which is a mistake in this program: Once: default/a: is in the plan 0 times"
    );
}

/// Where nothing else in the plan gives it away.
#[test]
fn a_plan_without_claims_forgets_nobody_and_points_somewhere() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let on = |on: Destination| Plan {
        placements: vec![Placement { pod: 0, on }],
        ..Plan::default()
    };
    for made in [
        Plan::default(),
        on(Destination::Existing(7)),
        on(Destination::New(7)),
    ] {
        assert_eq!(broken(&snapshot, &made), [Rule::Once].into(), "{made:?}");
    }
}

#[test]
fn the_pods_that_a_claim_names_are_those_on_it_in_any_order() {
    let far = near("podAntiAffinity", HOSTNAME);
    let snapshot = snapshot(&[("a", far.clone()), ("b", far), ("c", json!({})), ("d", json!({}))]);
    let mut made = legal(&snapshot);
    made.placements.reverse();
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
    for claim in &mut made.claims {
        claim.pods.reverse();
    }
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
    let first = std::mem::take(&mut made.claims[0].pods);
    made.claims[0].pods = std::mem::replace(&mut made.claims[1].pods, first);
    assert_eq!(broken(&snapshot, &made), [Rule::Once].into());
}

#[test]
fn whoever_is_left_out_has_no_place_and_everybody_left_out_has_a_reason() {
    let nowhere = |name: &str| json!({"nodeSelector": {name: "where"}});
    let snapshot = snapshot(&[("a", nowhere("one")), ("b", nowhere("two")), ("c", json!({}))]);
    let made = solve(&snapshot, Options::default(), &|| true);
    assert_eq!((plan(&snapshot, &made), made.left_out.len()), (vec![], 2));
    let mut unsaid = made.clone();
    unsaid.left_out[1].refusals.clear();
    assert_eq!(broken(&snapshot, &unsaid), [Rule::Once].into());
    let mut both = made.clone();
    let placed = both.placements[0].pod;
    let refusals = made.left_out[0].refusals.clone();
    both.left_out.push(LeftOut::of(vec![placed], refusals));
    assert_eq!(broken(&snapshot, &both), [Rule::Once].into());
}

#[test]
fn limits_count_the_nodes_and_claims_of_their_own_pool_alone() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let mut made = legal(&snapshot);
    made.claims[0].options.truncate(1);
    snapshot.nodes.push(node("n", "z1"));
    snapshot.nodes[0].capacity.set(CPU, 3000);
    for (pool, limit, held) in [
        ("default", 5000, true),
        ("default", 4999, false),
        ("other", 2000, true),
        ("other", 1999, false),
    ] {
        snapshot.nodes[0].pool = Some(pool.to_owned());
        snapshot.pools[0].limits = Some(Resources::new().with(CPU, limit));
        assert_eq!(
            broken(&snapshot, &made),
            found(held, Rule::Limit),
            "{pool} {limit}"
        );
    }
    snapshot.nodes.clear();
    let mut second = snapshot.pools[0].clone();
    second.name = "second".to_owned();
    second.limits = Some(Resources::new().with(CPU, 0));
    snapshot.pools[0].limits = None;
    snapshot.pools.push(second);
    assert_eq!(broken(&snapshot, &made), BTreeSet::new(), "it has no claims");
}

#[test]
fn a_pool_that_was_beyond_its_limit_before_may_stay_so() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    snapshot.nodes.push(node("n", "z1"));
    snapshot.nodes[0].pool = Some("default".to_owned());
    snapshot.nodes[0].capacity.set("cards", 2);
    snapshot.pools[0].limits = Some(Resources::new().with("cards", 1));
    assert_eq!(
        broken(&snapshot, &made),
        BTreeSet::new(),
        "a claim without cards adds none"
    );
}

#[test]
fn a_limit_holds_for_every_type_that_a_claim_names_besides_what_is_planned_for_others() {
    let far = near("podAntiAffinity", HOSTNAME);
    let mut snapshot = snapshot(&[("a", far.clone()), ("b", far)]);
    let made = legal(&snapshot);
    assert_eq!(made.claims.len(), 2);
    for (limit, held) in [(6000, true), (5999, false)] {
        snapshot.pools[0].limits = Some(Resources::new().with(CPU, limit));
        assert_eq!(broken(&snapshot, &made), found(held, Rule::Limit), "{limit}");
    }
}

#[test]
fn a_sum_that_no_number_holds_is_the_largest_there_is() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    for name in ["m", "n"] {
        let mut huge = node(name, "z1");
        huge.pool = Some("default".to_owned());
        huge.capacity.set(CPU, i64::MAX);
        snapshot.nodes.push(huge);
    }
    for (limit, held) in [(100_000, false), (i64::MAX, true)] {
        snapshot.pools[0].limits = Some(Resources::new().with(CPU, limit));
        assert_eq!(broken(&snapshot, &made), found(held, Rule::Limit), "{limit}");
    }
}
