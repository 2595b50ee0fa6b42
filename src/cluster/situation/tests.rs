use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as ApiPod;
use serde_json::{Value, json};

use super::*;
use crate::api::{NodeClaim, names};

pub(super) fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

pub(super) fn pod(uid: &str, node: Option<&str>) -> ApiPod {
    let status = match node {
        Some(_) => json!({"phase": "Running"}),
        None => json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
    };
    serde_json::from_value(json!({
        "metadata": {
            "name": uid, "namespace": "default", "uid": uid, "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": status,
    }))
    .unwrap()
}

pub(super) fn claim(name: &str, pods: &str, change: &Value) -> NodeClaim {
    let mut all = json!({
        "metadata": {
            "name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "p"},
            "annotations": {names::NOMINATED_PODS: pods}, "creationTimestamp": "2026-11-16T09:00:00Z",
        },
        "spec": {
            "requirements": [], "resources": {"requests": {"cpu": "2", "pods": "2"}},
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
        },
    });
    json_patch::merge(&mut all, change);
    serde_json::from_value(all).unwrap()
}

pub(super) fn index(pods: &[ApiPod], claims: &[NodeClaim]) -> Index {
    let mut index = Index::default();
    for pod in pods {
        index.apply_pod(pod);
    }
    for claim in claims {
        index.apply(claim);
    }
    index
}

fn pending(situation: &Situation) -> Vec<&str> {
    let members = situation.snapshot.pending.members.iter();
    members.map(|pod| pod.uid.as_str()).collect()
}

fn seen(index: &Index) -> Situation {
    index.situation(&Types::new(), &BTreeSet::new(), now())
}

#[test]
fn a_pod_that_a_claim_is_on_its_way_for_is_not_planned_for_and_counts_there() {
    let index = index(&[pod("a", None), pod("b", None)], &[claim("c", "a", &json!({}))]);
    let situation = seen(&index);
    assert_eq!(pending(&situation), ["b"]);
    let bound = &situation.snapshot.bound.members;
    assert_eq!(
        (bound[0].uid.as_str(), bound[0].node.as_deref()),
        ("a", Some("c"))
    );
    assert_eq!(situation.snapshot.nodes[0].used.get("cpu"), 1000);
    assert!(index.has_needy(now(), &BTreeSet::new()));
    assert!(
        !index.has_needy(now(), &["b".to_owned()].into()),
        "nobody else needs a place"
    );
}

#[test]
fn a_pod_that_the_scheduler_put_elsewhere_counts_where_it_is_and_only_there() {
    // Two pods that are alike, each on the node that was made for the other.
    let pods = [pod("a", Some("y")), pod("b", Some("x"))];
    let claims = [claim("x", "a", &json!({})), claim("y", "b", &json!({}))];
    let situation = seen(&index(&pods, &claims));
    let bound = situation.snapshot.bound.members.iter();
    let bound: BTreeMap<&str, Option<&str>> =
        bound.map(|pod| (pod.uid.as_str(), pod.node.as_deref())).collect();
    assert_eq!(bound, BTreeMap::from([("a", Some("y")), ("b", Some("x"))]));
    for node in &situation.snapshot.nodes {
        assert_eq!(node.used.get("cpu"), 1000, "{}", node.name);
    }
    // The node of one goes: it is promised a place again, where nobody else is.
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let claims = [claim("x", "a", &json!({})), claim("y", "", &going)];
    let situation = seen(&index(&pods[..1], &claims));
    assert_eq!(situation.held, BTreeMap::from([("a".to_owned(), "x".to_owned())]));
}

#[test]
fn pods_beyond_what_a_claim_has_room_for_are_planned_for() {
    let pods = [pod("a", None), pod("b", None), pod("c", None)];
    let index = index(&pods, &[claim("x", "a,b,c", &json!({}))]);
    assert_eq!(pending(&seen(&index)), ["c"]);
}

#[test]
fn the_pods_of_a_claim_that_goes_are_planned_for_before_they_are_evicted() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let index = index(
        &[pod("a", Some("c")), pod("b", Some("other"))],
        &[claim("c", "", &going)],
    );
    let situation = seen(&index);
    assert_eq!(pending(&situation), ["a"]);
    assert_eq!(situation.snapshot.nodes[0].standing, Standing::Leaving);
    assert!(
        situation.snapshot.bound.members.is_empty(),
        "it is not counted where it will not be"
    );
}

