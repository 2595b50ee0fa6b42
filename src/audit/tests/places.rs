//! Nodes and claims as places: who may be there at all, room, daemons, ports and labels.

use super::*;
use crate::api::names::INITIALIZED;
use crate::model::HostPort;
use crate::model::node::Arrived;

fn daemon(cpu: &str, fields: &Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "d", "resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    let pod = serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap();
    Pod::read(&pod, Reading::Daemon).unwrap()
}

fn terms(all: &[(&str, &str, &[&str])]) -> Value {
    let term = |(key, operator, values): &(&str, &str, &[&str])| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let all: Vec<Value> = all.iter().map(term).collect();
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": all}}}})
}

#[test]
fn a_pod_that_cannot_be_read_or_claims_devices_has_no_place() {
    let devices = json!({"resourceClaims": [{"name": "card", "resourceClaimTemplateName": "card"}]});
    let unreadable = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]});
    for spec in [devices, unreadable] {
        let mut snapshot = snapshot(&[("a", spec)]);
        snapshot.nodes.push(node("n", "z1"));
        assert_eq!(broken(&snapshot, &put(&[0])), [Rule::Eligible].into());
    }
}

#[test]
fn a_node_that_is_too_full_already_is_not_the_fault_of_a_plan() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    snapshot.nodes = vec![node("full", "z1"), node("n", "z1")];
    snapshot.nodes[0].used.set(CPU, 9000);
    assert_eq!(broken(&snapshot, &put(&[1])), BTreeSet::new());
    assert_eq!(broken(&snapshot, &put(&[0])), [Rule::Room].into());
}

#[test]
fn a_claim_must_have_room_as_any_type_that_it_names_wherever_that_stands() {
    let snapshot = snapshot(&[("a", json!({})), ("b", json!({})), ("c", json!({}))]);
    let mut made = legal(&snapshot);
    made.claims[0].options.insert(0, 0);
    assert!(broken(&snapshot, &made).contains(&Rule::Room));
}

/// Puts a daemon of this DaemonSet on a node.
fn put_daemon(node: &mut Node, of: &Pod, cpu: i64) {
    let requests = Resources::new().with(CPU, cpu);
    node.used.add(&requests);
    node.daemons.push(Arrived {
        of: Arc::new(of.clone()),
        requests,
    });
}

/// What daemons take beyond what those that are there do, on a node.
#[test]
fn daemons_that_are_missing_on_a_node_need_room_and_those_that_are_there_none() {
    for (there, allocatable, held) in [
        (0, 2500, true),
        (0, 2499, false),
        (1500, 2500, true),
        (1500, 2499, false),
        (2000, 3000, true),
        (2000, 2999, false),
    ] {
        let mut snapshot = snapshot(&[("a", json!({}))]);
        snapshot.daemons.push(Arc::new(daemon("1500m", &json!({}))));
        let mut node = node("n", "z1");
        node.allocatable.set(CPU, allocatable);
        put_daemon(&mut node, &daemon("1500m", &json!({})), there);
        snapshot.nodes.push(node);
        let expected = found(held, Rule::Room);
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            expected,
            "{there} of {allocatable}"
        );
    }
}

/// What is there of each DaemonSet, and how much of the node a pod of one processor then needs.
#[test]
fn daemons_that_are_there_stand_for_nobody_but_themselves() {
    let here = daemon("500m", &json!({}));
    let other = daemon("400m", &json!({}));
    let elsewhere = daemon("500m", &terms(&[(ZONE, "In", &["z2"])]));
    let unknown = daemon("300m", &json!({}));
    for (expected, there, least) in [
        (vec![&here], vec![(&here, 500)], 1500),
        (vec![&here], vec![(&unknown, 500)], 2000),
        (vec![&here, &elsewhere], vec![(&elsewhere, 500)], 2000),
        (vec![&here, &other], vec![(&here, 900)], 2300),
        (vec![&here, &other], vec![(&here, 100)], 1900),
        (vec![&here, &here], vec![(&here, 500)], 2000),
        (vec![&here, &here], vec![(&here, 500), (&here, 700)], 2200),
    ] {
        for (allocatable, held) in [(least, true), (least - 1, false)] {
            let mut snapshot = snapshot(&[("a", json!({}))]);
            snapshot.daemons = expected
                .iter()
                .map(|daemon| Arc::new((*daemon).clone()))
                .collect();
            let mut node = node("n", "z1");
            node.allocatable.set(CPU, allocatable);
            for (of, cpu) in &there {
                put_daemon(&mut node, of, *cpu);
            }
            snapshot.nodes.push(node);
            assert_eq!(
                broken(&snapshot, &put(&[0])),
                found(held, Rule::Room),
                "{there:?} of {allocatable}"
            );
        }
    }
}

