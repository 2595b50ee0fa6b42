use proptest::prelude::*;
use serde_json::json;

use super::super::super::trial::{at, in_phase, on, pod, ready};
use super::*;

fn priced(mut pod: Pod, cost: &str) -> Pod {
    pod.metadata.annotations = Some([(DELETION_COST.to_owned(), cost.to_owned())].into());
    pod
}

fn created(mut pod: Pod, second: i64) -> Pod {
    pod.metadata.creation_timestamp = Some(at(second).into());
    pod
}

fn restarted(mut pod: Pod, times: i32) -> Pod {
    let status = json!({"name": "c", "restartCount": times, "ready": true, "image": "", "imageID": ""});
    pod.status.get_or_insert_default().container_statuses =
        Some(vec![serde_json::from_value(status).unwrap()]);
    pod
}

/// When pods are compared: a hundred seconds after most of what is said of them.
const NOW: i64 = 150;

fn going<'a>(pods: &[&'a Pod], related: &[&Pod]) -> Vec<&'a Pod> {
    let now = at(NOW);
    first_to_go(pods, Order::Replicas { related, now })
}

fn names(pods: &[&Pod]) -> Vec<String> {
    pods.iter()
        .map(|pod| pod.metadata.name.clone().unwrap())
        .collect()
}

/// Each line: the first pod goes before the second, whatever lower rules say.
#[test]
fn earlier_rules_beat_later_ones() {
    let running = |name: &str| on(ready(pod(name), 50), name);
    let cases = vec![
        (
            "unassigned before assigned",
            ready(pod("a"), 1),
            on(pod("b"), "n"),
        ),
        (
            "pending before unknown",
            on(pod("a"), "n"),
            on(in_phase(pod("b"), "Unknown"), "m"),
        ),
        (
            "unknown before running",
            on(in_phase(pod("a"), "Unknown"), "n"),
            on(in_phase(pod("b"), "Running"), "m"),
        ),
        (
            "not ready before ready",
            priced(on(in_phase(pod("a"), "Running"), "n"), "100"),
            priced(running("b"), "-100"),
        ),
        (
            "cheaper first",
            priced(created(running("a"), 1), "-1"),
            created(running("b"), 9),
        ),
        ("unset is zero", running("a"), priced(running("b"), "1")),
        (
            "later ready first",
            on(ready(pod("a"), 100), "n"),
            restarted(on(ready(pod("b"), 50), "m"), 9),
        ),
        (
            "more restarts first",
            created(restarted(running("a"), 2), 1),
            created(restarted(running("b"), 1), 9),
        ),
        (
            "later created first",
            created(running("a"), 100),
            created(running("b"), 1),
        ),
        ("uid at last", running("a"), running("b")),
    ];
    for (rule, first, second) in &cases {
        let order = going(&[second, first], &[second, first]);
        assert_eq!(names(&order), ["a", "b"], "{rule}");
    }
}

#[test]
fn pods_on_crowded_nodes_go_before_cheaper_rules_but_after_the_price() {
    let (alone, one) = (on(ready(pod("alone"), 90), "n"), on(ready(pod("one"), 10), "m"));
    let sibling = on(ready(pod("of-another-set"), 10), "m");
    let order = going(&[&alone, &one], &[&alone, &one, &sibling]);
    assert_eq!(names(&order), ["one", "alone"]);
    let cheap = priced(alone, "-5");
    let order = going(&[&cheap, &one], &[&cheap, &one, &sibling]);
    assert_eq!(names(&order), ["alone", "one"]);
}

#[test]
fn in_the_plain_order_neither_costs_nor_crowds_count() {
    let cheap = priced(on(ready(pod("cheap"), 50), "n"), "-5");
    let (crowded, young) = (
        on(ready(pod("crowded"), 50), "n"),
        on(ready(pod("young"), 51), "m"),
    );
    let pods = [&cheap, &crowded, &young];
    assert_eq!(names(&going(&pods, &pods)), ["cheap", "crowded", "young"]);
    let order = first_to_go(&pods, Order::Plain);
    assert_eq!(names(&order)[0], "young");
}

