use proptest::prelude::*;
use serde_json::{Value, json};

use super::samples::{add, asking, bindings, carry_out, node, on, pod, view, zoned};
use super::*;
use crate::sim::actors::view::Key;

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

fn of(name: &str, spec: Value) -> Pod {
    pod(name, &json!({"app": name}), spec)
}

fn important(name: &str, priority: i32, cpu: &str) -> Pod {
    let mut spec = asking(cpu);
    spec["priority"] = json!(priority);
    of(name, spec)
}

fn message(view: &View, name: &str) -> String {
    let pod = &view.pods[&Key::new("default", name)];
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let one = conditions.iter().find(|one| one.type_ == "PodScheduled").unwrap();
    assert_eq!(
        (one.status.as_str(), one.reason.as_deref()),
        ("False", Some("Unschedulable"))
    );
    one.message.clone().unwrap()
}

fn nomination<'v>(view: &'v View, name: &str) -> Option<&'v str> {
    nominated(&view.pods[&Key::new("default", name)])
}

#[test]
fn pods_go_where_most_is_free_and_count_there_at_once() {
    let nodes = [node("n1", &json!({})), node("n2", &json!({}))];
    let pods = [
        on("n1", of("old", asking("2"))),
        of("p1", asking("1")),
        of("p2", asking("2")),
        of("p3", asking("2")),
    ];
    let view = view(&nodes, &pods);
    assert_eq!(
        bindings(&next(&view, now())),
        [("p1", "n2"), ("p2", "n2"), ("p3", "n1")]
    );
}

#[test]
fn the_last_room_goes_by_priority_then_age_then_name() {
    let aged = |mut pod: Pod, second: &str| {
        let at = format!("2026-11-16T09:00:{second}Z").parse().unwrap();
        pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
        pod
    };
    let (low, high) = (
        aged(important("a", 0, "3"), "00"),
        aged(important("z", 9, "3"), "30"),
    );
    let (young, old) = (
        aged(important("b", 0, "3"), "20"),
        aged(important("c", 0, "3"), "10"),
    );
    let table = [
        (vec![low.clone(), high], "z"),
        (vec![young, old.clone()], "c"),
        (vec![aged(important("d", 0, "3"), "10"), old], "c"),
    ];
    for (pods, winner) in table {
        let view = view(&[node("n1", &json!({}))], &pods);
        assert_eq!(bindings(&next(&view, now())), [(winner, "n1")]);
    }
}

#[test]
fn only_pods_that_wait_for_this_scheduler_are_placed() {
    let mut gone = of("gone", json!({}));
    gone.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let mut ended = of("ended", json!({}));
    ended.status = serde_json::from_value(json!({"phase": "Failed"})).unwrap();
    let pods = [
        gone,
        ended,
        of("gated", json!({"schedulingGates": [{"name": "x"}]})),
        of("foreign", json!({"schedulerName": "other"})),
        of("ours", json!({"schedulerName": "default-scheduler"})),
    ];
    let view = view(&[node("n1", &json!({}))], &pods);
    assert_eq!(bindings(&next(&view, now())), [("ours", "n1")]);
}

#[test]
fn pods_that_have_ended_leave_their_room() {
    let mut ended = on("n1", of("ended", asking("4")));
    ended.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
    let view = view(&[node("n1", &json!({}))], &[ended, of("p", asking("4"))]);
    assert_eq!(bindings(&next(&view, now())), [("p", "n1")]);
}

#[test]
fn a_pod_that_fits_nowhere_is_told_why_once() {
    let (mut tainted, mut cordoned) = (node("n2", &json!({})), node("n3", &json!({})));
    tainted.spec = serde_json::from_value(json!({"taints": [{"key": "x", "effect": "NoSchedule"}]})).unwrap();
    cordoned.spec = serde_json::from_value(json!({"unschedulable": true})).unwrap();
    let nodes = [node("n1", &json!({})), tainted, cordoned];
    let mut view = view(&nodes, &[on("n1", of("old", asking("2"))), of("p", asking("3"))]);
    let first = next(&view, now());
    carry_out(&mut view, &first, now());
    assert_eq!(
        message(&view, "p"),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. \
         preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, \
         2 Preemption is not helpful for scheduling."
    );
    assert_eq!(next(&view, now()), Next::default(), "nothing new is not written");
    view.apply(node("n4", &json!({})));
    assert_eq!(bindings(&next(&view, now())), [("p", "n4")]);
}

