//! The objects that people write in a world with workloads.

use serde_json::{Value, json};

use crate::api::names::NODE_POOL;

/// What pools may buy: machines of four and eight processors, so that a handful of them is enough.
const TYPES: [&str; 4] = ["bxf-4x16", "bxf-8x32", "bx2-4x16", "cxf-8x16"];
/// Keeps nodes of a pool for those who ask for them.
const RESERVED: &str = "example.com/reserved";
const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn class() -> Value {
    json!({
        "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
        "spec": {"region": "${region}", "vpc": "${vpc}", "image": "${image}"},
    })
}

/// Volumes that are made in the zone of the first pod that uses them.
pub(super) fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "vpc.block.csi.ibm.io", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// A pool that buys so. Pods that will not leave are made to after four minutes, so that every world comes to an end.
pub(super) fn pool(name: &str, buys: &[&str], weight: u32, expires_minutes: Option<u64>) -> Value {
    let only = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let expires = expires_minutes.map_or_else(|| "Never".to_owned(), |minutes| format!("{minutes}m"));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "weight": weight,
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"},
                "requirements": [
                    only("node.kubernetes.io/instance-type", &TYPES),
                    only("karpenter.sh/capacity-type", buys),
                ],
                "expireAfter": expires,
                "terminationGracePeriod": "4m",
            }},
        },
    })
}

/// The pool with so much and no more, for those who tolerate it.
pub(super) fn limited(mut pool: Value, resource: &str, most: u32) -> Value {
    pool["spec"]["limits"] = json!({resource: most.to_string()});
    pool["spec"]["template"]["spec"]["taints"] = json!([{"key": RESERVED, "effect": "NoSchedule"}]);
    pool
}

/// The pool with a label that its nodes are to have.
pub(super) fn labeled(mut pool: Value) -> Value {
    pool["spec"]["template"]["metadata"] = json!({"labels": {"example.com/stage": "trial"}});
    pool
}

/// Spread evenly over zones, whatever it takes.
pub(super) fn web(replicas: u32, millis: u32) -> Value {
    let mut pod = pod("web", &format!("{millis}m"));
    pod["topologySpreadConstraints"] = json!([spread("web", ZONE, "DoNotSchedule")]);
    workload("Deployment", "web", replicas, &json!({}), &pod)
}

/// Spread over nodes if it can be, and guarded by a budget.
pub(super) fn api(replicas: u32, millis: u32) -> Value {
    let mut pod = pod("api", &format!("{millis}m"));
    pod["topologySpreadConstraints"] = json!([spread("api", HOST, "ScheduleAnyway")]);
    workload("Deployment", "api", replicas, &json!({}), &pod)
}

pub(super) fn api_budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "api", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "api"}}},
    })
}

/// With a volume each, and in some worlds not to be disturbed.
pub(super) fn db(replicas: u32, undisturbed: bool) -> Value {
    let annotations = if undisturbed {
        json!({"karpenter.sh/do-not-disrupt": "true"})
    } else {
        json!({})
    };
    let mut pod = pod("db", "500m");
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let mut set = workload("StatefulSet", "db", replicas, &annotations, &pod);
    set["spec"]["serviceName"] = json!("db");
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }]);
    set
}

/// One on each node, whoever is there already: the scheduler fills a node that is ready before its daemons are there.
pub(super) fn agent() -> Value {
    let mut pod = pod("agent", "100m");
    pod["priorityClassName"] = json!("system-node-critical");
    daemons("agent", &pod)
}

/// One more on each node that has room for it. All others ask for eighths of a processor; beside the agent that leaves 95
/// thousandths of nodes with four, and 85 of those with eight.
pub(super) fn probe(millis: u32) -> Value {
    let mut pod = pod("probe", &format!("{millis}m"));
    pod["containers"][0]["resources"]["requests"]["memory"] = json!("32Mi");
    daemons("probe", &pod)
}

/// Only where the smallest pool buys, which may have less than they ask for.
pub(super) fn picky(replicas: u32) -> Value {
    let mut pod = pod("picky", "1500m");
    pod["nodeSelector"] = json!({NODE_POOL: "small"});
    pod["tolerations"] = json!([{"key": RESERVED, "operator": "Exists"}]);
    workload("Deployment", "picky", replicas, &json!({}), &pod)
}

/// Each on a node of its own.
pub(super) fn loner(replicas: u32) -> Value {
    let mut pod = pod("loner", "250m");
    pod["affinity"] = json!({"podAntiAffinity": required("loner", HOST)});
    workload("Deployment", "loner", replicas, &json!({}), &pod)
}

/// Only in a zone where one of `api` is.
pub(super) fn friend(replicas: u32) -> Value {
    let mut pod = pod("friend", "250m");
    pod["affinity"] = json!({"podAffinity": required("api", ZONE)});
    workload("Deployment", "friend", replicas, &json!({}), &pod)
}

/// Each wants the same port of its node.
pub(super) fn gate(replicas: u32) -> Value {
    let mut pod = pod("gate", "250m");
    pod["containers"][0]["ports"] = json!([{"containerPort": 8443, "hostPort": 8443}]);
    workload("Deployment", "gate", replicas, &json!({}), &pod)
}

/// One pod that nobody is to disturb.
pub(super) fn hermit() -> Value {
    let annotations = json!({"karpenter.sh/do-not-disrupt": "true"});
    workload("Deployment", "hermit", 1, &annotations, &pod("hermit", "500m"))
}

/// A pod that no machine has room for: nobody else may wait for its sake.
pub(super) fn giant() -> Value {
    let mut giant = workload("Deployment", "giant", 1, &json!({}), &pod("giant", "500"));
    giant["spec"]["template"]["metadata"]["labels"]["hopeless"] = json!("yes");
    giant
}

/// A claim of a class that is not there: nobody else may wait for its sake either.
pub(super) fn stray() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "stray"},
        "spec": {
            "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "nowhere"},
            "requirements": [],
        },
    })
}

fn spread(app: &str, over: &str, otherwise: &str) -> Value {
    json!({
        "maxSkew": 1, "topologyKey": over, "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"app": app}},
    })
}

fn required(app: &str, over: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": over, "labelSelector": {"matchLabels": {"app": app}}},
    ]})
}

fn pod(app: &str, cpu: &str) -> Value {
    json!({"containers": [{
        "name": app, "image": format!("{app}:1"), "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}},
    }]})
}

/// One pod on each node.
fn daemons(app: &str, pod: &Value) -> Value {
    let mut set = workload("DaemonSet", app, 0, &json!({}), pod);
    if let Some(spec) = set["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    set
}

fn workload(kind: &str, app: &str, replicas: u32, annotations: &Value, pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": pod},
        },
    })
}
