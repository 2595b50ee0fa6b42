use std::collections::BTreeSet;

use http::Method;
use serde_json::json;

use super::*;
use crate::api::names::{LEADER_LEASE, NODE_POOL, TERMINATION_FINALIZER};
use crate::sim::history::{Edge, Request, What, Who};
use crate::sim::invariants::stage::Stage;
use crate::sim::kube::write;

const INSTANCES: &str = "/v1/instances";

fn hit(stage: &Stage, name: &'static str) -> u64 {
    stage.judge.probes().hits.get(name).copied().unwrap_or_default()
}

fn order(stage: &mut Stage, uid: &str) -> u64 {
    let body =
        json!({"name": stage.name_of(uid), "profile": {"name": "bxf-2x8"}, "zone": {"name": "us-south-1"}});
    stage.sends(0, Edge::Cloud, &Method::POST, INSTANCES, &body.to_string())
}

async fn record(stage: &mut Stage, name: &str, id: Option<&str>) {
    let mut allocation = json!({
        "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "on-demand", "attempt": 1,
        "subnet": "0717-b28a5d3c-6d1c-4a1e-9d7c-0a1b2c3d4e5f", "instanceName": "kib-1", "since": "2026-11-16T10:00:00Z",
    });
    if let Some(id) = id {
        allocation["instanceID"] = json!(id);
    }
    stage
        .patch(name, json!({"status": {"allocation": allocation}}))
        .await;
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = REGISTERED.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), REGISTERED.len());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_machine_that_is_kept_are_recognized() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let number = order(&mut stage, &uid);
    let id = stage.machine(&stage.name_of(&uid)).await;
    stage.hears(0, number, None, "");
    record(&mut stage, "a", None).await;
    stage.turns(0, "crashed after effect 2");
    assert_eq!(hit(&stage, CRASH_BEFORE_RECORD), 1);
    record(&mut stage, "a", Some(&id)).await;
    assert_eq!(hit(&stage, LOST_THEN_ADOPTED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plain_purchase_hits_nothing() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let number = order(&mut stage, &uid);
    let id = stage.machine(&stage.name_of(&uid)).await;
    stage.hears(0, number, Some(201), "{}");
    record(&mut stage, "a", Some(&id)).await;
    stage.pass(60).await;
    assert!(stage.judge.probes().hits.is_empty(), "{:?}", stage.judge.probes());
}

#[tokio::test(start_paused = true)]
async fn what_is_ordered_again_after_it_was_withheld_is_recognized() {
    for (until, hits) in [("2026-11-16T10:03:00Z", 1), ("2026-11-16T10:30:00Z", 0)] {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering",
                "metadata": {"name": "on-demand.bxf-2x8.us-south-1"},
                "spec": {
                    "key": "on-demand:bxf-2x8:us-south-1", "reason": "Shortage", "since": "2026-11-16T10:00:00Z", "until": until,
                },
            }),
        );
        stage.look();
        order(&mut stage, &uid);
        assert_eq!(hit(&stage, OFFERED_AGAIN), 0, "it is withheld");
        stage.pass(200).await;
        order(&mut stage, &uid);
        assert_eq!(hit(&stage, OFFERED_AGAIN), hits, "{until}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_of_an_order_are_told_apart() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let taken = r#"{"errors":[{"code":"validation_unique_failed"}]}"#;
    let number = order(&mut stage, &uid);
    stage.hears(0, number, Some(401), "");
    let number = order(&mut stage, &uid);
    stage.hears(0, number, Some(400), taken);
    assert_eq!((hit(&stage, TOKEN_EXPIRED), hit(&stage, FOREIGN_NAME)), (1, 1));
    stage.machine(&stage.name_of(&uid)).await;
    let number = order(&mut stage, &uid);
    stage.hears(0, number, Some(400), taken);
    assert_eq!((hit(&stage, DUPLICATE_NAME), hit(&stage, FOREIGN_NAME)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn orders_for_what_is_not_to_be_had_are_told_apart() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let says = |code: &str| format!(r#"{{"errors":[{{"code":"{code}"}}]}}"#);
    for (status, code, name) in [
        (400, "over_quota", OVER_QUOTA),
        (400, "subnet_out_of_ip_addresses", NO_ADDRESS),
        (404, "image_not_found", WITHDRAWN),
    ] {
        let number = order(&mut stage, &uid);
        stage.hears(0, number, Some(status), &says(code));
        assert_eq!(hit(&stage, name), 1, "{name}");
    }
    let number = order(&mut stage, &uid);
    stage.hears(0, number, Some(400), &says("bad_field"));
    assert_eq!(stage.judge.probes().hits.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_back_while_its_claim_goes_is_recognized() {
    for goes_first in [true, false] {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.spot_machine(&stage.name_of(&uid)).await;
        stage.pass(200).await;
        if goes_first {
            stage.delete("a").await;
        }
        stage.cloud.preempt(&id).unwrap();
        for _ in 0..2 {
            let number = stage.sends(0, Edge::Cloud, &Method::GET, INSTANCES, "");
            stage.hears(0, number, Some(200), "{}");
        }
        if !goes_first {
            stage.delete("a").await;
            stage.see_cloud();
        }
        assert_eq!(hit(&stage, PREEMPTED_LEAVING), u64::from(goes_first));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_between_order_and_record_is_recognized() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    stage.hold("leader", Some("replica-0")).await;
    stage.hold("leader", Some("")).await;
    assert_eq!(hit(&stage, HANDED_OVER), 0, "nothing was under way");
    stage.hold("leader", Some("replica-0")).await;
    order(&mut stage, &uid);
    stage.hold("leader", Some("")).await;
    assert_eq!((hit(&stage, HANDED_OVER), hit(&stage, LEADER_LOST)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_is_swept_and_a_stranger_that_is_listed_are_recognized() {
    let mut stage = Stage::new().await;
    let orphan = stage
        .machine(&stage.name_of("0d9c8b7a-6f5e-4d3c-8b2a-1908f7e6d5c4"))
        .await;
    let stranger = stage.machine("billing").await;
    let number = stage.sends(0, Edge::Cloud, &Method::GET, INSTANCES, "");
    stage.hears(
        0,
        number,
        Some(200),
        &format!(r#"{{"instances":[{{"id":"{stranger}"}}]}}"#),
    );
    assert_eq!((hit(&stage, FOREIGN_SEEN), hit(&stage, ORPHAN_SWEPT)), (1, 0));
    stage.sends(
        0,
        Edge::Cloud,
        &Method::DELETE,
        &format!("{INSTANCES}/{orphan}"),
        "",
    );
    assert_eq!(hit(&stage, ORPHAN_SWEPT), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_as_asked_is_recognized() {
    let mut stage = Stage::new().await;
    let number = stage.sends(0, Edge::Cloud, &Method::GET, INSTANCES, "");
    stage.hears_again_in(0, number, Some(429), "", Some("3"));
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    stage.see_cloud();
    assert_eq!(hit(&stage, RETRY_AFTER), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_with_nothing_bought_and_a_long_pause_are_recognized() {
    let mut stage = Stage::new().await;
    stage.claim("a").await;
    record(&mut stage, "a", None).await;
    stage.turns(0, "crashed after effect 2");
    assert_eq!(hit(&stage, CRASH_BEFORE_CREATE), 1);
    stage.turns(1, "paused");
    stage.pass(16).await;
    stage.turns(1, "resumed");
    assert_eq!(hit(&stage, PAUSED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_acts_after_its_leases_passed_on_is_recognized_beside_a_lease_that_nobody_holds() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    stage.hold("launches", None).await;
    let renewal = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader";
    let number = stage.sends(0, Edge::Kube, &Method::PUT, renewal, "");
    stage.hold(LEADER_LEASE, Some("replica-0")).await;
    stage.hears(0, number, Some(200), r#"{"spec":{"holderIdentity":"replica-0"}}"#);
    order(&mut stage, &uid);
    assert_eq!(hit(&stage, TWO_LEADERS), 0);
    stage.pass(15).await;
    stage.hold(LEADER_LEASE, Some("replica-1")).await;
    order(&mut stage, &uid);
    assert_eq!(hit(&stage, TWO_LEADERS), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_was_told_of_is_recognized() {
    let mut stage = Stage::new().await;
    let path = "/apis/karpenter.sh/v1/nodeclaims";
    let number = stage.sends(0, Edge::Kube, &Method::GET, path, "");
    stage.hears(0, number, Some(200), "{}");
    stage.claim("a").await;
    stage.delete("a").await;
    stage.release("a").await;
    assert_eq!(hit(&stage, UNSEEN), 1);
    let event = What::Event {
        number: 99,
        kind: "ERROR".to_owned(),
        object: String::new(),
        version: String::new(),
        hash: 0,
    };
    stage.happens(Stage::replica(0), event);
    assert_eq!(hit(&stage, RELISTED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_put_back_is_recognized_and_one_that_is_taken_off_is_not() {
    let mut stage = Stage::new().await;
    stage.claim("a").await;
    let finalizers = |those: &[&str]| json!({"metadata": {"finalizers": those}});
    stage.struck("k14-strip-finalizer", "nodeclaims/a");
    stage.patch("a", finalizers(&[])).await;
    assert_eq!(hit(&stage, FINALIZER_STRIPPED), 0);
    stage.patch("a", finalizers(&[TERMINATION_FINALIZER])).await;
    assert_eq!(hit(&stage, FINALIZER_STRIPPED), 1);
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_a_claim_that_was_forced_out_is_given_back() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let id = stage.machine(&stage.name_of(&uid)).await;
    stage.delete("a").await;
    stage.struck("k14-strip-finalizer", "nodeclaims/a");
    stage.release("a").await;
    assert_eq!(hit(&stage, FINALIZER_STRIPPED), 0);
    stage.sends(0, Edge::Cloud, &Method::DELETE, &format!("{INSTANCES}/{id}"), "");
    assert_eq!(hit(&stage, FINALIZER_STRIPPED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_machine_somebody_deleted_is_given_up() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let name = stage.name_of(&uid);
    stage.machine(&name).await;
    stage.struck("k14-delete-machine", &name);
    assert_eq!(hit(&stage, MACHINE_DELETED), 0);
    stage.delete("a").await;
    assert_eq!(hit(&stage, MACHINE_DELETED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_replaced_another_is_bought_for() {
    let mut stage = Stage::new().await;
    stage.claim("a").await;
    stage.delete("a").await;
    stage.pass(1).await;
    stage.struck("k10-recreated", "nodeclaims/a");
    stage.release("a").await;
    let uid = stage.claim("a").await;
    assert_eq!(hit(&stage, RECREATED), 0);
    stage.machine(&stage.name_of(&uid)).await;
    stage.see_cloud();
    assert_eq!(hit(&stage, RECREATED), 1);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_exactly_is_recognized() {
    for (limit, expected) in [("2", 1), ("3", 0)] {
        let mut stage = Stage::new().await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "small"},
                "spec": {"limits": {"nodes": limit}, "template": {"spec": {}}},
            }),
        );
        let mut last = String::new();
        for name in ["a", "b"] {
            last = stage.claim(name).await;
            let labels = json!({"metadata": {"labels": {NODE_POOL: "small"}}});
            stage.patch(name, labels).await;
            record(&mut stage, name, None).await;
        }
        let stranger = Request {
            number: 1000,
            edge: Edge::Cloud,
            method: Method::POST,
            path: INSTANCES.to_owned(),
            query: String::new(),
            hash: 0,
            body: json!({"name": stage.name_of(&last)}).to_string().into(),
        };
        stage.happens(Who::User, What::Request(stranger));
        assert_eq!(hit(&stage, LIMIT_REACHED), 0, "somebody took its name");
        order(&mut stage, &last);
        assert_eq!(hit(&stage, LIMIT_REACHED), expected, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_purchase_that_a_breaker_holds_back_is_recognized_once() {
    let mut stage = Stage::new().await;
    stage.claim("a").await;
    for (message, hits) in [
        ("NodePool default may have 4 of cpu", 0),
        ("there would be 5 machines, and the limit is 4", 1),
        ("there would be 6 machines, and the limit is 4", 1),
    ] {
        let held = json!({
            "type": "Launched", "status": "Unknown", "reason": "LaunchHeldBack", "message": message,
            "lastTransitionTime": "2026-11-16T10:00:00Z",
        });
        stage.patch("a", json!({"status": {"conditions": [held]}})).await;
        assert_eq!(hit(&stage, BREAKER_HELD), hits, "{message}");
    }
}

/// Replica 0 looks at a machine by its id.
fn looked(stage: &mut Stage, id: &str, status: u16) {
    let path = format!("{INSTANCES}/{id}");
    let number = stage.sends(0, Edge::Cloud, &Method::GET, &path, "");
    stage.hears(0, number, Some(status), &json!({ "id": id }).to_string());
}

#[tokio::test(start_paused = true)]
async fn a_look_that_denies_a_machine_and_one_that_finds_it_are_recognized() {
    let mut stage = Stage::new().await;
    let uid = stage.claim("a").await;
    let id = stage.machine(&stage.name_of(&uid)).await;
    looked(&mut stage, &id, 200);
    assert_eq!(hit(&stage, STALE_VIEW), 0, "nobody doubted it");
    looked(&mut stage, &id, 404);
    looked(&mut stage, &id, 200);
    looked(&mut stage, &id, 200);
    assert_eq!(hit(&stage, STALE_VIEW), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_deletes_after_a_look_that_lied_has_believed_it() {
    for path in ["/v1/instances/ID", "/apis/karpenter.sh/v1/nodeclaims/a"] {
        let mut stage = Stage::new().await;
        let uid = stage.claim("a").await;
        let id = stage.machine(&stage.name_of(&uid)).await;
        looked(&mut stage, &id, 404);
        let edge = if path.starts_with("/v1") {
            Edge::Cloud
        } else {
            Edge::Kube
        };
        stage.sends(0, edge, &Method::DELETE, &path.replace("ID", &id), "");
        looked(&mut stage, &id, 200);
        assert_eq!(hit(&stage, STALE_VIEW), 0, "{path}");
    }
}