#[test]
fn reasons_are_those_of_the_first_filter_that_refuses() {
    let ports = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let many = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "5", "memory": "17Gi", "x.y/z": "1"}}}]});
    let table = [
        (
            ports.clone(),
            "1 node(s) didn't have free ports for the requested pod ports.",
        ),
        (
            many,
            "1 Insufficient cpu, 1 Insufficient memory, 1 Insufficient x.y/z.",
        ),
        (
            json!({"nodeSelector": {"a": "b"}}),
            "1 node(s) didn't match Pod's node affinity/selector.",
        ),
        (
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
            "persistentvolumeclaim \"c\" not found.",
        ),
    ];
    for (spec, reason) in table {
        let mut view = view(
            &[node("n1", &json!({}))],
            &[on("n1", of("old", ports.clone())), of("p", spec)],
        );
        let told = next(&view, now());
        carry_out(&mut view, &told, now());
        let expected = format!("0/1 nodes are available: {reason}");
        assert!(
            message(&view, "p").starts_with(&expected),
            "{}",
            message(&view, "p")
        );
    }
}

#[test]
fn a_node_takes_as_many_pods_as_it_says() {
    let pods: Vec<Pod> = (0..11).map(|at| of(&format!("p{at:02}"), json!({}))).collect();
    let mut view = view(&[node("n1", &json!({}))], &pods);
    let placed = next(&view, now());
    assert_eq!(bindings(&placed).len(), 10);
    carry_out(&mut view, &placed, now());
    assert!(message(&view, "p10").starts_with("0/1 nodes are available: 1 Too many pods."));
}

#[test]
fn without_nodes_the_message_is_another() {
    let mut view = view(&[], &[of("p", json!({}))]);
    let told = next(&view, now());
    carry_out(&mut view, &told, now());
    assert_eq!(message(&view, "p"), "no nodes available to schedule pods");
}

#[test]
fn an_important_pod_makes_room_and_nobody_else_takes_it() {
    let pods = [
        on("n1", important("big", 0, "3")),
        on("n2", important("small", 0, "1")),
        on("n2", important("other", 5, "3")),
        important("vip", 10, "4"),
    ];
    let mut view = view(&[node("n1", &json!({})), node("n2", &json!({}))], &pods);
    let sent = next(&view, now());
    carry_out(&mut view, &sent, now());
    assert_eq!(
        nomination(&view, "vip"),
        Some("n1"),
        "where the victims matter least"
    );
    let victim = &view.pods[&Key::new("default", "big")];
    assert!(preemption::is_leaving(victim));
    assert!(
        view.pods[&Key::new("default", "small")]
            .metadata
            .deletion_timestamp
            .is_none()
    );

    view.apply(important("late", 10, "1"));
    let waiting = next(&view, now());
    carry_out(&mut view, &waiting, now());
    assert_eq!(
        bindings(&waiting),
        [],
        "the room that comes free is kept, and n2 is full"
    );
    assert!(message(&view, "vip").ends_with("not eligible due to a terminating pod on the nominated node."));
    view.bury(Kind::Pod, "big");
    assert_eq!(bindings(&next(&view, now())), [("vip", "n1")]);
}

