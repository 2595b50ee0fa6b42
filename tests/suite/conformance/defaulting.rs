//! Defaults: the least that can be said of each kind, and what becomes of it.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, budget, config, deployment, lease, node, pod};

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
}

fn workload(kind: &str) -> Value {
    json!({"metadata": {"name": format!("{}-a", kind.to_lowercase())}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template()}})
}

/// What the product reads or writes, by the path of its collection. Nothing is stored, so nothing acts on it.
fn minimal() -> Vec<(&'static str, Value)> {
    let named = json!({"metadata": {"name": "$ns-a"}});
    vec![
        ("configmaps", config("a")),
        ("secrets", json!({"metadata": {"name": "a"}})),
        ("secrets", json!({"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}})),
        ("serviceaccounts", named.clone()),
        ("namespaces", named.clone()),
        ("nodes", node("a")),
        ("leases", lease("a")),
        ("pods", pod("a")),
        ("services", json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})),
        ("services", json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})),
        ("services", json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "example.com"}})),
        ("services", json!({"metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": "http", "name": "a"}, {"port": 81, "protocol": "UDP", "name": "b"}]}})),
        ("endpointslices", json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]})),
        ("deployments", workload("Deployment")),
        ("deployments", deployment("b")),
        ("replicasets", workload("ReplicaSet")),
        ("statefulsets", workload("StatefulSet").with("spec/serviceName", json!("s"))),
        ("statefulsets", workload("StatefulSet").with("spec/volumeClaimTemplates", json!([{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]))),
        ("daemonsets", workload("DaemonSet")),
        ("jobs", json!({"metadata": {"name": "a"}, "spec": {"template": template().with("spec/restartPolicy", json!("Never"))}})),
        ("cronjobs", json!({"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template().with("spec/restartPolicy", json!("Never"))}}}})),
        ("poddisruptionbudgets", budget("a", "x")),
        ("priorityclasses", named.clone().with("value", json!(5))),
        ("storageclasses", named.clone().with("provisioner", json!("p"))),
        ("persistentvolumes", named.clone().with("spec", json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}))),
        ("persistentvolumeclaims", json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})),
        ("csinodes", named.clone().with("spec/drivers", json!([]))),
        ("csidrivers", named.clone().with("spec", json!({}))),
        ("volumeattachments", named.clone().with("spec", json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}))),
        ("roles", json!({"metadata": {"name": "a"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})),
        ("rolebindings", json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]})),
        ("clusterroles", named.clone()),
        ("clusterrolebindings", named.clone().with("roleRef", json!({"kind": "ClusterRole", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}))),
        ("resourcequotas", json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "1"}}})),
        ("limitranges", json!({"metadata": {"name": "a"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}})),
        ("runtimeclasses", named.clone().with("handler", json!("h"))),
        ("validatingwebhookconfigurations", named.clone().with("webhooks", json!([{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}]))),
        ("mutatingwebhookconfigurations", named.with("webhooks", json!([{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://127.0.0.1:1/x"}}]))),
        ("events", json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "namespace": "$ns", "name": "a"}, "reason": "R", "message": "m"})),
    ]
}

#[tokio::test]
async fn every_kind_is_completed_alike() {
    let mut lab = Lab::open("defaulting").await;
    for (plural, object) in minimal() {
        lab.post(&format!("{plural}?dryRun=All"), &object).is("201").await;
    }
}

/// Parts of a pod's spec that bring defaults of their own.
fn pod_specs() -> Vec<Value> {
    let main = |more: Value| json!({"containers": [more.with("name", json!("main")).with("image", json!("none:1"))]});
    let probe = json!({"httpGet": {"port": 80}});
    vec![
        main(json!({"ports": [{"containerPort": 80}]})),
        main(json!({"livenessProbe": probe, "readinessProbe": {"tcpSocket": {"port": 80}}, "startupProbe": {"exec": {"command": ["a"]}}})),
        main(json!({"lifecycle": {"preStop": {"httpGet": {"port": "http", "path": "/x"}}}})),
        main(json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})),
        main(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"memory": "64Mi"}}})),
        main(json!({"resources": {"limits": {"cpu": "0.5", "memory": "1073741824"}, "requests": {"cpu": "500m", "memory": "1Gi"}}})),
        main(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})),
        main(json!({"image": "none:latest"})),
        main(json!({"securityContext": {"runAsUser": 5}})),
        main(json!({})).with("hostNetwork", json!(true)).with("containers/0/ports", json!([{"containerPort": 80}])),
        main(json!({})).with("restartPolicy", json!("Never")).with("terminationGracePeriodSeconds", json!(0)),
        main(json!({})).with("initContainers", json!([{"name": "i", "image": "none"}, {"name": "s", "image": "none", "restartPolicy": "Always"}])),
        main(json!({})).with("volumes", json!([
            {"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}, {"name": "c", "secret": {"secretName": "s"}},
            {"name": "d", "hostPath": {"path": "/x"}}, {"name": "e", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "f", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}]}},
            {"name": "g", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "h"}])),
        main(json!({})).with("volumes", json!([{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}])),
        main(json!({})).with("serviceAccountName", json!("default")).with("automountServiceAccountToken", json!(false)),
        main(json!({})).with("tolerations", json!([{"key": "a", "operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])),
        main(json!({})).with("affinity", json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}})),
        main(json!({})).with("affinity", json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t", "labelSelector": {"matchLabels": {"a": "b"}}}]}})),
        main(json!({})).with("topologySpreadConstraints", json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}}}])),
        main(json!({})).with("priorityClassName", json!("system-cluster-critical")),
        main(json!({})).with("overhead", json!({"cpu": "1"})),
        main(json!({})).with("preemptionPolicy", json!("Never")),
        main(json!({})).with("priority", json!(7)),
    ]
}

#[tokio::test]
async fn every_part_of_a_pod_is_completed_alike() {
    let mut lab = Lab::open("defaulting").await;
    for spec in pod_specs() {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec});
        lab.post("pods?dryRun=All", &pod).compare().await;
    }
}
