use serde_json::{Value, json};

use super::super::trial::{at, deeds, deleting, named, owned, pod, status, told, with};
use super::*;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(image: &str, strategy: &Value) -> Deployment {
    named(
        "web",
        json!({"metadata": {"annotations": {REVISION: "1"}},
               "spec": {"replicas": 3, "strategy": strategy, "progressDeadlineSeconds": 600,
                        "revisionHistoryLimit": 1, "selector": {"matchLabels": {"app": "web"}},
                        "template": template(image)}}),
    )
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
}

fn set(name: &str, image: &str, replicas: i32, revision: i64) -> ReplicaSet {
    named(
        name,
        json!({"metadata": {"annotations": {REVISION: revision.to_string()}, "ownerReferences": [
                   {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}]},
               "spec": {"replicas": replicas, "selector": {}, "template": template(image)},
               "status": {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                          "observedGeneration": 1}}),
    )
}

fn seen(deployment: Deployment, sets: Vec<ReplicaSet>) -> Next {
    next(&with(with(View::default(), [deployment]), sets), at(100))
}

#[test]
fn a_new_deployment_gets_a_set_of_all_its_replicas() {
    let wanted = seen(deployment("a", &rolling()), vec![]);
    let Act::Create { object, .. } = &wanted.acts[0] else {
        panic!("{wanted:?}")
    };
    let hash = object["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .unwrap();
    assert_eq!(object["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(object["spec"]["replicas"], 3);
    assert_eq!(
        object["spec"]["selector"]["matchLabels"]["pod-template-hash"],
        hash
    );
    assert_eq!(
        object["spec"]["template"]["metadata"]["labels"]["pod-template-hash"],
        hash
    );
    assert_eq!(object["metadata"]["annotations"], json!({REVISION: "1"}));
    let conditions = &status(&wanted, "web")["conditions"];
    assert_eq!(conditions[1]["reason"], "NewReplicaSetCreated");
    assert_eq!(wanted.again_at, Some(at(700)), "when it would be late");
}

#[test]
fn a_new_template_begins_within_the_surge() {
    let wanted = seen(deployment("b", &rolling()), vec![set("web-a", "a", 3, 1)]);
    let Act::Create { object, .. } = &wanted.acts[0] else {
        panic!("{wanted:?}")
    };
    assert_eq!(object["spec"]["replicas"], 1);
    assert_eq!(object["metadata"]["annotations"][REVISION], "2");
}

#[test]
fn going_back_to_an_old_template_takes_its_set_and_a_new_revision() {
    let sets = vec![set("web-a", "a", 0, 1), set("web-b", "b", 3, 2)];
    let wanted = seen(deployment("a", &rolling()), sets);
    assert_eq!(
        told(&wanted),
        [
            r#"patch web-a {"metadata":{"annotations":{"deployment.kubernetes.io/revision":"3"}},"spec":{"replicas":1}}"#,
            r#"patch web {"metadata":{"annotations":{"deployment.kubernetes.io/revision":"3"}}}"#,
        ]
    );
}

#[test]
fn recreating_waits_until_the_last_old_pod_is_gone() {
    let recreate = || deployment("b", &json!({"type": "Recreate"}));
    let wanted = seen(recreate(), vec![set("web-a", "a", 3, 1)]);
    assert_eq!(deeds(&wanted), [r#"patch web-a {"spec":{"replicas":0}}"#]);
    let empty = || set("web-a", "a", 0, 1);
    let going = deleting(owned(pod("p"), "ReplicaSet", "web-a"));
    let view = with(with(with(View::default(), [recreate()]), [empty()]), [going]);
    assert_eq!(deeds(&next(&view, at(100))), Vec::<String>::new());
    let wanted = seen(recreate(), vec![empty()]);
    assert!(
        deeds(&wanted)[0].starts_with("create ReplicaSet web-"),
        "{wanted:?}"
    );
}

#[test]
fn a_paused_deployment_is_scaled_and_nothing_else() {
    let mut paused = deployment("b", &rolling());
    paused.spec.paused = Some(true);
    let wanted = seen(paused, vec![set("web-a", "a", 2, 1)]);
    assert_eq!(deeds(&wanted), [r#"patch web-a {"spec":{"replicas":3}}"#]);
}

#[test]
fn the_status_of_a_complete_rollout_satisfies_kubectl() {
    let wanted = seen(deployment("a", &rolling()), vec![set("web-a", "a", 3, 1)]);
    let status = status(&wanted, "web");
    for field in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(status[field], 3, "{field}");
    }
    assert_eq!(status["observedGeneration"], 1);
    let told: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].clone(), c["status"].clone(), c["reason"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (
                json!("Available"),
                json!("True"),
                json!("MinimumReplicasAvailable")
            ),
            (
                json!("Progressing"),
                json!("True"),
                json!("NewReplicaSetAvailable")
            ),
        ]
    );
    assert_eq!(wanted.again_at, None);
}

/// The deployment as it is after the writes that it wants.
fn after(mut deployment: Deployment, wanted: &Next) -> Deployment {
    let mut value = serde_json::to_value(&deployment).unwrap();
    json_patch::merge(&mut value, &json!({"status": status(wanted, "web")}));
    deployment.status = serde_json::from_value(value["status"].clone()).unwrap();
    deployment
}

#[test]
fn a_status_that_was_written_is_not_written_again() {
    let first = deployment("a", &rolling());
    let sets = vec![set("web-a", "a", 3, 1)];
    let settled = after(first.clone(), &seen(first, sets.clone()));
    assert_eq!(seen(settled, sets), Next::default());
}

#[test]
fn a_rollout_that_does_not_get_on_is_late() {
    let mut stuck = set("web-a", "a", 3, 1);
    stuck.status.as_mut().unwrap().available_replicas = None;
    stuck.status.as_mut().unwrap().ready_replicas = None;
    let first = deployment("a", &rolling());
    let view = |deployment| with(with(View::default(), [deployment]), [stuck.clone()]);
    let begun = after(first.clone(), &next(&view(first), at(100)));
    assert_eq!(next(&view(begun.clone()), at(699)).acts, []);
    let late = next(&view(begun), at(700));
    assert_eq!(
        status(&late, "web")["conditions"][1]["reason"],
        "ProgressDeadlineExceeded"
    );
}

#[test]
fn only_so_many_old_sets_are_kept() {
    let first = deployment("c", &rolling());
    let sets = vec![
        set("web-a", "a", 0, 1),
        set("web-b", "b", 0, 2),
        set("web-c", "c", 3, 3),
    ];
    let mut settled = after(first.clone(), &seen(first, vec![set("web-c", "c", 3, 1)]));
    settled.metadata.annotations = Some([(REVISION.to_owned(), "3".to_owned())].into());
    assert_eq!(deeds(&seen(settled, sets)), ["delete web-a"]);
}
