//! Daemons take their part of every node.

use super::*;
use crate::model::node::Arrived;

/// The same node with a daemon of this DaemonSet on it that asks for so many thousandths of a processor.
fn with_daemon(mut node: Node, of: &core::Pod, cpu: i64) -> Node {
    let requests = Resources::new().with(CPU, cpu).with(PODS, 1);
    node.used.add(&requests);
    node.daemons.push(Arrived {
        of: Arc::new(Pod::read(of, Reading::Daemon).unwrap()),
        requests,
    });
    node
}

/// Where a pod that asks for this much goes.
fn place(base: &Cluster, cpu: &str) -> Option<String> {
    base.clone().with([pod("p", cpu)]).solve().place("p")
}

#[test]
fn a_machine_has_room_for_its_daemons_too() {
    let solved = cluster().daemon(pod("d", "1")).with([pod("p", "1")]).solve();
    assert_eq!(
        solved.types(),
        ["type-04"],
        "two processors have no room for two beside what the system keeps"
    );
    assert_eq!(solved.plan.claims[0].requests.get(CPU), 2000);
    assert_eq!(solved.plan.claims[0].requests.get(PODS), 2);
}

#[test]
fn daemons_that_leave_no_room_keep_pods_out() {
    assert!(
        !cluster()
            .daemon(pod("d", "16"))
            .with([pod("p", "1")])
            .solve()
            .all_placed()
    );
}

#[test]
fn a_daemon_that_does_not_run_there_takes_nothing() {
    let tainted = cluster().pool(|pool| pool.taints.push(taint("team", "NoSchedule")));
    let tolerates = pod_with("p", "1", &json!({"tolerations": [{"operator": "Exists"}]}));
    assert_eq!(
        tainted.daemon(pod("d", "8")).with([tolerates]).solve().types(),
        ["type-02"]
    );
    let elsewhere = pod_with("d", "8", &node_in("team", &["a"]));
    assert_eq!(
        cluster().daemon(elsewhere).with([pod("p", "1")]).solve().types(),
        ["type-02"]
    );
}

#[test]
fn a_daemon_counts_on_the_types_it_runs_on() {
    let types = vec![kind("cheap", 2), with_arch(kind("arm", 4), "arm64")];
    let heavy = pod_with("d", "1500m", &json!({"nodeSelector": {ARCH: "amd64"}}));
    assert_eq!(
        cluster()
            .types(types)
            .daemon(heavy)
            .with([pod("p", "1")])
            .solve()
            .types(),
        ["arm"]
    );
}

#[test]
fn a_daemon_may_ask_for_labels_that_nodes_get_before_pods_do() {
    let late = pod_with(
        "d",
        "1",
        &json!({"nodeSelector": {"karpenter.sh/initialized": "true"}}),
    );
    assert_eq!(
        cluster().daemon(late).with([pod("p", "1")]).solve().types(),
        ["type-04"]
    );
}

#[test]
fn a_taint_that_only_prefers_does_not_keep_daemons_away() {
    let tainted = cluster().pool(|pool| pool.taints.push(taint("team", "PreferNoSchedule")));
    assert_eq!(
        tainted
            .daemon(pod("d", "1"))
            .with([pod("p", "1")])
            .solve()
            .types(),
        ["type-04"]
    );
}

#[test]
fn ports_that_a_daemon_takes_are_taken() {
    let ports = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let daemon = pod_with("d", "1", &ports);
    assert!(
        !cluster()
            .daemon(daemon.clone())
            .with([pod_with("p", "1", &ports)])
            .solve()
            .all_placed()
    );
    assert!(
        cluster()
            .daemon(daemon)
            .with([pod("p", "1")])
            .solve()
            .all_placed()
    );
}

#[test]
fn ports_of_a_daemon_on_the_network_of_its_node_are_taken() {
    let listens = |port: Value| json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [port]}]});
    let base = cluster().daemon(pod_with("d", "1", &listens(json!({"containerPort": 9100}))));
    for (port, is_free) in [(9100, false), (9101, true)] {
        let asks = listens(json!({"containerPort": port, "hostPort": port}));
        let solved = base.clone().with([pod_with("p", "1", &asks)]).solve();
        assert_eq!(solved.all_placed(), is_free, "{port}");
    }
}