#[test]
fn only_daemons_that_come_to_a_node_need_room_there() {
    let mut snapshot = snapshot(&[("a", json!({"tolerations": [{"operator": "Exists"}]}))]);
    let mut node = node("n", "z1");
    node.allocatable.set(CPU, 1500);
    node.taints.push(Taint::new("team", "x", Effect::NoSchedule));
    snapshot.nodes.push(node);
    let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
    let tolerant = |more: Value| {
        let mut all = tolerant.clone();
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    for (daemons, held) in [
        (json!({}), true),
        (tolerant(json!({})), false),
        (tolerant(terms(&[(ZONE, "In", &["z2"])])), true),
        (
            tolerant(terms(&[(ZONE, "In", &["z2"]), (ZONE, "In", &["z1"])])),
            false,
        ),
        (tolerant(terms(&[(INITIALIZED, "Exists", &[])])), true),
    ] {
        snapshot.daemons = vec![Arc::new(daemon("1", &daemons))];
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Room),
            "{daemons}"
        );
    }
}

/// On a claim that may become a type of two processors or one of four.
#[test]
fn only_daemons_that_may_come_to_a_type_need_room_on_it() {
    let mut snapshot = snapshot(&[("a", json!({"tolerations": [{"operator": "Exists"}]}))]);
    let made = legal(&snapshot);
    assert_eq!(made.claims[0].options, [0, 1]);
    for (cpu, fields, held) in [
        ("1", json!({}), true),
        ("1500m", json!({}), false),
        ("1500m", terms(&[(INSTANCE_TYPE, "In", &["type-4"])]), true),
        ("3500m", terms(&[(INSTANCE_TYPE, "In", &["type-4"])]), false),
        ("1500m", terms(&[(ZONE, "In", &["z1"])]), false),
        ("1500m", terms(&[(ZONE, "In", &["z9"])]), true),
        (
            "1500m",
            terms(&[(ZONE, "In", &["z9"]), (ZONE, "In", &["z1"])]),
            false,
        ),
        ("1500m", terms(&[("rack", "NotIn", &["one"])]), false),
    ] {
        snapshot.daemons = vec![Arc::new(daemon(cpu, &fields))];
        assert_eq!(
            broken(&snapshot, &made),
            found(held, Rule::Room),
            "{cpu} {fields}"
        );
    }
    let mut open = snapshot.clone();
    open.pools[0].requirements = open.pools[0].requirements.and(&narrowed("rack", "Exists", &[]));
    open.daemons = vec![Arc::new(daemon("1500m", &terms(&[("rack", "In", &["five"])])))];
    let mut racked = made.clone();
    racked.claims[0].requirements = open.pools[0].requirements.clone();
    assert_eq!(
        broken(&open, &racked),
        [Rule::Room].into(),
        "the rack may be that one"
    );
    snapshot.daemons = vec![Arc::new(daemon("1500m", &json!({})))];
    snapshot.pools[0].taints = vec![Taint::new("team", "x", Effect::NoSchedule)];
    assert_eq!(
        broken(&snapshot, &made),
        BTreeSet::new(),
        "they do not tolerate it"
    );
}

#[test]
fn who_asks_for_nothing_has_room_where_daemons_take_more_than_there_is() {
    let nothing = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "0"}}}]});
    let mut snapshot = snapshot(&[("a", nothing)]);
    let made = legal(&snapshot);
    snapshot.daemons = vec![Arc::new(daemon("5", &json!({})))];
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
}

fn with_port(port: i32, protocol: &str, address: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [
        {"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address}]}]})
}

#[test]
fn ports_clash_on_the_same_number_protocol_and_address() {
    for (address, taken, held) in [
        ("", (80, "TCP", None), false),
        ("", (81, "TCP", None), true),
        ("", (80, "UDP", None), true),
        ("", (80, "TCP", Some("10.0.0.1")), false),
        ("10.0.0.1", (80, "TCP", None), false),
        ("10.0.0.1", (80, "TCP", Some("10.0.0.1")), false),
        ("10.0.0.1", (80, "TCP", Some("10.0.0.2")), true),
    ] {
        let mut snapshot = snapshot(&[("a", with_port(80, "TCP", address))]);
        let mut node = node("n", "z1");
        let (port, protocol, on) = taken;
        node.ports.push(HostPort {
            port,
            protocol: protocol.to_owned(),
            address: on.map(str::to_owned),
        });
        snapshot.nodes.push(node);
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Port),
            "{address} {taken:?}"
        );
    }
}

