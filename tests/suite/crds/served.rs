//! The corpus on API servers: the embedded one, and the real one where there is one, with our CRDs and with upstream's.
//!
//! Each manifest is created, its status written on the path that is for it, and, where it has two documents, updated.
//! What the folders promise must hold, and both servers must blame the same fields.

use std::cell::Cell;

use http::Request;
use serde_json::{Value, json};

use super::corpus::{Case, cases};
use super::upstream;
use super::{KINDS, Kind};
use crate::cluster::{Answer, Cluster, Who, report_compared};

/// The group that upstream's definitions are moved to, so that they can be served beside ours.
const UPSTREAM_GROUP: &str = "upstream.karpenter.sh";

/// A status and the reasons and fields of its causes.
type Verdict = (u16, Vec<(String, String)>);

/// A resource on a cluster, by the path of its collection, and how many requests were sent there.
struct Place<'a> {
    cluster: &'a Cluster,
    sent: Cell<usize>,
    path: String,
    api_version: String,
}

impl<'a> Place<'a> {
    /// Serves a definition on a cluster.
    async fn serve(cluster: &'a Cluster, definition: &Value) -> Self {
        cluster.define(definition).await;
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let api_version = format!("{}/{}", text(&spec["group"]), text(&spec["versions"][0]["name"]));
        Self {
            cluster,
            sent: Cell::new(0),
            path: format!("/apis/{api_version}/{}", text(&spec["names"]["plural"])),
            api_version,
        }
    }

    async fn send(&self, method: &str, below: &str, object: &Value) -> Answer {
        self.sent.update(|sent| sent + 1);
        let mut object = object.clone();
        if object.is_object() {
            object["apiVersion"] = self.api_version.as_str().into();
        }
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{below}", self.path))
            .header("content-type", "application/json");
        self.cluster
            .send(
                &Who::Admin,
                request.body(object.to_string().into_bytes()).unwrap(),
            )
            .await
    }

    /// Replaces an object, or its status, at the version that it has now.
    async fn replace(&self, below: &str, object: &Value) -> Answer {
        let live = self.send("GET", below, &Value::Null).await.json();
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        self.send("PUT", below, &object).await
    }

    /// Plays a case and clears up after it: what came of its last step, or of the first that was refused.
    async fn play(&self, case: &Case) -> Verdict {
        let first = case.old.as_ref().unwrap_or(&case.object);
        let name = format!("/{}", first["metadata"]["name"].as_str().unwrap());
        let verdict = self.steps(case, first, &name).await;
        self.send("DELETE", &name, &json!({})).await;
        verdict
    }

    async fn steps(&self, case: &Case, first: &Value, name: &str) -> Verdict {
        let mut answer = self.send("POST", "", first).await;
        let status = format!("{name}/status");
        if answer.status.is_success() && first["status"].is_object() {
            answer = self.replace(&status, first).await;
        }
        if answer.status.is_success() && case.old.is_some() {
            answer = self.replace(name, &case.object).await;
            if answer.status.is_success() && case.object["status"].is_object() {
                answer = self.replace(&status, &case.object).await;
            }
        }
        verdict(&answer)
    }
}

fn verdict(answer: &Answer) -> Verdict {
    let body = answer.json();
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<(String, String)> = causes
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or_default().to_owned();
            (text("field"), text("reason"))
        })
        .collect();
    causes.sort();
    causes.dedup();
    (answer.status.as_u16(), causes)
}

/// A definition under another group.
fn moved(mut definition: Value, group: &str) -> Value {
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
    definition["metadata"] = json!({"name": format!("{plural}.{group}")});
    definition["spec"]["group"] = group.into();
    definition
}

fn ours(kind: Kind) -> Value {
    let definitions = karpenter_ibm::api::crd::definitions().unwrap();
    let found = definitions.into_iter().find(|it| it.file_name == kind.crd_file());
    found.unwrap().object
}

/// Plays every case of a kind on every cluster; all must agree, and each verdict must be as promised.
async fn play_all(clusters: &[Cluster], kind: Kind, definition: &Value, promised: impl Fn(&Case) -> Promise) {
    let mut places = Vec::new();
    for cluster in clusters {
        places.push(Place::serve(cluster, definition).await);
    }
    for case in cases(kind) {
        let verdicts = futures::future::join_all(places.iter().map(|place| place.play(&case))).await;
        for (place, (status, causes)) in places.iter().zip(&verdicts) {
            let at = place.cluster.name();
            match promised(&case) {
                Promise::Accepted => assert!(
                    (200..300).contains(status),
                    "{} on {at}: {status} {causes:?}",
                    case.file
                ),
                Promise::Refused(blamed) => {
                    assert!(status / 100 == 4, "{} on {at}: {status}", case.file);
                    let named = blamed.is_none_or(|blamed| causes.iter().any(|(field, _)| *field == blamed));
                    assert!(named, "{} on {at}: blames {causes:?}", case.file);
                }
            }
        }
        for later in &verdicts[1..] {
            assert_eq!(*later, verdicts[0], "{}", case.file);
        }
    }
    if let [first, _real, ..] = places.as_slice() {
        report_compared(kind.folder(), first.sent.get());
    }
}

enum Promise {
    Accepted,
    /// The field to blame, where the corpus promises one.
    Refused(Option<String>),
}

fn clusters() -> Vec<Cluster> {
    [Cluster::embedded()].into_iter().chain(Cluster::real()).collect()
}

#[tokio::test]
async fn our_crds_decide_on_every_server_as_the_corpus_promises() {
    let clusters = clusters();
    for kind in KINDS {
        play_all(&clusters, kind, &ours(kind), |case| match &case.blames {
            None => Promise::Accepted,
            Some(field) if field.is_empty() => Promise::Refused(Some("<nil>".to_owned())),
            Some(field) => Promise::Refused(Some(field.clone())),
        })
        .await;
    }
}

#[tokio::test]
async fn upstreams_crds_decide_on_every_server_as_the_corpus_promises() {
    let clusters = clusters();
    for kind in upstream::KINDS {
        let Some(definition) = upstream::definition(kind) else {
            return;
        };
        let definition = moved(definition, UPSTREAM_GROUP);
        play_all(&clusters, kind, &definition, |case| {
            if case.blames.is_none() == case.addition {
                Promise::Refused(None)
            } else {
                Promise::Accepted
            }
        })
        .await;
    }
}
