use serde_json::{Value, json};

use crate::sim::kube::object;
use crate::sim::kube::trial::{Trial, pod, why};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn secret(name: &str, owners: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "ownerReferences": owners}})
}

fn owner(map: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": object::name(map), "uid": object::uid(map),
           "blockOwnerDeletion": true})
}

async fn exists(trial: &Trial, path: &str) -> bool {
    trial.get(path).await.0 == 200
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_leaves_behind_goes_down_to_the_last() {
    let trial = Trial::new();
    let top = trial.create(MAPS, map("top")).await;
    let mut middle = map("middle");
    middle["metadata"]["ownerReferences"] = json!([owner(&top)]);
    let middle = trial.create(MAPS, middle).await;
    trial
        .create(SECRETS, secret("leaf", &json!([owner(&middle)])))
        .await;
    trial.delete(&format!("{MAPS}/top")).await;
    assert!(!exists(&trial, &format!("{MAPS}/middle")).await);
    assert!(!exists(&trial, &format!("{SECRETS}/leaf")).await);
}

#[tokio::test(start_paused = true)]
async fn one_living_owner_is_enough_and_the_others_are_forgotten() {
    let trial = Trial::new();
    let (a, b) = (
        trial.create(MAPS, map("a")).await,
        trial.create(MAPS, map("b")).await,
    );
    trial
        .create(SECRETS, secret("s", &json!([owner(&a), owner(&b)])))
        .await;
    trial.delete(&format!("{MAPS}/a")).await;
    let (_, left) = trial.get(&format!("{SECRETS}/s")).await;
    let owners = left["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "b");
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_same_name_but_another_uid_is_no_owner() {
    let trial = Trial::new();
    let mut other = owner(&trial.create(MAPS, map("a")).await);
    other["uid"] = "another".into();
    trial.create(SECRETS, secret("s", &json!([other]))).await;
    assert!(!exists(&trial, &format!("{SECRETS}/s")).await);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_keeps_what_it_owns() {
    let trial = Trial::new();
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"});
    trial.create(SECRETS, secret("s", &json!([unknown]))).await;
    assert!(exists(&trial, &format!("{SECRETS}/s")).await);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let trial = Trial::new();
    let a = trial.create(MAPS, map("a")).await;
    trial.create(SECRETS, secret("s", &json!([owner(&a)]))).await;
    trial.delete(&format!("{MAPS}/a?propagationPolicy=Orphan")).await;
    assert!(!exists(&trial, &format!("{MAPS}/a")).await);
    let (_, left) = trial.get(&format!("{SECRETS}/s")).await;
    assert!(left["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_an_owner_waits_for_what_blocks_it() {
    let trial = Trial::new();
    let a = trial.create(MAPS, map("a")).await;
    let mut held = secret("held", &json!([owner(&a)]));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    trial.create(SECRETS, held).await;
    trial.create(SECRETS, secret("free", &json!([owner(&a)]))).await;
    trial
        .delete(&format!("{MAPS}/a?propagationPolicy=Foreground"))
        .await;
    assert!(!exists(&trial, &format!("{SECRETS}/free")).await);
    assert!(exists(&trial, &format!("{MAPS}/a")).await);
    trial
        .put(&format!("{SECRETS}/held"), secret("held", &json!([owner(&a)])))
        .await;
    assert!(!exists(&trial, &format!("{MAPS}/a")).await);
}

#[tokio::test(start_paused = true)]
async fn pods_that_run_somewhere_get_their_grace_period() {
    let trial = Trial::new();
    let a = trial.create(MAPS, map("a")).await;
    let mut running = pod("p");
    running["metadata"]["ownerReferences"] = json!([owner(&a)]);
    running["spec"]["nodeName"] = "n".into();
    trial.create("/api/v1/namespaces/default/pods", running).await;
    trial.delete(&format!("{MAPS}/a")).await;
    let (code, left) = trial.get("/api/v1/namespaces/default/pods/p").await;
    assert_eq!(code, 200);
    assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_along_what_is_in_it_and_waits_for_what_stays() {
    let trial = Trial::new();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    trial.create("/api/v1/namespaces", namespace).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    trial.create(maps, held).await;
    trial.create(maps, map("free")).await;
    let (code, going) = trial.delete("/api/v1/namespaces/n").await;
    assert_eq!(
        (code, going["status"]["phase"].as_str()),
        (200, Some("Terminating"))
    );
    assert!(!exists(&trial, &format!("{maps}/free")).await);
    let (code, answer) = trial.send("POST", maps, map("late")).await;
    assert_eq!(code, 403);
    assert_eq!(
        why(&answer),
        ("Forbidden".to_owned(), vec!["NamespaceTerminating".to_owned()])
    );
    trial.put(&format!("{maps}/held"), map("held")).await;
    assert!(!exists(&trial, "/api/v1/namespaces/n").await);
}

#[tokio::test(start_paused = true)]
async fn jobs_let_go_of_their_pods_unless_told_otherwise() {
    let trial = Trial::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
    let made = trial.create(jobs, job).await;
    let mut owned = pod("p");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": object::uid(&made)}]);
    trial.create("/api/v1/namespaces/default/pods", owned).await;
    trial.delete(&format!("{jobs}/j")).await;
    assert!(!exists(&trial, &format!("{jobs}/j")).await);
    assert!(exists(&trial, "/api/v1/namespaces/default/pods/p").await);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_a_namespace_is_taken_off_where_finalizers_are() {
    let trial = Trial::new();
    let namespace = |finalizers: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": finalizers}});
    trial
        .create("/api/v1/namespaces", namespace(json!(["example.com/hold"])))
        .await;
    trial.delete("/api/v1/namespaces/n").await;
    let unchanged = trial.put("/api/v1/namespaces/n", namespace(json!([]))).await;
    assert_eq!(unchanged["spec"]["finalizers"], json!(["example.com/hold"]));
    trial
        .put("/api/v1/namespaces/n/finalize", namespace(json!([])))
        .await;
    assert!(!exists(&trial, "/api/v1/namespaces/n").await);
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_along_what_it_defines() {
    let trial = Trial::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    trial.create(definitions, crd).await;
    let things = "/apis/example.com/v1/things";
    let thing = |name: &str, finalizers: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "finalizers": finalizers}});
    trial.create(things, thing("free", json!([]))).await;
    let mut held = trial
        .create(things, thing("held", json!(["example.com/hold"])))
        .await;
    trial.delete(&format!("{definitions}/things.example.com")).await;
    assert!(!exists(&trial, &format!("{things}/free")).await);
    assert_eq!(trial.send("POST", things, thing("late", json!([]))).await.0, 403);
    held["metadata"]["finalizers"] = json!([]);
    held["metadata"]["resourceVersion"] =
        trial.get(&format!("{things}/held")).await.1["metadata"]["resourceVersion"].clone();
    trial.put(&format!("{things}/held"), held).await;
    assert!(!exists(&trial, &format!("{definitions}/things.example.com")).await);
    assert_eq!(trial.get(things).await.0, 404);
}
