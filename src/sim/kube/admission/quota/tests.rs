//! Quotas, through the whole server.

use serde_json::{Value, json};

use crate::sim::kube::trial::{Trial, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn trial_with(hard: Value) -> Trial {
    let trial = Trial::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    trial.create(QUOTAS, quota).await;
    trial
}

async fn used(trial: &Trial) -> Value {
    trial.get(&format!("{QUOTAS}/q")).await.1["status"]["used"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_counted_as_it_comes_and_goes() {
    let trial =
        trial_with(json!({"pods": "2", "count/deployments.apps": "1", "services.nodeports": "3"})).await;
    assert_eq!(
        used(&trial).await,
        json!({"pods": "0", "count/deployments.apps": "0", "services.nodeports": "0"})
    );
    trial.create(PODS, pod("a")).await;
    assert_eq!(used(&trial).await["pods"], "1");
    trial.delete(&format!("{PODS}/a?gracePeriodSeconds=0")).await;
    assert_eq!(used(&trial).await["pods"], "0");
}

#[tokio::test(start_paused = true)]
async fn more_than_is_left_is_refused() {
    let trial = trial_with(json!({"pods": "1"})).await;
    trial.create(PODS, pod("a")).await;
    let (code, answer) = trial.send("POST", PODS, pod("b")).await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
        "{message}"
    );
    let done = json!({"status": {"phase": "Succeeded"}});
    trial.send("PATCH", &format!("{PODS}/a/status"), done).await;
    trial.create(PODS, pod("b")).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_says_how_much_it_needs_of_what_is_limited() {
    let trial = trial_with(json!({"requests.cpu": "1", "limits.memory": "1Gi"})).await;
    let (code, answer) = trial.send("POST", PODS, pod("a")).await;
    assert_eq!(code, 403);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with("must specify limits.memory for: c; requests.cpu for: c"),
        "{message}"
    );
    let mut modest = pod("a");
    modest["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "600m"}, "limits": {"memory": "1Gi"}});
    trial.create(PODS, modest.clone()).await;
    assert_eq!(
        used(&trial).await,
        json!({"requests.cpu": "600m", "limits.memory": "1Gi"})
    );
    modest["metadata"]["name"] = json!("b");
    assert_eq!(trial.send("POST", PODS, modest).await.0, 403);
}
