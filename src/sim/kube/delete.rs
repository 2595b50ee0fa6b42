//! Delete, one or many: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::admission::{self, Admission, Operation};
use super::decode;
use super::definitions;
use super::events;
use super::identity::{self, User};
use super::kind::Kind;
use super::object;
use super::read;
use super::refusal::{About, Refusal};
use super::request::Ask;
use super::schema::Cause;
use super::server::{ApiServer, about, json_response};
use super::store::ObjectKey;
use super::write::{commit, is_finished, remove};
use crate::clock::Clock;

/// How a deletion is meant: from a `DeleteOptions` body or, where there is none, from the query.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    grace: Option<i64>,
    propagation: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
}

impl Manner {
    fn of(ask: &Ask, body: &Bytes) -> Result<Self, Refusal> {
        if body.is_empty() {
            let manner = Self {
                grace: ask.options.grace_period,
                propagation: ask.options.propagation.clone(),
                dry_run: ask.options.dry_run,
                ..Self::default()
            };
            let unknown = ask.options.unknown_dry_run().map(str::to_owned);
            return manner.checked(unknown, None);
        }
        // Where there is a body, nobody looks at the query.
        let options = decode::any(&ask.content_type, body)?;
        if let Some(other) = options["kind"].as_str().filter(|kind| *kind != "DeleteOptions") {
            return Err(Refusal::bad_request(format!("no kind \"{other}\" is registered")));
        }
        let mut manner = Self::default();
        manner.read(&options);
        let dry_runs = options["dryRun"].as_array().into_iter().flatten();
        let unknown = dry_runs
            .filter_map(Value::as_str)
            .find(|value| *value != "All")
            .map(str::to_owned);
        manner.checked(unknown, options["orphanDependents"].as_bool())
    }

    fn checked(self, unknown_dry_run: Option<String>, orphans: Option<bool>) -> Result<Self, Refusal> {
        let mut causes = Vec::new();
        match (self.propagation.as_deref(), orphans) {
            (None, _) | (Some("Background" | "Foreground" | "Orphan"), None) => {}
            (Some(policy), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid("propagationPolicy", &json!(policy), why));
            }
            (Some(other), None) => {
                let known = ["Foreground", "Background", "Orphan"].map(Value::from);
                causes.push(Cause::not_supported("propagationPolicy", &json!(other), &known));
            }
        }
        if let Some(other) = unknown_dry_run {
            causes.push(Cause::not_supported("dryRun", &json!([other]), &[json!("All")]));
        }
        if causes.is_empty() {
            Ok(self)
        } else {
            Err(Refusal::invalid(About::options("DeleteOptions"), causes))
        }
    }

    /// At once, what it owns afterwards.
    pub fn background() -> Self {
        Self {
            propagation: Some("Background".to_owned()),
            ..Self::default()
        }
    }

    /// After everything that it owns.
    pub fn foreground() -> Self {
        Self {
            propagation: Some("Foreground".to_owned()),
            ..Self::default()
        }
    }

    /// Only if it is still at this version.
    pub fn at_version(&mut self, version: &str) {
        self.resource_version = Some(version.to_owned());
    }

    /// The version that it must be at, if one is asked for.
    pub fn version(&self) -> Option<&str> {
        self.resource_version.as_deref()
    }

    /// Whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Do everything but store it.
    pub fn rehearse(&mut self) {
        self.dry_run = true;
    }

    /// Reads a `DeleteOptions` object.
    pub fn read(&mut self, options: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.grace = options["gracePeriodSeconds"].as_i64().or(self.grace);
        self.propagation = text(&options["propagationPolicy"]).or(self.propagation.take());
        self.uid = text(&options["preconditions"]["uid"]);
        self.resource_version = text(&options["preconditions"]["resourceVersion"]);
        self.dry_run |= options["dryRun"]
            .as_array()
            .is_some_and(|values| values.contains(&json!("All")));
    }
}

