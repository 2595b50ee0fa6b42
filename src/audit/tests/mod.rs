//! Every rule can fail: plans that are legal, and what is found once something in them or around them is changed.

mod neighbors;
mod places;
mod purchases;
mod storage;
mod totals;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::api::CapacityType;
use crate::api::names::{HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use crate::model::pod::Reading;
use crate::model::storage::{Volume, VolumeClaim};
use crate::model::{
    Availability, Effect, InstanceType, Node, Offering, PodSet, Pool, Requirements, Standing, Taint, Values,
};
use crate::money::Price;
use crate::resources::{CPU, PODS, Resources};
use crate::scheduling::{Options, Placement, solve};

/// A type with this many processors, sold on demand in two zones.
fn kind(cpu: i64) -> InstanceType {
    let name = format!("type-{cpu}");
    let mut requirements = Requirements::new();
    requirements.narrow(INSTANCE_TYPE, &Values::one_of([name.as_str()]));
    let offering = |zone: &str| Offering {
        zone: zone.to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: Price::from_nanos(u64::try_from(cpu).unwrap() * 100),
        availability: Availability::Available,
    };
    let has = Resources::new().with(CPU, cpu * 1000).with(PODS, 10);
    InstanceType {
        name,
        requirements,
        capacity: has.clone(),
        allocatable: has,
        volume_limits: std::collections::BTreeMap::new(),
        offerings: vec![offering("z1"), offering("z2")],
    }
}

fn pods(all: &[(&str, Value)]) -> PodSet {
    let read = |(name, spec): &(&str, Value)| {
        let mut spec = spec.clone();
        let labels = spec.as_object_mut().unwrap().remove("labels");
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
        }
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels}, "spec": spec,
        }))
        .unwrap()
    };
    let all: Vec<k8s_openapi::api::core::v1::Pod> = all.iter().map(read).collect();
    PodSet::of(&all)
}

/// One pool with types of two and four processors, and these pods.
fn snapshot(pending: &[(&str, Value)]) -> Snapshot {
    let mut requirements = Requirements::new();
    requirements.narrow(NODE_POOL, &Values::one_of(["default"]));
    let pool = Pool {
        name: "default".to_owned(),
        weight: 0,
        requirements,
        taints: Vec::new(),
        limits: None,
        types: Arc::new(vec![kind(2), kind(4)]),
    };
    Snapshot {
        pools: vec![pool],
        pending: pods(pending),
        ..Snapshot::default()
    }
}

fn node(name: &str, zone: &str) -> Node {
    Node {
        name: name.to_owned(),
        labels: [(ZONE.to_owned(), zone.to_owned())].into(),
        allocatable: Resources::new().with(CPU, 8000).with(PODS, 10),
        ..Node::default()
    }
}

/// A plan that is legal.
fn legal(snapshot: &Snapshot) -> Plan {
    let made = solve(snapshot, Options::default(), &|| true);
    assert_eq!(plan(snapshot, &made), []);
    assert_eq!(made.pods_left_out(), 0);
    made
}

fn broken(snapshot: &Snapshot, changed: &Plan) -> BTreeSet<Rule> {
    plan(snapshot, changed)
        .into_iter()
        .map(|found| found.rule)
        .collect()
}

/// A plan that puts each pod on the node of this number.
fn put(on: &[usize]) -> Plan {
    let place = |(pod, node): (usize, &usize)| Placement {
        pod,
        on: Destination::Existing(*node),
    };
    Plan {
        placements: on.iter().enumerate().map(place).collect(),
        ..Plan::default()
    }
}

/// What is found where a rule holds, or does not.
fn found(held: bool, rule: Rule) -> BTreeSet<Rule> {
    (!held).then_some(rule).into_iter().collect()
}

/// Puts every pod where the first one is.
fn all_together(plan: &mut Plan) {
    let first = plan.placements[0].on;
    for placement in &mut plan.placements {
        placement.on = first;
    }
    if let Destination::New(claim) = first {
        let pods = plan.placements.iter().map(|placement| placement.pod).collect();
        let mut kept = plan.claims.swap_remove(claim);
        kept.pods = pods;
        plan.claims = vec![kept];
        for placement in &mut plan.placements {
            placement.on = Destination::New(0);
        }
    }
}

