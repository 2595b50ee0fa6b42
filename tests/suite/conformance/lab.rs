//! Sends each request to every cluster at hand, in lockstep, and compares what they answer.
//!
//! A path names a resource as people do (`pods/a/eviction`), below the lab's own namespace where the kind has one. In
//! paths and bodies `$ns` stands for that namespace, and `$made.metadata.uid` for a field of the answer that was kept
//! as `made`, each cluster's own.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use futures::future::join_all;
use http::{Method, Request};
use regex::Regex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::compare::{Also, Pairs, differences, essence};
use super::resources::Resource;
use super::widgets;
use crate::cluster::{Answer, Cluster, Who, report_compared};

/// How long a real cluster's controllers may take to do what they always do.
const PATIENCE: Duration = Duration::from_secs(30);

static PLACEHOLDER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$([a-z][a-z0-9]*)((?:\.[A-Za-z0-9_-]+)*)").unwrap());

/// The clusters, a namespace of their own in each, and what was seen so far.
pub(super) struct Lab {
    subject: String,
    namespace: String,
    legs: Vec<Leg>,
    also: Also,
    pairs: Pairs,
    compared: usize,
    transcript: Vec<String>,
    complaints: Vec<String>,
}

struct Leg {
    cluster: Cluster,
    kept: BTreeMap<String, Value>,
}

/// How often a request is sent.
#[derive(Clone, PartialEq, Eq)]
enum Tries {
    Once,
    /// Until the answer is as expected: what controllers do takes a while.
    UntilExpected,
    /// Until it also has something at this place.
    UntilThere(&'static str),
    /// Until it also has everything that this has.
    UntilLike(Value),
}

/// A request that is still to be sent.
pub(super) struct Step<'lab> {
    lab: &'lab mut Lab,
    method: Method,
    path: String,
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
    who: Who,
    keep: Option<String>,
    tries: Tries,
}

impl Lab {
    /// A lab with a fresh namespace, the same in each cluster.
    pub(super) async fn open(subject: &str) -> Self {
        let mut lab = Self {
            subject: subject.to_owned(),
            namespace: String::new(),
            legs: Vec::new(),
            also: Also::default(),
            pairs: Pairs::default(),
            compared: 0,
            transcript: Vec::new(),
            complaints: Vec::new(),
        };
        for cluster in Cluster::real().into_iter().chain([Cluster::embedded()]) {
            lab.furnish(&cluster).await;
            lab.legs.push(Leg {
                cluster,
                kept: BTreeMap::new(),
            });
        }
        lab.legs.reverse();
        lab
    }

    /// A lab whose clusters know the suite's own kind.
    pub(super) async fn with_widgets(subject: &str) -> Self {
        let lab = Self::open(subject).await;
        for leg in &lab.legs {
            leg.cluster.define(&widgets::definition()).await;
        }
        lab
    }

    /// Compares the record of who owns which field, too.
    pub(super) fn compare_ownership(&mut self) {
        self.also.ownership = true;
    }

    /// Compares how many warnings come along, too.
    pub(super) fn compare_warnings(&mut self) {
        self.also.warnings = true;
    }

    /// How many requests were sent so far.
    pub(super) fn requests(&self) -> usize {
        self.transcript.len()
    }

    /// Whether everything was as expected so far.
    pub(super) fn is_content(&self) -> bool {
        self.complaints.is_empty()
    }

