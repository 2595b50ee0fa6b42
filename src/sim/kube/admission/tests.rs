use serde_json::{Value, json};

use crate::sim::kube::trial::{Trial, pod, why};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test(start_paused = true)]
async fn a_new_pod_gets_an_account_a_token_a_priority_and_tolerations() {
    let trial = Trial::new();
    let made = trial.create(PODS, pod("p")).await;
    let spec = &made["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(
        volume.starts_with("kube-api-access-") && volume.len() == 21,
        "{volume}"
    );
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
    assert_eq!(
        (&spec["priority"], &spec["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_pod_refers_to_must_be_there() {
    let trial = Trial::new();
    for (field, value) in [
        ("serviceAccountName", "missing"),
        ("priorityClassName", "missing"),
        ("runtimeClassName", "missing"),
    ] {
        let mut object = pod("p");
        object["spec"][field] = value.into();
        let (code, answer) = trial.send("POST", PODS, object).await;
        assert_eq!((code, why(&answer).0.as_str()), (403, "Forbidden"), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_class_decides_the_priority() {
    let trial = Trial::new();
    let mut object = pod("p");
    object["spec"]["priorityClassName"] = "system-node-critical".into();
    let made = trial.create(PODS, object).await;
    assert_eq!(made["spec"]["priority"], 2_000_001_000);
    let mut contradicting = pod("q");
    contradicting["spec"]["priority"] = 7.into();
    assert_eq!(trial.send("POST", PODS, contradicting).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_tainted_until_it_is_ready() {
    let trial = Trial::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let mut made = trial.create("/api/v1/nodes", node).await;
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(made["spec"]["taints"], json!([taint]));
    made["spec"]["taints"] = Value::Null;
    let untainted = trial.put("/api/v1/nodes/n", made).await;
    assert!(untainted["spec"].get("taints").is_none());
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_of_their_own_and_keep_them() {
    let trial = Trial::new();
    let service = |name: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let (a, b) = (
        trial.create(SERVICES, service("a")).await,
        trial.create(SERVICES, service("b")).await,
    );
    assert_ne!(a["spec"]["clusterIP"], b["spec"]["clusterIP"]);
    // Not even a lower one that is free again is better than one's own.
    trial.delete(&format!("{SERVICES}/a")).await;
    let again = trial.put(&format!("{SERVICES}/b"), service("b")).await;
    assert_eq!(again["spec"]["clusterIP"], b["spec"]["clusterIP"]);
    let mut taken = service("c");
    taken["spec"]["clusterIP"] = b["spec"]["clusterIP"].clone();
    assert_eq!(trial.send("POST", SERVICES, taken).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_default_class_and_a_finalizer() {
    let trial = Trial::new();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x.y", "metadata": {
        "name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    trial
        .create("/apis/storage.k8s.io/v1/storageclasses", class)
        .await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = trial
        .create("/api/v1/namespaces/default/persistentvolumeclaims", claim)
        .await;
    assert_eq!(made["spec"]["storageClassName"], "fast");
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_must_be_there_and_some_never_go() {
    let trial = Trial::new();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (code, answer) = trial
        .send("POST", "/api/v1/namespaces/missing/configmaps", map)
        .await;
    assert_eq!((code, &answer["details"]["kind"]), (404, &json!("namespaces")));
    assert_eq!(trial.delete("/api/v1/namespaces/kube-system").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_or_refused_and_wrong_types_always_refused() {
    let trial = Trial::new();
    let mut object = pod("p");
    object["spec"]["foo"] = 1.into();
    let strict = format!("{PODS}?fieldValidation=Strict");
    assert_eq!(trial.send("POST", &strict, object.clone()).await.0, 400);
    assert!(trial.create(PODS, object).await["spec"].get("foo").is_none());
    let mut wrong = pod("q");
    wrong["spec"]["terminationGracePeriodSeconds"] = "30".into();
    assert_eq!(trial.send("POST", PODS, wrong).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_says_the_same_in_other_words_changes_nothing() {
    let trial = Trial::new();
    let made = trial.create(PODS, pod("p")).await;
    let mut again = made.clone();
    again["spec"]["hostNetwork"] = false.into();
    again["spec"]["nodeSelector"] = json!({});
    let kept = trial.put(&format!("{PODS}/p"), again).await;
    assert_eq!(
        kept["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
}
