use serde_json::json;

use super::super::stage::Stage;
use super::*;
use crate::sim::kube::write;

/// What is blamed when it is looked at every ten seconds for so long.
async fn looked_for(stage: &mut Stage, seconds: u64) -> Vec<&'static str> {
    for _ in 0..seconds / 10 {
        stage.looks();
        stage.pass(10).await;
    }
    stage.looks();
    let mut blamed = stage.blamed();
    blamed.retain(|id| id.starts_with('L'));
    blamed
}

const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_gone_within_five_minutes() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    stage.machine(&stage.name_of(&uid)).await;
    stage.delete("a").await;
    stage.release("a").await;
    assert_eq!(looked_for(&mut stage, 300).await, NOTHING);
    assert_eq!(looked_for(&mut stage, 10).await, ["L2"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_has_its_grace_the_clouds_time_and_a_little_more() {
    let mut stage = Stage::new().await;
    stage.claim("a").await;
    stage.delete("a").await;
    assert_eq!(looked_for(&mut stage, 260).await, NOTHING);
    assert_eq!(looked_for(&mut stage, 20).await, ["L3"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nothing_holds_is_left_as_soon_as_its_pods_can() {
    for held in ["nothing", "budget", "wish"] {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        write::insert(
            &stage.server,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
        );
        let mut there = pod("web", &json!({}));
        there["spec"]["nodeName"] = json!("a");
        there["spec"]["terminationGracePeriodSeconds"] = json!(50);
        there["status"] = json!({"phase": "Running"});
        if held == "wish" {
            there["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: "true"});
        }
        write::insert(&stage.server, there);
        if held == "budget" {
            write::insert(
                &stage.server,
                json!({
                    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                    "metadata": {"name": "web", "namespace": "default"}, "spec": {"maxUnavailable": 0},
                }),
            );
        }
        stage.delete("a").await;
        assert_eq!(looked_for(&mut stage, 310).await, NOTHING, "{held}");
        let blamed: &[&str] = if held == "nothing" { &["L3"] } else { &NOTHING };
        assert_eq!(looked_for(&mut stage, 20).await, blamed, "{held}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_pool_is_open_to_runs_as_soon_as_a_machine_can() {
    let mut stage = Stage::new().await;
    add_pool_and_pod(&stage);
    assert_eq!(looked_for(&mut stage, 340).await, NOTHING);
    assert_eq!(looked_for(&mut stage, 20).await, ["L1"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_was_in_use_on_a_node_that_went_waits_until_it_is_taken_off() {
    for (attached_to, seconds) in [("gone", 710), ("nowhere", 340)] {
        let mut stage = Stage::new().await;
        add_pool(&stage);
        add_claim_to_a_volume(&stage, attached_to);
        let mut waits = pod("shop", &json!({}));
        waits["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        write::insert(&stage.server, waits);
        assert_eq!(looked_for(&mut stage, seconds).await, NOTHING, "{attached_to}");
        assert_eq!(looked_for(&mut stage, 20).await, ["L1"], "{attached_to}");
    }
}

/// A claim in the name of `data` whose volume is attached to a node, or to none.
fn add_claim_to_a_volume(stage: &Stage, attached_to: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"volumeName": "disk"},
    });
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "d", "nodeName": attached_to, "source": {"persistentVolumeName": "disk"}},
    });
    write::insert(&stage.server, claim);
    if attached_to != "nowhere" {
        write::insert(&stage.server, attachment);
    }
}

fn add_pool_and_pod(stage: &Stage) {
    add_pool(stage);
    write::insert(&stage.server, pod("a", &json!({})));
}

fn add_pool(stage: &Stage) {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {
            "requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "d"},
        }}},
    });
    write::insert(&stage.server, pool);
}

fn pod(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "a", "image": "a"}]}, "status": {"phase": "Pending"},
    })
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_beside_a_bad_object_is_kept_waiting_by_it() {
    let mut stage = Stage::new().await;
    add_pool_and_pod(&stage);
    write::insert(&stage.server, pod("giant", &json!({"hopeless": "yes"})));
    assert_eq!(looked_for(&mut stage, 340).await, NOTHING);
    assert_eq!(looked_for(&mut stage, 20).await, ["L1", "L9"]);
    // And a machine that stays.
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    stage.machine(&stage.name_of(&uid)).await;
    stage.delete("a").await;
    stage.release("a").await;
    stage.claim("of-no-class").await;
    assert_eq!(looked_for(&mut stage, 300).await, NOTHING);
    assert_eq!(looked_for(&mut stage, 10).await, ["L2", "L9"]);
}

