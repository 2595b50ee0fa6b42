//! A client with kube's retry policy comes back when it is told to; one without reports what it was told.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_ibm::sim::kube::identity::User;
use kube::api::{Api, EvictParams, Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

use super::server;

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_forbids_is_retried_until_the_budget_allows_it() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.admin());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.admin());
    let container = json!({"name": "c", "image": "i"});
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": {"containers": [container]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(&running))
        .await
        .unwrap();
    let selector = json!({"matchLabels": {"app": "a"}});
    let budget = json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": 0, "selector": selector}});
    let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let allow = |allowed: i32| {
        json!({"status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1 - allowed,
                          "expectedPods": 1, "observedGeneration": 1}})
    };
    let allowed = async |count| {
        let patch = Patch::Merge(allow(count));
        budgets
            .patch_status("b", &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    allowed(0).await;

    let refused = pods.evict("p", &EvictParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 429),
        "{refused}"
    );

    let patient: Api<Pod> = Api::default_namespaced(server.retrying_client_as(User::admin()));
    let evicted = tokio::spawn(async move { patient.evict("p", &EvictParams::default()).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!evicted.is_finished());
    allowed(1).await;
    evicted.await.unwrap().unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}
