use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::super::stage::Stage;
use super::*;
use crate::sim::kube::write;

const EVICTION: &str = "/api/v1/namespaces/default/pods/p/eviction";
const POD: &str = "/api/v1/namespaces/default/pods/p";

/// A claim that is being deleted, its machine that runs, and its Node; the path of the machine.
async fn leaving(stage: &mut Stage, taints: Value) -> String {
    let path = settled_in(stage, taints).await;
    stage.delete("a").await;
    path
}

/// The same of a claim that is not.
async fn settled_in(stage: &mut Stage, taints: Value) -> String {
    let uid = stage.claim("a").await;
    let id = stage.machine(&stage.name_of(&uid)).await;
    stage.pass(200).await;
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "spec": {"providerID": format!("ibm:///us-south/{id}"), "taints": taints},
        }),
    );
    format!("/v1/instances/{id}")
}

/// A replica asks who is on the Node, and is told.
fn lists(stage: &mut Stage, query: &str) {
    let number = stage.asks(0, PODS, query);
    stage.hears(0, number, Some(200), r#"{"items":[]}"#);
}

const ON_IT: &str = "&fieldSelector=spec.nodeName%3Da";

fn taint() -> Value {
    json!([{"key": DISRUPTED_TAINT, "effect": "NoSchedule"}])
}

fn pod(stage: &Stage, tolerations: &Value) {
    write::insert(
        &stage.server,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"nodeName": "a", "containers": [], "tolerations": tolerations},
        }),
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_goes_when_its_node_was_tainted_and_is_empty() {
    let mut stage = Stage::new().await;
    let path = leaving(&mut stage, taint()).await;
    stage.look();
    pod(&stage, &json!([{"operator": "Exists"}]));
    stage.pass(5).await;
    lists(&mut stage, ON_IT);
    stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
    assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
}