/// 2^34 nanoseconds are 17.2 seconds.
#[test]
fn ages_of_one_magnitude_are_told_apart_by_uid_alone() {
    let aged = |name: &str, age: i64| on(ready(pod(name), NOW - age), name);
    for (young, old, same) in [(5, 8, true), (18, 33, true), (17, 18, false), (1, 3, false)] {
        let (old, young) = (aged("a", old), aged("b", young));
        let expected = if same { ["a", "b"] } else { ["b", "a"] };
        assert_eq!(names(&going(&[&young, &old], &[])), expected, "{same}");
        let plain = first_to_go(&[&young, &old], Order::Plain);
        assert_eq!(names(&plain), ["b", "a"]);
    }
    let (late, early) = (aged("b", -3), aged("a", 1));
    assert_eq!(
        names(&going(&[&early, &late], &[])),
        ["b", "a"],
        "not past at all"
    );
}

#[test]
fn of_pods_that_go_round_in_circles_each_goes_once() {
    let since = |name: &str, second| on(ready(pod(name), second), name);
    // The same time, more restarts: c before a. Another time of the same magnitude, by uid: a before b, b before c.
    let (a, b, c) = (since("a", 50), since("b", 51), restarted(since("c", 50), 4));
    let order = names(&going(&[&c, &b, &a], &[]));
    assert_eq!(order, names(&going(&[&a, &c, &b], &[])));
    assert_eq!(order.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn a_price_is_a_plain_number_or_nothing() {
    for (text, number) in [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("+7", 0),
        ("07", 0),
        ("", 0),
        ("x", 0),
        ("9999999999", 0),
    ] {
        assert_eq!(cost(&priced(pod("p"), text)), number, "{text:?}");
    }
}

prop_compose! {
    fn any_pod()(
        name in "[a-e]", node in 0u8..4, phase in 0usize..3, ready_at in proptest::option::of(0i64..4),
        cost in proptest::option::of(-1i32..2), restarts in 0i32..3, born in 0i64..3,
    ) -> Pod {
        let mut made = in_phase(created(restarted(pod(&name), restarts), born), ["Pending", "Unknown", "Running"][phase]);
        if let Some(second) = ready_at {
            let phase = made.status.as_ref().unwrap().phase.clone().unwrap();
            made = in_phase(ready(made, second), &phase);
        }
        if let Some(cost) = cost {
            made = priced(made, &cost.to_string());
        }
        if node > 0 {
            made = on(made, &format!("n{node}"));
        }
        made
    }
}

proptest! {
    #[test]
    fn the_order_does_not_depend_on_the_order_of_the_question(
        mut pods in proptest::collection::vec(any_pod(), 0..8), turn in 0usize..8,
    ) {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod.metadata.name = Some(format!("p{index}"));
        }
        let asked: Vec<&Pod> = pods.iter().collect();
        let mut turned = asked.clone();
        turned.rotate_left(turn.min(asked.len()));
        turned.reverse();
        prop_assert_eq!(names(&going(&asked, &asked)), names(&going(&turned, &turned)));
    }

    #[test]
    fn the_documented_priorities_hold_for_every_pair(pods in proptest::collection::vec(any_pod(), 2..8)) {
        let asked: Vec<&Pod> = pods.iter().collect();
        let order = going(&asked, &asked);
        prop_assert_eq!(order.len(), asked.len());
        for pair in order.windows(2) {
            let rank = |pod: &Pod| (node(pod).is_some(), ["Pending", "Unknown", "Running"].iter().position(|p| *p == phase(pod)),
                                    is_ready(pod), cost(pod));
            prop_assert!(rank(pair[0]) <= rank(pair[1]));
            if rank(pair[0]) == rank(pair[1]) {
                let crowd = |pod: &Pod| asked.iter().filter(|other| node(pod).is_some() && node(other) == node(pod)).count();
                prop_assert!(crowd(pair[0]) >= crowd(pair[1]));
                if crowd(pair[0]) == crowd(pair[1]) && is_ready(pair[0]) {
                    let magnitude = |pod: &Pod| ready_since(pod).map(|since| magnitude(since, at(NOW)));
                    prop_assert!(magnitude(pair[0]) <= magnitude(pair[1]));
                }
            }
        }
    }
}
