//! `karpenter-ibm explain`: answers about pods of an embedded cluster, by the binary.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::{IBMNodeClass, NodeClaim};
use karpenter_ibm::sim::kube::write;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cli::{Simulator, binary, stderr};

/// Says how an object fares, as its controller would. With `made` it is created first, as a person would.
fn status<K>(simulator: &Simulator, name: &str, made: Option<Value>, status: &Value)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    runtime().block_on(async {
        let api: Api<K> = Api::all(simulator.cluster.admin());
        if let Some(made) = made {
            let made = serde_json::from_value(made).unwrap();
            api.create(&PostParams::default(), &made).await.unwrap();
        }
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    });
}

/// Says how a pod fares, as the kube-scheduler would.
fn pod_status(simulator: &Simulator, name: &str, status: &Value) -> Pod {
    runtime().block_on(async {
        let pods: Api<Pod> = Api::default_namespaced(simulator.cluster.admin());
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        pods.patch_status(name, &params, &patch).await.unwrap()
    })
}

/// Of a pod for which there is no room yet.
fn refused_by_the_scheduler() -> Value {
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]})
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// A cluster with a class that is ready, and a pool with a taint and a limit.
fn cluster() -> Simulator {
    let simulator = Simulator::start();
    let subnet = |zone: &str| json!({"id": format!("02{zone}7-0d76e89c-d51e-46cf-af44-cd031a72f3d8"), "zone": format!("us-south-{zone}")});
    let class = json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
        "spec": {"region": "us-south", "vpc": "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e", "image": "ibm-ubuntu-24-04"},
    });
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "red"},
        "spec": {"limits": {"cpu": "8"}, "template": {"spec": {
            "taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}],
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}}}},
    });
    write::insert(&simulator.cluster, class);
    write::insert(&simulator.cluster, pool);
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "ready", "observedGeneration": 1,
        "lastTransitionTime": "2026-11-16T10:00:00Z"});
    let resolved = json!({"resolvedSubnets": [subnet("1"), subnet("2")], "conditions": [ready]});
    status::<IBMNodeClass>(&simulator, "default", None, &resolved);
    simulator
}

fn pod(name: &str, cpu: &str, more: &Value) -> Value {
    let mut spec =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": spec})
}

/// A claim of the pool `red`.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "red"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}},
    })
}

/// One whose machine was not chosen yet, with room for so many processors.
fn open_claim(name: &str, cpu: &str) -> Value {
    let mut open = claim(name);
    open["spec"]["resources"] = json!({"requests": {"cpu": cpu, "memory": "8Gi", "pods": "10"}});
    open["spec"]["taints"] = json!([{"key": "team", "value": "red", "effect": "NoSchedule"}]);
    open
}

fn tolerant() -> Value {
    json!({"tolerations": [{"operator": "Exists"}]})
}

/// What is said about a pod, and how the command ended.
fn explain(simulator: &Simulator, args: &[&str]) -> (String, Option<i32>) {
    let args: Vec<&str> = ["explain", "pod"].iter().chain(args).copied().collect();
    let kubeconfig = simulator.kubeconfig.to_str().unwrap();
    let output = binary(&args, &[("KUBECONFIG", kubeconfig)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said + &stderr(&output), output.status.code())
}

#[test]
fn what_would_let_a_pod_in_is_told() {
    let simulator = cluster();
    write::insert(&simulator.cluster, pod("p", "12", &json!({})));
    let (said, status) = explain(&simulator, &["p"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("pod default/p has no place:"), "{said}");
    assert!(
        said.contains("NodePool red: taint team=red:NoSchedule is not tolerated"),
        "{said}"
    );
    assert!(said.contains("To get in at NodePool red:"), "{said}");
    assert!(
        said.contains("let the pod tolerate the taint team=red:NoSchedule"),
        "{said}"
    );
    assert!(said.contains("raise the pool's limit of cpu to 16"), "{said}");
}

#[test]
fn what_would_let_a_pod_in_beside_those_that_have_a_place_is_told() {
    let simulator = cluster();
    for name in ["p0", "p1", "p2"] {
        write::insert(&simulator.cluster, pod(name, "3", &tolerant()));
        pod_status(&simulator, name, &refused_by_the_scheduler());
    }
    let all = ["p0", "p1", "p2"].map(|name| explain(&simulator, &[name]).0);
    let without: Vec<&String> = all.iter().filter(|said| said.contains("has no place")).collect();
    assert_eq!(without.len(), 1, "{all:?}");
    assert!(
        without[0].contains("To get in at NodePool red:\n  raise the pool's limit of cpu to 12"),
        "{without:?}"
    );
}

#[test]
fn a_node_that_can_be_bought_is_told_with_its_price() {
    let simulator = cluster();
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains("can have a new node of NodePool red: a spot "),
        "{said}"
    );
    assert!(said.contains(" in us-south-1, for $0.0"), "{said}");
    assert!(
        said.contains("Worked out with built-in machines and prices; preferences count, minValues hold."),
        "{said}"
    );
    let (said, _) = explain(&simulator, &["p", "--preference-policy", "Ignore"]);
    assert!(said.contains("preferences do not count"), "{said}");
}

#[test]
fn an_offering_that_is_withheld_is_told_with_the_time() {
    let simulator = cluster();
    let hold = json!({"apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
        "metadata": {"name": "spot.all"}, "spec": {"key": "spot:*:*", "reason": "Quota", "until": "2999-01-01T00:00:00Z"}});
    write::insert(&simulator.cluster, hold);
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains("is withheld until 2999-01-01T00:00:00Z: Quota"),
        "{said}"
    );
    assert!(said.contains("wait until 2999-01-01T00:00:00Z, when "), "{said}");
}