/// `DELETE` of one object.
pub async fn delete(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let manner = Manner::of(ask, body)?;
    let key = read::key(ask);
    let deleted = delete_object(server, user, kind, &key, &manner).await?;
    Ok(match deleted {
        Deleted::Gone { uid } => {
            let mut details = json!({"name": key.name, "kind": kind.plural, "uid": uid});
            if !kind.group.is_empty() {
                details["group"] = kind.group.as_str().into();
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            json_response(StatusCode::OK, &status)
        }
        Deleted::GoneWithObject(object) | Deleted::Going(object) => {
            json_response(StatusCode::OK, &events::outwards(kind, object))
        }
    })
}

/// `DELETE` of every object that is selected.
pub async fn collection(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    ask: &Ask,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let manner = Manner::of(ask, body)?;
    read::check_fields(kind, ask)?;
    let keys: Vec<ObjectKey> = {
        let state = server.state();
        let namespace = ask.target.namespace.as_deref();
        let selected = state
            .store
            .list(&kind.table(), namespace)
            .filter(|stored| read::selects(ask, stored));
        selected.map(|stored| stored.key.clone()).collect()
    };
    let mut items = Vec::new();
    for key in keys {
        let before = server
            .state()
            .store
            .get(&kind.table(), &key)
            .map(|stored| stored.value());
        match delete_object(server, user, kind, &key, &manner).await {
            Ok(Deleted::Going(object)) => items.push(events::item(kind, object)),
            Ok(_) => items.extend(before.map(|object| events::item(kind, object))),
            Err(refusal) if refusal.code() == 404 => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let revision = server.state().store.revision().to_string();
    let mut list = json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
                          "metadata": {"resourceVersion": revision}, "items": items});
    if kind.custom().is_some() {
        list["metadata"]["continue"] = "".into();
    }
    Ok(json_response(StatusCode::OK, &list))
}

/// What became of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// It is gone.
    Gone {
        /// What it was.
        uid: String,
    },
    /// It is gone, and kinds like pods show what they were.
    GoneWithObject(Value),
    /// It will go when its finalizers or its grace period let it.
    Going(Value),
}

/// Deletes an object, or marks it for deletion.
pub async fn delete_object(
    server: &ApiServer,
    user: &User,
    kind: &Arc<Kind>,
    key: &ObjectKey,
    manner: &Manner,
) -> Result<Deleted, Refusal> {
    let old = {
        let state = server.state();
        let stored = state.store.get(&kind.table(), key);
        stored
            .map(|stored| stored.value())
            .ok_or_else(|| Refusal::not_found(about(kind, &key.name)))?
    };
    check(kind, &old, manner)?;
    let admission = Admission {
        kind,
        user,
        operation: Operation::Delete,
        subresource: None,
        old: Some(&old),
        dry_run: manner.dry_run,
    };
    admission::mutating_webhooks(server, &admission, Value::Null).await?;
    admission::validate(&server.state(), &admission, &old)?;
    admission::validating_webhooks(server, &admission, &old).await?;
    let deleted = {
        let mut state = server.state();
        let Some(current) = state.store.get(&kind.table(), key).map(|stored| stored.value()) else {
            return Err(Refusal::not_found(about(kind, &key.name)));
        };
        check(kind, &current, manner)?;
        let marked = marked(server.clock(), kind, current.clone(), manner);
        // What goes at once never is an object that is being deleted; a pod is, for no time at all.
        let last = if kind.plural == "pods" { &marked } else { &current };
        match (is_finished(&marked), manner.dry_run) {
            (true, true) if shows_what_is_gone(kind) => Deleted::GoneWithObject(last.clone()),
            (true, true) => Deleted::Gone {
                uid: object::uid(&marked).to_owned(),
            },
            (false, true) => Deleted::Going(marked),
            (true, false) => {
                let uid = object::uid(&marked).to_owned();
                let last = remove(&mut state, kind, key, last.clone());
                if shows_what_is_gone(kind) {
                    Deleted::GoneWithObject(last)
                } else {
                    Deleted::Gone { uid }
                }
            }
            (false, false) if marked == current => Deleted::Going(current),
            (false, false) => Deleted::Going(commit(&mut state, kind, marked)?.value()),
        }
    };
    if !manner.dry_run {
        server.announce();
        identity::follow(server, kind, &old);
    }
    Ok(deleted)
}

