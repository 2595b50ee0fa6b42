//! The smallest change that would let a pod in.

use super::*;

/// The remedy of the first pod that is left out, in words.
fn words(cluster: &Cluster) -> Vec<String> {
    let solved = cluster.solve();
    let first = solved.plan.left_out[0].pods[0];
    let found = remedy(&solved.snapshot, &solved.plan, cluster.options, first);
    found.map_or_else(Vec::new, |remedy| {
        let changes = remedy.changes.iter().map(ToString::to_string);
        std::iter::once(remedy.pool.clone()).chain(changes).collect()
    })
}

#[test]
fn a_taint_can_be_tolerated() {
    let tainted = cluster().pool(|pool| pool.taints.push(taint("team", "NoSchedule")));
    assert_eq!(
        words(&tainted.with([pod("p", "1")])),
        ["default", "let the pod tolerate the taint team:NoSchedule"]
    );
}

#[test]
fn less_can_be_asked_for() {
    assert_eq!(
        words(&cluster().with([pod("p", "20")])),
        ["default", "let the pod ask for 4100m less of cpu, at most 15900m"]
    );
}

#[test]
fn nothing_can_be_asked_for_where_daemons_leave_nothing() {
    let beside = |daemon: &str| words(&cluster().daemon(pod("d", daemon)).with([pod("p", "1")]));
    assert!(beside("16").is_empty(), "{:?}", beside("16"));
    assert_eq!(
        beside("15"),
        ["default", "let the pod ask for 100m less of cpu, at most 900m"]
    );
}

#[test]
fn several_obstacles_need_several_changes() {
    let base = cluster().pool(|pool| {
        pool.taints.push(taint("team", "NoSchedule"));
        pool.limits = Some(Resources::new().with(CPU, 4000));
    });
    let picky = pod_with("p", "20", &json!({"nodeSelector": {ZONES: "z9"}}));
    assert_eq!(
        words(&base.with([picky])),
        [
            "default",
            "let the pod tolerate the taint team:NoSchedule",
            "let the pod not require that label topology.kubernetes.io/zone is in [z9]",
            "let the pod ask for 4100m less of cpu, at most 15900m",
            "raise the pool's limit of cpu to 16",
        ]
    );
}

#[test]
fn the_pool_that_needs_fewest_changes_is_the_one() {
    let mut tainted = pool("tainted", vec![kind("x", 32)]);
    tainted.taints.push(taint("team", "NoSchedule"));
    let base = cluster().pool(|pool| pool.limits = Some(Resources::new().with(CPU, 4000)));
    assert_eq!(
        words(&base.and_pool(tainted).with([pod("p", "20")])),
        ["tainted", "let the pod tolerate the taint team:NoSchedule"]
    );
}

#[test]
fn time_can_be_waited_for() {
    let until: jiff::Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let mut types = cluster().pools[0].types.to_vec();
    for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.availability = Availability::Withheld {
            until,
            reason: "Shortage".to_owned(),
        };
    }
    let told = words(&cluster().types(types).with([pod("p", "1")]));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[1].starts_with("wait until 2026-11-16T12:00:00Z, when "),
        "{told:?}"
    );
}

#[test]
fn what_is_asked_of_others_can_be_given_up() {
    let near = neighbor("podAffinity", ZONES, &json!({"app": "nobody"}));
    assert_eq!(
        words(&cluster().with([pod_with("p", "1", &near)])),
        [
            "default",
            "let the pod not have to be near to others by topology.kubernetes.io/zone"
        ]
    );
}

#[test]
fn no_change_helps_a_pod_that_cannot_be_read() {
    assert!(words(&cluster().with([pod("p", "-1")])).is_empty());
}

#[test]
fn what_others_were_given_is_not_there_for_whoever_is_left_out() {
    let limited = |resource: &str, amount: i64| {
        cluster().pool(|pool| pool.limits = Some(Resources::new().with(resource, amount)))
    };
    assert_eq!(
        words(&limited(CPU, 8000).with(pods(6, |name| pod(name, "3")))),
        ["default", "raise the pool's limit of cpu to 12"],
        "two are on a node of eight"
    );
    let app = json!({"app": "web"});
    let apart = neighbor("podAntiAffinity", HOST, &app);
    let alone = |name: &str| labelled(pod_with(name, "1", &apart), &app);
    assert_eq!(
        words(&limited("nodes", 2).with(pods(3, alone))),
        ["default", "raise the pool's limit of nodes to 3"]
    );
    let apart = neighbor("podAntiAffinity", ZONES, &app);
    let alone = |name: &str| labelled(pod_with(name, "1", &apart), &app);
    let late = pod_with("late", "500m", &apart);
    assert_eq!(
        words(&cluster().with(pods(3, alone)).with([late])),
        [
            "default",
            "let the pod not have to be far from others by topology.kubernetes.io/zone"
        ],
        "one of the others is in each of three zones"
    );
}