#[test]
fn the_claim_that_a_pod_waits_for_is_told_with_how_far_it_has_come_and_since_when() {
    let simulator = cluster();
    let condition = |type_: &str, status: &str, message: &str| json!({"type": type_, "status": status, "reason": "X", "message": message, "lastTransitionTime": "2026-11-16T10:01:00Z"});
    let conditions = [
        condition("Launched", "True", "bought"),
        condition("Registered", "Unknown", "the machine has not joined"),
    ];
    status::<NodeClaim>(
        &simulator,
        "red-x",
        Some(open_claim("red-x", "4")),
        &json!({"conditions": conditions}),
    );
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "default"},
        "eventTime": "2026-11-16T10:00:31.000000Z", "reason": "Nominated", "action": "Nominate", "type": "Normal",
        "note": "NodeClaim red-x", "reportingController": "karpenter-ibm.sh/controller", "reportingInstance": "x",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}});
    write::insert(&simulator.cluster, event);
    let (said, _) = explain(&simulator, &["p"]);
    assert!(said.contains("pod default/p waits for NodeClaim red-x"), "{said}");
    assert!(
        said.contains(
            "which has since 2026-11-16T10:01:00Z to join the cluster (the machine has not joined)"
        ),
        "{said}"
    );
    assert!(
        said.contains("It was promised a place at 2026-11-16T10:00:31Z: NodeClaim red-x"),
        "{said}"
    );
}

/// A claim on its way that is made for a pod keeps it, although another claim has more room: the controller says so too.
#[test]
fn a_pod_waits_for_the_claim_that_was_made_for_it() {
    let simulator = cluster();
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    let made = pod_status(&simulator, "p", &json!({"phase": "Pending"}));
    let mut own = open_claim("red-b", "4");
    own["metadata"]["annotations"] = json!({"karpenter-ibm.sh/nominated-pods": made.uid().unwrap()});
    for claim in [open_claim("red-a", "64"), own] {
        write::insert(&simulator.cluster, claim);
    }
    let (said, _) = explain(&simulator, &["p"]);
    assert!(said.contains("pod default/p waits for NodeClaim red-b"), "{said}");
}

#[test]
fn a_pod_that_is_given_up_is_told_so_with_the_nodes_that_were_made_for_it() {
    let simulator = cluster();
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    let made = pod_status(&simulator, "p", &refused_by_the_scheduler());
    let done = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z"})
    };
    let conditions = ["Launched", "Registered", "Initialized"].map(done);
    let ready = json!({"conditions": conditions});
    for name in ["red-a", "red-b", "red-c", "red-d"] {
        let mut own = open_claim(name, "4");
        own["metadata"]["annotations"] = json!({"karpenter-ibm.sh/nominated-pods": made.uid().unwrap()});
        status::<NodeClaim>(&simulator, name, Some(own), &ready);
    }
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains(
            "pod default/p is given up: 4 nodes that were made for it are ready for work, and it runs on none of them: \
             red-a, red-b, red-c, red-d. No other is bought for it until they go, or drift"
        ),
        "{said}"
    );
    assert!(!said.contains("wants no node"), "{said}");
}