/// Whether the answer to a deletion shows what was deleted, rather than that it was.
fn shows_what_is_gone(kind: &Kind) -> bool {
    const SHOWN: [&str; 12] = [
        "csidrivers",
        "csinodes",
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "storageclasses",
        "volumeattachments",
    ];
    kind.custom().is_none() && SHOWN.contains(&kind.plural.as_str())
}

/// Whether the object is the one that is meant. A conflict names its kind here, not its resource.
pub(super) fn check(kind: &Kind, object: &Value, manner: &Manner) -> Result<(), Refusal> {
    let conflict = |what: &str, wanted: &str, actual: &str| {
        let about = About {
            group: &kind.group,
            kind: &kind.kind,
            name: object::name(object),
        };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({actual})"
        );
        Err(Refusal::conflict(about, why))
    };
    let (uid, version) = (object::uid(object), object::meta(object, "resourceVersion"));
    match (&manner.uid, &manner.resource_version) {
        (Some(wanted), _) if wanted != uid => conflict("UID", wanted, uid),
        (_, Some(wanted)) if wanted != version => conflict("ResourceVersion", wanted, version),
        _ => Ok(()),
    }
}

/// The object with its deletion written on it.
pub(super) fn marked(clock: &Clock, kind: &Kind, mut object: Value, manner: &Manner) -> Value {
    let grace = grace_seconds(kind, &object, manner);
    let first = !object::is_deleting(&object);
    let is_namespace = kind.custom().is_none() && kind.kind == "Namespace";
    let is_definition = kind.custom().is_none() && kind.kind == "CustomResourceDefinition";
    let shorter = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|left| grace < left);
    let deadline = crate::clock::later(
        clock.now(),
        std::time::Duration::from_secs(u64::try_from(grace).unwrap_or(0)),
    );
    let deadline = jiff::Timestamp::from_second(deadline.as_second())
        .unwrap_or(deadline)
        .to_string();
    let counts = kind.has_generation() && !is_definition;
    let generation = object::generation(&object) + 1;
    let metadata = object::metadata_mut(&mut object);
    if first || shorter {
        metadata.insert("deletionTimestamp".to_owned(), deadline.clone().into());
        if !is_namespace && !is_definition {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
    }
    if first {
        if counts {
            metadata.insert("generation".to_owned(), generation.into());
        }
        if let Some(finalizer) = finalizer(kind, manner) {
            let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = list
                .as_array_mut()
                .filter(|list| !list.contains(&json!(finalizer)))
            {
                list.push(finalizer.into());
            }
        }
    }
    if is_namespace {
        object["status"]["phase"] = "Terminating".into();
    }
    if is_definition && first {
        definitions::terminate(&mut object, &deadline);
    }
    object
}

/// What keeps an object until the collector has seen to what it owns. Jobs and replication controllers let go of their
/// pods unless they are told otherwise: they are older than the collector.
fn finalizer(kind: &Kind, manner: &Manner) -> Option<&'static str> {
    let lets_go = kind.custom().is_none() && matches!(kind.kind.as_str(), "Job" | "ReplicationController");
    match manner.propagation.as_deref() {
        Some("Foreground") => Some("foregroundDeletion"),
        Some("Orphan") => Some("orphan"),
        None if lets_go => Some("orphan"),
        _ => None,
    }
}

/// Pods get the time they ask for to end, if they run on a node; everything else goes at once.
fn grace_seconds(kind: &Kind, object: &Value, manner: &Manner) -> i64 {
    if kind.plural != "pods" || !kind.group.is_empty() {
        return 0;
    }
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() || ended {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(30);
    match manner.grace.unwrap_or(own) {
        negative if negative < 0 => 1,
        grace => grace,
    }
}