    pub(super) fn get(&mut self, path: &str) -> Step<'_> {
        self.step(Method::GET, path, Vec::new())
    }

    pub(super) fn post(&mut self, path: &str, object: &Value) -> Step<'_> {
        self.step(Method::POST, path, object.to_string().into_bytes())
    }

    pub(super) fn put(&mut self, path: &str, object: &Value) -> Step<'_> {
        self.step(Method::PUT, path, object.to_string().into_bytes())
    }

    pub(super) fn delete(&mut self, path: &str) -> Step<'_> {
        self.step(Method::DELETE, path, Vec::new())
    }

    /// A delete with options, such as preconditions.
    pub(super) fn delete_with(&mut self, path: &str, options: &Value) -> Step<'_> {
        self.step(Method::DELETE, path, options.to_string().into_bytes())
    }

    /// RFC 6902.
    pub(super) fn json_patch(&mut self, path: &str, operations: &Value) -> Step<'_> {
        self.patch(path, "application/json-patch+json", operations)
    }

    /// RFC 7396.
    pub(super) fn merge_patch(&mut self, path: &str, patch: &Value) -> Step<'_> {
        self.patch(path, "application/merge-patch+json", patch)
    }

    /// Kubernetes' own, by the shape of the kind.
    pub(super) fn strategic_patch(&mut self, path: &str, patch: &Value) -> Step<'_> {
        self.patch(path, "application/strategic-merge-patch+json", patch)
    }

    /// Server-side apply as a field manager; the path's query may say `force=true`.
    pub(super) fn apply(&mut self, manager: &str, path: &str, object: &Value) -> Step<'_> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}fieldManager={manager}");
        self.patch(&path, "application/apply-patch+yaml", object)
    }

    /// Any request whatever.
    pub(super) fn step(&mut self, method: Method, path: &str, body: Vec<u8>) -> Step<'_> {
        Step {
            lab: self,
            method,
            path: path.to_owned(),
            body,
            headers: vec![("accept", "application/json".to_owned())],
            who: Who::Admin,
            keep: None,
            tries: Tries::Once,
        }
    }

    fn patch(&mut self, path: &str, content_type: &'static str, patch: &Value) -> Step<'_> {
        self.step(Method::PATCH, path, patch.to_string().into_bytes())
            .header("content-type", content_type)
    }

    /// Makes the namespace, and waits for the account that pods need in it.
    async fn furnish(&mut self, cluster: &Cluster) {
        let mut metadata = json!({"generateName": format!("{}-", self.subject)});
        if !self.namespace.is_empty() {
            metadata["name"] = self.namespace.clone().into();
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let request = plain(Method::POST, "/api/v1/namespaces", namespace.to_string());
        let made = cluster.send(&Who::Admin, request).await.json();
        self.namespace = made["metadata"]["name"]
            .as_str()
            .unwrap_or_else(|| panic!("{made}"))
            .to_owned();
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.namespace);
        let until = Instant::now() + PATIENCE;
        while cluster
            .send(&Who::Admin, plain(Method::GET, &account, String::new()))
            .await
            .status
            != http::StatusCode::OK
        {
            assert!(
                Instant::now() < until,
                "{} makes no default ServiceAccount",
                cluster.name()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn plain(method: Method, uri: &str, body: String) -> Request<Vec<u8>> {
    let request = Request::builder().method(method).uri(uri);
    request
        .header("content-type", "application/json")
        .body(body.into_bytes())
        .unwrap()
}

impl Drop for Lab {
    /// The verdict, whichever way the test ends.
    fn drop(&mut self) {
        let alone = self.legs.len() < 2;
        if std::thread::panicking() || alone && self.is_content() {
            return;
        }
        assert!(
            self.complaints.is_empty(),
            "{}: {} of {} requests went otherwise\n\n{}",
            self.namespace,
            self.complaints.len(),
            self.compared,
            self.complaints.join("\n\n")
        );
        report_compared(&self.subject, self.compared);
    }
}

impl Step<'_> {
    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Asks for a table, as `kubectl get` does.
    pub(super) fn for_table(self) -> Self {
        self.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    }

    /// Asks for metadata alone.
    pub(super) fn for_metadata(self) -> Self {
        self.header(
            "accept",
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        )
    }

    /// Asks for the metadata of a list alone.
    pub(super) fn for_metadata_list(self) -> Self {
        self.header(
            "accept",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )
    }

    /// Asks as the administrator in the place of somebody else.
    pub(super) fn on_behalf_of(self, user: &str) -> Self {
        self.header("impersonate-user", user)
    }

    /// Asks with a token, which may be a placeholder.
    pub(super) fn bearing(mut self, token: &str) -> Self {
        self.who = Who::Bearer(token.to_owned());
        self
    }

    /// Asks without any credential.
    pub(super) fn by_nobody(mut self) -> Self {
        self.who = Who::Nobody;
        self
    }

    /// Remembers the answer under a name.
    pub(super) fn keep(mut self, name: &str) -> Self {
        self.keep = Some(name.to_owned());
        self
    }

    /// Sends it until the answer is as expected.
    pub(super) fn eventually(mut self) -> Self {
        self.tries = Tries::UntilExpected;
        self
    }

    /// Sends it until the answer is as expected and has something at a place.
    pub(super) fn until(mut self, pointer: &'static str) -> Self {
        self.tries = Tries::UntilThere(pointer);
        self
    }

    /// Sends it until the answer is as expected and has all of these fields with these values.
    pub(super) fn until_like(mut self, fields: Value) -> Self {
        self.tries = Tries::UntilLike(fields);
        self
    }

    /// Sends it. `expected` is the status, optionally the reason, and optionally the fields of all causes, in order.
    pub(super) async fn is(self, expected: &str) {
        self.run(Some(expected)).await;
    }

    /// Sends it, whatever comes of it: only the two answers are compared. The status, as the embedded one has it.
    pub(super) async fn compare(self) -> u16 {
        self.run(None).await
    }

    async fn run(self, expected: Option<&str>) -> u16 {
        let Self {
            lab,
            method,
            path,
            body,
            headers,
            who,
            keep,
            tries,
        } = self;
        let shown = format!(
            "{method} {path} {}{}",
            headers_shown(&headers),
            String::from_utf8_lossy(&body)
        );
        lab.transcript.push(shown.clone());
        let namespace = lab.namespace.clone();
        let answers = join_all(lab.legs.iter().map(|leg| {
            let uri = uri(&namespace, &leg.fill(&namespace, &path, Context::Uri));
            let body = leg.fill(&namespace, &String::from_utf8_lossy(&body), Context::Body);
            let who = match &who {
                Who::Bearer(token) => Who::Bearer(leg.fill(&namespace, token, Context::Body)),
                other => other.clone(),
            };
            let mut request = Request::builder().method(method.clone()).uri(uri);
            if !headers.iter().any(|(name, _)| *name == "content-type") && !body.is_empty() {
                request = request.header("content-type", "application/json");
            }
            for (name, value) in &headers {
                request = request.header(*name, leg.fill(&namespace, value, Context::Body));
            }
            let request = request.body(body.into_bytes()).unwrap();
            send(&leg.cluster, who, request, tries.clone(), expected)
        }))
        .await;
        lab.judge(&shown, expected, keep.as_deref(), &answers)
    }
}

fn headers_shown(headers: &[(&str, String)]) -> String {
    headers
        .iter()
        .filter(|(name, value)| *name != "accept" || value != "application/json")
        .fold(String::new(), |shown, (name, value)| {
            format!("{shown}({name}: {value}) ")
        })
}

/// Sends a request: once, or until the answer is the one wanted.
async fn send(
    cluster: &Cluster,
    who: Who,
    request: Request<Vec<u8>>,
    tries: Tries,
    expected: Option<&str>,
) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = cluster.send(&who, request.clone()).await;
        let fits = expected.is_none_or(|expected| fits(&answer, expected).is_ok());
        let done = match &tries {
            Tries::Once => true,
            Tries::UntilExpected => fits,
            Tries::UntilThere(pointer) => fits && answer.json().pointer(pointer).is_some(),
            Tries::UntilLike(fields) => fits && has(&answer.json(), fields),
        };
        if done || Instant::now() > until {
            return answer;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a value has all fields of another, with the same values.
fn has(value: &Value, fields: &Value) -> bool {
    match fields {
        Value::Object(fields) => fields.iter().all(|(name, field)| has(&value[name], field)),
        other => value == other,
    }
}

/// Whether an answer is as expected; else what it is.
fn fits(answer: &Answer, expected: &str) -> Result<(), String> {
    let body = answer.json();
    let code = answer.status.as_u16().to_string();
    let reason = body["reason"].as_str().filter(|_| body["kind"] == "Status");
    let causes = body["details"]["causes"].as_array();
    let mut fields: Vec<&str> = causes
        .into_iter()
        .flatten()
        .map(|cause| cause["field"].as_str().unwrap_or("-"))
        .collect();
    fields.sort_unstable();
    let mut is: Vec<&str> = [code.as_str()].into_iter().chain(reason).chain(fields).collect();
    let words: Vec<&str> = expected.split(' ').collect();
    // What is not said is not asked: a status alone, or a status and a reason.
    if words.len() <= 2 {
        is.truncate(words.len());
    }
    if is == words {
        return Ok(());
    }
    Err(format!(
        "{} {}",
        is.join(" "),
        body["message"].as_str().unwrap_or_default()
    ))
}

/// The path on the wire.
fn uri(namespace: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (plural, rest) = path.split_at(end);
    Resource::find(plural).collection(namespace) + rest
}

/// Where a placeholder stands, and so how its value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Uri,
    Body,
}

impl Leg {
    /// A text with its placeholders replaced by what this cluster said.
    fn fill(&self, namespace: &str, text: &str, context: Context) -> String {
        PLACEHOLDER
            .replace_all(text, |found: &regex::Captures<'_>| {
                let (name, path) = (&found[1], &found[2]);
                if name == "ns" {
                    return format!("{namespace}{path}");
                }
                let Some(kept) = self.kept.get(name) else {
                    return found[0].to_owned();
                };
                let value = kept.pointer(&path.replace('.', "/"));
                match (value, context) {
                    (Some(Value::String(text)), Context::Uri) => {
                        form_urlencoded::byte_serialize(text.as_bytes()).collect()
                    }
                    (Some(Value::String(text)), Context::Body) => text.clone(),
                    (Some(other), _) => other.to_string(),
                    (None, _) => "missing".to_owned(),
                }
            })
            .into_owned()
    }
}

impl Lab {
    /// Compares answers with each other and with what was expected. The first one's status.
    fn judge(&mut self, shown: &str, expected: Option<&str>, keep: Option<&str>, answers: &[Answer]) -> u16 {
        let mut complaints = Vec::new();
        let mut essences = Vec::new();
        for (leg, answer) in self.legs.iter_mut().zip(answers) {
            if let Some(Err(is)) = expected.map(|expected| fits(answer, expected)) {
                complaints.push(format!("{} answers {is}", leg.cluster.name()));
            }
            essences.push(essence(answer, self.also));
            if let Some(name) = keep {
                leg.kept.insert(name.to_owned(), answer.json());
            }
        }
        if let [embedded, real] = essences.as_slice() {
            // Of two answers that are not even of one status, the rest differs anyway.
            let same_status = embedded["status"] == real["status"];
            let found = differences(&mut self.pairs, embedded, real);
            complaints.extend(
                found
                    .into_iter()
                    .filter(|line| same_status || !line.starts_with("/body")),
            );
            self.compared += 1;
        }
        if !complaints.is_empty() {
            let expectation = expected.map_or(String::new(), |expected| format!("\n  expected {expected}"));
            let texts: Vec<String> = answers
                .iter()
                .filter_map(|answer| Some(format!("\n  ({})", answer.json()["message"].as_str()?)))
                .collect();
            self.complaints.push(format!(
                "{shown}{expectation}\n  {}{}",
                complaints.join("\n  "),
                texts.concat()
            ));
        }
        answers[0].status.as_u16()
    }

    /// Puts how it came to the complaints in front of them: every request about the same objects.
    pub(super) fn tell_how(&mut self, title: &str) {
        let about = |shown: &str| shown.split([' ', '?']).nth(1).map(str::to_owned);
        let Some(last) = self.transcript.last().and_then(|last| about(last)) else {
            return;
        };
        let object = last.split('/').take(2).collect::<Vec<_>>().join("/");
        let plural = last.split('/').next().unwrap_or_default();
        let told: Vec<&str> = self
            .transcript
            .iter()
            .filter(|shown| about(shown).is_some_and(|path| path.starts_with(&object) || path == plural))
            .map(String::as_str)
            .collect();
        self.complaints.insert(0, format!("{title}\n{}", told.join("\n")));
    }
}
