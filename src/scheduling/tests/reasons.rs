//! Why pods are left out, in words.

use super::volumes::{mounts, storage, with};
use super::*;
use crate::api::names::INSTANCE_GPU_COUNT;

fn words(cluster: &Cluster) -> Vec<String> {
    cluster.solve().words()
}

#[test]
fn a_resource_that_no_type_has_enough_of_is_named_with_how_much_is_missing() {
    assert_eq!(
        words(&cluster().with([pod("p", "20")])),
        ["NodePool default: cpu is short by 4100m on type-16, which has 15900m of 20"]
    );
}

#[test]
fn a_label_is_named_with_what_is_wanted_and_what_there_is() {
    let wants = pod_with("p", "1", &json!({"nodeSelector": {ZONES: "z9"}}));
    assert_eq!(
        words(&cluster().with([wants])),
        ["NodePool default: label topology.kubernetes.io/zone must be in [z9], but is in [z1, z2, z3]"]
    );
    let team = pod_with("p", "1", &json!({"nodeSelector": {"team": "a"}}));
    assert_eq!(
        words(&cluster().with([team])),
        ["NodePool default: label team must be in [a], but is absent"]
    );
}

#[test]
fn a_label_that_must_be_absent_is_not_the_reason_where_a_type_does_without_it() {
    let cards = |name: &str, count: &Values| {
        let mut kind = kind(name, 4);
        kind.requirements.narrow(INSTANCE_GPU_COUNT, count);
        kind
    };
    let plain = || cards("plain", &Values::absent());
    let base = cluster().types(vec![plain(), cards("card", &Values::one_of(["1"]))]);
    let elsewhere = json!({"key": ZONES, "operator": "In", "values": ["z9"]});
    let none = json!({"key": INSTANCE_GPU_COUNT, "operator": "DoesNotExist"});
    let asks = |all: &[&Value]| pod_with("p", "1", &required(&json!([{"matchExpressions": all}])));
    let of_pool = base.clone().requires(INSTANCE_GPU_COUNT, &Values::absent());
    for told in [
        words(&base.with([asks(&[&none, &elsewhere])])),
        words(&of_pool.with([asks(&[&elsewhere])])),
    ] {
        assert_eq!(
            told,
            ["NodePool default: label topology.kubernetes.io/zone must be in [z9], but is in [z1, z2, z3]"]
        );
    }
    let one = json!({"nodeSelector": {INSTANCE_GPU_COUNT: "1"}});
    let without = cluster().types(vec![plain()]).with([pod_with("p", "1", &one)]);
    assert_eq!(
        words(&without),
        ["NodePool default: label karpenter-ibm.sh/instance-gpu-count must be in [1], but is absent"]
    );
}

#[test]
fn a_label_that_volumes_need_is_named_as_theirs() {
    let nowhere = with(storage(&[("v", &["nowhere"])])).with([mounts("p", &["v"])]);
    let need = "its volumes need label topology.kubernetes.io/zone in [nowhere], but it is in";
    assert_eq!(
        words(&nowhere),
        [format!("NodePool default: {need} [z1, z2, z3]")],
        "no type is sold there"
    );
    assert_eq!(
        words(&nowhere.clone().requires(ZONES, &Values::one_of(["z1"]))),
        [format!("NodePool default: {need} [z1]")],
        "the pool has no nodes there"
    );
    let there = nowhere.node(node("n", 4, &[(ZONES, "z2")]));
    let told = words(&there);
    assert!(told.contains(&format!("node n: {need} [z2]")), "{told:?}");
}

#[test]
fn a_label_that_a_pod_asks_for_otherwise_than_its_volumes_is_named() {
    let volumes: [(&str, &[&str]); 3] = [("any", &["z1", "z2"]), ("far", &["z2", "z3"]), ("none", &[])];
    let asks = |zone: &str| {
        let mut pod = mounts("p", &["none", "any", "far"]);
        let selector = json!({ZONES: zone});
        pod.spec.as_mut().unwrap().node_selector = serde_json::from_value(selector).unwrap();
        with(storage(&volumes)).with([pod])
    };
    assert!(asks("z2").solve().all_placed());
    assert_eq!(
        words(&asks("z1")),
        ["NodePool default: its volumes need label topology.kubernetes.io/zone in [z2], but it is in [z1]"]
    );
}

