use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::*;
use crate::sim::invariants::stage::Stage;
use crate::sim::kube::write;

fn makes(stage: &mut Stage, replica: usize, name: &str, pods: &str) {
    let claim = json!({"metadata": {"name": name, "annotations": {NOMINATED_PODS: pods}}});
    let path = "/apis/karpenter.sh/v1/nodeclaims";
    stage.sends(replica, Edge::Kube, &Method::POST, path, &claim.to_string());
}

async fn made(pods: &str) -> Stage {
    let mut stage = Stage::new().await;
    makes(&mut stage, 0, "a", pods);
    stage.claim("a").await;
    let annotations = json!({"metadata": {"annotations": {NOMINATED_PODS: pods}}});
    stage.patch("a", annotations).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn no_second_claim_is_made_for_a_pod_while_the_first_is_on_its_way() {
    let mut stage = made("1,2").await;
    makes(&mut stage, 0, "b", "3");
    makes(&mut stage, 0, "a", "1,2");
    assert!(stage.blamed().is_empty(), "the same once more is the same");
    makes(&mut stage, 0, "b", "2,3");
    assert_eq!(stage.blamed(), ["L11"]);
}

#[tokio::test(start_paused = true)]
async fn one_more_is_made_by_a_later_plan_and_no_third() {
    let mut stage = made("1").await;
    stage.pass(1).await;
    makes(&mut stage, 0, "b", "1");
    stage.claim("b").await;
    stage
        .patch("b", json!({"metadata": {"annotations": {NOMINATED_PODS: "1"}}}))
        .await;
    assert!(stage.blamed().is_empty(), "pods that came later have its room");
    stage.pass(1).await;
    makes(&mut stage, 0, "c", "1");
    assert_eq!(stage.blamed(), ["L11"]);
}

#[tokio::test(start_paused = true)]
async fn one_is_made_after_the_first_has_come_or_failed() {
    for status in ["True", "False"] {
        let mut stage = made("1").await;
        stage.conditions("a", &[(NODE_INITIALIZED, status, 1)]).await;
        makes(&mut stage, 0, "b", "1");
        assert!(stage.blamed().is_empty(), "{status}");
    }
}

/// What else a stage lacks is not asked here.
fn is_runaway(stage: &Stage) -> bool {
    stage.blamed().contains(&"L11")
}

/// A claim for a pod whose node has come.
async fn came(stage: &mut Stage, name: &str, pod: &str) {
    let uid = stage.claim(name).await;
    let annotations = json!({"metadata": {"annotations": {NOMINATED_PODS: pod}}});
    stage.patch(name, annotations).await;
    stage.machine(&stage.name_of(&uid)).await;
    stage.pass(200).await;
    stage.conditions(name, &[(NODE_INITIALIZED, "True", 1)]).await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    write::insert(&stage.server, node);
    stage.look();
}

#[tokio::test(start_paused = true)]
async fn no_second_is_made_for_a_pod_for_which_one_has_come_in_vain() {
    let mut stage = Stage::new().await;
    came(&mut stage, "a", "1").await;
    makes(&mut stage, 0, "c", "2");
    assert!(!is_runaway(&stage), "another pod");
    makes(&mut stage, 0, "c", "1");
    assert!(is_runaway(&stage));
}

#[tokio::test(start_paused = true)]
async fn one_more_is_made_where_the_machine_had_less_than_promised_and_no_third() {
    let mut stage = Stage::new().await;
    for name in ["a", "b"] {
        came(&mut stage, name, "1").await;
        let machine = stage.name_of(&stage.uid_of_claim(name));
        stage.struck("n2-less-than-promised", &machine);
        assert!(!is_runaway(&stage));
        makes(&mut stage, 0, "c", "1");
    }
    assert!(is_runaway(&stage));
}

#[tokio::test(start_paused = true)]
async fn what_came_in_vain_counts_when_it_is_gone() {
    let mut stage = Stage::new().await;
    came(&mut stage, "a", "1").await;
    stage.delete("a").await;
    stage.release("a").await;
    makes(&mut stage, 0, "c", "2");
    assert!(!is_runaway(&stage), "another pod");
    makes(&mut stage, 0, "c", "1");
    assert!(is_runaway(&stage));
}

#[tokio::test(start_paused = true)]
async fn who_has_had_guests_did_not_come_in_vain_though_they_are_gone() {
    let mut stage = Stage::new().await;
    came(&mut stage, "a", "1").await;
    let pods: Api<Pod> = Api::namespaced(stage.server.admin(), "default");
    let pod = json!({"metadata": {"name": "guest"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let binding = "/api/v1/namespaces/default/pods/guest/binding";
    stage.sends(0, Edge::Kube, &Method::POST, binding, "{}");
    let at_once = kube::api::DeleteParams::default().grace_period(0);
    pods.delete("guest", &at_once).await.unwrap();
    makes(&mut stage, 0, "c", "1");
    assert!(!is_runaway(&stage), "{:?}", stage.judge.violations());
}

#[tokio::test(start_paused = true)]
async fn one_is_made_again_where_somebody_or_something_had_a_hand_in_it() {
    for hand in ["tainted", "taken", "broken"] {
        let mut stage = Stage::new().await;
        came(&mut stage, "b", "1").await;
        match hand {
            "tainted" => stage.struck("k14-add-taint", "nodes/b"),
            "taken" => {
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                    "spec": {"nodeName": "b", "containers": []},
                });
                write::insert(&stage.server, pod);
            }
            _ => {
                let machine = stage.name_of(&stage.uid_of_claim("b"));
                stage.cloud.stop(&machine).unwrap();
                stage.pass(60).await;
            }
        }
        makes(&mut stage, 0, "c", "1");
        assert!(!is_runaway(&stage), "{hand}: {:?}", stage.judge.violations());
    }
}

#[tokio::test(start_paused = true)]
async fn one_is_made_where_other_pods_took_the_room() {
    let mut stage = made("1").await;
    let pods: Api<Pod> = Api::namespaced(stage.server.admin(), "default");
    let pod = json!({"metadata": {"name": "other"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    makes(&mut stage, 0, "b", "1");
    assert!(stage.blamed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_is_made_where_the_pool_of_the_first_goes() {
    let mut stage = made("1").await;
    stage
        .patch("a", json!({"metadata": {"labels": {NODE_POOL: "gone"}}}))
        .await;
    makes(&mut stage, 0, "b", "1");
    assert!(stage.blamed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_leader_may_not_know_of_it_yet() {
    let mut stage = made("1").await;
    makes(&mut stage, 1, "b", "1");
    assert!(stage.blamed().is_empty());
    stage.pass(31).await;
    makes(&mut stage, 1, "c", "1");
    assert!(stage.blamed().is_empty(), "one more");
}