fn near(which: &str, key: &str) -> Value {
    json!({"labels": {"app": "a"}, "affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}]}}})
}

#[test]
fn a_pod_that_is_forgotten_or_there_twice_is_found() {
    let snapshot = snapshot(&[("a", json!({})), ("b", json!({}))]);
    let whole = legal(&snapshot);
    let mut forgotten = whole.clone();
    forgotten.placements.pop();
    assert_eq!(broken(&snapshot, &forgotten), [Rule::Once].into());
    let mut twice = whole.clone();
    twice.placements.push(twice.placements[0].clone());
    assert_eq!(broken(&snapshot, &twice), [Rule::Once].into());
    let mut for_nobody = whole.clone();
    for_nobody.claims.push(whole.claims[0].clone());
    assert_eq!(broken(&snapshot, &for_nobody), [Rule::Once].into());
    let mut nowhere = whole;
    nowhere.placements[0] = Placement {
        pod: 0,
        on: Destination::Existing(7),
    };
    assert_eq!(broken(&snapshot, &nowhere), [Rule::Once].into());
}

#[test]
fn whoever_is_left_out_has_a_reason() {
    let snapshot = snapshot(&[("a", json!({"nodeSelector": {"no": "where"}}))]);
    let mut made = solve(&snapshot, Options::default(), &|| true);
    assert_eq!(plan(&snapshot, &made), []);
    made.left_out[0].refusals.clear();
    assert_eq!(broken(&snapshot, &made), [Rule::Once].into());
}

#[test]
fn a_node_that_leaves_takes_nobody() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    snapshot.nodes.push(node("n", "z1"));
    let made = legal(&snapshot);
    snapshot.nodes[0].standing = Standing::Leaving;
    assert_eq!(broken(&snapshot, &made), [Rule::Eligible].into());
}

#[test]
fn too_many_on_one_node_are_found() {
    let mut snapshot = snapshot(&[("a", json!({})), ("b", json!({})), ("c", json!({}))]);
    snapshot.nodes.push(node("n", "z1"));
    let made = legal(&snapshot);
    snapshot.nodes[0].allocatable.set(CPU, 2999);
    assert_eq!(broken(&snapshot, &made), [Rule::Room].into());
    snapshot.nodes[0].allocatable.set(CPU, 3000);
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
    snapshot.nodes[0].used.set(CPU, 1);
    assert_eq!(broken(&snapshot, &made), [Rule::Room].into());
}

#[test]
fn a_type_that_a_claim_names_and_that_is_too_small_is_found() {
    let snapshot = snapshot(&[("a", json!({})), ("b", json!({})), ("c", json!({}))]);
    let mut made = legal(&snapshot);
    assert_eq!(made.claims[0].options, [1]);
    made.claims[0].options.push(0);
    assert!(broken(&snapshot, &made).contains(&Rule::Room));
}

#[test]
fn daemons_that_will_come_need_room_too() {
    let mut snapshot = snapshot(&[("a", json!({})), ("b", json!({}))]);
    let made = legal(&snapshot);
    let daemon = json!({"spec": {"containers": [{"name": "d", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"karpenter.sh/initialized": "true"}}});
    let daemon = serde_json::from_value(daemon).unwrap();
    snapshot
        .daemons
        .push(Arc::new(Pod::read(&daemon, Reading::Daemon).unwrap()));
    assert_eq!(broken(&snapshot, &made), [Rule::Room].into());
}

#[test]
fn a_taint_that_is_not_tolerated_is_found_unless_it_only_prefers() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    snapshot.pools[0].taints = vec![Taint::new("team", "x", Effect::PreferNoSchedule)];
    assert_eq!(broken(&snapshot, &made), BTreeSet::new());
    snapshot.pools[0].taints = vec![Taint::new("team", "x", Effect::NoSchedule)];
    assert_eq!(broken(&snapshot, &made), [Rule::Taint].into());
}

#[test]
fn labels_must_be_certain() {
    let snapshot = snapshot(&[("a", json!({"nodeSelector": {ZONE: "z1"}}))]);
    let made = legal(&snapshot);
    let mut open = made.clone();
    open.claims[0].requirements = snapshot.pools[0].requirements.clone();
    assert_eq!(broken(&snapshot, &open), [Rule::Labels].into());
    let mut elsewhere = made;
    elsewhere.claims[0].requirements = snapshot.pools[0].requirements.clone();
    elsewhere.claims[0]
        .requirements
        .narrow(ZONE, &Values::one_of(["z2"]));
    elsewhere.claims[0].cheapest.zone = "z2".to_owned();
    assert_eq!(broken(&snapshot, &elsewhere), [Rule::Labels].into());
}

#[test]
fn numbers_and_absence_are_understood() {
    let term = |operator: &str, values: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "gen", "operator": operator, "values": values}]}]}}}})
    };
    for (operator, values, label, held) in [
        ("Gt", json!(["2"]), Some("3"), true),
        ("Gt", json!(["2"]), Some("2"), false),
        ("Lt", json!(["2"]), Some("1"), true),
        ("Lt", json!(["2"]), Some("x"), false),
        ("NotIn", json!(["2"]), None, true),
        ("NotIn", json!(["2"]), Some("2"), false),
        ("Exists", json!([]), None, false),
        ("DoesNotExist", json!([]), Some("2"), false),
    ] {
        let mut snapshot = snapshot(&[("a", term(operator, values))]);
        snapshot.nodes.push(node("n", "z1"));
        if let Some(label) = label {
            snapshot.nodes[0]
                .labels
                .insert("gen".to_owned(), label.to_owned());
        }
        let on_node = Plan {
            placements: vec![Placement {
                pod: 0,
                on: Destination::Existing(0),
            }],
            ..Plan::default()
        };
        let expected = if held {
            BTreeSet::new()
        } else {
            [Rule::Labels].into()
        };
        assert_eq!(broken(&snapshot, &on_node), expected, "{operator} {label:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_found() {
    let port = json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1"}}}]});
    let snapshot = snapshot(&[("a", port.clone()), ("b", port)]);
    let mut made = legal(&snapshot);
    assert_eq!(made.claims.len(), 2);
    all_together(&mut made);
    made.claims[0].requests.set(CPU, 2000);
    made.claims[0].requests.set(PODS, 2);
    assert_eq!(broken(&snapshot, &made), [Rule::Port].into());
}

#[test]
fn volumes_must_be_usable_there_and_not_too_many() {
    let mounts = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut snapshot = snapshot(&[("a", mounts)]);
    let mut zone = Requirements::new();
    zone.narrow(ZONE, &Values::one_of(["z1"]));
    let volume = Volume {
        driver: Some("disk".to_owned()),
        nodes: vec![zone],
        deleting: false,
    };
    let claim = VolumeClaim {
        volume: Some("pv".to_owned()),
        bound: true,
        ..VolumeClaim::default()
    };
    let key = ("default".to_owned(), "data".to_owned());
    snapshot.storage.volumes.insert("pv".to_owned(), volume);
    snapshot.storage.claims.insert(key, claim);
    snapshot.nodes.push(node("n", "z1"));
    let made = legal(&snapshot);
    let mut full = snapshot.clone();
    full.nodes[0].volume_limits.insert("disk".to_owned(), 0);
    assert_eq!(broken(&full, &made), [Rule::Volume].into());
    let mut new = snapshot.clone();
    new.nodes.clear();
    let bought = legal(&new);
    let mut types = (*new.pools[0].types).clone();
    let last = types.last_mut().unwrap();
    last.volume_limits.insert("disk".to_owned(), 0);
    new.pools[0].types = Arc::new(types);
    assert_eq!(
        broken(&new, &bought),
        [Rule::Volume].into(),
        "launch may choose it"
    );
    let mut elsewhere = snapshot.clone();
    elsewhere.nodes[0].labels.insert(ZONE.to_owned(), "z2".to_owned());
    assert_eq!(broken(&elsewhere, &made), [Rule::Volume].into());
    snapshot.storage.volumes.clear();
    assert_eq!(broken(&snapshot, &made), [Rule::Volume].into());
}

#[test]
fn uneven_spreads_are_found() {
    for key in [ZONE, HOSTNAME] {
        let spread = json!({"labels": {"app": "a"}, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]});
        let mut snapshot = snapshot(&[("a", spread.clone()), ("b", spread)]);
        snapshot.nodes = vec![node("n1", "z1"), node("n2", "z2")];
        let mut made = legal(&snapshot);
        all_together(&mut made);
        assert_eq!(broken(&snapshot, &made), [Rule::Spread].into(), "{key}");
    }
}