#[test]
fn of_several_volumes_the_one_that_can_nowhere_be_on_a_node_is_the_reason() {
    let volumes: [(&str, &[&str]); 2] = [("any", &["z3", "z1", "z2"]), ("far", &["z2"])];
    let none = with(storage(&volumes)).pool(|pool| pool.limits = Some(Resources::new().with("nodes", 0)));
    let there = none.node(node("n", 4, &[(ZONES, "z1")]));
    let told = words(&there.with([mounts("p", &["any", "far"])]));
    let said = "node n: its volumes need label topology.kubernetes.io/zone in [z2], but it is in [z1]";
    assert!(told.contains(&said.to_owned()), "{told:?}");
}

#[test]
fn of_places_where_volumes_can_be_one_where_nothing_is_sold_is_not_the_reason() {
    let fields = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]});
    for zones in [["a-nowhere", "z1"], ["z1", "z9-nowhere"]] {
        let base = with(storage(&[("v", &zones[..])]));
        assert_eq!(
            words(&base.with([pod_with("p", "20", &fields)])),
            ["NodePool default: cpu is short by 4100m on type-16, which has 15900m of 20"]
        );
    }
}

#[test]
fn what_daemons_take_is_told_where_a_resource_is_short() {
    assert_eq!(
        words(&cluster().daemon(pod("d", "16")).with([pod("p", "1")])),
        ["NodePool default: cpu is short by 1 on type-16, which has 0 of 1 beside the 16 that daemons take"]
    );
    let none = cluster().pool(|pool| pool.limits = Some(Resources::new().with("nodes", 0)));
    let told = words(
        &none
            .node(node("n", 2, &[]))
            .daemon(pod("d", "1"))
            .with([pod("p", "2")]),
    );
    assert_eq!(
        told[1],
        "node n: cpu is short by 1 on n, which has 1 of 2 beside the 1 that daemons take"
    );
}

#[test]
fn whoever_asks_for_nothing_of_a_resource_is_not_told_that_it_is_short() {
    let fields = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "100Gi"}}}]});
    let told = words(
        &cluster()
            .node(node("n", 2, &[]))
            .node(node("o", 1, &[]))
            .daemon(pod("d", "16"))
            .with([pod_with("p", "0", &fields)]),
    );
    assert!(
        told[0].starts_with("NodePool default: memory is short by "),
        "{told:?}"
    );
    assert!(
        told[1].starts_with("2 nodes, nearest n: memory is short by "),
        "{told:?}"
    );
}

#[test]
fn of_what_is_short_that_is_told_of_which_most_is_missing() {
    let sized = |name: &str, cpu: i64, memory: i64| {
        let mut kind = kind(name, cpu);
        kind.allocatable.set(MEMORY, memory * GI);
        pool(name, vec![kind])
    };
    let mut there = node("n", 16, &[]);
    there.allocatable.set(MEMORY, 20 * GI);
    let asks = json!({"cpu": "20", "memory": "100Gi"});
    let fields = json!({"containers": [{"name": "c", "resources": {"requests": asks}}]});
    let mut base = cluster().node(there).with([pod_with("p", "20", &fields)]);
    base.pools = vec![sized("a", 16, 10), sized("b", 10, 100)];
    assert_eq!(
        words(&base),
        [
            "NodePool b: cpu is short by 10100m on b, which has 9900m of 20",
            "node n: memory is short by 80Gi on n, which has 20Gi of 100Gi",
            "NodePool a: memory is short by 90Gi on a, which has 10Gi of 100Gi",
        ]
    );
}

/// A pod that asks for some processors and takes these ports of its host, with these fields as well.
fn taking(name: &str, cpu: &str, ports: &[i32], more: &Value) -> core::Pod {
    let port = |port: &i32| json!({"containerPort": port, "hostPort": port});
    let ports: Vec<Value> = ports.iter().map(port).collect();
    let container = json!({"name": "c", "ports": ports, "resources": {"requests": {"cpu": cpu}}});
    pod_with(name, cpu, &both(&json!({"containers": [container]}), more))
}

