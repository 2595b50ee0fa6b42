//! What a kubelet may read and write: the Node authorizer and NodeRestriction, by table.

use serde_json::{Value, json};

use super::{ACCOUNTS, Cluster, PODS, pod, token_request};
use crate::sim::kube::identity::User;
use crate::sim::kube::write::insert;

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const DEFAULT: &str = "/api/v1/namespaces/default";

/// Something done to an object.
type Change = fn(&mut Value);

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}})
}

/// Nodes `a` and `b` with a pod each, and objects that the pods mention or do not.
async fn furnished() -> Cluster {
    let cluster = Cluster::new();
    for (name, pod_name) in [("a", "on-a"), ("b", "on-b")] {
        cluster.admin("POST", NODES, node(name)).await;
        cluster.admin("POST", PODS, pod(pod_name, name)).await;
        cluster.admin("POST", LEASES, lease(name)).await;
    }
    for name in ["mentioned", "other", "of-volume"] {
        for kind in ["Secret", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount"] {
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            if kind == "PersistentVolumeClaim" {
                object["spec"] = json!({"accessModes": ["ReadWriteOnce"],
                                        "resources": {"requests": {"storage": "1Gi"}}});
            }
            let path = format!("{DEFAULT}/{}s", kind.to_lowercase());
            cluster.admin("POST", &path, object).await;
        }
        let secret = json!({"namespace": "default", "name": "of-volume"});
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                     "claimRef": {"namespace": "default", "name": name},
                                     "csi": {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": secret}}});
        cluster.admin("POST", "/api/v1/persistentvolumes", volume).await;
        let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
                                "spec": {"attacher": "d", "source": {"persistentVolumeName": name},
                                         "nodeName": if name == "mentioned" { "a" } else { "b" }}});
        cluster
            .admin("POST", "/apis/storage.k8s.io/v1/volumeattachments", attachment)
            .await;
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_reads_itself_its_pods_and_what_they_mention() {
    let cluster = furnished().await;
    let table = [
        (format!("{NODES}/a"), true),
        (format!("{NODES}/b"), false),
        (NODES.to_owned(), false),
        (format!("{NODES}?fieldSelector=metadata.name%3Da"), true),
        (format!("{PODS}/on-a"), true),
        (format!("{PODS}/on-b"), false),
        (PODS.to_owned(), false),
        (format!("{PODS}?fieldSelector=spec.nodeName%3Da"), true),
        (format!("{PODS}?fieldSelector=spec.nodeName%3Db"), false),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Da".to_owned(), true),
        (format!("{DEFAULT}/secrets/mentioned"), true),
        (format!("{DEFAULT}/secrets/other"), false),
        (format!("{DEFAULT}/secrets/of-volume"), true),
        (format!("{DEFAULT}/secrets"), false),
        (
            "/api/v1/namespaces/kube-system/secrets/mentioned".to_owned(),
            false,
        ),
        (format!("{DEFAULT}/configmaps/mentioned"), true),
        (format!("{DEFAULT}/configmaps/other"), false),
        (format!("{DEFAULT}/persistentvolumeclaims/mentioned"), true),
        (format!("{DEFAULT}/persistentvolumeclaims/other"), false),
        ("/api/v1/persistentvolumes/mentioned".to_owned(), true),
        ("/api/v1/persistentvolumes/other".to_owned(), false),
        (
            "/apis/storage.k8s.io/v1/volumeattachments/mentioned".to_owned(),
            true,
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments/other".to_owned(),
            false,
        ),
        (format!("{ACCOUNTS}/default"), true),
        (format!("{ACCOUNTS}/other"), false),
        (format!("{LEASES}/a"), true),
        (format!("{LEASES}/b"), false),
        (LEASES.to_owned(), false),
        ("/api/v1/services".to_owned(), true),
        ("/api/v1/namespaces".to_owned(), false),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
            true,
        ),
    ];
    for (path, allowed) in table {
        let (status, answer) = cluster.ask(&User::node("a"), "GET", &path, Value::Null).await;
        assert_eq!(status, if allowed { 200 } else { 403 }, "{path}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_the_kubelet_why() {
    let cluster = furnished().await;
    let path = format!("{DEFAULT}/secrets/other");
    let (_, answer) = cluster.ask(&User::node("a"), "GET", &path, Value::Null).await;
    assert_eq!(
        answer["message"],
        "secrets \"other\" is forbidden: User \"system:node:a\" cannot get resource \"secrets\" in API group \"\" in the \
         namespace \"default\": no relationship found between node 'a' and this object"
    );
}

#[tokio::test(start_paused = true)]
async fn a_mirror_pod_gives_access_to_nothing() {
    let cluster = furnished().await;
    let path = format!("{DEFAULT}/secrets/mentioned");
    cluster
        .admin(
            "DELETE",
            &format!("{PODS}/on-a?gracePeriodSeconds=0"),
            Value::Null,
        )
        .await;
    let mut mirror = pod("mirror", "a");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["metadata"]["namespace"] = json!("default");
    // Past admission, which refuses such a pod: there may be one from before.
    insert(&cluster.server, mirror);
    let (status, _) = cluster.ask(&User::node("a"), "GET", &path, Value::Null).await;
    assert_eq!(status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_the_name_of_a_kubelet_but_not_in_its_group_is_none() {
    let cluster = furnished().await;
    let impostor = User::named("system:node:a", &["system:authenticated"]);
    let (status, _) = cluster
        .ask(&impostor, "GET", &format!("{NODES}/a"), Value::Null)
        .await;
    assert_eq!(status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_registers_itself_only_and_with_harmless_labels() {
    let labelled = |name: &str, labels: Value| {
        let mut node = node(name);
        node["metadata"]["labels"] = labels;
        node
    };
    let table = [
        (node("a"), true),
        (node("b"), false),
        (
            labelled(
                "a",
                json!({"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}),
            ),
            true,
        ),
        (
            labelled(
                "a",
                json!({"node.kubernetes.io/anything": "x", "team": "y", "example.com/z": "q"}),
            ),
            true,
        ),
        (labelled("a", json!({"karpenter.sh/nodepool": "default"})), true),
        (
            labelled("a", json!({"node-restriction.kubernetes.io/zone": "x"})),
            false,
        ),
        (
            labelled("a", json!({"x.node-restriction.kubernetes.io/zone": "x"})),
            false,
        ),
        (
            labelled("a", json!({"node-role.kubernetes.io/control-plane": ""})),
            false,
        ),
        (labelled("a", json!({"k8s.io/x": ""})), false),
    ];
    for (node, allowed) in table {
        let cluster = Cluster::new();
        let (status, answer) = cluster.ask(&User::node("a"), "POST", NODES, node.clone()).await;
        assert_eq!(status, if allowed { 201 } else { 403 }, "{node}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_cannot_change_what_decides_which_pods_come_to_it() {
    let cluster = furnished().await;
    let tainted = |node: &mut Value| node["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let table: [(&str, &str, Change, u16); 7] = [
        (
            "a",
            "",
            |node| node["metadata"]["annotations"] = json!({"x": "y"}),
            200,
        ),
        (
            "a",
            "",
            |node| node["metadata"]["labels"] = json!({"team": "y"}),
            200,
        ),
        ("a", "", tainted, 403),
        (
            "a",
            "",
            |node| node["metadata"]["labels"] = json!({"team": "y", "node-role.kubernetes.io/x": ""}),
            403,
        ),
        (
            "a",
            "",
            |node| {
                node["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "u"}]);
            },
            403,
        ),
        (
            "a",
            "/status",
            |node| node["status"] = json!({"phase": "Running"}),
            200,
        ),
        (
            "b",
            "/status",
            |node| node["status"] = json!({"phase": "Running"}),
            403,
        ),
    ];
    for (name, subresource, change, expected) in table {
        let path = format!("{NODES}/{name}");
        let mut node = cluster.admin("GET", &path, Value::Null).await;
        change(&mut node);
        let path = format!("{path}{subresource}");
        let (status, answer) = cluster.ask(&User::node("a"), "PUT", &path, node.clone()).await;
        assert_eq!(status, expected, "{node}: {answer}");
    }
    let (status, _) = cluster
        .ask(&User::node("a"), "DELETE", &format!("{NODES}/a"), Value::Null)
        .await;
    assert_eq!(status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_reports_on_evicts_and_ends_its_own_pods_only() {
    let cluster = furnished().await;
    let kubelet = User::node("a");
    for (name, expected) in [("on-a", 200), ("on-b", 403)] {
        let mut pod = cluster.admin("GET", &format!("{PODS}/{name}"), Value::Null).await;
        pod["status"] = json!({"phase": "Running"});
        let path = format!("{PODS}/{name}/status");
        let (status, answer) = cluster.ask(&kubelet, "PUT", &path, pod.clone()).await;
        assert_eq!(status, expected, "{answer}");
        pod["metadata"]["labels"] = json!({"x": "y"});
        pod["metadata"]["resourceVersion"] = Value::Null;
        assert_eq!(cluster.ask(&kubelet, "PUT", &path, pod).await.0, 403);
    }
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "on-b"}});
    let (status, _) = cluster
        .ask(&kubelet, "POST", &format!("{PODS}/on-b/eviction"), eviction)
        .await;
    assert_eq!(status, 403);
    for (name, expected) in [("on-b", 403), ("on-a", 200)] {
        let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
        let (status, answer) = cluster.ask(&kubelet, "DELETE", &path, Value::Null).await;
        assert_eq!(status, expected, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_creates_mirror_pods_of_its_own_only() {
    let cluster = furnished().await;
    let own = cluster.admin("GET", &format!("{NODES}/a"), Value::Null).await;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": own["metadata"]["uid"], "controller": true});
    let good = json!({"apiVersion": "v1", "kind": "Pod",
                      "metadata": {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]},
                      "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "app"}]}});
    let breaks: [(&str, Value); 7] = [
        ("/metadata/annotations", json!({})),
        ("/metadata/ownerReferences", json!([])),
        ("/metadata/ownerReferences/0/uid", json!("other")),
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/metadata/ownerReferences/0/name", json!("b")),
        ("/spec/nodeName", json!("b")),
        (
            "/spec",
            json!({"nodeName": "a", "containers": [], "volumes": [{"name": "v", "secret": {"secretName": "other"}}]}),
        ),
    ];
    for (path, value) in breaks {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let (status, answer) = cluster.ask(&User::node("a"), "POST", PODS, bad).await;
        assert_eq!(status, 403, "{path}: {answer}");
    }
    let (status, answer) = cluster.ask(&User::node("a"), "POST", PODS, good).await;
    assert_eq!(status, 201, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_has_one_lease_and_one_csinode() {
    let cluster = Cluster::new();
    let csi = |name: &str| json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": []}});
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (path, object, expected) in [
        (LEASES, lease("b"), 403),
        (LEASES, lease("a"), 201),
        (elsewhere, lease("a"), 403),
        (CSI_NODES, csi("b"), 403),
        (CSI_NODES, csi("a"), 201),
    ] {
        let (status, answer) = cluster.ask(&User::node("a"), "POST", path, object).await;
        assert_eq!(status, expected, "{path}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_gets_tokens_for_its_pods_and_their_audiences_only() {
    let cluster = furnished().await;
    let uid = async |name: &str| {
        let pod = cluster.admin("GET", &format!("{PODS}/{name}"), Value::Null).await;
        pod["metadata"]["uid"].clone()
    };
    let (own, other) = (uid("on-a").await, uid("on-b").await);
    let bound = |name: &str, uid: &Value, audience: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        json!({"boundObjectRef": object, "audiences": [audience]})
    };
    for (spec, expected) in [
        (bound("on-a", &own, "vault"), 201),
        (bound("on-a", &own, "else"), 403),
        (bound("on-a", &json!("wrong"), "vault"), 403),
        (bound("on-a", &Value::Null, "vault"), 403),
        (bound("on-b", &other, "vault"), 403),
        (json!({}), 403),
    ] {
        let path = format!("{ACCOUNTS}/default/token");
        let (status, answer) = cluster
            .ask(&User::node("a"), "POST", &path, token_request(&spec))
            .await;
        assert_eq!(status, expected, "{spec}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_without_an_audience_is_for_a_volume_without_one() {
    let cluster = furnished().await;
    let mut plain = pod("plain", "a");
    plain["spec"]["volumes"] =
        json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    let plain = cluster.admin("POST", PODS, plain).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "plain", "uid": plain["metadata"]["uid"]});
    let path = format!("{ACCOUNTS}/default/token");
    let request = token_request(&json!({"boundObjectRef": bound}));
    let (status, answer) = cluster.ask(&User::node("a"), "POST", &path, request).await;
    assert_eq!(status, 201, "{answer}");
}