#[test]
fn a_pod_that_counts_is_at_a_certain_place() {
    let spread = json!({"labels": {"app": "a"}, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]});
    let snapshot = snapshot(&[("a", spread)]);
    let mut made = legal(&snapshot);
    made.claims[0].requirements = snapshot.pools[0].requirements.clone();
    assert_eq!(broken(&snapshot, &made), [Rule::Spread].into());
}

#[test]
fn pods_that_must_be_near_each_other_and_are_not_are_found() {
    let mut snapshot = snapshot(&[("a", near("podAffinity", ZONE)), ("b", near("podAffinity", ZONE))]);
    snapshot.nodes = vec![node("n1", "z1"), node("n2", "z2")];
    let mut made = legal(&snapshot);
    made.placements[0].on = Destination::Existing(0);
    made.placements[1].on = Destination::Existing(1);
    assert_eq!(broken(&snapshot, &made), [Rule::Near].into());
}

#[test]
fn pods_that_must_be_far_from_each_other_and_are_not_are_found() {
    let mut snapshot = snapshot(&[
        ("a", near("podAntiAffinity", HOSTNAME)),
        ("b", near("podAntiAffinity", HOSTNAME)),
    ]);
    snapshot.nodes = vec![node("n1", "z1"), node("n2", "z2")];
    let mut made = legal(&snapshot);
    all_together(&mut made);
    assert_eq!(broken(&snapshot, &made), [Rule::Far].into());
}