#[test]
fn the_port_that_a_daemon_takes_where_there_is_room_is_named() {
    let on = |arch: &str| json!({"nodeSelector": {ARCH: arch}});
    let told = words(
        &cluster()
            .types(vec![kind("large", 8), with_arch(kind("small", 2), "arm64")])
            .daemon(taking("d", "100m", &[80], &on("amd64")))
            .daemon(taking("e", "100m", &[75], &on("arm64")))
            .with([taking("p", "3", &[70, 75, 80], &json!({}))]),
    );
    assert_eq!(told, ["NodePool default: port 80/TCP of the host is taken"]);
}

#[test]
fn a_taint_is_named() {
    let tainted = cluster().pool(|pool| pool.taints.push(taint("team", "NoSchedule")));
    assert_eq!(
        words(&tainted.with([pod("p", "1")])),
        ["NodePool default: taint team:NoSchedule is not tolerated"]
    );
}

#[test]
fn an_offering_that_comes_back_is_named_with_the_time() {
    let mut types = vec![kind("x", 4)];
    for offering in &mut types[0].offerings {
        offering.availability = Availability::Withheld {
            until: "2026-01-01T12:00:00Z".parse().unwrap(),
            reason: "Preempted".to_owned(),
        };
    }
    assert_eq!(
        words(&cluster().types(types).with([pod("p", "1")])),
        ["NodePool default: x in z1 as on-demand is withheld until 2026-01-01T12:00:00Z: Preempted"]
    );
}

#[test]
fn of_what_is_withheld_that_is_named_which_comes_back_first_and_then_the_first_by_name() {
    let until = |time: &str| Availability::Withheld {
        until: time.parse().unwrap(),
        reason: "Preempted".to_owned(),
    };
    let mut types = vec![kind("x", 4), kind("w", 4), kind("v", 4)];
    for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.availability = until("2026-01-01T13:00:00Z");
    }
    let told = |types: &[InstanceType]| {
        let told = words(&cluster().types(types.to_vec()).with([pod("p", "1")]));
        told[0].split(" is ").next().unwrap().to_owned()
    };
    assert_eq!(told(&types), "NodePool default: v in z1 as on-demand");
    for at in [1, 4] {
        types[0].offerings[at].availability = until("2026-01-01T12:00:00Z");
    }
    assert_eq!(told(&types), "NodePool default: x in z2 as spot");
    for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.availability = Availability::Unsold(crate::model::Unsold::NoSubnet);
    }
    types[0].offerings[0].availability = until("2026-01-01T13:00:00Z");
    assert_eq!(told(&types), "NodePool default: x in z1 as spot");
}

#[test]
fn of_terms_for_which_something_is_sold_the_one_that_came_nearest_is_told() {
    let term = |name: &str| json!({"matchExpressions": [{"key": INSTANCE_TYPE, "operator": "In", "values": [name]}]});
    let base = cluster().pool(|pool| pool.limits = Some(Resources::new().with(CPU, 4000)));
    for names in [["type-02", "type-16"], ["type-16", "type-02"]] {
        let fields = required(&json!(names.map(term)));
        assert_eq!(
            words(&base.clone().with([pod_with("p", "8", &fields)])),
            ["NodePool default: its limit of 4 cpu leaves 4, and the smallest type that fits has 16"]
        );
        assert_eq!(
            words(&cluster().with([pod_with("p", "16", &fields)])),
            ["NodePool default: cpu is short by 100m on type-16, which has 15900m of 16"]
        );
    }
}

#[test]
fn the_pool_that_came_nearest_comes_first() {
    let mut tainted = pool("b-tainted", vec![kind("x", 4)]);
    tainted.taints.push(taint("team", "NoSchedule"));
    let told = words(&cluster().and_pool(tainted).with([pod("p", "20")]));
    assert!(told[0].starts_with("NodePool default: cpu"), "{told:?}");
    assert!(told[1].starts_with("NodePool b-tainted: taint"), "{told:?}");
}