#[tokio::test(start_paused = true)]
async fn not_right_after_the_taint_and_not_without_one() {
    for taints in [taint(), json!([])] {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taints).await;
        stage.look();
        stage.pass(4).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), ["S7"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nor_without_a_whole_list_of_its_pods_from_five_seconds_after_it() {
    for (query, at, blamed) in [
        (ON_IT, 4, &["S7"][..]),
        (ON_IT, 5, &[]),
        ("", 5, &[]),
        ("&fieldSelector=spec.nodeName%3Db", 5, &["S7"]),
        ("limit=1&fieldSelector=spec.nodeName%3Da", 5, &["S7"]),
    ] {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        stage.pass(at).await;
        lists(&mut stage, query);
        stage.pass(10).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), blamed, "{query} {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_off_counts_for_nothing_unless_somebody_else_took_it_off() {
    for (meddled, blamed) in [(false, &["S7"][..]), (true, &[])] {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        stage.pass(5).await;
        if meddled {
            stage.struck("k14-remove-taints", "nodes/a");
        }
        lists(&mut stage, ON_IT);
        let nodes: Api<Node> = Api::all(stage.server.admin());
        for taints in [json!([]), taint()] {
            let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
            nodes.patch("a", &PatchParams::default(), &patch).await.unwrap();
            stage.look();
        }
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), blamed, "{meddled}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_made_to_leave_a_node_that_stays() {
    let named = |uid: &str| {
        let named = json!({"uid": uid, "resourceVersion": "2"});
        json!({"deleteOptions": {"preconditions": named}}).to_string()
    };
    for (goes, its_own, blamed) in [(true, true, &[][..]), (false, true, &["S3"]), (false, false, &[])] {
        let mut stage = Stage::new().await;
        settled_in(&mut stage, taint()).await;
        if goes {
            stage.delete("a").await;
        }
        pod(&stage, &json!([]));
        let uid = stage.uid_of_pod("p");
        let meant = if its_own { uid.as_str() } else { "another" };
        stage.sends(0, Edge::Kube, &Method::POST, EVICTION, &named(meant));
        assert_eq!(stage.blamed(), blamed, "{goes} {its_own}");
    }
}

#[tokio::test(start_paused = true)]
async fn nor_one_of_somebody_else_but_that_of_a_claim_that_was_forced_out() {
    for (name, blamed) in [("b", &["S3"][..]), ("a", &[])] {
        let mut stage = Stage::new().await;
        stage.claim("a").await;
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "spec": {"providerID": "other:///machine"},
            }),
        );
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                "spec": {"nodeName": name, "containers": []},
            }),
        );
        let named = r#"{"deleteOptions":{"preconditions":{"uid":null,"resourceVersion":"2"}}}"#;
        stage.sends(0, Edge::Kube, &Method::POST, EVICTION, named);
        let mut all = stage.blamed();
        all.retain(|id| *id == "S3");
        assert_eq!(all, blamed, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn not_while_a_pod_is_there_that_must_leave() {
    let mut stage = Stage::new().await;
    let path = leaving(&mut stage, taint()).await;
    stage.look();
    pod(&stage, &json!([]));
    stage.pass(5).await;
    lists(&mut stage, ON_IT);
    stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
    assert_eq!(stage.blamed(), ["S9"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_after_its_machine_was_asked_to_go_is_lost() {
    let mut stage = Stage::new().await;
    let path = leaving(&mut stage, taint()).await;
    stage.look();
    stage.pass(5).await;
    lists(&mut stage, ON_IT);
    stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
    pod(&stage, &json!([]));
    stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
    assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
}

#[tokio::test(start_paused = true)]
async fn not_while_a_volume_is_attached_unless_its_time_is_over() {
    for (deadline, blamed) in [
        ("2026-11-16T11:00:00Z", &["S9"][..]),
        ("2026-11-16T10:03:00Z", &[]),
    ] {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        stage.look();
        write::insert(
            &stage.server,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "v"},
                "spec": {"nodeName": "a", "attacher": "x", "source": {"persistentVolumeName": "pv"}},
            }),
        );
        let annotations = json!({TERMINATION_TIMESTAMP: deadline});
        stage
            .patch("a", json!({"metadata": {"annotations": annotations}}))
            .await;
        stage.pass(5).await;
        lists(&mut stage, ON_IT);
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed(), blamed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_says_which_pod_is_meant() {
    let mut stage = Stage::new().await;
    leaving(&mut stage, taint()).await;
    pod(&stage, &json!([]));
    let named = r#"{"deleteOptions":{"preconditions":{"uid":"1","resourceVersion":"2"}}}"#;
    stage.sends(0, Edge::Kube, &Method::POST, EVICTION, named);
    assert!(stage.blamed().is_empty());
    stage.sends(0, Edge::Kube, &Method::POST, EVICTION, "{}");
    assert_eq!(stage.blamed(), ["S7"]);
}

#[test]
fn a_pod_that_is_not_to_be_disturbed_is_protected_ever_or_for_a_time_after_it_started() {
    let now: Timestamp = "2026-11-16T10:03:20Z".parse().unwrap();
    let is_protected = |wish: &str, started: Option<&str>| {
        let pod = json!({
            "metadata": {"annotations": {DO_NOT_DISRUPT: wish}}, "status": {"startTime": started},
        });
        super::is_protected(&pod, now)
    };
    let started = Some("2026-11-16T10:00:00Z");
    assert!(is_protected("true", started) && is_protected("10m", started));
    assert!(is_protected("0.1h", started) && !is_protected("500ms", started));
    assert!(!is_protected("2m", started) && !is_protected("soon", started) && !is_protected("0s", started));
    assert!(is_protected("2m", None), "it has not started yet");
    assert!(!super::is_protected(&json!({}), now));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_deleted_only_when_no_more_time_is_left_than_its_own() {
    let mut stage = Stage::new().await;
    leaving(&mut stage, taint()).await;
    pod(&stage, &json!([]));
    stage.sends(0, Edge::Kube, &Method::DELETE, POD, "");
    assert_eq!(stage.blamed(), ["S6"], "nobody said how long it may take");
    let mut stage = Stage::new().await;
    leaving(&mut stage, taint()).await;
    pod(&stage, &json!([]));
    let deadline = json!({TERMINATION_TIMESTAMP: "2026-11-16T10:04:00Z"});
    stage
        .patch("a", json!({"metadata": {"annotations": deadline}}))
        .await;
    stage.pass(15).await;
    stage.sends(0, Edge::Kube, &Method::DELETE, POD, "");
    assert!(stage.blamed().is_empty(), "{:?}", stage.judge.violations());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_leaves_is_left_its_time_but_for_what_lies_after_its_nodes() {
    // The stage stands at 10:03:20, and the Node has 1000 seconds.
    for (own, passed, given, blamed) in [
        (400, 0, 0, &["S6"][..]),
        (400, 0, 390, &["S6"]),
        (400, 0, 400, &[]),
        (1600, 0, 1000, &[]),
        (10, 30, 0, &[]),
    ] {
        let mut stage = Stage::new().await;
        leaving(&mut stage, taint()).await;
        let deadline = json!({TERMINATION_TIMESTAMP: "2026-11-16T10:20:00Z"});
        stage
            .patch("a", json!({"metadata": {"annotations": deadline}}))
            .await;
        pod(&stage, &json!([]));
        let pods: Api<Pod> = Api::default_namespaced(stage.server.admin());
        let params = DeleteParams::default().grace_period(own);
        pods.delete("p", &params).await.unwrap();
        stage.pass(passed).await;
        let options = json!({"gracePeriodSeconds": given}).to_string();
        stage.sends(0, Edge::Kube, &Method::DELETE, POD, &options);
        assert_eq!(stage.blamed(), blamed, "{own} {given}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_off_a_moment_ago_may_go_with_all_that_is_on_it() {
    for (back_for, blamed) in [(30, false), (120, true)] {
        let mut stage = Stage::new().await;
        let path = leaving(&mut stage, taint()).await;
        pod(&stage, &json!([]));
        stage.cloud.stop(path.rsplit('/').next().unwrap()).unwrap();
        stage.pass(100).await;
        let actions = format!("{path}/actions");
        stage
            .cloud_says(Method::POST, &actions, r#"{"type":"start"}"#)
            .await;
        stage.see_cloud();
        stage.pass(back_for).await;
        stage.sends(0, Edge::Cloud, &Method::DELETE, &path, "");
        assert_eq!(stage.blamed().contains(&"S9"), blamed, "{back_for}");
    }
}
