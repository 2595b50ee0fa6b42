//! What is counted of objects that a cluster tells in several ways: as a workload, as what that makes, and as pods.

use serde_json::{Value, json};

use super::Objects;
use super::read::Reader;
use crate::cli::BadInput;

fn read(items: &[&Value]) -> Result<Objects, BadInput> {
    let mut reader = Reader::default();
    let list = json!({"kind": "List", "items": items});
    reader.read("dump", &list.to_string())?;
    reader.done().map(|(objects, _)| objects)
}

/// The names of all pods, in order, which is the same in whatever order they are read.
fn pods(items: &[Value]) -> Vec<String> {
    let names = |items: &[&Value]| {
        let pods = read(items).unwrap().pods;
        let mut names: Vec<String> = pods.into_iter().filter_map(|pod| pod.metadata.name).collect();
        names.sort();
        names
    };
    let all: Vec<&Value> = items.iter().collect();
    let backwards: Vec<&Value> = items.iter().rev().collect();
    assert_eq!(names(&all), names(&backwards));
    names(&all)
}

/// A workload of so many pods, which has its name as its uid.
fn workload(kind: &str, name: &str, replicas: usize) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "uid": name}, "spec": {
        "replicas": replicas, "selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}})
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}})
}

/// The same object, made by another.
fn of(kind: &str, name: &str, mut object: Value) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": true});
    object["metadata"]["ownerReferences"] = json!([owner]);
    object
}

/// The same object with more fields.
fn with(mut object: Value, more: &Value) -> Value {
    json_patch::merge(&mut object, more);
    object
}

#[test]
fn a_deployment_its_replica_set_and_their_pods_are_counted_once() {
    let deployment = workload("Deployment", "web", 3);
    let set = of("Deployment", "web", workload("ReplicaSet", "web-5d9", 3));
    let old = of("Deployment", "web", workload("ReplicaSet", "web-1c4", 1));
    let one = of("ReplicaSet", "web-5d9", pod("web-5d9-a"));
    let two = of("ReplicaSet", "web-1c4", pod("web-1c4-b"));
    let all = [deployment.clone(), set.clone(), old, one.clone(), two.clone()];
    assert_eq!(pods(&all), ["web-0", "web-1c4-b", "web-5d9-a"]);
    assert_eq!(pods(&[deployment, set.clone()]), ["web-0", "web-1", "web-2"]);
    let without = [set, one, two];
    assert_eq!(
        pods(&without),
        ["web-1c4-b", "web-5d9-0", "web-5d9-1", "web-5d9-a"]
    );
}

#[test]
fn a_pod_tells_its_deployment_where_the_replica_set_was_not_read() {
    let hash = json!({"metadata": {"labels": {"pod-template-hash": "5d9"}}});
    let one = with(of("ReplicaSet", "web-5d9", pod("web-5d9-a")), &hash);
    let deployment = |name: &str| workload("Deployment", name, 2);
    assert_eq!(pods(&[deployment("web"), one.clone()]), ["web-0", "web-5d9-a"]);
    assert_eq!(pods(&[deployment("we"), one]), ["we-0", "we-1", "web-5d9-a"]);
}

#[test]
fn there_are_never_fewer_pods_than_were_read() {
    let set = workload("ReplicaSet", "web", 1);
    let all = ["a", "b"].map(|name| of("ReplicaSet", "web", pod(name)));
    let [one, two] = all;
    assert_eq!(pods(&[set, one, two]), ["a", "b"]);
}

#[test]
fn pods_of_another_workload_that_had_the_name_are_counted_beside_its_own() {
    let again = with(
        workload("ReplicaSet", "web", 1),
        &json!({"metadata": {"uid": "again"}}),
    );
    let unknown = with(
        workload("ReplicaSet", "web", 1),
        &json!({"metadata": {"uid": null}}),
    );
    let elsewhere = with(
        workload("ReplicaSet", "web", 1),
        &json!({"metadata": {"namespace": "b"}}),
    );
    let one = of("ReplicaSet", "web", pod("a"));
    assert_eq!(pods(&[again, one.clone()]), ["a", "web-0"]);
    assert_eq!(pods(&[elsewhere, one.clone()]), ["a", "web-0"]);
    assert_eq!(pods(&[unknown, one]), ["a"], "nobody says that it is another");
}