#[test]
fn a_port_that_a_daemon_will_take_is_taken() {
    let mut snapshot = snapshot(&[("a", with_port(80, "TCP", ""))]);
    let made = legal(&snapshot);
    let port = json!({"containers": [{"name": "d", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
    snapshot.daemons = vec![Arc::new(daemon("1", &port))];
    assert_eq!(broken(&snapshot, &made), [Rule::Port].into());
}

#[test]
fn a_port_that_a_daemon_will_take_of_a_node_is_taken_there() {
    let ports = json!([{"name": "d", "ports": [{"containerPort": 1, "hostPort": 80}]}]);
    let fields = json!({"containers": ports, "nodeSelector": {ZONE: "z1"}});
    for (zone, held) in [("z1", false), ("z2", true)] {
        let mut snapshot = snapshot(&[("a", with_port(80, "TCP", ""))]);
        snapshot.nodes.push(node("n", zone));
        snapshot.daemons = vec![Arc::new(daemon("1", &fields))];
        assert_eq!(broken(&snapshot, &put(&[0])), found(held, Rule::Port), "{zone}");
    }
}

#[test]
fn nodes_have_their_labels_by_current_names_their_own_name_and_any_of_several_terms_will_do() {
    let older = "failure-domain.beta.kubernetes.io/zone";
    let by_name = |name: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}})
    };
    for (asked, labels, held) in [
        (terms(&[(ZONE, "In", &["z1"])]), vec![(older, "z1")], true),
        (
            terms(&[(ZONE, "In", &["z1"])]),
            vec![(older, "z2"), (ZONE, "z1")],
            true,
        ),
        (terms(&[(HOSTNAME, "In", &["n"])]), vec![], true),
        (terms(&[(HOSTNAME, "In", &["h"])]), vec![(HOSTNAME, "h")], true),
        (by_name("n"), vec![(HOSTNAME, "h")], true),
        (by_name("h"), vec![(HOSTNAME, "h")], false),
        (
            terms(&[(ZONE, "In", &["z9"]), (ZONE, "In", &["z1"])]),
            vec![(ZONE, "z1")],
            true,
        ),
        (
            terms(&[(ZONE, "In", &["z8"]), (ZONE, "In", &["z9"])]),
            vec![(ZONE, "z1")],
            false,
        ),
    ] {
        let mut snapshot = snapshot(&[("a", asked.clone())]);
        let mut node = node("n", "z1");
        let own = labels.iter();
        node.labels = own
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        snapshot.nodes.push(node);
        assert_eq!(
            broken(&snapshot, &put(&[0])),
            found(held, Rule::Labels),
            "{asked} {labels:?}"
        );
    }
}

fn narrowed(key: &str, operator: &str, values: &[&str]) -> Requirements {
    let asked = crate::api::Requirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: (!values.is_empty()).then(|| values.iter().map(|value| (*value).to_owned()).collect()),
        min_values: None,
    };
    Requirements::from_api(&[asked]).unwrap()
}

/// What each of two types says of a label, what the pool and the claim say of it, what a pod asks, and whether that is certain.
#[test]
fn a_label_of_a_claim_is_what_each_of_its_types_will_have() {
    type Says = Option<(&'static str, &'static [&'static str])>;
    let (one, both): (Says, Says) = (Some(("In", &["a"])), Some(("In", &["a", "b"])));
    let other: Says = Some(("In", &["b"]));
    for (types, pool, claim, asked, held) in [
        ([one, one], None, None, ("In", vec!["a"]), true),
        ([one, other], None, None, ("In", vec!["a"]), false),
        ([one, other], None, None, ("In", vec!["a", "b"]), true),
        ([both, both], None, one, ("In", vec!["a"]), true),
        ([both, both], None, None, ("In", vec!["a"]), false),
        ([one, None], None, None, ("In", vec!["a"]), false),
        ([one, None], None, one, ("In", vec!["a"]), false),
        ([one, None], one, None, ("In", vec!["a"]), true),
        ([None, None], None, None, ("DoesNotExist", vec![]), true),
        ([None, None], None, None, ("Exists", vec![]), false),
        ([None, None], one, None, ("In", vec!["a"]), true),
        ([None, None], both, None, ("In", vec!["a"]), false),
        (
            [None, None],
            Some(("Exists", &[][..])),
            None,
            ("In", vec!["a"]),
            false,
        ),
        (
            [None, None],
            Some(("Gt", &["2"][..])),
            None,
            ("NotIn", vec!["5"]),
            false,
        ),
        (
            [None, None],
            Some(("Gt", &["2"][..])),
            None,
            ("Gt", vec!["1"]),
            true,
        ),
    ] {
        let plain = snapshot(&[("a", json!({}))]);
        let mut made = legal(&plain);
        let mut changed = snapshot(&[("a", terms(&[("family", asked.0, &asked.1)]))]);
        let says = |says: Says| {
            says.map_or_else(Requirements::new, |(operator, values)| {
                narrowed("family", operator, values)
            })
        };
        let mut kinds = changed.pools[0].types.to_vec();
        for (kind, own) in kinds.iter_mut().zip(types) {
            kind.requirements = kind.requirements.and(&says(own));
        }
        changed.pools[0].types = Arc::new(kinds);
        changed.pools[0].requirements = changed.pools[0].requirements.and(&says(pool));
        made.claims[0].requirements = changed.pools[0].requirements.and(&says(claim));
        assert_eq!(
            broken(&changed, &made),
            found(held, Rule::Labels),
            "{types:?} {pool:?} {claim:?} {asked:?}"
        );
    }
}