#[test]
fn as_few_as_possible_go_and_budgets_are_spared() {
    let mut pods = vec![
        on("n1", important("a", 0, "2")),
        on("n1", important("b", 1, "2")),
        on("n2", pod("guarded", &json!({"app": "db"}), asking("4"))),
        important("vip", 10, "2"),
    ];
    pods[3].spec.as_mut().unwrap().priority = Some(10);
    let mut view = view(&[node("n1", &json!({})), node("n2", &json!({}))], &pods);
    add::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(
        &mut view,
        json!({"metadata": {"name": "db", "namespace": "default"},
               "spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": {"disruptionsAllowed": 0}}),
    );
    let sent = next(&view, now());
    let gone: Vec<&str> = sent
        .acts
        .iter()
        .filter_map(|act| match act {
            Act::Delete { target, .. } => Some(target.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(gone, ["a"]);
}

#[test]
fn a_pod_that_may_not_preempt_waits() {
    let mut spec = asking("4");
    spec["priority"] = json!(10);
    spec["preemptionPolicy"] = json!("Never");
    let mut view = view(
        &[node("n1", &json!({}))],
        &[on("n1", of("old", asking("1"))), of("p", spec)],
    );
    let told = next(&view, now());
    carry_out(&mut view, &told, now());
    assert!(message(&view, "p").ends_with("preemption: not eligible due to preemptionPolicy=Never."));
    assert_eq!(told.acts.len(), 1);
}

#[test]
fn soft_wishes_decide_between_nodes_that_fit() {
    let mut disliked = zoned("n1", "a");
    let taint = json!([{"key": "x", "effect": "PreferNoSchedule"}]);
    disliked.spec = serde_json::from_value(json!({"taints": taint})).unwrap();
    let nodes = [disliked, zoned("n2", "b"), zoned("n3", "c")];
    let wish = |zone: &str| {
        let in_zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [in_zone]}}]);
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
    };
    let friends = json!([{"weight": 1, "podAffinityTerm": {"topologyKey": "topology.kubernetes.io/zone",
                          "labelSelector": {"matchLabels": {"app": "friend"}}}}]);
    let with_friend = json!({"affinity": {"podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": friends}}});
    let table = [
        (
            json!({}),
            "n2",
            "the tainted node would be the emptiest, and of equals the first",
        ),
        (
            json!({"tolerations": [{"operator": "Exists"}]}),
            "n1",
            "who tolerates it does not care",
        ),
        (wish("c"), "n3", "a preference for a node"),
        (with_friend, "n3", "a preference for company"),
    ];
    for (spec, expected, why) in table {
        let pods = [
            on("n2", of("stranger", asking("100m"))),
            on("n3", of("friend", asking("100m"))),
            of("p", spec),
        ];
        assert_eq!(
            bindings(&next(&view(&nodes, &pods), now())),
            [("p", expected)],
            "{why}"
        );
    }
}

#[test]
fn replicas_lie_evenly_over_zones() {
    let nodes = [
        zoned("a1", "a"),
        zoned("a2", "a"),
        zoned("b1", "b"),
        zoned("c1", "c"),
    ];
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let pods: Vec<Pod> = (0..9)
        .map(|at| pod(&format!("p{at}"), &json!({"app": "web"}), spread.clone()))
        .collect();
    let placed = next(&view(&nodes, &pods), now());
    let mut zones: BTreeMap<char, usize> = BTreeMap::new();
    for (_, node) in bindings(&placed) {
        *zones.entry(node.chars().next().unwrap()).or_default() += 1;
    }
    assert_eq!(zones, [('a', 3), ('b', 3), ('c', 3)].into());
}

proptest! {
    #[test]
    fn no_node_is_ever_promised_twice_and_nobody_waits_who_would_fit(
        nodes in prop::collection::vec((1..6_u8, 1..4_u8), 1..5),
        pods in prop::collection::vec((1..4000_u16, 0..3_i32), 0..12),
    ) {
        let nodes: Vec<_> = nodes.iter().enumerate().map(|(at, (cpu, room))| {
            let mut made = node(&format!("n{at}"), &json!({}));
            made.status.as_mut().unwrap().allocatable =
                serde_json::from_value(json!({"cpu": cpu.to_string(), "memory": "1Gi", "pods": room.to_string()})).unwrap();
            made
        }).collect();
        let pods: Vec<_> = pods.iter().enumerate()
            .map(|(at, (cpu, priority))| important(&format!("p{at:02}"), *priority, &format!("{cpu}m"))).collect();
        let mut view = view(&nodes, &pods);
        let wanted = next(&view, now());
        prop_assert_eq!(&wanted, &next(&view, now()));
        carry_out(&mut view, &wanted, now());
        let board = Board::new(&view);
        for site in board.sites.values() {
            for name in ["cpu", "pods"] {
                prop_assert!(site.requested.get(name) <= site.allocatable.get(name), "{} of {}", name, site.name);
            }
        }
        for pod in queue(&view) {
            let fit = Fit::new(&board, pod).unwrap();
            prop_assert!(board.sites.values().all(|site| fit.check(&board, site).is_err()));
        }
    }
}