/// The names of two pools, in the order in which they are told; `a` has these types and this limit, `b` those.
fn nearest_first(a: (Vec<InstanceType>, Option<i64>), b: (Vec<InstanceType>, Option<i64>)) -> Vec<String> {
    let make = |name: &str, (types, limit): (Vec<InstanceType>, Option<i64>)| Pool {
        limits: limit.map(|cpu| Resources::new().with(CPU, cpu)),
        ..pool(name, types)
    };
    let mut base = cluster().with([pod("p", "7")]);
    base.pools = vec![make("a", a), make("b", b)];
    let solved = base.solve();
    let refusals = solved.plan.left_out[0].refusals.iter();
    let pools = refusals.map(|refusal| match &refusal.place {
        Where::Pool(name) => name.clone(),
        other => format!("{other:?}"),
    });
    pools.collect()
}

fn withheld(until: &str) -> InstanceType {
    let mut kind = kind("x", 16);
    for offering in &mut kind.offerings {
        offering.availability = Availability::Withheld {
            until: until.parse().unwrap(),
            reason: "Shortage".to_owned(),
        };
    }
    kind
}

#[test]
fn of_pools_that_fail_alike_the_one_that_lacks_least_comes_first() {
    let small = || (vec![kind("small", 2)], None);
    let large = || (vec![kind("large", 4)], None);
    assert_eq!(nearest_first(small(), large()), ["b", "a"]);
    assert_eq!(nearest_first(large(), small()), ["a", "b"]);
    let room = |limit: i64| (vec![kind("x", 16)], Some(limit));
    assert_eq!(nearest_first(room(2000), room(15_000)), ["b", "a"]);
    assert_eq!(nearest_first(room(15_000), room(2000)), ["a", "b"]);
    let later = || (vec![withheld("2026-01-01T13:00:00Z")], None);
    let soon = || (vec![withheld("2026-01-01T12:00:00Z")], None);
    assert_eq!(nearest_first(later(), soon()), ["b", "a"]);
    assert_eq!(nearest_first(soon(), later()), ["a", "b"]);
    let asking = |least: i64| {
        let asked = crate::api::Requirement {
            key: INSTANCE_TYPE.to_owned(),
            operator: "Exists".to_owned(),
            values: None,
            min_values: Some(least),
        };
        Requirements::from_api(&[asked]).unwrap()
    };
    let mut many = cluster().with([pod("p", "7")]);
    many.pools = vec![pool("a", vec![kind("x", 16)]), pool("b", vec![kind("x", 16)])];
    many.pools[0].requirements = many.pools[0].requirements.and(&asking(9));
    many.pools[1].requirements = many.pools[1].requirements.and(&asking(2));
    assert!(words(&many)[0].starts_with("NodePool b"), "{:?}", words(&many));
}

#[test]
fn the_node_that_came_nearest_is_named() {
    let mut tainted = node("a", 4, &[]);
    tainted.taints.push(taint("team", "NoSchedule"));
    let base = cluster().pool(|pool| pool.limits = Some(Resources::new().with("nodes", 0)));
    let told = words(&base.node(tainted).node(node("b", 2, &[])).with([pod("p", "3")]));
    assert_eq!(
        told[0],
        "NodePool default: its limit of 0 nodes leaves 0, and the smallest type that fits has 1"
    );
    assert_eq!(
        told[1],
        "2 nodes, nearest b: cpu is short by 1 on b, which has 2 of 3"
    );
}

#[test]
fn a_pod_that_says_something_without_meaning_is_told_so_and_nobody_else_is_affected() {
    let solved = cluster().with([pod("bad", "-1"), pod("good", "1")]).solve();
    assert_eq!(
        solved.words(),
        ["it requests -1 of cpu, which is less than nothing"]
    );
    assert!(solved.place("good").is_some());
    assert!(
        !cluster()
            .with([pod("huge", "1000000000000000000")])
            .solve()
            .all_placed()
    );
}

#[test]
fn a_pool_that_makes_no_nodes_now_is_told_with_the_reason() {
    let mut base = cluster().with([pod("p", "20")]);
    base.closed = vec![(
        "broken".to_owned(),
        "IBMNodeClass x is not ready: no subnet".to_owned(),
    )];
    let mut never = pool("contradictory", vec![kind("x", 4)]);
    never.requirements.narrow(ZONES, &Values::one_of(["z1"]));
    never.requirements.narrow(ZONES, &Values::one_of(["z2"]));
    let told = words(&base.and_pool(never));
    assert_eq!(
        told[1..],
        [
            "NodePool broken: IBMNodeClass x is not ready: no subnet",
            "NodePool contradictory: its own requirements leave no value of topology.kubernetes.io/zone",
        ]
    );
}