#[test]
fn pods_that_refuse_all_pools_or_make_room_for_themselves_are_told_so() {
    let simulator = cluster();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    write::insert(&simulator.cluster, node);
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}],
    }}}});
    write::insert(&simulator.cluster, pod("own", "1", &affinity));
    let (said, _) = explain(&simulator, &["own"]);
    assert!(
        said.contains("wants no node of any NodePool, so none is bought for it"),
        "{said}"
    );
    write::insert(&simulator.cluster, pod("p", "3", &tolerant()));
    pod_status(
        &simulator,
        "p",
        &json!({"phase": "Pending", "nominatedNodeName": "n1"}),
    );
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains("pod default/p is about to be put on node n1 by its scheduler"),
        "{said}"
    );
    let mut refused = refused_by_the_scheduler();
    refused["conditions"][0]["lastTransitionTime"] = "2026-11-16T10:00:05Z".into();
    pod_status(&simulator, "p", &refused);
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains(
            "pod default/p waits for pods of less priority to leave node n1; its scheduler finds no place for it since \
             2026-11-16T10:00:05Z"
        ),
        "{said}"
    );
}

/// The kube-scheduler's silence may count after a second; how fast others are is not known.
#[test]
fn a_pod_of_another_scheduler_that_has_said_nothing_yet_is_told_that_it_must() {
    const AWAITED: &str = "No node is bought for it before its scheduler other has said that it finds none.";
    let simulator = cluster();
    let others = json!({"schedulerName": "other", "tolerations": [{"operator": "Exists"}]});
    write::insert(&simulator.cluster, pod("p", "3", &others));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains("can have a new node of NodePool red: a spot "),
        "{said}"
    );
    assert!(said.contains(AWAITED), "{said}");
    pod_status(&simulator, "p", &refused_by_the_scheduler());
    let (said, _) = explain(&simulator, &["p"]);
    assert!(!said.contains("No node is bought"), "{said}");
    write::insert(&simulator.cluster, pod("usual", "3", &tolerant()));
    let (said, _) = explain(&simulator, &["usual"]);
    assert!(!said.contains("No node is bought"), "{said}");
}

#[test]
fn pods_that_need_no_node_are_told_so() {
    let simulator = cluster();
    write::insert(&simulator.cluster, pod("on", "1", &json!({"nodeName": "n1"})));
    write::insert(
        &simulator.cluster,
        pod("gated", "1", &json!({"schedulingGates": [{"name": "g"}]})),
    );
    assert!(
        explain(&simulator, &["on"])
            .0
            .contains("pod default/on is on node n1")
    );
    let (said, _) = explain(&simulator, &["gated"]);
    assert!(said.contains("is held back by its scheduling gates: g"), "{said}");
}

#[test]
fn a_class_that_is_not_ready_is_the_reason_why_its_pool_has_no_part() {
    let simulator = Simulator::start();
    let class = json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
        "spec": {"region": "us-south", "vpc": "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e", "image": "ibm-ubuntu-24-04"},
    });
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}}}}});
    write::insert(&simulator.cluster, class);
    write::insert(&simulator.cluster, pool);
    write::insert(&simulator.cluster, pod("p", "1", &json!({})));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains(
            "has no place:\n  NodePool p: IBMNodeClass default was not looked up yet as it is written now"
        ),
        "{said}"
    );
}

/// Stored past the API server's own checks, as under other definitions.
#[test]
fn pools_that_the_controller_would_not_use_have_no_part() {
    let simulator = cluster();
    let insert = |name: &str, more: &Value| {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"}}}}});
        json_patch::merge(&mut pool["spec"], more);
        write::insert(&simulator.cluster, pool);
    };
    let taint = json!({"key": "team", "value": "red", "effect": "NoSchedule"});
    let many: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
    let many = json!([{"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": many}]);
    let foreign = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"});
    insert(
        "foreign",
        &json!({"template": {"spec": {"nodeClassRef": foreign}}}),
    );
    insert("negative", &json!({"limits": {"memory": "-1"}}));
    insert(
        "twice",
        &json!({"template": {"spec": {"taints": [taint, taint]}}}),
    );
    insert("many", &json!({"template": {"spec": {"requirements": many}}}));
    write::insert(&simulator.cluster, pod("p", "12", &tolerant()));

    let (said, _) = explain(&simulator, &["p"]);
    assert!(said.contains("pod default/p has no place:"), "{said}");
    for pool in ["negative", "twice", "many"] {
        assert!(
            said.contains(&format!("  NodePool {pool}: it is not valid: spec.")),
            "{pool}: {said}"
        );
    }
    assert!(
        said.contains("NodePool foreign has no part in it: its class is of kind EC2NodeClass"),
        "{said}"
    );
    write::insert(&simulator.cluster, pod("small", "3", &tolerant()));
    let (said, _) = explain(&simulator, &["small"]);
    assert!(said.contains("can have a new node of NodePool red: "), "{said}");
    assert!(
        said.contains("NodePool negative has no part in it: it is not valid"),
        "{said}"
    );
}

