//! Nodes that are there and claims in flight.

use super::*;
use crate::model::{NodeKind, Stage, Standing};

#[test]
fn what_is_there_is_filled_before_anything_is_bought() {
    let solved = cluster()
        .node(node("n", 4, &[]))
        .with(pods(5, |name| pod(name, "1")))
        .solve();
    assert_eq!(solved.places()["n"].len(), 4);
    assert_eq!(solved.claims(), 1);
}

#[test]
fn nodes_ready_for_work_come_before_those_that_begin_and_those_before_claims() {
    let mut begins = node("b-begins", 4, &[]);
    begins.stage = Stage::Beginning;
    let mut flying = node("a-flying", 4, &[]);
    flying.kind = NodeKind::ClaimInFlight;
    let all = cluster().node(flying).node(begins).node(node("c-ready", 4, &[]));
    let filled = |number: usize| {
        let solved = all.clone().with(pods(number, |name| pod(name, "3"))).solve();
        solved.places().into_keys().collect::<Vec<String>>()
    };
    assert_eq!(filled(1), ["c-ready"]);
    assert_eq!(filled(2), ["b-begins", "c-ready"]);
    assert_eq!(filled(3), ["a-flying", "b-begins", "c-ready"]);
}

#[test]
fn a_claim_in_flight_is_filled_too() {
    let mut flying = node("flying", 4, &[]);
    flying.kind = NodeKind::ClaimInFlight;
    let solved = cluster().node(flying).with([pod("p", "1")]).solve();
    assert_eq!(solved.place("p").as_deref(), Some("flying"));
}

/// Where it is lost to whom a claim was promised, its pods wait again while it comes up: it is enough for them.
#[test]
fn pods_that_wait_again_get_the_claims_that_were_made_for_them_and_no_others() {
    let waiting = || pods(20, |name| pod(name, "1"));
    let first = cluster().with(waiting()).solve();
    let mut later = cluster().with(waiting());
    for (at, claim) in first.plan.claims.iter().enumerate() {
        let planned = &later.pools[claim.pool].types[claim.cheapest.instance_type];
        let flying = Node {
            pool: Some("default".to_owned()),
            kind: NodeKind::ClaimInFlight,
            capacity: planned.capacity.clone(),
            allocatable: planned.allocatable.clone(),
            ..node(&format!("flying-{at}"), 0, &[])
        };
        later = later.node(flying);
    }
    let second = later.solve();
    assert_eq!((first.claims(), second.claims()), (2, 0));
    assert!(second.all_placed());
}

#[test]
fn a_node_that_leaves_takes_nobody() {
    let mut leaves = node("leaves", 4, &[]);
    leaves.standing = Standing::Leaving;
    assert_eq!(cluster().node(leaves).with([pod("p", "1")]).solve().claims(), 1);
}

#[test]
fn pods_on_a_node_take_their_room_and_ports() {
    let ports = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}]);
    let there = on(pod_with("there", "1", &json!({"containers": ports})), "n");
    let base = cluster().node(node("n", 4, &[])).bound([there]);
    assert_eq!(base.clone().with([pod("p", "2")]).solve().claims(), 1);
    assert_eq!(base.clone().with([pod("p", "1")]).solve().claims(), 0);
    let small = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    assert_eq!(
        base.with([pod_with("p", "1", &json!({"containers": small}))])
            .solve()
            .claims(),
        1
    );
}

/// As the kube-scheduler does: it passes over resources that a pod asks nothing of. Every pod counts as one.
#[test]
fn whoever_asks_for_nothing_of_what_daemons_take_beyond_what_there_is_goes_there_all_the_same() {
    let memory = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]});
    let with = |there: Node| cluster().node(there).daemon(pod("d", "4"));
    let base = with(node("n", 2, &[]));
    let asking = pods(3, |name| pod_with(name, "0", &memory));
    let solved = base.clone().with(asking.clone()).solve();
    assert_eq!((solved.places()["n"].len(), solved.claims()), (3, 0));
    let some = base.with([pod("p", "1m")]).solve();
    assert_eq!(some.place("p").as_deref(), Some("new-0"));
    let mut few = node("n", 2, &[]);
    few.allocatable.set(PODS, 2);
    let solved = with(few).with(asking).solve();
    assert_eq!(solved.places()["n"].len(), 1, "the daemon is the other");
}

