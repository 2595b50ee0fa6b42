//! What counts as a place that pods are spread over, and who is counted there.

use super::*;
use crate::model::NodeKind;

fn web() -> Value {
    json!({"app": "web"})
}

fn spread_pods(number: usize, fields: &Value) -> Vec<core::Pod> {
    pods(number, |name| labelled(pod_with(name, "1", fields), &web()))
}

/// A claim in flight in a zone.
fn flying(name: &str, cpu: i64, zone: &str) -> Node {
    Node {
        kind: NodeKind::ClaimInFlight,
        ..node(name, cpu, &[(ZONES, zone), (HOST, name)])
    }
}

/// A pod of the kind that is spread, for which that claim was made.
fn waiting_for(claim: &str) -> core::Pod {
    on(labelled(pod(&format!("on-{claim}"), "1"), &web()), claim)
}

#[test]
fn pods_that_claims_in_flight_are_for_count_in_their_zones() {
    let solved = cluster()
        .node(flying("one", 1, "z1"))
        .node(flying("two", 1, "z2"))
        .bound([waiting_for("one"), waiting_for("two")])
        .with(spread_pods(1, &spread(ZONES, 1, &web(), &json!({}))))
        .solve();
    assert_eq!(zones(&solved), ["z3"].into());
}

#[test]
fn claims_in_flight_are_hosts_that_pods_are_spread_over() {
    let solved = cluster()
        .node(flying("a-taken", 4, "z1"))
        .node(flying("b-empty", 4, "z1"))
        .bound([waiting_for("a-taken")])
        .with(spread_pods(1, &spread(HOST, 1, &web(), &json!({}))))
        .solve();
    assert_eq!(solved.place("p00").as_deref(), Some("b-empty"));
}

#[test]
fn a_selector_of_nothing_selects_every_pod_of_the_namespace() {
    let everybody = spread(ZONES, 1, &json!({}), &json!({"labelSelector": {}}));
    let solved = cluster()
        .requires(ZONES, &Values::one_of(["z1", "z2"]))
        .node(node("n", 2, &[(ZONES, "z1")]))
        .bound([
            on(pod("a", "1"), "n"),
            on(labelled(pod("b", "1"), &json!({"app": "db"})), "n"),
        ])
        .with(pods(2, |name| pod_with(name, "1", &everybody)))
        .solve();
    assert!(solved.all_placed());
    assert_eq!(
        zones(&solved),
        ["z2"].into(),
        "whoever is there counts, whatever its labels"
    );
}

#[test]
fn workloads_of_two_architectures_are_spread_over_hosts_each_by_itself() {
    let of = |arch: &str| {
        let labels = json!({"app": arch});
        let mut fields = spread(HOST, 1, &labels, &json!({}));
        fields["nodeSelector"] = json!({ARCH: arch});
        pods(2, |name| {
            labelled(pod_with(&format!("{arch}-{name}"), "1", &fields), &labels)
        })
    };
    let solved = cluster()
        .types(vec![kind("amd", 4), with_arch(kind("arm", 4), "arm64")])
        .with(of("amd64"))
        .with(of("arm64"))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(
        (solved.types(), solved.sizes()),
        (vec!["amd", "amd", "arm", "arm"], vec![1; 4])
    );
}

#[test]
fn only_capacity_types_that_the_pool_allows_count() {
    let solved = cluster()
        .requires(CAPACITY, &Values::one_of(["on-demand"]))
        .with(spread_pods(4, &spread(CAPACITY, 1, &web(), &json!({}))))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(capacity_types(&solved), [CapacityType::OnDemand].into());
    // A node of the other kind is a place, whatever the pool allows, and it takes one pod.
    let solved = cluster()
        .requires(CAPACITY, &Values::one_of(["on-demand"]))
        .node(node("spot", 1, &[(CAPACITY, "spot")]))
        .with(spread_pods(4, &spread(CAPACITY, 1, &web(), &json!({}))))
        .solve();
    assert_eq!(
        (solved.places()["spot"].len(), solved.plan.pods_left_out()),
        (1, 1)
    );
}

#[test]
fn a_spread_over_capacity_types_that_allows_exceptions_leaves_nobody_out() {
    let anyway = json!({"whenUnsatisfiable": "ScheduleAnyway"});
    let solved = cluster()
        .requires(CAPACITY, &Values::one_of(["on-demand"]))
        .node(node("spot", 1, &[(CAPACITY, "spot")]))
        .with(spread_pods(4, &spread(CAPACITY, 1, &web(), &anyway)))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.places()["spot"].len(), 1);
}

#[test]
fn a_preference_does_not_limit_the_zones_that_pods_are_spread_over() {
    let mut fields = spread(ZONES, 1, &web(), &json!({}));
    fields["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [
            {"key": ZONES, "operator": "In", "values": ["z1", "z2"]}]}}]}});
    let solved = cluster().with(spread_pods(6, &fields)).solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
    assert_eq!(solved.skew(ZONES), [2, 2, 2]);
}

/// They open claims when others are full, with room for more than come.
#[test]
fn pods_that_are_let_in_late_get_no_larger_machines_than_they_need() {
    let mut tiny = kind("tiny", 1);
    tiny.offerings = vec![offering("z4", CapacityType::OnDemand, 0.1)];
    let mut types = steep_types();
    types.push(tiny);
    let mut fields = spread(ZONES, 1, &web(), &json!({}));
    fields["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "1200m"}}}]);
    let solved = cluster()
        .types(types)
        .with((0..65).map(|at| pod(&format!("plain-{at:02}"), "1200m")))
        .with(spread_pods(16, &fields))
        .solve();
    assert!(solved.all_placed(), "{:?}", solved.words());
}
