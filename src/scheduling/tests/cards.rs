//! Machines with cards.

use super::*;

const GPU: &str = "nvidia.com/gpu";

/// A machine with so many cards, and a cheaper one without any.
fn with_cards(cards: i64) -> Cluster {
    let mut carded = kind("carded", 8);
    for has in [&mut carded.capacity, &mut carded.allocatable] {
        has.set(GPU, cards);
    }
    cluster().types(vec![kind("plain", 4), carded])
}

fn wants_card(name: &str) -> core::Pod {
    let requests = json!({"cpu": "1", GPU: "1"});
    let limits = json!({GPU: "1"});
    pod_with(
        name,
        "1",
        &json!({"containers": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}),
    )
}

#[test]
fn no_more_cards_are_bought_than_the_pool_may_have() {
    let limited = |most: i64| {
        with_cards(1)
            .pool(|pool| pool.limits = Some(Resources::new().with(GPU, most)))
            .with(pods(3, wants_card))
            .solve()
    };
    let solved = limited(2);
    assert_eq!(
        (solved.types(), solved.plan.pods_left_out()),
        (vec!["carded", "carded"], 1)
    );
    assert!(
        solved
            .words()
            .iter()
            .any(|said| said.contains(&format!("limit of 2 {GPU}"))),
        "{:?}",
        solved.words()
    );
    assert!(limited(3).all_placed());
}

#[test]
fn cards_that_are_there_count_against_the_limit_and_machines_without_any_do_not() {
    let mut there = node("there", 8, &[]);
    there.pool = Some("default".to_owned());
    there.capacity.set(GPU, 1);
    there.used = there.allocatable.clone();
    let solved = with_cards(1)
        .pool(|pool| pool.limits = Some(Resources::new().with(GPU, 1)))
        .node(there)
        .with([wants_card("card"), pod("plain", "1")])
        .solve();
    assert_eq!((solved.types(), solved.place("card")), (vec!["plain"], None));
    assert!(solved.place("plain").is_some());
}