#[test]
fn ports_that_a_daemon_will_take_of_what_is_there_are_taken_too() {
    let ports = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let flying = |name: &str, zone: &str| {
        let mut flying = node(name, 4, &[(ZONES, zone)]);
        flying.kind = crate::model::NodeKind::ClaimInFlight;
        flying
    };
    let own = both(&ports, &json!({"nodeSelector": {ZONES: "z1"}}));
    let base = cluster().node(flying("a", "z1")).node(flying("b", "z2"));
    let base = base.daemon(pod_with("d", "1", &own));
    let place = |pod: core::Pod| base.clone().with([pod]).solve().place("p");
    assert_eq!(place(pod("p", "1")).as_deref(), Some("a"));
    assert_eq!(place(pod_with("p", "1", &ports)).as_deref(), Some("b"));
}

#[test]
fn daemons_that_are_there_already_are_not_expected_again() {
    let half = with_daemon(node("n", 4, &[]), &pod("d", "1"), 1000);
    let base = cluster().node(half).daemon(pod("d", "1"));
    assert_eq!(base.clone().with([pod("p", "3")]).solve().claims(), 0);
    let mut waiting = base.clone();
    waiting.nodes[0].used = Resources::new();
    waiting.nodes[0].daemons.clear();
    assert_eq!(
        waiting.with([pod("p", "4")]).solve().claims(),
        1,
        "the daemon will come"
    );
}

/// One of a DaemonSet that runs elsewhere by now, or of none that is known.
#[test]
fn a_daemon_that_nobody_expected_leaves_the_others_their_share() {
    let elsewhere = pod_with("elsewhere", "500m", &node_in("team", &["a"]));
    let strays = with_daemon(node("n", 2, &[]), &elsewhere, 500);
    let mut of_nobody = strays.clone();
    of_nobody.daemons.clear();
    for there in [strays, of_nobody] {
        let base = cluster().node(there);
        let base = base.daemon(elsewhere.clone()).daemon(pod("d", "500m"));
        assert_eq!(place(&base, "1").as_deref(), Some("n"), "two daemons and a pod");
        assert_eq!(place(&base, "1200m").as_deref(), Some("new-0"));
    }
}

/// It is there as it was before its DaemonSet was told to ask for less, or for more.
#[test]
fn a_daemon_counts_for_its_own_daemon_set_and_for_no_more_than_that_asks() {
    let with = |there: i64| {
        let there = with_daemon(node("n", 4, &[]), &pod("d", "500m"), there);
        let base = cluster().node(there);
        base.daemon(pod("d", "500m")).daemon(pod("other", "1"))
    };
    let more = with(1500);
    assert_eq!(place(&more, "1500m").as_deref(), Some("n"));
    assert_eq!(
        place(&more, "1600m").as_deref(),
        Some("new-0"),
        "the other one has its share"
    );
    let less = with(200);
    assert_eq!(place(&less, "2500m").as_deref(), Some("n"));
    assert_eq!(
        place(&less, "2600m").as_deref(),
        Some("new-0"),
        "it asks for more when it is made anew"
    );
}

#[test]
fn two_daemon_sets_that_ask_for_the_same_are_two() {
    let one = with_daemon(node("n", 2, &[]), &pod("d", "500m"), 500);
    let two = with_daemon(one.clone(), &pod("d", "500m"), 500);
    for there in [one, two] {
        let base = cluster()
            .node(there)
            .daemon(pod("d", "500m"))
            .daemon(pod("d", "500m"));
        assert_eq!(place(&base, "1").as_deref(), Some("n"));
        assert_eq!(place(&base, "1100m").as_deref(), Some("new-0"));
    }
}

#[test]
fn a_daemon_has_no_share_of_a_node_that_it_does_not_run_on() {
    let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
    let place = |there: &Node, daemon: &core::Pod| {
        let base = cluster().node(there.clone()).daemon(daemon.clone());
        base.with([pod_with("p", "2", &tolerant)]).solve().place("p")
    };
    let of_team = node("n", 2, &[("team", "a")]);
    let mut tainted = of_team.clone();
    tainted.taints.push(taint("gpu", "NoSchedule"));
    let mut discouraging = of_team.clone();
    discouraging.taints.push(taint("gpu", "PreferNoSchedule"));
    let wants = |team: &str| pod_with("d", "1", &node_in("team", &[team]));
    let lands = |there: &Node, daemon: &core::Pod, on: &str| {
        let taints = &there.taints;
        assert_eq!(place(there, daemon).as_deref(), Some(on), "{taints:?} {daemon:?}");
    };
    lands(&of_team, &wants("a"), "new-0");
    lands(&of_team, &wants("b"), "n");
    lands(&node("n", 2, &[]), &wants("a"), "n");
    lands(&of_team, &pod("d", "1"), "new-0");
    lands(&tainted, &pod("d", "1"), "n");
    lands(&tainted, &pod_with("d", "1", &tolerant), "new-0");
    lands(&discouraging, &pod("d", "1"), "new-0");
}

