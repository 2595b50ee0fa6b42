//! The smallest change that would let a pod in.

use super::volumes::{mounts, storage, with};
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
fn a_pool_is_given_up_once_it_needs_as_many_changes_as_one_before_it() {
    let mut near = pool("near", vec![kind("x", 32)]);
    near.limits = Some(Resources::new().with(CPU, 4000));
    let asks = json!({"cpu": "8", "memory": "20Gi"});
    let fields = json!({"containers": [{"name": "c", "resources": {"requests": asks}}]});
    let mut base = cluster().with([pod_with("p", "8", &fields)]);
    base.pools = vec![near, pool("short-of-both", vec![kind("y", 2)])];
    let solved = base.solve();
    explain::judgements::take();
    let found = remedy(&solved.snapshot, &solved.plan, base.options, 0).unwrap();
    assert_eq!((found.pool.as_str(), found.changes.len()), ("near", 1));
    assert_eq!(explain::judgements::take(), 2, "one obstacle of each");
}

#[test]
fn of_labels_that_no_type_has_together_the_one_is_given_up_that_lets_the_pod_in() {
    let types = vec![kind("amd", 16), with_arch(kind("arm", 2), "arm64")];
    let asks = json!({"nodeSelector": {ARCH: "amd64", INSTANCE_TYPE: "arm"}});
    assert_eq!(
        words(&cluster().types(types).with([pod_with("p", "8", &asks)])),
        [
            "default",
            "let the pod not require that label node.kubernetes.io/instance-type is in [arm]"
        ]
    );
}

#[test]
fn what_a_pod_asks_otherwise_than_its_volumes_need_can_be_given_up() {
    let asks = |volume: &str, zone: &str| {
        let mut pod = mounts("p", &["v"]);
        let selector = json!({ZONES: zone});
        pod.spec.as_mut().unwrap().node_selector = serde_json::from_value(selector).unwrap();
        words(&with(storage(&[("v", &[volume])])).with([pod]))
    };
    assert_eq!(
        asks("z2", "z1"),
        [
            "default",
            "let the pod not require that label topology.kubernetes.io/zone is in [z1]"
        ]
    );
    assert!(asks("nowhere", "z1").is_empty(), "nothing is sold there");
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
    assert!(words(&closed(cluster().with([pod("p", "-1")]))).is_empty());
}

/// With a pool that makes no nodes.
fn closed(mut cluster: Cluster) -> Cluster {
    let why = "IBMNodeClass x is not ready: no subnet";
    cluster.closed = vec![("closed".to_owned(), why.to_owned())];
    cluster
}

#[test]
fn a_pool_that_makes_no_nodes_can_be_mended_where_no_other_would_do() {
    let beside = closed(cluster().with([pod("p", "20")]));
    assert_eq!(
        words(&beside)[0],
        "default",
        "whether the other would do is not known"
    );
    let mut alone = closed(cluster().with([pod("p", "20")]));
    alone.pools.clear();
    assert_eq!(
        words(&alone),
        [
            "closed",
            "mend what keeps the pool from making nodes: IBMNodeClass x is not ready: no subnet"
        ]
    );
}

#[test]
fn fewer_volumes_can_be_mounted() {
    let mounting = |most: u32| {
        let mut types = cluster().pools[0].types.to_vec();
        for kind in &mut types {
            kind.volume_limits.insert("d".to_owned(), most);
        }
        let all = storage(&[("a", &[]), ("b", &[]), ("c", &[])]);
        words(&with(all).types(types).with([mounts("p", &["a", "b", "c"])]))
    };
    assert_eq!(
        mounting(1),
        ["default", "let the pod mount 2 volumes less of d, at most 1"]
    );
    assert_eq!(
        mounting(2),
        ["default", "let the pod mount 1 volume less of d, at most 2"]
    );
}

#[test]
fn a_label_by_which_others_must_be_far_can_be_given_up() {
    let guards = neighbor("podAntiAffinity", ZONES, &json!({"app": "noisy"}));
    let mut guarded = cluster().with([labelled(
        pod("noisy", "1"),
        &json!({"app": "noisy", "tier": "back"}),
    )]);
    for zone in ["z1", "z2", "z3"] {
        let guard = on(pod_with(&format!("guard-{zone}"), "1", &guards), zone);
        guarded = guarded.node(node(zone, 1, &[(ZONES, zone)])).bound([guard]);
    }
    let told = guarded.solve().words();
    assert_eq!(
        told[0],
        "NodePool default: pods that must be far from it by topology.kubernetes.io/zone are everywhere"
    );
    assert_eq!(
        words(&guarded),
        [
            "default",
            "let the pod not have the label app=noisy, as others must be far from such pods by topology.kubernetes.io/zone"
        ]
    );
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
