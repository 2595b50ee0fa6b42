//! Objects at which looking panics: they are left out, and nobody else goes without a place because of them.

use serde_json::json;

use super::tests::{claim, index, now, pod};
use super::unharmed::poison;
use super::*;

/// What is found with looks at these objects panicking: the pods that need a place, and what is unfit, as kind and name.
fn found(index: &Index, poisoned: &[&str]) -> (Vec<String>, Vec<(String, String)>) {
    poison::put(poisoned);
    let situation = index.situation(&Types::new(), &BTreeSet::new(), now());
    poison::put(&[]);
    let pending = situation.snapshot.pending.members.into_iter();
    let unfit = situation.unfit.into_iter().map(|it| it.object);
    let unfit = unfit.map(|it| (it.kind.unwrap(), it.name.unwrap()));
    (pending.map(|pod| pod.uid).collect(), unfit.collect())
}

#[test]
fn a_pod_at_which_looking_panics_keeps_no_other_waiting() {
    let index = index(&[pod("a", None), pod("b", None)], &[]);
    let (pending, unfit) = found(&index, &["a"]);
    assert_eq!(pending, ["b"]);
    assert_eq!(unfit, [("Pod".to_owned(), "a".to_owned())]);
    poison::put(&["a", "b"]);
    assert!(index.has_needy(now(), &BTreeSet::new()), "a pass is to find out");
    let quarantined = ["a".to_owned(), "b".to_owned()].into();
    assert!(!index.has_needy(now(), &quarantined));
    poison::put(&[]);
}

#[test]
fn a_pod_that_was_promised_a_place_and_cannot_be_looked_at_has_none() {
    let index = index(
        &[pod("a", None), pod("b", None)],
        &[claim("c", "a,b", &json!({}))],
    );
    let (pending, unfit) = found(&index, &["a"]);
    assert_eq!(pending, Vec::<String>::new());
    assert_eq!(unfit, [("Pod".to_owned(), "a".to_owned())]);
}

#[test]
fn a_claim_that_cannot_be_looked_at_keeps_the_pods_that_it_was_made_for() {
    let index = index(&[pod("a", None), pod("b", None)], &[claim("c", "a", &json!({}))]);
    let (pending, unfit) = found(&index, &["c"]);
    assert_eq!(pending, ["b"]);
    assert_eq!(unfit, [("NodeClaim".to_owned(), "c".to_owned())]);
}

#[test]
fn nobody_is_placed_on_what_cannot_be_looked_at_and_it_counts_for_its_pool() {
    let index = index(&[pod("a", None)], &[claim("c", "", &json!({}))]);
    poison::put(&["c"]);
    let situation = index.situation(&Types::new(), &BTreeSet::new(), now());
    poison::put(&[]);
    let [place] = &situation.snapshot.nodes[..] else {
        panic!("one place");
    };
    assert_eq!(
        (place.name.as_str(), place.pool.as_deref(), place.standing),
        ("c", Some("p"), Standing::Leaving)
    );
    assert_eq!(situation.snapshot.pending.members.len(), 1);
    assert_eq!(situation.unfit[0].object.kind.as_deref(), Some("NodeClaim"));
}
