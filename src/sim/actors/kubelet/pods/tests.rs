use serde_json::json;

use super::*;
use crate::sim::actors::kubelet::node::tests::settings;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn machine() -> Pods {
    let allocatable = [("cpu".to_owned(), 2000), ("pods".to_owned(), 10)].into();
    let second = Span::seconds(1, 1);
    let pace = Pace {
        pull: second,
        start: second,
    };
    Pods::new("10.0.0.1", allocatable, pace, Rng::with_seed(1))
}

fn pod(name: &str, annotations: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "500m"}}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn plain(name: &str) -> Value {
    pod(name, &json!({}), &json!({}))
}

fn read(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

fn deleted(mut pod: Value, grace: i64, now: i64) -> Pod {
    pod["metadata"]["deletionTimestamp"] = json!(at(now + grace).to_string());
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    read(&pod)
}

/// What is told at a time, in short.
fn told(pods: &mut Pods, now: i64) -> Vec<String> {
    in_short(pods.next(at(now)))
}

fn in_short(acts: Vec<PodAct>) -> Vec<String> {
    let told = acts.into_iter().map(|act| match act {
        PodAct::Status { key, status, .. } => {
            let ready = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            let reason = status["reason"].as_str().unwrap_or_default();
            let phase = status["phase"].as_str().unwrap();
            let text = format!(
                "{} {phase} {reason}{}",
                key.name,
                if ready { "ready" } else { "" }
            );
            text.trim_end().to_owned()
        }
        PodAct::Delete { key, .. } => format!("{} deleted", key.name),
    });
    told.collect()
}

#[test]
fn a_pod_is_pulled_started_and_ready_and_the_second_needs_no_pull() {
    let mut pods = machine();
    pods.observe(read(&plain("a")), at(0));
    assert_eq!(told(&mut pods, 0), ["a Pending"]);
    assert_eq!(pods.due(at(0)), Some(at(2)));
    assert_eq!(told(&mut pods, 1), [""; 0]);
    assert_eq!(told(&mut pods, 2), ["a Running ready"]);
    assert_eq!(pods.due(at(2)), None);
    pods.observe(read(&plain("b")), at(3));
    told(&mut pods, 3);
    assert_eq!(told(&mut pods, 4), ["b Running ready"]);
}

#[test]
fn readiness_comes_with_its_probe_and_its_gates() {
    let mut pods = machine();
    let container = json!({"name": "main", "image": "app", "readinessProbe": {"initialDelaySeconds": 10}});
    let mut gated = pod(
        "a",
        &json!({}),
        &json!({"containers": [container], "readinessGates": [{"conditionType": "lb"}]}),
    );
    pods.observe(read(&gated), at(0));
    told(&mut pods, 0);
    assert_eq!(told(&mut pods, 2), ["a Running"]);
    assert_eq!(pods.due(at(2)), Some(at(12)));
    assert_eq!(told(&mut pods, 12), ["a Running"]);
    gated["status"] = json!({"conditions": [{"type": "lb", "status": "True"}]});
    pods.observe(read(&gated), at(13));
    assert_eq!(told(&mut pods, 13), ["a Running ready"]);
}

#[test]
fn pods_that_do_not_fit_are_rejected_and_room_comes_back() {
    let mut pods = machine();
    for name in ["a", "b", "c", "d", "e"] {
        pods.observe(read(&plain(name)), at(0));
    }
    assert_eq!(told(&mut pods, 0).last().unwrap(), "e Failed OutOfcpu");
    pods.observe(deleted(plain("a"), 30, 5), at(5));
    told(&mut pods, 7);
    pods.observe(read(&plain("f")), at(8));
    assert_eq!(told(&mut pods, 8), ["f Pending"]);
}

#[test]
fn a_job_ends_by_itself_and_a_service_is_started_again() {
    let mut pods = machine();
    let runs = json!({RUNS_FOR: "30s"});
    let never = pod("job", &runs, &json!({"restartPolicy": "Never"}));
    pods.observe(read(&never), at(0));
    told(&mut pods, 2);
    assert_eq!(told(&mut pods, 32), ["job Succeeded"]);
    let fails = pod(
        "bad",
        &json!({RUNS_FOR: "1s", EXITS_WITH: "3"}),
        &json!({"restartPolicy": "Never"}),
    );
    pods.observe(read(&fails), at(40));
    told(&mut pods, 41);
    assert_eq!(told(&mut pods, 42), ["bad Failed"]);
    pods.observe(
        read(&pod("web", &runs, &json!({"restartPolicy": "Always"}))),
        at(50),
    );
    told(&mut pods, 51);
    assert_eq!(told(&mut pods, 81), ["web Running"]);
    assert_eq!(pods.due(at(81)), Some(at(91)));
    let acts = pods.next(at(91));
    let PodAct::Status { status, .. } = &acts[0] else {
        panic!("{acts:?}");
    };
    assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
}

#[test]
fn a_deleted_pod_takes_as_long_as_it_takes_and_no_longer_than_it_may() {
    for (stops_after, grace, ends, phase) in [
        ("5s", 30, 15, "Succeeded"),
        ("60s", 30, 40, "Failed"),
        ("60s", 0, 10, "Failed"),
    ] {
        let mut pods = machine();
        let slow = pod("a", &json!({STOPS_AFTER: stops_after}), &json!({}));
        pods.observe(read(&slow), at(0));
        told(&mut pods, 2);
        pods.observe(deleted(slow, grace, 10), at(10));
        assert_eq!(pods.due(at(10)), Some(at(ends)), "{stops_after}");
        assert_eq!(
            told(&mut pods, ends),
            [format!("a {phase}"), "a deleted".to_owned()]
        );
        assert_eq!(told(&mut pods, ends + 1), [""; 0]);
    }
}

#[test]
fn a_program_that_is_stopped_before_its_end_has_failed() {
    let fails = json!({RUNS_FOR: "1s", EXITS_WITH: "3"});
    for (annotations, policy, code) in [
        (json!({}), "Never", 143),
        (json!({}), "OnFailure", 143),
        (json!({RUNS_FOR: "60s"}), "Always", 143),
        (json!({STOPS_AFTER: "60s"}), "Never", 137),
        (fails, "OnFailure", 3),
        (json!({}), "Always", 0),
    ] {
        let mut pods = machine();
        let ends = pod("a", &annotations, &json!({"restartPolicy": policy}));
        pods.observe(read(&ends), at(0));
        told(&mut pods, 2);
        told(&mut pods, 3);
        pods.observe(deleted(ends, 30, 5), at(5));
        let acts = pods.next(at(35));
        let PodAct::Status { status, .. } = &acts[0] else {
            panic!("{acts:?}");
        };
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        assert_eq!(status["phase"], phase, "{annotations} {policy}");
        let ended = &status["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(ended["exitCode"], code, "{annotations} {policy}");
    }
}

#[test]
fn a_second_deletion_may_only_shorten_the_first() {
    let mut pods = machine();
    let slow = pod("a", &json!({STOPS_AFTER: "60s"}), &json!({}));
    pods.observe(read(&slow), at(0));
    told(&mut pods, 2);
    pods.observe(deleted(slow.clone(), 30, 10), at(10));
    pods.observe(deleted(slow.clone(), 5, 12), at(12));
    assert_eq!(pods.due(at(12)), Some(at(17)));
    pods.observe(deleted(slow, 30, 13), at(13));
    assert_eq!(pods.due(at(13)), Some(at(17)));
}

#[test]
fn a_pod_that_never_started_goes_at_once_and_one_of_the_past_is_only_deleted() {
    let mut pods = machine();
    pods.observe(read(&plain("a")), at(0));
    pods.observe(deleted(plain("a"), 30, 1), at(1));
    assert_eq!(told(&mut pods, 1), ["a Failed", "a deleted"]);
    let mut past = plain("b");
    past["status"] = json!({"phase": "Failed"});
    pods.observe(read(&past), at(2));
    assert_eq!(told(&mut pods, 2), [""; 0]);
    pods.observe(deleted(past, 30, 3), at(3));
    assert_eq!(told(&mut pods, 3), ["b deleted"]);
}

#[test]
fn a_machine_that_goes_ends_its_pods_and_takes_no_more() {
    let mut pods = machine();
    pods.observe(read(&plain("a")), at(0));
    let critical = json!({"priority": 2_000_001_000});
    pods.observe(read(&pod("system", &json!({}), &critical)), at(0));
    told(&mut pods, 4);
    let mut told_so = settings("");
    told_so.shutdown_grace = Duration::from_secs(25);
    told_so.shutdown_grace_critical = Duration::from_secs(10);
    pods.shut_down(Grace::of(&told_so).unwrap(), at(10));
    pods.observe(read(&plain("late")), at(10));
    assert!(told(&mut pods, 10).contains(&"late Failed NodeShutdown".to_owned()));
    assert_eq!(told(&mut pods, 11), ["a Failed Terminated"]);
    assert_eq!(told(&mut pods, 12), ["system Failed Terminated"]);
    assert_eq!(pods.due(at(12)), None);
}

#[test]
fn a_pod_that_is_not_ready_does_not_become_so_while_its_machine_goes() {
    let mut pods = machine();
    let crashes = json!({RUNS_FOR: "1s", EXITS_WITH: "1", STOPS_AFTER: "9s"});
    pods.observe(read(&pod("crashes", &crashes, &json!({}))), at(0));
    let probed = json!({"name": "main", "image": "app", "readinessProbe": {"initialDelaySeconds": 60}});
    let slow = json!({STOPS_AFTER: "9s"});
    pods.observe(read(&pod("slow", &slow, &json!({"containers": [probed]}))), at(0));
    pods.observe(read(&pod("well", &slow, &json!({}))), at(0));
    told(&mut pods, 2);
    assert_eq!(told(&mut pods, 4), ["crashes Running"], "it is backing off");
    let mut told_so = settings("");
    told_so.shutdown_grace = Duration::from_secs(25);
    pods.shut_down(Grace::of(&told_so).unwrap(), at(5));
    let during = told(&mut pods, 5);
    assert!(
        during.contains(&"crashes Failed Terminated".to_owned()),
        "{during:?}"
    );
    assert!(during.contains(&"slow Running".to_owned()), "{during:?}");
    assert!(during.contains(&"well Running ready".to_owned()), "{during:?}");
    assert_eq!(
        told(&mut pods, 14),
        ["slow Failed Terminated", "well Failed Terminated"]
    );
}

#[test]
fn volumes_come_first_and_are_reported_while_they_are_used() {
    let mut pods = machine();
    let volume = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]);
    let with = pod("a", &json!({}), &json!({"volumes": volume}));
    pods.observe(read(&with), at(0));
    assert_eq!(told(&mut pods, 0), ["a Pending"]);
    let waiting = pods.mounting(at(0));
    assert_eq!(waiting.len(), 1);
    assert_eq!(pods.mounting(at(1)).len(), 0);
    assert_eq!(pods.due(at(1)), Some(at(2)));
    pods.mounted(&waiting[0].0, vec!["v".to_owned()], at(3));
    assert_eq!(pods.volumes(), ["v"]);
    assert_eq!(told(&mut pods, 5), ["a Running ready"]);
    pods.observe(deleted(with, 0, 6), at(6));
    told(&mut pods, 6);
    assert_eq!(pods.volumes(), [""; 0]);
}