#[test]
fn a_node_that_is_tainted_to_go_leaves_its_pods_behind() {
    let mut index = index(&[pod("a", Some("n"))], &[]);
    let node = |taints: Value| -> k8s_openapi::api::core::v1::Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
    };
    index.apply(&node(json!([])));
    assert!(pending(&seen(&index)).is_empty());
    index.apply(&node(
        json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
    ));
    assert_eq!(pending(&seen(&index)), ["a"]);
}

#[test]
fn a_pod_whose_claim_has_a_node_that_is_tainted_to_go_needs_another_though_nobody_else_does() {
    let mut index = index(&[pod("a", None)], &[claim("c", "a", &json!({}))]);
    let node = |taints: Value| -> k8s_openapi::api::core::v1::Node {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"taints": taints}})).unwrap()
    };
    index.apply(&node(json!([])));
    assert!(!index.has_needy(now(), &BTreeSet::new()));
    index.apply(&node(
        json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
    ));
    assert_eq!(pending(&seen(&index)), ["a"]);
    assert!(index.has_needy(now(), &BTreeSet::new()), "so a pass is due");
}

#[test]
fn pods_that_nobody_makes_anew_or_that_must_stay_are_not_planned_for_elsewhere() {
    let mut bare = pod("bare", Some("c"));
    bare.metadata.owner_references = None;
    let mut stays = pod("stays", Some("c"));
    stays.metadata.annotations = Some([(names::DO_NOT_DISRUPT.to_owned(), "true".to_owned())].into());
    let mut ending = pod("ending", Some("c"));
    ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-16T09:59:00Z")).unwrap();
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let index = index(&[bare, stays, ending], &[claim("c", "", &going)]);
    assert!(pending(&seen(&index)).is_empty());
}

/// As upstream: a StatefulSet makes another one only when this one is gone, and its place is ready by then.
#[test]
fn a_pod_of_a_stateful_set_that_is_ending_is_planned_for_where_its_node_goes_and_nowhere_else() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let kept_by = |kind: &str| {
        let mut ending = pod("a", Some("c"));
        ending.metadata.owner_references.as_mut().unwrap()[0].kind = kind.to_owned();
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-16T09:59:00Z")).unwrap();
        ending
    };
    let planned = |kind: &str, change: &Value| {
        let index = index(&[kept_by(kind)], &[claim("c", "", change)]);
        let situation = seen(&index);
        assert!(situation.snapshot.bound.members.is_empty(), "it counts nowhere");
        !pending(&situation).is_empty()
    };
    assert!(planned("StatefulSet", &going));
    assert!(!planned("StatefulSet", &json!({})), "its node stays");
    assert!(!planned("ReplicaSet", &going), "another one waits already");
}

/// A claim was made for the pods of a node that goes. They are evicted, and take their time to stop.
#[test]
fn a_pod_that_takes_long_to_stop_leaves_its_place_to_its_successor() {
    let types: Types = [("p".to_owned(), Arc::new(vec![kind_of("small", 2)]))].into();
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let chosen = json!({"status": {"allocation": {
        "profile": "small", "zone": "z", "capacityType": "on-demand", "subnet": "s", "attempt": 1,
        "instanceName": "i", "since": "2026-11-16T09:59:00Z",
    }}});
    let ending = |kind: &str| {
        let old = ["a", "b"].map(|uid| {
            let mut pod = pod(uid, Some("old"));
            pod.metadata.owner_references.as_mut().unwrap()[0].kind = kind.to_owned();
            pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-16T09:59:30Z")).unwrap();
            pod
        });
        let mut index = index(&old, &[claim("old", "", &going), claim("new", "a,b", &chosen)]);
        index.apply(&limited_pool("100"));
        index
    };
    let mut evicted = ending("ReplicaSet");
    for successor in ["a2", "b2"] {
        evicted.apply_pod(&pod(successor, None));
    }
    let situation = evicted.situation(&types, &BTreeSet::new(), now());
    assert!(situation.held.is_empty(), "{:?}", situation.held);
    let plan = crate::scheduling::solve(
        &situation.snapshot,
        crate::scheduling::Options::default(),
        &|| true,
    );
    assert_eq!(crate::audit::plan(&situation.snapshot, &plan), []);
    assert_eq!((plan.claims.len(), plan.placements.len()), (0, 2));
    let set = ending("StatefulSet").situation(&types, &BTreeSet::new(), now());
    assert_eq!(set.held.len(), 2, "nobody comes before they are gone");
    assert!(pending(&set).is_empty());
}

