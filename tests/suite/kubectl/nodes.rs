//! Verbs for nodes: cordon, drain, taint.

use serde_json::json;

use super::NODE;
use super::cluster::{Cluster, rows};

#[test]
fn cordon_and_uncordon_mark_a_node_and_taint_paints_it() {
    let cluster = Cluster::start();
    cluster.apply(NODE);
    assert_eq!(cluster.kubectl("cordon node-a"), "node/node-a cordoned\n");
    assert_eq!(cluster.kubectl("cordon node-a"), "node/node-a already cordoned\n");
    assert!(rows(&cluster.kubectl("get node node-a"))[1].contains("SchedulingDisabled"));
    assert_eq!(cluster.kubectl("uncordon node-a"), "node/node-a uncordoned\n");
    cluster.kubectl("taint node node-a dedicated=gpu:NoExecute");
    let taints = cluster.json("get node node-a")["spec"]["taints"].to_string();
    assert!(taints.contains("dedicated"), "{taints}");
}

#[test]
fn drain_evicts_the_pods_of_a_node_and_honors_budgets() {
    let cluster = Cluster::start();
    cluster.apply(NODE);
    cluster.apply(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
",
    );
    cluster.set_status(
        "pod p",
        &json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    );
    let budget = |allowed: u32| {
        json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
               "expectedPods": 1})
    };
    cluster.set_status("pdb web", &budget(0));
    let complaint = cluster.refused("drain node-a --force --grace-period=0 --timeout=2s");
    assert!(
        complaint.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{complaint}"
    );
    cluster.set_status("pdb web", &budget(1));
    let printed = cluster.kubectl("drain node-a --force --grace-period=0 --timeout=30s");
    assert!(printed.ends_with("node/node-a drained\n"), "{printed}");
    assert_eq!(cluster.kubectl("get pods -o name"), "");
}