#[test]
fn after_a_reboot_pods_start_again_and_count_it() {
    let mut before = plain("a");
    before["status"] = json!({"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "app", "imageID": "", "ready": true, "started": true, "restartCount": 2}]});
    let mut never = pod("b", &json!({}), &json!({"restartPolicy": "Never"}));
    never["status"] = before["status"].clone();
    let mut pods = machine();
    pods.replace(vec![read(&never), read(&before)], at(0));
    let acts = pods.next(at(0));
    let PodAct::Status { status, .. } = &acts[0] else {
        panic!("{acts:?}");
    };
    assert_eq!(status["containerStatuses"][0]["restartCount"], 3);
    assert!(matches!(&acts[1], PodAct::Status { status, .. } if status["phase"] == "Failed"));
}

#[test]
fn what_somebody_else_says_of_a_pod_is_put_right_once() {
    let mut pods = machine();
    let mut shown = plain("a");
    pods.observe(read(&shown), at(0));
    told(&mut pods, 0);
    assert_eq!(told(&mut pods, 2), ["a Running ready"]);
    let mut show = |pods: &mut Pods, phase: &str, ready: &str, now: i64| {
        shown["status"] = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        pods.observe(read(&shown), at(now));
        assert_eq!(told(pods, now), [""; 0], "nobody hears of it");
        in_short(pods.insist(at(now)))
    };
    assert_eq!(show(&mut pods, "Running", "True", 3), [""; 0]);
    assert_eq!(show(&mut pods, "Running", "False", 50), ["a Running ready"]);
    assert_eq!(show(&mut pods, "Running", "True", 51), [""; 0]);
    assert_eq!(show(&mut pods, "Pending", "True", 60), ["a Running ready"]);
    assert_eq!(show(&mut pods, "Failed", "False", 70), [""; 0], "it is over");
}

#[test]
fn what_did_not_get_through_is_told_again_later() {
    let mut pods = machine();
    pods.observe(read(&plain("a")), at(0));
    told(&mut pods, 0);
    let key = key_of(&read(&plain("a")));
    pods.untold(&key, at(0));
    assert_eq!(told(&mut pods, 1), [""; 0]);
    assert_eq!(told(&mut pods, 2), ["a Running ready"]);
    pods.replace(vec![], at(3));
    assert_eq!(pods.due(at(3)), None);
}