#[test]
fn daemons_and_static_pods_go_with_their_node() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    for (group, kind) in [
        ("apps/v1", "DaemonSet"),
        ("example.com/v1", "DaemonSet"),
        ("v1", "Node"),
    ] {
        let mut daemon = pod("a", Some("c"));
        let owner = &mut daemon.metadata.owner_references.as_mut().unwrap()[0];
        (owner.api_version, owner.kind) = (group.to_owned(), kind.to_owned());
        let index = index(&[daemon], &[claim("c", "", &going)]);
        assert!(pending(&seen(&index)).is_empty(), "{group} {kind}");
        assert!(!index.has_needy(now(), &BTreeSet::new()), "{group} {kind}");
    }
}

/// As upstream's "should not reschedule pods from a deleting node when pods are blocked due to fully blocking PDBs".
#[test]
fn a_pod_that_a_budget_holds_on_its_node_for_good_is_not_planned_for_elsewhere() {
    let going = |more: Value| {
        let mut all = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
        json_patch::merge(&mut all, &more);
        let mut index = index(&[pod("a", Some("c"))], &[claim("c", "", &all)]);
        let budget = json!({"metadata": {"name": "b", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {}}}});
        let budget: k8s_openapi::api::policy::v1::PodDisruptionBudget =
            serde_json::from_value(budget).unwrap();
        index.apply(&budget);
        index
    };
    let held = going(json!({}));
    assert!(pending(&seen(&held)).is_empty());
    assert!(!held.has_needy(now(), &BTreeSet::new()));
    let deadline = going(json!({"spec": {"terminationGracePeriod": "5m"}}));
    assert_eq!(
        pending(&seen(&deadline)),
        ["a"],
        "it goes when the node's time is over"
    );
    let taken =
        going(json!({"metadata": {"annotations": {names::INTERRUPTED_SINCE: "2026-11-16T09:59:00Z"}}}));
    assert_eq!(pending(&seen(&taken)), ["a"], "no budget stops a preemption");
}

#[test]
fn a_pod_that_must_stay_for_a_time_is_planned_for_when_that_is_over() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let started = now() - jiff::SignedDuration::from_mins(60);
    for (wish, planned) in [("1.5h", false), ("2h", false), ("30m", true), ("soon", true)] {
        let mut stays = pod("a", Some("c"));
        stays.metadata.annotations = Some([(names::DO_NOT_DISRUPT.to_owned(), wish.to_owned())].into());
        let status = stays.status.get_or_insert_default();
        status.start_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(started));
        let index = index(&[stays], &[claim("c", "", &going)]);
        assert_eq!(!pending(&seen(&index)).is_empty(), planned, "{wish}");
    }
}

#[test]
fn a_pod_that_others_are_removed_for_waits_for_them_as_long_as_the_node_is_there() {
    let mut preempting = pod("a", None);
    preempting.status.as_mut().unwrap().nominated_node_name = Some("n".to_owned());
    let mut index = index(&[preempting], &[]);
    assert_eq!(pending(&seen(&index)), ["a"], "the node is gone");
    let node: k8s_openapi::api::core::v1::Node =
        serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    index.apply(&node);
    assert!(pending(&seen(&index)).is_empty());
}