/// The last word about the pod.
fn tell(stage: &Stage, message: &str) {
    let name = format!("a.{}", message.len());
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "uid": stage.uid_of_pod("a")}, "reason": "FailedScheduling",
            "message": message, "source": {"component": "karpenter-ibm"},
        }),
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_for_what_is_withheld_no_more_was_forgotten() {
    let withheld = "bxf-2x8 in us-south-1 as spot is withheld until 2026-11-16T10:03:00Z: Shortage";
    for (words, until, blamed) in [
        (&[withheld][..], "2026-11-16T10:03:00Z", &["L1", "L8"][..]),
        (&[withheld], "2026-11-16T10:55:00Z", &["L1"]),
        (
            &[withheld, "no instance type has all of it"],
            "2026-11-16T10:03:00Z",
            &["L1"],
        ),
    ] {
        let mut stage = Stage::new().await;
        add_pool_and_pod(&stage);
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "spot.all"},
                "spec": {"key": "spot:*:*", "reason": "Quota", "since": "2026-11-16T10:00:00Z", "until": until},
            }),
        );
        for word in words {
            tell(&stage, word);
        }
        assert_eq!(looked_for(&mut stage, 340).await, NOTHING);
        assert_eq!(looked_for(&mut stage, 20).await, blamed, "{words:?} {until}");
    }
}

#[test]
fn a_machine_that_was_ordered_under_faults_keeps_its_pods_until_it_joins_or_is_given_up() {
    let pod = json!({"metadata": {"uid": "p"}});
    let healed = "2026-11-16T10:00:00Z".parse().unwrap();
    let is_held = |made: &str, registered: &str| {
        let claim = json!({
            "metadata": {"annotations": {NOMINATED_PODS: "o,p"}, "creationTimestamp": made},
            "status": {"conditions": [{"type": NODE_REGISTERED, "status": registered}]},
        });
        is_held(&pod, &[claim], healed)
    };
    assert!(is_held("2026-11-16T09:59:00Z", "Unknown"));
    assert!(!is_held("2026-11-16T09:59:00Z", "True"));
    assert!(!is_held("2026-11-16T10:01:00Z", "Unknown"));
}

#[test]
fn a_machine_that_is_on_its_way_also_keeps_those_who_are_spread_with_its_pods() {
    let healed = "2026-11-16T10:00:00Z".parse().unwrap();
    let claim = json!({"metadata": {
        "annotations": {NOMINATED_PODS: "p"}, "creationTimestamp": "2026-11-16T09:59:00Z",
    }});
    let pod = |uid: &str, owner: &str, otherwise: &str| {
        json!({
            "metadata": {"uid": uid, "ownerReferences": [{"uid": owner}]},
            "spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": otherwise}]},
        })
    };
    let waiting = vec![
        pod("p", "web", "DoNotSchedule"),
        pod("beside", "web", "DoNotSchedule"),
        pod("anywhere", "web", "ScheduleAnyway"),
        pod("other", "db", "DoNotSchedule"),
    ];
    let blamed = |claims: &[Value]| -> Vec<String> {
        let unkept = unkept(waiting.clone(), claims, healed);
        unkept.iter().map(|pod| object::uid(pod).to_owned()).collect()
    };
    assert_eq!(blamed(&[claim]), ["anywhere", "other"]);
    assert_eq!(blamed(&[]), ["p", "beside", "anywhere", "other"]);
}