#[test]
fn a_pod_that_is_over_or_goes_is_made_anew() {
    let set = workload("ReplicaSet", "web", 1);
    for (more, made) in [
        (json!({"status": {"phase": "Failed"}}), true),
        (json!({"status": {"phase": "Succeeded"}}), true),
        (
            json!({"metadata": {"deletionTimestamp": "2026-11-16T10:00:00Z"}}),
            true,
        ),
        (json!({"status": {"phase": "Running"}}), false),
    ] {
        let one = with(of("ReplicaSet", "web", pod("a")), &more);
        let found = pods(&[set.clone(), one]);
        assert_eq!(found.contains(&"web-0".to_owned()), made, "{more}: {found:?}");
    }
}

#[test]
fn of_a_stateful_set_the_pods_are_made_that_were_not_read() {
    let set = workload("StatefulSet", "db", 3);
    let one = of("StatefulSet", "db", pod("db-1"));
    assert_eq!(pods(&[set.clone(), one]), ["db-0", "db-1", "db-2"]);
    let strange = pod("db-1");
    for items in [[&set, &strange], [&strange, &set]] {
        let refused = read(&items).unwrap_err().to_string();
        assert!(refused.contains("Pod db-1: metadata.name: another"), "{refused}");
        assert!(refused.ends_with("StatefulSet db"), "{refused}");
    }
}

#[test]
fn a_job_makes_the_pods_that_have_yet_to_succeed() {
    let job = |more: &Value| {
        let template = json!({"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never"}});
        let job = json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 3, "template": template}});
        pods(&[with(job, more)]).len()
    };
    let condition =
        |of: &str, status: &str| json!({"status": {"conditions": [{"type": of, "status": status}]}});
    for (more, made) in [
        (json!({}), 3),
        (json!({"spec": {"completions": 2}}), 2),
        (json!({"spec": {"completions": 5}, "status": {"succeeded": 4}}), 1),
        (json!({"spec": {"completions": 2}, "status": {"succeeded": 2}}), 0),
        (json!({"status": {"succeeded": 1}}), 0),
        (json!({"spec": {"suspend": true}}), 0),
        (json!({"spec": {"suspend": false}}), 3),
        (condition("Complete", "True"), 0),
        (condition("Failed", "True"), 0),
        (condition("Complete", "False"), 3),
        (condition("Suspended", "True"), 3),
    ] {
        assert_eq!(job(&more), made, "{more}");
    }
}

#[test]
fn a_job_that_a_cron_job_made_stands_for_itself() {
    let cron = json!({"kind": "CronJob", "metadata": {"name": "nightly", "uid": "nightly"}, "spec": {}});
    let job = of("CronJob", "nightly", workload("Job", "nightly-1", 1));
    assert_eq!(pods(&[cron, job]), ["nightly-1-0"]);
}

#[test]
fn on_the_network_of_its_node_a_pod_takes_the_ports_of_its_containers() {
    let host = json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "ports": [
        {"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}]}});
    let set = with(
        workload("Deployment", "web", 1),
        &json!({"spec": {"template": host}}),
    );
    for object in [with(pod("web"), &host), set] {
        let objects = read(&[&object]).unwrap();
        let spec = objects.pods[0].spec.as_ref().unwrap();
        let ports = spec.containers[0].ports.as_ref().unwrap();
        let taken: Vec<Option<i32>> = ports.iter().map(|port| port.host_port).collect();
        assert_eq!(taken, [Some(80), Some(8081)]);
    }
}