#[test]
fn a_pod_or_a_cluster_that_is_not_there_is_bad_input() {
    let simulator = cluster();
    let (said, status) = explain(&simulator, &["p", "-n", "elsewhere"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("there is no pod p in namespace elsewhere"),
        "{said}"
    );
    let output = binary(&["explain", "pod", "p"], &[("KUBECONFIG", "/nonexistent")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("there is no cluster to ask"),
        "{}",
        stderr(&output)
    );
}

/// A node of a cluster that is not ours.
fn node(simulator: &Simulator, name: &str, labels: &Value) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    write::insert(&simulator.cluster, node);
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T09:30:00Z"});
    let reported = json!({"capacity": amounts, "allocatable": amounts, "conditions": [ready]});
    status::<k8s_openapi::api::core::v1::Node>(simulator, name, None, &reported);
}

#[test]
fn a_node_that_has_room_is_told_and_since_when_it_is_ready() {
    let simulator = cluster();
    node(&simulator, "n1", &json!({}));
    write::insert(&simulator.cluster, pod("p", "1", &json!({})));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains(
            "pod default/p has room on node n1, which is ready for work since 2026-11-16T09:30:00Z; the kube-scheduler \
             has not put it there yet"
        ),
        "{said}"
    );
}

#[test]
fn a_node_that_has_joined_and_is_not_ready_for_work_is_told_with_its_claim() {
    let simulator = cluster();
    let own = json!({"karpenter.sh/nodepool": "red", "karpenter.sh/registered": "true"});
    node(&simulator, "red-a", &own);
    let done = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": "2026-11-16T09:40:00Z"})
    };
    let fares = json!({"providerID": "ibm:///us-south/1", "nodeName": "red-a",
        "conditions": [done("Launched"), done("Registered")]});
    status::<NodeClaim>(&simulator, "red-a", Some(claim("red-a")), &fares);
    write::insert(&simulator.cluster, pod("p", "1", &json!({})));
    let (said, _) = explain(&simulator, &["p"]);
    assert!(
        said.contains("pod default/p waits for node red-a, which is not ready for work yet: NodeClaim red-a"),
        "{said}"
    );
    assert!(
        said.contains("which has since 2026-11-16T09:40:00Z to be ready for work"),
        "{said}"
    );
}

/// One machine of four processors for both pods is cheaper than two machines; for `p` alone a smaller one will do.
#[test]
fn a_pod_that_a_budget_holds_on_a_node_that_goes_has_no_part_in_what_is_bought() {
    let simulator = cluster();
    let own = json!({"karpenter.sh/nodepool": "red", "karpenter.sh/registered": "true"});
    node(&simulator, "red-a", &own);
    let mut going = claim("red-a");
    going["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    write::insert(&simulator.cluster, going);
    // The pod of an owner that is not there would be collected.
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "namespace": "default"}});
    write::insert(&simulator.cluster, owner);
    let owner = runtime().block_on(async {
        let claims: Api<NodeClaim> = Api::all(simulator.cluster.admin());
        claims.delete("red-a", &DeleteParams::default()).await.unwrap();
        let sets: Api<ReplicaSet> = Api::default_namespaced(simulator.cluster.admin());
        sets.get("r").await.unwrap().uid()
    });
    let mut held = pod("held", "2", &tolerant());
    held["spec"]["nodeName"] = "red-a".into();
    held["metadata"]["labels"] = json!({"app": "held"});
    held["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": owner, "controller": true}]);
    write::insert(&simulator.cluster, held);
    write::insert(&simulator.cluster, pod("p", "1", &tolerant()));
    let bought = |size: &str| {
        let (said, _) = explain(&simulator, &["p"]);
        let told = said.lines().next().unwrap_or_default();
        assert!(
            told.contains("can have a new node of NodePool red: a spot "),
            "{said}"
        );
        assert!(told.contains(size), "{size}: {said}");
    };
    bought("-4x");

    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "held", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}}});
    write::insert(&simulator.cluster, budget);
    bought("-2x");
}
