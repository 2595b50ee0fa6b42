use http::Method;
use serde_json::json;

use super::super::stage::Stage;
use super::*;
use crate::api::names::{NODE_REGISTERED, NOMINATED_PODS};
use crate::sim::history::Who;
use crate::sim::ibm::HostFailure;
use crate::sim::kube::watching::{Delivery, Who as Watcher};
use crate::sim::kube::write;

/// A spot machine that has joined, and a pod on it.
async fn joined() -> Stage {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    stage.spot_machine(&stage.name_of(&uid)).await;
    stage.pass(200).await;
    stage.conditions("a", &[(NODE_REGISTERED, "True", 1)]).await;
    node(&mut stage, &json!([]), "kubelet is posting ready status");
    pod(&mut stage, "shop-1", Some("a"));
    stage
}

fn node(stage: &mut Stage, taints: &Value, says: &str) {
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True", "message": says}]},
        }),
    );
    stage.look();
}

/// A pod of an owner that is there, or it would be collected.
fn pod(stage: &mut Stage, name: &str, on: Option<&str>) {
    let owner = stage.uid_of_claim("a");
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default",
                "ownerReferences": [
                    {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": owner},
                ],
            },
            "spec": {"nodeName": on, "containers": []},
        }),
    );
    stage.look();
}

fn pool(stage: &Stage) {
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
            "spec": {"template": {"spec": {"requirements": []}}},
        }),
    );
}

fn taint() -> Value {
    json!([{"key": DISRUPTED_TAINT, "effect": "NoSchedule"}])
}

/// Whether the replacement came too late. What else a stage lacks is not asked here.
fn is_late(stage: &Stage) -> bool {
    stage.blamed().contains(&"L5")
}

async fn taken_back(stage: &mut Stage) {
    let name = stage.cloud.instances()[0].name.clone();
    stage.cloud.preempt(&name).unwrap();
    stage.pass(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_taken_back_is_given_up_within_a_poll() {
    for given_up in [true, false] {
        let mut stage = joined().await;
        taken_back(&mut stage).await;
        stage.pass(50).await;
        if given_up {
            node(&mut stage, &taint(), "");
        }
        stage.pass(15).await;
        assert_eq!(is_late(&stage), !given_up);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_came_back_after_its_host_had_failed_is_taken_back_like_any_other() {
    let mut stage = joined().await;
    let machine = stage.cloud.instances()[0].clone();
    stage
        .cloud
        .fail_host(&machine.name, Some(HostFailure::Stop))
        .unwrap();
    stage.pass(2).await;
    let actions = format!("/v1/instances/{}/actions", machine.id);
    stage
        .cloud_says(Method::POST, &actions, r#"{"type":"start"}"#)
        .await;
    stage.pass(200).await;
    assert!(!is_late(&stage), "that was no preemption");
    taken_back(&mut stage).await;
    stage.pass(50).await;
    stage.pass(15).await;
    assert!(is_late(&stage));
}

#[tokio::test(start_paused = true)]
async fn and_within_fifteen_seconds_of_its_own_word() {
    let mut stage = joined().await;
    taken_back(&mut stage).await;
    node(&mut stage, &json!([]), SHUTTING_DOWN);
    stage.pass(2).await;
    stage.pass(17).await;
    assert!(is_late(&stage));
}

/// Lets so many seconds pass in steps, as the judge looks every now and then.
async fn pass(stage: &mut Stage, seconds: u64) {
    for _ in 0..seconds / 5 {
        stage.pass(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_something_else_went_wrong_it_is_due_when_that_is_over() {
    for given_up in [true, false] {
        let mut stage = joined().await;
        taken_back(&mut stage).await;
        stage.struck("k4-slow", "");
        pass(&mut stage, 60).await;
        stage.turns(0, "crashed after effect 1");
        pass(&mut stage, 180).await;
        assert!(!is_late(&stage), "two minutes to recover, and a poll");
        if given_up {
            node(&mut stage, &taint(), "");
        }
        pass(&mut stage, 10).await;
        assert_eq!(is_late(&stage), !given_up);
    }
}

#[tokio::test(start_paused = true)]
async fn what_hides_nothing_and_hinders_nobody_excuses_nobody() {
    for fault in [
        "c14-tag-fails",
        "c15-price-missing",
        "c17-foreign-machine",
        "n3-ready-flaps",
        "c10-preemption",
        "c10-preemption-deletes",
        "k11-duplicates",
    ] {
        let mut stage = joined().await;
        taken_back(&mut stage).await;
        for _ in 0..13 {
            stage.struck(fault, "");
            stage.pass(5).await;
        }
        assert!(is_late(&stage), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_watches_keep_back_excuses_until_they_do_so_no_longer() {
    let mut stage = joined().await;
    let late = Delivery::Late(Duration::from_secs(30));
    let rule = stage.server.watching().deliver(Watcher::everyone(), late);
    stage.struck("k8-lag", "nodes");
    taken_back(&mut stage).await;
    pass(&mut stage, 600).await;
    assert!(!is_late(&stage));
    stage.server.watching().lift(rule);
    pass(&mut stage, 180).await;
    assert!(!is_late(&stage), "two minutes to recover, and a poll");
    pass(&mut stage, 10).await;
    assert!(is_late(&stage));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_told_to_be_over_lasts_until_healing() {
    let mut stage = joined().await;
    stage.struck("k15-skew", "+60 s for replica 0");
    taken_back(&mut stage).await;
    stage.struck("k4-slow", "");
    pass(&mut stage, 600).await;
    assert!(!is_late(&stage));
    stage.happens(Who::World, What::Turn("healing".to_owned()));
    pass(&mut stage, 180).await;
    assert!(!is_late(&stage));
    pass(&mut stage, 10).await;
    assert!(is_late(&stage));
}

#[tokio::test(start_paused = true)]
async fn where_something_else_left_nothing_to_buy_nobody_need_have_a_claim() {
    for (reason, excuses) in [
        ("Quota", true),
        ("Shortage", true),
        ("Preempted", false),
        ("Stopping", false),
    ] {
        let mut stage = joined().await;
        pool(&stage);
        taken_back(&mut stage).await;
        stage.struck("c8-quota-refused", "instances.create");
        node(&mut stage, &taint(), "");
        pod(&mut stage, "shop-2", None);
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.all"},
                "spec": {"key": "spot:*:*", "reason": reason, "until": "2026-11-16T12:00:00Z"},
            }),
        );
        pass(&mut stage, 210).await;
        assert_eq!(is_late(&stage), !excuses, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_place_of_its_pods_has_a_claim_made_for_it() {
    for (made, gone) in [(true, false), (true, true), (false, false)] {
        let mut stage = joined().await;
        pool(&stage);
        taken_back(&mut stage).await;
        node(&mut stage, &taint(), "");
        pod(&mut stage, "shop-2", None);
        if made {
            let pods = objects(
                &Truth {
                    kube: &stage.server,
                    cloud: &stage.cloud,
                    now: Timestamp::UNIX_EPOCH,
                    since_start: Duration::ZERO,
                },
                "",
                "pods",
            );
            let uid = pods
                .iter()
                .find(|pod| object::name(pod) == "shop-2")
                .map(object::uid);
            stage.claim("b").await;
            let named = json!({"metadata": {"annotations": {NOMINATED_PODS: uid}}});
            stage.patch("b", named).await;
        }
        if gone {
            stage.delete("b").await;
            stage.release("b").await;
        }
        stage.pass(60).await;
        stage.pass(20).await;
        assert_eq!(is_late(&stage), !made);
    }
}