#[test]
fn a_daemon_that_does_not_tolerate_a_startup_taint_comes_all_the_same() {
    // Startup taints go before pods arrive, so a pool's taints do not have them.
    let pool: crate::api::NodePool = serde_json::from_value(json!({
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "requirements": [], "startupTaints": [{"key": "begin", "effect": "NoSchedule"}],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "c"},
        }}},
    }))
    .unwrap();
    let types = cluster().pools[0].types.clone();
    let begins = Pool::from_api(&pool, types).unwrap();
    let base = cluster().pool(|pool| *pool = begins);
    let solved = base.daemon(pod("d", "1")).with([pod("p", "1")]).solve();
    assert_eq!(solved.types(), ["type-04"], "its share is counted");
}

#[test]
fn a_daemon_that_shuns_a_label_which_nobody_has_comes_everywhere() {
    let shuns = json!([{"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]}]);
    let daemon = pod_with("d", "1", &required(&shuns));
    let solved = cluster().daemon(daemon).with([pod("p", "1")]).solve();
    assert_eq!(solved.types(), ["type-04"]);
}

#[test]
fn what_a_daemon_would_rather_have_keeps_it_from_no_node() {
    let likes = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": ZONES, "operator": "In", "values": ["nowhere"]}]}}]}}});
    let daemon = pod_with("d", "1", &likes);
    let solved = cluster().daemon(daemon).with([pod("p", "1")]).solve();
    assert_eq!(solved.types(), ["type-04"]);
}

#[test]
fn ports_of_a_daemon_are_free_where_it_does_not_run() {
    let mut ports = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let wants = pod_with("p", "1", &ports);
    ports["nodeSelector"] = json!({ARCH: "arm64"});
    let types = vec![kind("amd", 4), with_arch(kind("arm", 2), "arm64")];
    let solved = cluster()
        .types(types)
        .daemon(pod_with("d", "1", &ports))
        .with([wants])
        .solve();
    assert_eq!(solved.types(), ["amd"], "the cheaper one has the daemon");
}

#[test]
fn a_daemon_comes_where_any_of_its_terms_is_met() {
    let term =
        |value: &str| json!({"matchExpressions": [{"key": "team", "operator": "In", "values": [value]}]});
    let types = |terms: &Value| {
        let base = cluster().requires("team", &Values::one_of(["a"]));
        let daemon = pod_with("d", "1", &required(terms));
        let solved = base.daemon(daemon).with([pod("p", "1")]).solve();
        solved.types().join(" ")
    };
    assert_eq!(
        types(&json!([term("b"), term("a")])),
        "type-04",
        "the second is met"
    );
    assert_eq!(types(&json!([term("b"), term("c")])), "type-02", "none is");
}

/// Whether devices are allocated to it or not, it takes its part of the node as soon as it comes.
#[test]
fn a_daemon_that_claims_devices_has_its_share_all_the_same() {
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]});
    let solved = cluster()
        .daemon(pod_with("d", "1", &claims))
        .with([pod("p", "1")])
        .solve();
    assert_eq!(solved.types(), ["type-04"]);
}

#[test]
fn daemons_that_ask_for_more_than_can_be_counted_leave_room_for_whoever_asks_for_nothing() {
    let huge = "9223372036854775807";
    let asks =
        json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": huge, "memory": huge}}}]});
    let nothing = |name: &str| pod_with(name, "0", &json!({"containers": [{"name": "c"}]}));
    let solved = cluster()
        .daemon(pod_with("d", "1", &asks))
        .daemon(pod_with("e", "1", &asks))
        .with([pod("p", "1"), nothing("q"), nothing("r")])
        .solve();
    assert_eq!(solved.place("p"), None, "{:?}", solved.words());
    assert!(solved.place("q").is_some() && solved.place("r").is_some());
}