#[test]
fn what_was_chosen_for_a_claim_says_what_its_node_will_have_before_it_is_there() {
    let allocated = json!({"status": {"allocation": {
        "profile": "bxf-4x16", "zone": "z", "capacityType": "spot", "subnet": "s", "attempt": 1,
        "instanceName": "i", "since": "2026-11-16T09:59:00Z",
    }}});
    let index = index(&[], &[claim("c", "", &allocated)]);
    let mut requirements = crate::model::Requirements::new();
    requirements.narrow(names::ARCH, &crate::model::Values::one_of(["amd64"]));
    let kind = crate::model::InstanceType {
        name: "bxf-4x16".to_owned(),
        requirements,
        capacity: crate::resources::Resources::new().with("cpu", 4000),
        allocatable: crate::resources::Resources::new().with("cpu", 3900),
        volume_limits: [("d".to_owned(), 12)].into(),
        offerings: Vec::new(),
    };
    let types: Types = [("p".to_owned(), Arc::new(vec![kind]))].into();
    let situation = index.situation(&types, &BTreeSet::new(), now());
    let node = &situation.snapshot.nodes[0];
    assert_eq!(node.allocatable.get("cpu"), 3900);
    assert_eq!(node.capacity.get("cpu"), 4000);
    assert_eq!(node.labels.get(names::ARCH).map(String::as_str), Some("amd64"));
    assert_eq!(node.volume_limits.get("d"), Some(&12), "until its driver says so");
}

/// Drivers register one after the other, some of them minutes after the kubelet has.
#[test]
fn until_its_node_is_ready_for_work_a_machine_attaches_what_its_type_can_where_its_drivers_do_not_say_otherwise()
 {
    let mut kind = kind_of("bxf-4x16", 4);
    kind.volume_limits = [("d".to_owned(), 12)].into();
    let types: Types = [("p".to_owned(), Arc::new(vec![kind]))].into();
    let allocated = json!({"status": {
        "allocation": {
            "profile": "bxf-4x16", "zone": "z", "capacityType": "spot", "subnet": "s", "attempt": 1,
            "instanceName": "i", "since": "2026-11-16T09:59:00Z",
        },
        "conditions": [{"type": "Registered", "status": "True", "lastTransitionTime": "2026-11-16T09:59:30Z"}],
    }});
    let limits = |drivers: &[(&str, u32)], labels: &Value| -> Vec<(String, u32)> {
        let mut index = index(&[], &[claim("c", "", &allocated)]);
        let node = json!({"metadata": {"name": "c", "labels": labels}});
        let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(node).unwrap();
        index.apply(&node);
        let driver = |(name, count): &(&str, u32)| json!({"name": name, "nodeID": "c", "allocatable": {"count": count}});
        let drivers: Vec<Value> = drivers.iter().map(driver).collect();
        let csi = json!({"metadata": {"name": "c"}, "spec": {"drivers": drivers}});
        let csi: k8s_openapi::api::storage::v1::CSINode = serde_json::from_value(csi).unwrap();
        index.apply(&csi);
        let situation = index.situation(&types, &BTreeSet::new(), now());
        let node = &situation.snapshot.nodes[0];
        assert_eq!(node.kind, NodeKind::Node);
        node.volume_limits.clone().into_iter().collect()
    };
    let said = |all: &[(&str, u32)]| -> Vec<(String, u32)> {
        all.iter()
            .map(|(driver, limit)| ((*driver).to_owned(), *limit))
            .collect()
    };
    let begins = json!({names::NODE_POOL: "p", names::REGISTERED: "true"});
    let mut ready = begins.clone();
    ready[names::INITIALIZED] = json!("true");
    assert_eq!(limits(&[], &begins), said(&[("d", 12)]));
    assert_eq!(limits(&[("e", 3)], &begins), said(&[("d", 12), ("e", 3)]));
    assert_eq!(limits(&[("d", 7)], &begins), said(&[("d", 7)]));
    assert_eq!(limits(&[("e", 3)], &ready), said(&[("e", 3)]));
}