/// Of a pod's many ways to be content, those that nothing can meet take no room from the others.
#[test]
fn a_term_that_can_be_met_counts_however_many_come_before_it_that_cannot() {
    let term =
        |zone: String| json!({"matchExpressions": [{"key": ZONES, "operator": "In", "values": [zone]}]});
    let mut terms: Vec<Value> = (0..500).map(|at| term(format!("nowhere-{at}"))).collect();
    terms.push(term("z2".to_owned()));
    let solved = cluster()
        .with([pod_with("p", "1", &required(&json!(terms)))])
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(zones(&solved), ["z2"].into());
}

/// Fields of a pod with as many ways to be content, each of which asks for another value of a label.
fn many_ways(number: usize, operator: &str, key: &str) -> Value {
    let term = |at: usize| {
        let values = json!([format!("w{at:03}")]);
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    };
    required(&(0..number).map(term).collect())
}

#[test]
fn who_has_many_ways_that_are_all_withheld_is_told_when_the_first_comes_back() {
    let any = pod_with("p", "1", &many_ways(100, "NotIn", INSTANCE_TYPE));
    let base = cluster().types(vec![withheld("2026-01-01T12:00:00Z")]);
    assert_eq!(
        words(&base.with([any])),
        ["NodePool default: x in z1 as on-demand is withheld until 2026-01-01T12:00:00Z: Shortage"]
    );
}

#[test]
fn who_has_many_ways_that_lead_nowhere_is_told_of_a_label() {
    let told = words(&cluster().with([pod_with("p", "1", &many_ways(100, "In", ZONES))]));
    assert_eq!(
        told,
        ["NodePool default: label topology.kubernetes.io/zone must be in [w063], but is in [z1, z2, z3]"]
    );
}

/// Types of which the last one can be had and a pod that may be on any; of the others these offers are withheld.
fn last_of_many(is_withheld: impl Fn(&Offering) -> bool) -> Cluster {
    let named = |at: usize| {
        let mut kind = kind(&format!("w{at:03}"), 4);
        let withheld = kind.offerings.iter_mut().filter(|offering| is_withheld(offering));
        for offering in withheld.filter(|_| at < 99) {
            offering.availability = Availability::Withheld {
                until: "2026-01-01T12:00:00Z".parse().unwrap(),
                reason: "Shortage".to_owned(),
            };
        }
        kind
    };
    let any = pod_with("p", "1", &many_ways(100, "In", INSTANCE_TYPE));
    cluster().types((0..100).map(named).collect()).with([any])
}

#[test]
fn a_way_that_can_be_had_now_counts_however_many_come_before_it_that_are_withheld() {
    assert_eq!(last_of_many(|_| true).solve().types(), ["w099"]);
}

#[test]
fn a_way_can_be_had_now_only_where_its_pool_has_nodes() {
    let elsewhere = last_of_many(|offering| offering.zone == "z1");
    let solved = elsewhere.requires(ZONES, &Values::one_of(["z1"])).solve();
    assert_eq!(solved.types(), ["w099"]);
}

#[test]
fn a_pod_that_claims_devices_is_left_out_with_that_reason_and_nobody_else_is() {
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]});
    let solved = cluster()
        .node(node("there", 4, &[]))
        .with([pod_with("claims", "1", &claims), pod("plain", "1")])
        .solve();
    assert_eq!(
        solved.words(),
        ["it claims devices (resourceClaims: gpu), and no node is bought for pods that do"]
    );
    assert_eq!(solved.place("plain").as_deref(), Some("there"));
}

/// More than can be counted, on nodes that have less than nothing left.
#[test]
fn amounts_beyond_all_bounds_are_told_as_they_are() {
    let huge = "9223372036854775807";
    let asks =
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": huge, "memory": huge}}}]});
    let solved = cluster()
        .node(node("full", 1, &[]))
        .bound([on(pod("there", "3"), "full")])
        .with([pod_with("p", "1", &asks)])
        .solve();
    assert_eq!(solved.plan.pods_left_out(), 1);
    assert!(!solved.words().is_empty());
}