#[test]
fn whoever_is_feared_by_a_pod_that_is_there_is_found() {
    let mut snapshot = snapshot(&[("b", json!({"labels": {"app": "a"}}))]);
    snapshot.nodes = vec![node("n1", "z1")];
    let made = legal(&snapshot);
    let mut there = near("podAntiAffinity", HOSTNAME);
    there["nodeName"] = json!("n1");
    snapshot.bound = pods(&[("a", there)]);
    assert_eq!(broken(&snapshot, &made), [Rule::Far].into());
}

#[test]
fn a_pool_beyond_its_limits_is_found() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    assert_eq!(made.claims[0].options, [0, 1]);
    for (limit, amount, held) in [
        (CPU, 1999, false),
        (CPU, 4000, true),
        (CPU, 3999, false),
        ("nodes", 0, false),
        ("nodes", 1, true),
    ] {
        snapshot.pools[0].limits = Some(Resources::new().with(limit, amount));
        let expected = if held {
            BTreeSet::new()
        } else {
            [Rule::Limit].into()
        };
        assert_eq!(broken(&snapshot, &made), expected, "{limit} {amount}");
    }
}

#[test]
fn what_cannot_be_bought_as_planned_is_found() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let made = legal(&snapshot);
    let changes: [fn(&mut Plan); 4] = [
        |plan| plan.claims[0].cheapest.zone = "z9".to_owned(),
        |plan| plan.claims[0].cheapest.price = Price::from_nanos(1),
        |plan| plan.claims[0].cheapest.instance_type = 1,
        |plan| plan.claims[0].requests.set(CPU, 1),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = made.clone();
        change(&mut changed);
        assert_eq!(broken(&snapshot, &changed), [Rule::Purchase].into(), "{at}");
    }
    let mut dearest_first = made.clone();
    dearest_first.claims[0].options.reverse();
    assert_eq!(broken(&snapshot, &dearest_first), [Rule::Purchase].into());
    let mut sold_out = snapshot;
    let mut types = sold_out.pools[0].types.to_vec();
    for offering in &mut types[1].offerings {
        offering.availability = Availability::Withheld {
            until: jiff::Timestamp::UNIX_EPOCH,
            reason: "NoCapacity".to_owned(),
        };
    }
    sold_out.pools[0].types = Arc::new(types);
    assert_eq!(broken(&sold_out, &made), [Rule::Purchase].into());
}

#[test]
fn too_few_values_to_choose_from_are_found() {
    let mut snapshot = snapshot(&[("a", json!({}))]);
    let least = |least: i64| crate::api::Requirement {
        key: INSTANCE_TYPE.to_owned(),
        operator: "Exists".to_owned(),
        values: None,
        min_values: Some(least),
    };
    let asked = Requirements::from_api(&[least(2)]).unwrap();
    snapshot.pools[0].requirements = snapshot.pools[0].requirements.and(&asked);
    let mut made = legal(&snapshot);
    made.claims[0].options.pop();
    assert_eq!(broken(&snapshot, &made), [Rule::MinValues].into());
}

#[test]
fn a_node_with_only_some_of_the_labels_to_be_spread_over_is_not_counted() {
    let over = |key: &str| {
        json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}})
    };
    let both = json!({"labels": {"app": "a"}, "topologySpreadConstraints": [over(ZONE), over("rack")]});
    let mut snapshot = snapshot(&[("a", both.clone()), ("b", both)]);
    let mut racked = node("racked", "z1");
    racked.labels.insert("rack".to_owned(), "one".to_owned());
    let mut bare = node("bare", "z2");
    bare.standing = Standing::Leaving;
    snapshot.nodes = vec![racked, bare];
    snapshot.pools.clear();
    let made = legal(&snapshot);
    let rack = ("rack".to_owned(), "one".to_owned());
    snapshot.nodes[1].labels.extend([rack]);
    assert_eq!(
        broken(&snapshot, &made),
        [Rule::Spread].into(),
        "two in z1, and z2 is empty"
    );
}

#[test]
fn a_cheaper_type_that_would_do_and_is_not_named_is_found() {
    let snapshot = snapshot(&[("a", json!({}))]);
    let mut made = legal(&snapshot);
    assert_eq!(made.claims[0].options, [0, 1]);
    made.claims[0].options.remove(0);
    made.claims[0].cheapest.instance_type = 1;
    made.claims[0].cheapest.price = Price::from_nanos(400);
    assert_eq!(broken(&snapshot, &made), [Rule::Purchase].into());
}