pub(super) fn kind_of(name: &str, cpu: i64) -> crate::model::InstanceType {
    let mut requirements = crate::model::Requirements::new();
    requirements.narrow(names::INSTANCE_TYPE, &crate::model::Values::one_of([name]));
    let has = crate::resources::Resources::new()
        .with("cpu", cpu * 1000)
        .with("pods", 10);
    crate::model::InstanceType {
        name: name.to_owned(),
        requirements,
        capacity: has.clone(),
        allocatable: has,
        volume_limits: BTreeMap::new(),
        offerings: vec![crate::model::Offering {
            zone: "z".to_owned(),
            capacity_type: crate::api::CapacityType::OnDemand,
            price: crate::money::Price::from_usd(0.1),
            availability: crate::model::Availability::Available,
        }],
    }
}

pub(super) fn limited_pool(cpu: &str) -> NodePool {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "limits": {"cpu": cpu},
        "template": {"spec": {
            "requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "n"},
        }},
    }}))
    .unwrap()
}

/// Four pods come one after another, each after a plan for the one before, and nothing is chosen for any claim: each asks
/// for one processor, and no machine has less than two.
#[test]
fn claims_that_nothing_was_chosen_for_count_with_the_smallest_machine_that_they_can_become() {
    let types: Types = [(
        "p".to_owned(),
        Arc::new(vec![
            kind_of("a-large", 4),
            kind_of("small", 2),
            kind_of("tiny", 1),
        ]),
    )]
    .into();
    let open = |name: &str, pod: &str| {
        let named = json!([{"key": names::INSTANCE_TYPE, "operator": "In", "values": ["a-large", "small"]}]);
        claim(
            name,
            pod,
            &json!({"spec": {"requirements": named, "resources": {"requests": {"cpu": "1", "pods": "1"}}}}),
        )
    };
    let mut index = index(&[], &[]);
    index.apply(&limited_pool("4"));
    let mut made = 0;
    for at in 0..4 {
        let uid = format!("pod-{at}");
        index.apply_pod(&pod(&uid, None));
        let situation = index.situation(&types, &BTreeSet::new(), now());
        let plan = crate::scheduling::solve(
            &situation.snapshot,
            crate::scheduling::Options::default(),
            &|| true,
        );
        assert_eq!(crate::audit::plan(&situation.snapshot, &plan), [], "{at}");
        if !plan.claims.is_empty() {
            made += 1;
            index.apply(&open(&format!("claim-{at}"), &uid));
        }
    }
    assert_eq!(made, 2, "a limit of four processors is two machines of two");
    let situation = index.situation(&types, &BTreeSet::new(), now());
    let counted: Vec<i64> = situation
        .snapshot
        .nodes
        .iter()
        .map(|node| node.capacity.get("cpu"))
        .collect();
    assert_eq!(counted, [2000, 2000]);
    assert_eq!(
        situation.snapshot.nodes[0].allocatable.get("cpu"),
        1000,
        "room is promised for no more than it asks"
    );
}

#[test]
fn a_claim_that_asks_for_more_than_any_type_has_counts_with_what_it_asks_for() {
    let types: Types = [("p".to_owned(), Arc::new(vec![kind_of("small", 1)]))].into();
    let mut index = index(&[], &[claim("c", "", &json!({}))]);
    index.apply(&limited_pool("4"));
    let situation = index.situation(&types, &BTreeSet::new(), now());
    assert_eq!(situation.snapshot.nodes[0].capacity.get("cpu"), 2000);
}

#[test]
fn a_daemon_set_that_cannot_be_read_is_not_counted_and_keeps_no_plan_from_being_made() {
    let daemon_set = |name: &str, operator: &str| -> k8s_openapi::api::apps::v1::DaemonSet {
        let terms = json!([{"matchExpressions": [{"key": "a", "operator": operator}]}]);
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [], "affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}},
        }))
        .unwrap()
    };
    let mut index = index(&[], &[]);
    index.apply(&daemon_set("bad", "Like"));
    index.apply(&daemon_set("good", "Exists"));
    let situation = seen(&index);
    assert_eq!(situation.daemons, ["kube-system/good"]);
    assert_eq!(situation.snapshot.daemons.len(), 1);
}