#[test]
fn labels_and_taints_of_a_node_are_strict() {
    let labelled_node = node("n", 4, &[("team", "a")]);
    let wants = |value: &str| pod_with("p", "1", &json!({"nodeSelector": {"team": value}}));
    let base = cluster()
        .requires("team", &Values::one_of(["a", "b"]))
        .node(labelled_node);
    assert_eq!(
        base.clone().with([wants("a")]).solve().place("p").as_deref(),
        Some("n")
    );
    assert_eq!(
        base.with([wants("b")]).solve().claims(),
        1,
        "the pool can have it"
    );
    let mut tainted = node("n", 4, &[]);
    tainted.taints.push(taint("team", "NoExecute"));
    assert_eq!(cluster().node(tainted).with([pod("p", "1")]).solve().claims(), 1);
}

#[test]
fn a_node_can_be_asked_for_by_name() {
    let fields = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
    let base = cluster().node(node("a", 4, &[])).node(node("b", 4, &[]));
    assert_eq!(
        base.with([pod_with("p", "1", &required(&fields))])
            .solve()
            .place("p")
            .as_deref(),
        Some("b")
    );
    assert!(
        !cluster()
            .with([pod_with("p", "1", &required(&fields))])
            .solve()
            .all_placed()
    );
}

#[test]
fn a_node_attaches_no_more_volumes_than_it_can() {
    let claim = |volume: &str| {
        let claim = crate::model::storage::VolumeClaim {
            volume: Some(volume.to_owned()),
            bound: true,
            ..Default::default()
        };
        (("default".to_owned(), volume.to_owned()), claim)
    };
    let volume = |name: &str| {
        let volume = crate::model::storage::Volume {
            driver: Some("d".to_owned()),
            ..Default::default()
        };
        (name.to_owned(), volume)
    };
    let mut limited = node("n", 8, &[]);
    limited.volume_limits.insert("d".to_owned(), 2);
    limited
        .volumes
        .insert("d".to_owned(), ["default/a".to_owned()].into());
    let mut base = cluster().node(limited);
    base.storage.claims = ["a", "b", "c"].map(claim).into();
    base.storage.volumes = ["a", "b", "c"].map(volume).into();
    let mounts = |name: &str, claim: &str| {
        pod_with(
            name,
            "1",
            &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}),
        )
    };
    let solved = base
        .with([mounts("p", "a"), mounts("q", "b"), mounts("r", "c")])
        .solve();
    assert_eq!(
        solved.places()["n"].len(),
        2,
        "one volume is there already, and counts once"
    );
    assert_eq!(solved.claims(), 1);
}

#[test]
fn a_new_node_never_makes_room_scarcer() {
    let many = pods(10, |name| pod(name, "3"));
    let without = cluster().with(many.clone()).solve().plan;
    let with = cluster().node(node("n", 16, &[])).with(many).solve().plan;
    assert!(with.price_nanos() <= without.price_nanos() && with.left_out.is_empty());
}

/// The second comes while the first waits for its claim, and nobody is bound anywhere yet.
#[test]
fn a_pod_near_to_its_own_kind_goes_to_the_claim_in_flight_that_is_for_the_first() {
    let app = json!({"app": "web"});
    let near = neighbor("podAffinity", ZONES, &app);
    let mut flying = node("flying", 4, &[(ZONES, "z2")]);
    flying.kind = NodeKind::ClaimInFlight;
    let first = on(labelled(pod_with("first", "1", &near), &app), "flying");
    let second = labelled(pod_with("second", "1", &near), &app);
    let solved = cluster().node(flying).bound([first]).with([second]).solve();
    assert_eq!(solved.place("second").as_deref(), Some("flying"));
}