/// Claims that were made for a pod, whose nodes are ready for work since then.
fn made_ready(pod: &str, since: &str) -> Vec<NodeClaim> {
    let ready = json!({"conditions": [{"type": "Initialized", "status": "True", "reason": "X", "lastTransitionTime": since}]});
    let names = ["a", "b", "c", "d"];
    names
        .map(|name| claim(name, pod, &json!({"status": ready})))
        .into()
}

#[test]
fn a_pod_that_four_nodes_were_made_for_in_vain_is_given_up_and_told_with_their_names() {
    let mut daemon = pod("daemon", Some("a"));
    let owner = &mut daemon.metadata.owner_references.as_mut().unwrap()[0];
    owner.kind = "DaemonSet".to_owned();
    let claims = made_ready("p", "2026-11-16T09:00:00Z");
    let mut index = index(&[pod("p", None), daemon], &claims);
    let situation = seen(&index);
    assert!(pending(&situation).is_empty());
    assert!(!index.has_needy(now(), &BTreeSet::new()));
    let given_up = &situation.given_up["p"];
    assert_eq!(given_up.nodes, ["a", "b", "c", "d"]);
    assert_eq!(given_up.until, None);
    index.remove(&claims[1]);
    let situation = seen(&index);
    assert_eq!(pending(&situation), ["p"]);
    assert_eq!(situation.in_vain, BTreeMap::from([("p".to_owned(), 3)]));
    assert!(situation.given_up.is_empty());
}

/// A small pod may come to a node while the scheduler does not look at the large one that it was made for.
#[test]
fn a_pod_whose_nodes_others_are_on_is_not_given_up_and_waits_no_shorter_for_the_next() {
    let guests = |node: &&str| {
        let on = |number: usize| pod(&format!("{node}-{number}"), Some(node));
        // One beside it would leave room for the pod that waits.
        [on(1), on(2)]
    };
    let mut pods: Vec<ApiPod> = ["a", "b", "c", "d"].iter().flat_map(guests).collect();
    pods.push(pod("p", None));
    let served = index(&pods, &made_ready("p", "2026-11-16T09:00:00Z"));
    let situation = seen(&served);
    assert_eq!(pending(&situation), ["p"]);
    assert!(served.has_needy(now(), &BTreeSet::new()));
    assert!(situation.in_vain.is_empty(), "others are served");
    let just_now = index(&pods, &made_ready("p", "2026-11-16T09:57:00Z"));
    let situation = seen(&just_now);
    assert!(pending(&situation).is_empty());
    assert!(!just_now.has_needy(now(), &BTreeSet::new()));
    let until = situation.given_up["p"].until.unwrap().to_string();
    assert_eq!(until, "2026-11-16T10:01:00Z", "four minutes for four nodes");
    assert_eq!(situation.given_up["p"].nodes.len(), 4);
    // Three of them are left by whoever was there: that is one too few to give it up.
    let one = index(&pods[6..], &made_ready("p", "2026-11-16T09:00:00Z"));
    assert_eq!(pending(&seen(&one)), ["p"]);
    let none = index(&pods[8..], &made_ready("p", "2026-11-16T09:00:00Z"));
    assert!(pending(&seen(&none)).is_empty());
}

#[test]
fn the_pods_of_a_claim_that_goes_get_one_new_node_together() {
    let types: Types = [("p".to_owned(), Arc::new(vec![kind_of("large", 8)]))].into();
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-16T09:59:00Z"}});
    let pods = ["a", "b", "c"].map(|name| pod(name, Some("x")));
    let mut index = index(&pods, &[claim("x", "", &going)]);
    index.apply(&limited_pool("100"));
    let situation = index.situation(&types, &BTreeSet::new(), now());
    let options = crate::scheduling::Options::default();
    let plan = crate::scheduling::solve(&situation.snapshot, options, &|| true);
    assert_eq!(crate::audit::plan(&situation.snapshot, &plan), []);
    assert_eq!(plan.claims.len(), 1);
    assert_eq!(plan.claims[0].pods.len(), 3);
}
